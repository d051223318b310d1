//! The common host of arrays and log arrays: a machine over simulated SSDs, group after group.
//! Arithmetic takes no time.

use std::collections::HashMap;

use det::Instant;
use flashsim::{Op, Ssd};
use raidcore::engine::{self, Counters, Engine, IoId, IoOp, RequestError, Stream};
use raidcore::plan::{BoundStep, Found};
use raidcore::units::{DeviceId, Lba, Mem, Tag};
use raidlog::array::{Input, Looking};
use raidlog::host::{self, Host, Memory, Said, Work};
use raidlog::{GroupId, Machine};
use steering::Steering;

use super::drive::{Drive, Fleet, Io, IoEnd};
use super::{Ended, Met, Request, Side, Steered, Told};
use crate::workload::Kind;

/// See the [module](self).
pub(super) struct Hosted {
    pub(super) machine: Machine,
    /// By group.
    steering: Vec<Steering>,
    pub(super) drives: Vec<Drive>,
    /// Drives of each group.
    members: usize,
    /// By tag.
    requests: Vec<UnderWay>,
    work: Work,
    summaries: Summaries,
    /// When the machine wants to be called, unless it `was_told` something since.
    deadline: Option<Instant>,
    was_told: bool,
    io_ends: Vec<IoEnd>,
    ios: (u64, u64),
    /// The counters of each group's engine when statistics were reset.
    before: Vec<Counters>,
}

/// What is known of a request under way.
#[derive(Clone, Copy, Default)]
struct UnderWay {
    met: Met,
    /// The side that a read goes to.
    side: Option<Side>,
}

/// What a machine is besides I/O and users' requests.
pub(super) trait Beyond {
    /// The machine has said something.
    fn hear(&mut self, now: Instant, said: Said);

    /// The machine wants no more at once.
    fn settled(&mut self, machine: &Machine);
}

/// All that has bytes here: summaries, which a volume reads again when it cleans, by group and block.
#[derive(Default)]
struct Summaries(HashMap<(GroupId, u64), Box<[u8]>>);

impl Memory for Summaries {
    const PAGES: bool = false;

    fn compute(&mut self, _: BoundStep<'_>, _: u32) -> Option<Found> {
        None
    }

    fn checksum(&self, _: Mem) -> u32 {
        0
    }

    fn put(&mut self, _: Mem, bytes: &[u8], goes: Option<(GroupId, u64)>) {
        self.0.extend(goes.map(|goes| (goes, bytes.into())));
    }

    fn copy(&mut self, _: Mem, _: Mem, _: u32) {}

    fn show(&self, looking: &Looking, to: impl FnOnce(&[u8])) {
        to(self.0.get(&(looking.group, looking.at)).map_or(&[][..], |bytes| bytes));
    }
}

/// A machine that is told something.
struct Telling<'a> {
    hosted: &'a mut Hosted,
    now: Instant,
    beyond: &'a mut dyn Beyond,
    told: &'a mut Told,
}

impl Host for Telling<'_> {
    type Memory = Summaries;

    fn parts(&mut self) -> (&mut Machine, &mut Work, &mut Summaries) {
        let Hosted { machine, work, summaries, .. } = self.hosted;
        (machine, work, summaries)
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn begin(&mut self, group: GroupId, io: engine::Io) {
        let Hosted { machine, steering, drives, members, .. } = self.hosted;
        steering[group.index()].began(self.now, &io);
        let drive = group.index() * *members + io.device.0 as usize;
        let stream = machine.engine(group).stream(io.id);
        drives[drive].begin(self.now, translated(&io, stream), &mut self.told.gc);
    }

    fn complete(&mut self, Tag(tag): Tag, result: Result<(), RequestError>) {
        assert_eq!(result, Ok(()), "no drive fails, and nobody stops it");
        let known = core::mem::take(&mut self.hosted.requests[usize::from(tag)]);
        self.told.ended.push(Ended { tag, met: known.met, side: known.side });
    }

    fn hear(&mut self, said: Said) {
        self.beyond.hear(self.now, said);
    }
}

