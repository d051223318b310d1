//! Cases that no world draws, played on purpose: errors of a group, from which redundancy mostly
//! protects the volume.

use raidcore::engine::{IoError, Op, Request};
use raidcore::geometry::Level;
use raidcore::units::{Lba, Tag};

use super::StackScenario;
use super::world::World;
use crate::disk::{Phase, Sick};
use crate::log::lives::Lives;
use crate::play::Playable;
use crate::source::Source;

impl World {
    fn ended(&mut self, op: Op) -> Result<(), ()> {
        let blocks = u32::from(op != Op::Flush);
        let request = Request { tag: Tag(0), op, lba: Lba(0), blocks, fua: false };
        let before = self.users.ended;
        self.users.begin(request);
        self.ask(request);
        while self.users.ended == before {
            if self.is_busy() {
                self.complete_one();
            } else {
                self.wait();
            }
        }
        if self.users.ended.1 == before.1 { Ok(()) } else { Err(()) }
    }
}

/// Without redundancy, a member's flush that fails is the group's, and the volume's.
#[test]
fn a_flush_that_a_group_could_not_do_is_an_error() {
    let striped = |seed: &u64| StackScenario::draw(*seed).array.level == Level::Raid0;
    for seed in (0..400).filter(striped).take(4) {
        let mut scenario = StackScenario::draw(seed);
        scenario.faults = 0;
        let mut world = World::new(Source::seed(seed), scenario, None);
        assert_eq!(world.ended(Op::Write), Ok(()));
        assert_eq!(world.ended(Op::Flush), Ok(()));
        assert_eq!(world.ended(Op::Write), Ok(()));
        world.beyond = true;
        let fails = Sick { phase: Phase::Flush, ..Sick::next(IoError::Medium) };
        let disks = world.groups.iter_mut().flat_map(|group| &mut group.disks);
        disks.for_each(|disk| disk.sick = Some(fails));
        assert_eq!(
            world.ended(Op::Flush),
            Err(()),
            "seed {seed}: it may not be there after a crash"
        );
    }
}
