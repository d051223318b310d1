//! Measures a run, and computes its figures.

mod figures;
mod latency;
mod timeline;

use std::time::Duration;

use det::Instant;

pub use figures::{CacheFigures, DriveFigures, Figures, LogFigures};
pub use latency::{Latency, LatencyError, QUANTILES};
pub use timeline::Timeline;

use crate::pages::Pages;
use crate::system::{Ended, GcChange, Side, System};
use crate::workload::Kind;
use figures::Drives;
use latency::Recorder;

/// Records events. Before [`Meter::begin`] it only tracks which drives collect garbage.
#[derive(Clone, Debug)]
pub struct Meter {
    start: Option<Instant>,
    /// When the last request came.
    last: Instant,
    end: Instant,
    reads: Recorder,
    writes: Recorder,
    /// Reads of a log array, by [`Side`].
    sides: [Recorder; 3],
    others: u64,
    came: u64,
    unaligned: u64,
    read_blocks: u64,
    written_blocks: u64,
    delayed_by_gc: u64,
    met_erase: u64,
    during_erases: u64,
    pages: Pages,
    collecting: Collecting,
    timeline: timeline::Builder,
    drives: Drives,
}

/// Which drives collect garbage, and the time by how many collect at once.
#[derive(Clone, Debug)]
struct Collecting {
    since: Vec<Option<Instant>>,
    level: usize,
    changed: Instant,
    /// By how many collect.
    time: Vec<Duration>,
}

impl Collecting {
    /// Adds the time since the last change.
    fn settle(&mut self, now: Instant) {
        self.time[self.level] += now - self.changed;
        self.changed = now;
    }
}

impl Meter {
    /// For a system of so many drives.
    #[must_use]
    pub fn new(drives: usize) -> Self {
        Self {
            start: None,
            last: Instant::ORIGIN,
            end: Instant::ORIGIN,
            reads: Recorder::default(),
            writes: Recorder::default(),
            sides: Default::default(),
            others: 0,
            came: 0,
            unaligned: 0,
            read_blocks: 0,
            written_blocks: 0,
            delayed_by_gc: 0,
            met_erase: 0,
            during_erases: 0,
            pages: Pages::default(),
            collecting: Collecting {
                since: vec![None; drives],
                level: 0,
                changed: Instant::ORIGIN,
                time: vec![Duration::ZERO; drives + 1],
            },
            timeline: timeline::Builder::new(drives),
            drives: Drives::default(),
        }
    }

    /// Measures from now on.
    pub fn begin(&mut self, now: Instant) {
        self.start = Some(now);
        self.collecting.settle(now);
        self.collecting.time.fill(Duration::ZERO);
    }

    /// When the measurement began.
    #[must_use]
    pub fn start(&self) -> Option<Instant> {
        self.start
    }

    /// A request has come that is measured, for some blocks from the first on.
    pub fn came(&mut self, at: Instant, kind: Kind, (lba, blocks): (u64, u32), aligned: bool) {
        self.came += 1;
        self.last = at;
        self.unaligned += u64::from(!aligned);
        match kind {
            Kind::Read => self.read_blocks += u64::from(blocks),
            Kind::Write => self.written_blocks += u64::from(blocks),
            Kind::Discard | Kind::Flush => return,
        }
        // If there are too many pages, only the first ones are counted.
        self.pages.touch_soon(0, lba..lba + u64::from(blocks), kind == Kind::Read);
    }

    /// A drive was erasing when the last request came.
    pub fn came_during_erase(&mut self) {
        self.during_erases += 1;
    }

    /// A request that is measured has ended.
    pub fn ended(&mut self, now: Instant, kind: Kind, latency: Duration, how: Ended) {
        self.delayed_by_gc += u64::from(how.met.collection);
        self.met_erase += u64::from(how.met.erase);
        if let Some(side) = how.side {
            let index = match side {
                Side::Front => 0,
                Side::Idle => 1,
                Side::Busy => 2,
            };
            self.sides[index].add(latency);
        }
        match kind {
            Kind::Read => self.reads.add(latency),
            Kind::Write => self.writes.add(latency),
            Kind::Discard | Kind::Flush => self.others += 1,
        }
        if let Some(start) = self.start {
            self.timeline.ended(now - start, latency);
        }
    }

    /// A drive has begun or ended to collect garbage.
    pub fn gc(&mut self, change: GcChange) {
        let GcChange { at, drive, collecting } = change;
        let Collecting { since, .. } = &mut self.collecting;
        let begun = since[drive];
        since[drive] = collecting.then_some(at);
        let level = since.iter().flatten().count();
        self.collecting.settle(at);
        self.collecting.level = level;
        if let (Some(begun), false) = (begun, collecting) {
            self.collected(drive, begun, at);
        }
    }

    /// Nothing more will happen.
    pub fn finish(&mut self, now: Instant, system: &impl System) {
        self.end = now;
        self.pages.catch_up();
        self.collecting.settle(now);
        for drive in 0..self.collecting.since.len() {
            if let Some(begun) = self.collecting.since[drive].take() {
                self.collected(drive, begun, now);
            }
        }
        self.drives = Drives::of(system);
    }

    fn collected(&mut self, drive: usize, from: Instant, to: Instant) {
        let Some(start) = self.start else { return };
        if to > start {
            self.timeline.collected(drive, from - start, to - start);
        }
    }
}