impl Hosted {
    /// With `members` drives in each group.
    pub(super) fn new(
        machine: Machine,
        steering: impl Fn() -> Steering,
        drives: Vec<Drive>,
        members: usize,
        tags: u16,
    ) -> Self {
        let groups = machine.groups().count();
        Self {
            machine,
            steering: (0..groups).map(|_| steering()).collect(),
            drives,
            members,
            requests: vec![UnderWay::default(); tags.into()],
            work: Work::default(),
            summaries: Summaries::default(),
            deadline: None,
            was_told: true,
            io_ends: Vec::new(),
            ios: (0, 0),
            before: vec![Counters::default(); groups],
        }
    }

    /// Passes an input to the machine, and carries out its actions until there are none.
    pub(super) fn tell(
        &mut self,
        now: Instant,
        input: Input<'_>,
        beyond: &mut dyn Beyond,
        told: &mut Told,
    ) {
        self.was_told = true;
        let mut telling = Telling { hosted: self, now, beyond, told };
        host::step(&mut telling, input);
        host::settle(&mut telling);
        beyond.settled(&self.machine);
    }

    /// Takes a request; a read goes to this side of a log array.
    pub(super) fn submit(
        &mut self,
        now: Instant,
        (request, side): (Request, Option<Side>),
        beyond: &mut dyn Beyond,
        told: &mut Told,
    ) {
        let Request { tag, lba, blocks, kind } = request;
        self.requests[usize::from(tag)].side = side;
        let op = match kind {
            Kind::Read => engine::Op::Read,
            Kind::Write => engine::Op::Write,
            Kind::Discard => engine::Op::Discard,
            Kind::Flush => engine::Op::Flush,
        };
        let request = engine::Request { tag: Tag(tag), op, lba: Lba(lba), blocks, fua: false };
        self.tell(now, Input::Request(request), beyond, told);
    }

    /// When [`Hosted::poll`] is to be called next.
    pub(super) fn next(&self) -> Option<Instant> {
        let deadline = if self.was_told { self.machine.deadline() } else { self.deadline };
        let soonest = |soonest: u64, at: Instant| soonest.min(at.0);
        let next = deadline.into_iter().fold(self.next_of_drives(), soonest);
        let next = self.steering.iter().filter_map(Steering::next).fold(next, soonest);
        Some(Instant(next)).filter(|&next| next < Instant(u64::MAX))
    }

    /// Lets everything happen up to `now`.
    pub(super) fn poll(&mut self, now: Instant, beyond: &mut dyn Beyond, told: &mut Told) {
        let mut ends = core::mem::take(&mut self.io_ends);
        let mut any = true;
        while any {
            any = false;
            for number in 0..self.drives.len() {
                if self.drives[number].next() <= now.0 {
                    any = true;
                    self.drives[number].poll(now, &mut ends, &mut told.gc);
                    ends.drain(..).for_each(|end| self.io_ended(now, number, end, beyond, told));
                }
            }
        }
        self.io_ends = ends;
        if self.ask_deadline().is_some_and(|at| at <= now) {
            self.tell(now, Input::Tick, beyond, told);
        }
        for group in self.machine.groups() {
            self.steer(now, group, beyond, told);
        }
        self.ask_deadline();
    }

    /// When the machine wants to be called, which takes it long to tell beside an event of a drive.
    fn ask_deadline(&mut self) -> Option<Instant> {
        if core::mem::take(&mut self.was_told) {
            self.deadline = self.machine.deadline();
        }
        self.deadline
    }

    fn next_of_drives(&self) -> u64 {
        self.drives.iter().map(Drive::next).min().unwrap_or(u64::MAX)
    }

    fn io_ended(
        &mut self,
        now: Instant,
        drive: usize,
        end: IoEnd,
        beyond: &mut dyn Beyond,
        told: &mut Told,
    ) {
        let (group, id) = (GroupId::at(drive / self.members), IoId(end.id));
        self.steering[group.index()].ended(now, id, true);
        self.ios.0 += 1;
        self.ios.1 += u64::from(end.met.collection);
        if end.met != Met::default() {
            let requests = &mut self.requests;
            self.machine.waiting_for(group, id, |tag| requests[usize::from(tag.0)].met |= end.met);
        }
        let input = engine::Input::IoDone { id, result: Ok(()) };
        self.tell(now, Input::Array { group, input }, beyond, told);
    }

