//! A log array: a log volume over engines, over simulated SSDs.
//!
//! The machine is the one that serves real devices. Blocks have no bytes here but for summaries,
//! which the volume reads again when it cleans; everything else that it and its arrays ask for,
//! metadata too, is I/O on the SSDs.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use det::{Instant, Prng};
use flashsim::{Precondition, Ssd};
use raidcore::engine::{self, Engine, JobId};
use raidcore::geometry::Placement;
use raidcore::meta::{ArrayId, Assembled, DeviceUuid, NewArray};
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba, Tag};
use raidlog::array::{Action, Input, Look};
use raidlog::{Answer, Counters, GroupId, LogArray, Shape, Volume, VolumeId, Wish};
use steering::Steering;

use super::array::{kind, steered, translated};
use super::drive::{Drive, Fleet, IoEnd};
use super::log_error::LogError;
use super::log_spec::LogSpec;
use super::{Ended, Logged, Request, Side, Steered, System, Told};
use crate::plan::SegmentTimes;
use crate::workload::Kind;

/// Blocks of a request that fills the volume.
const FILLING: u32 = 64;

/// Requests under way before the measurement.
const FILLERS: u16 = 64;

/// A log array over simulated SSDs.
pub struct Log {
    array: LogArray,
    /// By group.
    steering: Vec<Steering>,
    drives: Vec<Drive>,
    /// Drives of each group.
    members: usize,
    depth: u16,
    /// Requests of which something had to wait for garbage collection, and where reads go, by tag.
    delayed: Vec<(bool, Option<Side>)>,
    /// Summaries, by group and block.
    summaries: HashMap<(GroupId, u64), Box<[u8]>>,
    actions: Vec<Action>,
    computing: VecDeque<(GroupId, JobId)>,
    looks: VecDeque<(Look, GroupId, u64)>,
    io_ends: Vec<IoEnd>,
    ios: (u64, u64),
    before: Counters,
    /// Those of each group's engine.
    groups_before: Vec<engine::Counters>,
    /// How long users have waited for cleaning, and the longest of these waits since then.
    waited: Duration,
    longest_wait: Duration,
    /// What users had written when a cleaner began for the first time.
    cleaned_from: Option<u64>,
}

impl Log {
    /// A new log array, started and serving. The SSDs are fresh; what they are to have been through
    /// happens to the volume, before the time that is returned. `depth` is how many requests it
    /// takes at a time.
    ///
    /// # Errors
    /// If its shape is impossible or the SSDs are too small.
    pub fn start(
        spec: &LogSpec,
        used: Precondition,
        ssds: Vec<Ssd>,
        seed: u64,
        depth: u16,
        told: &mut Told,
    ) -> Result<(Self, Instant), LogError> {
        if spec.scheme.0.needs_staging() {
            return Err(LogError::NoStaging(spec.scheme.0.name));
        }
        let drives: Vec<_> = (0..).zip(ssds).map(|(number, ssd)| Drive::new(ssd, number)).collect();
        let members = usize::from(spec.members()?);
        let depth = depth.max(FILLERS);
        let config = spec.config(depth);
        let engine = |drives: &[Drive]| engine_of(spec, depth, drives);
        let engines: Vec<Engine> =
            drives.chunks(members).map(engine).collect::<Result<_, LogError>>()?;
        let shape = Shape::new(Wish {
            groups: engines.len(),
            group_blocks: engines.iter().map(|e| e.geometry().capacity()).min().unwrap_or(0),
            stripe: engines.first().map_or(1, |e| e.geometry().stripe_blocks()),
            segment: LogSpec::blocks(spec.segment, 64 << 20, "segment")?,
            spare: (spec.spare * 1000.0).round() as u32,
        })?;
        let steering = || Steering::new(spec.scheme.0, spec.signals, spec.extra_reads);
        let mut log = Self {
            steering: engines.iter().map(|_| steering()).collect(),
            groups_before: vec![engine::Counters::default(); engines.len()],
            array: LogArray::create(config, VolumeId(*b"in virtual time!"), shape, engines),
            drives,
            members,
            depth,
            delayed: vec![(false, None); usize::from(depth)],
            summaries: HashMap::new(),
            actions: Vec::new(),
            computing: VecDeque::new(),
            looks: VecDeque::new(),
            io_ends: Vec::new(),
            ios: (0, 0),
            before: Counters::default(),
            waited: Duration::ZERO,
            longest_wait: Duration::ZERO,
            cleaned_from: None,
        };
        log.tell(Instant::ORIGIN, Input::Tick, told);
        let now = log.wear(used, seed, told);
        Ok((log, now))
    }

