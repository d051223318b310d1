//! The engine: a sans-IO machine that turns requests into I/O and arithmetic.
//!
//! Everything it does, for users or in the background, is a [job](Job) on one stripe that walks
//! the same stages: lock, plan, buffers, read, compute, intend, write, harden, record, finish. A
//! scrub that finds something goes on from compute through locate and mend to write. A write that
//! is *staged* goes from plan to the staging log, and from there to record.
//!
//! Invariants:
//! - [`Engine::step`] returns with everything said: nothing waits inside to be asked for, but for a moment that
//!   has passed, or [`Engine::deadline`].
//! - A stripe is changed only under its exclusive lock, and a plan is made under the lock.
//! - Before a member changes, what makes the change repairable after a crash is durable: the
//!   journal entry where the write is partial or the array degraded, the region's bit where there is no
//!   entry, or chunks have copies.
//! - Before a write is acknowledged, every member that missed it is recorded as failed on all
//!   others.
//! - Nothing is allocated per request once the tables have been used.

mod align;
mod api;
mod array;
mod background;
mod config;
mod copies;
mod counters;
mod distributed;
mod fetching;
mod flight;
mod flow;
mod flush;
mod form;
mod goal;
mod heal;
mod heat;
mod hedge;
mod hold;
mod job;
mod jobs;
mod journal;
mod journal_ring;
mod latency_totals;
mod left;
mod lull;
mod maps;
mod membership;
mod missed;
mod order;
mod pass;
mod progress;
mod quiesce;
mod range;
mod regions;
mod replay;
mod report;
mod reshape;
mod response;
mod retries;
mod ring;
mod scrub;
mod spare_trim;
mod stage;
mod staging;
mod steering;
mod stream;
mod users;
mod wait;
mod warm;
mod work;

use alloc::vec::Vec;

use det::{Id, Instant};

pub use api::*;
pub use config::Config;
pub use counters::Counters;
pub use hold::{Hold, Ready};
pub use job::Job;
pub use latency_totals::LatencyTotals;
pub use left::LeftStripe;
pub use order::{REBUILD_ORDERS, RebuildOrder};
pub use report::*;
pub use response::Slowdown;
pub use steering::{Choice, Detour, HedgedWrite, Judged, Outcome, Redirect, SteeringPolicy, Way};
pub use stream::Stream;

use crate::geometry::{Geometry, Layout};
use crate::meta::{Areas, Assembled, Entries, VolatileWrites};
use crate::plan::BoundStep;
use crate::units::{DeviceId, Lba, MEMBERS_MAX, Mem};
use array::Array;
use membership::Spare;
use range::Range;

/// Names a job in its table.
pub type JobId = Id<Job>;

/// Why the engine wants to be called at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Background work may go on.
    Pace,
    /// Regions that were left alone can be cleared, a watermark made durable, what was refused written
    /// once more, memory given back.
    Quiesce,
    /// A read has taken long.
    Patience,
    /// Writes that came at one moment are to be stored together.
    Gathered,
}

/// What the engine does as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The journal is carried out; users wait.
    Replaying,
    /// The start is being recorded; users wait.
    Starting,
    /// What was staged before an unclean stop is brought home; users wait.
    Reclaiming,
    /// Users are served.
    Serving,
    /// The journal could not be carried out; no user is served, and nothing is recorded, so that the
    /// next start finds everything as it is.
    Broken,
    /// What was begun is finished; users are refused.
    Stopping,
    /// All is recorded.
    Stopped,
}

/// See the [module](self).
pub struct Engine {
    layout: Layout,
    areas: Areas,
    config: Config,
    now: Instant,
    /// Seconds since 1970 at the origin of `now`.
    epoch_seconds: u64,
    phase: Phase,
    array: Array,
    range: Range,
}

impl Engine {
    /// The engine of an assembled array. `devices` gives the device of each member and staging device
    /// (by slot) and spare (after these, in the record's order); `wall` is the time in seconds since 1970
    /// at `now`. The host must call [`Engine::step`] with [`Input::Tick`] once to set it going.
    ///
    /// # Panics
    /// If `devices` does not fit what was assembled, or background work is to have all stripes.
    #[must_use]
    pub fn new(
        config: Config,
        assembled: Assembled,
        devices: &[Option<DeviceId>],
        now: Instant,
        wall: u64,
    ) -> Self {
        let record = &assembled.record;
        let (layout, areas) = (record.layout(), record.areas.clone());
        Self {
            layout,
            areas,
            config,
            now,
            epoch_seconds: wall.saturating_sub(now.0 / 1_000_000_000),
            phase: Phase::Replaying,
            array: Array::new(&config, &assembled, devices, now),
            range: Range::new(&config, assembled),
        }
    }

