//! Parity: at rest redundancy agrees with data on the disks. It is computed here byte by byte from
//! its definition, independently of the kernels.

use raidcore::geometry::{Level, Role};
use raidcore::parity::gf;
use raidcore::units::{MemberId, Pba, Stripe};

use crate::disk::{Data, KEPT};
use crate::world::World;

/// With nothing under way, and all members serving, or the distributed spare for one of them.
pub(crate) fn agrees(world: &World) {
    let layout = world.engine().layout();
    for stripe in (0..layout.stripes()).map(Stripe) {
        let geometry = layout.of(stripe);
        if world.engine().is_discarded(stripe) || layout.is_vacant(stripe) {
            continue;
        }
        for row in 0..geometry.chunk() {
            let block = |role: usize| block(world, stripe, role, row);
            let data: Vec<Data> = (0..geometry.data()).map(block).collect();
            let redundant = match geometry.level() {
                Level::Raid0 => vec![],
                Level::Raid1 | Level::Raid10 => vec![data[0]; geometry.width() - 1],
                Level::Raid4 | Level::Raid5 => vec![sum(&data, |_| 1)],
                Level::Raid6 => vec![sum(&data, |_| 1), sum(&data, gf::pow2)],
            };
            for (role, expected) in (geometry.data()..).zip(redundant) {
                let found = block(role);
                assert_eq!(found, expected, "{stripe:?}, row {row}: role {role} does not agree");
            }
        }
    }
}

fn block(world: &World, stripe: Stripe, role: usize, row: u32) -> Data {
    let (MemberId(member), home) = world.engine().layout().place(stripe, Role::at(role));
    let member = world.engine().members().nth(member.into()).expect("there is such a member");
    let places = match member.device {
        Some(device) => vec![(device.0 as usize, home)],
        None => world.copies_on_spare(stripe),
    };
    let mut copies = places
        .into_iter()
        .map(|(disk, Pba(start))| *world.disks[disk].data(start + u64::from(row)));
    let first = copies.next().expect("all members serve");
    assert!(copies.all(|copy| copy == first), "{stripe:?}, row {row}: copies of {role} differ");
    first
}

fn sum(data: &[Data], weight: impl Fn(usize) -> u8) -> Data {
    let mut sum = [0; KEPT];
    for (index, block) in data.iter().enumerate() {
        for (sum, &byte) in sum.iter_mut().zip(block) {
            *sum ^= gf::mul(weight(index), byte);
        }
    }
    sum
}
