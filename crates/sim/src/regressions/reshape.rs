//! Arrays that become others, at moments that seeds seldom have.

use raidlog::ONLY;

use super::phases::is_record;
use super::staging::Log;
use super::*;
use crate::scenario::Becomes;

/// A RAID5 that gets a fourth member; it is being started, and has moved nothing yet. Each window is of one
/// stripe.
fn growing() -> World {
    grows(1, scenario(Level::Raid5, 3, Consistency::Journal))
}

/// Such an array, in a world whose power does not fail when it has just been started.
fn grows(seed: u64, mut small: Scenario) -> World {
    small.journal = 512;
    let (level, blocks) = (Level::Raid5, small.chunk);
    small.reshape = Some(Becomes { level, more: 1, placement: 0, chunk: 0, blocks });
    let mut world = play(seed, small);
    world.write_one(0);
    assert!(world.prepares_to_reshape());
    let number = world.command(Command::Stop);
    world.until(|world| world.answers.contains(&(number, Ok(()))));
    world.power_off();
    world.power_on(Outage::Quiet);
    assert!(world.has_begun);
    world
}

/// A window's stripes are at home, and the record is being written which says so.
fn is_ending_a_window(world: &World) -> bool {
    let moved = world.engine().layout().frontier().is_some_and(|frontier| {
        frontier.next == 0 && frontier.window > 0 && frontier.saved_at.is_none()
    });
    moved && world.ios.iter().any(|pending| is_record(&pending.io))
}

#[test]
fn a_request_for_a_window_waits_until_its_end_is_on_record() {
    let mut world = growing();
    world.until(is_ending_a_window);
    world.ask(0, Op::Write, 0, 1);
    let version = version_of(0, &world.memory.payload[0][0]);
    world.end_all(|io| !is_record(io));
    assert!(world.requests[0].is_some(), "after a crash now the stripe would be an old one");
    world.drain();
    assert!(world.requests[0].is_none());
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(0), version);
}

/// An array with a log that is being reshaped, which is paused after the second window, and the first block of
/// the next one.
fn paused() -> (World, u64) {
    let mut small = scenario(Level::Raid5, 3, Consistency::Journal);
    (small.staging, small.busy, small.whole_entries) = (128, 1, false);
    let mut world = grows(2, small);
    world.until(|world| world.engine().layout().frontier().is_some_and(|at| at.next >= 2));
    world.command(Command::Pause);
    world.until(|world| world.ios.is_empty());
    world.machine.set_steering(ONLY, Some(Box::new(Log { patience: None })));
    let next = world.engine().layout().frontier().expect("it is being reshaped").next;
    let lba = next * 3 * u64::from(world.scenario.chunk);
    (world, lba)
}

/// All I/O that is under way now ends.
fn end_those_of_now(world: &mut World) {
    let now: Vec<_> = world.ios.iter().map(|pending| pending.io.id).collect();
    world.end_all(|io| now.contains(&io.id));
}

/// Writes were gathered for the log when it begins to be emptied, so that stripes can be moved.
#[test]
fn what_is_gathered_for_the_log_is_moved_with_its_stripe() {
    let (mut world, lba) = paused();
    world.ask(0, Op::Read, lba + 100, 1);
    world.ask(1, Op::Write, lba, 1);
    world.ask(2, Op::Write, lba + 50, 1);
    let version = version_of(lba, &world.memory.payload[1][0]);
    world.command(Command::Resume);
    let before: Vec<_> = world.ios.iter().map(|pending| pending.io.id).collect();
    world.step(Input::Tick);
    world.end_all(|io| before.contains(&io.id));
    world.end_all(|io| io.op == IoOp::Journal);
    world.drain();
    assert_eq!(world.read_one(lba), version);
}

/// The log tells that all is at home, and a write is on its way there, when it begins to be emptied.
#[test]
fn what_is_on_its_way_to_the_log_is_moved_with_its_stripe() {
    let (mut world, lba) = paused();
    world.ask(0, Op::Write, lba + 100, 1);
    let tells = |io: &Io| io.op == IoOp::Journal && io.blocks == 1;
    world.end_all(|io| !tells(io));
    assert!(world.dirty() == 0 && world.ios.iter().any(|pending| tells(&pending.io)));
    world.ask(1, Op::Write, lba, 1);
    let version = version_of(lba, &world.memory.payload[1][0]);
    world.command(Command::Resume);
    world.end_all(tells);
    end_those_of_now(&mut world);
    world.end_all(|io| io.op == IoOp::Journal);
    world.drain();
    assert_eq!(world.read_one(lba), version);
}
