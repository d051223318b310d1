//! Warm blocks: what the engine keeps in memory of a stripe is what the disks have.

use raidcore::units::{MemberId, Pba};

use crate::world::World;

/// At any time. Disks that spoil blocks without a word have other content than they were given.
pub(crate) fn are_as_at_home(world: &World) {
    if world.scenario.warm_blocks == 0 || world.scenario.faults.silent {
        return;
    }
    for (MemberId(member), Pba(at), mem) in world.engine().held_blocks() {
        let of = world.engine().members().nth(member.into()).expect("there is such a member");
        let disk = of.device.expect("all members serve where blocks are held").0 as usize;
        let (held, home) = (world.memory.blocks(mem, 1)[0], *world.disks[disk].data(at));
        assert_eq!(held, home, "block {at} of member {member} is held as it is not");
    }
}
