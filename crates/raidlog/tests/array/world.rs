//! A log array on disks in memory that keep what is flushed apart from what is not.

use std::collections::HashMap;

use det::{Instant, Prng};
use raidcore::engine::{self, Engine, IoError, IoOp, JobId, Op, Pace, Request};
use raidcore::geometry::Level;
use raidcore::meta::{
    ArrayId, ArrayRecord, AssembleOptions, Assembled, Consistency, DeviceUuid, MemberImage,
    NewArray, assemble,
};
use raidcore::parity::Kernels;
use raidcore::plan::{BoundStep, Step};
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba, Mem, Tag};
use raidlog::array::{Action, Input, Look, Place, SLOT_BLOCKS};
use raidlog::{Answer, Config, GroupId, LogArray, Pages, Shape, VolumeId, Wish, codec};

const MEMBERS: usize = 3;
const TAGS: usize = 8;
/// Blocks of a request at most: a survey's is the largest.
const REQUEST: usize = 16;

const ID: VolumeId = VolumeId(*b"above the arrays");

type Block = Vec<u8>;

#[derive(Default, Clone)]
struct Disk {
    durable: HashMap<u64, Block>,
    cache: Vec<(u64, Block)>,
    gone: bool,
}

impl Disk {
    fn read(&self, at: u64) -> Block {
        let cached = self.cache.iter().rev().find(|(there, _)| *there == at);
        let block = cached.map(|(_, block)| block).or(self.durable.get(&at));
        block.cloned().unwrap_or_else(|| vec![0; BLOCK_BYTES])
    }

    fn flush(&mut self) {
        self.durable.extend(self.cache.drain(..));
    }
}

/// What users know of a block.
#[derive(Clone, Copy, Default)]
struct Known {
    flushed: u64,
    /// The last write that has ended, and the last one that has begun.
    ended: u64,
    begun: u64,
}

pub(crate) struct World {
    random: Prng,
    array: LogArray,
    record: ArrayRecord,
    disks: Vec<Vec<Disk>>,
    memory: HashMap<Place, Block>,
    /// Metadata on its way, by I/O.
    metadata: HashMap<(GroupId, engine::IoId), Block>,
    pending: Vec<(GroupId, engine::Io)>,
    requests: Vec<Option<(Request, u64)>>,
    known: Vec<Known>,
    version: u64,
    stopped: bool,
}

fn record(member_blocks: u64) -> ArrayRecord {
    let new = NewArray {
        array: ArrayId(*b"below the log..."),
        name: "group".into(),
        created: 0,
        level: Level::Raid5,
        chunk: 4,
        consistency: Consistency::Bitmap,
        devices: (1..=MEMBERS as u8).map(|member| DeviceUuid([member; 16])).collect(),
        journal_blocks: 0,
        staging_blocks: 0,
        staging_devices: Vec::new(),
        staging_device_blocks: 0,
        member_blocks,
    };
    new.record().expect("a possible array")
}

fn config() -> Config {
    Config { tags: TAGS as u16, buffers: 3, checkpoint: 200, ..Config::default() }
}

fn engine(assembled: Assembled) -> Engine {
    // So slow that what a start leaves out of step stays so.
    let pace = Pace { min: 1, max: 1 };
    let wanted = engine::Config { pace, scratch_blocks: 256, ..engine::Config::default() };
    let devices: Vec<_> =
        assembled.slots.iter().map(|slot| slot.map(|image| DeviceId(image as u32))).collect();
    Engine::new(LogArray::engine_config(&config(), wanted), assembled, &devices, Instant::ORIGIN, 0)
}

impl World {
    pub(crate) fn new(groups: usize, seed: u64) -> Self {
        let metadata = record(1 << 16).areas.data_start().0;
        let record = record(metadata + 4 * 90);
        let engines: Vec<_> =
            (0..groups).map(|_| engine(Assembled::of_new(record.clone(), false))).collect();
        let shape = Shape::new(Wish {
            groups,
            group_blocks: record.geometry.capacity(),
            stripe: record.geometry.stripe_blocks(),
            segment: 16,
            spare: 500,
        });
        let shape = shape.expect("a possible volume");
        let array = LogArray::create(config(), ID, shape, engines);
        let mut world = Self {
            random: Prng::new(seed),
            array,
            record,
            disks: vec![vec![Disk::default(); MEMBERS]; groups],
            memory: HashMap::new(),
            metadata: HashMap::new(),
            pending: Vec::new(),
            requests: vec![None; TAGS],
            known: vec![Known::default(); shape.capacity() as usize],
            version: 0,
            stopped: false,
        };
        world.tell(Input::Tick);
        world
    }

    pub(crate) fn groups(&self) -> usize {
        self.disks.len()
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.known.len() as u64
    }

