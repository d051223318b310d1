//! The distributed spare: a failed member is rebuilt onto the others, and copied back from there.

use raidcore::engine::{ArrayHealth, CommandError, IoError, RebuildOrder, SpareUse};
use raidcore::meta::{AssembleError, AssembleOptions, MetaPage, assemble};
use raidcore::units::{MemberId, Pba, Set};

use super::phases::is_flush;
use super::*;
use crate::checks;
use crate::checks::progress::Bound;
use crate::disk::Sick;

pub(super) const FAILED: MemberId = MemberId(2);

/// RAID5 of five with a distributed spare and no other spare, completely written.
pub(super) fn written() -> (World, Vec<u64>) {
    written_by(1, 9)
}

pub(super) fn written_by(seed: u64, stripes: u64) -> (World, Vec<u64>) {
    let mut scenario = scenario(Level::Raid5, 5, Consistency::Journal);
    (scenario.distributed_spare, scenario.stripes) = (true, stripes);
    let mut world = play(seed, scenario);
    let capacity = world.engine().geometry().capacity();
    let versions = (0..capacity).map(|lba| world.write_one(lba)).collect();
    (world, versions)
}

impl World {
    pub(super) fn fail(&mut self, member: MemberId) {
        let number = self.command(Command::Fail(member));
        self.finish();
        assert!(self.answers.contains(&(number, Ok(()))), "{:?}", self.answers.last());
    }

    /// Ends everything that was begun, including passes.
    pub(super) fn finish(&mut self) {
        let mut bound = Bound::new("all passes are over", 100_000);
        while self.is_busy() || self.engine().pass().is_some() {
            self.proceed();
            bound.spend(self);
        }
    }

    pub(super) fn holds(&mut self, versions: &[u64]) {
        for (lba, &version) in (0..).zip(versions) {
            assert_eq!(self.read_one(lba), version, "block {lba}");
        }
    }

    /// A block of a copy is corrupted silently.
    fn flip(&mut self, (disk, Pba(at)): (usize, Pba), row: u64) {
        self.disks[disk].corrupt(&mut self.source, at + row);
    }

    /// The distributed spare is filled, but only a little.
    fn fill_a_little(&mut self) {
        self.command(Command::SetPace(Pace { min: 1 << 14, max: 1 << 14 }));
        self.command(Command::Fail(FAILED));
        while self.engine().pass().is_none_or(|pass| pass.done < 3) {
            self.proceed();
        }
    }

    /// Where the distributed spare begins, which is on the same block of all members.
    pub(super) fn spare_start(&self) -> Pba {
        self.engine().layout().data_end(FAILED)
    }

    pub(super) fn spare_is(&self, used: SpareUse) {
        assert_eq!(self.engine().distributed_spare(), Some(used));
    }
}

#[test]
fn two_members_in_turn_may_fail_of_a_raid5_and_are_replaced_one_after_the_other() {
    let (mut world, mut versions) = written();
    world.spare_is(SpareUse::Free);
    world.fail(FAILED);
    world.spare_is(SpareUse::StandsInFor(FAILED));
    assert_eq!(world.engine().array_health(), ArrayHealth::Online);
    checks::parity::agrees(&world);
    world.holds(&versions);
    for (lba, version) in (0..20).zip(&mut versions) {
        *version = world.write_one(lba);
    }
    checks::parity::agrees(&world);

    world.fail(MemberId(0));
    assert_eq!(world.engine().array_health(), ArrayHealth::Degraded);
    world.holds(&versions);
    versions[7] = world.write_one(7);
    let refused = world.command(Command::Fail(MemberId(1)));
    assert!(world.answers.contains(&(refused, Err(CommandError::NoRedundancy))));

    // The first device replaces the member that is not on the spare, and gets the copies that
    // belong there.
    let device = world.new_spare();
    world.command(device);
    world.finish();
    assert!(world.engine().members().next().is_some_and(|member| member.device.is_some()));
    world.spare_is(SpareUse::StandsInFor(FAILED));
    checks::parity::agrees(&world);
    world.fail(MemberId(1));
    world.holds(&versions);

    for _ in 0..2 {
        let device = world.new_spare();
        world.command(device);
        world.finish();
    }
    world.spare_is(SpareUse::Free);
    assert!(world.is_whole());
    checks::parity::agrees(&world);
    world.holds(&versions);
}

