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

/// Makes a block one that is written again and again; tells the member that has it.
fn heat(world: &mut World, lba: u64) -> MemberId {
    for _ in 0..3 {
        world.write_one(lba);
    }
    MemberId::at(world.home_of(lba))
}

#[test]
fn a_member_that_fails_voids_what_is_held() {
    let mut world = world(1, (Level::Raid5, 4), 64, false);
    let member = heat(&mut world, 0);
    heat(&mut world, 24);
    world.command(Command::Fail(member));
    world.drain();
    world.write_one(36);
    assert_eq!(world.engine().held_blocks().count(), 0);
    world.verify();
}

/// A write ends after its member has failed, and another has begun with that on record.
#[test]
fn what_a_failed_member_did_not_take_is_not_held() {
    let mut world = world(1, (Level::Raid5, 4), 64, false);
    let member = heat(&mut world, 0);
    let op = Op::Write;
    world.begin_request(Request { tag: Tag(0), op, lba: Lba(0), blocks: 1, fua: false });
    let is_home = |io: &Io| matches!(io.op, IoOp::Write { .. });
    world.end_all(|io| !is_home(io));
    let held: Vec<_> = world.ios.iter().map(|pending| pending.io.id).collect();
    assert_eq!(held.len(), 2, "data and parity");
    world.command(Command::Fail(member));
    world.begin_request(Request { tag: Tag(1), op, lba: Lba(36), blocks: 1, fua: false });
    world.end_all(|io| !held.contains(&io.id));
    world.drain();
    assert_eq!(world.engine().held_blocks().count(), 0);
    world.verify();
}
