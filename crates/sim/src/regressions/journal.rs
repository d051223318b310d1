//! What a replay of the journal would write, and what it would overwrite.

use super::phases::is_record;
use super::*;
use raidcore::units::Pba;

fn is_write(io: &Io) -> bool {
    matches!(io.op, IoOp::Write { .. })
}

/// The disk that has a role of the first stripe.
fn disk_of(world: &World, role: u8) -> usize {
    world.engine().geometry().member(Stripe(0), Role(role)).index()
}

/// An array in which these blocks were written and retired from the journal.
fn written(level: Level, members: usize, blocks: [u64; 2]) -> (World, [u64; 2]) {
    let mut world = world(level, members, Consistency::Journal);
    let versions = blocks.map(|lba| world.write_one(lba));
    world.rest();
    (world, versions)
}

impl World {
    /// A disk of a write of block 0 or 4 is lost, and returns with the power, which takes another
    /// one. Its loss was not on record yet.
    fn goes_off_the_record(&mut self, disk: usize, lba: u64, lost: usize) {
        self.disks[disk].gone = true;
        self.step(Input::DeviceGone(DeviceId(disk as u32)));
        self.ask(0, Op::Write, lba, 1);
        self.end_all(|io| !is_record(io));
        self.disks[disk].gone = false;
        self.disks[lost].gone = true;
        self.cut_power();
        self.drain();
    }

    /// The power of a RAID6 fails when one of two holders of a write's entry has it.
    fn leave_half_an_entry(&mut self) {
        let lacks = DeviceId(disk_of(self, 3) as u32);
        self.ask(0, Op::Write, 0, 1);
        self.end_all(|io| !(io.op == IoOp::Journal && io.device == lacks));
        assert!(self.requests[0].is_some());
        self.ios.clear();
        self.power_off();
    }

    /// The power fails again when a start's first write to this disk is durable.
    fn cut_power_when_written(&mut self, disk: usize) {
        self.end_all(|io| !is_write(io));
        self.end_one(|io| is_write(io) && io.device.0 as usize == disk);
        let mark = self.disks[disk].flush_mark();
        self.disks[disk].flushed(mark);
        self.ios.clear();
        self.power_off();
    }
}

#[test]
fn a_stripe_goes_through_the_journal_until_a_tail_says_that_its_entry_is_retired() {
    let mut world = world(Level::Raid4, 3, Consistency::Journal);
    let entries = |io: &Io| io.op == IoOp::Journal;
    world.ask(0, Op::Write, 0, 1);
    world.end_all(|_| true);
    // The next entry's tail does not cover it, since that is written before the flush ends.
    world.ask(1, Op::Write, 8, 1);
    world.end_all(|io| !entries(io));
    world.ask(2, Op::Flush, 0, 1);
    world.end_all(|io| !entries(io));
    assert!(world.requests[1].is_some() && world.requests[2].is_none());
    world.end_all(|_| true);
    world.ask(0, Op::Write, 0, 8);
    let version = version_of(0, &world.memory.payload[0][0]);
    world.end_all(|_| true);
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(0), version, "a replay has brought the past back");
}

#[test]
fn a_spare_that_is_not_filled_holds_no_entry() {
    let mut world = world(Level::Raid4, 3, Consistency::Journal);
    let spare = world.new_spare();
    let Command::AddSpare { device, .. } = spare else { unreachable!() };
    world.command(spare);
    world.drain();
    world.ask(0, Op::Write, 0, 1);
    world.ask(1, Op::Write, 0, 1);
    let version = version_of(0, &world.memory.payload[1][0]);
    // The first write was planned with parity, the second one is without.
    world.command(Command::Replace { member: MemberId(2), spare: device });
    world.end_all(|io| io.op != IoOp::Flush);
    assert!(world.requests[..2].iter().all(Option::is_none));
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(0), version, "a replay has brought the first one back");
}

#[test]
fn an_entry_that_nobody_has_leaves_no_hole_where_there_is_no_parity() {
    for gone in [0, 2, 3] {
        let mut world = world(Level::Raid6, 4, Consistency::Journal);
        world.rebuild_a_little();
        // In some of these stripes, one parity is on the disk that is lost, and the other has yet
        // to be written.
        (0..12).for_each(|i| world.ask(i, Op::Write, 8 * (20 + u64::from(i)), 1));
        world.end_all(|_| true);
        world.cut_power();
        assert!(!world.engine().is_serving(), "there is no journal to be carried out");
        world.disks[gone].gone = true;
        world.step(Input::DeviceGone(DeviceId(gone as u32)));
        world.drain();
        assert!(world.engine().is_serving(), "without disk {gone} it does not start");
    }
}

/// A write whose parity's member has gone has no entry.
#[test]
fn a_write_goes_home_when_it_is_on_record_who_will_lack_it() {
    let (mut world, [neighbour, _]) = written(Level::Raid5, 3, [4, 0]);
    world.goes_off_the_record(disk_of(&world, 2), 0, disk_of(&world, 1));
    assert_eq!(world.read_one(4), neighbour, "nobody has written there");
}

