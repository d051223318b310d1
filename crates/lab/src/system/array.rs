//! An array: the engine over simulated SSDs.
//!
//! The engine is the one that serves real devices. Blocks have no bytes here and arithmetic takes
//! no time; everything else that the engine asks for, its metadata and journal too, is I/O on the
//! SSDs.

use std::time::Duration;

use det::Instant;
use flashsim::{Op, Ssd};
use raidcore::engine::{
    self, Action, Command, Config, Counters, Engine, Input, IoId, IoOp, JobId, Note, Pace, PassEnd,
    PassKind, RequestError,
};
use raidcore::geometry::Placement;
use raidcore::meta::{ArrayId, Assembled, DeviceUuid, LayoutError, NewArray, STAGING_MAX};
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba, MemberId, Pba, Tag};
use steering::Steering;

use super::array_spec::{ArraySpec, RebuildSpec};
use super::drive::{Drive, Fleet, Io, IoEnd};
use super::{Ended, Request, Steered, System, Told};
use crate::units::Bytes;
use crate::workload::Kind;

/// Why an array can't be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its shape is impossible.
    #[error("[array]: {0}")]
    Layout(#[from] LayoutError),
    /// The chunk is not whole blocks.
    #[error("array.chunk is {0}; it must be a multiple of 4 KiB, and at most 1 MiB")]
    Chunk(Bytes),
    /// The scheme stages writes, and there is nowhere to.
    #[error("array.scheme = \"{0}\" stages writes: set array.staging, to \"64M\" for example")]
    NoStaging(&'static str),
}

/// What happens on the array's behalf before it serves takes this long at most.
const START_STEPS_MAX: u32 = 1_000_000;

/// An array: the engine over simulated SSDs.
pub struct Array {
    engine: Engine,
    drives: Vec<Drive>,
    config: Config,
    steering: Steering,
    /// Requests of which something had to wait for garbage collection, by tag.
    delayed: Vec<bool>,
    /// SSDs that are members or for staging at first. One more may be a spare.
    places: usize,
    rebuild: Option<RebuildSpec>,
    failed_at: Instant,
    rebuilt: Option<Duration>,
    actions: Vec<Action>,
    computing: Vec<JobId>,
    io_ends: Vec<IoEnd>,
    ios: (u64, u64),
    /// The counters when statistics were reset.
    before: Counters,
}

/// The array that is asked for, on drives of so many blocks.
fn new_array(spec: &ArraySpec, member_blocks: u64) -> Result<NewArray, StartError> {
    let block = BLOCK_BYTES as u64;
    let chunk = u32::try_from(spec.chunk.0 / block)
        .ok()
        .filter(|_| spec.chunk.0.is_multiple_of(block))
        .ok_or(StartError::Chunk(spec.chunk))?;
    let uuids = |places: std::ops::Range<usize>| {
        places.map(|place| DeviceUuid([place as u8 + 1; 16])).collect()
    };
    let members = usize::from(spec.members);
    let mut new = NewArray {
        array: ArrayId(*b"in virtual time!"),
        name: "lab".into(),
        created: 0,
        level: spec.level,
        placement: Placement::of(spec.level),
        chunk,
        consistency: spec.consistency,
        devices: uuids(0..members),
        journal_blocks: spec.journal.0 / block,
        staging_blocks: spec.staging.0 / block,
        staging_devices: uuids(members..spec.places()),
        staging_device_blocks: 0,
        distributed_spare: spec.distributed_spare,
        member_blocks,
    };
    if spec.staging_ssds > 0 {
        let (start, _) =
            NewArray { staging_devices: Vec::new(), ..new.clone() }.record()?.areas.staging();
        let most = member_blocks.saturating_sub(start.0).min(STAGING_MAX);
        new.staging_device_blocks = spec.staging_ssd.map_or(most, |size| size.0 / block);
    }
    Ok(new)
}

impl Array {
    /// A new array, started and serving, on SSDs that hold nothing of it yet. The time at which it
    /// serves is returned too.
    ///
    /// # Errors
    /// If its shape is impossible or the SSDs are too small.
    pub fn start(
        spec: &ArraySpec,
        ssds: Vec<Ssd>,
        config: Config,
        told: &mut Told,
    ) -> Result<(Self, Instant), StartError> {
        let needs_staging = spec.scheme.0.needs_staging() || spec.staging_ssds > 0;
        if needs_staging && spec.staging.0 == 0 {
            return Err(StartError::NoStaging(spec.scheme.0.name));
        }
        let mut drives: Vec<_> =
            (0..).zip(ssds).map(|(number, ssd)| Drive::new(ssd, number)).collect();
        let member_blocks = drives.iter().map(Drive::blocks).min().unwrap_or(0);
        let record = new_array(spec, member_blocks)?.record()?;
        let mut now = Instant::ORIGIN;
        if spec.distributed_spare {
            let (start, blocks) = record.areas.distributed_spare();
            for drive in &mut drives {
                now = now.max(leave_unused(drive, start, blocks, told));
            }
        }
        let devices: Vec<_> =
            (0..spec.places() as u32).map(|device| Some(DeviceId(device))).collect();
        let assembled = Assembled::of_new(record, false);
        let mut array = Self {
            steering: Steering::new(spec.scheme.0, spec.signals, spec.extra_reads),
            engine: Engine::new(config, assembled, &devices, Instant::ORIGIN, 0),
            drives,
            config,
            places: spec.places(),
            rebuild: spec.rebuild,
            failed_at: Instant::ORIGIN,
            rebuilt: None,
            delayed: vec![false; usize::from(config.tags)],
            actions: Vec::new(),
            computing: Vec::new(),
            io_ends: Vec::new(),
            ios: (0, 0),
            before: Counters::default(),
        };
        array.tell(now, Input::Tick, told);
        for _ in 0..START_STEPS_MAX {
            if array.engine.is_serving() {
                break;
            }
            now = array.next().expect("a start that has not ended goes on");
            array.poll(now, told);
        }
        assert!(array.engine.is_serving(), "nothing fails, so it starts");
        Ok((array, now))
    }

    /// The engine, to look at.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Tells the engine something, and does what it wants.
    fn tell(&mut self, now: Instant, input: Input, told: &mut Told) {
        let mut input = Some(input);
        while let Some(next) = input.take() {
            self.engine.step(now, next, &mut self.actions);
            for action in self.actions.drain(..) {
                match action {
                    Action::Io(io) => {
                        self.steering.began(now, &io);
                        let drive = &mut self.drives[io.device.0 as usize];
                        drive.begin(now, translated(&io), &mut told.gc);
                    }
                    Action::Compute(job) => self.computing.push(job),
                    Action::Complete { tag: Tag(tag), result } => {
                        match result {
                            Ok(()) => {}
                            Err(
                                error @ (RequestError::OutOfRange
                                | RequestError::Io
                                | RequestError::Stopping),
                            ) => unreachable!("no drive fails: {error}"),
                        }
                        let delayed = &mut self.delayed[usize::from(tag)];
                        let delayed_by_gc = core::mem::take(delayed);
                        told.ended.push(Ended { tag, delayed_by_gc, side: None });
                    }
                    Action::Note(Note::PassEnded(
                        PassKind::Rebuild(_) | PassKind::Distribute(_) | PassKind::Copy(_),
                        PassEnd::Done,
                    )) => {
                        self.rebuilt = Some(now - self.failed_at);
                    }
                    Action::Answer { result, .. } => {
                        assert_eq!(result, Ok(()), "what is asked of it here is possible");
                    }
                    Action::Note(_) | Action::Release(_) => {}
                }
            }
            input = self.computing.pop().map(Input::Computed);
        }
    }

    /// Tells the engine which members are busy, and the drives whose turn it is.
    fn steer(&mut self, now: Instant, told: &mut Told) {
        let mut fleet = Fleet { drives: &mut self.drives, gc: &mut told.gc };
        if let Some(policy) = self.steering.keep_up(now, &self.engine, &fleet) {
            self.engine.set_steering(policy);
        }
        if let Some(busy) = self.steering.look(now, &self.engine, &mut fleet) {
            self.tell(now, Input::Busy(busy), told);
        }
    }

    /// A member fails, and the spare takes its place, be it an SSD or distributed.
    fn fail(
        &mut self,
        now: Instant,
        RebuildSpec { pace: Bytes(pace) }: RebuildSpec,
        told: &mut Told,
    ) {
        const MEMBER: MemberId = MemberId(0);
        let fails = Command::Fail(MEMBER);
        let paced = Command::SetPace(Pace { min: pace, max: pace });
        let spare = (self.drives.len() > self.places).then(|| self.drives.len() - 1);
        let replaced = spare.map(|spare| Command::AddSpare {
            device: DeviceId(spare as u32),
            uuid: DeviceUuid([u8::MAX; 16]),
            blocks: self.drives[spare].blocks(),
        });
        self.failed_at = now;
        for (number, command) in (0..).zip([paced, fails].into_iter().chain(replaced)) {
            self.tell(now, Input::Command { number, command }, told);
        }
    }

    fn next_of_drives(&self) -> u64 {
        self.drives.iter().map(Drive::next).min().unwrap_or(u64::MAX)
    }

    fn io_ended(&mut self, now: Instant, end: IoEnd, told: &mut Told) {
        let id = IoId(end.id);
        self.steering.ended(now, id, true);
        self.ios.0 += 1;
        if end.delayed_by_gc {
            self.ios.1 += 1;
            for tag in self.engine.waiting_for(id) {
                self.delayed[usize::from(tag.0)] = true;
            }
        }
        self.tell(now, Input::IoDone { id, result: Ok(()) }, told);
    }
}

impl System for Array {
    fn blocks(&self) -> u64 {
        self.engine.geometry().capacity()
    }

    fn depth(&self) -> u16 {
        self.config.tags
    }

    fn submit(&mut self, now: Instant, request: Request, told: &mut Told) {
        let Request { tag, lba, blocks, kind: asked } = request;
        let op = kind(asked);
        let request = engine::Request { tag: Tag(tag), op, lba: Lba(lba), blocks, fua: false };
        self.tell(now, Input::Request(request), told);
    }

    fn next(&self) -> Option<Instant> {
        let engine = self.engine.deadline().map_or(u64::MAX, |(at, _)| at.0);
        let watch = self.steering.next().map_or(u64::MAX, |at| at.0);
        Some(Instant(self.next_of_drives().min(engine).min(watch)))
            .filter(|&next| next < Instant(u64::MAX))
    }

    fn poll(&mut self, now: Instant, told: &mut Told) {
        let mut ends = core::mem::take(&mut self.io_ends);
        while self.next_of_drives() <= now.0 {
            for number in 0..self.drives.len() {
                let drive = &mut self.drives[number];
                if drive.next() <= now.0 {
                    drive.poll(now, &mut ends, &mut told.gc);
                    ends.drain(..).for_each(|end| self.io_ended(now, end, told));
                }
            }
        }
        self.io_ends = ends;
        if self.engine.deadline().is_some_and(|(at, _)| at <= now) {
            self.tell(now, Input::Tick, told);
        }
        self.steer(now, told);
    }

    fn ssds(&self) -> impl Iterator<Item = &Ssd> {
        self.drives.iter().map(Drive::ssd)
    }

    fn begin(&mut self, now: Instant, told: &mut Told) {
        self.drives.iter_mut().for_each(Drive::reset_stats);
        self.ios = (0, 0);
        self.before = self.engine.counters();
        if let Some(rebuild) = self.rebuild {
            self.fail(now, rebuild, told);
        }
    }

    fn rebuilt(&self) -> Option<Duration> {
        self.rebuilt
    }

    fn drive_ios(&self) -> (u64, u64) {
        self.ios
    }

    fn steered(&self) -> Steered {
        steered(&self.engine, &self.before)
    }
}

/// What an array's engine has done about busy drives since its counters were these.
pub(super) fn steered(engine: &Engine, before: &Counters) -> Steered {
    let (now, staging) = (engine.counters(), engine.staging_status());
    Steered {
        detours: now.detours - before.detours,
        detour_blocks: now.detour_blocks - before.detour_blocks,
        hedged_reads: now.hedged_reads - before.hedged_reads,
        copy_reads: now.copy_reads - before.copy_reads,
        copied_blocks: now.copied_blocks - before.copied_blocks,
        staged_writes: now.staged_writes - before.staged_writes,
        refused_writes: now.staging_full - before.staging_full,
        reclaimed_blocks: now.reclaimed_blocks - before.reclaimed_blocks,
        backlog: staging.map_or(0, |staging| staging.dirty),
        staging_use: staging
            .map_or(0.0, |staging| staging.used as f64 / staging.capacity.max(1) as f64),
    }
}

/// What the engine wants, as a drive takes it.
pub(super) fn translated(io: &engine::Io) -> Io {
    let (op, fua) = match io.op {
        IoOp::Read(_) => (Op::Read, false),
        IoOp::Write { fua, .. } => (Op::Write, fua),
        IoOp::Store(_) | IoOp::Journal => (Op::Write, true),
        IoOp::Flush => (Op::Flush, false),
        IoOp::Discard => (Op::Trim, false),
    };
    Io { id: io.id.0, op, fua, at: io.at.0, blocks: io.blocks }
}

/// Whatever a drive has been through, these blocks of it hold nothing; returns when it knows that.
fn leave_unused(drive: &mut Drive, Pba(at): Pba, blocks: u64, told: &mut Told) -> Instant {
    let blocks = u32::try_from(blocks).expect("an SSD in memory has fewer blocks");
    let trim = Io { id: 0, op: Op::Trim, fua: false, at, blocks };
    drive.begin(Instant::ORIGIN, trim, &mut told.gc);
    let (mut now, mut ended) = (Instant::ORIGIN, Vec::new());
    while ended.is_empty() {
        now = Instant(drive.next());
        drive.poll(now, &mut ended, &mut told.gc);
    }
    now
}

/// What a request is to the engine.
pub(super) fn kind(kind: Kind) -> engine::Op {
    match kind {
        Kind::Read => engine::Op::Read,
        Kind::Write => engine::Op::Write,
        Kind::Discard => engine::Op::Discard,
        Kind::Flush => engine::Op::Flush,
    }
}
