//! A host whose disks are in memory: everything that it decides comes from a seed, so a seed is a
//! run. I/O and arithmetic end in any order; disks fail; the power does, too.

use std::time::Duration;

use det::{Instant, Prng};
use raidcore::engine::{
    Action, Command, CommandError, Config, Engine, Input, Io, JobId, Note, Op, Pace, Request,
    RequestError,
};
use raidcore::geometry::Level;
use raidcore::meta::{
    Areas, AssembleOptions, Assembled, Consistency, DeviceUuid, SlotState, assemble,
};
use raidcore::parity::Kernels;
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba, Tag};

use crate::create::create;
use crate::disk::{Block, Disk};
use crate::model::{GARBAGE, Model, content, version_of};
use crate::run::{Sink, Summary};
use crate::scenario::Scenario;

pub(crate) struct Pending {
    pub(crate) io: Io,
    /// The bytes of a write when it began.
    pub(crate) data: Vec<Block>,
    pub(crate) flush_mark: u64,
}

pub(crate) struct Outstanding {
    pub(crate) request: Request,
    pub(crate) begun: u64,
    pub(crate) version: u64,
    /// For a read: what each block might have been when it began.
    pub(crate) before: Vec<Vec<u64>>,
    /// Whole stripes overwritten when it began, if nothing was under way; a flush settles those.
    pub(crate) full: u64,
}

pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) prng: Prng,
    pub(crate) now: Instant,
    pub(crate) disks: Vec<Disk>,
    pub(crate) uuids: Vec<DeviceUuid>,
    pub(crate) engine: Engine,
    pub(crate) kernels: &'static Kernels,
    pub(crate) payload: Vec<Vec<u8>>,
    pub(crate) scratch: Vec<Vec<u8>>,
    pub(crate) ios: Vec<Pending>,
    pub(crate) computes: Vec<JobId>,
    pub(crate) requests: Vec<Option<Outstanding>>,
    pub(crate) model: Model,
    versions: u64,
    pub(crate) commands: u64,
    pub(crate) answers: Vec<(u64, Result<(), CommandError>)>,
    pub(crate) notes: Vec<Note>,
    /// Full-stripe writes when the last flush was acknowledged: later ones are at risk if a member
    /// is lost together with the power.
    settled_full: u64,
    /// Since a crash redundancy may be out of step.
    pub(crate) unsynced: bool,
    /// The last crash met whole stripes being overwritten, and a member was lost with it.
    pub(crate) torn: bool,
    /// More may fail than redundancy makes up for: errors are answers, too.
    pub(crate) beyond: bool,
    /// How requests have ended while that was so.
    pub(crate) results: Vec<Result<(), RequestError>>,
    out: Vec<Action>,
    pub(crate) summary: Summary,
    sink: Option<Sink>,
}

