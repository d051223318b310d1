//! What an array waits for, it has told.

use raidcore::engine::Input;
use raidlog::{Actions, ONLY};

use crate::world::World;

/// While nothing is under way, nothing is left that needs no time: asked again at the same moment, the array wants
/// nothing, and to be woken when it was to be woken before. A host may have nothing else to tell it for long.
pub(crate) fn is_all(world: &mut World) {
    let idle = world.ios.is_empty() && world.work.computes.is_empty();
    // A cache in memory does some of its work at any tick.
    if !idle || world.machine.cached().is_some() {
        return;
    }
    let (now, before) = (world.now, world.engine().deadline());
    if before.is_some_and(|(at, _)| at <= now) {
        return;
    }
    let mut left = Actions::default();
    world.machine.tell(now, ONLY, Input::Tick, &mut left);
    assert!(left.of_array.is_empty() && left.of_log.is_empty(), "left undone: {left:?}");
    assert_eq!(world.engine().deadline(), before, "when it is to be woken");
}
