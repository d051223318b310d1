//! Writes that were acknowledged from memory, and are lost with the power, are on record until that is
//! accepted.

use raidcore::meta::Assembled;

use crate::world::World;

/// The power fails: what the cache holds is lost.
pub(crate) fn held_is_lost(world: &mut World) {
    let cached = world.machine.cached();
    world.lost |= cached.is_some_and(|array| array.cache().status().held > 0);
}

/// What is assembled tells so.
pub(crate) fn loss_is_on_record(world: &World, assembled: &Assembled) {
    assert!(assembled.record.has_lost_writes() || !world.lost, "lost writes are not on record");
}
