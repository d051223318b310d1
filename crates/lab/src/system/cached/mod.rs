//! Arrays with a write cache in memory, as the paper on SIW compares them.
//!
//! As in [`pdb`](super::pdb), requests take no locks, and blocks have no bytes: what is measured is what each policy
//! makes the SSDs do, and how long users wait.

mod order;
mod siw;
mod spec;
mod wow;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use det::Instant;
use flashsim::{Op, Ssd};
use raidcore::units::BLOCK_BYTES;

use super::bare::{Bare, Done};
use super::stripes::{Layout, Part, Run, merged};
use super::users::Users;
use super::{Met, Request, Steered, System, Told};
use crate::workload::Kind;
use order::{Order, Pressure, Strip};
pub use spec::{CacheError, CachePolicy, CachedLevel, CachedSpec};

/// What a cache in memory has done, in blocks unless stated otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Destaged {
    /// Written by users.
    pub written: u64,
    /// Of these, those that were in the cache.
    pub write_hits: u64,
    /// Read by users.
    pub read: u64,
    /// Of these, those that were in the cache.
    pub read_hits: u64,
    /// How often strips were destaged together.
    pub groups: u64,
    /// Their blocks.
    pub blocks: u64,
    /// How often these were whole stripes, or whole strips if each SSD is by itself.
    pub full: u64,
    /// Writes of a stripe.
    pub writes: u64,
    /// Of these, those that had to wait for room.
    pub waited: u64,
}

/// An array with a write cache in memory, as the paper on SIW compares them.
pub struct Cached {
    spec: CachedSpec,
    layout: Layout,
    bare: Bare<Then>,
    order: Option<Box<dyn Order>>,
    users: Users,
    /// What is cached, by SSD.
    dirty: Vec<BTreeSet<u64>>,
    /// What is being written, by SSD, and how many times.
    in_flight: Vec<BTreeMap<u64, u32>>,
    /// Blocks that are taken of each SSD's part of the cache.
    used: Vec<u64>,
    /// Blocks of the cache, or of each part if there are parts.
    size: u64,
    /// Writes that wait for room, of one stripe each.
    waiting: VecDeque<Write>,
    destaged: Destaged,
}

/// What a user writes of a stripe.
#[derive(Clone, Debug)]
struct Write {
    tag: u16,
    data: Vec<Run>,
    stripe: u64,
    /// The parity of what is written.
    parity: Vec<Run>,
}

/// What comes after a job.
enum Then {
    /// A part of a user's request has ended.
    Answer(u16),
    /// All has been read that is needed for a write, which goes past the cache.
    Pass(u16, Vec<Run>),
    /// Parity is known: this can be cached.
    Insert(Write),
    /// All has been read that the parity of what is destaged needs.
    Destage(Vec<Strip>, Vec<Run>, Vec<Run>),
    /// It has been written: these blocks of the cache are free.
    Free(Vec<Strip>, Vec<Run>),
}

impl Cached {
    /// An array of these SSDs that takes `depth` requests at a time.
    ///
    /// # Errors
    /// If it is impossible.
    pub fn new(spec: &CachedSpec, ssds: Vec<Ssd>, depth: u16) -> Result<Self, CacheError> {
        spec.check()?;
        let block = BLOCK_BYTES as u64;
        let bare = Bare::new(ssds, block);
        let chunk = spec.chunk.0 / block;
        let stripes = bare.sizes().min().unwrap_or(0) / chunk;
        if stripes == 0 {
            return Err(CacheError::TooSmall(spec.chunk));
        }
        let (parity, data) = spec.parity();
        let order: Option<Box<dyn Order>> = match spec.policy {
            CachePolicy::None => None,
            CachePolicy::Wow => Some(Box::new(wow::Wow::new(spec))),
            CachePolicy::Siw => Some(Box::new(siw::Siw::new(spec))),
        };
        let members = usize::from(spec.members);
        let parts = if order.as_ref().is_some_and(|order| order.has_parts()) { members } else { 1 };
        Ok(Self {
            layout: Layout::new(parity, data, 1, chunk, stripes),
            bare,
            order,
            users: Users::new(depth),
            dirty: vec![BTreeSet::new(); members],
            in_flight: vec![BTreeMap::new(); members],
            used: vec![0; members],
            size: spec.size.0 / block / parts as u64,
            waiting: VecDeque::new(),
            destaged: Destaged::default(),
            spec: spec.clone(),
        })
    }

    /// Begins I/Os of one kind; without any the job has ended at once.
    fn job(&mut self, now: Instant, op: Op, runs: Vec<Run>, then: Then, told: &mut Told) {
        let runs = merged(runs);
        if runs.is_empty() {
            self.next_step(now, Done { then, met: Met::default() }, told);
        } else {
            self.bare.begin(now, op, runs.into_iter(), then, told);
        }
    }

