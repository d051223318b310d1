//! A member is replaced by another device while it serves, and the power fails at a moment at which
//! the record or the content of both matters.

use super::phases::is_record;
use raidcore::units::Pba;

use super::*;
use crate::checks;

const REPLACED: MemberId = MemberId(1);

fn is_write(io: &Io) -> bool {
    matches!(io.op, IoOp::Write { .. })
}

/// A RAID5 of three that is completely written.
fn written(consistency: Consistency) -> World {
    let mut small = scenario(Level::Raid5, 3, consistency);
    small.stripes = 12;
    let mut world = play(1, small);
    for lba in 0..world.engine.geometry().capacity() {
        world.write_one(lba);
    }
    world
}

impl World {
    /// This many stripes were copied, and that is on record.
    fn copied(&mut self, stripes: u64) -> DeviceId {
        let device = self.replace_a_little(stripes);
        let is_known = |world: &Self| {
            let known = world.superblocks().filter_map(|(_, known)| known.record.successor);
            known.filter(|successor| successor.watermark >= stripes).count() >= 3
        };
        while !is_known(self) {
            self.proceed();
        }
        device
    }

    /// Everything is copied, and the change that makes the new device the member is being recorded.
    fn about_to_succeed(&mut self) -> DeviceId {
        let device = self.replace_a_little(1);
        self.command(Command::SetPace(Pace::default()));
        while !self.succeeds(device) {
            self.proceed();
        }
        device
    }

    /// The first block of a stripe that is at home on the member that is replaced.
    fn of_replaced(&self, stripe: u64) -> u64 {
        let width = u64::from(self.engine.geometry().stripe_blocks());
        let mut blocks = stripe * width..(stripe + 1) * width;
        blocks.find(|&lba| self.home_of(lba) == REPLACED.index()).expect("it has no parity there")
    }

    /// Everything that fits ends, and enough time passes to clear marks.
    fn for_long(&mut self, fits: impl Fn(&Io) -> bool) {
        for _ in 0..1000 {
            self.end_all(&fits);
            self.pass_time();
        }
    }
}

#[test]
fn what_is_written_before_the_new_one_is_on_record_is_on_the_old_one() {
    let mut world = written(Consistency::Bitmap);
    world.about_to_succeed();
    world.ask(0, Op::Write, world.of_replaced(0), 1);
    world.end_all(|io| !is_record(io));
    world.cut_power();
    world.drain();
    world.verify();
}

/// The old device is lost while the new one is being recorded, and returns with the power.
#[test]
fn what_the_old_one_has_missed_is_there_only_if_the_new_one_is_on_record() {
    let mut world = written(Consistency::Bitmap);
    world.about_to_succeed();
    let old = world.device_of(REPLACED).expect("it serves");
    world.disks[old.0 as usize].gone = true;
    world.step(Input::DeviceGone(old));
    world.ask(0, Op::Write, world.of_replaced(0), 1);
    world.end_all(|io| !is_record(io));
    world.disks[old.0 as usize].gone = false;
    world.cut_power();
    world.drain();
    world.verify();
}

/// The new device fails a write; that is being recorded when everything else has ended and the mark
/// is cleared.
#[test]
fn what_the_new_one_has_missed_is_there_only_if_that_is_on_record() {
    let mut world = written(Consistency::Journal);
    let device = world.copied(6);
    world.disks[device.0 as usize].gone = true;
    world.ask(0, Op::Write, world.of_replaced(0), 1);
    world.for_long(|io| !is_record(io));
    world.disks[device.0 as usize].gone = false;
    world.cut_power();
    world.drain();
    world.copy_on();
    world.verify();
}

/// A crash leaves old and new device different in a stripe that was copied. The next crash comes
/// when the stripe is no longer marked, and was not copied again.
#[test]
fn what_a_crash_has_left_different_is_copied_after_the_next_one_too() {
    let mut world = written(Consistency::Journal);
    let device = world.copied(6);
    world.ask(0, Op::Write, world.of_replaced(0), 1);
    world.end_all(|io| !(is_write(io) && io.device == device));
    world.cut_power();
    world.command(Command::SetPace(Pace::default()));
    world.for_long(|io| !(is_write(io) && io.device == device));
    assert_eq!(world.engine.status().dirty_regions.0, 0);
    world.cut_power();
    world.copy_on();
    assert_eq!(world.device_of(REPLACED), Some(device));
    checks::parity::agrees(&world);
    world.verify();
}

/// A stripe whose parity is on the member is half written as the new device takes its place; then
/// the power fails, and takes another member.
#[test]
fn the_new_one_has_the_entries_of_what_is_not_at_home() {
    let mut world = written(Consistency::Journal);
    let device = world.replace_a_little(6);
    let geometry = *world.engine.geometry();
    let parity = |stripe: &u64| geometry.member(Stripe(*stripe), Role(2)) == REPLACED;
    let stripe = (0..6).find(parity).expect("each member has some");
    let lba = stripe * u64::from(geometry.stripe_blocks());
    let neighbour = world.read_one(lba + 4);
    let (_, Pba(place)) = world.engine.layout().place(Stripe(stripe), Role(1));
    let home = world.home_of(lba);
    world.ask(0, Op::Write, lba, 1);
    world.end_all(|io| !is_write(io));
    assert!(world.end_one(|io| is_write(io) && io.device.0 as usize == home));
    world.command(Command::SetPace(Pace::default()));
    let is_in_stripe = |io: &Io| (place..place + 4).contains(&io.at.0);
    while world.device_of(REPLACED) != Some(device) {
        world.end_all(|io| !(is_write(io) && is_in_stripe(io)));
        world.pass_time();
    }
    assert!(world.requests[0].is_some(), "it is half at home");
    let other = world.home_of(lba + 4);
    world.disks[other].gone = true;
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(lba + 4), neighbour, "nobody has written there");
}

/// The old device is lost when the new one has the entry of a write, but nothing of its stripe.
/// Later writes of the stripe are not in the new one's journal, and stay when the power fails.
#[test]
fn an_entry_that_only_the_new_one_has_is_not_carried_out_where_it_is_not_filled() {
    let mut world = written(Consistency::Journal);
    world.replace_a_little(2);
    let geometry = *world.engine.geometry();
    let parity = |stripe: &u64| geometry.member(Stripe(*stripe), Role(2)) == REPLACED;
    let stripe = (8..12).find(parity).expect("each member has some");
    let lba = stripe * u64::from(geometry.stripe_blocks());
    world.write_one(lba);
    let old = world.device_of(REPLACED).expect("it serves");
    world.disks[old.0 as usize].gone = true;
    world.step(Input::DeviceGone(old));
    let version = world.write_one(lba);
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(lba), version, "a replay has brought the past back");
}
