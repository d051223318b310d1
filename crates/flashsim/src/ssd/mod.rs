//! The drive: a state machine that is given the time.
//!
//! [`Ssd::submit`] takes a command, [`Ssd::next`] says when the next event is due, and
//! [`Ssd::poll`] processes events and reports which commands have ended. There is no clock and no
//! thread, and equal calls give equal answers.
//!
//! Invariants:
//! - A die does one operation at a time, from its beginning to its end or suspension.
//! - An operation changes the flash translation layer when it begins. Only an erase changes it at
//!   its end: the block is free then.
//! - Memory is allocated only when more commands are under way than ever before.

mod api;
mod buffer;
mod channel;
mod die;
mod die_gc;
mod dispatch;
mod event;
mod gc;
mod host;
mod lane;
mod low;
mod orders;
mod pool;
mod save;
mod work;

use core::time::Duration;
use det::{Instant, Prng};

pub use api::{Command, CommandError, Completion, GcMode, GcOrder, GcState, Op, Space, Thresholds};
use buffer::Buffer;
use channel::Channel;
use die::{Die, Job};
use event::{Event, Events};
use gc::Gc;
use lane::HostLink;
pub(crate) use pool::Pool;

use crate::ftl::{Ftl, Precondition};
use crate::geometry::Geometry;
use crate::profile::{Profile, ProfileError, ReadRetry, Suspend};
use crate::stats::{FlashStats, Stats, Wear};
use crate::timing::Timing;

/// How often each block can be erased until a drive has used its life, as of common TLC flash. Nothing wears out in
/// the model: only what a drive reports follows from it.
const RATED_ERASES: u32 = 3000;

/// A command under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    command: Command,
    arrived: u64,
    /// Jobs that have not ended; for a buffered write, pages that have no slot yet.
    left: u32,
    delayed_by_gc: bool,
    met_erase: bool,
}

/// A drive.
#[derive(Clone, Debug)]
pub struct Ssd {
    profile: Profile,
    timing: Timing,
    ftl: Ftl,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    link: HostLink,
    buffer: Option<Buffer>,
    gc: Gc,
    jobs: Pool<Job>,
    commands: Pool<Pending>,
    events: Events,
    /// Dies that may have something to do, and have not been looked at.
    wake: Vec<u32>,
    done: Vec<Completion>,
    now: u64,
    prng: Prng,
    reads_first: u32,
    multi_plane_reads: bool,
    suspend: Option<Suspend>,
    read_retry: Option<ReadRetry>,
    stats: Stats,
    /// Blocks that were erased before the counters were reset.
    erased_before: u64,
}

impl Ssd {
    /// A drive after `profile`, in a state of use. All that is random follows from `seed`.
    ///
    /// # Errors
    /// What is impossible about the profile.
    pub fn new(profile: &Profile, state: Precondition, seed: u64) -> Result<Self, ProfileError> {
        profile.check()?;
        let mut prng = Prng::new(seed);
        let mut ftl = Ftl::new(profile, prng.next_u64());
        ftl.precondition(state, &mut prng);
        ftl.stats = FlashStats::default();
        let mut ssd = Self::around(profile, ftl, prng);
        for plane in 0..ssd.geometry().planes {
            ssd.note_free(plane);
        }
        ssd.wake.extend(0..ssd.geometry().dies);
        ssd.settle();
        Ok(ssd)
    }

    /// A drive in which nothing is under way.
    fn around(profile: &Profile, ftl: Ftl, prng: Prng) -> Self {
        let geometry = *ftl.geometry();
        let buffer = profile.buffer.map(|buffer| {
            let pages = u64::from(buffer.kib) * 1024 / u64::from(geometry.page_bytes);
            Buffer::new(pages as u32, buffer.power_safe, profile.ftl.streams)
        });
        Self {
            timing: Timing::new(profile, &geometry),
            dies: (0..geometry.dies).map(|_| Die::new()).collect(),
            channels: vec![Channel::default(); geometry.channels as usize],
            link: HostLink::new(profile.link.is_none_or(|link| link.full_duplex)),
            buffer,
            gc: Gc::new(profile, &geometry),
            jobs: Pool::default(),
            commands: Pool::default(),
            events: Events::default(),
            wake: Vec::with_capacity(geometry.dies as usize),
            done: Vec::new(),
            now: 0,
            prng,
            reads_first: profile.ftl.reads_first,
            multi_plane_reads: profile.nand.multi_plane_reads,
            suspend: profile.suspend,
            read_retry: profile.read_retry,
            stats: Stats::default(),
            erased_before: 0,
            profile: profile.clone(),
            ftl,
        }
    }

    /// Takes a command. What happened before `now` happens first; its completions are kept for the
    /// next [`Ssd::poll`].
    ///
    /// # Errors
    /// If the command names pages that the drive doesn't have. Nothing has happened then.
    ///
    /// # Panics
    /// If `now` is before an earlier call's.
    pub fn submit(&mut self, now: Instant, mut command: Command) -> Result<(), CommandError> {
        self.accept(&command)?;
        command.stream = command.stream.min(self.ftl.streams() - 1);
        self.advance(now);
        let pages = command.pages;
        let id = self.commands.add(Pending {
            command,
            arrived: now.0,
            left: pages,
            delayed_by_gc: false,
            met_erase: false,
        });
        let ready = now.0 + self.timing.overhead;
        let length = self.timing.link(pages);
        let arrives = match command.op {
            Op::Write if length > 0 => self.link.receive(ready, length),
            Op::Write | Op::Read | Op::Trim | Op::Flush => ready,
        };
        if arrives == now.0 {
            self.arrive(id);
            self.settle();
        } else {
            self.events.at(arrives, Event::Arrived { command: id });
        }
        Ok(())
    }

