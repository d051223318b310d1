//! Leaks: at rest the engine holds nothing, and owes nobody an answer.

use crate::world::World;

/// With nothing under way.
pub(crate) fn none(world: &World) {
    assert!(
        world.engine.is_idle(),
        "the engine holds on to something: {:?}",
        world.engine.status()
    );
    for number in world.earlier_commands + 1..=world.commands {
        let answers = world.answers.iter().filter(|(answered, _)| *answered == number).count();
        assert_eq!(answers, 1, "command {number} is answered once");
    }
}
