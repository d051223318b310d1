//! A host whose disks are in memory. Every decision comes from a source of choices, so a seed is a
//! run. I/O and arithmetic end in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use det::Instant;
use raidcore::engine::{
    Command, CommandError, Config, Engine, Input, Note, Pace, REBUILD_ORDERS, RequestError,
};
use raidcore::geometry::Level;
use raidcore::meta::{
    Areas, AssembleOptions, Assembled, Consistency, DeviceUuid, SlotState, assemble,
};
use raidcore::parity::Kernels;
use raidcore::units::{DeviceId, MemberId, Pba, Set, Stripe};
use raidlog::host::{self, Work};
use raidlog::{CachedArray, Machine, ONLY};

use crate::around::around;
use crate::checks;
use crate::create::create;
use crate::digest::Digest;
use crate::disk::{Data, Disk, KEPT};
use crate::flash::Flash;
use crate::fuse::Fuse;
use crate::memory::Memory;
use crate::model::{GARBAGE, Model};
use crate::play::Sink;
use crate::scenario::Scenario;
use crate::source::Source;
use crate::summary::Summary;
use crate::under_way::{Outstanding, Pending};
use crate::volatile::cached;

pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) source: Source,
    pub(crate) now: Instant,
    pub(crate) disks: Vec<Disk>,
    pub(crate) uuids: Vec<DeviceUuid>,
    pub(crate) areas: Areas,
    /// Where metadata blocks may hold data: the areas for copies of popular blocks, on members and on staging
    /// devices, and the journal, of which a part is for stripes that a reshape saves.
    pub(crate) copies: [(Pba, u64); 3],
    pub(crate) machine: Machine,
    pub(crate) memory: Memory<Data>,
    pub(crate) ios: Vec<Pending>,
    /// I/O that was given up, and may still be carried out.
    pub(crate) given_up: Vec<Pending>,
    /// Makes the power fail at one moment.
    pub(crate) fuse: Fuse,
    /// The members that went out of service in the step before.
    pub(crate) released: Vec<DeviceId>,
    /// The SSDs that decide when I/O ends, if the disks are SSDs.
    pub(crate) flash: Option<Flash>,
    pub(crate) work: Work,
    pub(crate) requests: Vec<Option<Outstanding>>,
    pub(crate) model: Model,
    pub(crate) versions: u64,
    pub(crate) commands: u64,
    /// How many commands there had been when the engine started.
    pub(crate) earlier_commands: u64,
    pub(crate) answers: Vec<(u64, Result<(), CommandError>)>,
    pub(crate) notes: Vec<Note>,
    /// Full-stripe writes when the last flush was acknowledged: later ones are at risk if a member
    /// is lost together with the power.
    pub(crate) settled_full: u64,
    /// Blocks of writes that were refused in a life in which whole rows were written without the
    /// journal.
    pub(crate) refused: BTreeSet<u64>,
    /// When all members served last, by the model's clock.
    pub(crate) whole_at: u64,
    /// No faults now: redundancy has not been compared everywhere since a crash.
    pub(crate) unsynced: bool,
    /// Blocks that a member's loss would damage: their redundancy may be out of step since a crash.
    pub(crate) exposed: BTreeSet<u64>,
    /// The disks that could not be read in a stripe, since nothing was last under way.
    pub(crate) spoilt: BTreeMap<Stripe, BTreeSet<usize>>,
    /// Blocks that may hold anything: they were exposed when a member was lost.
    pub(crate) suspects: BTreeSet<u64>,
    /// Such blocks whose content was read, and when. Until a flush that begins later, a crash may
    /// bring back the content of other members.
    pub(crate) adopted: BTreeMap<u64, u64>,
    /// More has failed than redundancy can make up for: errors are right answers, too.
    pub(crate) beyond: bool,
    /// The results of requests while that is so.
    pub(crate) results: Vec<Result<(), RequestError>>,
    pub(crate) summary: Summary,
    pub(crate) digest: Digest,
    /// The array is being reshaped, or was.
    pub(crate) has_begun: bool,
    /// The level and the members that it gets.
    pub(crate) target: (Level, usize, u32),
    /// How many stripes it has since it became larger, if it did.
    pub(crate) enlarged: Option<u64>,
    /// Writes that were acknowledged from memory are lost, and no start has accepted that.
    pub(crate) lost: bool,
    sink: Option<Sink>,
}

