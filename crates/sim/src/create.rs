//! New members.

use std::iter;
use std::rc::Rc;

use raidcore::meta::{
    ArrayId, ArrayRecord, BITS_PER_PAGE, DeviceUuid, Features, NewArray, VolumePart,
};
use raidcore::units::MemberId;

use crate::disk::{Disk, Kept};
use crate::scenario::Scenario;
use crate::source::Source;

const ARRAY: ArrayId = ArrayId(*b"the test's array");

pub(crate) fn uuid_of(index: usize) -> DeviceUuid {
    let mut uuid = *b"device..........";
    uuid[8..].copy_from_slice(&(index as u64 + 1).to_le_bytes());
    DeviceUuid(uuid)
}

/// New members, as `evenkeel create` leaves them, and their common record: of an array, or of a group
/// of a log volume.
pub(crate) fn create<D: Kept>(
    scenario: &Scenario,
    part: Option<VolumePart>,
    source: &mut Source,
) -> (Vec<Disk<D>>, ArrayRecord) {
    let Scenario { level, members, chunk, consistency, stripes, journal, staging, .. } = *scenario;
    let new = |blocks| NewArray {
        array: ARRAY,
        name: "test".into(),
        created: 1,
        level,
        placement: scenario.placement(),
        chunk,
        consistency,
        devices: (0..members).map(uuid_of).collect(),
        journal_blocks: journal,
        staging_blocks: staging,
        staging_devices: (members..scenario.places()).map(uuid_of).collect(),
        staging_device_blocks: scenario.staging_device,
        distributed_spare: scenario.distributed_spare,
        member_blocks: vec![blocks; members],
    };
    let mut record = (1..)
        .map(|mib: u64| new(mib * 256 + stripes * u64::from(chunk)).record())
        .find_map(|record| record.ok().filter(|r| r.geometry.stripes() >= stripes))
        .expect("some size is enough");
    if scenario.region_stripes > 0 {
        let page_bits = if scenario.page_bits > 0 { scenario.page_bits } else { BITS_PER_PAGE };
        // There can be more stripes than requested, and the number of pages is limited.
        let mut sizes = iter::successors(Some(page_bits), |bits| Some(2 * bits)).take(8);
        let maps = |bits| record.clone().with_maps_of(scenario.region_stripes, bits).ok();
        record = sizes.find_map(maps).expect("possible maps");
    }
    if scenario.whole_entries {
        record.features.incompatible &= !(Features::PARTIAL_ENTRIES | Features::SHARED_HEADERS);
    }
    let record = match part {
        Some(part) => record.in_volume(part),
        None => record,
    };
    let resyncs = scenario.used_disks && record.geometry.redundancy() > 0;
    let disk = |place: MemberId| {
        let chunk = scenario.reshape.map_or(0, |reshape| reshape.chunk);
        let blocks = record.blocks_of(place) + scenario.larger + u64::from(chunk);
        Disk::new(place.index(), record.meta_blocks_of(place), blocks)
    };
    let mut disks: Vec<_> = record.places().map(disk).collect();
    for (disk, slot) in disks.iter_mut().zip(&record.slots) {
        if scenario.used_disks {
            disk.soil(source);
        }
        for (at, block) in record.new_maps(resyncs).chain(record.superblocks(slot.device)) {
            disk.write_meta(at.0, Rc::new(block), true);
        }
    }
    (disks, record)
}