    /// A job's I/Os have all ended.
    fn next_step(&mut self, now: Instant, Done { then, met }: Done<Then>, told: &mut Told) {
        match then {
            Then::Answer(tag) => {
                self.users.met(tag, met);
                self.users.part_ended(tag, told);
            }
            Then::Pass(tag, runs) => {
                self.users.met(tag, met);
                self.job(now, Op::Write, runs, Then::Answer(tag), told);
            }
            Then::Insert(write) => {
                self.users.met(write.tag, met);
                self.insert(&write);
                self.users.part_ended(write.tag, told);
            }
            Then::Destage(strips, data, parity) => {
                let runs = data.iter().chain(&parity).copied().collect();
                self.job(now, Op::Write, runs, Then::Free(strips, data), told);
            }
            Then::Free(strips, data) => {
                for run in data {
                    self.used[run.drive] -= u64::from(run.blocks);
                    for block in run.range() {
                        let times = self.in_flight[run.drive].remove(&block).unwrap_or(1);
                        if times > 1 {
                            self.in_flight[run.drive].insert(block, times - 1);
                        }
                    }
                }
                if let Some(order) = &mut self.order {
                    order.ended(now, &strips);
                }
            }
        }
    }

    /// Whether a block is in the cache, be it that it is being written.
    fn is_cached(&self, drive: usize, block: u64) -> bool {
        self.dirty[drive].contains(&block) || self.in_flight[drive].contains_key(&block)
    }

    fn read(&mut self, now: Instant, tag: u16, run: Run, told: &mut Told) {
        let missing: Vec<_> =
            run.range().filter(|&block| !self.is_cached(run.drive, block)).collect();
        self.destaged.read += u64::from(run.blocks);
        self.destaged.read_hits += u64::from(run.blocks) - missing.len() as u64;
        self.users.part_begins(tag);
        let runs = missing.into_iter().map(|at| Run { at, blocks: 1, ..run }).collect();
        self.job(now, Op::Read, runs, Then::Answer(tag), told);
    }

    /// Writes parts of one stripe.
    fn write(&mut self, now: Instant, tag: u16, parts: &[Part], told: &mut Told) {
        self.users.part_begins(tag);
        self.destaged.writes += 1;
        let data: Vec<_> = parts.iter().map(|&part| self.layout.data_run(part)).collect();
        self.destaged.written += data.iter().map(|run| u64::from(run.blocks)).sum::<u64>();
        let stripe = parts[0].stripe;
        let parity = self.layout.parity_of_runs(&data);
        if self.order.is_none() {
            let reads = self.needed(&data, |_, _| false);
            let runs = data.into_iter().chain(parity).collect();
            self.job(now, Op::Read, reads, Then::Pass(tag, runs), told);
            return;
        }
        self.waiting.push_back(Write { tag, data, stripe, parity });
        self.admit(now, told);
        // It is still the last one.
        let waits =
            self.waiting.back().is_some_and(|last| last.tag == tag && last.stripe == stripe);
        self.destaged.waited += u64::from(waits);
        self.destage(now, told);
    }

    /// Takes waiting writes into the cache, in their order, as far as there is room.
    fn admit(&mut self, now: Instant, told: &mut Told) {
        let caches_parity = self.order.as_ref().is_some_and(|order| order.caches_parity());
        while let Some(write) = self.waiting.front() {
            let parity = write.parity.iter().filter(|_| caches_parity);
            let runs: Vec<_> = write.data.iter().chain(parity).copied().collect();
            let mut more = vec![0; self.used.len()];
            for run in &runs {
                let new = run.range().filter(|block| !self.dirty[run.drive].contains(block));
                more[run.drive] += new.count() as u64;
            }
            if !self.has_room(&more) {
                return;
            }
            let Some(write) = self.waiting.pop_front() else { return };
            // What is hit may be destaged before parity is known, so for that while it counts twice.
            runs.iter().for_each(|run| self.used[run.drive] += u64::from(run.blocks));
            let mut reads = Vec::new();
            if caches_parity && !self.spec.parity_is_known {
                reads = self.needed(&write.data, |drive, block| self.is_cached(drive, block));
            }
            self.job(now, Op::Read, reads, Then::Insert(write), told);
        }
    }

    fn has_room(&self, more: &[u64]) -> bool {
        let order = self.order.as_ref();
        if order.is_some_and(|order| order.has_parts()) {
            self.used.iter().zip(more).all(|(used, more)| used + more <= self.size)
        } else {
            self.used.iter().chain(more).sum::<u64>() <= self.size
        }
    }

    /// A write for which there was room is cached.
    fn insert(&mut self, write: &Write) {
        let Some(order) = &mut self.order else { return };
        let parity = write.parity.iter().filter(|_| order.caches_parity());
        let runs: Vec<_> = write.data.iter().chain(parity).copied().collect();
        let strips: Vec<_> =
            runs.iter().map(|run| Strip { drive: run.drive, stripe: write.stripe }).collect();
        order.wrote(&strips);
        for (number, run) in runs.into_iter().enumerate() {
            for block in run.range() {
                if !self.dirty[run.drive].insert(block) {
                    self.used[run.drive] -= 1;
                    self.destaged.write_hits += u64::from(number < write.data.len());
                }
            }
        }
    }

