//! What an array waits for, it has told.

use det::Instant;
use raidcore::engine::Input;
use raidlog::{Actions, Machine, ONLY};

/// While nothing is under way, nothing is left that needs no time: asked again at the same moment, the array wants
/// nothing, and to be woken when it was to be woken before. A host may have nothing else to tell it for long.
pub(crate) fn is_all(machine: &mut Machine, now: Instant, under_way: usize) {
    let before = machine.deadline();
    // A cache in memory does some of its work at any tick.
    if under_way > 0 || machine.cached().is_some() || before.is_some_and(|at| at <= now) {
        return;
    }
    let mut left = Actions::default();
    machine.tell(now, ONLY, Input::Tick, &mut left);
    assert!(left.of_array.is_empty() && left.of_log.is_empty(), "left undone: {left:?}");
    assert_eq!(machine.deadline(), before, "when it is to be woken");
}
