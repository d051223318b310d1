//! What is staged, in memory: it is what the staging log has.

use raidcore::units::{MemberId, Pba};

use crate::world::World;

/// At any time. Disks that spoil blocks without a word have other content than they were given.
pub(crate) fn are_as_logged(world: &World) {
    if world.scenario.staged_blocks == 0 || world.scenario.faults.silent {
        return;
    }
    for (mem, places) in world.engine().kept_blocks() {
        let kept = world.memory.blocks(mem, 1)[0];
        for (MemberId(member), Pba(at)) in places {
            let of = world.engine().members().nth(member.into()).expect("there is such a member");
            let Some(disk) = of.device else { continue };
            let logged = world.disks[disk.0 as usize].read(at);
            assert_eq!(
                kept, logged,
                "block {at} of the log on member {member} is not what is kept"
            );
        }
    }
}
