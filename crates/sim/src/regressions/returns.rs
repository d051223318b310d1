//! Members that were away and return, at the moments at which the record of what they have missed
//! matters.

use raidcore::meta::{MetaPage, Returning, SlotState, Superblock};
use raidcore::units::{MemberId, Set};

use super::phases::{is_flush, is_record};
use super::*;
use crate::checks;

pub(super) fn is_missed_page(io: &Io) -> bool {
    matches!(io.op, IoOp::Store(MetaPage::Missed { .. }))
}

/// A source that makes a disk lose everything that it may lose.
fn the_worst() -> Source {
    Source::bytes(&[0; 4096])
}

impl World {
    /// A member's disk is lost, with all its unflushed writes.
    pub(super) fn leaves(&mut self, disk: usize) {
        self.disks[disk].gone = true;
        self.disks[disk].crash(&mut the_worst(), false);
        self.step(Input::DeviceGone(DeviceId(disk as u32)));
    }

    /// Everything ends except stores of pages of the map of missed regions, and enough time passes
    /// to clear marks.
    fn all_but_pages_of_what_is_missed(&mut self) {
        for _ in 0..1000 {
            self.end_all(|io| !is_missed_page(io));
            self.pass_time();
        }
    }

    /// A RAID6 of four lacks a member, and a write of block 0 is in the journal, and half at home.
    /// Returns the missing member's content of block 4, and the disk with the first parity.
    fn half_at_home(&mut self) -> (u64, usize) {
        let is_write = |io: &Io| matches!(io.op, IoOp::Write { .. });
        let geometry = *self.engine().geometry();
        let disk = |role| geometry.member(Stripe(0), Role(role)).index();
        let neighbour = self.write_one(4);
        self.write_one(0);
        self.command(Command::Fail(MemberId::at(disk(1))));
        self.drain();
        self.ask(0, Op::Write, 0, 1);
        self.end_all(|io| !is_write(io));
        assert!(self.end_one(|io| is_write(io) && io.device.0 as usize == disk(0)));
        (neighbour, disk(2))
    }

    /// A disk is back in its place.
    fn comes_back(&mut self, disk: usize) -> Returning {
        let known = self.returnable().into_iter().find(|&(other, _)| other == disk);
        let (_, returning) = known.expect("it may return");
        self.return_disk(disk, returning);
        returning
    }

    /// A disk is back in its place, is filled where it missed something, and is then complete.
    pub(super) fn catches_up(&mut self, disk: usize) {
        assert!(self.comes_back(disk).catches_up);
        self.copy_on();
        self.verify();
    }
}

/// The page with a missed region is being stored when everything else of a write has ended and its
/// mark in the write-intent bitmap has been cleared. Then the power fails.
#[test]
fn a_write_ends_when_it_is_on_record_that_a_member_misses_it() {
    let mut world = world(Level::Raid5, 3, Consistency::Journal);
    world.write_one(0);
    world.rest();
    let home = world.home_of(0);
    world.leaves(home);
    world.drain();
    world.ask(0, Op::Write, 0, 1);
    world.all_but_pages_of_what_is_missed();
    world.cut_power();
    world.drain();
    world.catches_up(home);
}

/// A member returns, or another device takes its place, and that is being recorded when a write
/// ends and its mark is cleared. Then the power fails, and the member returns once more.
#[test]
fn what_is_written_before_a_return_is_on_record_is_filled_after_a_crash() {
    for returns in [true, false] {
        let mut world = world(Level::Raid5, 3, Consistency::Journal);
        world.write_one(0);
        world.rest();
        let home = world.home_of(0);
        world.leaves(home);
        world.drain();
        let back = if returns {
            world.comes_back(home);
            world.disks.len() - 1
        } else {
            let spare = world.new_spare();
            world.command(spare);
            home
        };
        world.ask(0, Op::Write, 0, 1);
        for _ in 0..1000 {
            world.end_all(|io| !is_record(io));
            world.pass_time();
        }
        world.cut_power();
        world.drain();
        world.comes_back(back);
        world.copy_on();
        world.verify();
    }
}

