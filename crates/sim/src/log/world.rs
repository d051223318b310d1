//! The world: a volume, its groups, and its users.

use std::fmt;

use det::Instant;
use raidlog::{Config, GroupId, Input, Io, LogVolume, Note, Shape, VolumeId};

use super::LogSummary;
use super::group::Group;
use super::scenario::LogScenario;
use super::users::Users;
use crate::digest::Digest;
use crate::disk::{Block, Kept};
use crate::play::Sink;
use crate::source::Source;

pub(super) const VOLUME: VolumeId = VolumeId(*b"a simulated one.");

/// An I/O under way.
pub(super) struct Pending {
    pub(super) io: Io,
    /// The blocks of a write, or those that a read has found at its begin.
    pub(super) blocks: Vec<Block>,
    /// The last write that a flush will make durable.
    pub(super) mark: u64,
    pub(super) fails: bool,
}

pub(super) struct World {
    pub(super) source: Source,
    pub(super) scenario: LogScenario,
    pub(super) shape: Shape,
    pub(super) groups: Vec<Group>,
    pub(super) volume: LogVolume,
    pub(super) now: Instant,
    pub(super) pending: Vec<Pending>,
    pub(super) buffers: Vec<Vec<Block>>,
    pub(super) users: Users,
    /// Reads that have failed in this life.
    pub(super) read_faults: u64,
    /// A write has failed in this life.
    pub(super) write_fault: bool,
    /// No faults from now on.
    pub(super) calm: bool,
    pub(super) stopped: bool,
    /// A checkpoint was durable, so there is a volume to recover.
    pub(super) made: bool,
    pub(super) summary: LogSummary,
    pub(super) digest: Digest,
    sink: Option<Sink>,
}

impl World {
    pub(super) fn new(mut source: Source, scenario: LogScenario, sink: Option<Sink>) -> Self {
        let shape = Shape::new(scenario.wish).unwrap_or_else(|e| panic!("{e}: {scenario:?}"));
        let groups = (0..scenario.wish.groups)
            .map(|_| Group::new(scenario.wish.group_blocks, &mut source))
            .collect();
        let volume = create(&scenario, shape);
        let users = Users::new(scenario.tags, shape.capacity());
        let mut world = Self {
            groups,
            buffers: Vec::new(),
            users,
            source,
            scenario,
            shape,
            volume,
            now: Instant::ORIGIN,
            pending: Vec::new(),
            read_faults: 0,
            write_fault: false,
            calm: false,
            stopped: false,
            made: false,
            summary: LogSummary::default(),
            digest: Digest::default(),
            sink,
        };
        world.wake();
        world
    }

    /// Starts a volume.
    pub(super) fn wake(&mut self) {
        let blocks = self.shape.segment_blocks() as usize;
        self.buffers = vec![vec![Block::ZERO; blocks]; usize::from(self.volume.buffers())];
        (self.stopped, self.read_faults, self.write_fault) = (false, 0, false);
        self.step(Input::Tick);
    }

    /// Creates the volume.
    pub(super) fn make(&mut self) {
        self.volume = create(&self.scenario, self.shape);
        self.wake();
    }

    pub(super) fn config(&self) -> Config {
        self.scenario.config()
    }

    pub(super) fn summary(&self) -> LogSummary {
        let (requests, errors) = self.users.ended;
        LogSummary { requests, errors, digest: self.digest.value(), ..self.summary }
    }

    pub(super) fn trace(&self, what: fmt::Arguments<'_>) {
        if let Some(sink) = &self.sink {
            sink(self.now, what);
        }
    }

    pub(super) fn group(&mut self, group: GroupId) -> &mut Group {
        &mut self.groups[group.index()]
    }

    pub(super) fn note(&mut self, note: Note) {
        match note {
            Note::Failed(..) => assert!(self.write_fault, "{note:?}, but no write failed"),
            Note::Stuck(_) => assert!(self.read_faults > 0, "{note:?}, but no read failed"),
            Note::Checkpoint(_) => self.made = true,
            Note::Front(_) => {}
        }
    }

    /// Adds up a volume's counters, before it is dropped.
    pub(super) fn count(&mut self) {
        let counters = self.volume.counters();
        self.summary.checkpoints += counters.checkpoints;
        self.summary.cleaned += counters.cleaned;
        self.summary.moved += counters.moved;
        self.summary.rotations += counters.rotations;
        self.summary.stalls += counters.stalls;
    }
}

fn create(scenario: &LogScenario, shape: Shape) -> LogVolume {
    LogVolume::create(scenario.config(), VOLUME, shape)
}
