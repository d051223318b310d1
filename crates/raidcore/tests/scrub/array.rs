//! An array on disks in memory whose bytes the tests can change.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use det::{Instant, Prng};
use raidcore::engine::{
    Action, Command, Config, Engine, Input, Io, IoError, IoOp, JobId, Mismatches, Note, Pace,
    PassEnd, PassKind,
};
use raidcore::geometry::{Geometry, Level, Placement, Role};
use raidcore::meta::{
    ArrayId, ArrayRecord, Assembled, Consistency, DeviceUuid, MetaPage, NewArray, ScrubEnd,
};
use raidcore::parity::{Kernels, gf};
use raidcore::plan::{BoundStep, Finding, Found, Step};
use raidcore::units::{BLOCK_BYTES, DeviceId, Mem, Pba, Stripe};

pub(crate) const CHUNK: u32 = 4;
/// Stripes that are checked; the array has a few more, of zeros.
pub(crate) const STRIPES: u64 = 7;

pub(crate) type Block = [u8; BLOCK_BYTES];

/// What the members hold of the first stripes, by member.
pub(crate) type Image = Vec<Vec<Block>>;

pub(crate) struct Array {
    pub(crate) engine: Engine,
    pub(crate) geo: Geometry,
    data_start: Pba,
    pub(crate) disks: Image,
    /// Blocks that can't be read: member and block.
    pub(crate) bad: Vec<(usize, usize)>,
    memory: Memory,
    todo: VecDeque<Action>,
    pub(crate) notes: Vec<Note>,
    /// All writes to the members since the last look: member and block.
    pub(crate) written: Vec<(usize, usize)>,
    /// Which of the blocks that are written survive a power failure.
    pub(crate) kept: Range<usize>,
    /// Metadata that was stored, and journal entries.
    meta_stores: usize,
    now: Instant,
}

impl Array {
    pub(crate) fn new(level: Level, members: usize, chunk: u32) -> Self {
        Self::found(level, members, chunk, u64::MAX, |_| {})
    }

    /// An array whose record is changed before the start. Passes go at this pace, in bytes of each
    /// member per second.
    pub(crate) fn found(
        level: Level,
        members: usize,
        chunk: u32,
        pace: u64,
        change: impl FnOnce(&mut ArrayRecord),
    ) -> Self {
        let record = |member_blocks| {
            let new = NewArray {
                array: ArrayId(*b"to be corrupted!"),
                name: "tank".into(),
                created: 0,
                level,
                placement: Placement::of(level),
                chunk,
                consistency: Consistency::Journal,
                devices: (1..=members as u8).map(|member| DeviceUuid([member; 16])).collect(),
                member_blocks: vec![member_blocks; members],
                journal_blocks: 0,
                staging_blocks: 0,
                staging_devices: Vec::new(),
                staging_device_blocks: 0,
                distributed_spare: false,
            };
            new.record().expect("a possible array")
        };
        let metadata = record(1 << 16).areas.data_start().0;
        let mut record = record(metadata + STRIPES * u64::from(chunk));
        change(&mut record);
        let (geo, data_start) = (record.geometry, record.areas.data_start());
        assert!(geo.stripes() >= STRIPES);
        let devices: Vec<_> = (0..members as u32).map(|disk| Some(DeviceId(disk))).collect();
        let now = Instant::ORIGIN;
        let assembled = Assembled::of_new(record, false);
        let pace = Pace { min: pace, max: pace };
        let config = Config { pace, scratch_blocks: 512, ..Config::default() };
        let engine = Engine::new(config, assembled, &devices, now, 0);
        let buffer = vec![0xa5; chunk as usize * BLOCK_BYTES];
        let memory = Memory(vec![buffer; engine.scratch_buffers().into()]);
        let mut array = Self {
            engine,
            geo,
            data_start,
            disks: consistent(&geo),
            bad: Vec::new(),
            memory,
            todo: VecDeque::new(),
            notes: Vec::new(),
            written: Vec::new(),
            kept: 0..usize::MAX,
            meta_stores: 0,
            now,
        };
        array.tell(Input::Tick);
        assert!(array.engine.is_serving());
        array
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.tell(Input::Tick);
    }