    /// Tells the engine what happened at `now`; appends to `out` what is to be done. All of it
    /// has to be begun before the next call.
    pub fn step(&mut self, now: Instant, input: Input, out: &mut Vec<Action>) {
        self.now = self.now.max(now);
        let is_past = |at| at < self.now || matches!(input, Input::Tick);
        if self.range.staging.together.deadline().is_some_and(is_past) {
            self.store_gathered(out);
        }
        // Whether all that it changes is what there is for jobs to do.
        let mut of_jobs = matches!(input, Input::Computed(_))
            || matches!(&input, Input::Request(request) if request.op != Op::Flush);
        match input {
            Input::Request(request) => self.request(request, out),
            Input::IoDone { id, result } => of_jobs = self.io_done(id, result, out),
            Input::Computed(job) => self.range.jobs.one_done(job),
            Input::DeviceGone(device) => self.device_gone(device, IoError::Gone, out),
            Input::DeviceShrunk(device) => self.device_gone(device, IoError::Shrunk, out),
            Input::Hung(members) => self.set_hung(members, out),
            Input::Busy(members) => self.set_busy(members),
            Input::Young(members) => self.array.steering.set_young(members),
            Input::Command { number, command } => self.command(number, command, out),
            Input::Tick => {}
        }
        self.run(of_jobs, out);
    }

    /// When the engine wants an [`Input::Tick`], and why.
    #[must_use]
    pub fn deadline(&self) -> Option<(Instant, Why)> {
        let mut first: Option<(Instant, Why)> = None;
        let mut or = |at: Option<Instant>, why| {
            if let Some(at) = at
                && first.is_none_or(|(earliest, _)| at < earliest)
            {
                first = Some((at, why));
            }
        };
        or(self.array.quiesce.deadline(), Why::Quiesce);
        or(self.pace_deadline(), Why::Pace);
        or(self.trim_deadline(), Why::Pace);
        or(self.log_trim_deadline(), Why::Pace);
        or(self.range.patience.deadline(), Why::Patience);
        or(self.array.healing.deadline(), Why::Quiesce);
        or(self.range.warm.deadline(self.config.quiesce_delay), Why::Quiesce);
        or(self.range.staging.together.deadline(), Why::Gathered);
        or(self.home_deadline(), Why::Pace);
        first
    }

    /// The arithmetic of a job, in order, each with the blocks it goes over.
    pub fn steps(&self, job: JobId, mut visit: impl FnMut(BoundStep<'_>, u32)) {
        let job = &self.range.jobs[job];
        let mut room = [Mem::Zero; MEMBERS_MAX + 2];
        for &(step, blocks) in &job.plan.steps {
            visit(step.bind(&job.plan, |mem| job.bind(mem), &mut room), blocks);
        }
    }

    /// Whether requests are served (not before the journal is replayed, not after a stop).
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// Whether it serves users, and can put on record, and on every member that it needs, what they write.
    #[must_use]
    pub fn takes_writes(&self) -> bool {
        self.is_serving() && self.array.membership.takes_writes()
    }

    /// The shape of the array.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.array.membership.record().geometry
    }

    /// Blocks that users can ask for now. What a reshape adds is among them from when its end is durable.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.layout.capacity()
    }

    /// Where acknowledged writes may be, other than on the members.
    #[must_use]
    pub fn volatile(&self) -> VolatileWrites {
        self.array.membership.record().volatile
    }

    /// What the host had acknowledged from memory is lost, as a stop can't wait for it. That is on record with
    /// the next change.
    pub fn writes_are_lost(&mut self) {
        self.array.membership.lose_writes();
    }

    /// What its journal has of small writes.
    #[must_use]
    pub fn entries(&self) -> Entries {
        Entries::of(self.array.membership.record())
    }

    /// Where its stripes lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many scratch buffers of one chunk the host has to provide.
    #[must_use]
    pub fn scratch_buffers(&self) -> u16 {
        let Range { jobs, warm, staging, reshape, .. } = &self.range;
        jobs.scratch_buffers() + warm.buffers() + staging.buffers() + reshape.buffers()
    }

    /// The scratch buffers that are in no use: what they hold means nothing until the next step.
    pub fn free_scratch(&self) -> impl Iterator<Item = u16> + '_ {
        let Range { jobs, warm, staging, reshape, .. } = &self.range;
        let of_jobs = jobs.free_scratch().iter().copied();
        let kept = warm.free_buffers().chain(staging.free_buffers());
        of_jobs.chain(kept).chain(reshape.free_buffers())
    }

    /// Whether an unclean stop may have left any of these blocks with redundancy that does not match
    /// them, and nothing has brought it in step since.
    #[must_use]
    pub fn is_in_doubt(&self, at: u64, blocks: u32) -> bool {
        let mut stripes = self.layout.stripes_of(Lba(at), blocks);
        self.layout.redundancy() > 0
            && stripes.any(|stripe| self.range.regions.is_unsynced(self.areas.region(stripe)))
    }
}