    /// Lets the volume be written as often as its SSDs are to have been.
    fn wear(&mut self, used: Precondition, seed: u64, told: &mut Told) -> Instant {
        let blocks = self.blocks();
        let fill = blocks.div_ceil(u64::from(FILLING));
        let overwrites = match used {
            Precondition::Fresh => return self.run(0, |_| (0, 1), told),
            Precondition::Filled => 0,
            Precondition::Aged(times) => (times * blocks as f64) as u64,
        };
        let mut random = Prng::new(seed);
        let ask = |n: u64| match n.checked_sub(fill) {
            None => {
                let first = n * u64::from(FILLING);
                (first, (blocks - first).min(FILLING.into()) as u32)
            }
            Some(_) => (random.below(blocks), 1),
        };
        self.run(fill + overwrites, ask, told)
    }

    /// Writes so often, and returns when all that is done.
    fn run(
        &mut self,
        count: u64,
        mut ask: impl FnMut(u64) -> (u64, u32),
        told: &mut Told,
    ) -> Instant {
        let mut now = Instant::ORIGIN;
        let mut free: Vec<u16> = (0..FILLERS).collect();
        let mut begun = 0;
        loop {
            free.extend(told.ended.drain(..).map(|ended| ended.tag));
            let serving = self.volume().is_serving();
            while serving
                && begun < count
                && let Some(tag) = free.pop()
            {
                let (lba, blocks) = ask(begun);
                begun += 1;
                self.submit(now, Request { tag, kind: Kind::Write, lba, blocks }, told);
                free.extend(told.ended.drain(..).map(|ended| ended.tag));
            }
            if serving && begun == count && free.len() == usize::from(FILLERS) {
                return now;
            }
            now = self.next().expect("what has not ended goes on").max(now);
            self.poll(now, told);
        }
    }

    fn volume(&self) -> &Volume {
        self.array.volume().expect("a new volume is there from the start")
    }

    /// Tells the array something, and does what it wants.
    fn tell(&mut self, now: Instant, input: Input<'_>, told: &mut Told) {
        self.array.step(now, input, &mut self.actions);
        self.act(now, told);
        loop {
            if let Some((group, job)) = self.computing.pop_front() {
                let input = Input::Array { group, input: engine::Input::Computed(job) };
                self.array.step(now, input, &mut self.actions);
            } else if let Some((look, group, at)) = self.looks.pop_front() {
                let bytes = self.summaries.get(&(group, at)).map_or(&[][..], |bytes| bytes);
                let input = Input::Seen { look, answer: Answer::Bytes(bytes) };
                self.array.step(now, input, &mut self.actions);
            } else {
                break;
            }
            self.act(now, told);
        }
        let counters = self.volume().counters();
        if self.cleaned_from.is_none() && counters.victims > 0 {
            self.cleaned_from = Some(counters.written);
        }
        // One wait at most has ended since that took any time.
        self.longest_wait = self.longest_wait.max(counters.waited - self.waited);
        self.waited = counters.waited;
    }

