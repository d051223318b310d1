//! Progress of a pass that was reported or recorded survives a power failure.

use raidcore::engine::Slowdown;
use raidcore::meta::{MetaPage, SUPERBLOCKS, ScrubEnd, SlotState};

use super::*;
use crate::checks;

/// Seeds: chance decides which of the unflushed writes survive a power failure.
const SEEDS: std::ops::Range<u64> = 0..8;

#[test]
fn what_a_resync_has_made_agree_stays_so() {
    for seed in SEEDS {
        let mut used = scenario(Level::Raid5, 3, Consistency::Bitmap);
        used.used_disks = true;
        let mut world = World::new(Source::seed(seed), used, None);
        // The last stripe's first block.
        let (lba, at) = (39 * 8, world.areas.data_start().0 + 39 * 4);
        let held = *world.disks[0].data(at);
        let end = Note::PassEnded(PassKind::Resync, PassEnd::Done);
        while !world.notes.contains(&end) {
            world.proceed();
        }
        world.disks[0].gone = true;
        world.cut_power();
        world.drain();
        world.read_one(lba);
        assert_eq!(world.memory.payload[0][0], held, "redundancy has not made up for the disk");
    }
}

#[test]
fn what_a_scrub_has_corrected_stays_so() {
    for seed in SEEDS {
        let mut world = play(seed, scenario(Level::Raid5, 3, Consistency::Bitmap));
        let parity = world.areas.data_start().0;
        world.disks[2].corrupt(&mut world.source, parity);
        world.scrub(true);
        world.cut_power();
        world.drain();
        checks::parity::agrees(&world);
    }
}

/// The record of the last scrub: its end, and the rows that it found.
fn last_scrub(world: &World) -> Option<(ScrubEnd, u64)> {
    world.engine().status().last_scrub.map(|scrub| (scrub.end, scrub.rows))
}

#[test]
fn what_a_scrub_has_found_is_known_until_it_is_repaired() {
    let mut world = play(1, scenario(Level::Raid5, 3, Consistency::Bitmap));
    assert_eq!(last_scrub(&world), None);
    let start = world.areas.data_start().0;
    for at in [start + 30 * 4, start + 35 * 4] {
        world.disks[2].corrupt(&mut world.source, at);
    }
    world.scrub(false);
    for _ in 0..2 {
        assert_eq!(last_scrub(&world), Some((ScrubEnd::Compared, 2)));
        world.cut_power();
        world.drain();
    }
    // One that does not get that far says nothing of the rest.
    world.command(Command::SetPace(Pace { min: 1, max: 1 }));
    world.command(Command::Scrub { repair: true });
    world.command(Command::CancelScrub);
    world.turns(1000);
    assert_eq!(last_scrub(&world), Some((ScrubEnd::Compared, 2)));
    world.command(Command::SetPace(Pace::default()));
    world.scrub(true);
    world.cut_power();
    world.drain();
    assert_eq!(last_scrub(&world), Some((ScrubEnd::Repaired, 2)));
    world.scrub(false);
    assert_eq!(last_scrub(&world), Some((ScrubEnd::Compared, 0)));
}

#[test]
fn what_a_scrub_has_found_is_known_though_it_is_cut_short() {
    for (crash, found) in [(true, 1), (false, 2)] {
        let mut world = play(1, scenario(Level::Raid5, 3, Consistency::Bitmap));
        let start = world.areas.data_start().0;
        for stripe in [0, 1] {
            world.disks[2].corrupt(&mut world.source, start + stripe * 4);
        }
        world.command(Command::SetPace(Pace { min: 1 << 14, max: 1 << 14 }));
        world.command(Command::Scrub { repair: false });
        while world.engine().pass().is_none_or(|pass| pass.done < 2) {
            world.proceed();
        }
        world.command(Command::Pause);
        world.turns(1000);
        assert!(world.engine().pass().is_some_and(|pass| pass.done < pass.total), "it goes on");
        if !crash {
            world.command(Command::CancelScrub);
            world.turns(1000);
        }
        world.cut_power();
        world.drain();
        assert_eq!(last_scrub(&world), Some((ScrubEnd::CutShort, found)));
    }
}