    pub(crate) fn write(&mut self, lba: u64, blocks: u64) {
        let blocks = blocks.min(self.capacity() - lba);
        self.ask(Op::Write, lba, blocks);
    }

    pub(crate) fn flush(&mut self) {
        self.ask(Op::Flush, 0, 0);
    }

    fn ask(&mut self, op: Op, lba: u64, blocks: u64) {
        while !self.requests.iter().any(Option::is_none) {
            self.step();
        }
        let tag = self.requests.iter().position(Option::is_none).expect("one is free");
        self.version += 1;
        if op == Op::Write {
            for n in 0..blocks {
                let place = Place::Payload { tag: Tag(tag as u16), at: n as u32 };
                let known = &mut self.known[(lba + n) as usize];
                known.begun = self.version;
                let content = content(lba + n, self.version);
                self.put(place, &content);
            }
        }
        let tag = Tag(tag as u16);
        let request = Request { tag, op, lba: Lba(lba), blocks: blocks as u32, fua: false };
        self.requests[usize::from(tag.0)] = Some((request, self.version));
        self.tell(Input::Request(request));
    }

    /// Ends one I/O, if any is under way.
    pub(crate) fn step(&mut self) {
        if self.pending.is_empty() {
            return self.tell(Input::Tick);
        }
        let at = self.random.below(self.pending.len() as u64) as usize;
        let (group, io) = self.pending.swap_remove(at);
        let result = self.carry_out(group, io);
        let input = engine::Input::IoDone { id: io.id, result };
        self.tell(Input::Array { group, input });
    }

    pub(crate) fn run_until_idle(&mut self) {
        for _ in 0..100_000 {
            let serving = self.array.volume().is_some_and(raidlog::Volume::is_serving);
            if serving && self.requests.iter().all(Option::is_none) {
                return;
            }
            self.step();
        }
        panic!("it does not come to rest");
    }

    /// The power fails: of what was not flushed, a disk has all, some or nothing.
    pub(crate) fn crash(&mut self) {
        for (group, io) in std::mem::take(&mut self.pending) {
            if self.random.chance(1, 2) && matches!(io.op, IoOp::Write { .. } | IoOp::Store(_)) {
                _ = self.carry_out(group, io);
            }
        }
        for disk in self.disks.iter_mut().flatten() {
            let kept = self.random.below(3);
            for (at, block) in std::mem::take(&mut disk.cache) {
                if self.random.chance(kept, 2) {
                    disk.durable.insert(at, block);
                }
            }
        }
        self.requests.fill(None);
    }

    pub(crate) fn stop(&mut self) {
        self.tell(Input::Stop);
        while !self.stopped {
            self.step();
        }
    }

    /// Starts from what the disks hold, without one of each group if `lost` tells which.
    pub(crate) fn open(&mut self, lost: &[usize]) {
        self.lose(lost);
        let engines = (0..self.groups()).map(|group| {
            let images: Vec<_> = (0..MEMBERS).filter(|m| !self.disks[group][*m].gone).collect();
            let found: Vec<_> = images.iter().map(|&m| self.image(group, m)).collect();
            let options = AssembleOptions { degraded: true, force: true };
            let mut assembled = assemble(&found, options).expect("at most one is lost");
            for slot in assembled.slots.iter_mut().flatten() {
                *slot = images[*slot];
            }
            engine(assembled)
        });
        self.array = LogArray::open(config(), ID, engines.collect());
        self.memory.clear();
        self.stopped = false;
        self.tell(Input::Tick);
        self.run_until_idle();
    }

    fn image(&self, group: usize, member: usize) -> MemberImage {
        let blocks = self.record.areas.meta_blocks();
        let disk = &self.disks[group][member];
        MemberImage {
            label: format!("{group}.{member}"),
            blocks: self.record.areas.member_blocks(),
            meta: (0..blocks).flat_map(|at| disk.read(at)).collect(),
            unreadable: Vec::new(),
        }
    }

    /// A member of each group is gone from now on.
    pub(crate) fn lose(&mut self, lost: &[usize]) {
        for (group, &member) in lost.iter().enumerate() {
            self.disks[group][member].gone = true;
        }
    }

    /// Reads everything: the version of each block, which is one that it can have.
    pub(crate) fn survey(&mut self) -> Vec<u64> {
        let mut versions = Vec::new();
        for first in (0..self.capacity()).step_by(REQUEST) {
            let blocks = (self.capacity() - first).min(REQUEST as u64);
            self.ask(Op::Read, first, blocks);
            self.run_until_idle();
            for n in 0..blocks {
                let found = self.take(Place::Payload { tag: Tag(0), at: n as u32 });
                let lba = first + n;
                let known = self.known[lba as usize];
                let version = (0..=known.begun).rev().find(|&v| content(lba, v) == found);
                let version = version.unwrap_or_else(|| panic!("block {lba} is torn"));
                assert!(version >= known.flushed, "block {lba}: {version}, not {}", known.flushed);
                versions.push(version);
            }
        }
        versions
    }