impl World {
    /// A new array, started; `sink` receives the events.
    pub(crate) fn new(mut source: Source, scenario: Scenario, sink: Option<Sink>) -> Self {
        let (disks, record) = create(&scenario, None, &mut source);
        let uuids = record.slots.iter().map(|s| s.device).collect();
        let assembled = assemble(&disks, AssembleOptions::default()).expect("a new array");
        let devices: Vec<_> =
            assembled.slots.iter().map(|image| image.map(|i| DeviceId(i as u32))).collect();
        let machine = start(&scenario, assembled, &devices, &mut source, Instant::ORIGIN);
        let kernels: Vec<_> = Kernels::available().collect();
        let kernels = source.one_of(&kernels);
        let capacity = record.layout().capacity();
        let exposed = scenario.used_disks && is_exposed(&scenario);
        let mut world = Self {
            memory: Memory::new(kernels, payload(&scenario, capacity)),
            flash: scenario.flash.then(Flash::default),
            requests: (0..scenario.tags).map(|_| None).collect(),
            model: Model::new(capacity, if scenario.used_disks { GARBAGE } else { 0 }),
            exposed: if exposed { (0..capacity).collect() } else { BTreeSet::new() },
            unsynced: exposed,
            scenario,
            source,
            now: Instant::ORIGIN,
            disks,
            uuids,
            copies: {
                let of = |at| record.copies_of(MemberId::at(at));
                [of(0), of(record.slots.len() - 1), record.areas.journal()]
            },
            areas: record.areas,
            machine,
            ios: Vec::new(),
            given_up: Vec::new(),
            fuse: Fuse::None,
            released: Vec::new(),
            work: Work::default(),
            versions: 0,
            commands: 0,
            earlier_commands: 0,
            answers: Vec::new(),
            notes: Vec::new(),
            settled_full: 0,
            refused: BTreeSet::new(),
            spoilt: BTreeMap::new(),
            whole_at: 0,
            suspects: BTreeSet::new(),
            adopted: BTreeMap::new(),
            beyond: false,
            results: Vec::new(),
            summary: Summary::default(),
            digest: Digest::default(),
            has_begun: false,
            target: (Level::Raid0, 0, 0),
            enlarged: None,
            lost: false,
            sink,
        };
        world.begin_life();
        world
    }

    /// Starts a new engine.
    pub(crate) fn begin_life(&mut self) {
        self.memory.new_scratch(&self.machine.pools(0), &[0xa5; KEPT]);
        self.settled_full = 0;
        self.refused.clear();
        self.earlier_commands = self.commands;
        self.notes.clear();
        self.step(Input::Tick);
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.machine.engine(ONLY)
    }

    /// Tells what happens.
    pub(crate) fn trace(&self, what: std::fmt::Arguments<'_>) {
        if let Some(sink) = &self.sink {
            sink(self.now, what);
        }
    }