    /// Passes an input to the engine, and carries out all its actions.
    pub(crate) fn tell(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut actions = Vec::new();
            self.engine.step(self.now, input, &mut actions);
            self.engine.check();
            self.todo.extend(actions);
            while let Some(action) = self.todo.pop_front() {
                match action {
                    Action::Io(io) => {
                        inputs.push_back(Input::IoDone { id: io.id, result: self.carry_out(io) });
                    }
                    Action::Compute(job) => {
                        self.compute(job);
                        inputs.push_back(Input::Computed(job));
                    }
                    Action::Answer { result, .. } => result.expect("it is done"),
                    Action::Note(note) => self.notes.push(note),
                    Action::Complete { .. } | Action::Release(_) => {}
                }
            }
        }
    }

    fn carry_out(&mut self, io: Io) -> Result<(), IoError> {
        let disk = io.device.0 as usize;
        self.meta_stores += usize::from(match io.op {
            // A correction may also have to record the region as missed by a member that is away.
            IoOp::Store(MetaPage::Superblock { .. } | MetaPage::Missed { .. }) => false,
            IoOp::Store(_) | IoOp::Journal => true,
            IoOp::Read(_) | IoOp::Write { .. } | IoOp::Flush | IoOp::Discard => false,
        });
        for i in 0..io.blocks {
            let at = (io.at.0 - self.data_start.0.min(io.at.0)) as usize + i as usize;
            match io.op {
                IoOp::Read(_) if self.bad.contains(&(disk, at)) => return Err(IoError::Medium),
                IoOp::Read(to) => {
                    let bytes = self.disks[disk].get(at).copied().unwrap_or([0; BLOCK_BYTES]);
                    self.memory.of(to.plus(i), 1).copy_from_slice(&bytes);
                }
                IoOp::Write { from, .. } => {
                    let bytes = (&*self.memory.of(from.plus(i), 1)).try_into().expect("a block");
                    if self.kept.contains(&self.written.len()) {
                        let blocks = self.disks[disk].len().max(at + 1);
                        self.disks[disk].resize(blocks, [0; BLOCK_BYTES]);
                        self.disks[disk][at] = bytes;
                    }
                    self.written.push((disk, at));
                    self.bad.retain(|&bad| bad != (disk, at));
                }
                IoOp::Store(_) | IoOp::Journal | IoOp::Flush | IoOp::Discard => {}
            }
        }
        Ok(())
    }

    fn compute(&mut self, job: JobId) {
        let mut found = Vec::new();
        self.engine.steps(job, |step, blocks| found.extend(self.memory.compute(step, blocks)));
        found.into_iter().for_each(|found| self.engine.found(job, found));
    }

    /// Scrubs; returns what was found.
    pub(crate) fn scrub(&mut self, repair: bool) -> Mismatches {
        self.notes.clear();
        self.written.clear();
        let stores = self.meta_stores;
        self.tell(Input::Command { number: 0, command: Command::Scrub { repair } });
        let ended = Note::PassEnded(PassKind::Scrub { repair }, PassEnd::Done);
        assert!(self.notes.contains(&ended), "{:?}", self.notes);
        assert_eq!(self.meta_stores, stores, "a correction needs neither a bit nor an entry");
        let last = self.engine.status().last_scrub.expect("it has ended");
        let end = if repair { ScrubEnd::Repaired } else { ScrubEnd::Compared };
        assert_eq!(last.end, end);
        Mismatches { rows: last.rows, located: last.located }
    }

    /// Changes bytes of a role's row without the array's knowledge.
    pub(crate) fn spoil(
        &mut self,
        stripe: u64,
        role: usize,
        row: u32,
        change: &dyn Fn(&mut Block),
    ) {
        let (member, at) = self.place(stripe, role, row);
        change(&mut self.disks[member][at]);
    }

    pub(crate) fn place(&self, stripe: u64, role: usize, row: u32) -> (usize, usize) {
        let (stripe, role) = (Stripe(stripe), Role::at(role));
        let (member, Pba(start)) = self.geo.place(stripe, role, Pba(0));
        (member.index(), (start + u64::from(row)) as usize)
    }
}

/// The scratch buffers, poisoned, so that what was never filled can't look right.
struct Memory(Vec<Vec<u8>>);

impl Memory {
    fn of(&mut self, mem: Mem, blocks: u32) -> &mut [u8] {
        let Mem::Scratch { buffer, at } = mem else { panic!("{mem:?} is no scrub's") };
        let bytes = |blocks: u32| blocks as usize * BLOCK_BYTES;
        &mut self.0[usize::from(buffer)][bytes(at)..][..bytes(blocks)]
    }