    /// The latest time that it was given.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant(self.now)
    }

    /// When [`Ssd::poll`] is to be called next; at once if commands have ended. The event may be
    /// internal: then `poll` reports nothing.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        if self.done.is_empty() { self.events.first().map(Instant) } else { Some(self.now()) }
    }

    /// Lets everything happen up to `now`, and appends the commands that have ended, in order.
    ///
    /// # Panics
    /// If `now` is before an earlier call's.
    pub fn poll(&mut self, now: Instant, ended: &mut Vec<Completion>) {
        self.advance(now);
        ended.append(&mut self.done);
    }

    /// Says what decides when garbage is collected, from `now` on. A drive that does not obey by its
    /// profile ignores it.
    ///
    /// # Panics
    /// If `now` is before an earlier call's.
    pub fn order_gc(&mut self, now: Instant, order: GcOrder) {
        self.advance(now);
        if !self.profile.obeys {
            return;
        }
        self.take_order(order);
        self.wake.extend(0..self.dies.len() as u32);
        self.settle();
    }

    /// How much of the drive is erased.
    #[must_use]
    pub fn space(&self) -> Space {
        let g = self.geometry();
        let free = || (0..g.planes).map(|plane| self.ftl.free_blocks(plane));
        Space {
            blocks: g.blocks(),
            free_blocks: free().sum(),
            blocks_per_plane: g.blocks_per_plane,
            least_free_blocks: free().min().unwrap_or(0),
        }
    }

    /// Whether the drive is collecting.
    #[must_use]
    pub fn gc_state(&self) -> GcState {
        self.gc.state()
    }

    /// The share of invalid pages of the block that would be collected next, the greatest of all
    /// planes; zero if there is none. Where victims are drawn at random, an estimate.
    #[must_use]
    pub fn dirtiest(&self) -> f64 {
        let g = self.geometry();
        let invalid = (0..g.planes).filter_map(|plane| self.ftl.dirtiest(plane)).max();
        f64::from(invalid.unwrap_or(0)) / f64::from(g.data_pages)
    }

    /// Whether any die is erasing, or has suspended an erase.
    #[must_use]
    pub fn is_erasing(&self) -> bool {
        self.gc.erasing > 0
    }

    /// Dies that are erasing, or have suspended an erase.
    pub fn erasing(&self) -> impl Iterator<Item = u32> {
        (0..self.geometry().dies).filter(|&die| self.dies[die as usize].erases())
    }

    /// Its age: blocks that were erased since it was made or preconditioned. It grows for as long
    /// as the drive lives.
    #[must_use]
    pub fn erases(&self) -> u64 {
        self.erased_before.saturating_add(self.ftl.stats.erases)
    }

    /// How much of its life it has used, in percent, as drives report it: its age, of 3000
    /// erases of each block.
    #[must_use]
    pub fn used_percent(&self) -> f64 {
        let rated = u64::from(self.space().blocks) * u64::from(RATED_ERASES);
        100.0 * self.erases() as f64 / rated as f64
    }

    /// Pages in the write buffer.
    #[must_use]
    pub fn buffered_pages(&self) -> u32 {
        self.buffer.as_ref().map_or(0, Buffer::used)
    }

    /// Commands that have been submitted and not reported as ended.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.commands.count() + self.done.len()
    }

    /// Sizes of the drive.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.ftl.geometry()
    }

    /// The profile it was made after.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// What it has done since it was made, or since [`Ssd::reset_stats`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            flash: self.ftl.stats,
            gc: self.gc.lengths,
            gc_time: Duration::from_nanos(self.gc.time(self.now)),
            ..self.stats
        }
    }

    /// Counts from zero again. Wear stays.
    pub fn reset_stats(&mut self) {
        self.erased_before = self.erases();
        self.stats = Stats::default();
        self.ftl.stats = FlashStats::default();
        self.gc.reset_stats(self.now);
    }

    /// How worn its blocks are.
    #[must_use]
    pub fn wear(&self) -> Wear {
        Wear::of(self.ftl.erases())
    }

    /// Asserts what is always true of the flash translation layer, and of what is counted.
    ///
    /// # Panics
    /// If it is not.
    pub fn check(&self) {
        self.ftl.check();
        assert_eq!(self.gc.erasing as usize, self.erasing().count(), "dies that erase");
    }

    fn accept(&self, command: &Command) -> Result<(), CommandError> {
        if command.op == Op::Flush {
            return Ok(());
        }
        let logical_pages = self.geometry().logical_pages;
        let (page, pages) = (u64::from(command.page), command.pages);
        if pages == 0 {
            Err(CommandError::Empty)
        } else if page + u64::from(pages) > u64::from(logical_pages) {
            Err(CommandError::OutOfRange { page, pages, logical_pages })
        } else {
            Ok(())
        }
    }

    fn advance(&mut self, now: Instant) {
        assert!(now.0 >= self.now, "time goes back from {:?} to {now:?}", Instant(self.now));
        while let Some((time, event)) = self.events.due(now.0) {
            self.now = time;
            match event {
                Event::Die { die, begun } => self.die_done(die, begun),
                Event::Idle { die, begun } => self.die_idle(die, begun),
                Event::Arrived { command } => self.arrive(command),
                Event::Answered { command } => self.complete(command),
                Event::Channel { channel } => self.channel_done(channel),
            }
            self.settle();
        }
        self.now = now.0;
    }

    /// Lets every die begin what it can.
    fn settle(&mut self) {
        while let Some(die) = self.wake.pop() {
            self.kick(die);
        }
    }
}
