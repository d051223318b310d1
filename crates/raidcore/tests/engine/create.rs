//! New members.

use std::rc::Rc;

use det::Prng;
use raidcore::geometry::Geometry;
use raidcore::meta::{
    Areas, ArrayId, ArrayRecord, BitMap, DeviceUuid, Features, MapKind, SlotRecord, SlotState,
};
use raidcore::units::BLOCK_BYTES;

use crate::disk::Disk;
use crate::world::Scenario;

const ARRAY: ArrayId = ArrayId(*b"the test's array");

pub(crate) fn uuid_of(index: usize) -> DeviceUuid {
    let mut uuid = *b"device..........";
    uuid[8..].copy_from_slice(&(index as u64 + 1).to_le_bytes());
    DeviceUuid(uuid)
}

/// New members, as `evenkeel create` leaves them, and their common record.
pub(crate) fn create(scenario: &Scenario, prng: &mut Prng) -> (Vec<Disk>, ArrayRecord) {
    let Scenario { level, members, chunk, consistency, stripes, .. } = *scenario;
    let plan = |blocks| Areas::plan(level, members, chunk, consistency, blocks);
    let (areas, stripes) = (1..)
        .map(|mib: u64| mib * 256 + stripes * u64::from(chunk))
        .find_map(|blocks| plan(blocks).ok().filter(|(_, fit)| *fit >= stripes))
        .expect("some size is enough");
    let geometry = Geometry::new(level, members, chunk, stripes).expect("a possible shape");
    let record = ArrayRecord {
        array: ARRAY,
        name: "test".into(),
        created: 1,
        features: Features::default(),
        geometry,
        areas: areas.clone(),
        consistency,
        events: 1,
        epoch: 0,
        clean: true,
        slots: (0..members)
            .map(|m| SlotRecord { device: uuid_of(m), state: SlotState::Up, since: 1 })
            .collect(),
        spares: Vec::new(),
    };
    let mut disks = vec![Disk::new(areas.member_blocks()); members];
    for (index, disk) in disks.iter_mut().enumerate() {
        if scenario.used_disks {
            disk.soil(prng, areas.meta_blocks());
        }
        let mut page = [0; BLOCK_BYTES];
        record.encode(uuid_of(index), &mut page);
        for copy in 0..4 {
            disk.write(areas.superblock(copy).0, Rc::from(page), true);
        }
        for (kind, bits) in [(MapKind::Bitmap, areas.regions(stripes)), (MapKind::ZeroMap, stripes)]
        {
            let mut map = BitMap::new(kind, bits);
            let resyncs = scenario.used_disks && geometry.redundancy() > 0;
            if kind == MapKind::Bitmap && resyncs {
                map.set_all();
            }
            for index in 0..map.pages() {
                map.encode_page(ARRAY, index, 0, &mut page);
                disk.write(areas.map_page(kind, index, 0).0, Rc::from(page), true);
            }
        }
    }
    (disks, record)
}