#[test]
fn what_is_recorded_to_be_rebuilt_is_there_after_a_power_failure() {
    let flushes = |io: &Io| io.op == IoOp::Flush;
    for seed in SEEDS {
        let mut world = play(seed, scenario(Level::Raid5, 3, Consistency::Bitmap));
        let version = world.write_one(4);
        world.command(Command::Fail(MemberId(1)));
        let spare = world.new_spare();
        world.command(spare);
        while !world.ios.iter().any(|p| flushes(&p.io)) {
            world.now = world.now + Duration::from_secs(1);
            world.step(Input::Tick);
        }
        // The rebuild finishes while the flush is under way that was to record its progress.
        world.end_all(|io| !flushes(io));
        (0..3).for_each(|_| assert!(world.end_one(flushes)));
        world.end_all(|io| !flushes(io));
        world.cut_power();
        world.heal(World::is_whole);
        assert_eq!(world.read_one(4), version);
        checks::parity::agrees(&world);
    }
}

#[test]
fn a_member_that_can_not_be_recorded_does_not_become_one() {
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    world.rebuild_a_little();
    world.disks[0].unwritable.extend(SUPERBLOCKS.map(|at| at.0));
    world.command(Command::SetPolicy(PolicyName::new("any").expect("a name")));
    world.command(Command::SetPace(Pace::default()));
    world.command(Command::Resume);
    world.turns(10_000);
    let filled = world.engine().members().nth(1).expect("a member");
    assert_ne!(filled.state, SlotState::Up, "a restart would not find it");
    assert!(world.engine().pass().is_some_and(|pass| pass.done == pass.total), "all is rebuilt");
}

#[test]
fn a_page_counts_that_a_member_took_as_the_last_thing_before_it_was_one() {
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    world.command(Command::Fail(MemberId(1)));
    let spare = world.new_spare();
    world.command(spare);
    // The rebuild ends when its maps are on both members, in both slots; the bitmap's are not yet.
    let bitmap = |io: &Io| matches!(io.op, IoOp::Store(MetaPage::Bitmap { .. }));
    let zeros = |io: &Io| matches!(io.op, IoOp::Store(MetaPage::ZeroMap { .. }));
    let maps = |world: &World| world.ios.iter().filter(|p| bitmap(&p.io)).count();
    for _ in 0..2 {
        world.end_all(bitmap);
        for _ in 0..10_000 {
            if maps(&world) < 2 && !world.end_first_compute() && !world.end_one(|io| !bitmap(io)) {
                world.pass_time();
            }
        }
        assert_eq!(maps(&world), 2);
    }
    world.end_all(|io| !bitmap(io));
    // Then a discard puts a page on the new member, and on the old one after that.
    world.ask(0, Op::Discard, 0, 4);
    world.end_all(|io| zeros(io) && io.device.0 > 0);
    assert!(world.ios.iter().any(|pending| zeros(&pending.io)), "the old one has it in hand");
    world.end_all(bitmap);
    let up = world.engine().members().nth(1).expect("a member").state;
    assert_eq!(up, SlotState::Up);
    world.disks[0].gone = true;
    world.step(Input::DeviceGone(DeviceId(0)));
    world.drain();
    assert!(world.requests[0].is_none() && world.results.is_empty(), "nothing fails");
}

/// How many stripes of a scrub are done after each second, of ten, while users read all the time and the
/// least pace is next to nothing.
fn scrubbed_beside_users(within: Option<Duration>, max: u64) -> Vec<u64> {
    let mut world = play(1, scenario(Level::Raid5, 3, Consistency::Bitmap));
    world.command(Command::SetPace(Pace { min: 1, max }));
    world.command(Command::EndWithin(within));
    world.command(Command::Scrub { repair: false });
    let (start, mut done) = (world.now, Vec::new());
    for second in 1..=10 {
        while world.now < start + Duration::from_secs(second) {
            world.now = world.now + Duration::from_millis(20);
            world.ask(0, Op::Read, 0, 1);
            world.end_all(|_| true);
            world.step(Input::Tick);
            world.end_all(|_| true);
        }
        done.push(world.engine().pass().map_or(40, |pass| pass.done));
    }
    done
}

