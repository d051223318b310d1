//! Arrays of the paper on popular data backup, and its baseline, stripe-oriented reconstruction (SOR).
//!
//! They are not the engine's: SPD-RAID4 has members of two sizes, and a mirroring zone is written with each user's
//! write, where the engine forgets a copy instead and never believes one after a crash. A request here takes no
//! lock: what is measured are the I/Os of each strategy, not its data.

mod popular;
mod recovery;
mod spec;
mod users;

use std::collections::HashMap;

use det::Instant;
use flashsim::{Op, Ssd};
use raidcore::units::BLOCK_BYTES;

use super::bare::{Bare, Done};
use super::rebuild::{Rebuilt, Watch};
use super::stripes::{Layout, Run, merged};
use super::users::Users;
use super::{Met, Request, Steered, System, Told};
use crate::units::Bytes;
use crate::workload::Kind;
use popular::{Popularity, Zone};
use recovery::{Recovery, State};
pub use spec::{Copies, Parity, PdbError, PdbSpec};

/// An array of the paper on popular data backup, or of its baseline.
pub struct Pdb {
    spec: PdbSpec,
    /// The bytes of a block here: a page, as in the paper, if that is smaller than users' blocks.
    block: u64,
    layout: Layout,
    bare: Bare<Then>,
    users: Users,
    /// By tag: whether some of what a user reads comes from copies.
    from_copies: Vec<bool>,
    popularity: Popularity,
    /// Copies of each data SSD's regions. They are on the next one.
    zones: Vec<Zone>,
    /// Since the failure.
    recovery: Option<Recovery>,
    /// Which job rebuilds a block that is under way.
    rebuilding: HashMap<u64, usize>,
    watch: Watch,
    steered: Steered,
}

/// What comes after a job.
#[derive(Debug)]
enum Then {
    /// A part of a user's request has ended; these blocks of the failed SSD are on the replacement.
    Answer { tag: u16, whole: Vec<u64> },
    /// Data have been read that are to be copied, perhaps for a user.
    Copy { tag: Option<u16>, drive: usize, blocks: Vec<u64> },
    /// These blocks of a drive have been copied.
    Copied { drive: usize, blocks: Vec<u64> },
    /// All has been read that a user's write needs; this is written next.
    Write { tag: u16, runs: Vec<Run>, whole: Vec<u64> },
    /// Lost blocks are known; users wait for some of them.
    Known { blocks: Vec<u64>, waiting: Vec<u16>, in_order: bool },
    /// They are on the replacement.
    Home { blocks: Vec<u64>, in_order: bool },
}

impl Pdb {
    /// The blocks of an SSD of split parity, if data SSDs have `blocks`.
    ///
    /// # Errors
    /// If they can't be split.
    pub fn parity_blocks(spec: &PdbSpec, blocks: u32) -> Result<u32, PdbError> {
        match spec.layout {
            Parity::Raid4 | Parity::Raid5 => Ok(blocks),
            Parity::SpdRaid4 if blocks.is_multiple_of(spec.parity.into()) => {
                Ok(blocks / u32::from(spec.parity))
            }
            Parity::SpdRaid4 => Err(PdbError::Split { blocks, parity: spec.parity }),
        }
    }

    /// An array of the SSDs for data, those for parity, and one for the replacement if one will fail. It takes
    /// `depth` requests at a time.
    ///
    /// # Errors
    /// If it is impossible.
    pub fn new(spec: &PdbSpec, ssds: Vec<Ssd>, depth: u16) -> Result<Self, PdbError> {
        spec.check()?;
        let users = BLOCK_BYTES as u64;
        let page = ssds.first().map(|ssd| u64::from(ssd.geometry().page_bytes));
        let block = page.filter(|&page| users.is_multiple_of(page)).unwrap_or(users);
        let bare = Bare::new(ssds, block);
        let in_blocks = |Bytes(bytes): Bytes| bytes / block;
        let chunk = spec.chunk.map_or(1, in_blocks);
        let (region, zone) = (in_blocks(spec.region), in_blocks(spec.zone));
        let sizes: Vec<u64> = bare.sizes().take(spec.members()).collect();
        let data = sizes[0];
        if !spec.zone.0.is_multiple_of(spec.region.0) || zone + chunk > data {
            let ssd = Bytes(data * block);
            return Err(PdbError::Zone { zone: spec.zone, region: spec.region, ssd });
        }
        let parity: u64 = match spec.layout {
            Parity::Raid4 | Parity::Raid5 => data / chunk,
            Parity::SpdRaid4 => {
                let least = sizes[usize::from(spec.data)..].iter().min().copied().unwrap_or(0);
                least / chunk * u64::from(spec.parity)
            }
        };
        let stripes = parity.min((data - zone) / chunk);
        let layout = Layout::new(spec.layout.place(), spec.data, spec.parities(), chunk, stripes);
        let slots = (zone / region) as usize;
        Ok(Self {
            block,
            layout,
            bare,
            users: Users::new(depth),
            from_copies: vec![false; depth.into()],
            popularity: Popularity::new(spec.counted as usize),
            zones: (0..spec.data).map(|_| Zone::new(data - zone, region, slots)).collect(),
            recovery: None,
            rebuilding: HashMap::new(),
            watch: Watch::new(spec.goes_on),
            steered: Steered::default(),
            spec: spec.clone(),
        })
    }