/// Only the parity is written, so the entry holds only that.
#[test]
fn an_entry_is_written_when_it_is_on_record_for_whom_it_holds_nothing() {
    let (mut world, [neighbour, _]) = written(Level::Raid5, 3, [0, 4]);
    world.goes_off_the_record(disk_of(&world, 1), 4, disk_of(&world, 0));
    assert_eq!(world.read_one(0), neighbour, "nobody has written there");
}

/// The second power failure takes the holder of the entry, during the replay.
#[test]
fn an_entry_that_one_of_two_lacks_is_void() {
    let (mut world, [neighbour, _]) = written(Level::Raid6, 4, [4, 0]);
    world.command(Command::Fail(MemberId::at(disk_of(&world, 1))));
    world.drain();
    world.leave_half_an_entry();
    world.power_on(Outage::Quiet);
    world.cut_power_when_written(disk_of(&world, 0));
    let holder = disk_of(&world, 2);
    world.disks[holder].gone = true;
    world.power_on(Outage::Quiet);
    world.drain();
    assert_eq!(world.read_one(4), neighbour, "nobody has written there");
}

/// The holder that lacks the entry is missing at the first start, which replays the entry, and
/// returns at the second.
#[test]
fn who_is_missing_is_on_record_before_an_entry_is_carried_out() {
    let (mut world, [neighbour, _]) = written(Level::Raid6, 4, [4, 0]);
    world.leave_half_an_entry();
    let [home, lost, lacks] = [0, 1, 3].map(|role| disk_of(&world, role));
    world.disks[lacks].gone = true;
    world.power_on(Outage::Quiet);
    world.cut_power_when_written(home);
    world.disks[lacks].gone = false;
    world.disks[lost].gone = true;
    world.power_on(Outage::Quiet);
    world.drain();
    assert_eq!(world.read_one(4), neighbour, "nobody has written there");
}

/// Two entries of the same block are left, both at home.
fn written_twice() -> (World, u64, Pba) {
    let mut world = world(Level::Raid4, 3, Consistency::Journal);
    let mut at = Pba(0);
    for _ in 0..2 {
        world.ask(0, Op::Write, 0, 1);
        world.end_all(|io| io.op != IoOp::Journal);
        at = world.ios[0].io.at;
        world.end_all(|_| true);
    }
    let version = version_of(0, &world.memory.payload[0][0]);
    world.ios.clear();
    world.power_off();
    (world, version, at)
}

#[test]
fn an_older_entry_is_not_carried_out_where_a_newer_one_can_not_be_read() {
    let (mut world, version, Pba(newer)) = written_twice();
    world.disks[2].bad.insert(newer, FOR_GOOD);
    world.power_on(Outage::Quiet);
    world.drain();
    assert_eq!(world.read_one(0), version);
}

/// The replay is cut short, and the holder of the journal is lost.
#[test]
fn what_is_older_is_not_written_over_what_is_newer() {
    let (mut world, version, _) = written_twice();
    world.power_on(Outage::Quiet);
    world.cut_power_when_written(0);
    world.disks[2].gone = true;
    world.power_on(Outage::Quiet);
    world.drain();
    assert_eq!(world.read_one(0), version);
}

/// An entry from before a member's loss has the lost member's content, not that of its successor.
#[test]
fn a_member_is_rebuilt_when_what_its_predecessor_held_is_void() {
    let mut world = world(Level::Raid5, 3, Consistency::Journal);
    world.command(Command::SetPace(Pace { min: u64::MAX, max: u64::MAX }));
    world.ask(0, Op::Write, 0, 1);
    world.end_all(|_| true);
    world.command(Command::Fail(MemberId::at(disk_of(&world, 0))));
    world.end_all(|_| true);
    world.ask(0, Op::Write, 0, 1);
    let version = version_of(0, &world.memory.payload[0][0]);
    world.end_all(|_| true);
    let spare = world.new_spare();
    world.command(spare);
    world.end_all(|_| true);
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(0), version, "a replay has brought the past back");
}

/// A record of the tail is slow, and the ring has wrapped around to it.
#[test]
fn a_record_of_the_tail_is_not_written_over_while_it_is_being_stored() {
    let is_tail = |io: &Io| io.op == IoOp::Journal && io.blocks == 1;
    let mut world = world(Level::Raid4, 3, Consistency::Journal);
    for _ in 0..1000 {
        if world.requests[0].is_some() {
            break;
        }
        world.ask(0, Op::Write, 0, 1);
        world.end_all(|io| !is_tail(io));
        world.ask(1, Op::Flush, 0, 0);
        world.end_all(|io| !is_tail(io));
        world.pass_time();
    }
    assert!(world.requests[0].is_some(), "there is no room before it");
    world.drain();
    world.verify();
}

