//! Metadata: at rest the superblocks of all members and spares agree.

use raidcore::meta::{SUPERBLOCKS, Superblock};

use crate::world::World;

/// With nothing under way, and everything recorded.
pub(crate) fn agrees(world: &World) {
    let devices = world.engine().members().filter_map(|m| m.device);
    let mut first: Option<Superblock> = None;
    let successor = world.engine().successor().map(|successor| successor.device);
    for device in devices.chain(world.engine().spares()).chain(successor) {
        let disk = &world.disks[device.0 as usize];
        for at in SUPERBLOCKS {
            let found = Superblock::decode(disk.meta(at.0));
            let found = found.unwrap_or_else(|error| panic!("disk {}, {at:?}: {error}", device.0));
            assert_eq!(found.device, world.uuids[device.0 as usize], "disk {}", device.0);
            let first = first.get_or_insert_with(|| found.clone());
            assert_eq!(found.record, first.record, "disk {}, {at:?}", device.0);
        }
    }
}