    /// Blocks here in one of users'.
    fn per_block(&self) -> u64 {
        BLOCK_BYTES as u64 / self.block
    }

    /// Begins I/Os of one kind, and returns the job's number; without any it has ended at once.
    fn job(
        &mut self,
        now: Instant,
        op: Op,
        runs: &[Run],
        then: Then,
        told: &mut Told,
    ) -> Option<usize> {
        if runs.is_empty() {
            self.next_step(now, Done { then, met: Met::default() }, told);
            return None;
        }
        let replacement = self.spec.members();
        let failed = self.recovery.as_ref().map(|_| usize::from(self.spec.failed));
        let placed = |run: &Run| {
            let drive = if failed == Some(run.drive) { replacement } else { run.drive };
            Run { drive, ..*run }
        };
        Some(self.bare.begin(now, op, runs.iter().map(placed), then, told))
    }

    /// A job's I/Os have all ended.
    fn next_step(&mut self, now: Instant, Done { then, met }: Done<Then>, told: &mut Told) {
        match then {
            Then::Answer { tag, whole } => {
                self.users.met(tag, met);
                self.found_whole(now, &whole);
                self.users.part_ended(tag, told);
            }
            Then::Copy { tag, drive, blocks } => {
                if let Some(tag) = tag {
                    self.users.met(tag, met);
                    self.users.part_ended(tag, told);
                }
                // A neighbour that has failed since takes no copies.
                if self.recovery.is_none() {
                    let runs = self.copies(drive, &blocks);
                    self.job(now, Op::Write, &runs, Then::Copied { drive, blocks }, told);
                }
            }
            Then::Copied { drive, blocks } => {
                let zone = &mut self.zones[drive];
                let noted = blocks.into_iter().filter(|&block| zone.note(block)).count();
                self.steered.copied_blocks += noted as u64;
            }
            Then::Write { tag, runs, whole } => {
                self.users.met(tag, met);
                self.job(now, Op::Write, &runs, Then::Answer { tag, whole }, told);
            }
            Then::Known { blocks, waiting, in_order } => {
                for tag in waiting {
                    self.users.met(tag, met);
                    self.users.part_ended(tag, told);
                }
                blocks.iter().for_each(|block| _ = self.rebuilding.remove(block));
                let runs = on(usize::from(self.spec.failed), &blocks);
                self.job(now, Op::Write, &runs, Then::Home { blocks, in_order }, told);
            }
            Then::Home { blocks, in_order } => {
                self.found_whole(now, &blocks);
                if in_order {
                    self.rebuild_next(now, told);
                }
            }
        }
    }

    /// Blocks of the failed SSD are on the replacement.
    fn found_whole(&mut self, now: Instant, blocks: &[u64]) {
        let Some(recovery) = self.recovery.as_mut().filter(|recovery| !recovery.is_over()) else {
            return;
        };
        blocks.iter().for_each(|&block| recovery.is_whole(block));
        if recovery.is_over() {
            self.watch.ended(now);
        }
    }

    /// Where an SSD's blocks are in its neighbour's zone, as far as they have a place there.
    fn copies(&self, drive: usize, blocks: &[u64]) -> Vec<Run> {
        let Some(zone) = self.zones.get(drive) else { return Vec::new() };
        let neighbour = (drive + 1) % self.zones.len();
        let places = blocks.iter().filter_map(|&block| zone.place(block));
        merged(places.map(|(at, _)| Run { drive: neighbour, at, blocks: 1 }).collect())
    }

