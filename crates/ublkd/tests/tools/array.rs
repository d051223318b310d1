//! An array of files.

use std::fs::File;
use std::path::{Path, PathBuf};

use raidcore::geometry::{Level, Placement};
use raidcore::meta::{
    ArrayId, AssembleOptions, Consistency, DeviceUuid, JOURNAL_BLOCKS, MemberImage, NewArray,
    assemble,
};
use raidcore::units::{BLOCK_BYTES, Pba};
use ublkd::host::{Host, HostConfig, HostHandle};
use ublkd::members::{Device, OpenOptions};
use ublkd::volume::Volume;

const MEMBERS: usize = 2;
const MEMBER_BLOCKS: u64 = 16384;

fn member(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("member{number}"))
}

fn open(path: &Path) -> Device {
    Device::open(path, OpenOptions::default()).expect("a device")
}

/// A new RAID0 of two files.
pub(crate) fn start(dir: &Path) -> (Volume, HostHandle) {
    let new = NewArray {
        array: ArrayId([7; 16]),
        name: "tank".into(),
        created: 0,
        level: Level::Raid0,
        placement: Placement::of(Level::Raid0),
        chunk: 4,
        consistency: Consistency::Resync,
        devices: vec![DeviceUuid([1; 16]), DeviceUuid([2; 16])],
        journal_blocks: JOURNAL_BLOCKS,
        staging_blocks: 0,
        staging_devices: Vec::new(),
        staging_device_blocks: 0,
        distributed_spare: false,
        member_blocks: vec![MEMBER_BLOCKS; MEMBERS],
    };
    let record = new.record().expect("an array");
    for (number, slot) in record.slots.iter().enumerate() {
        let path = member(dir, number);
        let file = File::create(&path).expect("a file");
        file.set_len(MEMBER_BLOCKS * BLOCK_BYTES as u64).expect("a size");
        let device = open(&path);
        for (at, block) in record.new_maps(false).chain(record.superblocks(slot.device)) {
            device.write_at(at, &block).expect("a write");
        }
    }
    start_again(dir)
}

/// The array that was made there.
pub(crate) fn start_again(dir: &Path) -> (Volume, HostHandle) {
    let devices: Vec<Device> = (0..MEMBERS).map(|number| open(&member(dir, number))).collect();
    let images: Vec<_> = devices.iter().map(image).collect();
    let assembled = assemble(&images, AssembleOptions::default()).expect("an array");
    let devices = devices.into_iter().map(Some).collect();
    Host::spawn(HostConfig::default(), assembled, devices).expect("a host")
}

fn image(device: &Device) -> MemberImage {
    let mut meta = vec![0; 3072 * BLOCK_BYTES];
    device.read_at(Pba(0), &mut meta).expect("a read");
    MemberImage {
        label: device.path().display().to_string(),
        blocks: device.blocks(),
        meta,
        unreadable: Vec::new(),
    }
}
