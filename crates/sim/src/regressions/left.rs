//! What a pass can't do is left behind, and costs what it held and nothing else.

use raidcore::engine::PassEnd;
use raidcore::meta::SlotState;
use raidcore::units::Pba;

use super::*;
use crate::checks;

const FILLED: MemberId = MemberId(1);
const OTHER: usize = 0;
const LEFT: Stripe = Stripe(6);

/// RAID5 of three, written everywhere: a member has failed, and of another a block of a stripe can't be read
/// in which both have data. The versions of all blocks.
fn unreadable(consistency: Consistency) -> (World, Vec<u64>) {
    let mut world = world(Level::Raid5, 3, consistency);
    let versions = world.write_all();
    assert!([FILLED, MemberId(OTHER as u8)].into_iter().all(|member| {
        let role = world.engine().geometry().role(LEFT, member);
        role.is_some_and(|role| role.index() < 2)
    }));
    world.scratch(OTHER);
    world.beyond = true;
    world.command(Command::Fail(FILLED));
    let spare = world.new_spare();
    world.command(spare);
    (world, versions)
}

impl World {
    /// The third block that a disk has of the stripe can't be read.
    fn scratch(&mut self, disk: usize) {
        let at = self.areas.data_start().0 + LEFT.0 * 4 + 2;
        self.disks[disk].bad.insert(at, FOR_GOOD);
    }

    /// Whether a pass is under way that can't go on, of these kinds.
    fn is_stuck(&self, of: impl Fn(PassKind) -> bool) -> bool {
        self.engine().pass().is_some_and(|pass| pass.stuck.is_some() && of(pass.kind))
    }

    /// Runs until all but a stripe is rebuilt, or it takes for ever.
    fn leaves_one(&mut self) {
        self.until(|world| world.is_stuck(|_| true));
        let pass = self.engine().pass().expect("it waits");
        assert_eq!((pass.stuck, pass.left, pass.done), (Some(LEFT), 1, pass.total - 1));
    }

    /// All of the stripe is overwritten, and that is all that a rebuild waits for.
    fn overwrite(&mut self) {
        let blocks = self.engine().geometry().stripe_blocks();
        self.ask(0, Op::Write, self.stripe_at(LEFT), blocks);
        self.until(|world| world.engine().pass().is_none() && !world.is_busy());
        assert!(self.engine().members().all(|m| m.state == SlotState::Up));
    }

    fn stripe_at(&self, stripe: Stripe) -> u64 {
        stripe.0 * u64::from(self.engine().geometry().stripe_blocks())
    }
}

#[test]
fn a_block_that_can_not_be_read_costs_a_rebuild_what_it_held() {
    for consistency in [Consistency::Journal, Consistency::Bitmap] {
        let (mut world, versions) = unreadable(consistency);
        world.leaves_one();
        let at = world.stripe_at(LEFT);
        let status = world.engine().status();
        let [left] = &status.left[..] else { panic!("{:?}", status.left) };
        assert_eq!(left.stripe, LEFT);
        // The third block of both chunks.
        assert_eq!(left.lost, [(Lba(at + 2), 1), (Lba(at + 6), 1)]);
        let bad = world.areas.data_start().0 + LEFT.0 * 4 + 2;
        assert_eq!(left.unreadable, [(MemberId(OTHER as u8), Pba(bad), 1)]);
        let lost = [at + 2, at + 6];
        for lba in (0..versions.len() as u64).filter(|lba| !lost.contains(lba)) {
            assert_eq!(world.read_one(lba), versions[lba as usize]);
        }
        for (tag, lba) in [(1, lost[0]), (2, lost[1])] {
            world.ask(tag, Op::Read, lba, 1);
            world.drain();
        }
        assert_eq!(world.summary.errors, 2, "what is lost is told, and not made up");
    }
}