/// The same for corrections by a scrub: one of two copies of a mirror, while the third is away.
#[test]
fn a_scrub_is_over_when_it_is_on_record_that_a_member_misses_what_it_has_corrected() {
    let scrubbed = |note: &Note| matches!(note, Note::PassEnded(PassKind::Scrub { .. }, _));
    let mut world = world(Level::Raid1, 3, Consistency::Bitmap);
    world.write_one(0);
    world.rest();
    world.leaves(2);
    world.drain();
    let at = world.areas.data_start().0;
    world.disks[0].corrupt(&mut Source::seed(1), at);
    world.command(Command::SetPace(Pace::default()));
    world.command(Command::Scrub { repair: true });
    world.all_but_pages_of_what_is_missed();
    let is_over = world.notes.iter().any(scrubbed);
    world.cut_power();
    world.drain();
    world.comes_back(2);
    world.copy_on();
    if is_over {
        checks::parity::agrees(&world);
    }
}

#[test]
fn what_a_member_had_not_flushed_when_it_left_is_filled() {
    // The member with the block, and the one with its parity, whose journal alone tells of the write.
    for role in [0, 2] {
        let mut world = world(Level::Raid5, 3, Consistency::Journal);
        world.write_one(0);
        world.rest();
        world.begin_unflushed(0, 1);
        world.drain();
        let member = world.engine().geometry().member(Stripe(0), Role(role)).index();
        world.leaves(member);
        world.drain();
        world.catches_up(member);
        checks::parity::agrees(&world);
    }
}

/// A write reads the blocks that it needs without a member, and the member returns meanwhile.
#[test]
fn what_is_being_written_without_a_member_as_it_returns_is_filled() {
    let mut world = world(Level::Raid5, 3, Consistency::Journal);
    world.write_one(0);
    world.rest();
    let home = world.home_of(0);
    world.leaves(home);
    world.drain();
    world.ask(0, Op::Write, 0, 1);
    world.end_all(|io| !matches!(io.op, IoOp::Read(_)));
    assert!(!world.ios.is_empty(), "it reads");
    world.catches_up(home);
}

/// A member leaves while another one is being rebuilt onto the distributed spare, and returns after
/// that.
#[test]
fn copies_that_were_made_while_a_member_was_away_are_made_on_it_too() {
    let mut spare = scenario(Level::Raid6, 6, Consistency::Journal);
    (spare.distributed_spare, spare.stripes) = (true, 12);
    let mut world = play(1, spare);
    for lba in 0..world.engine().geometry().capacity() {
        world.write_one(lba);
    }
    world.command(Command::SetPace(Pace { min: 1 << 14, max: 1 << 14 }));
    world.command(Command::Fail(MemberId(2)));
    while world.engine().pass().is_none_or(|pass| pass.done < 3) {
        world.proceed();
    }
    world.leaves(4);
    world.copy_on();
    world.comes_back(4);
    world.copy_on();
    checks::parity::agrees(&world);
    world.verify();
}

/// A member is lost that lacks a write in a marked region. The pages that record this are being
/// stored when everything else has ended and the mark is cleared, and their slots hold older pages.
#[test]
fn a_member_catches_up_only_if_what_it_has_missed_is_on_record() {
    let mut world = world(Level::Raid5, 3, Consistency::Journal);
    world.write_one(0);
    world.rest();
    world.leaves(2);
    world.write_one(80);
    world.comes_back(2);
    world.copy_on();
    world.rest();
    let home = world.home_of(0);
    world.begin_unflushed(0, 1);
    world.drain();
    world.leaves(home);
    world.ask(0, Op::Flush, 0, 0);
    world.all_but_pages_of_what_is_missed();
    world.cut_power();
    world.drain();
    world.comes_back(home);
    world.copy_on();
    world.verify();
}

#[test]
fn without_marks_a_member_that_returns_is_filled_as_a_whole() {
    let mut world = world(Level::Raid5, 3, Consistency::Resync);
    world.begin_unflushed(0, 8);
    world.drain();
    let home = world.home_of(0);
    world.leaves(home);
    world.drain();
    world.comes_back(home);
    world.copy_on();
    world.verify();
}

/// A member that holds the journal returns within the same run, and nothing is written to its
/// journal before the power fails.
#[test]
fn what_a_member_that_returns_had_in_its_journal_is_void() {
    let mut world = world(Level::Raid4, 3, Consistency::Journal);
    world.write_one(0);
    world.rest();
    world.ask(0, Op::Write, 0, 1);
    world.end_all(|_| true);
    world.leaves(2);
    world.drain();
    let version = world.write_one(0);
    world.comes_back(2);
    world.copy_on();
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(0), version, "a replay has brought the past back");
}