#[test]
fn what_is_on_the_spare_is_copied_back_not_made_anew() {
    let (mut world, versions) = written();
    world.fail(FAILED);
    let device = world.new_spare();
    world.command(device);
    let mut reads = 0;
    while world.is_busy() || world.engine().pass().is_some() {
        reads = reads.max(world.ios.iter().filter(|p| matches!(p.io.op, IoOp::Read(_))).count());
        let data = |io: &Io| io.at < world.spare_start();
        let reads_home = |io: &Io| matches!(io.op, IoOp::Read(_)) && data(io);
        assert!(!world.ios.iter().any(|p| reads_home(&p.io)), "the others are left alone");
        world.proceed();
    }
    assert!(reads > 0 && world.is_whole());
    world.holds(&versions);
}

#[test]
fn a_crash_while_the_spare_is_filled_loses_nothing_and_the_rest_follows() {
    let (mut world, versions) = written();
    world.fill_a_little();
    world.cut_power();
    world.drain();
    world.holds(&versions);
    world.finish();
    world.spare_is(SpareUse::StandsInFor(FAILED));
    checks::parity::agrees(&world);
    world.restart();
    world.spare_is(SpareUse::StandsInFor(FAILED));
    world.fail(MemberId(3));
    world.holds(&versions);
}

#[test]
fn the_spare_does_not_stand_in_if_it_could_not_be_flushed() {
    let (mut world, _) = written();
    world.command(Command::Fail(FAILED));
    let is_flush = |io: &Io| io.op == IoOp::Flush;
    let all_but_flushes = |world: &mut World| {
        while world.end_first_compute() || world.end_one(|io| !is_flush(io)) {}
    };
    while world.engine().pass().is_none_or(|pass| pass.done < pass.total) {
        all_but_flushes(&mut world);
        if !world.end_one(is_flush) {
            world.pass_time();
        }
    }
    all_but_flushes(&mut world);
    let flushed = world.ios.iter().find(|p| is_flush(&p.io));
    let disk = flushed.expect("what was filled is being flushed").io.device.0;
    world.beyond = true;
    world.disks[disk as usize].sick = Some(Sick::next(IoError::Medium));
    world.end_all(|_| true);
    world.spare_is(SpareUse::Filling(FAILED));
}

#[test]
fn a_second_member_can_not_be_spared_before_the_spare_is_filled() {
    let (mut world, _) = written();
    world.fill_a_little();
    world.spare_is(SpareUse::Filling(FAILED));
    assert_eq!(world.engine().array_health(), ArrayHealth::Degraded);
    let refused = world.command(Command::Fail(MemberId(0)));
    assert!(world.answers.contains(&(refused, Err(CommandError::NoRedundancy))));
}

#[test]
fn a_copy_that_can_not_be_read_is_read_from_another_and_written_anew() {
    let (mut world, versions) = written();
    world.fail(FAILED);
    // The array has no redundancy left: only the other copy can be read.
    world.fail(MemberId(0));
    let stripes = world.engine().geometry().stripes();
    let mut bad = 0;
    for stripe in (0..stripes).map(Stripe) {
        let copies = world.copies_on_spare(stripe);
        if let [(disk, at), _] = copies[..] {
            world.disks[disk].bad.insert(at.0, FOR_GOOD);
            bad += 1;
        }
    }
    assert!(bad > 0, "some stripes have two copies left");
    world.holds(&versions);
}

#[test]
fn what_is_tried_block_by_block_is_read_to_its_end_while_another_copy_is_tried() {
    for bad in 0..2 {
        let (mut world, versions) = written();
        world.fail(FAILED);
        let geometry = *world.engine().geometry();
        let stripes = (0..geometry.stripes()).map(Stripe);
        let role = |stripe| geometry.role(stripe, FAILED).expect("it has a part").index();
        let stripe =
            stripes.clone().find(|&s| role(s) + 1 < geometry.data()).expect("there is one");
        // The last block of the failed member's chunk, and the chunk after it.
        let next = Role(role(stripe) as u8 + 1);
        let lba = geometry.lba(stripe, next, 0).0 - 1;
        let (MemberId(home), start) = world.engine().layout().place(stripe, next);
        world.disks[usize::from(home)].bad.insert(start.0 + 3, FOR_GOOD);
        let (disk, copy) = world.copies_on_spare(stripe)[bad];
        world.disks[disk].bad.insert(copy.0 + 3, FOR_GOOD);
        world.ask(0, Op::Read, lba, 5);
        assert!(world.end_one(|io| io.blocks == 4), "the chunk is tried");
        let of_spare = world.spare_start();
        assert!(world.end_one(|io| io.at >= of_spare), "and then a copy");
        world.drain();
        for (at, block) in (lba..lba + 5).zip(&world.memory.payload[0]) {
            assert_eq!(version_of(at, block), versions[at as usize], "block {at}");
        }
    }
}

