//! Members run out of space, more of them than redundancy permits, and then there is space again.

use raidcore::engine::{ArrayHealth, Remedy};
use raidcore::units::Pba;

use super::*;

impl World {
    /// Where a member has a row of a stripe.
    fn at(&self, stripe: Stripe, role: Role, row: u64) -> (usize, u64) {
        let (member, Pba(home)) = self.engine().layout().place(stripe, role);
        (member.index(), home + row)
    }

    /// There is no room for a row of a stripe.
    fn fill_up(&mut self, stripe: Stripe, role: Role, row: u64) {
        let (disk, at) = self.at(stripe, role, row);
        self.disks[disk].full.insert(at);
    }

    /// There is room everywhere.
    fn make_room(&mut self) {
        self.disks.iter_mut().for_each(|disk| disk.full.clear());
    }

    /// Enough time passes for the array's next attempt, and the attempt ends.
    fn later(&mut self) {
        for _ in 0..3 {
            self.now = self.now + Duration::from_secs(6);
            self.step(Input::Tick);
            self.drain();
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        self.engine().status().remedy
    }

    fn healed(&self) -> bool {
        self.notes.contains(&Note::ArrayHealed)
    }

    /// The refused write is taken when there is space, and not before.
    #[track_caller]
    fn heals_when_there_is_room(&mut self) {
        assert_eq!(self.last(), Err(RequestError::Io));
        self.later();
        assert!(!self.healed(), "there is no room yet");
        self.make_room();
        self.later();
        assert!(self.healed(), "{:?}", self.notes);
    }

    fn is_told(&mut self, lba: u64) -> Result<u64, RequestError> {
        // From then on the results of requests are kept.
        self.beyond = true;
        let found = self.read_one(lba);
        self.last().map(|()| found)
    }
}

/// A RAID5 of four that lacks a member, of which another has refused part of a write: the versions
/// of that write, and of the rest of stripe 0.
struct Refused {
    world: World,
    /// What the missing member had, and where.
    kept: (u64, u64),
    /// What a member that is there has.
    other: (u64, u64),
}

fn refused(seed: u64, refusing: Role, row: u64) -> Refused {
    let mut world = play(seed, scenario(Level::Raid5, 4, Consistency::Journal));
    let geometry = *world.engine().geometry();
    let (stripe, lost) = (Stripe(0), Role(1));
    let kept = (4 + row, world.write_one(4 + row));
    let other = (11, world.write_one(11));
    world.command(Command::Fail(geometry.member(stripe, lost)));
    world.drain();
    world.beyond = true;
    world.fill_up(stripe, refusing, row);
    world.write_one(row);
    assert_eq!(world.last(), Err(RequestError::Io), "seed {seed}");
    Refused { world, kept, other }
}

#[test]
fn an_array_takes_writes_again_when_there_is_room_and_what_was_refused_is_in_step() {
    for seed in 0..8 {
        for refusing in [Role(0), Role(3)] {
            let Refused { mut world, kept, other } = refused(seed, refusing, 0);
            assert_eq!(world.remedy(), Some(Remedy::Room));
            assert_eq!(world.engine().array_health(), ArrayHealth::Failed);
            world.later();
            assert!(!world.healed(), "there is no room yet");
            world.write_one(100);
            assert_eq!(world.last(), Err(RequestError::Io));
            assert_eq!(world.is_told(kept.0), Err(RequestError::Io), "it is out of step");
            world.make_room();
            world.later();
            assert!(world.healed(), "seed {seed}, {refusing:?}: {:?}", world.notes);
            assert_eq!((world.remedy(), world.engine().status().torn_stripes), (None, 0));
            assert_eq!(world.engine().array_health(), ArrayHealth::Degraded);
            for (lba, version) in [kept, other] {
                assert_eq!(world.is_told(lba), Ok(version), "seed {seed}, {refusing:?}");
            }
            let new = world.write_one(1);
            assert_eq!(world.is_told(1), Ok(new));
            assert_eq!(world.is_told(kept.0), Ok(kept.1));
            // It is not replayed again, and the stop leaves nothing undone.
            world.restart();
            for (lba, version) in [kept, other, (1, new)] {
                assert_eq!(world.is_told(lba), Ok(version), "seed {seed}, {refusing:?}");
            }
        }
    }
}

/// Of a chunk that is lost, a partial entry has nothing to write.
#[test]
fn what_a_partial_entry_does_not_write_is_tried_before_writes_are_taken_again() {
    for seed in 0..8 {
        let whole = scenario(Level::Raid5, 4, Consistency::Journal);
        let mut world = play(seed, Scenario { whole_entries: false, ..whole });
        world.write_one(0);
        world.rest();
        world.beyond = true;
        for role in [Role(0), Role(3)] {
            world.fill_up(Stripe(0), role, 0);
        }
        world.write_one(0);
        world.heals_when_there_is_room();
    }
}

#[test]
fn a_power_failure_amid_the_healing_loses_nothing() {
    for seed in 0..40 {
        let Refused { mut world, kept, other } = refused(seed, Role(3), 0);
        world.make_room();
        world.now = world.now + Duration::from_secs(6);
        world.step(Input::Tick);
        world.turns(seed as u32);
        world.cut_power();
        world.drain();
        for (lba, version) in [kept, other] {
            assert_eq!(world.is_told(lba), Ok(version), "seed {seed}");
        }
    }
}

#[test]
fn what_the_journal_alone_refused_is_nowhere_when_writes_are_taken_again() {
    for seed in 0..8 {
        let mut world = play(seed, scenario(Level::Raid5, 4, Consistency::Journal));
        let geometry = *world.engine().geometry();
        let kept = world.write_one(4);
        world.command(Command::Fail(geometry.member(Stripe(0), Role(1))));
        world.drain();
        world.beyond = true;
        let parity = geometry.member(Stripe(0), Role(3)).index();
        let (journal, blocks) = world.areas.journal();
        world.disks[parity].full.extend(journal.0..journal.0 + blocks);
        world.write_one(0);
        assert_eq!(world.last(), Err(RequestError::Io));
        assert_eq!(world.is_told(4), Ok(kept), "nothing has gone home");
        for _ in 0..40 {
            // Each attempt is refused, and leaves no entry in the ring.
            world.later();
        }
        assert!(!world.healed());
        world.make_room();
        world.later();
        assert!(world.healed(), "{:?}", world.notes);
        let row = [0, 8].map(|lba| world.write_one(lba));
        world.restart();
        assert_eq!([0, 8].map(|lba| world.is_told(lba)), row.map(Ok), "seed {seed}");
        assert_eq!(world.is_told(4), Ok(kept), "seed {seed}");
    }
}

#[test]
fn rows_that_went_past_the_journal_stay_out_of_step_until_all_of_the_stripe_is_written() {
    let mut world = world(Level::Raid5, 4, Consistency::Journal);
    let geometry = *world.engine().geometry();
    let stripe = u64::from(geometry.stripe_blocks());
    world.ask(0, Op::Write, 0, 12);
    world.drain();
    let elsewhere = world.write_one(stripe);
    world.beyond = true;
    for role in [Role(1), Role(3)] {
        world.fill_up(Stripe(0), role, 0);
    }
    world.ask(0, Op::Write, 0, 12);
    let lost = geometry.member(Stripe(0), Role(1));
    let first = |io: &Io| matches!(io.op, IoOp::Write { .. }) && io.device.0 == u32::from(lost.0);
    while !world.end_one(first) {
        world.turns(1);
    }
    world.drain();
    world.heals_when_there_is_room();
    assert_eq!(world.engine().status().torn_stripes, 1);
    assert_eq!(world.is_told(stripe), Ok(elsewhere));
    let new = world.write_one(stripe + 1);
    assert_eq!(world.is_told(stripe + 1), Ok(new));
    let of_lost = 4;
    assert_eq!(world.is_told(of_lost), Err(RequestError::Io), "nothing tells what is there");
    // Rows that are overwritten whole are right; the others stay inconsistent. Writes that wait for
    // the read are carried out together.
    world.ask(3, Op::Read, 8, 1);
    for lba in [0, 4, 8] {
        world.ask(lba as u16 / 4, Op::Write, lba, 1);
    }
    world.drain();
    assert_eq!(world.engine().counters().merged_writes, 2);
    assert_eq!(world.is_told(of_lost + 1), Err(RequestError::Io));
    world.ask(0, Op::Write, 0, 12);
    let version = version_of(of_lost, &world.memory.payload[0][of_lost as usize]);
    world.drain();
    assert_eq!(world.last(), Ok(()));
    assert_eq!(world.engine().status().torn_stripes, 0);
    assert_eq!(world.is_told(of_lost), Ok(version));
}

#[test]
fn what_was_refused_has_no_entry_left_where_parity_went_with_the_only_one() {
    let mut world = world(Level::Raid5, 4, Consistency::Journal);
    let geometry = *world.engine().geometry();
    let other = world.write_one(4);
    world.beyond = true;
    for role in [Role(0), Role(3)] {
        world.fill_up(Stripe(0), role, 0);
    }
    world.ask(0, Op::Write, 0, 1);
    let parity = geometry.member(Stripe(0), Role(3));
    let home = world.at(Stripe(0), Role(3), 0).1;
    let first = |io: &Io| io.device.0 == u32::from(parity.0) && io.at == Pba(home);
    while !world.end_one(|io| matches!(io.op, IoOp::Write { .. }) && first(io)) {
        world.turns(1);
    }
    world.drain();
    world.heals_when_there_is_room();
    assert_eq!(world.engine().status().torn_stripes, 0, "there is no redundancy to be out of step");
    let new = world.write_one(0);
    for (lba, version) in [(0, new), (4, other)] {
        assert_eq!(world.is_told(lba), Ok(version));
    }
}

#[test]
fn a_mirror_takes_writes_again_when_its_last_copy_has_room() {
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    let old = world.write_one(0);
    world.command(Command::Fail(MemberId(1)));
    world.drain();
    world.beyond = true;
    world.fill_up(Stripe(0), Role(0), 1);
    world.write_one(1);
    world.heals_when_there_is_room();
    let new = world.write_one(1);
    assert_eq!((world.is_told(0), world.is_told(1)), (Ok(old), Ok(new)));
}

#[test]
fn what_is_not_for_want_of_room_is_left_to_a_start() {
    // A flush that fails may have lost more than it reports.
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    world.command(Command::Fail(MemberId(1)));
    world.drain();
    world.beyond = true;
    let request = Request { tag: Tag(0), op: Op::Write, lba: Lba(0), blocks: 1, fua: false };
    world.begin_request(request);
    world.drain();
    world.ask(0, Op::Flush, 0, 0);
    world.disks[0].sick = Some(crate::disk::Sick::next(raidcore::engine::IoError::NoSpace));
    world.drain();
    assert_eq!(world.remedy(), Some(Remedy::Start));
    world.later();
    assert!(!world.healed());
    // Nor does space help a medium error.
    let Refused { mut world, .. } = refused(1, Role(3), 0);
    let (disk, at) = world.at(Stripe(0), Role(3), 0);
    world.make_room();
    world.disks[disk].unwritable.insert(at);
    world.later();
    assert_eq!(world.remedy(), Some(Remedy::Start));
    world.disks[disk].unwritable.clear();
    world.later();
    assert!(!world.healed());
}

#[test]
fn what_a_start_could_not_carry_out_is_left_to_the_next_start() {
    let mut world = world(Level::Raid5, 4, Consistency::Journal);
    let geometry = *world.engine().geometry();
    let kept = world.write_one(3);
    world.command(Command::Fail(geometry.member(Stripe(0), Role(1))));
    world.drain();
    // Acknowledged, and durable in the journal only.
    let row = [0, 8].map(|lba| world.write_one(lba));
    world.ios.clear();
    world.power_off();
    world.fill_up(Stripe(0), Role(3), 0);
    world.power_on(Outage::Quiet);
    world.drain();
    world.beyond = true;
    assert_eq!(world.remedy(), Some(Remedy::Start));
    world.make_room();
    world.later();
    assert!(!world.healed(), "this start is not on record");
    world.write_one(20);
    assert_eq!(world.last(), Err(RequestError::Io));
    world.restart();
    assert_eq!([0, 8, 3].map(|lba| world.is_told(lba)), [row[0], row[1], kept].map(Ok));
}