    fn tell(&mut self, input: Input<'_>) {
        let mut actions = Vec::new();
        self.array.step(Instant::ORIGIN, input, &mut actions);
        let mut computing = Vec::new();
        let mut looks = Vec::new();
        for action in actions {
            match action {
                Action::Array { group, action: engine::Action::Io(io) } => {
                    if let IoOp::Store(page) = io.op {
                        let mut bytes = vec![0; BLOCK_BYTES];
                        self.array.array(group).encode(page, io.device, &mut bytes);
                        self.metadata.insert((group, io.id), bytes);
                    }
                    self.pending.push((group, io));
                }
                Action::Array { group, action: engine::Action::Compute(job) } => {
                    computing.push((group, job));
                }
                Action::Array { .. } | Action::Note(_) => {}
                Action::Summary { batch, buffer, first, .. } => self.summary(batch, buffer, first),
                Action::Pages { group, pages, blocks, slot } => {
                    self.pages(group, pages, blocks, slot)
                }
                Action::Look { look, slot, blocks, checksums, .. } => {
                    let at = |at| self.take(Place::Slot { slot, at });
                    looks.push((look, (0..blocks).map(at).collect::<Vec<_>>(), checksums));
                }
                Action::Copy { from, to, blocks } => {
                    for n in 0..blocks {
                        let bytes = self.take(on(from, n));
                        self.put(on(to, n), &bytes);
                    }
                }
                Action::Complete { tag, result } => {
                    assert_eq!(result, Ok(()));
                    self.completed(tag);
                }
                Action::Lost(error) => panic!("{error}"),
                Action::Stopped(result) => {
                    assert_eq!(result, Ok(()));
                    self.stopped = true;
                }
            }
        }
        computing.into_iter().for_each(|(group, job)| self.compute(group, job));
        looks.into_iter().for_each(|(look, blocks, checksums)| self.look(look, &blocks, checksums));
    }

    fn completed(&mut self, tag: Tag) {
        let (request, version) = self.requests[usize::from(tag.0)].take().expect("under way");
        let blocks = request.lba.0 as usize..request.lba.0 as usize + request.blocks as usize;
        match request.op {
            Op::Write => {
                for known in &mut self.known[blocks] {
                    known.ended = known.ended.max(version);
                }
            }
            // What had ended when it began.
            Op::Flush => {
                for known in &mut self.known {
                    if known.ended < version {
                        known.flushed = known.flushed.max(known.ended);
                    }
                }
            }
            Op::Read | Op::Discard | Op::WriteZeroes => {}
        }
    }

    fn summary(&mut self, batch: raidlog::BatchId, buffer: u16, first: u32) {
        let volume = self.array.volume().expect("who writes a batch");
        let blocks = volume.shape().summary();
        let mut bytes = vec![0; blocks as usize * BLOCK_BYTES];
        let sum = |at| codec::checksum(&self.take(Place::Segment { buffer, at }));
        volume.encode_summary(batch, &mut bytes, sum);
        for (n, block) in (0..).zip(bytes.chunks(BLOCK_BYTES)) {
            self.put(Place::Segment { buffer, at: first + n }, block);
        }
    }

    fn pages(&mut self, group: GroupId, pages: Pages, blocks: u32, slot: u16) {
        assert!(blocks <= SLOT_BLOCKS);
        for n in 0..blocks {
            let page = match pages {
                Pages::Header => Pages::Header,
                Pages::From(first) => Pages::From(first + n),
            };
            let mut bytes = vec![0; BLOCK_BYTES];
            self.array.volume().expect("who stores pages").encode_page(group, page, &mut bytes);
            self.put(Place::Slot { slot, at: n }, &bytes);
        }
    }

    fn look(&mut self, look: Look, blocks: &[Block], checksums: bool) {
        let sums: Vec<_> = blocks.iter().map(|block| codec::checksum(block)).collect();
        let bytes = blocks.concat();
        let answer = if checksums { Answer::Checksums(&sums) } else { Answer::Bytes(&bytes) };
        self.tell(Input::Seen { look, answer });
    }