/// While the tail is being recorded, another entry records the same tail, and all other entries are
/// retired. Writes that wait for room must not have to wait for the next flush, too. Tells whether
/// that happened after `small` small entries before the large ones that fill the ring.
fn waits_for_a_tail(small: u16) -> bool {
    let mut scenario = scenario(Level::Raid4, 3, Consistency::Journal);
    (scenario.journal, scenario.tags, scenario.jobs) = (0, 40, 100);
    let mut world = play(1, scenario);
    let first_stripe = world.areas.data_start().0..world.areas.data_start().0 + 4;
    let is_tail = |io: &Io| io.op == IoOp::Journal && io.blocks == 1;
    let is_entry = |io: &Io| !is_tail(io) && !is_write(io) && io.op != IoOp::Flush;
    let homes = |world: &World| world.ios.iter().filter(|p| is_write(&p.io)).count();
    let ask = |world: &mut World, tag: u16, blocks| {
        world.ask(tag, Op::Write, u64::from(tag) * 8, blocks);
        let before = homes(world);
        world.end_all(is_entry);
        homes(world) > before
    };
    (0..small).for_each(|tag| assert!(ask(&mut world, tag, 1)));
    let waits = (small..38).find(|&tag| !ask(&mut world, tag, 7)).expect("the ring is full");
    world.end_all(|io| is_entry(io) || is_write(io) && first_stripe.contains(&io.at.0));
    world.end_all(|io| is_entry(io) || io.op == IoOp::Flush);
    assert!(
        world.ios.iter().any(|p| is_tail(&p.io)),
        "that the first is retired is being recorded"
    );
    ask(&mut world, waits + 1, 1);
    world.end_all(|io| !is_tail(io));
    let waited = world.requests[usize::from(waits)].is_some();
    world.end_all(|_| true);
    assert!(world.requests.iter().all(Option::is_none), "after {small}");
    waited
}

#[test]
fn a_tail_is_recorded_again_for_what_was_retired_meanwhile() {
    let waited = (1..12).filter(|&small| waits_for_a_tail(small)).count();
    assert!(waited > 0);
}

/// Two members can't read a block of a row that is partly written: one of these blocks is part of
/// the new parity. It can be read again after a crash, and holds something else.
#[test]
fn what_could_not_be_read_is_written_with_the_parity_that_it_is_part_of() {
    let (mut world, [neighbour, _]) = written(Level::Raid6, 4, [4, 0]);
    let at = world.areas.data_start().0;
    let [other, parity] = [1, 2].map(|role| disk_of(&world, role));
    world.disks[other].corrupt(&mut Source::seed(1), at);
    for disk in [other, parity] {
        world.disks[disk].bad.insert(at, FOR_GOOD);
    }
    world.ask(0, Op::Write, 0, 1);
    world.end_all(|io| !(is_write(io) && io.device.0 as usize == other));
    world.ios.clear();
    world.power_off();
    world.disks[other].bad.clear();
    world.power_on(Outage::Quiet);
    world.drain();
    assert_eq!(world.read_one(4), neighbour, "nobody has written there");
}

/// A user's write without FUA.
fn write_softly(world: &mut World, lba: u64, blocks: u32) {
    let request = Request { tag: Tag(0), op: Op::Write, lba: Lba(lba), blocks, fua: false };
    world.begin_request(request);
    world.drain();
}

#[test]
fn a_durable_write_into_a_row_that_was_overwritten_whole_is_there_without_its_member() {
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        for seed in 0..20 {
            let mut world = play(seed, scenario(level, members, Consistency::Journal));
            world.ask(0, Op::Write, 0, 12);
            world.drain();
            world.rest();
            write_softly(&mut world, 0, 12);
            let version = world.write_one(0);
            let lost = world.home_of(0);
            world.disks[lost].gone = true;
            world.cut_power();
            world.drain();
            assert_eq!(world.read_one(0), version, "{level:?}, {seed}");
        }
    }
}

/// Between a write's reads and its writes home, only the member that holds the entry has I/O of it.
/// If the others were left to collect garbage then, the write would wait for that.
#[test]
fn members_that_a_journaled_write_is_bound_for_have_it_in_hand() {
    let (mut world, _) = written(Level::Raid5, 4, [0, 4]);
    let [home, other, parity] =
        [0, 1, 3].map(|role| world.engine().geometry().member(Stripe(0), Role(role)));
    world.ask(0, Op::Write, 0, 1);
    world.end_all(|io| io.op != IoOp::Journal);
    let in_hand = [home, other, parity].map(|member| world.engine().in_hand(member));
    assert_eq!(in_hand, [1, 0, 2], "the entry, and what is to go home");
    let stored = |world: &World| world.ios.iter().map(|p| p.io.device).collect::<Vec<_>>();
    assert_eq!(stored(&world), [DeviceId(parity.0.into())]);
    world.end_all(|io| io.op == IoOp::Journal);
    let in_hand = [home, other, parity].map(|member| world.engine().in_hand(member));
    assert_eq!(in_hand, [1, 0, 1], "it goes home");
    world.drain();
}