    /// The counters so far.
    pub(crate) fn summary(&self) -> Summary {
        Summary {
            commands: self.commands,
            detours: self.summary.detours + self.engine().counters().detours,
            hedges: self.summary.hedges + self.engine().counters().hedged_reads,
            elsewhere: self.summary.elsewhere + self.engine().counters().hedged_writes,
            twins: self.summary.twins + self.engine().counters().hedged_home_writes,
            together: self.summary.together + self.engine().counters().staged_together,
            staged: self.summary.staged + self.engine().counters().staged_writes,
            reclaimed: self.summary.reclaimed + self.engine().counters().reclaimed_blocks,
            warm: self.summary.warm + self.engine().counters().warm_blocks,
            cached: self.summary.cached + cached(&self.machine),
            kept: self.summary.kept + self.engine().counters().kept_reads,
            copy_reads: self.summary.copy_reads + self.engine().counters().copy_reads,
            collections: self.flash.as_ref().map_or(0, Flash::collections),
            simulated: self.now - Instant::ORIGIN,
            digest: self.digest.value(),
            ..self.summary
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.ios.is_empty() || !self.work.computes.is_empty()
    }

    /// Lets time pass until the next deadline, or just a little.
    pub(crate) fn pass_time(&mut self) {
        let wait = match self.machine.deadline() {
            Some(at) if at > self.now && self.source.chance(3, 4) => at - self.now,
            _ => Duration::from_micros(self.source.below(2000)),
        };
        self.now = self.now + wait;
        self.step(Input::Tick);
    }

    /// An I/O or some arithmetic ends.
    pub(crate) fn complete_any(&mut self) {
        if self.flash.is_some() && self.complete_in_time() {
            return;
        }
        self.now = self.now + Duration::from_micros(self.source.below(50));
        let (ios, computes) = (self.ios.len() as u64, self.work.computes.len() as u64);
        let pick = match self.scenario.faults.reorder {
            true => self.source.below(ios + computes),
            false if computes > 0 => ios,
            false => 0,
        };
        if let Some(index) = pick.checked_sub(ios) {
            return self.end_compute(index as usize);
        }
        let events = self.summary.events;
        let stalls = |at: usize| self.disks[self.ios[at].io.device.0 as usize].stalled_until;
        let pick = pick as usize;
        let mut rest = (pick..self.ios.len()).chain(0..pick);
        let awake = rest.find(|&at| stalls(at) <= events);
        // If nothing else is under way, the wait is over.
        self.end_io(awake.unwrap_or(pick));
    }

    /// Ends the next I/O by the SSDs' time; arithmetic takes none. False if there is nothing.
    fn complete_in_time(&mut self) -> bool {
        if !self.work.computes.is_empty() {
            self.end_compute(0);
            return true;
        }
        let events = self.summary.events;
        let Some(flash) = &mut self.flash else { return false };
        let mut stalled = Vec::new();
        let ended = loop {
            let Some((at, tag)) = flash.next(self.now) else {
                // If nothing else is under way, the wait is over.
                break (!stalled.is_empty()).then(|| stalled.remove(0));
            };
            self.now = at;
            // The power may have failed since it began.
            let Some(pending) = self.ios.iter().find(|pending| pending.tag == tag) else {
                continue;
            };
            if self.disks[pending.io.device.0 as usize].stalled_until <= events {
                break Some(tag);
            }
            stalled.push(tag);
        };
        flash.hold(stalled);
        let index = ended.and_then(|tag| self.ios.iter().position(|pending| pending.tag == tag));
        if let Some(index) = index {
            self.end_io(index);
        }
        index.is_some()
    }

    pub(crate) fn end_compute(&mut self, index: usize) {
        let (group, job) = self.work.computes.remove(index).expect("arithmetic under way");
        host::compute(self, group, job);
        self.went_on();
    }

    pub(crate) fn end_io(&mut self, index: usize) {
        let pending = self.ios.remove(index);
        let result = self.carry_out(&pending);
        if let Fuse::Lit(phase) = self.fuse
            && phase.has(&pending.io.op)
            && result.is_ok()
        {
            self.fuse = Fuse::Blown(pending.io.device.0 as usize);
        }
        let id = pending.io.id;
        self.trace(format_args!("end {id:?}: {result:?}"));
        self.step(Input::IoDone { id, result });
    }

    pub(crate) fn step(&mut self, input: Input) {
        host::tell(self, ONLY, input);
        self.went_on();
    }

    fn went_on(&mut self) {
        if self.is_whole() {
            self.whole_at = self.model.now();
        }
        self.engine().check();
        self.machine.cached().into_iter().for_each(|array| array.cache().check());
        self.grow();
        self.spoil_free_memory();
        checks::warm::are_as_at_home(self);
        checks::kept::are_as_logged(self);
        self.give_up();
        let under_way = self.ios.len() + self.work.computes.len();
        checks::said::is_all(&mut self.machine, self.now, under_way);
    }

    /// A host may give back the memory of free buffers at any time.
    fn spoil_free_memory(&mut self) {
        let Scenario { warm_blocks, staged_blocks, volatile, .. } = &self.scenario;
        if *warm_blocks > 0 || *staged_blocks > 0 || volatile.is_some() {
            let free: Vec<u16> = self.machine.free_buffers().collect();
            for buffer in free {
                self.memory.scratch_mut(buffer).fill([0x5a; KEPT]);
            }
        }
    }

    /// Says which members are busy, and perhaps which are young: any, or none.
    pub(crate) fn say_who_is_busy(&mut self) {
        if self.source.chance(1, 8) {
            // The policy is changed under load.
            let without = self.source.chance(1, 2);
            let around = around(&self.scenario);
            self.machine.set_steering(ONLY, around.filter(|_| !without));
        }
        let busy = some_of(&mut self.source, self.scenario.places());
        self.step(Input::Busy(busy));
        if self.scenario.young {
            let young = some_of(&mut self.source, self.scenario.places());
            self.step(Input::Young(young));
        }
    }

    pub(crate) fn command(&mut self, command: Command) -> u64 {
        self.trace(format_args!("{command:?}"));
        self.commands += 1;
        let number = self.commands;
        self.step(Input::Command { number, command });
        number
    }

    pub(crate) fn redundancy(&self) -> usize {
        self.engine().layout().redundancy()
    }

    /// Whether all members serve.
    pub(crate) fn is_whole(&self) -> bool {
        let mut members = self.engine().members().filter(|m| !m.stages);
        members.all(|m| m.device.is_some() && m.state == SlotState::Up)
    }

    /// The disks of the members.
    pub(crate) fn member_disks(&self) -> Vec<usize> {
        let members = self.engine().members().filter(|m| !m.stages);
        members.filter_map(|m| Some(m.device?.0 as usize)).collect()
    }

    /// The disks of the members and those that are staging devices.
    pub(crate) fn disks_in_use(&self) -> Vec<usize> {
        self.engine().members().filter_map(|m| Some(m.device?.0 as usize)).collect()
    }
}

/// The buffers of users' requests. The first one's holds the whole array.
pub(crate) fn payload(scenario: &Scenario, capacity: u64) -> Vec<Vec<Data>> {
    let blocks = |tag| if tag == 0 { capacity } else { u64::from(scenario.load.blocks) };
    let buffer = |tag| vec![[0; KEPT]; blocks(tag).min(capacity) as usize];
    (0..scenario.tags).map(buffer).collect()
}

/// Whether redundancy can't be built upon before a resync has ended.
pub(crate) fn is_exposed(scenario: &Scenario) -> bool {
    scenario.consistency != Consistency::Journal || scenario.level.is_mirrored()
}

/// An engine's configuration.
pub(crate) fn config(scenario: &Scenario, source: &mut Source) -> Config {
    Config {
        tags: scenario.tags,
        jobs: scenario.jobs,
        background_jobs: scenario.background_jobs,
        scratch_blocks: scenario.scratch_blocks,
        warm_blocks: scenario.warm_blocks,
        staged_blocks: scenario.staged_blocks,
        reshape_blocks: scenario.reshape.map_or(0, |reshape| reshape.blocks),
        pace: Pace { min: 1 << source.below(34), max: u64::MAX },
        // The least pace is any as it is.
        slowdown: None,
        quiesce_delay: Duration::from_micros(100 + source.below(20_000)),
        rebuild_order: &REBUILD_ORDERS[source.below(REBUILD_ORDERS.len() as u64) as usize],
        undefined_discards: false,
    }
}

/// A machine: an engine, behind a cache if the scenario has one.
pub(crate) fn start(
    scenario: &Scenario,
    mut assembled: Assembled,
    devices: &[Option<DeviceId>],
    source: &mut Source,
    now: Instant,
) -> Machine {
    let mut config = config(scenario, source);
    let cache = scenario.volatile;
    if let Some(cache) = cache {
        config = CachedArray::engine_config(&cache.config(scenario.tags), config);
    }
    let accepts = cache.is_some_and(|cache| cache.accepts_loss(&assembled, source));
    assembled.begin_volatile(cache.is_some(), accepts);
    let mut engine = Engine::new(config, assembled, devices, now, 1_800_000_000);
    engine.set_steering(around(scenario));
    match cache {
        None => Machine::Array(Box::new(engine)),
        Some(cache) => cache.above(scenario.tags, engine),
    }
}

/// Some of the members, or none.
pub(crate) fn some_of(source: &mut Source, members: usize) -> Set<MemberId> {
    let (some, fewer) = (source.below(1 << members), source.below(1 << members));
    Set::from_bits(if source.chance(1, 4) { 0 } else { some & fewer })
}