    fn state(&self, drive: usize, block: u64) -> State {
        let failed = self.recovery.as_ref().filter(|_| drive == usize::from(self.spec.failed));
        failed.map_or(State::Whole, |recovery| recovery.state(block))
    }

    /// Whether a block has a copy on the neighbour.
    fn is_copied(&self, drive: usize, block: u64) -> bool {
        self.zones.get(drive).and_then(|zone| zone.place(block)).is_some_and(|(_, there)| there)
    }

    /// Reads what blocks of the failed SSD are rebuilt from: copies where there are any, else the others of their
    /// stripes.
    fn rebuild(
        &mut self,
        now: Instant,
        blocks: Vec<u64>,
        waiting: Vec<u16>,
        in_order: bool,
        told: &mut Told,
    ) {
        let failed = usize::from(self.spec.failed);
        let mut runs = Vec::new();
        for &block in &blocks {
            if self.is_copied(failed, block) {
                runs.extend(self.copies(failed, &[block]));
            } else {
                runs.extend(self.layout.others(failed, block));
            }
        }
        let then = Then::Known { blocks: blocks.clone(), waiting, in_order };
        let job = self.job(now, Op::Read, &merged(runs), then, told);
        self.rebuilding.extend(blocks.into_iter().zip(job.into_iter().cycle()));
    }

    /// Rebuilds the next unit in order.
    fn rebuild_next(&mut self, now: Instant, told: &mut Told) {
        if let Some(blocks) = self.recovery.as_mut().and_then(Recovery::take_next) {
            self.rebuild(now, blocks, Vec::new(), true, told);
        }
    }

    /// The SSD fails, and the replacement is there.
    fn fail(&mut self, now: Instant, told: &mut Told) {
        let failed = usize::from(self.spec.failed);
        self.watch.failed(now);
        let data = self.zones.len();
        if failed < data {
            // It held its other neighbour's copies.
            self.zones[(failed + data - 1) % data] = Zone::new(0, 1, 0);
        }
        let unit = self.spec.unit.map_or(1, |Bytes(unit)| unit / self.block);
        let region = self.spec.region.0 / self.block;
        let blocks = self.layout.blocks_of(failed);
        let popular = self.spec.popular_first.then(|| self.popularity.of(failed));
        let first = popular.into_iter().flatten().flat_map(|number| {
            number * region / unit..((number + 1) * region).min(blocks).div_ceil(unit)
        });
        self.recovery = Some(Recovery::new(blocks, unit, first.collect()));
        for _ in 0..self.spec.in_flight {
            self.rebuild_next(now, told);
        }
    }
}

/// Blocks of a drive as runs.
fn on(drive: usize, blocks: &[u64]) -> Vec<Run> {
    merged(blocks.iter().map(|&at| Run { drive, at, blocks: 1 }).collect())
}

impl System for Pdb {
    fn blocks(&self) -> u64 {
        self.layout.capacity() / self.per_block()
    }

    fn depth(&self) -> u16 {
        self.users.depth()
    }

    fn submit(&mut self, now: Instant, request: Request, told: &mut Told) {
        let Request { tag, kind, lba, blocks } = request;
        self.users.came(tag);
        self.from_copies[usize::from(tag)] = false;
        let per_block = self.per_block();
        let (at, blocks) = (lba * per_block, blocks * per_block as u32);
        let parts: Vec<_> = self.layout.parts(at, blocks).collect();
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
            // These arrays know neither.
            Kind::Discard | Kind::Flush => {}
        }
        self.users.part_ended(tag, told);
    }

    fn next(&self) -> Option<Instant> {
        self.bare.next()
    }

    fn poll(&mut self, now: Instant, told: &mut Told) {
        for done in self.bare.poll(now, told) {
            self.next_step(now, done, told);
        }
    }

    fn ssds(&self) -> impl Iterator<Item = &Ssd> {
        self.bare.ssds()
    }

    fn begin(&mut self, now: Instant, told: &mut Told) {
        self.bare.reset();
        self.steered = Steered::default();
        if self.spec.fails {
            self.fail(now, told);
        }
    }

    fn rebuilt(&self) -> Rebuilt {
        self.watch.rebuilt()
    }

    fn drive_ios(&self) -> (u64, u64) {
        self.bare.ios()
    }

    fn steered(&self) -> Steered {
        self.steered
    }
}
