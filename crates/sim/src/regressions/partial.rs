//! Partial journal entries: what a crash leaves of writes that are not flushed, with members less.

use super::*;

/// The blocks of the first stripe are written and retired from the journal, then some again without a
/// flush. The power fails, and members with some of the stripe's roles are gone when it is back. What
/// caches have lost differs from seed to seed.
fn crash(level: Level, members: usize, unflushed: &[(u64, u32)], lost: &[u8]) {
    for seed in 0..100 {
        let whole = scenario(level, members, Consistency::Journal);
        let mut world = play(seed, Scenario { whole_entries: false, ..whole });
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
    crash(Level::Raid6, 5, &[(4, 1), (0, 1)], &[2, 1]);
    crash(Level::Raid6, 5, &[(4, 1), (0, 1), (4, 1)], &[2, 0]);
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
