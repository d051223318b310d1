//! RAID10: what the loss of members means by which pairs they are of.

use raidcore::engine::{ArrayHealth, CommandError};
use raidcore::meta::{MetaPage, SlotState};
use raidcore::units::Set;

use super::*;
use crate::checks;

/// One of each pair of eight members.
const ONE_OF_EACH: [u8; 4] = [0, 3, 5, 6];

fn written() -> (World, Vec<u64>) {
    let mut world = world(Level::Raid10, 8, Consistency::Bitmap);
    let versions = world.write_all();
    (world, versions)
}

impl World {
    fn lets_fail(&mut self, member: u8) -> Result<(), CommandError> {
        let number = self.command(Command::Fail(MemberId(member)));
        self.drain();
        let answer = self.answers.iter().find(|(answered, _)| *answered == number);
        answer.expect("it is answered").1
    }

    fn has_all(&mut self, versions: &[u64]) {
        for (lba, &version) in (0..).zip(versions) {
            assert_eq!(self.read_one(lba), version, "block {lba}");
        }
    }
}

#[test]
fn one_of_each_pair_can_be_missing() {
    let (mut world, mut versions) = written();
    for member in ONE_OF_EACH {
        assert_eq!(world.lets_fail(member), Ok(()), "member {member}");
        assert_eq!(world.engine().array_health(), ArrayHealth::Degraded);
    }
    for member in [1, 2, 4, 7] {
        assert_eq!(world.lets_fail(member), Err(CommandError::NoRedundancy), "member {member}");
    }
    world.has_all(&versions);
    for lba in (0..versions.len() as u64).step_by(3) {
        versions[lba as usize] = world.write_one(lba);
    }
    world.rest();
    world.restart();
    assert_eq!(world.engine().array_health(), ArrayHealth::Degraded);
    world.has_all(&versions);
    for _ in ONE_OF_EACH {
        let spare = world.new_spare();
        world.command(spare);
    }
    world.until(|world| world.engine().array_health() == ArrayHealth::Online);
    world.rest();
    checks::parity::agrees(&world);
    world.has_all(&versions);
}

#[test]
fn a_lost_pair_takes_its_stripes_and_no_others() {
    let (mut world, versions) = written();
    world.beyond = true;
    for disk in [2, 3] {
        world.disks[disk].gone = true;
        world.step(Input::DeviceGone(DeviceId(disk as u32)));
    }
    world.drain();
    assert_eq!(world.engine().members().nth(2).map(|m| m.state), Some(SlotState::Failed));
    for (lba, &version) in (0..).zip(&versions) {
        let lost = [2, 3].contains(&world.home_of(lba));
        let found = world.read_one(lba);
        assert_eq!(world.last().is_err(), lost, "block {lba}");
        assert!(lost || found == version, "block {lba}");
    }
}

#[test]
fn members_of_different_pairs_that_hang_are_given_up_and_a_pair_is_waited_for() {
    let (mut world, versions) = written();
    world.step(Input::Hung(Set::first(2)));
    assert_eq!(world.engine().array_health(), ArrayHealth::Online);
    world.step(Input::Hung([0, 2].into_iter().map(MemberId).collect()));
    assert_eq!(world.engine().array_health(), ArrayHealth::Degraded);
    world.drain();
    world.has_all(&versions);
}

#[test]
fn what_is_left_of_pairs_is_scrubbed_while_there_is_something_to_compare() {
    let (mut world, _) = written();
    let scrub = |world: &mut World| {
        let number = world.command(Command::Scrub { repair: false });
        world.drain();
        world.answers.iter().find(|(answered, _)| *answered == number).expect("an answer").1
    };
    for member in ONE_OF_EACH {
        assert_eq!(scrub(&mut world), Ok(()), "before member {member} fails");
        world.until(|world| world.engine().pass().is_none());
        assert_eq!(world.lets_fail(member), Ok(()));
    }
    assert_eq!(scrub(&mut world), Err(CommandError::NothingToCompare));
}

#[test]
fn reads_are_shared_among_the_copies() {
    let (mut world, versions) = written();
    let lbas: Vec<_> = (0..versions.len() as u64).filter(|&lba| world.home_of(lba) == 4).collect();
    for (tag, &lba) in (0..8).zip(&lbas) {
        world.ask(tag, Op::Read, lba, 1);
    }
    let of = |world: &World, disk| world.ios.iter().filter(|p| p.io.device.0 == disk).count();
    assert_eq!((of(&world, 4), of(&world, 5), world.ios.len()), (4, 4, 8));
    world.drain();
}

/// Marks are on enough members to outlive the loss of one of each pair.
#[test]
fn marks_outlive_the_loss_of_one_of_each_pair() {
    let losses = [[0, 2], [0, 3], [1, 2], [1, 3]];
    // Marks go to members that are not busy before others.
    for (lost, busy) in losses.into_iter().flat_map(|lost| (0..4).map(move |busy| (lost, busy))) {
        let mut scenario = scenario(Level::Raid10, 4, Consistency::Bitmap);
        scenario.busy = 1;
        let mut world = play(1, scenario);
        world.write_all();
        world.rest();
        world.busy(busy);
        world.ask(0, Op::Write, 0, 1);
        let is_mark = |io: &Io| matches!(io.op, IoOp::Store(MetaPage::Bitmap { .. }));
        world.end_all(|io| is_mark(io) || !matches!(io.op, IoOp::Write { .. }));
        world.ios.clear();
        for disk in lost {
            world.disks[disk].gone = true;
        }
        world.power_off();
        world.power_on(Outage::Quiet);
        let marked = world.engine().status().dirty_regions.0;
        assert!(marked > 0, "without {lost:?} the mark is lost, where {busy} was busy");
    }
}