    fn act(&mut self, now: Instant, told: &mut Told) {
        let mut actions = core::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Array { group, action } => self.act_of(now, group, action, told),
                Action::Summary { batch, group, at, .. } => {
                    let shape = self.volume().shape();
                    let mut bytes = vec![0; shape.summary() as usize * BLOCK_BYTES];
                    self.volume().encode_summary(batch, &mut bytes, |_| 0);
                    self.summaries.insert((group, at), bytes.into());
                }
                Action::Look { look, group, at, .. } => self.looks.push_back((look, group, at)),
                Action::Complete { tag: Tag(tag), result } => {
                    assert_eq!(result, Ok(()), "no drive fails, and nobody stops it");
                    let (delayed_by_gc, side) =
                        core::mem::take(&mut self.delayed[usize::from(tag)]);
                    told.ended.push(Ended { tag, delayed_by_gc, side });
                }
                Action::Lost(error) => unreachable!("nothing was recovered: {error}"),
                Action::Pages { .. }
                | Action::Copy { .. }
                | Action::Note(_)
                | Action::Stopped(_) => {}
            }
        }
        self.actions = actions;
    }

    /// Does what the array of a group wants.
    fn act_of(&mut self, now: Instant, group: GroupId, action: engine::Action, told: &mut Told) {
        match action {
            engine::Action::Io(io) => {
                self.steering[group.index()].began(now, &io);
                let drive = group.index() * self.members + io.device.0 as usize;
                self.drives[drive].begin(now, translated(&io), &mut told.gc);
            }
            engine::Action::Compute(job) => self.computing.push_back((group, job)),
            engine::Action::Complete { .. }
            | engine::Action::Answer { .. }
            | engine::Action::Note(_)
            | engine::Action::Release(_) => {}
        }
    }

    /// Tells the groups' engines which SSDs are busy, and the SSDs whose turn it is.
    fn steer(&mut self, now: Instant, told: &mut Told) {
        for index in 0..self.steering.len() {
            let group = GroupId::at(index);
            let drives = &mut self.drives[index * self.members..][..self.members];
            let (engine, mut fleet) = (self.array.array(group), Fleet { drives, gc: &mut told.gc });
            let steering = &mut self.steering[index];
            let policy = steering.keep_up(now, engine, &fleet);
            let busy = steering.look(now, engine, &mut fleet);
            if let Some(policy) = policy {
                self.array.set_steering(group, policy);
            }
            if let Some(busy) = busy {
                let input = engine::Input::Busy(busy);
                self.tell(now, Input::Array { group, input }, told);
            }
        }
    }

    /// Which side of the array a read goes to.
    fn side(&self, lba: u64) -> Option<Side> {
        let volume = self.volume();
        let group = volume.group_of(Lba(lba))?;
        Some(if group == volume.front_group() {
            Side::Front
        } else if volume.is_cleaning(group) {
            Side::Busy
        } else {
            Side::Idle
        })
    }

    /// What an SSD takes for its part of a segment.
    fn times(&self) -> SegmentTimes {
        let data = self.members - self.array.array(GroupId(0)).geometry().redundancy();
        let bytes = u64::from(self.volume().shape().segment_blocks()) * BLOCK_BYTES as u64;
        SegmentTimes::of_profile(self.drives[0].ssd().profile(), bytes / data as u64)
    }

    fn next_of_drives(&self) -> u64 {
        self.drives.iter().map(Drive::next).min().unwrap_or(u64::MAX)
    }

    fn io_ended(&mut self, now: Instant, drive: usize, end: IoEnd, told: &mut Told) {
        let group = GroupId((drive / self.members) as u8);
        let id = engine::IoId(end.id);
        self.steering[group.index()].ended(now, id, true);
        self.ios.0 += 1;
        if end.delayed_by_gc {
            self.ios.1 += 1;
            for tag in self.array.waiting_for(group, id) {
                self.delayed[usize::from(tag.0)].0 = true;
            }
        }
        let input = engine::Input::IoDone { id, result: Ok(()) };
        self.tell(now, Input::Array { group, input }, told);
    }
}

/// The engine of a group on these drives.
fn engine_of(spec: &LogSpec, depth: u16, drives: &[Drive]) -> Result<Engine, LogError> {
    let members = drives.len() as u8;
    let new = NewArray {
        array: ArrayId(*b"in virtual time!"),
        name: "lab".into(),
        created: 0,
        level: spec.layout.level,
        placement: Placement::of(spec.layout.level),
        chunk: LogSpec::blocks(spec.chunk, 1 << 20, "chunk")?,
        consistency: spec.consistency,
        devices: (1..=members).map(|member| DeviceUuid([member; 16])).collect(),
        journal_blocks: spec.journal.0 / BLOCK_BYTES as u64,
        staging_blocks: 0,
        staging_devices: Vec::new(),
        staging_device_blocks: 0,
        distributed_spare: false,
        member_blocks: drives.iter().map(Drive::blocks).min().unwrap_or(0),
    };
    let assembled = Assembled::of_new(new.record()?, false);
    let devices: Vec<_> = (0..u32::from(members)).map(|device| Some(DeviceId(device))).collect();
    let jobs = depth.saturating_mul(2).max(engine::Config::default().jobs);
    let wanted = engine::Config { jobs, ..engine::Config::default() };
    let config = LogArray::engine_config(&spec.config(depth), wanted);
    Ok(Engine::new(config, assembled, &devices, Instant::ORIGIN, 0))
}