    /// Tells a group's engine which drives are busy, and gives the drives orders when to collect.
    fn steer(&mut self, now: Instant, group: GroupId, beyond: &mut dyn Beyond, told: &mut Told) {
        let steering = &mut self.steering[group.index()];
        let drives = &mut self.drives[group.index() * self.members..][..self.members];
        let mut fleet = Fleet { drives, gc: &mut told.gc };
        if let Some(policy) = steering.keep_up(now, self.machine.engine(group), &fleet) {
            self.machine.set_steering(group, policy);
            self.was_told = true;
        }
        let young = steering.young(now, &fleet).map(engine::Input::Young);
        let busy = steering.look(now, self.machine.engine(group), &mut fleet);
        for input in young.into_iter().chain(busy.map(engine::Input::Busy)) {
            self.tell(now, Input::Array { group, input }, beyond, told);
        }
    }

    /// The share of free blocks from which on each drive's collection is ordered now, where the scheme goes by one.
    pub(super) fn thresholds(&self) -> Vec<Option<f64>> {
        let of_group = |group: &Steering| {
            let devices = (0..self.members as u32).map(DeviceId);
            devices.map(|device| group.threshold(device)).collect::<Vec<_>>()
        };
        self.steering.iter().flat_map(of_group).collect()
    }

    pub(super) fn ssds(&self) -> impl Iterator<Item = &Ssd> {
        self.drives.iter().map(Drive::ssd)
    }

    /// The measurement begins.
    pub(super) fn begin(&mut self) {
        self.drives.iter_mut().for_each(Drive::reset_stats);
        self.ios = (0, 0);
        let counters = |group| self.machine.engine(group).counters();
        self.before = self.machine.groups().map(counters).collect();
    }

    /// I/Os of drives that have ended since then, and how many of them had to wait for garbage
    /// collection.
    pub(super) fn drive_ios(&self) -> (u64, u64) {
        self.ios
    }

    /// What was done about busy drives since the beginning of the measurement.
    pub(super) fn steered(&self) -> Steered {
        let groups = self.machine.groups().zip(&self.before);
        let steered = groups.map(|(group, before)| steered(self.machine.engine(group), before));
        steered.reduce(Steered::plus).unwrap_or_default()
    }
}

/// What an array's engine has done about busy drives since its counters were `before`.
fn steered(engine: &Engine, before: &Counters) -> Steered {
    let (now, staging) = (engine.counters(), engine.staging_status());
    Steered {
        detours: now.detours - before.detours,
        detour_blocks: now.detour_blocks - before.detour_blocks,
        hedged_reads: now.hedged_reads - before.hedged_reads,
        copy_reads: now.copy_reads - before.copy_reads,
        copied_blocks: now.copied_blocks - before.copied_blocks,
        staged_writes: now.staged_writes - before.staged_writes,
        staged_together: now.staged_together - before.staged_together,
        refused_writes: now.staging_full - before.staging_full,
        reclaimed_blocks: now.reclaimed_blocks - before.reclaimed_blocks,
        staged_reads: now.staged_reads - before.staged_reads,
        kept_reads: now.kept_reads - before.kept_reads,
        backlog: staging.map_or(0, |staging| staging.dirty),
        staging_use: staging
            .map_or(0.0, |staging| staging.used as f64 / staging.capacity.max(1) as f64),
    }
}

/// An engine's I/O as one of a drive.
fn translated(io: &engine::Io, stream: Stream) -> Io {
    let (op, fua) = match io.op {
        IoOp::Read(_) => (Op::Read, false),
        IoOp::Write { fua, .. } => (Op::Write, fua),
        IoOp::Store(_) | IoOp::Journal => (Op::Write, true),
        IoOp::Flush => (Op::Flush, false),
        IoOp::Discard => (Op::Trim, false),
    };
    Io { id: io.id.0, op, fua, stream, at: io.at.0, blocks: io.blocks }
}
