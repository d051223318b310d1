//! A host whose disks are in memory: everything that it decides comes from a seed, so a seed is a
//! run. I/O and arithmetic end in any order; disks fail; the power does, too.

use std::rc::Rc;
use std::time::Duration;

use det::{Instant, Prng};
use raidcore::engine::{
    Action, ArrayHealth, Command, Config, Engine, Input, Io, IoError, IoOp, JobId, Note, Op, Pace,
    PassKind, Request, RequestError,
};
use raidcore::geometry::{Geometry, Level};
use raidcore::meta::{
    Areas, ArrayId, ArrayRecord, AssembleOptions, Assembled, BitMap, Consistency, DeviceUuid,
    Features, MapKind, SUPERBLOCKS, SlotRecord, SlotState, Superblock, assemble, checksum,
    choose_superblock,
};
use raidcore::parity::{Kernels, gf};
use raidcore::plan::{BoundStep, Step};
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba, Mem, MemberId, Stripe, Tag};

use crate::disk::{Block, Disk};
use crate::model::{Model, content, version_of};

/// What a run is about.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) level: Level,
    pub(crate) members: usize,
    pub(crate) chunk: u32,
    pub(crate) stripes: u64,
    pub(crate) consistency: Consistency,
    /// The most blocks of a request.
    pub(crate) request: u32,
    pub(crate) tags: u16,
    pub(crate) jobs: u16,
    pub(crate) background_jobs: u16,
    pub(crate) scratch_blocks: u32,
    /// Whether disks fail, blocks go bad, spares come.
    pub(crate) faults: bool,
    /// How many requests in a life.
    pub(crate) requests: u32,
    /// How many lives: between two of them the power fails.
    pub(crate) lives: u32,
}

struct Pending {
    io: Io,
    /// The bytes of a write when it began.
    data: Vec<Block>,
    flush_mark: u64,
}

struct Outstanding {
    request: Request,
    begun: u64,
    version: u64,
    /// For a read: what each block might have been when it began.
    before: Vec<Vec<u64>>,
}

pub(crate) struct World {
    pub(crate) scenario: Scenario,
    prng: Prng,
    now: Instant,
    pub(crate) disks: Vec<Disk>,
    uuids: Vec<DeviceUuid>,
    pub(crate) engine: Engine,
    kernels: &'static Kernels,
    payload: Vec<Vec<u8>>,
    scratch: Vec<Vec<u8>>,
    ios: Vec<Pending>,
    computes: Vec<JobId>,
    requests: Vec<Option<Outstanding>>,
    pub(crate) model: Model,
    versions: u64,
    commands: u64,
    answers: Vec<u64>,
    pub(crate) notes: Vec<Note>,
    /// Full-stripe writes when the last flush was acknowledged: later ones are at risk if a member
    /// is lost together with the power.
    settled_full: u64,
    /// Since a crash redundancy may be out of step.
    unsynced: bool,
    out: Vec<Action>,
}

const ARRAY: ArrayId = ArrayId(*b"the test's array");

fn uuid_of(index: usize) -> DeviceUuid {
    let mut uuid = *b"device..........";
    uuid[8..].copy_from_slice(&(index as u64 + 1).to_le_bytes());
    DeviceUuid(uuid)
}

fn blank() -> Block {
    Rc::from([0; BLOCK_BYTES])
}

/// New members, as `evenkeel create` leaves them, and their common record.
fn create(scenario: &Scenario) -> (Vec<Disk>, ArrayRecord) {
    let Scenario {
        level,
        members,
        chunk,
        consistency,
        stripes,
        ..
    } = *scenario;
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
            .map(|m| SlotRecord {
                device: uuid_of(m),
                state: SlotState::Up,
                since: 1,
            })
            .collect(),
        spares: Vec::new(),
    };
    let mut disks = vec![Disk::new(areas.member_blocks()); members];
    for (index, disk) in disks.iter_mut().enumerate() {
        let mut page = [0; BLOCK_BYTES];
        record.encode(uuid_of(index), &mut page);
        for copy in 0..4 {
            disk.write(areas.superblock(copy).0, Rc::from(page), true);
        }
        for (kind, bits) in [
            (MapKind::Bitmap, areas.regions(stripes)),
            (MapKind::ZeroMap, stripes),
        ] {
            let map = BitMap::new(kind, bits);
            for index in 0..map.pages() {
                map.encode_page(ARRAY, index, 0, &mut page);
                disk.write(areas.map_page(kind, index, 0).0, Rc::from(page), true);
            }
        }
    }
    (disks, record)
}

