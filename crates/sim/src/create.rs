//! New members.

use std::rc::Rc;

use det::Prng;
use raidcore::meta::{ArrayId, ArrayRecord, DeviceUuid, NewArray};

use crate::disk::Disk;
use crate::scenario::Scenario;

const ARRAY: ArrayId = ArrayId(*b"the test's array");

pub(crate) fn uuid_of(index: usize) -> DeviceUuid {
    let mut uuid = *b"device..........";
    uuid[8..].copy_from_slice(&(index as u64 + 1).to_le_bytes());
    DeviceUuid(uuid)
}

/// New members, as `evenkeel create` leaves them, and their common record.
pub(crate) fn create(scenario: &Scenario, prng: &mut Prng) -> (Vec<Disk>, ArrayRecord) {
    let Scenario { level, members, chunk, consistency, stripes, .. } = *scenario;
    let new = |member_blocks| NewArray {
        array: ARRAY,
        name: "test".into(),
        created: 1,
        level,
        chunk,
        consistency,
        devices: (0..members).map(uuid_of).collect(),
        member_blocks,
    };
    let record = (1..)
        .map(|mib: u64| new(mib * 256 + stripes * u64::from(chunk)).record())
        .find_map(|record| record.ok().filter(|r| r.geometry.stripes() >= stripes))
        .expect("some size is enough");
    let resyncs = scenario.used_disks && record.geometry.redundancy() > 0;
    let mut disks = vec![Disk::new(record.areas.member_blocks()); members];
    for (disk, slot) in disks.iter_mut().zip(&record.slots) {
        if scenario.used_disks {
            disk.soil(prng, record.areas.meta_blocks());
        }
        for (at, block) in record.new_maps(resyncs).chain(record.superblocks(slot.device)) {
            disk.write(at.0, Rc::from(block), true);
        }
    }
    (disks, record)
}
