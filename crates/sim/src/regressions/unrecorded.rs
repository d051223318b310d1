//! A spare takes a member's place in a life of the array whose record is never written. Its pages
//! from then may have the same versions as later ones, or greater ones.

use raidcore::meta::MetaPage;

use super::phases::is_record;
use super::*;
use crate::checks;

fn is_page(io: &Io, kind: MapKind) -> bool {
    matches!(
        (io.op, kind),
        (IoOp::Store(MetaPage::ZeroMap { .. }), MapKind::ZeroMap)
            | (IoOp::Store(MetaPage::Missed { .. }), MapKind::Missed)
    )
}

/// The first block of a stripe, and how many a stripe has.
const STRIPES: [u64; 2] = [20 * 4, 21 * 4];
const WHOLE: u32 = 4;

/// A mirror that has a spare and two stripes.
fn mirror() -> World {
    let mut mirror = scenario(Level::Raid1, 2, Consistency::Bitmap);
    // Each stripe has a region of its own, and all regions share a page.
    (mirror.region_stripes, mirror.page_bits) = (1, 64);
    let mut world = play(1, mirror);
    let spare = world.new_spare();
    world.command(spare);
    world.drain();
    for lba in STRIPES {
        world.write_one(lba);
    }
    world.rest();
    world
}

impl World {
    /// A page is stored on the only member that serves, which refuses it, and then on the spare,
    /// which is in the other's place meanwhile. Nothing of that is recorded when the power fails.
    fn spare_alone_takes(&mut self, kind: MapKind) {
        self.beyond = true;
        self.end_all(|io| !is_record(io) && !is_page(io, kind));
        let refused = |io: &Io| is_page(io, kind) && io.device == DeviceId(0);
        let page = self.ios.iter().map(|p| p.io).find(refused).expect("the page is being stored");
        for disk in &mut self.disks[..2] {
            disk.unwritable.insert(page.at.0);
        }
        self.end_all(|io| !is_record(io));
        self.disks.iter_mut().for_each(|disk| disk.unwritable.clear());
        self.cut_power();
        self.drain();
        self.beyond = false;
    }

    /// The spare is the second member.
    fn spare_takes_over(&mut self) {
        self.command(Command::Fail(MemberId(1)));
        self.drain();
        self.copy_on();
    }
}

#[test]
fn what_was_discarded_in_a_life_that_is_not_on_record_is_not_discarded_by_a_spare() {
    let mut world = mirror();
    let before = STRIPES.map(|lba| world.read_one(lba));
    world.ask(0, Op::Discard, STRIPES[0], WHOLE);
    world.end_all(|io| !is_page(io, MapKind::ZeroMap));
    world.ask(1, Op::Discard, STRIPES[1], WHOLE);
    world.command(Command::Fail(MemberId(1)));
    world.spare_alone_takes(MapKind::ZeroMap);
    assert_eq!(STRIPES.map(|lba| world.read_one(lba)), before);
    world.spare_takes_over();
    world.restart();
    assert_eq!(STRIPES.map(|lba| world.read_one(lba)), before);
}

#[test]
fn what_was_missed_in_a_life_that_is_not_on_record_hides_nothing_that_is_missed_later() {
    let mut world = mirror();
    world.command(Command::Fail(MemberId(1)));
    world.ask(0, Op::Write, STRIPES[1], 1);
    world.spare_alone_takes(MapKind::Missed);
    world.spare_takes_over();
    world.rest();
    // The other member is lost, which lacks the unflushed write.
    world.begin_unflushed(STRIPES[0], 1);
    world.drain();
    world.leaves(0);
    world.rest();
    world.restart();
    world.catches_up(0);
    checks::parity::agrees(&world);
}
