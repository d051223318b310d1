//! The engine: a sans-IO machine that turns requests into I/O and arithmetic.
//!
//! Everything it does, for users or in the background, is a [job](Job) on one stripe that walks
//! the same stages: lock, plan, buffers, read, compute, intend, write, harden, record, finish. A
//! scrub that finds something goes on from compute through locate and mend to write. A write that
//! is *staged* goes from plan to the staging log, and from there to record.
//!
//! Invariants:
//! - [`Engine::step`] returns with everything said: nothing waits inside to be asked for.
//! - A stripe is changed only under its exclusive lock, and a plan is made under the lock.
//! - Before a member changes, what makes the change repairable after a crash is durable: the
//!   region's bit, and the journal entry where the write is partial or the array degraded.
//! - Before a write is acknowledged, every member that missed it is recorded as failed on all
//!   others.
//! - Nothing is allocated per request once the tables have been used.

mod align;
mod api;
mod array;
mod background;
mod bytes;
mod closing;
mod config;
mod counters;
mod distributed;
mod fault;
mod flight;
mod flush;
mod goal;
mod heal;
mod hedge;
mod intent;
mod io;
mod job;
mod jobs;
mod journal;
mod journal_ring;
mod latency_totals;
mod maps;
mod missed;
mod order;
mod pace;
mod pass;
mod planning;
mod progress;
mod quiesce;
mod record;
mod replay;
mod report;
mod request;
mod returns;
mod ring;
mod scrub;
mod sources;
mod spare_trim;
mod stage;
mod staging;
mod status;
mod steering;
mod succession;
mod users;
mod wait;
mod walk;
mod work;

use alloc::vec::Vec;

use det::{Id, Instant};

pub use api::*;
pub use config::Config;
pub use counters::Counters;
pub use job::Job;
pub use latency_totals::LatencyTotals;
pub use report::*;
pub use steering::{Detour, Outcome, Part, Redirect, SteeringPolicy, Way};

use crate::geometry::{Geometry, Layout, Role};
use crate::meta::{Areas, Assembled, Consistency};
use crate::plan::{BoundStep, Parity};
use crate::units::{DeviceId, Lba, MEMBERS_MAX, Mem, MemberId, Pba, Set, Stripe};
use align::Alignment;
use array::{Array, Spare};
use background::Background;
use distributed::Distributed;
use flight::{Flight, Flights, Owner};
use flush::Flusher;
use heal::Healing;
use hedge::Patience;
use intent::Regions;
use jobs::Jobs;
use journal::Journal;
use maps::{MapStore, Maps};
use missed::Missed;
use replay::Replays;
use staging::{Copies, Staging};
use steering::Steering;
use users::Users;

/// Names a job in its table.
pub type JobId = Id<Job>;

