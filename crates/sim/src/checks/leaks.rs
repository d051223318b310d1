//! Leaks: at rest the engine holds nothing, and has answered everything.

use raidcore::engine::IoOp;
use raidcore::plan::Step;
use raidcore::units::{Mem, Tag};

use crate::world::World;

/// With nothing under way.
pub(crate) fn none(world: &World) {
    assert!(
        world.engine().is_idle(),
        "the engine holds on to something: {:?}",
        world.engine().status()
    );
    for number in world.earlier_commands + 1..=world.commands {
        let answers = world.answers.iter().filter(|(answered, _)| *answered == number).count();
        assert_eq!(answers, 1, "command {number} is answered once");
    }
}

/// A request has ended: no read or arithmetic under way may still write to its memory.
pub(crate) fn is_given_back(world: &World, tag: Tag) {
    let is_its = |mem: Mem| matches!(mem, Mem::Payload { tag: other, .. } if other == tag);
    let read = world.ios.iter().find(|io| matches!(io.io.op, IoOp::Read(mem) if is_its(mem)));
    assert!(read.is_none(), "{tag:?} has ended, and {:?} still reads into it", read.map(|r| r.io));
    for &(group, job) in &world.work.computes {
        world.machine.steps(group, job, |step, _| {
            let writes = matches!(step, Step::Copy { dst, .. } if is_its(dst));
            assert!(!writes, "{tag:?} has ended, and {job:?} still copies into it");
        });
    }
}