#[test]
fn a_bad_copy_is_written_anew_where_redundancy_allows_it() {
    let (mut world, versions) = written();
    world.fail(FAILED);
    let (disk, at) = world.copies_on_spare(Stripe(4))[0];
    world.disks[disk].bad.insert(at.0, FOR_GOOD);
    let repaired = |world: &World| !world.disks[disk].bad.contains_key(&at.0);
    for _ in 0..20 {
        world.holds(&versions);
    }
    assert!(repaired(&world));
    checks::parity::agrees(&world);
}

#[test]
fn a_copy_that_is_wrong_is_told_by_the_others_and_mended() {
    for copy in 0..2 {
        let (mut world, versions) = written();
        world.fail(FAILED);
        let (stripe, row) = (Stripe(4), 2);
        world.flip(world.copies_on_spare(stripe)[copy], row);
        for (repair, corrected) in [(false, false), (true, true)] {
            world.notes.clear();
            world.scrub(repair);
            let note = Note::BlocksWrong { member: FAILED, stripe, blocks: 1, corrected };
            assert!(world.notes.contains(&note), "copy {copy}: {:?}", world.notes);
            let mismatch = |note: &Note| matches!(note, Note::Mismatch { .. });
            assert!(!world.notes.iter().any(mismatch), "copy {copy}: {:?}", world.notes);
        }
        checks::parity::agrees(&world);
        world.holds(&versions);
    }
}

#[test]
fn copies_of_which_none_agrees_become_like_the_first() {
    let (mut world, _) = written();
    world.fail(FAILED);
    let (stripe, row) = (Stripe(4), 2);
    for place in world.copies_on_spare(stripe) {
        world.flip(place, row);
    }
    world.notes.clear();
    world.scrub(true);
    let note = Note::Mismatch { stripe, rows: 1, corrected: true };
    assert!(world.notes.contains(&note), "{:?}", world.notes);
    checks::parity::agrees(&world);
    world.scrub(false);
    assert_eq!(world.engine().status().last_scrub.map(|scrub| scrub.rows), Some(0));
}

#[test]
fn what_is_being_put_on_the_spare_is_not_scrubbed() {
    let (mut world, _) = written();
    world.fill_a_little();
    let number = world.command(Command::Scrub { repair: true });
    let refused = Err(CommandError::NothingToCompare);
    assert!(world.answers.contains(&(number, refused)));
}

#[test]
fn a_replay_brings_nothing_back_that_a_failed_member_held() {
    let mut scenario = scenario(Level::Raid5, 5, Consistency::Journal);
    (scenario.distributed_spare, scenario.stripes) = (true, 3);
    let mut world = play(1, scenario);
    // No tail is written: all entries would be replayed.
    let tail = |io: &Io| io.op == IoOp::Journal && io.blocks == 1;
    let run = |world: &mut World| {
        for _ in 0..2_000 {
            if !world.end_first_compute() && !world.end_one(|io| !tail(io)) {
                world.pass_time();
            }
        }
    };
    // Of the last stripe, whose turn comes when all this has happened.
    let last = Lba(2 * u64::from(world.engine().geometry().stripe_blocks()));
    let sequential = RebuildOrder::named("sequential").expect("there is such an order");
    world.command(Command::SetRebuildOrder(sequential));
    world.command(Command::SetPace(Pace { min: 1 << 14, max: 1 << 14 }));
    world.ask(0, Op::Write, last.0, 1);
    while world.requests[0].is_some() {
        assert!(world.end_first_compute() || world.end_one(|io| !tail(io)));
    }
    // Before any flush: the entry of the first write is live when that of the second is made.
    world.command(Command::Fail(MemberId(3)));
    world.ask(0, Op::Write, last.0, 1);
    let version = version_of(last.0, &world.memory.payload[0][0]);
    run(&mut world);
    assert!(world.requests[0].is_none(), "it is acknowledged");
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(last.0), version, "the failed member's block is back");
}

/// RAID5 of five with a distributed spare and a staged block, its version, and which disks have it.
fn staged() -> (World, u64, Vec<DeviceId>) {
    let mut scenario = scenario(Level::Raid5, 5, Consistency::Bitmap);
    (scenario.distributed_spare, scenario.stripes) = (true, 9);
    (scenario.staging, scenario.busy) = (128, 1);
    let mut world = play(1, scenario);
    let home = world.engine().geometry().member(Stripe(0), Role(0));
    world.step(Input::Busy(Set::one(home)));
    world.ask(0, Op::Write, 0, 1);
    let version = version_of(0, &world.memory.payload[0][0]);
    let entries = world.ios.iter().filter(|p| p.io.op == IoOp::Journal);
    let holders: Vec<_> = entries.map(|p| p.io.device).collect();
    world.drain();
    assert!(world.engine().is_staged(Lba(0)) && holders.len() == 2, "it is on {holders:?}");
    (world, version, holders)
}

