//! Blocks of stripes that are written again and again are kept in memory. After each step they are
//! compared with the disks, and memory that the engine calls free is spoilt.

use super::*;
use crate::checks;

const LEVELS: [(Level, usize); 3] = [(Level::Raid4, 4), (Level::Raid5, 6), (Level::Raid6, 7)];

fn world(seed: u64, (level, members): (Level, usize), warm_blocks: u32, whole: bool) -> World {
    let keeps = scenario(level, members, Consistency::Journal);
    play(seed, Scenario { whole_entries: whole, warm_blocks, ..keeps })
}

fn warm(world: &World) -> u64 {
    world.engine().counters().warm_blocks
}

#[test]
fn what_is_written_again_is_not_read_again() {
    for (level, members, reads) in
        [(Level::Raid5, 4, 2), (Level::Raid5, 6, 2), (Level::Raid6, 7, 3)]
    {
        let mut world = world(1, (level, members), 64, false);
        let found = [(); 4].map(|()| {
            world.write_one(0);
            warm(&world)
        });
        assert_eq!(found, [0, 0, reads, 2 * reads], "{level:?} of {members}");
    }
}

/// Small writes of a few stripes, several at a time, that overlap, merge, fill rows and write zeroes.
#[test]
fn writes_of_all_shapes_find_what_is_at_home() {
    for (level, room, whole) in LEVELS
        .into_iter()
        .flat_map(|level| [(level, 6, false), (level, 40, true), (level, 200, false)])
    {
        for seed in 0..20 {
            let mut world = world(seed, level, room, whole);
            for _ in 0..60 {
                for tag in 0..1 + world.source.below(6) as u16 {
                    let blocks = world.source.one_of(&[1, 1, 2, 3, 6, 12]);
                    let lba = Lba(world.source.below(40));
                    let op =
                        world.source.one_of(&[Op::Write, Op::Write, Op::Write, Op::WriteZeroes]);
                    let fua = false;
                    world.begin_request(Request { tag: Tag(tag), op, lba, blocks, fua });
                }
                world.drain();
            }
            assert!(warm(&world) > 0);
            checks::parity::agrees(&world);
            world.verify();
        }
    }
}

#[test]
fn what_is_discarded_is_not_what_was_written_before() {
    for level in LEVELS {
        let mut world = world(1, level, 64, false);
        for _ in 0..3 {
            world.write_one(0);
        }
        let stripe = world.engine().geometry().stripe_blocks();
        world.ask(0, Op::Discard, 0, stripe);
        world.drain();
        assert_eq!(world.engine().held_blocks().count(), 0);
        for _ in 0..3 {
            world.write_one(1);
        }
        checks::parity::agrees(&world);
        world.verify();
    }
}

#[test]
fn memory_is_given_back_when_nothing_is_written_any_more() {
    for consistency in [Consistency::Journal, Consistency::Bitmap, Consistency::Resync] {
        let keeps = scenario(Level::Raid5, 4, consistency);
        let mut world = play(1, Scenario { warm_blocks: 64, ..keeps });
        for _ in 0..3 {
            world.write_one(0);
        }
        let all = usize::from(world.engine().scratch_buffers());
        assert!(world.engine().free_scratch().count() < all, "{consistency:?}");
        world.until(|world| world.engine().free_scratch().count() == all);
        assert_eq!(world.engine().held_blocks().count(), 0);
    }
}