    fn compute(&mut self, step: BoundStep<'_>, n: u32) -> Option<Found> {
        let kernels = Kernels::best();
        let mut bytes = |mem: &Mem| (*mem != Mem::Zero).then(|| self.of(*mem, n).to_vec());
        match step {
            Step::Pq { p, q, srcs } => {
                let srcs: Vec<_> = srcs.iter().map(bytes).collect();
                let srcs: Vec<_> = srcs.iter().map(Option::as_deref).collect();
                let mut of_p = vec![0; n as usize * BLOCK_BYTES];
                kernels.pq(&mut of_p, self.of(q, n), &srcs);
                self.of(p, n).copy_from_slice(&of_p);
            }
            Step::Q { q, srcs } => {
                let srcs: Vec<_> = srcs.iter().map(bytes).collect();
                let srcs: Vec<_> = srcs.iter().map(Option::as_deref).collect();
                kernels.q(self.of(q, n), &srcs);
            }
            Step::Xor { dst, srcs } => {
                let srcs: Vec<_> = srcs.iter().filter_map(bytes).collect();
                let srcs: Vec<_> = srcs.iter().map(|src| &src[..]).collect();
                kernels.xor(self.of(dst, n), &srcs);
            }
            Step::Add { dst, src } => {
                let src = self.of(src, n).to_vec();
                kernels.add(self.of(dst, n), &src);
            }
            Step::Unscale { dst, index } => {
                kernels.scale(self.of(dst, n), gf::inv(gf::pow2(index.into())));
            }
            Step::Compare { a, b } => {
                let same = bytes(&a) == bytes(&b);
                return (!same).then_some(Found::Difference);
            }
            Step::Locate { row, p, q, data } => {
                let [p, q] = [p, q].map(|mem| mem.as_ref().and_then(&mut bytes));
                let finding = Finding::of_parity(row, data, p.as_deref(), q.as_deref());
                return finding.map(Found::Wrong);
            }
            Step::Vote { row, copies } => {
                let copies: Vec<_> = copies.iter().map(bytes).collect();
                let copies: Vec<_> = copies.iter().map(Option::as_deref).collect();
                return Finding::of_copies(row, &copies).map(Found::Wrong);
            }
            Step::Delta { .. } | Step::Solve { .. } | Step::Clear { .. } | Step::Copy { .. } => {
                unreachable!("{step:?} is no scrub's")
            }
        }
        None
    }
}

/// The product in the field of 256 elements with the polynomial 0x11d, by the definition.
fn product(mut a: u8, mut b: u8) -> u8 {
    let mut sum = 0;
    while b != 0 {
        if b & 1 != 0 {
            sum ^= a;
        }
        a = (a << 1) ^ if a & 0x80 != 0 { 0x1d } else { 0 };
        b >>= 1;
    }
    sum
}

fn weight(index: usize) -> u8 {
    (0..index).fold(1, |power, _| product(power, 2))
}

/// P and Q of these data.
pub(crate) fn parities(data: &[Block]) -> [Block; 2] {
    let (mut p, mut q) = ([0; BLOCK_BYTES], [0; BLOCK_BYTES]);
    for (index, block) in data.iter().enumerate() {
        let weight = weight(index);
        for ((p, q), &byte) in p.iter_mut().zip(&mut q).zip(block) {
            *p ^= byte;
            *q ^= product(weight, byte);
        }
    }
    [p, q]
}

/// Noise with right parity or copies.
fn consistent(geo: &Geometry) -> Image {
    let mut prng = Prng::new(geo.members() as u64);
    let mut disks = vec![Vec::new(); geo.members()];
    let rows = (0..STRIPES).flat_map(|stripe| (0..geo.chunk()).map(move |_| Stripe(stripe)));
    for stripe in rows {
        let mut data = vec![[0; BLOCK_BYTES]; geo.data()];
        data.iter_mut().for_each(|block| prng.fill(block));
        let all = match geo.level() {
            Level::Raid1 | Level::Raid10 => vec![data[0]; geo.width()],
            Level::Raid0 | Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                let parities = parities(&data);
                [&data[..], &parities[..geo.parities()]].concat()
            }
        };
        for (role, block) in all.into_iter().enumerate() {
            disks[geo.member(stripe, Role::at(role)).index()].push(block);
        }
    }
    disks
}
