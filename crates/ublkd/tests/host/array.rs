//! Arrays on files in a temporary directory, and a client that knows their expected content.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use det::Prng;
use raidcore::engine::{Op, RequestError};
use raidcore::geometry::{Level, Placement};
use raidcore::meta::{
    ArrayId, AssembleOptions, Assembled, Consistency, DeviceUuid, JOURNAL_BLOCKS, MemberImage,
    NewArray, assemble,
};
use raidcore::units::{BLOCK_BYTES, Lba, Pba};
use tempfile::TempDir;
use ublkd::host::{Host, HostConfig, HostHandle};
use ublkd::members::{Device, OpenOptions};
use ublkd::volume::{Buffer, Edges, Port, Submit, Volume};

/// Blocks of a member's file.
pub(crate) const MEMBER_BLOCKS: u64 = 4096;

/// Requests that a client leaves in flight; fewer than there are tags.
const IN_FLIGHT: usize = 24;

/// An array's files.
pub(crate) struct Files {
    pub(crate) dir: TempDir,
    pub(crate) members: Vec<PathBuf>,
}

pub(crate) fn uuid(number: usize) -> DeviceUuid {
    DeviceUuid([number as u8 + 1; 16])
}

impl Files {
    /// Formats a fresh array of members with 16 KiB chunks, all zeros.
    pub(crate) fn create(level: Level, members: usize, consistency: Consistency) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let paths = (0..members).map(|m| dir.path().join(format!("member{m}")));
        let files = Self { members: paths.collect(), dir };
        for path in &files.members {
            empty(path);
        }
        files.format(level, consistency);
        files
    }

    /// Writes the metadata of a fresh array onto the members.
    pub(crate) fn format(&self, level: Level, consistency: Consistency) {
        let new = NewArray {
            array: ArrayId([7; 16]),
            name: "tank".into(),
            created: 0,
            level,
            placement: Placement::of(level),
            chunk: 4,
            consistency,
            devices: (0..self.members.len()).map(uuid).collect(),
            journal_blocks: JOURNAL_BLOCKS,
            staging_blocks: 0,
            staging_devices: Vec::new(),
            staging_device_blocks: 0,
            distributed_spare: false,
            member_blocks: vec![MEMBER_BLOCKS; self.members.len()],
        };
        let record = new.record().unwrap();
        for (slot, path) in record.slots.iter().zip(&self.members) {
            let device = Device::open(path, OpenOptions::default()).unwrap();
            for (at, block) in record.new_maps(false).chain(record.superblocks(slot.device)) {
                device.write_at(at, &block).unwrap();
            }
        }
    }

    /// An empty file of a member's size.
    pub(crate) fn spare(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        empty(&path);
        path
    }

    /// The members as they are now.
    pub(crate) fn copy(&self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let members = self.members.iter().map(|path| {
            let copy = dir.path().join(path.file_name().unwrap());
            std::fs::copy(path, &copy).unwrap();
            copy
        });
        Self { members: members.collect(), dir }
    }

    /// Assembles the array from these files.
    pub(crate) fn assemble(&self, degraded: bool) -> (Assembled, Vec<Option<Device>>) {
        let open = |path| Device::open(path, OpenOptions::default()).unwrap();
        let mut devices: Vec<_> = self.members.iter().map(|p| Some(open(p))).collect();
        let images: Vec<_> = devices.iter().flatten().map(image).collect();
        let options = AssembleOptions { degraded, force: false };
        let assembled = assemble(&images, options).unwrap();
        let places = assembled.slots.iter().chain(&assembled.spares);
        let places: Vec<_> = places.copied().collect();
        let devices = places.iter().map(|place| devices[(*place)?].take());
        let devices = devices.collect();
        (assembled, devices)
    }

    /// Assembles and starts the array.
    pub(crate) fn start(&self, config: HostConfig, degraded: bool) -> (Volume, HostHandle) {
        let (mut assembled, devices) = self.assemble(degraded);
        assembled.begin_volatile(config.scheme.cache().is_volatile(), true);
        Host::spawn(config, assembled, devices).unwrap()
    }
}

fn empty(path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(MEMBER_BLOCKS * BLOCK_BYTES as u64).unwrap();
}

fn image(device: &Device) -> MemberImage {
    let mut meta = vec![0; 3072 * BLOCK_BYTES];
    device.read_at(Pba(0), &mut meta).unwrap();
    MemberImage {
        label: device.path().display().to_string(),
        blocks: device.blocks(),
        meta,
        unreadable: Vec::new(),
    }
}

type Completion = (u64, Buffer, Result<(), RequestError>);

struct Inbox(Mutex<Sender<Completion>>);

impl Port for Inbox {
    fn completed(&self, cookie: u64, buffer: Buffer, result: Result<(), RequestError>) {
        self.0.lock().unwrap().send((cookie, buffer, result)).unwrap();
    }
}

/// A front end that knows the expected content of every block.
pub(crate) struct Client {
    volume: Volume,
    port: Arc<dyn Port>,
    inbox: Receiver<Completion>,
    content: Vec<u8>,
    rng: Prng,
    next_cookie: u64,
    /// All of them are apart.
    in_flight: BTreeMap<u64, (Submit, Vec<u8>)>,
}