impl World {
    /// A new array, started; `sink` is told what happens.
    pub(crate) fn new(seed: u64, scenario: Scenario, sink: Option<Sink>) -> Self {
        let mut prng = Prng::new(seed);
        let (disks, record) = create(&scenario, &mut prng);
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
        let unwritten = if scenario.used_disks { GARBAGE } else { 0 };
        let exposed = scenario.used_disks && is_exposed(&scenario);
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
            model: Model::new(unwritten),
            versions: 0,
            commands: 0,
            answers: Vec::new(),
            notes: Vec::new(),
            settled_full: 0,
            unsynced: exposed,
            torn: false,
            beyond: false,
            results: Vec::new(),
            out: Vec::new(),
            summary: Summary::default(),
            sink,
        };
        world.begin_life();
        world
    }

    fn begin_life(&mut self) {
        let chunk = self.engine.geometry().chunk() as usize;
        let buffers = usize::from(self.engine.scratch_buffers());
        self.scratch = vec![vec![0xa5; chunk * BLOCK_BYTES]; buffers];
        self.settled_full = 0;
        self.notes.clear();
        self.step(Input::Tick);
    }

    /// Tells what happens.
    pub(crate) fn trace(&self, what: std::fmt::Arguments<'_>) {
        if let Some(sink) = &self.sink {
            sink(self.now, what);
        }
    }

    /// What has happened so far.
    pub(crate) fn summary(&self) -> Summary {
        Summary { commands: self.commands, simulated: self.now - Instant::ORIGIN, ..self.summary }
    }

    /// All lives, each verified by the next; the last ends with a clean stop.
    pub(crate) fn run(&mut self) {
        for life in 1..=self.scenario.lives {
            self.live();
            if life == self.scenario.lives || self.prng.chance(1, 4) {
                self.drain();
                self.verify();
            }
            if life < self.scenario.lives {
                self.lose_power();
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

    /// Serves users until they have asked for enough, or less.
    fn live(&mut self) {
        let mut left = self.scenario.requests;
        while left > 0 && !self.prng.chance(1, 2000) {
            left -= u32::from(self.turn(true));
        }
    }

    /// The power fails, and sometimes again while the array starts.
    fn lose_power(&mut self) {
        let journal = self.scenario.consistency == Consistency::Journal;
        if !journal {
            // Unclean and degraded, it would have to be forced.
            self.heal();
            let faults = std::mem::take(&mut self.scenario.faults);
            for _ in 0..self.prng.below(100) {
                self.turn(true);
            }
            self.scenario.faults = faults;
        }
        self.torn = false;
        self.crash(true);
        while self.prng.chance(1, 3) {
            for _ in 0..self.prng.below(60) {
                if journal && self.scenario.faults && self.prng.chance(1, 50) {
                    self.fault();
                }
                match self.ios.len() + self.computes.len() {
                    0 => self.pass_time(),
                    _ => self.complete_any(),
                }
            }
            self.crash(false);
        }
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

    pub(crate) fn pass_time(&mut self) {
        let wait = match self.engine.deadline() {
            Some((at, _)) if at > self.now && self.prng.chance(3, 4) => at - self.now,
            _ => Duration::from_micros(self.prng.below(2000)),
        };
        self.now = self.now + wait;
        self.step(Input::Tick);
    }

    pub(crate) fn complete_any(&mut self) {
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
            self.trace(format_args!("end {id:?}: {result:?}"));
            self.step(Input::IoDone { id, result });
        }
    }

    pub(crate) fn step(&mut self, input: Input) {
        self.summary.events += 1;
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
            Action::Answer { number, result } => self.answers.push((number, result)),
            Action::Note(note) => {
                self.trace(format_args!("{note:?}"));
                self.notes.push(note);
            }
            Action::Release(_) => {}
        }
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
        let mut lba = self.prng.below(capacity - u64::from(blocks) + 1);
        let stripe = self.engine.geometry().stripe_blocks();
        if self.prng.chance(1, 2) {
            // Some stripes are written again and again.
            lba %= u64::from(2 * stripe);
        }
        let blocks = if self.prng.chance(1, 6) && stripe <= most as u32 {
            // And some are written whole.
            lba -= lba % u64::from(stripe);
            stripe
        } else {
            blocks
        };
        let lba = lba.min(capacity - u64::from(blocks));
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

    pub(crate) fn begin_request(&mut self, request: Request) {
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
                before = lbas.clone().map(|l| self.model.readable(l, begun)).collect();
            }
            Op::Flush | Op::Discard | Op::WriteZeroes => {}
        }
        if matches!(request.op, Op::Write | Op::Discard | Op::WriteZeroes) {
            for lba in lbas {
                self.model.begin(lba, version, begun);
            }
        }
        let quiet = self.requests.iter().all(Option::is_none);
        let full = match quiet {
            true => self.engine.status().counters.unjournaled_writes,
            false => self.settled_full,
        };
        self.trace(format_args!("{request:?} of version {version}"));
        self.requests[tag] = Some(Outstanding { request, begun, version, before, full });
        self.step(Input::Request(request));
    }

    fn completed(&mut self, tag: Tag, result: Result<(), RequestError>) {
        let index = usize::from(tag.0);
        self.trace(format_args!("complete {tag:?}: {result:?}"));
        let done = self.requests[index].take().expect("a request under way");
        let Outstanding { request, begun, version, before, full } = done;
        if self.beyond {
            self.results.push(result);
            return;
        }
        assert_eq!(
            result,
            Ok(()),
            "{request:?}: redundancy was never exceeded; {:?}; {:?}; bad: {:?}",
            self.notes,
            self.engine.status(),
            self.disks.iter().map(|d| (d.gone, &d.bad)).collect::<Vec<_>>()
        );
        self.summary.requests += 1;
        let lbas = request.lba.0..request.lba.0 + u64::from(request.blocks);
        match request.op {
            Op::Read => {
                for ((i, lba), before) in lbas.enumerate().zip(before) {
                    let block = &self.payload[index][i * BLOCK_BYTES..(i + 1) * BLOCK_BYTES];
                    let found = version_of(lba, block);
                    let allowed =
                        before.contains(&found) || self.model.readable(lba, begun).contains(&found);
                    assert!(
                        allowed,
                        "{request:?} found {found:?} at {lba}: {}",
                        self.model.describe(lba)
                    );
                }
            }
            Op::Flush => {
                self.model.flushed(begun);
                self.settled_full = self.settled_full.max(full);
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

    /// The power fails, perhaps (`lossy`) a disk with it; then the array starts again.
    fn crash(&mut self, lossy: bool) {
        self.trace(format_args!("the power fails: {:?}", self.engine.status()));
        self.summary.crashes += 1;
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
            disk.sick = None;
        }
        let counters = self.engine.status().counters;
        let full_at_risk = counters.unjournaled_writes > self.settled_full;
        for index in 0..self.requests.len() {
            self.requests[index] = None;
        }
        let spare_one = lossy
            && !self.unsynced
            && self.scenario.consistency == Consistency::Journal
            && self.scenario.level != Level::Raid1
            && !full_at_risk;
        let lose_one = spare_one && self.prng.chance(1, 2);
        self.start_again(lose_one, full_at_risk);
    }

    pub(crate) fn start_again(&mut self, lose_one: bool, full_at_risk: bool) {
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
        let images: Vec<_> =
            there.iter().map(|&d| self.disks[d].image(format!("disk {d}"), meta_blocks)).collect();
        let options = AssembleOptions { degraded: true, force: false };
        let assembled = match assemble(&images, options) {
            Ok(assembled) => assembled,
            Err(error) => panic!("no array after a crash: {error}"),
        };
        self.trace(format_args!("starts again: {assembled:?}"));
        let slots = assembled.slots.iter().chain(&assembled.spares);
        let devices: Vec<Option<DeviceId>> =
            slots.map(|image| image.map(|i| DeviceId(there[i] as u32))).collect();
        let mut slots = assembled.slots.iter().zip(&assembled.record.slots);
        let whole = slots.all(|(image, slot)| image.is_some() && slot.state == SlotState::Up);
        self.torn |= full_at_risk && !whole;
        let exposed = self.unsynced || full_at_risk || is_exposed(&self.scenario);
        self.unsynced = exposed && assembled.bitmap.count() > 0;
        self.engine = start_with(&self.scenario, assembled, &devices, &mut self.prng, self.now);
        self.begin_life();
    }

    pub(crate) fn meta_blocks(&self) -> u64 {
        let (areas, _) = self.areas();
        areas.meta_blocks()
    }

    pub(crate) fn areas(&self) -> (Areas, u64) {
        let s = &self.scenario;
        let blocks = self.disks[0].blocks;
        Areas::plan(s.level, s.members, s.chunk, s.consistency, blocks).expect("it was created")
    }

    pub(crate) fn redundancy(&self) -> usize {
        self.engine.geometry().redundancy()
    }

    /// A clean stop.
    pub(crate) fn stop(&mut self) {
        self.command(Command::Stop);
        let number = self.commands;
        while !self.answers.iter().any(|(answered, _)| *answered == number) {
            if self.ios.is_empty() && self.computes.is_empty() {
                self.pass_time();
            } else {
                self.complete_any();
            }
        }
        assert!(self.answers.contains(&(number, Ok(()))), "a clean stop: {:?}", self.notes);
        assert!(self.ios.is_empty(), "nothing is under way after a stop");
    }
}

/// Whether redundancy can't be built upon before a resync has ended.
fn is_exposed(scenario: &Scenario) -> bool {
    scenario.consistency != Consistency::Journal || scenario.level == Level::Raid1
}

fn start(scenario: &Scenario, assembled: Assembled, prng: &mut Prng, now: Instant) -> Engine {
    let slots = assembled.slots.iter().chain(&assembled.spares);
    let devices: Vec<_> = slots.map(|image| image.map(|i| DeviceId(i as u32))).collect();
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
        pace: Pace { min: 1 << prng.below(34), max: u64::MAX },
        settle_delay: Duration::from_micros(100 + prng.below(20_000)),
    };
    Engine::new(config, assembled, devices, now, 1_800_000_000)
}