impl System for Log {
    fn blocks(&self) -> u64 {
        self.volume().shape().capacity()
    }

    fn depth(&self) -> u16 {
        self.depth
    }

    fn submit(&mut self, now: Instant, request: Request, told: &mut Told) {
        let Request { tag, lba, blocks, kind: asked } = request;
        let op = kind(asked);
        if asked == Kind::Read {
            self.delayed[usize::from(tag)].1 = self.side(lba);
        }
        let request = engine::Request { tag: Tag(tag), op, lba: Lba(lba), blocks, fua: false };
        self.tell(now, Input::Request(request), told);
    }

    fn next(&self) -> Option<Instant> {
        let array = self.array.deadline().into_iter();
        let next = array.chain(self.steering.iter().filter_map(Steering::next)).min();
        let next = next.map_or(u64::MAX, |at| at.0);
        Some(Instant(self.next_of_drives().min(next))).filter(|&next| next < Instant(u64::MAX))
    }

    fn poll(&mut self, now: Instant, told: &mut Told) {
        let mut ends = core::mem::take(&mut self.io_ends);
        while self.next_of_drives() <= now.0 {
            for number in 0..self.drives.len() {
                if self.drives[number].next() <= now.0 {
                    self.drives[number].poll(now, &mut ends, &mut told.gc);
                    ends.drain(..).for_each(|end| self.io_ended(now, number, end, told));
                }
            }
        }
        self.io_ends = ends;
        if self.array.deadline().is_some_and(|at| at <= now) {
            self.tell(now, Input::Tick, told);
        }
        self.steer(now, told);
    }

    fn ssds(&self) -> impl Iterator<Item = &Ssd> {
        self.drives.iter().map(Drive::ssd)
    }

    fn begin(&mut self, _: Instant, _: &mut Told) {
        self.drives.iter_mut().for_each(Drive::reset_stats);
        self.ios = (0, 0);
        self.before = self.volume().counters();
        let counters = |group| self.array.array(GroupId::at(group)).counters();
        self.groups_before = (0..self.array.groups()).map(counters).collect();
        self.longest_wait = Duration::ZERO;
    }

    fn rebuilt(&self) -> Option<Duration> {
        None
    }

    fn drive_ios(&self) -> (u64, u64) {
        self.ios
    }

    fn steered(&self) -> Steered {
        let groups = (0..).map(GroupId::at).zip(&self.groups_before);
        let steered = groups.map(|(group, before)| steered(self.array.array(group), before));
        steered.reduce(Steered::plus).unwrap_or_default()
    }

    fn logged(&self) -> Option<Logged> {
        let (now, before) = (self.volume().counters(), self.before);
        let (live, slots) = self.volume().used();
        Some(Logged {
            written: now.written - before.written,
            logged: now.logged - before.logged + now.stored - before.stored,
            moved: now.moved - before.moved,
            cleaned: now.cleaned - before.cleaned,
            victims: now.victims - before.victims,
            victims_live: now.victims_live - before.victims_live,
            segment: self.volume().shape().slots(),
            checkpoints: now.checkpoints - before.checkpoints,
            stalls: now.stalls - before.stalls,
            waited: now.waited - before.waited,
            longest_wait: self.longest_wait,
            turn: self.volume().longest_turn(),
            times: self.times(),
            rotations: now.rotations - before.rotations,
            used: live as f64 / slots as f64,
            cleaned_from: self.cleaned_from.map(|from| from as f64 / slots as f64),
        })
    }
}
