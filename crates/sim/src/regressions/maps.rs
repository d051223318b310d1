//! Pages of the zero map that no member stores, while the array goes on: RAID0, whose members are
//! never failed. A store that is reported as failed may still have been carried out.

use raidcore::engine::IoError;
use raidcore::meta::MetaPage;

use super::*;

/// A stripe is blocks 0 to 11.
const STRIPE: u32 = 12;

fn is_page(io: &Io) -> bool {
    matches!(io.op, IoOp::Store(MetaPage::ZeroMap { .. }))
}

/// RAID0 of three whose first stripe was written, and then discarded if `discarded`.
fn striped(discarded: bool) -> World {
    let mut world = world(Level::Raid0, 3, Consistency::Resync);
    world.beyond = true;
    world.write_one(0);
    if discarded {
        assert_eq!(world.ended(Op::Discard), Ok(()));
    }
    world
}

impl World {
    fn ended(&mut self, op: Op) -> Result<(), RequestError> {
        let blocks = if op == Op::Write { 1 } else { STRIPE };
        self.ask(0, op, 0, blocks);
        self.drain();
        self.last()
    }

    /// A request during which every store of a page is reported as failed, and was carried out or
    /// not.
    fn without_pages(&mut self, op: Op, carried_out: bool) {
        self.without_pages_at(op, 0, carried_out);
    }

    fn without_pages_at(&mut self, op: Op, lba: u64, carried_out: bool) {
        let blocks = if op == Op::Write { 1 } else { STRIPE };
        self.ask(0, op, lba, blocks);
        let mut failed = 0;
        while self.requests[0].is_some() {
            if let Some(at) = self.ios.iter().position(|p| is_page(&p.io)) {
                let pending = self.ios.remove(at);
                if carried_out {
                    self.carry_out(&pending).expect("the disk is well");
                }
                failed += 1;
                let (id, result) = (pending.io.id, Err(IoError::Medium));
                self.step(Input::IoDone { id, result });
            } else if !self.end_first_compute() && !self.end_one(|_| true) {
                self.pass_time();
            }
        }
        assert!(failed >= 3, "all members were asked");
        assert_eq!(self.last(), Err(RequestError::Io));
    }
}

#[test]
fn a_write_to_what_was_discarded_is_there_only_if_a_page_says_so() {
    for carried_out in [false, true] {
        let mut world = striped(true);
        world.without_pages(Op::Write, carried_out);
        let version = world.write_one(0);
        assert_eq!(world.last(), Ok(()));
        world.restart();
        assert_eq!(world.read_one(0), version);
    }
}

#[test]
fn what_a_crash_would_take_back_is_not_shown() {
    for (discarded, op) in [(true, Op::Write), (false, Op::WriteZeroes)] {
        let mut world = striped(discarded);
        let before = world.read_one(0);
        world.without_pages(op, false);
        assert_eq!(world.read_one(0), before, "{op:?}");
        world.restart();
        assert_eq!(world.read_one(0), before, "{op:?}");
    }
}

#[test]
fn zeroes_are_there_only_if_a_page_says_so() {
    for carried_out in [false, true] {
        let mut world = striped(false);
        world.without_pages(Op::WriteZeroes, carried_out);
        assert_eq!(world.ended(Op::WriteZeroes), Ok(()));
        world.restart();
        assert_eq!(world.read_one(0), 0, "what was there before is not back");
    }
}

#[test]
fn a_write_after_zeroes_that_failed_is_not_lost_if_a_member_has_their_page() {
    let mut world = striped(false);
    world.without_pages(Op::WriteZeroes, true);
    let version = world.write_one(0);
    assert_eq!(world.last(), Ok(()));
    world.restart();
    assert_eq!(world.read_one(0), version);
}

#[test]
fn another_page_says_nothing_of_a_bit_that_a_member_may_have_otherwise() {
    let mut small = scenario(Level::Raid0, 3, Consistency::Resync);
    (small.region_stripes, small.page_bits) = (1, 4);
    let mut world = play(1, small);
    world.beyond = true;
    world.write_one(0);
    world.without_pages(Op::WriteZeroes, true);
    world.ask(0, Op::Discard, 4 * u64::from(STRIPE), STRIPE);
    world.drain();
    assert_eq!(world.last(), Ok(()), "the next page is stored");
    let version = world.write_one(0);
    assert_eq!(world.last(), Ok(()));
    world.restart();
    assert_eq!(world.read_one(0), version);
}

#[test]
fn zeroes_after_a_write_that_failed_are_not_lost_if_a_member_has_its_page() {
    let mut world = striped(true);
    world.without_pages(Op::Write, true);
    assert_eq!(world.ended(Op::WriteZeroes), Ok(()));
    world.restart();
    assert_eq!(world.read_one(0), 0, "what was not acknowledged has not come back");
}

#[test]
fn a_page_that_is_stored_anew_leaves_what_is_durable_as_it_is() {
    let mut world = striped(true);
    // The page also has another stripe as discarded.
    let other = u64::from(STRIPE);
    world.without_pages_at(Op::Discard, other, false);
    world.ask(0, Op::Discard, other, STRIPE);
    world.end_all(|io| !is_page(io));
    // The power fails, and tears what was being stored, on all members.
    assert_eq!(world.tear(is_page), 3);
    world.restart();
    assert_eq!(world.read_one(0), 0, "what was discarded is not back");
}