#[test]
fn what_was_left_behind_is_done_when_it_is_written() {
    let (mut world, _) = unreadable(Consistency::Journal);
    world.leaves_one();
    // Until what is filled is on record.
    for _ in 0..20 {
        world.now = world.now + Duration::from_secs(6);
        world.step(Input::Tick);
        world.end_all(|_| true);
    }
    world.cut_power();
    world.scratch(OTHER);
    world.leaves_one();
    let from = world.engine().pass().map(|pass| pass.from);
    assert!(from >= Some(30), "it begins anew: {from:?}");
    let (at, tried) = (world.stripe_at(LEFT), world.engine().members().next());
    // A row that lacks nothing.
    world.ask(0, Op::Write, at, 1);
    world.drain();
    assert_eq!(world.engine().members().next(), tried, "it is not tried again for that");
    world.overwrite();
    let is_told = |note: &Note| matches!(note, Note::PassEnded(_, PassEnd::Stuck(LEFT)));
    assert!(world.notes.iter().any(is_told));
    world.verify();
    checks::parity::agrees(&world);
}

/// A resync leaves a stripe behind: regions after it are in step all the same, and the one that it is in is not.
#[test]
fn regions_come_into_step_after_one_that_can_not() {
    let mut world = world(Level::Raid5, 3, Consistency::Resync);
    let capacity = world.engine().geometry().capacity();
    world.write_all();
    world.cut_power();
    [0, 1].into_iter().for_each(|disk| world.scratch(disk));
    world.leaves_one();
    let in_doubt = (0..capacity).filter(|&lba| world.engine().is_in_doubt(lba, 1));
    assert!(in_doubt.eq(LEFT.0 * 8..LEFT.0 * 8 + 8));
}

/// RAID6 that lacks two members, and can't read a block of a third: a rebuild has given way. Which it is.
fn aside() -> (World, MemberId) {
    let mut world = world(Level::Raid6, 5, Consistency::Journal);
    world.write_all();
    world.beyond = true;
    world.scratch(OTHER);
    for member in [1, 2] {
        world.command(Command::Fail(MemberId(member)));
        let (spare, _) = world.noisy_spare();
        world.command(spare);
    }
    let waits = |world: &World| {
        world.notes.iter().find_map(|note| {
            let Note::PassEnded(PassKind::Rebuild(member), PassEnd::Aside) = note else {
                return None;
            };
            Some(*member)
        })
    };
    world.until(|world| waits(world).is_some());
    let member = waits(&world).expect("it waits");
    (world, member)
}

#[test]
fn a_rebuild_that_can_not_go_on_gives_way_to_that_of_another_member() {
    let (mut world, _) = aside();
    world.leaves_one();
    world.overwrite();
    let is_aside = |note: &&Note| matches!(note, Note::PassEnded(_, PassEnd::Aside));
    assert_eq!(world.notes.iter().filter(is_aside).count(), 1);
    world.verify();
    checks::parity::agrees(&world);
}

#[test]
fn a_device_that_takes_the_place_of_one_whose_rebuild_gave_way_is_filled_as_a_whole() {
    let (mut world, member) = aside();
    world.command(Command::Fail(member));
    let (spare, _) = world.noisy_spare();
    world.command(spare);
    world.leaves_one();
    world.overwrite();
    world.verify();
    checks::parity::agrees(&world);
}

/// A scrub waits at what it can't read, until the member is to be copied that can't be read there.
#[test]
fn a_scrub_that_can_not_go_on_gives_way_to_a_copy() {
    let mut world = world(Level::Raid5, 3, Consistency::Bitmap);
    world.write_all();
    world.beyond = true;
    [0, 1].into_iter().for_each(|disk| world.scratch(disk));
    world.command(Command::Scrub { repair: false });
    world.leaves_one();
    let (spare, device) = world.noisy_spare();
    world.command(spare);
    world.command(Command::Replace { member: MemberId(OTHER as u8), spare: device });
    world.until(|world| world.is_stuck(|kind| matches!(kind, PassKind::Copy(_))));
    world.overwrite();
    world.verify();
}

/// A resync waits at a stripe with an unreadable block. When another member of it fails there is nothing to
/// be brought in step, and the rebuild begins.
#[test]
fn a_resync_that_can_not_go_on_does_not_keep_a_rebuild_from_beginning() {
    let mut world = world(Level::Raid5, 3, Consistency::Resync);
    world.write_all();
    world.cut_power();
    world.beyond = true;
    world.scratch(OTHER);
    world.leaves_one();
    let (spare, _) = world.noisy_spare();
    world.command(spare);
    world.command(Command::Fail(FILLED));
    world.until(|world| world.is_stuck(|kind| matches!(kind, PassKind::Rebuild(_))));
    world.overwrite();
    world.verify();
    checks::parity::agrees(&world);
}