/// A copy of a member's disk, made before the member left, comes back in its place.
#[test]
fn an_old_copy_of_a_member_is_filled_as_a_whole() {
    let mut world = world(Level::Raid5, 3, Consistency::Bitmap);
    let home = world.home_of(0);
    let copy = world.disks[home].clone();
    world.write_one(0);
    world.rest();
    for name in ["one", "two"] {
        world.command(Command::SetPolicy(PolicyName::new(name).expect("a name")));
        world.drain();
    }
    world.leaves(home);
    world.drain();
    world.disks[home] = copy;
    assert!(!world.comes_back(home).catches_up);
    world.copy_on();
    world.verify();
}

/// A mirror's member that has left was started by itself, and written to.
#[test]
fn a_member_that_was_used_alone_does_not_return() {
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    world.write_one(0);
    world.rest();
    world.leaves(1);
    world.drain();
    let Superblock { mut record, device } = world.disks[1].superblock().expect("it has one");
    record.events += 3;
    record.slots[0].state = SlotState::Failed;
    for (at, block) in record.superblocks(device) {
        world.disks[1].write_meta(at.0, Rc::new(block), true);
    }
    world.disks[1].corrupt(&mut Source::seed(1), world.areas.data_start().0);
    for (disk, returning) in world.returnable() {
        world.return_disk(disk, returning);
    }
    world.copy_on();
    world.step(Input::Busy(Set::one(MemberId(0))));
    world.read_one(0);
}

/// A scrub corrects a block in a region that is not marked. The member is lost before it is
/// flushed, and has the wrong block again. A flush that began before makes no difference.
#[test]
fn what_a_scrub_has_corrected_and_a_member_lost_is_filled() {
    for flushes in [false, true] {
        let mut world = world(Level::Raid6, 4, Consistency::Journal);
        world.write_one(0);
        world.rest();
        let (home, at) = (world.home_of(0), world.areas.data_start().0);
        let right = *world.disks[home].data(at);
        world.disks[home].corrupt(&mut Source::seed(1), at);
        world.command(Command::SetPace(Pace::default()));
        if flushes {
            // Of what was written elsewhere.
            world.write_one(80);
            world.now = world.now + Duration::from_secs(6);
            world.step(Input::Tick);
        }
        let begun = world.ios.iter().filter(|p| is_flush(&p.io)).count();
        assert_eq!(begun > 0, flushes);
        world.command(Command::Scrub { repair: true });
        while *world.disks[home].data(at) != right {
            world.end_all(|io| !is_flush(io));
            world.pass_time();
        }
        world.end_all(|io| !is_flush(io));
        (0..begun).for_each(|_| assert!(world.end_one(is_flush)));
        assert!(!world.disks[home].is_durable(at), "the correction was not flushed yet");
        world.leaves(home);
        world.drain();
        world.catches_up(home);
    }
}

/// A scrub corrects two stripes of a region. The first is corrected and flushed while the second is
/// being corrected; the member is lost before that one is flushed, too.
#[test]
fn what_is_corrected_beside_what_was_flushed_in_the_same_region_is_filled() {
    let mut pairs = scenario(Level::Raid4, 4, Consistency::Journal);
    pairs.region_stripes = 2;
    let mut world = play(1, pairs);
    let disk = 3;
    for lba in [0, 12] {
        world.write_one(lba);
    }
    world.rest();
    let start = world.areas.data_start().0;
    let [first, second] = [start, start + 4].map(|at| (at, *world.disks[disk].data(at)));
    for (at, _) in [first, second] {
        world.disks[disk].corrupt(&mut Source::seed(1), at);
    }
    world.command(Command::SetPace(Pace { min: u64::MAX, max: u64::MAX }));
    world.command(Command::Scrub { repair: true });
    let is_write = |io: &Io, at: u64| matches!(io.op, IoOp::Write { .. }) && io.at.0 == at;
    world.end_all(|io| !is_write(io, first.0) && !is_write(io, second.0));
    assert!(world.end_one(|io| is_write(io, first.0)));
    // Something else is written, and flushed.
    world.ask(0, Op::Write, 120, 1);
    world.end_all(|io| !is_write(io, second.0));
    world.now = world.now + Duration::from_secs(6);
    world.step(Input::Tick);
    world.end_all(|io| !is_write(io, second.0));
    assert!(world.disks[disk].is_durable(first.0));
    assert!(world.end_one(|io| is_write(io, second.0)));
    world.end_all(|io| !is_flush(io));
    assert!(!world.disks[disk].is_durable(second.0));
    world.leaves(disk);
    world.drain();
    assert!(world.comes_back(disk).catches_up);
    world.copy_on();
    checks::parity::agrees(&world);
    world.verify();
}

