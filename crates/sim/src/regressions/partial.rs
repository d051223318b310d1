//! Partial journal entries: what a crash leaves of writes that are not flushed, with members less.

use super::*;

/// An array whose small writes have partial entries.
fn world(seed: u64, level: Level, members: usize) -> World {
    let whole = scenario(level, members, Consistency::Journal);
    play(seed, Scenario { whole_entries: false, ..whole })
}

/// The blocks of the first stripe are written and retired from the journal, then some again without a
/// flush. The power fails, and members with some of the stripe's roles are gone when it is back. What
/// caches have lost differs from seed to seed.
fn crash(level: Level, members: usize, unflushed: &[(u64, u32)], lost: &[u8]) {
    for seed in 0..100 {
        let mut world = world(seed, level, members);
        for lba in 0..12 {
            world.write_one(lba);
        }
        world.rest();
        for &(lba, blocks) in unflushed {
            let op = Op::Write;
            world.begin_request(Request { tag: Tag(0), op, lba: Lba(lba), blocks, fua: false });
            world.end_all(|_| true);
        }
        for &role in lost {
            let member = world.engine().geometry().member(Stripe(0), Role(role));
            world.disks[member.index()].gone = true;
        }
        world.cut_power();
        world.drain();
        world.verify();
    }
}

#[test]
fn a_write_of_another_chunk_counts_on_one_that_is_not_flushed() {
    crash(Level::Raid5, 4, &[(4, 1), (0, 1)], &[2]);
    crash(Level::Raid5, 4, &[(4, 2), (0, 1)], &[2]);
    crash(Level::Raid5, 4, &[(5, 1), (0, 2)], &[2]);
    crash(Level::Raid6, 5, &[(4, 1), (0, 1)], &[2, 1]);
    crash(Level::Raid6, 5, &[(4, 1), (0, 1), (4, 1)], &[2, 0]);
}

/// A block that an entry would have to hold can't be read once: before it is left out, it is durable at
/// home.
#[test]
fn a_chunk_that_is_not_flushed_and_cannot_be_read_is_not_left_out() {
    for seed in 0..100 {
        let mut world = world(seed, Level::Raid5, 4);
        for lba in 0..12 {
            world.write_one(lba);
        }
        world.rest();
        let place = |world: &World, role| world.engine().layout().place(Stripe(0), Role(role));
        for lba in [4, 0] {
            let op = Op::Write;
            world.begin_request(Request { tag: Tag(0), op, lba: Lba(lba), blocks: 1, fua: false });
            world.end_all(|_| true);
            let (member, at) = place(&world, 1);
            world.disks[member.index()].bad.insert(at.0, 1);
        }
        let (lost, _) = place(&world, 2);
        world.disks[lost.index()].gone = true;
        world.cut_power();
        world.drain();
        world.verify();
    }
}

/// A block that is left out can't be read when its entry is replayed, and can be read later. Then the power
/// fails again, and members are lost: each crash has its own.
#[test]
fn a_chunk_that_is_left_out_and_cannot_be_read_agrees_with_parity_when_it_can_be() {
    let shapes: [(Level, usize, [&[u8]; 2]); 3] = [
        (Level::Raid5, 4, [&[], &[2]]),
        (Level::Raid6, 5, [&[], &[2, 0]]),
        (Level::Raid6, 5, [&[2], &[0]]),
    ];
    for (seed, (level, members, losses)) in (0..200).zip(shapes.into_iter().cycle()) {
        let mut world = world(seed, level, members);
        for lba in 0..12 {
            world.write_one(lba);
        }
        world.rest();
        world.begin_request(Request {
            tag: Tag(0),
            op: Op::Write,
            lba: Lba(4),
            blocks: 1,
            fua: false,
        });
        world.end_all(|_| true);
        let (member, at) = world.engine().layout().place(Stripe(0), Role(1));
        world.disks[member.index()].bad.insert(at.0, 2);
        for lost in losses {
            for &role in lost {
                let (member, _) = world.engine().layout().place(Stripe(0), Role(role));
                world.disks[member.index()].gone = true;
            }
            world.cut_power();
            world.until(|world| world.engine().is_serving());
        }
        world.drain();
        world.verify();
    }
}

#[test]
fn p_and_q_may_have_different_versions_of_a_chunk_that_is_lost() {
    crash(Level::Raid6, 5, &[(4, 1)], &[1, 2]);
    crash(Level::Raid6, 5, &[(4, 1), (4, 1)], &[1, 2]);
}

#[test]
fn a_chunk_is_written_again_before_a_flush() {
    crash(Level::Raid5, 4, &[(4, 1), (4, 1), (4, 1)], &[2]);
    crash(Level::Raid5, 4, &[(4, 1), (4, 1)], &[1]);
}

/// A write of two rows has a third between them, which an earlier entry is still to bring in step.
#[test]
fn a_row_between_those_that_are_written_is_left_to_its_own_entry() {
    crash(Level::Raid5, 4, &[(9, 1), (3, 2)], &[0]);
    crash(Level::Raid6, 5, &[(9, 1), (3, 2)], &[0, 1]);
}

#[test]
fn a_write_of_two_chunks_has_an_entry_of_both() {
    crash(Level::Raid5, 4, &[(3, 2)], &[2]);
}

/// Of entries that are replayed, the first has an older version of what the last leaves out: it
/// was flushed, but the tail of its ring waits for one of a stripe with the same parity member.
#[test]
fn an_older_version_of_what_is_left_out_does_not_come_back() {
    let mut world = world(0, Level::Raid5, 4);
    let mut held = Vec::new();
    let requests = [
        (1, Op::Write, 48, 1, false),
        (0, Op::Write, 3, 2, false),
        (0, Op::Flush, 0, 0, false),
        (0, Op::Write, 4, 1, true),
    ];
    for (tag, op, lba, blocks, fua) in requests {
        let tag = Tag(tag);
        world.begin_request(Request { tag, op, lba: Lba(lba), blocks, fua });
        let is_held = |io: &Io| tag == Tag(1) && matches!(io.op, IoOp::Write { .. });
        world.end_all(|io| !is_held(io) && !held.contains(&io.id));
        held.extend(world.ios.iter().map(|pending| pending.io.id));
    }
    world.cut_power();
    world.drain();
    world.verify();
}

/// There are no buffers for partial parity beside those of so many members.
#[test]
fn the_widest_arrays_have_whole_entries() {
    for level in [Level::Raid4, Level::Raid5, Level::Raid6] {
        for members in [31, 32] {
            let mut world = world(1, level, members);
            world.write_one(0);
            let version = world.write_one(0);
            world.cut_power();
            world.drain();
            assert_eq!(world.read_one(0), version, "{level:?} of {members}");
        }
    }
}