impl World {
    pub(crate) fn new(seed: u64, scenario: Scenario) -> Self {
        let mut prng = Prng::new(seed);
        let (disks, record) = create(&scenario);
        let uuids = record.slots.iter().map(|s| s.device).collect();
        let meta_blocks = record.areas.meta_blocks();
        let images: Vec<_> = disks
            .iter()
            .enumerate()
            .map(|(i, disk)| disk.image(format!("disk {i}"), meta_blocks))
            .collect();
        let assembled = assemble(&images, AssembleOptions::default()).expect("a new array");
        let engine = start(&scenario, assembled, &mut prng, Instant::ORIGIN);
        let kernels: Vec<_> = Kernels::available().collect();
        let kernels = kernels[prng.below(kernels.len() as u64) as usize];
        let mut world = Self {
            payload: vec![vec![0; scenario.request as usize * BLOCK_BYTES]; scenario.tags.into()],
            scratch: Vec::new(),
            requests: (0..scenario.tags).map(|_| None).collect(),
            scenario,
            prng,
            now: Instant::ORIGIN,
            disks,
            uuids,
            engine,
            kernels,
            ios: Vec::new(),
            computes: Vec::new(),
            model: Model::default(),
            versions: 0,
            commands: 0,
            answers: Vec::new(),
            notes: Vec::new(),
            settled_full: 0,
            unsynced: false,
            out: Vec::new(),
        };
        world.begin_life();
        world
    }

    fn begin_life(&mut self) {
        let chunk = self.engine.geometry().chunk() as usize;
        let buffers = usize::from(self.engine.scratch_buffers());
        self.scratch = vec![vec![0xa5; chunk * BLOCK_BYTES]; buffers];
        self.settled_full = 0;
        self.step(Input::Tick);
    }

    /// All lives, each verified by the next; the last ends with a clean stop.
    pub(crate) fn run(&mut self) {
        for life in 1..=self.scenario.lives {
            let last = life == self.scenario.lives;
            let mut left = self.scenario.requests;
            while left > 0 {
                left -= u32::from(self.turn(true));
            }
            if last || self.prng.chance(1, 4) {
                self.drain();
                self.verify();
            }
            if !last {
                if self.scenario.consistency != Consistency::Journal {
                    // Unclean and degraded, it would have to be forced.
                    self.heal();
                }
                self.crash();
                self.drain();
                self.verify_after_crash();
            }
        }
        self.heal();
        self.verify();
        self.scrub_finds_nothing();
        self.stop();
        self.verify_media();
    }

    /// One thing happens; returns whether it was a new request.
    fn turn(&mut self, requests: bool) -> bool {
        let busy = self.ios.len() + self.computes.len();
        match self.prng.below(100) {
            0..=29 if requests => return self.submit(),
            30..=32 if self.scenario.faults => self.fault(),
            33..=36 if self.scenario.faults => self.operate(),
            _ if busy == 0 => self.pass_time(),
            37..=39 => self.pass_time(),
            _ => self.complete_any(),
        }
        false
    }

    fn pass_time(&mut self) {
        let wait = match self.engine.deadline() {
            Some((at, _)) if at > self.now && self.prng.chance(3, 4) => at - self.now,
            _ => Duration::from_micros(self.prng.below(2000)),
        };
        self.now = self.now + wait;
        self.step(Input::Tick);
    }

    fn complete_any(&mut self) {
        let total = self.ios.len() + self.computes.len();
        let pick = self.prng.below(total as u64) as usize;
        self.now = self.now + Duration::from_micros(self.prng.below(50));
        if let Some(compute) = pick.checked_sub(self.ios.len()) {
            let job = self.computes.swap_remove(compute);
            self.compute(job);
            self.step(Input::Computed(job));
        } else {
            let pending = self.ios.swap_remove(pick);
            let result = self.carry_out(&pending);
            let id = pending.io.id;
            self.step(Input::IoDone { id, result });
        }
    }