/// A RAID6 lacks a member, and a write is half at home, when a second one is lost and returns at
/// once. The power fails before its loss is on record: then its journal is needed.
#[test]
fn a_member_keeps_its_journal_until_it_is_on_record_that_it_has_left() {
    let mut world = world(Level::Raid6, 4, Consistency::Journal);
    let (neighbour, parity) = world.half_at_home();
    world.disks[parity].gone = true;
    world.step(Input::DeviceGone(DeviceId(parity as u32)));
    world.end_all(|io| io.device.0 as usize == parity);
    world.disks[parity].gone = false;
    for (disk, returning) in world.returnable() {
        world.return_disk(disk, returning);
    }
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(4), neighbour, "nobody has written there");
}

/// A member has returned that lacks a write which is still half at home, and its journal lacks the
/// entry when the power fails: the entry is replayed from another member.
#[test]
fn an_entry_is_carried_out_that_a_member_lacks_where_it_is_not_filled() {
    let mut world = world(Level::Raid6, 4, Consistency::Journal);
    let (neighbour, parity) = world.half_at_home();
    world.step(Input::DeviceGone(DeviceId(parity as u32)));
    world.disks[parity].gone = true;
    let waits = |io: &Io| matches!(io.op, IoOp::Write { .. }) && io.device.0 as usize != parity;
    world.end_all(|io| !waits(io));
    assert!(world.comes_back(parity).catches_up);
    world.end_all(|io| !waits(io));
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(4), neighbour, "nobody has written there");
}

/// The parity member has returned and is being filled. A write of a stripe in which it is current
/// is half at home when the power fails and the member is lost, with the only copy of the entry.
#[test]
fn what_a_member_that_catches_up_alone_knows_of_is_filled() {
    let mut world = world(Level::Raid4, 3, Consistency::Journal);
    let (parity, missed, current) = (2, 0, 8);
    for lba in [missed, current] {
        world.write_one(lba);
    }
    world.rest();
    let home = world.home_of(current);
    world.leaves(parity);
    world.write_one(missed);
    world.drain();
    assert!(world.comes_back(parity).catches_up);
    let back = world.disks.len() - 1;
    let is_home = |io: &Io| matches!(io.op, IoOp::Write { .. });
    world.end_all(|io| !is_home(io));
    world.ask(0, Op::Write, current, 1);
    world.end_all(|io| !is_home(io));
    assert!(world.end_one(|io| is_home(io) && io.device.0 as usize == home));
    let mark = world.disks[home].flush_mark();
    world.disks[home].flushed(mark);
    world.disks[back].gone = true;
    world.cut_power();
    world.drain();
    assert!(world.comes_back(back).catches_up);
    world.copy_on();
    checks::parity::agrees(&world);
    world.verify();
}

/// The parity member is lost during a replay, with the only copy of the entry, which holds blocks of two
/// chunks. It returns after the others have replayed parts of the entry.
#[test]
fn a_member_that_goes_amid_a_replay_is_filled_where_that_has_written() {
    let mut world = world(Level::Raid4, 3, Consistency::Journal);
    world.write_one(3);
    world.rest();
    let parity = 2;
    let home = world.home_of(3);
    world.ask(0, Op::Write, 3, 2);
    let is_home = |io: &Io| matches!(io.op, IoOp::Write { .. });
    world.end_all(|io| !is_home(io));
    assert_eq!(world.engine().status().dirty_regions.0, 0, "the journal tells of it, and no mark");
    world.cut_power();
    world.end_all(|io| !is_home(io));
    let carried_out = world.end_one(|io| is_home(io) && io.device.0 as usize == home);
    assert!(carried_out, "the entry is found");
    let mark = world.disks[home].flush_mark();
    world.disks[home].flushed(mark);
    world.disks[parity].gone = true;
    world.cut_power();
    world.drain();
    world.comes_back(parity);
    world.copy_on();
    checks::parity::agrees(&world);
    world.verify();
}