/// Why the engine wants to be called at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Background work may go on.
    Pace,
    /// Regions that were left alone can be cleared, a watermark made durable, what was refused written
    /// once more.
    Quiesce,
    /// A read has taken long.
    Patience,
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
    // Of the array as a whole.
    geo: Layout,
    areas: Areas,
    config: Config,
    now: Instant,
    /// Seconds since 1970 at the origin of `now`.
    epoch_seconds: u64,
    phase: Phase,
    array: Array,
    flights: Flights,
    users: Users,
    steering: Steering,
    flusher: Flusher,
    healing: Healing,
    background: Background,
    stop_command: Option<u64>,
    counters: Counters,
    // Of a range of stripes, which today is all of them.
    jobs: Jobs,
    patience: Patience,
    maps: Maps,
    missed: Missed,
    regions: Regions,
    alignment: Alignment,
    journal: Journal,
    replays: Replays,
    staging: Staging,
    copies: Copies,
    distributed: Distributed,
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
        let (array, missed) = (Array::new(&assembled, devices), Missed::new(&assembled));
        let regions = Regions::new(&assembled.bitmap);
        let mut maps = Maps::new(
            MapStore::new(assembled.bitmap, &assembled.bitmap_versions),
            MapStore::new(assembled.zero_map, &assembled.zero_versions),
            MapStore::new(assembled.missed, &assembled.missed_versions),
        );
        if !assembled.replay.is_empty() {
            maps.spread();
        }
        let record = assembled.record;
        let geo = record.layout();
        let n = geo.width();
        let places = record.slots.len();
        let jobs = usize::from(config.jobs);
        // A reclaim has two for every data chunk.
        let most = n + 2 + record.geometry.data();
        let chunk = geo.chunk();
        let buffers =
            (config.scratch_blocks / chunk).clamp(most.max(2 * n + 4) as u32, 1 << 14) as u16;
        Self {
            geo,
            areas: record.areas.clone(),
            config,
            now,
            epoch_seconds: wall.saturating_sub(now.0 / 1_000_000_000),
            phase: Phase::Replaying,
            array,
            jobs: Jobs::new(&record.geometry, config.jobs, config.background_jobs, buffers),
            // A chunk may have copies on the distributed spare, of which a scrub may mend every row; a
            // member's successor gets what it does.
            flights: Flights::new(
                jobs * (4 * n + 4 + 8 + 12 + 4)
                    + usize::from(config.background_jobs) * 8 * n
                    + 64 * places,
                places,
            ),
            users: Users::new(config.tags, now),
            steering: Steering::default(),
            patience: Patience::default(),
            regions,
            missed,
            alignment: Alignment::default(),
            maps,
            staging: Staging::new(&record, &assembled.staged),
            copies: Copies::new(&record),
            journal: Journal::new(&record, assembled.next_entry),
            replays: Replays::new(assembled.replay),
            flusher: Flusher::default(),
            healing: Healing::default(),
            distributed: Distributed::new(&record),
            background: Background::new(
                config.pace,
                record.slots.iter().map(|slot| slot.watermark()),
            ),
            stop_command: None,
            counters: Counters::default(),
        }
    }

    /// Tells the engine what happened at `now`; appends to `out` what is to be done. All of it
    /// has to be begun before the next call.
    pub fn step(&mut self, now: Instant, input: Input, out: &mut Vec<Action>) {
        self.now = self.now.max(now);
        match input {
            Input::Request(request) => self.request(request, out),
            Input::IoDone { id, result } => self.io_done(id, result, out),
            Input::Computed(job) => self.jobs.one_done(job),
            Input::DeviceGone(device) => self.device_gone(device, IoError::Gone, out),
            Input::DeviceShrunk(device) => self.device_gone(device, IoError::Shrunk, out),
            Input::Hung(members) => self.set_hung(members, out),
            Input::Busy(members) => self.set_busy(members),
            Input::Command { number, command } => self.command(number, command, out),
            Input::Tick => {}
        }
        self.run(out);
    }

    /// When the engine wants an [`Input::Tick`], and why.
    #[must_use]
    pub fn deadline(&self) -> Option<(Instant, Why)> {
        let quiesce = self.quiesce_deadline().map(|at| (at, Why::Quiesce));
        let pace = self.pace_deadline().map(|at| (at, Why::Pace));
        let patience = self.patience_deadline().map(|at| (at, Why::Patience));
        let trim = self.trim_deadline().map(|at| (at, Why::Pace));
        let heal = self.heal_deadline().map(|at| (at, Why::Quiesce));
        let all = quiesce.into_iter().chain(pace).chain(trim).chain(patience).chain(heal);
        all.min_by_key(|&(at, _)| at)
    }

    /// The arithmetic of a job, in order, each with the blocks it goes over.
    pub fn steps(&self, job: JobId, mut visit: impl FnMut(BoundStep<'_>, u32)) {
        let job = &self.jobs[job];
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

    /// The shape of the array.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.array.recorder.record.geometry
    }

    /// Where its stripes lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.geo
    }

    /// How many scratch buffers of one chunk the host has to provide.
    #[must_use]
    pub fn scratch_buffers(&self) -> u16 {
        self.jobs.scratch_buffers()
    }

    /// The scratch buffers that are in no use: what they hold means nothing until the next step.
    #[must_use]
    pub fn free_scratch(&self) -> &[u16] {
        self.jobs.free_scratch()
    }

    /// Does all that can be done now.
    fn run(&mut self, out: &mut Vec<Action>) {
        self.hedge();
        let mut rounds = 0_u32;
        loop {
            debug_assert!(rounds < 1 << 20, "a step goes round without end");
            rounds += 1;
            let mut worked = self.jobs.any_ready();
            while let Some(job) = self.jobs.pop_ready() {
                self.advance(job, out);
            }
            // A stop waits for what is being settled, so that comes first.
            self.quiesce(out);
            self.settle_missed(out);
            let mut moved = self.proceed(out);
            moved |= self.heal(out);
            self.store_spread_pages(out);
            self.cut_waiting(out);
            moved |= self.background(out);
            self.trim_spare(out);
            self.reclaim(out);
            self.note_thickness(out);
            worked &= !self.serves_users_only();
            if !self.jobs.any_ready() && !worked && !moved {
                self.forget_landed();
                return;
            }
        }
    }

    /// Whether nothing is under way but requests. Then what jobs have done matters only to what comes
    /// after them in the same round.
    fn serves_users_only(&self) -> bool {
        self.phase == Phase::Serving
            && self.stop_command.is_none()
            && self.background.is_idle()
            && self.staging.is_unused()
            && self.array.recorder.is_settled()
    }

    /// Moves the array as a whole on: from replaying to starting to serving, and to a stop. Returns
    /// whether it did.
    fn proceed(&mut self, out: &mut Vec<Action>) -> bool {
        let before = (self.phase, self.background.stopping);
        match self.phase {
            Phase::Replaying => self.replay(out),
            Phase::Starting if self.array.recorder.is_settled() && self.maps.are_spread() => {
                let staged = self.staging.dirty() > 0;
                self.phase = if staged { Phase::Reclaiming } else { Phase::Serving };
            }
            Phase::Reclaiming => self.bring_home(out),
            Phase::Serving if self.stop_command.is_some() => self.phase = Phase::Stopping,
            Phase::Stopping => self.stop(out),
            Phase::Broken => self.refuse_all(out),
            Phase::Starting | Phase::Serving | Phase::Stopped => {}
        }
        before != (self.phase, self.background.stopping)
    }

    /// Whether a stop was asked for.
    fn is_stopping(&self) -> bool {
        self.stop_command.is_some() || self.phase == Phase::Stopped
    }

    /// The member and the place of rows of a role.
    fn place(&self, stripe: Stripe, role: Role, row: u32) -> (MemberId, Pba) {
        let (member, start) = self.geo.place(stripe, role);
        (member, Pba(start.0 + u64::from(row)))
    }

    /// What can be read and what must be written in a stripe, by role.
    fn health(&self, stripe: Stripe) -> (Set<Role>, Set<Role>) {
        let all = self.geo.of(stripe).roles();
        if !self.array.impaired {
            return (all, all);
        }
        let (mut readable, mut writable) = (all, all);
        for (index, member) in self.array.members.iter().enumerate().take(self.geo.members()) {
            let id = MemberId::at(index);
            let Some(role) = self.geo.role(stripe, id) else { continue };
            let current = self.is_current_in(id, stripe);
            if !current || member.unreadable {
                readable = readable.without(role);
            }
            if !current || member.unwritable {
                writable = writable.without(role);
            }
        }
        if let Some((role, has_copy, keeps_copy)) = self.spared_role(stripe) {
            readable = if has_copy { readable.with(role) } else { readable };
            writable = if keeps_copy { writable.with(role) } else { writable };
        }
        (readable.minus(self.alignment.behind(stripe)), writable)
    }

    /// Whether an unclean stop may have left any of these blocks with redundancy that does not match
    /// them, and nothing has brought it in step since.
    #[must_use]
    pub fn is_in_doubt(&self, at: u64, blocks: u32) -> bool {
        let mut stripes = self.geo.stripes_of(Lba(at), blocks);
        self.geo.redundancy() > 0
            && stripes.any(|stripe| self.regions.is_unsynced(self.areas.region(stripe)))
    }

    /// How far a stripe's parity can be built upon. In a region that is not synced, the journal has
    /// seen to all writes but those of whole stripes; without one, only a member's loss leaves no
    /// choice.
    fn parity(&self, stripe: Stripe, readable: Set<Role>) -> Parity {
        let journaled = self.array.recorder.record.consistency == Consistency::Journal;
        if self.is_in_step(stripe) {
            Parity::InStep
        } else if self.alignment.is_torn(stripe) {
            Parity::OutOfStep
        } else if journaled || readable != self.geo.of(stripe).roles() {
            Parity::Unproven
        } else {
            Parity::OutOfStep
        }
    }

    fn seconds(&self) -> u64 {
        self.epoch_seconds + self.now.0 / 1_000_000_000
    }

    /// Begins an I/O of a member or spare.
    fn issue(&mut self, flight: Flight, what: IoOp, at: Pba, blocks: u32, out: &mut Vec<Action>) {
        let of_stripes = flight.member.filter(|m| m.index() < self.geo.members());
        let on_spare = of_stripes.is_some_and(|member| self.is_on_spare(member, at));
        self.flights.issue(Flight { on_spare, ..flight }, what, at, blocks, out);
    }

    fn io_done(&mut self, id: IoId, result: Result<(), IoError>, out: &mut Vec<Action>) {
        let op = self.flights.end(id);
        self.background.look |= op.on_spare && self.flights.on_spare() == 0;
        if let Err(why) = result {
            self.successor_missed(&op, why, out);
        }
        match op.owner {
            Owner::Read { job, index } => self.read_done(job, index, op, result, out),
            Owner::Write { job, index } => self.write_done(job, index, op, result, out),
            Owner::Discard { job } => self.jobs.one_done(job),
            Owner::TrimSpare => {}
            Owner::Entry { job } => self.entry_done(job, op, result, out),
            Owner::Tail { .. } => self.tail_done(op, result, out),
            Owner::Staged { job } => self.staged_done(job, op, result, out),
            Owner::StagedTail => self.staged_tail_done(op, result, out),
            Owner::Fetch { job, index } => self.fetch_done(job, index, op, result, out),
            Owner::Copy { job, number } => self.copy_done(job, number, op, result, out),
            Owner::Page { kind, index } => self.page_done((kind, index), op, result, out),
            Owner::Superblock => self.superblock_done(op, result, out),
            Owner::Flush => self.flush_done(op, result, out),
        }
    }
}