    fn step(&mut self, input: Input) {
        let mut out = std::mem::take(&mut self.out);
        self.engine.step(self.now, input, &mut out);
        for action in out.drain(..) {
            self.act(action);
        }
        self.out = out;
        self.engine.check();
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Io(io) => self.begin_io(io),
            Action::Compute(job) => self.computes.push(job),
            Action::Complete { tag, result } => self.completed(tag, result),
            Action::Answer { number, .. } => self.answers.push(number),
            Action::Note(note) => self.notes.push(note),
            Action::Release(_) => {}
        }
    }

    fn begin_io(&mut self, io: Io) {
        let data = match io.op {
            IoOp::Write { from, .. } => self.blocks(from, io.blocks),
            IoOp::Store(page) => {
                let mut bytes = [0; BLOCK_BYTES];
                self.engine.encode(page, io.device, &mut bytes);
                vec![Rc::from(bytes)]
            }
            IoOp::Journal => self.journal_entry(&io),
            IoOp::Read(_) | IoOp::Flush | IoOp::Discard => Vec::new(),
        };
        for other in self.ios.iter().filter(|o| o.io.device == io.device) {
            let writes = |op: IoOp| !matches!(op, IoOp::Read(_) | IoOp::Flush);
            let ends = |io: &Io| io.at.0 + u64::from(io.blocks);
            let overlap = io.at.0 < ends(&other.io) && other.io.at.0 < ends(&io);
            let conflict = overlap
                && (writes(io.op) || writes(other.io.op))
                && !matches!(io.op, IoOp::Flush)
                && !matches!(other.io.op, IoOp::Flush);
            assert!(!conflict, "{io:?} while {:?} is under way", other.io);
        }
        let flush_mark = self.disks[io.device.0 as usize].flush_mark();
        self.ios.push(Pending {
            io,
            data,
            flush_mark,
        });
    }

    fn journal_entry(&self, io: &Io) -> Vec<Block> {
        let headers = self.engine.journal_header_blocks(io.id) as usize;
        let mut header = vec![0; headers * BLOCK_BYTES];
        let crc_of = |mem| checksum(&self.blocks(mem, 1)[0]);
        self.engine.encode_journal(io.id, crc_of, &mut header);
        let mut blocks: Vec<Block> = header.chunks_exact(BLOCK_BYTES).map(Rc::from).collect();
        self.engine
            .journal_payload(io.id, |mem, count| blocks.extend(self.blocks(mem, count)));
        assert_eq!(
            blocks.len(),
            io.blocks as usize,
            "an entry is as long as it says"
        );
        blocks
    }

    fn carry_out(&mut self, pending: &Pending) -> Result<(), IoError> {
        let io = &pending.io;
        let disk = &self.disks[io.device.0 as usize];
        if disk.gone {
            return Err(IoError::Gone);
        }
        match io.op {
            IoOp::Read(into) => {
                let range = io.at.0..io.at.0 + u64::from(io.blocks);
                if disk.bad.range(range.clone()).next().is_some() {
                    return Err(IoError::Medium);
                }
                let read: Vec<Block> = range
                    .map(|at| disk.read(at).cloned().unwrap_or_else(blank))
                    .collect();
                for (i, block) in (0u32..).zip(read) {
                    self.memory(into.plus(i), 1).copy_from_slice(&block);
                }
            }
            IoOp::Write { from, fua } => {
                let now = self.blocks(from, io.blocks);
                assert!(now == pending.data, "memory changed during {io:?}");
                self.write(io, &pending.data, fua);
            }
            IoOp::Store(_) | IoOp::Journal => self.write(io, &pending.data, true),
            IoOp::Flush => self.disks[io.device.0 as usize].flushed(pending.flush_mark),
            IoOp::Discard => {
                let disk = &mut self.disks[io.device.0 as usize];
                disk.discard(&mut self.prng, io.at.0, io.blocks.into());
            }
        }
        Ok(())
    }

    fn write(&mut self, io: &Io, data: &[Block], fua: bool) {
        let disk = &mut self.disks[io.device.0 as usize];
        for (at, block) in (io.at.0..).zip(data) {
            disk.write(at, block.clone(), fua);
        }
    }

    fn memory(&mut self, mem: Mem, blocks: u32) -> &mut [u8] {
        let (buffer, at) = match mem {
            Mem::Payload { tag, at } => (&mut self.payload[usize::from(tag.0)], at),
            Mem::Scratch { buffer, at } => (&mut self.scratch[usize::from(buffer)], at),
            Mem::Zero => panic!("zeros are never a destination"),
        };
        let start = at as usize * BLOCK_BYTES;
        &mut buffer[start..start + blocks as usize * BLOCK_BYTES]
    }

    fn bytes(&self, mem: Mem, blocks: u32) -> Vec<u8> {
        let (buffer, at) = match mem {
            Mem::Payload { tag, at } => (&self.payload[usize::from(tag.0)], at),
            Mem::Scratch { buffer, at } => (&self.scratch[usize::from(buffer)], at),
            Mem::Zero => return vec![0; blocks as usize * BLOCK_BYTES],
        };
        let start = at as usize * BLOCK_BYTES;
        buffer[start..start + blocks as usize * BLOCK_BYTES].to_vec()
    }

    fn blocks(&self, mem: Mem, blocks: u32) -> Vec<Block> {
        let bytes = self.bytes(mem, blocks);
        bytes.chunks_exact(BLOCK_BYTES).map(Rc::from).collect()
    }

    fn compute(&mut self, job: JobId) {
        let mut steps: Vec<(Step<Vec<Mem>>, u32)> = Vec::new();
        self.engine
            .steps(job, |step, blocks| steps.push((owned(step), blocks)));
        for (step, blocks) in steps {
            if !self.arithmetic(step, blocks) {
                self.engine.mismatch(job);
            }
        }
    }

    fn arithmetic(&mut self, step: Step<Vec<Mem>>, n: u32) -> bool {
        let k = self.kernels;
        let sources = |world: &Self, srcs: &[Mem]| -> Vec<Vec<u8>> {
            srcs.iter().map(|&mem| world.bytes(mem, n)).collect()
        };
        match step {
            Step::Xor { dst, srcs } => {
                let srcs = sources(self, &srcs);
                let srcs: Vec<&[u8]> = srcs.iter().map(|s| &s[..]).collect();
                k.xor(self.memory(dst, n), &srcs);
            }
            Step::Pq { p, q, srcs } => {
                let srcs = sources(self, &srcs);
                let srcs: Vec<Option<&[u8]>> = srcs.iter().map(|s| Some(&s[..])).collect();
                let (mut new_p, mut new_q) = (self.bytes(p, n), self.bytes(q, n));
                k.pq(&mut new_p, &mut new_q, &srcs);
                self.memory(p, n).copy_from_slice(&new_p);
                self.memory(q, n).copy_from_slice(&new_q);
            }
            Step::Q { q, srcs } => {
                let srcs = sources(self, &srcs);
                let srcs: Vec<Option<&[u8]>> = srcs.iter().map(|s| Some(&s[..])).collect();
                k.q(self.memory(q, n), &srcs);
            }
            Step::Add { dst, src } => {
                let src = self.bytes(src, n);
                k.add(self.memory(dst, n), &src);
            }
            Step::Delta {
                p,
                q,
                index,
                old,
                new,
            } => {
                let (old, new) = (self.bytes(old, n), self.bytes(new, n));
                let (mut new_p, mut new_q) =
                    (p.map(|p| self.bytes(p, n)), q.map(|q| self.bytes(q, n)));
                let (old, new) = (Some(&old[..]), Some(&new[..]));
                k.delta(
                    new_p.as_deref_mut(),
                    new_q.as_deref_mut(),
                    index.into(),
                    old,
                    new,
                );
                for (mem, bytes) in p.zip(new_p).into_iter().chain(q.zip(new_q)) {
                    self.memory(mem, n).copy_from_slice(&bytes);
                }
            }
            Step::Unscale { dst, index } => {
                k.scale(self.memory(dst, n), gf::inv(gf::pow2(index.into())));
            }
            Step::Solve { a, b, x, y } => {
                let (mut new_a, mut new_b) = (self.bytes(a, n), self.bytes(b, n));
                k.solve(&mut new_a, &mut new_b, x.into(), y.into());
                self.memory(a, n).copy_from_slice(&new_a);
                self.memory(b, n).copy_from_slice(&new_b);
            }
            Step::Clear { dst } => self.memory(dst, n).fill(0),
            Step::Compare { a, b } => return self.bytes(a, n) == self.bytes(b, n),
        }
        true
    }

    fn submit(&mut self) -> bool {
        let Some(tag) = self.requests.iter().position(Option::is_none) else {
            return false;
        };
        let capacity = self.engine.geometry().capacity();
        let most = u64::from(self.scenario.request).min(capacity);
        let blocks = 1 + match self.prng.below(3) {
            0 => 0,
            _ => self.prng.below(most),
        } as u32;
        let blocks = blocks.min(most as u32);
        let lba = self.prng.below(capacity - u64::from(blocks) + 1);
        let op = match self.prng.below(20) {
            0..=6 => Op::Read,
            7..=15 => Op::Write,
            16 => Op::Flush,
            17 | 18 => Op::Discard,
            _ => Op::WriteZeroes,
        };
        let request = Request {
            tag: Tag(tag as u16),
            op,
            lba: Lba(lba),
            blocks,
            fua: self.prng.chance(1, 4),
        };
        self.begin_request(request);
        true
    }

    fn begin_request(&mut self, request: Request) {
        let tag = usize::from(request.tag.0);
        let begun = self.model.now();
        let lbas = request.lba.0..request.lba.0 + u64::from(request.blocks);
        let (mut version, mut before) = (0, Vec::new());
        match request.op {
            Op::Write => {
                self.versions += 1;
                version = self.versions;
                for (at, lba) in lbas.clone().enumerate() {
                    self.payload[tag][at * BLOCK_BYTES..(at + 1) * BLOCK_BYTES]
                        .copy_from_slice(&content(lba, version));
                }
            }
            Op::Read => {
                self.payload[tag].fill(0xee);
                before = lbas
                    .clone()
                    .map(|l| self.model.readable(l, begun))
                    .collect();
            }
            Op::Flush | Op::Discard | Op::WriteZeroes => {}
        }
        if matches!(request.op, Op::Write | Op::Discard | Op::WriteZeroes) {
            for lba in lbas {
                self.model.begin(lba, version, begun);
            }
        }
        self.requests[tag] = Some(Outstanding {
            request,
            begun,
            version,
            before,
        });
        self.step(Input::Request(request));
    }

    fn completed(&mut self, tag: Tag, result: Result<(), RequestError>) {
        let index = usize::from(tag.0);
        let done = self.requests[index].take().expect("a request under way");
        let Outstanding {
            request,
            begun,
            version,
            before,
        } = done;
        assert_eq!(
            result,
            Ok(()),
            "{request:?}: redundancy was never exceeded; {:?}; {:?}; bad: {:?}",
            self.notes,
            self.engine.status(),
            self.disks
                .iter()
                .map(|d| (d.gone, &d.bad))
                .collect::<Vec<_>>()
        );
        let lbas = request.lba.0..request.lba.0 + u64::from(request.blocks);
        match request.op {
            Op::Read => {
                for ((i, lba), before) in lbas.enumerate().zip(before) {
                    let block = &self.payload[index][i * BLOCK_BYTES..(i + 1) * BLOCK_BYTES];
                    let found = version_of(lba, block);
                    let allowed = found.is_some_and(|v| {
                        before.contains(&v) || self.model.readable(lba, begun).contains(&v)
                    });
                    assert!(
                        allowed,
                        "{request:?} found {found:?} at {lba}: {}",
                        self.model.describe(lba)
                    );
                }
            }
            Op::Flush => {
                self.model.flushed(begun);
                let full = self.engine.status().counters.full_stripe_writes;
                self.settled_full = full;
            }
            Op::Write | Op::Discard | Op::WriteZeroes => {
                debug_assert!(request.op == Op::Write || version == 0);
                for lba in lbas {
                    self.model.end(lba, begun, true, request.fua);
                }
            }
        }
    }

    /// Runs until nothing is under way.
    pub(crate) fn drain(&mut self) {
        for _ in 0..2_000_000u32 {
            let requests = self.requests.iter().any(Option::is_some);
            if !self.ios.is_empty() || !self.computes.is_empty() {
                self.complete_any();
            } else if requests || !self.engine.is_serving() {
                self.pass_time();
            } else {
                return;
            }
        }
        panic!("it never comes to rest: {:?}", self.engine.status());
    }

    /// Reads everything through the array.
    fn read_all(&mut self) -> Vec<[u8; BLOCK_BYTES]> {
        let capacity = self.engine.geometry().capacity();
        let mut all = Vec::new();
        while (all.len() as u64) < capacity {
            let lba = all.len() as u64;
            let blocks = u64::from(self.scenario.request).min(capacity - lba) as u32;
            self.requests[0] = Some(Outstanding {
                request: Request {
                    tag: Tag(0),
                    op: Op::Flush,
                    lba: Lba(0),
                    blocks: 0,
                    fua: false,
                },
                begun: 0,
                version: 0,
                before: Vec::new(),
            });
            let request = Request {
                tag: Tag(0),
                op: Op::Read,
                lba: Lba(lba),
                blocks,
                fua: false,
            };
            let full = self.settled_full;
            self.step(Input::Request(request));
            self.drain();
            self.settled_full = full;
            for block in self.payload[0]
                .chunks_exact(BLOCK_BYTES)
                .take(blocks as usize)
            {
                all.push(block.try_into().expect("a block"));
            }
        }
        all
    }

    /// With nothing under way every block is one of the last writes to it.
    pub(crate) fn verify(&mut self) {
        let now = self.model.now();
        for (lba, block) in (0u64..).zip(self.read_all()) {
            let found = version_of(lba, &block);
            let allowed = found.is_some_and(|v| self.model.readable(lba, now).contains(&v));
            assert!(allowed, "{found:?} at {lba}: {}", self.model.describe(lba));
        }
    }

    fn verify_after_crash(&mut self) {
        for (lba, block) in (0u64..).zip(self.read_all()) {
            let history = self.model.describe(lba);
            let found = version_of(lba, &block);
            let survived = found.is_some_and(|v| self.model.survived(lba, v));
            assert!(survived, "{found:?} survived at {lba}: {history}");
        }
    }

    /// The power fails, perhaps a disk with it; then the array starts again.
    fn crash(&mut self) {
        let pending = std::mem::take(&mut self.ios);
        self.computes.clear();
        let mut in_flight: Vec<Vec<(u64, Block)>> = vec![Vec::new(); self.disks.len()];
        for Pending { io, data, .. } in pending {
            in_flight[io.device.0 as usize].extend((io.at.0..).zip(data));
        }
        for (disk, in_flight) in self.disks.iter_mut().zip(in_flight) {
            if !disk.gone {
                disk.crash(&mut self.prng, in_flight);
            }
            disk.bad.clear();
        }
        let counters = self.engine.status().counters;
        let full_at_risk = counters.full_stripe_writes > self.settled_full
            || self.scenario.request >= self.engine.geometry().stripe_blocks();
        for index in 0..self.requests.len() {
            self.requests[index] = None;
        }
        let spare_one = !self.unsynced
            && self.scenario.consistency == Consistency::Journal
            && self.scenario.level != Level::Raid1
            && !full_at_risk;
        let lose_one = spare_one && self.prng.chance(1, 2);
        self.start_again(lose_one, full_at_risk);
    }

    fn start_again(&mut self, lose_one: bool, full_at_risk: bool) {
        let meta_blocks = self.meta_blocks();
        let status = self.engine.status();
        let current: Vec<usize> = status
            .members
            .iter()
            .filter_map(|m| Some(m.device?.0 as usize))
            .filter(|&d| !self.disks[d].gone)
            .collect();
        let lose_one = lose_one && self.missing() < self.redundancy();
        let lost = lose_one.then(|| current[self.prng.below(current.len() as u64) as usize]);
        if let Some(lost) = lost {
            self.disks[lost].gone = true;
        }
        // Disks that had gone come back sometimes, with what they hold.
        for disk in 0..self.disks.len() {
            if Some(disk) != lost && self.disks[disk].gone && self.prng.chance(1, 3) {
                self.disks[disk].gone = false;
            }
        }
        let mut there: Vec<usize> = self.superblocks().map(|(disk, _)| disk).collect();
        let count = there.len();
        for i in 0..count {
            there.swap(i, i + self.prng.below((count - i) as u64) as usize);
        }
        let images: Vec<_> = there
            .iter()
            .map(|&d| self.disks[d].image(format!("disk {d}"), meta_blocks))
            .collect();
        let options = AssembleOptions {
            degraded: true,
            force: false,
        };
        let assembled = match assemble(&images, options) {
            Ok(assembled) => assembled,
            Err(error) => panic!("no array after a crash: {error}"),
        };
        let slots = assembled.slots.iter().chain(&assembled.spares);
        let devices: Vec<Option<DeviceId>> = slots
            .map(|image| image.map(|i| DeviceId(there[i] as u32)))
            .collect();
        self.unsynced = assembled.bitmap.count() > 0 && (full_at_risk || self.is_exposed());
        self.engine = start_with(
            &self.scenario,
            assembled,
            &devices,
            &mut self.prng,
            self.now,
        );
        self.begin_life();
    }

    /// Whether redundancy can't be built upon after a crash until the resync.
    fn is_exposed(&self) -> bool {
        self.scenario.consistency != Consistency::Journal || self.scenario.level == Level::Raid1
    }

    fn meta_blocks(&self) -> u64 {
        let (areas, _) = self.areas();
        areas.meta_blocks()
    }

    fn areas(&self) -> (Areas, u64) {
        let s = &self.scenario;
        let blocks = self.disks[0].blocks;
        Areas::plan(s.level, s.members, s.chunk, s.consistency, blocks).expect("it was created")
    }

    fn redundancy(&self) -> usize {
        self.engine.geometry().redundancy()
    }

    /// Members that do not serve in full, or will not when the engine finds out, or would not
    /// after a crash now.
    fn missing(&self) -> usize {
        let status = self.engine.status();
        let newest = self.superblocks().map(|(_, s)| s.record);
        let newest = newest.max_by_key(|r| r.events).expect("an array");
        let whole = status
            .members
            .iter()
            .zip(&newest.slots)
            .filter(|(m, slot)| {
                let there = m.device.is_some_and(|d| !self.disks[d.0 as usize].gone);
                there && m.state == SlotState::Up && slot.state == SlotState::Up
            });
        status.members.len() - whole.count()
    }

    /// The superblocks of the disks that answer.
    fn superblocks(&self) -> impl Iterator<Item = (usize, Superblock)> + '_ {
        let there = self.disks.iter().enumerate().filter(|(_, disk)| !disk.gone);
        there.filter_map(|(index, disk)| {
            let copies = SUPERBLOCKS.map(|at| disk.read(at.0).map(|block| &block[..]));
            Some((index, choose_superblock(&copies).ok()?))
        })
    }

    fn member_disks(&self) -> Vec<usize> {
        let status = self.engine.status();
        let devices = status.members.iter().filter_map(|m| m.device);
        devices.map(|d| d.0 as usize).collect()
    }

    fn look_synced(&mut self) {
        let status = self.engine.status();
        let resyncs = status.pass.is_some_and(|p| p.kind == PassKind::Resync);
        let ended = |note: &Note| matches!(note, Note::PassEnded(PassKind::Resync, _));
        if self.unsynced && self.engine.is_serving() && !resyncs && self.notes.iter().any(ended) {
            self.unsynced = false;
        }
    }

    fn fault(&mut self) {
        self.look_synced();
        if !self.engine.is_serving() || self.unsynced {
            return;
        }
        let members = self.member_disks();
        if members.is_empty() {
            return;
        }
        let pick = members[self.prng.below(members.len() as u64) as usize];
        let bad = self.disks.iter().any(|d| !d.bad.is_empty());
        let missing = self.missing();
        if self.prng.chance(1, 2) {
            if !bad && missing < self.redundancy() {
                self.disks[pick].gone = true;
                if self.prng.chance(1, 2) {
                    self.step(Input::DeviceGone(DeviceId(pick as u32)));
                }
            }
        } else if missing == 0 && self.redundancy() > 0 {
            self.spoil_blocks();
        }
    }

    /// Makes blocks of one stripe unreadable, on as many members as redundancy makes up for.
    fn spoil_blocks(&mut self) {
        let (areas, stripes) = self.areas();
        let stripe = Stripe(self.prng.below(stripes));
        let start = self.engine.geometry().place(stripe, areas.data_start()).0;
        let range = start..start + u64::from(self.scenario.chunk);
        let members = self.member_disks();
        let spoilt = |d: &&usize| self.disks[**d].bad.range(range.clone()).next().is_some();
        if members.iter().any(|d| spoilt(&d)) {
            return;
        }
        for _ in 0..self.redundancy().min(members.len() - 1) {
            let disk = members[self.prng.below(members.len() as u64) as usize];
            let at = start + self.prng.below(self.scenario.chunk.into());
            let busy = self.ios.iter().any(|p| {
                p.io.device.0 as usize == disk && (p.io.at.0..p.io.at.0 + 256).contains(&at)
            });
            if !busy {
                self.disks[disk].bad.insert(at);
            }
        }
    }

    fn command(&mut self, command: Command) {
        self.commands += 1;
        let number = self.commands;
        self.step(Input::Command { number, command });
    }

    /// A new disk with noise on it but zeros where metadata goes, as the host has to see to.
    fn new_spare(&mut self) -> Command {
        let blocks = self.disks[0].blocks;
        let mut disk = Disk::new(blocks);
        let from = self.meta_blocks();
        disk.soil(&mut self.prng, from);
        self.disks.push(disk);
        let index = self.disks.len() - 1;
        self.uuids.push(uuid_of(index));
        Command::AddSpare {
            device: DeviceId(index as u32),
            uuid: uuid_of(index),
            blocks,
        }
    }

    fn operate(&mut self) {
        self.look_synced();
        if !self.engine.is_serving() {
            return;
        }
        let status = self.engine.status();
        let impaired = status.health != ArrayHealth::Online;
        let command = match self.prng.below(12) {
            0..=3 if impaired && status.spares.is_empty() && self.redundancy() > 0 => {
                self.new_spare()
            }
            4 if self.disks.len() < 12 && self.redundancy() > 0 => self.new_spare(),
            5 => Command::Scrub {
                repair: self.prng.chance(1, 2),
            },
            6 => Command::Pause,
            7 | 8 => Command::Resume,
            9 => Command::SetPace(Pace {
                min: 1 << self.prng.below(30),
                max: u64::MAX >> self.prng.below(40),
            }),
            10 if self.missing() < self.redundancy() && !self.unsynced && !self.has_bad() => {
                let member = self.prng.below(self.scenario.members as u64);
                Command::Fail(MemberId(member as u8))
            }
            11 => Command::CancelScrub,
            _ => return,
        };
        self.command(command);
    }

    fn has_bad(&self) -> bool {
        self.disks.iter().any(|d| !d.bad.is_empty())
    }

    /// Brings the array back to full health.
    fn heal(&mut self) {
        for disk in &mut self.disks {
            disk.bad.clear();
        }
        self.command(Command::SetPace(Pace::default()));
        for _ in 0..3_000_000u32 {
            let status = self.engine.status();
            let busy = !self.ios.is_empty() || !self.computes.is_empty();
            if self.redundancy() == 0 || (status.health == ArrayHealth::Online && !busy) {
                if status.pass.is_none() {
                    return;
                }
            }
            if busy {
                self.complete_any();
                continue;
            }
            if status.pass.is_some_and(|p| p.paused || p.stuck.is_some()) {
                self.command(Command::Resume);
            } else if status.health != ArrayHealth::Online
                && status.pass.is_none()
                && status.spares.is_empty()
            {
                // Members that have gone unnoticed are found by a flush.
                let spare = self.new_spare();
                self.command(spare);
            }
            self.pass_time();
            self.sweep();
        }
        panic!("it is never whole again: {:?}", self.engine.status());
    }

    /// Finds members that have gone without anyone noticing.
    fn sweep(&mut self) {
        for disk in self.member_disks() {
            if self.disks[disk].gone {
                self.step(Input::DeviceGone(DeviceId(disk as u32)));
            }
        }
    }

    fn scrub_finds_nothing(&mut self) {
        if self.redundancy() == 0 {
            return;
        }
        self.command(Command::Scrub { repair: false });
        while self.engine.status().pass.is_some() || !self.ios.is_empty() {
            if self.ios.is_empty() && self.computes.is_empty() {
                self.pass_time();
            } else {
                self.complete_any();
            }
        }
        let result = self.engine.status().last_scrub.expect("it was run");
        assert_eq!(
            result.mismatches, 0,
            "redundancy does not match: {:?}",
            self.notes
        );
    }

    /// A clean stop.
    fn stop(&mut self) {
        self.command(Command::Stop);
        let number = self.commands;
        while !self.answers.contains(&number) {
            if self.ios.is_empty() && self.computes.is_empty() {
                self.pass_time();
            } else {
                self.complete_any();
            }
        }
        assert!(self.ios.is_empty(), "nothing is under way after a stop");
    }

    /// After a clean stop the disks alone give the same array, which needs no resync.
    fn verify_media(&mut self) {
        for disk in &mut self.disks {
            disk.crash(&mut self.prng, Vec::new());
        }
        for index in 0..self.requests.len() {
            self.requests[index] = None;
        }
        self.start_again(false, false);
        let dirty = self.engine.status().dirty_regions.0;
        assert_eq!(dirty, 0, "a clean stop leaves no region marked");
        self.drain();
        self.verify();
    }
}

