//! Drives under load, recorded with the truth: which I/Os were delayed by garbage collection, and
//! when the drive collected.

use std::time::Duration;

use det::{Instant, Prng};
use flashsim::profile::{Scope, Unit};
use flashsim::{Command, Completion, Op, Precondition, Profile, Ssd};
use steering::detect::Kind;

/// When I/Os are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// So many are always under way.
    Closed(u32),
    /// At random times, at this share of the drive's sustainable rate.
    Open(f64),
    /// The same, but all of it in the first fifth of each tenth of a second.
    Bursts(f64),
}

/// As many I/Os are under way on a drive at most; further arrivals wait.
const DEPTH_MAX: usize = 128;

/// A load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub name: &'static str,
    pub pace: Pace,
    pub read_percent: u64,
    /// Sizes in blocks of 4 KiB, each as probable as the others.
    pub blocks: &'static [u32],
    pub state: Precondition,
}

/// An I/O that has ended. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Io {
    pub begun: u64,
    pub ended: u64,
    pub kind: Kind,
    pub blocks: u32,
    pub delayed_by_gc: bool,
}

impl Io {
    pub(crate) fn latency(&self) -> u64 {
        self.ended - self.begun
    }
}

/// What happened to a drive.
pub(crate) struct Run {
    pub drive: &'static str,
    pub load: &'static str,
    /// In the order in which they began.
    pub ios: Vec<Io>,
    /// Whether writes end in a buffer.
    pub buffered: bool,
    /// When at least one die collected.
    pub collecting: Vec<(u64, u64)>,
}

/// A drive by name: a built-in profile, made small, or `msr2008-burst`, which is `msr2008` collecting
/// twenty blocks at a time while nothing of the drive serves the host.
pub(crate) fn drive(name: &str) -> Profile {
    let mut profile =
        Profile::builtin(name.trim_end_matches("-burst")).expect("a built-in profile");
    // A part of the large drives, with the same part of their buffers, ages in less time.
    if let Some(buffer) = &mut profile.buffer {
        let dies = profile.geometry.channels * profile.geometry.chips;
        (profile.geometry.channels, profile.geometry.chips) = (4, 1);
        buffer.kib = buffer.kib * 4 / dies;
    }
    let mut profile = profile.covering(256 << 20).expect("a possible drive");
    if name.ends_with("-burst") {
        profile.gc.scope = Scope::Device;
        profile.gc.unit = Unit::Burst(20);
    }
    profile
}

/// Puts a drive, as it was `used` before, under load until so many I/Os have ended.
pub(crate) fn record(name: &'static str, used: &Ssd, load: &Load, seed: u64, count: usize) -> Run {
    let ssd = used.clone();
    let gap = match load.pace {
        Pace::Closed(_) => 0.0,
        Pace::Open(share) | Pace::Bursts(share) => {
            let closed = Load { pace: Pace::Closed(32), ..*load };
            let run = Driver::new(ssd.clone(), &closed, seed, 0.0).run(count);
            // The first half fills the buffer.
            let half = &run[run.len() / 2..];
            let time = half[half.len() - 1].begun - half[0].begun;
            time as f64 / half.len() as f64 / share
        }
    };
    let mut driver = Driver::new(ssd, load, seed, gap);
    let ios = driver.run(count);
    let buffered = driver.ssd.profile().buffer.is_some();
    Run { drive: name, load: load.name, ios, buffered, collecting: driver.collecting }
}

struct Driver<'a> {
    ssd: Ssd,
    load: &'a Load,
    prng: Prng,
    /// Mean nanoseconds between arrivals of an open load.
    gap: f64,
    arrival: f64,
    ios: Vec<Io>,
    collecting: Vec<(u64, u64)>,
    since: Option<u64>,
}

impl<'a> Driver<'a> {
    fn new(ssd: Ssd, load: &'a Load, seed: u64, gap: f64) -> Self {
        let prng = Prng::new(seed ^ 0x10ad);
        let (ios, collecting) = (Vec::new(), Vec::new());
        Self { ssd, load, prng, gap, arrival: 0.0, ios, collecting, since: None }
    }

    fn run(&mut self, count: usize) -> Vec<Io> {
        let (mut ended, mut left) = (Vec::new(), count);
        if let Pace::Closed(depth) = self.load.pace {
            (0..depth).for_each(|_| self.submit(Instant::ORIGIN));
        }
        while left > 0 {
            let open = self.gap > 0.0 && self.ssd.outstanding() < DEPTH_MAX;
            let arrival = open.then(|| Instant(self.next_arrival()).max(self.ssd.now()));
            let event = self.ssd.next();
            let now = arrival.into_iter().chain(event).min().expect("something to happen");
            self.ssd.poll(now, &mut ended);
            for Completion { tag, at, delayed_by_gc, .. } in ended.drain(..) {
                let io = &mut self.ios[tag as usize];
                (io.ended, io.delayed_by_gc) = (at.0, delayed_by_gc);
                left = left.saturating_sub(1);
                if self.gap == 0.0 {
                    self.submit(now);
                }
            }
            if arrival == Some(now) {
                self.arrival += self.exponential();
                self.submit(now);
            }
            self.note_collecting(now.0);
        }
        self.collecting.extend(self.since.map(|since| (since, self.ssd.now().0)));
        let mut ios = core::mem::take(&mut self.ios);
        ios.retain(|io| io.ended > 0);
        ios
    }

    fn note_collecting(&mut self, now: u64) {
        match (self.since, self.ssd.gc_state().since) {
            (None, Some(since)) => self.since = Some(since.0),
            (Some(since), None) => {
                self.collecting.push((since, now));
                self.since = None;
            }
            _ => {}
        }
    }

    fn exponential(&mut self) -> f64 {
        let unit = (self.prng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        -self.gap * (1.0 - unit).ln()
    }

    /// When the next I/O of an open load arrives.
    fn next_arrival(&self) -> u64 {
        match self.load.pace {
            Pace::Closed(_) | Pace::Open(_) => self.arrival as u64,
            Pace::Bursts(_) => {
                let period = Duration::from_millis(100).as_nanos() as f64;
                let whole = (self.arrival / period).floor() * period;
                (whole + (self.arrival - whole) / 5.0) as u64
            }
        }
    }

    fn submit(&mut self, now: Instant) {
        let read = self.prng.chance(self.load.read_percent, 100);
        let blocks = self.load.blocks[self.prng.below(self.load.blocks.len() as u64) as usize];
        let sizes = self.ssd.geometry();
        let pages = (blocks * 4096 / sizes.page_bytes).max(1);
        let page = self.prng.below(u64::from(sizes.logical_pages - pages)) as u32;
        let (op, kind) = if read { (Op::Read, Kind::Read) } else { (Op::Write, Kind::Write) };
        let tag = self.ios.len() as u64;
        self.ios.push(Io { begun: now.0, ended: 0, kind, blocks, delayed_by_gc: false });
        self.ssd
            .submit(now, Command { tag, op, page, pages, stream: 0 })
            .expect("pages of the drive");
    }
}
