#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};

use raidcore::engine::{Op, RequestError};
use raidcore::geometry::{Level, Placement};
use raidcore::meta::{
    ArrayId, AssembleOptions, Consistency, DeviceUuid, JOURNAL_BLOCKS, MemberImage, NewArray,
    assemble,
};
use raidcore::units::{BLOCK_BYTES, Lba, Pba};

use super::*;
use crate::resident::{Came, Command, Resident};
use crate::volume::{Buffer, Edges, Submit};

const MEMBER_BLOCKS: u64 = 4096;
const LANES: u64 = 4;

mod streams;

/// An array of three members.
fn new_array() -> NewArray {
    NewArray {
        array: ArrayId([7; 16]),
        name: "tank".into(),
        created: 0,
        level: Level::Raid5,
        placement: Placement::of(Level::Raid5),
        chunk: 4,
        consistency: Consistency::Journal,
        devices: (1..=3).map(|byte| DeviceUuid([byte; 16])).collect(),
        journal_blocks: JOURNAL_BLOCKS,
        staging_blocks: 0,
        staging_devices: Vec::new(),
        staging_device_blocks: 0,
        distributed_spare: false,
        member_blocks: vec![MEMBER_BLOCKS; 3],
    }
}

/// That, fresh and in memory.
fn array() -> (Volume, HostHandle) {
    array_of(HostConfig::default(), |device| device)
}

/// The same, on what becomes of devices.
fn array_of(config: HostConfig, becomes: impl FnMut(Device) -> Device) -> (Volume, HostHandle) {
    let record = new_array().record().unwrap();
    let devices = record.slots.iter().map(|slot| {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MEMBER_BLOCKS * BLOCK_BYTES as u64).unwrap();
        let device = Device::from_file(file, MEMBER_BLOCKS);
        for (at, block) in record.new_maps(false).chain(record.superblocks(slot.device)) {
            device.write_at(at, &block).unwrap();
        }
        device
    });
    let devices: Vec<_> = devices.collect();
    let images = devices.iter().map(|device| {
        let mut meta = vec![0; 3072 * BLOCK_BYTES];
        device.read_at(Pba(0), &mut meta).unwrap();
        let (label, unreadable) = ("member".to_owned(), Vec::new());
        MemberImage { label, blocks: MEMBER_BLOCKS, meta, unreadable }
    });
    let images: Vec<_> = images.collect();
    let options = AssembleOptions { degraded: false, force: false };
    let assembled = assemble(&images, options).unwrap();
    let mut devices: Vec<_> = devices.into_iter().map(becomes).map(Some).collect();
    let in_place = assembled.slots.iter().map(|place| devices[(*place).unwrap()].take()).collect();
    Host::spawn(config, assembled, in_place).unwrap()
}

/// What a checker tells of a request: what it was, its end, and how its buffer began.
type Told = (Op, u64, Result<(), RequestError>, u8);

/// Writes blocks from the first on, and reads each back; as many at once as it has lanes. Its driver
/// is /dev/null, which completes every command at once.
struct Checker {
    driver: File,
    /// By the number of a command.
    lanes: Vec<Lane>,
    blocks: u64,
    told: Sender<Told>,
}

struct Lane {
    op: Op,
    lba: u64,
    /// While it is here; none at the end.
    buffer: Option<Buffer>,
    ended: bool,
}

/// What a block holds.
fn content(lba: u64) -> u8 {
    lba as u8 | 1
}

impl Checker {
    fn new(volume: &Volume, blocks: u64) -> (Box<Self>, Receiver<Told>) {
        let (told, hears) = channel();
        let driver = File::open("/dev/null").unwrap();
        let lane =
            |lba| Lane { op: Op::Write, lba, buffer: Some(volume.buffer_blocking()), ended: false };
        let lanes = (0..LANES).map(lane).collect();
        (Box::new(Self { driver, lanes, blocks, told }), hears)
    }

    fn command(&self, number: u16) -> Command {
        // SAFETY: it names no memory.
        unsafe { Command::new(number, self.driver.as_fd(), 0, [0; 16]) }
    }
}

impl Resident for Checker {
    fn begin(&mut self) -> Vec<Command> {
        (0..self.lanes.len() as u16).map(|number| self.command(number)).collect()
    }