fn request(op: Op, lba: u64, blocks: u32) -> Submit {
    Submit { op, lba: Lba(lba), blocks, fua: false, edges: Edges::NONE }
}

fn bytes(request: &Submit) -> std::ops::Range<usize> {
    let start = request.lba.0 as usize * BLOCK_BYTES;
    let within = request.edges.within(request.blocks);
    start + within.start..start + within.end
}

/// Whether their order does not matter: changes may share blocks, not bytes.
fn are_apart(one: &Submit, other: &Submit) -> bool {
    let whole = |request: &Submit| bytes(&Submit { edges: Edges::NONE, ..*request });
    let (one, other) = if one.op == Op::Read || other.op == Op::Read {
        (whole(one), whole(other))
    } else {
        (bytes(one), bytes(other))
    };
    one.end <= other.start || other.end <= one.start
}

impl Client {
    /// Of an array full of zeros.
    pub(crate) fn new(volume: Volume, seed: u64) -> Self {
        let content = vec![0; volume.blocks() as usize * BLOCK_BYTES];
        Self::knowing(volume, seed, content)
    }

    fn knowing(volume: Volume, seed: u64, content: Vec<u8>) -> Self {
        let (sender, inbox) = channel();
        Self {
            volume,
            port: Arc::new(Inbox(Mutex::new(sender))),
            inbox,
            content,
            rng: Prng::new(seed),
            next_cookie: 0,
            in_flight: BTreeMap::new(),
        }
    }

    /// The same expectations for another run of the array.
    pub(crate) fn moved_to(self, volume: Volume) -> Self {
        assert!(self.in_flight.is_empty());
        let mut rng = self.rng;
        let seed = rng.next_u64();
        Self::knowing(volume, seed, self.content)
    }

    /// Issues `count` random requests, many at once; some are still under way when it returns.
    pub(crate) fn churn(&mut self, count: usize) {
        for _ in 0..count {
            self.receive_down_to(IN_FLIGHT);
            let request = self.draw();
            self.submit(request);
        }
    }

    /// Waits until nothing is in flight.
    pub(crate) fn settle(&mut self) {
        self.receive_down_to(0);
    }

    /// Reads the whole array and compares.
    pub(crate) fn verify(&mut self) {
        self.settle();
        let step = self.volume.max_request_blocks();
        let end = self.volume.blocks();
        for lba in (0..end).step_by(step as usize) {
            let blocks = u64::from(step).min(end - lba) as u32;
            self.submit(request(Op::Read, lba, blocks));
        }
        self.settle();
    }

    pub(crate) fn flush(&mut self) {
        self.submit(request(Op::Flush, 0, 0));
        self.settle();
    }

    fn draw(&mut self) -> Submit {
        let op = match self.rng.below(20) {
            0..9 => Op::Read,
            9..17 => Op::Write,
            17 => Op::Flush,
            18 => Op::Discard,
            _ => Op::WriteZeroes,
        };
        let small = self.rng.chance(1, 2);
        let most = match op {
            Op::Flush => return request(op, 0, 0),
            Op::Read | Op::Write if small => 3,
            Op::Read | Op::Write | Op::Discard | Op::WriteZeroes => 64,
        };
        loop {
            let blocks = 1 + self.rng.below(most);
            let lba = self.rng.below(self.volume.blocks() - blocks + 1);
            let mut request = request(op, lba, blocks as u32);
            request.fua = op != Op::Read && self.rng.chance(1, 4);
            if op != Op::Read && self.rng.chance(1, 3) {
                let edge = |rng: &mut Prng| rng.below(BLOCK_BYTES as u64 / 2) as u16;
                request.edges = Edges { front: edge(&mut self.rng), back: edge(&mut self.rng) };
            }
            if self.in_flight.values().all(|(other, _)| are_apart(other, &request)) {
                return request;
            }
        }
    }

    fn submit(&mut self, request: Submit) {
        self.receive_down_to(IN_FLIGHT);
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let mut buffer = self.volume.buffer_blocking();
        let mut data = vec![0; bytes(&request).len()];
        if request.op == Op::Write {
            self.rng.fill(&mut data);
            buffer[request.edges.within(request.blocks)].copy_from_slice(&data);
        }
        self.in_flight.insert(cookie, (request, data));
        self.volume.submit(&self.port, cookie, request, buffer);
    }

    fn receive_down_to(&mut self, count: usize) {
        while self.in_flight.len() > count {
            self.receive();
        }
    }

    fn receive(&mut self) {
        let (cookie, buffer, result) = self.inbox.recv().unwrap();
        let (request, data) = self.in_flight.remove(&cookie).unwrap();
        assert_eq!(result, Ok(()), "{request:?}");
        let range = bytes(&request);
        match request.op {
            Op::Read => {
                let (is, should) = (&buffer[..range.len()], &self.content[range]);
                let blocks = is.chunks(BLOCK_BYTES).zip(should.chunks(BLOCK_BYTES));
                let wrong = blocks.map(|(is, should)| is == should).position(|same| !same);
                assert_eq!(wrong, None, "a wrong block in {request:?}");
            }
            Op::Write | Op::Discard | Op::WriteZeroes => {
                self.content[range].copy_from_slice(&data);
            }
            Op::Flush => {}
        }
    }
}
