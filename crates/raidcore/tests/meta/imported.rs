//! Arrays whose stripes were there before their metadata.

use raidcore::geometry::{Geometry, Level, Placement};
use raidcore::meta::{
    ArrayId, ArrayRecord, AssembleError, AssembleOptions, Consistency, DeviceUuid, Features,
    ImportedArray, LayoutError, MemberImage, Superblock, assemble,
};
use raidcore::units::{BLOCK_BYTES, MemberId, Pba};

fn imported(
    level: Level,
    chunk: u32,
    stripes: u64,
    data_start: u64,
) -> Result<ArrayRecord, LayoutError> {
    let new = ImportedArray {
        array: ArrayId([7; 16]),
        name: "old".into(),
        created: 5,
        geometry: Geometry::new(level, 4, chunk, stripes).expect("it is possible"),
        data_start: Pba(data_start),
        consistency: Consistency::Journal,
        devices: (1..=4).map(|member| DeviceUuid([member; 16])).collect(),
    };
    new.record()
}

fn image(record: &ArrayRecord, member: usize, resync: bool) -> MemberImage {
    // What was before the data is anything.
    let mut meta = vec![0xa5; record.areas.staging().0.0 as usize * BLOCK_BYTES];
    let superblocks = record.superblocks(record.slots[member].device);
    for (at, block) in record.new_maps(resync).chain(superblocks) {
        meta[at.0 as usize * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&block);
    }
    let blocks = record.areas.member_blocks();
    MemberImage { label: format!("disk {member}"), blocks, meta, unreadable: Vec::new() }
}

#[test]
fn the_data_stays_where_it_is_and_the_record_can_be_read() {
    for level in Level::ALL {
        for (chunk, stripes, data_start) in [
            (1, 9, 1024),
            (16, 1000, 2048),
            (128, 1 << 20, 32768),
            (256, 3, 5120),
            (1, 1 << 27, 1 << 17),
        ] {
            let record = imported(level, chunk, stripes, data_start).expect("there is room");
            let (start, blocks) = record.layout().data_of(MemberId(0));
            let rows = stripes.div_ceil(record.geometry.stripes_of_a_row());
            assert_eq!((start, blocks), (Pba(data_start), rows * u64::from(chunk)));
            let mut block = vec![0; BLOCK_BYTES];
            record.encode(record.slots[0].device, &mut block);
            let decoded = Superblock::decode(&block).expect("it is intact").record;
            assert_eq!(decoded, record, "{level:?} {chunk} {stripes} {data_start}");
            let far = record.features.incompatible & Features::FAR_DATA != 0;
            let (journal, room) = record.areas.journal();
            assert!(journal.0 + room <= data_start);
            assert_eq!(far, data_start - journal.0 - room > 4096);
        }
    }
}

#[test]
fn without_room_there_is_an_error() {
    let few = imported(Level::Raid5, 256, 10, 1024).expect_err("four stripes need more");
    assert!(matches!(few, LayoutError::BeforeData { have: 1024, need } if need > 1024), "{few}");
    let beside = imported(Level::Raid0, 16, 10, 1000).expect_err("no multiple of 1 MiB");
    assert_eq!(beside, LayoutError::Alignment { data_start: 1000 });
    assert!(imported(Level::Raid0, 16, 10, 0).is_err());
    assert!(imported(Level::Raid0, 16, 10, 256).is_err());
}

#[test]
fn what_is_pending_is_not_started_and_what_was_taken_over_is() {
    let record = imported(Level::Raid5, 16, 1000, 2048).expect("there is room");
    assert!(record.is_pending() && record.geometry.placement() == Placement::LeftSymmetric);
    let of = |record: &ArrayRecord, resync| {
        (0..4).map(|member| image(record, member, resync)).collect::<Vec<_>>()
    };
    let options = AssembleOptions { degraded: true, force: true };
    let pending = assemble(&of(&record, true), options);
    assert_eq!(pending, Err(AssembleError::Pending { name: "old".into() }));

    let taken = record.clone().taken_over();
    // A crash amid the change: the first member alone has it.
    let mut images = of(&record, true);
    images[0] = image(&taken, 0, true);
    let found = assemble(&images, AssembleOptions::default()).expect("all are there");
    assert_eq!(found.record, taken);
    for resync in [false, true] {
        let found = assemble(&of(&taken, resync), AssembleOptions::default()).expect("all are");
        assert_eq!((found.bitmap.count() > 0, found.zero_map.count()), (resync, 0));
        assert!(found.replay.is_empty() && found.staged.is_empty() && found.warnings.is_empty());
    }
}