/// A region of two stripes is marked, and a block of the first is being written, when no member
/// stores the mark of another region. A write to the second stripe waits for the same page.
#[test]
fn a_durable_mark_outlives_a_later_page_that_no_member_stores() {
    let is_bitmap = |io: &Io| matches!(io.op, IoOp::Store(MetaPage::Bitmap { .. }));
    let is_write = |io: &Io| matches!(io.op, IoOp::Write { .. });
    let mut pairs = scenario(Level::Raid5, 3, Consistency::Bitmap);
    pairs.region_stripes = 2;
    let mut world = play(1, pairs);
    world.beyond = true;
    // The mark of this region will be cleared by a page that is not waited for.
    world.ask(0, Op::Write, 160, 1);
    world.end_all(|_| true);
    world.ask(0, Op::Write, 0, 1);
    world.end_all(|io| !is_write(io));
    for (tag, lba) in [(1, 80), (2, 8)] {
        world.ask(tag, Op::Write, lba, 1);
        world.end_all(|io| !is_write(io) && !is_bitmap(io));
    }
    while let Some(at) = world.ios.iter().position(|p| is_bitmap(&p.io)) {
        let id = world.ios.remove(at).io.id;
        world.step(Input::IoDone { id, result: Err(IoError::Medium) });
    }
    // Time enough to clear the unneeded mark.
    for _ in 0..1000 {
        world.end_all(|io| !is_write(io));
        world.pass_time();
    }
    assert_eq!(world.results, [Ok(()), Err(RequestError::Io), Err(RequestError::Io)]);
    assert!(world.requests[0].is_some(), "the write is still under way");
    world.cut_power();
    assert_eq!(world.engine().status().dirty_regions.0, 1, "what may be half written is marked");
}

/// A write of a stripe is half done when the power fails; then the page with its region's bit can't
/// be read from any member.
#[test]
fn a_page_that_is_lost_leaves_its_own_regions_in_doubt() {
    let is_write = |io: &Io| matches!(io.op, IoOp::Write { .. });
    let mut small = scenario(Level::Raid5, 3, Consistency::Bitmap);
    (small.region_stripes, small.page_bits) = (1, 2);
    let mut world = play(1, small);
    let stripe = u64::from(world.engine().geometry().stripe_blocks());
    world.ask(0, Op::Write, 3 * stripe, 1);
    world.end_all(|io| !is_write(io));
    assert!(world.end_one(is_write) && world.ios.iter().any(|p| is_write(&p.io)));
    world.ios.clear();
    world.power_off();
    for version in 0..2 {
        let at = world.areas.map_page(MapKind::Bitmap, 1, version).0;
        for disk in &mut world.disks {
            disk.bad.insert(at, FOR_GOOD);
        }
    }
    world.power_on(Outage::Quiet);
    let in_doubt: Vec<_> =
        (0..6).map(|at| world.engine().is_in_doubt(at * stripe, stripe as u32)).collect();
    assert_eq!(in_doubt, [false, false, true, true, false, false]);
}

/// A stripe of a mirror is being discarded, and only one member has recorded that, when the power
/// fails. The content that is read then stays, even without that member.
#[test]
fn a_page_that_one_member_has_alone_is_on_all_when_users_are_served() {
    let mut world = world(Level::Raid1, 2, Consistency::Bitmap);
    world.ask(0, Op::Write, 0, 4);
    world.drain();
    world.ask(0, Op::Discard, 0, 4);
    world.end_all(|io| !is_page(io));
    assert!(world.end_one(|io| is_page(io) && io.device == DeviceId(0)));
    world.cut_power();
    world.drain();
    assert_eq!(world.read_one(0), 0, "the newest page counts");
    world.ask(0, Op::Flush, 0, 0);
    world.drain();
    world.disks[0].gone = true;
    world.restart();
    assert_eq!(world.read_one(0), 0);
}

/// The only one that has a page is a device that is to take a member's place: a start would not look there.
#[test]
fn a_page_that_only_a_successor_has_does_not_count() {
    let mut world = striped(false);
    world.replace_a_little(1);
    let old = world.device_of(MemberId(1)).expect("it serves");
    world.ask(0, Op::Discard, 0, STRIPE);
    let mut refused = 0;
    while world.requests[0].is_some() {
        let is_refused = |io: &Io| is_page(io) && io.device.0 <= 2;
        if let Some(at) = world.ios.iter().position(|p| is_refused(&p.io)) {
            let id = world.ios.remove(at).io.id;
            refused += 1;
            world.step(Input::IoDone { id, result: Err(IoError::Medium) });
        } else if !world.end_first_compute() && !world.end_one(is_page) {
            world.end_one(|_| true);
        }
    }
    assert_eq!((refused, world.device_of(MemberId(1))), (3, Some(old)));
    assert_eq!(world.last(), Err(RequestError::Io));
}
