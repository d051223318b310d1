//! Marks of the write-intent bitmap that few members have.

use raidcore::meta::{AssembleError, AssembleOptions, MetaPage, assemble};

use super::distributed::FAILED;
use super::*;
use crate::disk::FOR_GOOD;

fn is_mark(io: &Io) -> bool {
    matches!(io.op, IoOp::Store(MetaPage::Bitmap { .. }))
}

impl World {
    /// What a start says that lacks some devices.
    fn start_without(&self, lost: &[usize]) -> Result<(), AssembleError> {
        let left = self.disks.iter().enumerate().filter(|(disk, _)| !lost.contains(disk));
        let left: Vec<_> = left.map(|(_, disk)| disk).collect();
        assemble(&left, AssembleOptions { degraded: true, force: false }).map(drop)
    }

    /// Only one member has the newest page when the power fails, and it is lost while the next start stores
    /// that on the others, and tears what it writes over: not what was durable. `gone` are devices that are
    /// not missed.
    fn loses_the_newest_marks(&mut self, gone: &[usize]) {
        self.write_one(0);
        self.ask(0, Op::Write, 100, 1);
        self.end_all(|io| !is_mark(io));
        let newest = self.ios.iter().map(|p| p.io).find(is_mark).expect("a mark is being stored");
        self.end_one(|io| is_mark(io) && io.device == newest.device);
        self.cut_power();
        self.end_all(|io| !is_mark(io));
        assert!(self.tear(is_mark) >= 3, "all members get it");
        let lost = [gone, &[newest.device.0 as usize]].concat();
        assert_eq!(self.start_without(&lost), Err(AssembleError::DirtyDegraded));
    }
}

#[test]
fn a_start_leaves_the_marks_that_were_durable() {
    let mut world = play(1, scenario(Level::Raid5, 3, Consistency::Bitmap));
    world.loses_the_newest_marks(&[]);
}

/// A member whose place the distributed spare has taken is not one that has failed.
#[test]
fn a_start_leaves_them_where_a_spare_stands_in() {
    let mut scenario = scenario(Level::Raid5, 5, Consistency::Bitmap);
    scenario.distributed_spare = true;
    let mut world = play(1, scenario);
    world.fail(FAILED);
    world.rest();
    world.loses_the_newest_marks(&[FAILED.index()]);
}

/// Which regions are marked is known to members that can't be read or are not there.
#[test]
fn marks_that_cannot_be_read_count_as_set() {
    let mut world = play(1, scenario(Level::Raid5, 4, Consistency::Bitmap));
    world.ask(0, Op::Write, 100, 1);
    world.end_all(|io| !is_mark(io));
    let marks: Vec<Io> = world.ios.iter().map(|p| p.io).filter(is_mark).collect();
    assert_eq!(marks.len(), 2);
    world.end_all(is_mark);
    let [lost, unreadable] = [0, 1].map(|mark| marks[mark].device.0 as usize);
    world.disks[unreadable].bad.insert(marks[1].at.0, FOR_GOOD);
    assert_eq!(world.start_without(&[lost]), Err(AssembleError::DirtyDegraded));
    assert_eq!(world.start_without(&[unreadable]), Err(AssembleError::DirtyDegraded));
    world.disks[unreadable].bad.clear();
    world.disks[lost].bad.insert(marks[0].at.0, FOR_GOOD);
    assert_eq!(world.start_without(&[]), Ok(()));
    // A clean stop leaves none.
    world.drain();
    world.command(Command::Stop);
    world.end_all(|_| true);
    world.disks[unreadable].bad.insert(marks[1].at.0, FOR_GOOD);
    assert_eq!(world.start_without(&[lost]), Ok(()));
}

/// A member fails that was to have a mark. Before that is on record, the other one that has the mark is
/// lost, and the failed one is there again. What the next version is stored over was not the only other
/// place of a mark.
#[test]
fn a_mark_is_on_enough_members_before_a_failure_is_on_record() {
    let mut world = play(1, scenario(Level::Raid5, 3, Consistency::Bitmap));
    let marks = |world: &World| world.ios.iter().map(|p| p.io).filter(is_mark).collect::<Vec<_>>();
    let is_data = |io: &Io| matches!(io.op, IoOp::Write { .. });
    world.ask(0, Op::Write, 0, 1);
    world.end_all(|io| !is_mark(io));
    let first: Vec<_> = marks(&world).iter().map(|io| io.device).collect();
    world.end_all(|io| !is_data(io));
    assert!(world.ios.iter().any(|p| is_data(&p.io)), "it goes home");

    world.ask(1, Op::Write, 100, 1);
    world.end_all(|io| !is_mark(io) && !is_data(io));
    world.ask(2, Op::Write, 200, 1);
    world.end_all(|io| !is_mark(io) && !is_data(io));
    let second = marks(&world);
    let fails = second.iter().find(|io| !first.contains(&io.device)).expect("they take turns");
    let lost = second.iter().find(|io| first.contains(&io.device)).expect("three have turns");
    world.disks[fails.device.0 as usize].unwritable.insert(fails.at.0);
    for io in &second {
        world.end_one(|other| other.id == io.id);
    }
    world.end_all(|io| !is_mark(io) && !is_data(io) && !is_record(io));
    assert_eq!(world.tear(is_mark), 2);
    let lost = lost.device.0 as usize;
    assert_eq!(world.start_without(&[lost]), Err(AssembleError::DirtyDegraded));
}