    /// Destages what the policy wants to be.
    fn destage(&mut self, now: Instant, told: &mut Told) {
        loop {
            let waits = !self.waiting.is_empty();
            let Some(order) = &mut self.order else { return };
            let used = if order.has_parts() {
                self.used.iter().copied().max().unwrap_or(0)
            } else {
                self.used.iter().sum()
            };
            let pressure = Pressure { used: used as f64 / self.size as f64, waits };
            let Some(strips) = order.next(now, pressure) else { return };
            let writes_parity = !order.caches_parity();
            let mut data = Vec::new();
            for &Strip { drive, stripe } in &strips {
                let start = stripe * self.layout.chunk;
                let range = start..start + self.layout.chunk;
                let blocks: Vec<_> = self.dirty[drive].range(range).copied().collect();
                for at in blocks {
                    self.dirty[drive].remove(&at);
                    *self.in_flight[drive].entry(at).or_default() += 1;
                    data.push(Run { drive, at, blocks: 1 });
                }
            }
            let data = merged(data);
            self.note(&data, writes_parity);
            let (mut reads, mut parity) = (Vec::new(), Vec::new());
            if writes_parity {
                reads = self.needed(&data, |_, _| false);
                parity = self.layout.parity_of_runs(&data);
            }
            self.job(now, Op::Read, reads, Then::Destage(strips, data, parity), told);
        }
    }

    /// Counts what is destaged together.
    fn note(&mut self, data: &[Run], is_stripe: bool) {
        let blocks: u64 = data.iter().map(|run| u64::from(run.blocks)).sum();
        let whole = self.layout.chunk * if is_stripe { self.layout.data() } else { 1 };
        self.destaged.groups += 1;
        self.destaged.blocks += blocks;
        self.destaged.full += u64::from(blocks == whole);
    }

    /// What has to be read for the parity of blocks of one stripe that are written, of what is not known: what they
    /// replace and the old parity, or the blocks beside them, whichever is less.
    fn needed(&self, data: &[Run], known: impl Fn(usize, u64) -> bool) -> Vec<Run> {
        let parity = self.layout.parity_of_runs(data);
        if parity.is_empty() {
            return Vec::new();
        }
        let single = |run: &Run| {
            let drive = run.drive;
            run.range().map(move |at| Run { drive, at, blocks: 1 }).collect::<Vec<_>>()
        };
        let written: BTreeSet<_> = data.iter().flat_map(single).collect();
        let rows = parity.iter().flat_map(single);
        let beside = rows.flat_map(|row| self.layout.others(row.drive, row.at));
        let unknown = |run: &Run| !known(run.drive, run.at);
        let beside: Vec<_> = beside.filter(|run| !written.contains(run)).filter(unknown).collect();
        let old = written.iter().copied().chain(parity.iter().flat_map(single)).filter(unknown);
        let old: Vec<_> = old.collect();
        if beside.len() < old.len() { beside } else { old }
    }
}

impl System for Cached {
    fn blocks(&self) -> u64 {
        self.layout.capacity()
    }

    fn depth(&self) -> u16 {
        self.users.depth()
    }

    fn submit(&mut self, now: Instant, request: Request, told: &mut Told) {
        let Request { tag, kind, lba, blocks } = request;
        self.users.came(tag);
        let parts: Vec<_> = self.layout.parts(lba, blocks).collect();
        match kind {
            Kind::Read => {
                for part in parts {
                    self.read(now, tag, self.layout.data_run(part), told);
                }
            }
            Kind::Write => {
                for stripe in parts.chunk_by(|a, b| a.stripe == b.stripe) {
                    self.write(now, tag, stripe, told);
                }
            }
            // The paper's arrays know neither.
            Kind::Discard | Kind::Flush => {}
        }
        self.users.part_ended(tag, told);
    }

    fn next(&self) -> Option<Instant> {
        let deadline = self.order.as_ref().and_then(|order| order.deadline());
        self.bare.next().into_iter().chain(deadline).min()
    }

    fn poll(&mut self, now: Instant, told: &mut Told) {
        for done in self.bare.poll(now, told) {
            self.next_step(now, done, told);
        }
        self.admit(now, told);
        self.destage(now, told);
    }

    fn ssds(&self) -> impl Iterator<Item = &Ssd> {
        self.bare.ssds()
    }

    fn begin(&mut self, _: Instant, _: &mut Told) {
        self.bare.reset();
        self.destaged = Destaged::default();
    }

    fn drive_ios(&self) -> (u64, u64) {
        self.bare.ios()
    }

    fn steered(&self) -> Steered {
        Steered::default()
    }

    fn destaged(&self) -> Option<Destaged> {
        self.order.as_ref().map(|_| self.destaged)
    }
}