    fn compute(&mut self, group: GroupId, job: JobId) {
        let mut steps: Vec<(Step<Vec<Mem>>, u32)> = Vec::new();
        self.array.array(group).steps(job, |step, blocks| steps.push((owned(step), blocks)));
        for (step, blocks) in steps {
            for n in 0..blocks {
                let read = |mem: &Mem| self.take(self.array.place(group, mem.plus(n)));
                let (dst, bytes) = match &step {
                    Step::Xor { dst, srcs } => (*dst, sum(srcs.iter().map(read))),
                    Step::Add { dst, src } => (*dst, sum([dst, src].map(read).into_iter())),
                    Step::Delta { p: Some(p), old, new, .. } => {
                        (*p, sum([p, old, new].map(read).into_iter()))
                    }
                    Step::Clear { dst } => (*dst, vec![0; BLOCK_BYTES]),
                    Step::Copy { dst, src } => (*dst, read(src)),
                    other @ (Step::Delta { .. }
                    | Step::Pq { .. }
                    | Step::Q { .. }
                    | Step::Unscale { .. }
                    | Step::Solve { .. }
                    | Step::Compare { .. }
                    | Step::Locate { .. }
                    | Step::Vote { .. }) => panic!("{other:?} is not RAID5's"),
                };
                self.put(self.array.place(group, dst.plus(n)), &bytes);
            }
        }
        self.tell(Input::Array { group, input: engine::Input::Computed(job) });
    }

    fn carry_out(&mut self, group: GroupId, io: engine::Io) -> Result<(), IoError> {
        let member = io.device.0 as usize;
        if self.disks[group.index()][member].gone {
            return Err(IoError::Gone);
        }
        for n in 0..io.blocks {
            let at = io.at.0 + u64::from(n);
            let disk = &self.disks[group.index()][member];
            match io.op {
                IoOp::Read(to) => {
                    let bytes = disk.read(at);
                    self.put(self.array.place(group, to.plus(n)), &bytes);
                }
                IoOp::Write { from, fua } => {
                    let bytes = self.take(self.array.place(group, from.plus(n)));
                    self.store(group, member, at, bytes, fua);
                }
                IoOp::Store(_) => {
                    let bytes = self.metadata[&(group, io.id)].clone();
                    self.store(group, member, at, bytes, true);
                }
                IoOp::Journal => panic!("these arrays keep a bitmap"),
                IoOp::Flush | IoOp::Discard => {}
            }
        }
        if io.op == IoOp::Flush {
            self.disks[group.index()][member].flush();
        }
        Ok(())
    }

    fn store(&mut self, group: GroupId, member: usize, at: u64, bytes: Block, fua: bool) {
        let disk = &mut self.disks[group.index()][member];
        if fua {
            disk.cache.retain(|(there, _)| *there != at);
            disk.durable.insert(at, bytes);
        } else {
            disk.cache.push((at, bytes));
        }
    }

    fn take(&self, place: Place) -> Block {
        self.memory.get(&place).cloned().unwrap_or_else(|| vec![0; BLOCK_BYTES])
    }

    fn put(&mut self, place: Place, bytes: &[u8]) {
        assert_ne!(place, Place::Zero);
        self.memory.insert(place, bytes.to_vec());
    }
}

/// The place so many blocks on.
fn on(place: Place, n: u32) -> Place {
    match place {
        Place::Payload { tag, at } => Place::Payload { tag, at: at + n },
        Place::Segment { buffer, at } => Place::Segment { buffer, at: at + n },
        Place::Slot { slot, at } => Place::Slot { slot, at: at + n },
        Place::Scratch { group, buffer, at } => Place::Scratch { group, buffer, at: at + n },
        Place::Zero => Place::Zero,
    }
}

/// What a version of a block holds; the first is zeros.
fn content(lba: u64, version: u64) -> Block {
    if version == 0 {
        return vec![0; BLOCK_BYTES];
    }
    let word = (lba << 32 | version).to_le_bytes();
    word.iter().copied().cycle().take(BLOCK_BYTES).collect()
}

fn sum(blocks: impl Iterator<Item = Block>) -> Block {
    let blocks: Vec<_> = blocks.collect();
    let blocks: Vec<_> = blocks.iter().map(|block| &block[..]).collect();
    let mut sum = vec![0; BLOCK_BYTES];
    Kernels::best().xor(&mut sum, &blocks);
    sum
}

fn owned(step: BoundStep<'_>) -> Step<Vec<Mem>> {
    match step {
        Step::Xor { dst, srcs } => Step::Xor { dst, srcs: srcs.to_vec() },
        Step::Add { dst, src } => Step::Add { dst, src },
        Step::Delta { p, q, index, old, new } => Step::Delta { p, q, index, old, new },
        Step::Clear { dst } => Step::Clear { dst },
        Step::Copy { dst, src } => Step::Copy { dst, src },
        other @ (Step::Pq { .. }
        | Step::Q { .. }
        | Step::Unscale { .. }
        | Step::Solve { .. }
        | Step::Compare { .. }
        | Step::Locate { .. }
        | Step::Vote { .. }) => panic!("{other:?} is not RAID5's"),
    }
}
