//! What a replay of the journal would carry out, and what it would overwrite.

use super::*;

#[test]
fn a_stripe_goes_through_the_journal_until_a_tail_says_that_its_entry_is_retired() {
    let mut world = world(Level::Raid4, 3, Consistency::Journal);
    let entries = |io: &Io| io.op == IoOp::Journal;
    world.ask(0, Op::Write, 0, 1);
    world.end_all(|_| true);
    // The next entry's tail does not say so, as it is written before the flush ends.
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
        // Some of these stripes have one parity on who goes, and are yet to have the other.
        (0..12).for_each(|i| world.ask(i, Op::Write, 8 * (20 + u64::from(i)), 1));
        world.end_all(|_| true);
        world.cut_power();
        assert!(!world.engine.is_serving(), "there is no journal to be carried out");
        world.disks[gone].gone = true;
        world.step(Input::DeviceGone(DeviceId(gone as u32)));
        world.drain();
        assert!(world.engine.is_serving(), "without disk {gone} it does not start");
    }
}