    fn came(&mut self, number: u16, result: i32) -> Came {
        assert_eq!(result, 0);
        let lane = &mut self.lanes[usize::from(number)];
        let mut buffer = lane.buffer.take().expect("a command at a time");
        if lane.lba >= self.blocks {
            lane.ended = true;
            return Came::Nothing;
        }
        buffer.fill(if lane.op == Op::Write { content(lane.lba) } else { 0 });
        Came::Request(
            Submit { op: lane.op, lba: Lba(lane.lba), blocks: 1, fua: false, edges: Edges::NONE },
            buffer,
        )
    }

    fn answered(
        &mut self,
        number: u16,
        buffer: Buffer,
        result: Result<(), RequestError>,
    ) -> Option<Command> {
        let lane = &mut self.lanes[usize::from(number)];
        // In the end there may be no receiver.
        self.told.send((lane.op, lane.lba, result, buffer[0])).ok();
        if result == Err(RequestError::Stopping) {
            return None;
        }
        lane.buffer = Some(buffer);
        (lane.op, lane.lba) = match lane.op {
            Op::Write => (Op::Read, lane.lba),
            Op::Read | Op::Flush | Op::Discard | Op::WriteZeroes => (Op::Write, lane.lba + LANES),
        };
        Some(self.command(number))
    }

    fn has_ended(&self) -> bool {
        self.lanes.iter().all(|lane| lane.ended)
    }
}

#[test]
fn a_resident_is_served_and_let_go() {
    const BLOCKS: u64 = 10 * LANES;
    let (volume, host) = array();
    let (checker, hears) = Checker::new(&volume, BLOCKS);
    host.admit(checker).wait().unwrap();
    // Until it is dropped.
    let told: Vec<_> = hears.iter().collect();
    for lba in 0..BLOCKS {
        let of = told.iter().filter(|&&(_, at, ..)| at == lba).copied();
        let byte = content(lba);
        assert_eq!(
            of.collect::<Vec<_>>(),
            [(Op::Write, lba, Ok(()), byte), (Op::Read, lba, Ok(()), byte)]
        );
    }
    let all: Vec<_> = (0..volume.tags()).map_while(|_| volume.try_buffer()).collect();
    assert_eq!(all.len(), usize::from(volume.tags()), "its buffers are free again");
    host.stop().wait().unwrap();
}

#[test]
fn a_stop_lets_a_resident_go() {
    let (volume, host) = array();
    let (checker, hears) = Checker::new(&volume, volume.blocks());
    host.admit(checker).wait().unwrap();
    let (_, _, first, _) = hears.recv().unwrap();
    assert_eq!(first, Ok(()));
    host.stop().wait().unwrap();
    // Until it is dropped.
    let mut results = hears.iter().map(|(_, _, result, _)| result);
    assert!(results.all(|result| matches!(result, Ok(()) | Err(RequestError::Stopping))));
}

#[test]
fn an_array_that_has_stopped_takes_no_resident() {
    let (volume, host) = array();
    host.stop().wait().unwrap();
    let (checker, hears) = Checker::new(&volume, 1);
    assert!(matches!(host.admit(checker).wait(), Err(HostError::Ended)));
    assert_eq!(hears.iter().count(), 0, "it is dropped");
}

/// Panics when it is told of its command.
struct Panics {
    driver: File,
    /// Goes with it.
    _here: Sender<()>,
}

impl Resident for Panics {
    fn begin(&mut self) -> Vec<Command> {
        // SAFETY: it names no memory.
        vec![unsafe { Command::new(0, self.driver.as_fd(), 0, [0; 16]) }]
    }

    fn came(&mut self, _: u16, _: i32) -> Came {
        panic!("a resident panics, as this test wants");
    }

    fn answered(&mut self, _: u16, _: Buffer, _: Result<(), RequestError>) -> Option<Command> {
        None
    }

    fn has_ended(&self) -> bool {
        false
    }
}

#[test]
fn a_panic_lets_all_residents_go() {
    let (volume, host) = array();
    let join = host.join();
    let (checker, hears) = Checker::new(&volume, volume.blocks());
    host.admit(checker).wait().unwrap();
    let (here, gone) = channel();
    let panics = Panics { driver: File::open("/dev/null").unwrap(), _here: here };
    // Its command may complete before it has been answered.
    let _ = host.admit(Box::new(panics)).wait();
    assert!(matches!(join.wait(), Err(HostError::Died)));
    assert!(gone.recv().is_err(), "it is dropped");
    assert!(hears.iter().all(|(_, _, result, _)| result == Ok(())), "and the other one");
}