#[test]
fn a_pass_with_a_deadline_ends_by_then_though_users_are_busy() {
    let done = scrubbed_beside_users(None, u64::MAX);
    assert!(done[9] <= 2, "it has no deadline: {done:?}");
    let done = scrubbed_beside_users(Some(Duration::from_secs(8)), u64::MAX);
    assert!((15..=25).contains(&done[3]) && done[7] == 40, "as evenly as can be: {done:?}");
    // Two stripes a second are the most.
    let done = scrubbed_beside_users(Some(Duration::from_secs(2)), 2 << 14);
    assert!((15..=22).contains(&done[9]), "never faster than at most: {done:?}");
}

/// The users of an array of 400 stripes, whose passes do a stripe a second at least.
fn used(slowdown: Option<Slowdown>, max: u64) -> World {
    let mut world =
        play(1, Scenario { stripes: 400, ..scenario(Level::Raid5, 3, Consistency::Bitmap) });
    world.command(Command::SetPace(Pace { min: 1 << 14, max }));
    world.command(Command::LimitSlowdown(slowdown));
    world
}

/// So many reads, one each 10 ms, that take so many.
fn read(world: &mut World, reads: usize, millis: u64) {
    for _ in 0..reads {
        world.ask(0, Op::Read, 0, 1);
        world.now = world.now + Duration::from_millis(millis);
        world.end_all(|_| true);
        world.now = world.now + Duration::from_millis(10 - millis);
        world.step(Input::Tick);
        world.end_all(|_| true);
    }
}

/// How many stripes of a scrub are done after ten seconds in which reads take so many milliseconds. Before,
/// so many of them took one.
fn scrubbed_while_reads_take(
    millis: u64,
    before: usize,
    slowdown: Option<Slowdown>,
    max: u64,
) -> u64 {
    let mut world = used(slowdown, max);
    read(&mut world, before, 1);
    world.command(Command::Scrub { repair: false });
    read(&mut world, 1000, millis);
    world.engine().pass().map_or(400, |pass| pass.done)
}

#[test]
fn a_pass_goes_as_fast_as_users_do_not_feel_it() {
    let twice = Some(Slowdown::default());
    let fast = scrubbed_while_reads_take(1, 300, twice, u64::MAX);
    assert!(fast == 400, "{fast}");
    let felt = scrubbed_while_reads_take(3, 300, twice, u64::MAX);
    assert!((10..=14).contains(&felt), "reads take longer than they may: {felt}");
    let more = scrubbed_while_reads_take(3, 300, Slowdown::percent(400), u64::MAX);
    assert!(more == 400, "they may take that long: {more}");
    let unknown = scrubbed_while_reads_take(1, 100, twice, u64::MAX);
    assert!((10..=14).contains(&unknown), "it is not known what they take in calm: {unknown}");
    let least = scrubbed_while_reads_take(1, 300, None, u64::MAX);
    assert!((10..=14).contains(&least), "it is not to go faster: {least}");
    let most = scrubbed_while_reads_take(1, 300, twice, 4 << 14);
    assert!((30..=44).contains(&most), "never faster than at most: {most}");
}

#[test]
fn what_reads_take_while_a_member_is_missing_is_not_calm() {
    let mut world = used(Some(Slowdown::default()), u64::MAX);
    world.command(Command::Fail(MemberId(2)));
    read(&mut world, 300, 1);
    let spare = world.new_spare();
    world.command(spare);
    read(&mut world, 1000, 1);
    let done = world.engine().pass().map_or(400, |pass| pass.done);
    assert!((10..=14).contains(&done), "{done}");
}
