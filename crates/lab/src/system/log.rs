//! A log array: a log volume over engines, over simulated SSDs.
//!
//! The machine is the one that serves real devices. Blocks have no bytes here, except summaries,
//! which the volume reads again when it cleans. All other actions of the volume and its arrays,
//! including metadata, are I/O on the SSDs.

use std::time::Duration;

use det::{Instant, Prng};
use flashsim::{Precondition, Ssd};
use raidcore::engine::{self, Engine};
use raidcore::geometry::Placement;
use raidcore::meta::{ArrayId, Assembled, DeviceUuid, NewArray};
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba};
use raidlog::array::Input;
use raidlog::host::Said;
use raidlog::{Counters, GroupId, LogArray, LogVolume, Machine, Shape, VolumeId, Wish};
use steering::Steering;

use super::drive::Drive;
use super::hosted::{Beyond, Hosted};
use super::log_error::LogError;
use super::log_spec::LogSpec;
use super::{Logged, Request, Side, Steered, System, Told};
use crate::plan::SegmentTimes;
use crate::workload::Kind;

/// Blocks of a request that fills the volume.
const FILLING: u32 = 64;

/// Requests under way before the measurement.
const FILLERS: u16 = 64;

/// A log array over simulated SSDs.
pub struct Log {
    hosted: Hosted,
    depth: u16,
    volume: Volumes,
    before: Counters,
}

/// How a volume is cleaned.
#[derive(Default)]
struct Volumes {
    /// How long users have waited for cleaning, and the longest of these waits since then.
    waited: Duration,
    longest_wait: Duration,
    /// How much users had written when a cleaner first began.
    cleaned_from: Option<u64>,
}

impl Beyond for Volumes {
    fn hear(&mut self, _: Instant, said: Said) {
        if let Said::Lost(error) = said {
            unreachable!("nothing was recovered: {error}");
        }
    }

    fn settled(&mut self, machine: &Machine) {
        let counters = volume_of(machine).counters();
        if self.cleaned_from.is_none() && counters.victims > 0 {
            self.cleaned_from = Some(counters.written);
        }
        // At most one wait has ended since the last check of any length.
        self.longest_wait = self.longest_wait.max(counters.waited - self.waited);
        self.waited = counters.waited;
    }
}

fn volume_of(machine: &Machine) -> &LogVolume {
    machine.volume().expect("a new volume is there from the start")
}

impl Log {
    /// A new log array, started and serving. The SSDs are fresh; their preconditioning is applied
    /// to the volume, before the time that is returned. `depth` is its queue depth.
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
            return Err(LogError::NoStaging(spec.scheme.0.to_string()));
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
        let array = LogArray::create(config, VolumeId(*b"in virtual time!"), shape, engines);
        let machine = Machine::Log(Box::new(array));
        let steering = || Steering::new(spec.scheme.0, spec.extra_reads);
        let mut log = Self {
            hosted: Hosted::new(machine, steering, drives, members, depth),
            depth,
            volume: Volumes::default(),
            before: Counters::default(),
        };
        log.hosted.tell(Instant::ORIGIN, Input::Tick, &mut log.volume, told);
        let now = log.wear(used, seed, told);
        Ok((log, now))
    }

    /// Writes the volume as often as its SSDs' preconditioning says.
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

    /// Writes this often, and returns when all writes have ended.
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

    fn volume(&self) -> &LogVolume {
        volume_of(&self.hosted.machine)
    }

    /// The side of the array that a read goes to.
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

    /// An SSD's times for its part of a segment.
    fn times(&self) -> SegmentTimes {
        let data = self.hosted.machine.engine(GroupId(0)).geometry().data();
        let bytes = u64::from(self.volume().shape().segment_blocks()) * BLOCK_BYTES as u64;
        SegmentTimes::of_profile(self.hosted.drives[0].ssd().profile(), bytes / data as u64)
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
        member_blocks: drives.iter().map(Drive::blocks).collect(),
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
        let side = if request.kind == Kind::Read { self.side(request.lba) } else { None };
        self.hosted.submit(now, (request, side), &mut self.volume, told);
    }

    fn next(&self) -> Option<Instant> {
        self.hosted.next()
    }

    fn poll(&mut self, now: Instant, told: &mut Told) {
        self.hosted.poll(now, &mut self.volume, told);
    }

    fn ssds(&self) -> impl Iterator<Item = &Ssd> {
        self.hosted.ssds()
    }

    fn begin(&mut self, _: Instant, _: &mut Told) {
        self.hosted.begin();
        self.before = self.volume().counters();
        self.volume.longest_wait = Duration::ZERO;
    }

    fn drive_ios(&self) -> (u64, u64) {
        self.hosted.drive_ios()
    }

    fn steered(&self) -> Steered {
        self.hosted.steered()
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
            longest_wait: self.volume.longest_wait,
            turn: self.volume().longest_turn(),
            times: self.times(),
            rotations: now.rotations - before.rotations,
            used: live as f64 / slots as f64,
            cleaned_from: self.volume.cleaned_from.map(|from| from as f64 / slots as f64),
        })
    }
}
