//! Ordering: a write that was acknowledged as durable is durable on the member from which it is
//! read.

use raidcore::engine::{Request, SpareUse};
use raidcore::geometry::{Level, Role};
use raidcore::meta::SlotState;
use raidcore::units::{Lba, Pba};

use crate::user::lbas;
use crate::world::World;

/// A flush was acknowledged.
pub(crate) fn flushed(world: &World) {
    for lba in 0..world.model.len() {
        if world.model.is_written(lba) && !world.model.is_unsettled(lba) {
            is_durable(world, lba);
        }
    }
}

/// A write with FUA that began at `begun` was acknowledged.
pub(crate) fn written_through(world: &World, request: &Request, begun: u64) {
    // A part of the request may have ended long ago, and its block been overwritten since.
    let quiet = lbas(request).filter(|&lba| !world.model.is_rewritten(lba, begun));
    quiet.for_each(|lba| is_durable(world, lba));
}

/// Asserts that a start after a crash now would find a block: on its home members that such a start
/// would take for current.
fn is_durable(world: &World, lba: u64) {
    if world.engine().is_staged(Lba(lba)) || world.engine().is_being_moved(Lba(lba)) {
        // What is in the log is durable, and what is being moved in one of two places; whether it is found
        // there, crashes tell.
        return;
    }
    let layout = world.engine().layout();
    let (stripe, offset) = layout.locate(Lba(lba));
    let geometry = layout.of(stripe);
    let (first, row) = geometry.chunk_at(offset);
    let copies = match geometry.level() {
        // A resync may be copying over the other copies.
        Level::Raid1 | Level::Raid10 if world.unsynced || !world.exposed.is_empty() => 1,
        Level::Raid1 | Level::Raid10 => geometry.width(),
        Level::Raid0 | Level::Raid4 | Level::Raid5 | Level::Raid6 => 1,
    };
    // A resync may be levelling the copies on the distributed spare.
    let levelled = !world.unsynced && world.exposed.is_empty();
    let spared = world.engine().distributed_spare();
    let home = world.engine().layout().member(stripe, first);
    if spared == Some(SpareUse::StandsInFor(home)) && levelled {
        for (disk, Pba(at)) in world.copies_on_spare(stripe) {
            check(world, lba, disk, at + u64::from(row));
        }
    }
    for role in (first.index()..).take(copies).map(Role::at) {
        let (member, Pba(start)) = world.engine().layout().place(stripe, role);
        let Some(member) = world.engine().members().nth(member.index()) else { continue };
        let Some(device) = member.device.filter(|_| member.state == SlotState::Up) else {
            continue;
        };
        check(world, lba, device.0 as usize, start + u64::from(row));
    }
}

fn check(world: &World, lba: u64, disk: usize, at: u64) {
    assert!(
        world.disks[disk].gone || world.disks[disk].is_durable(at),
        "block {lba} is said to be durable, but disk {disk} has it in its cache only: {}",
        world.model.describe(lba)
    );
}
