//! Arrays that become others, at moments that seeds seldom have.

use super::phases::is_record;
use super::*;
use crate::scenario::Becomes;

/// A RAID5 that gets a fourth member; it is being started, and has moved nothing yet. Each window is of one
/// stripe.
fn growing() -> World {
    let mut small = scenario(Level::Raid5, 3, Consistency::Journal);
    small.journal = 512;
    let (level, blocks) = (Level::Raid5, small.chunk);
    small.reshape = Some(Becomes { level, more: 1, placement: 0, chunk: 0, blocks });
    let mut world = play(1, small);
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