fn owned(step: BoundStep<'_>) -> Step<Vec<Mem>> {
    match step {
        Step::Xor { dst, srcs } => Step::Xor {
            dst,
            srcs: srcs.to_vec(),
        },
        Step::Pq { p, q, srcs } => Step::Pq {
            p,
            q,
            srcs: srcs.to_vec(),
        },
        Step::Q { q, srcs } => Step::Q {
            q,
            srcs: srcs.to_vec(),
        },
        Step::Add { dst, src } => Step::Add { dst, src },
        Step::Delta {
            p,
            q,
            index,
            old,
            new,
        } => Step::Delta {
            p,
            q,
            index,
            old,
            new,
        },
        Step::Unscale { dst, index } => Step::Unscale { dst, index },
        Step::Solve { a, b, x, y } => Step::Solve { a, b, x, y },
        Step::Clear { dst } => Step::Clear { dst },
        Step::Compare { a, b } => Step::Compare { a, b },
    }
}

fn start(scenario: &Scenario, assembled: Assembled, prng: &mut Prng, now: Instant) -> Engine {
    let slots = assembled.slots.iter().chain(&assembled.spares);
    let devices: Vec<_> = slots
        .map(|image| image.map(|i| DeviceId(i as u32)))
        .collect();
    start_with(scenario, assembled, &devices, prng, now)
}

fn start_with(
    scenario: &Scenario,
    assembled: Assembled,
    devices: &[Option<DeviceId>],
    prng: &mut Prng,
    now: Instant,
) -> Engine {
    let config = Config {
        tags: scenario.tags,
        jobs: scenario.jobs,
        background_jobs: scenario.background_jobs,
        scratch_blocks: scenario.scratch_blocks,
        pace: Pace {
            min: 1 << prng.below(34),
            max: u64::MAX,
        },
        settle_delay: Duration::from_micros(100 + prng.below(20_000)),
    };
    Engine::new(config, assembled, devices, now, 1_800_000_000)
}