#[test]
fn it_is_not_on_record_that_the_spare_stands_in_before_what_is_staged_is_at_home() {
    let (mut world, _, holders) = staged();
    world.command(Command::Fail(MemberId(holders[0].0 as u8)));
    while world.engine().pass().is_none_or(|pass| pass.done < pass.total) {
        world.proceed();
    }
    world.now = world.now + Duration::from_secs(6);
    world.step(Input::Tick);
    world.end_all(|io| matches!(io.op, IoOp::Flush | IoOp::Store(_)));
    assert!(world.engine().is_staged(Lba(0)));
    let left = (0..world.disks.len()).filter(|&disk| !holders.contains(&DeviceId(disk as u32)));
    let images: Vec<_> = left.map(|disk| &world.disks[disk]).collect();
    let options = AssembleOptions { degraded: true, force: true };
    assert!(matches!(assemble(&images, options), Err(AssembleError::TooManyMissing { .. })));
}

#[test]
fn what_is_staged_is_at_home_before_the_spare_stands_in() {
    let (mut world, version, holders) = staged();
    for DeviceId(holder) in holders {
        world.disks[holder as usize].gone = true;
        world.step(Input::DeviceGone(DeviceId(holder)));
        assert_eq!(world.read_one(0), version);
        world.finish();
    }
    assert_eq!(world.read_one(0), version);
}

/// A member is back in its place, and the next one fails, while a flush is under way that will
/// record the spare's watermark of the first. The power fails before the spare holds anything of
/// the second.
#[test]
fn what_was_filled_for_one_member_is_not_on_record_of_the_next() {
    let is_page = |io: &Io| matches!(io.op, IoOp::Store(page) if !matches!(page, MetaPage::Superblock { .. }));
    let (mut world, _) = written();
    world.fail(FAILED);
    let spare = world.new_spare();
    world.command(spare);
    world.command(Command::SetPace(Pace::default()));
    let is_filled =
        |world: &World| world.engine().pass().is_some_and(|pass| pass.done == pass.total);
    while !is_filled(&world) || !world.ios.iter().any(|p| is_page(&p.io)) {
        world.end_all(|io| !is_page(io));
        world.pass_time();
    }
    world.now = world.now + Duration::from_secs(6);
    world.step(Input::Tick);
    assert!(world.ios.iter().any(|p| is_flush(&p.io)));
    world.end_all(|io| !is_flush(io));
    world.spare_is(SpareUse::Free);
    let Pba(start) = world.spare_start();
    let fills = |io: &Io| matches!(io.op, IoOp::Write { .. }) && io.at.0 >= start;
    world.command(Command::Fail(MemberId(0)));
    world.end_all(|io| !fills(io) && !is_flush(io));
    world.spare_is(SpareUse::Filling(MemberId(0)));
    world.end_all(|io| !fills(io));
    world.cut_power();
    world.drain();
    world.verify();
}

/// A region's mark is on as many members as may fail, and one more. One of them fails; when the spare
/// stands in for it, as many may fail as before, so the mark has to be on one more again.
#[test]
fn a_mark_outlives_its_members_that_fail_one_after_the_other() {
    let is_mark = |io: &Io| matches!(io.op, IoOp::Store(MetaPage::Bitmap { .. }));
    let mut scenario = scenario(Level::Raid5, 5, Consistency::Bitmap);
    scenario.distributed_spare = true;
    let mut world = play(1, scenario);
    world.ask(0, Op::Write, 0, 1);
    let marked = |world: &World| -> Vec<DeviceId> {
        world.ios.iter().map(|p| p.io).filter(is_mark).map(|io| io.device).collect()
    };
    while marked(&world).is_empty() {
        assert!(world.end_first_compute() || world.end_one(|io| !is_mark(io)));
    }
    let on = marked(&world);
    assert_eq!(on.len(), 2);
    world.end_all(|_| true);
    world.command(Command::SetPace(Pace { min: u64::MAX, max: u64::MAX }));
    world.command(Command::Fail(MemberId(on[0].0 as u8)));
    let stands_in = |world: &World| {
        matches!(world.engine().status().distributed_spare, Some(SpareUse::StandsInFor(_)))
    };
    while !stands_in(&world) {
        world.end_all(|_| true);
        world.pass_time();
    }
    assert!(world.engine().status().dirty_regions.0 > 0, "there was no time to clear it");
    // Not even a start that lacks the other one takes the array for one that was not being written.
    let left = (0..world.disks.len()).filter(|&disk| !on.contains(&DeviceId(disk as u32)));
    let images: Vec<_> = left.map(|disk| &world.disks[disk]).collect();
    let options = AssembleOptions { degraded: true, force: false };
    assert_eq!(assemble(&images, options), Err(AssembleError::DirtyDegraded));
}
