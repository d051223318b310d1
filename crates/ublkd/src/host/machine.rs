//! What decides: the engine of an array, or a log volume with the engines of its groups; and where in
//! the arena is what they name.
//!
//! Invariant: what an engine of a log volume calls a request's payload is the volume's memory (a
//! user's buffer, a segment's, a slot); that is looked up when an action is carried out, while the
//! request is under way.

use det::Instant;
use raidcore::engine::{Engine, JobId};
use raidcore::meta::DeviceLabel;
use raidcore::plan::Found;
use raidcore::units::{DeviceId, Mem};
use raidlog::array::{Place, SLOT_BLOCKS};
use raidlog::{GroupId, LogArray, Volume};

use super::log::Log;
use crate::arena::Pieces;

/// The group of what is no log volume.
pub(super) const ONLY: GroupId = GroupId(0);

/// See the [module](self).
pub(super) enum Machine {
    Array(Box<Engine>),
    Log(Box<Log>),
}

impl Machine {
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        let count = match self {
            Self::Array(_) => 1,
            Self::Log(log) => log.array.groups(),
        };
        (0..count).map(|group| GroupId(group as u8))
    }

    pub(super) fn engine(&self, group: GroupId) -> &Engine {
        match self {
            Self::Array(engine) => engine,
            Self::Log(log) => log.array.array(group),
        }
    }

    pub(super) fn found(&mut self, group: GroupId, job: JobId, found: Found) {
        match self {
            Self::Array(engine) => engine.found(job, found),
            Self::Log(log) => log.array.found(group, job, found),
        }
    }

    /// Tells a group's engine what people call a device.
    pub(super) fn label(&mut self, group: GroupId, device: DeviceId, label: DeviceLabel) {
        match self {
            Self::Array(engine) => engine.label(device, label),
            Self::Log(log) => log.array.label(group, device, label),
        }
    }

    /// When it wants to be told the time.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Array(engine) => engine.deadline().map(|(at, _)| at),
            Self::Log(log) => log.array.deadline(),
        }
    }

    /// The scratch buffers that it needs in the arena: those of each group's engine, and of a log
    /// volume also segments and slots, in this order.
    pub(super) fn scratch(&self) -> Vec<Pieces> {
        let engine = |engine: &Engine| Pieces {
            count: engine.scratch_buffers(),
            blocks: engine.geometry().chunk(),
        };
        let mut all: Vec<_> = self.groups().map(|group| engine(self.engine(group))).collect();
        if let Self::Log(log) = self {
            all.push(Pieces { count: log.segment_buffers(), blocks: log.part.segment });
            all.push(Pieces { count: log.array.slots(), blocks: SLOT_BLOCKS });
        }
        all
    }

    /// The scratch buffers that are in no use, by their numbers in the arena.
    pub(super) fn free_scratch(&self) -> Box<dyn Iterator<Item = u16> + '_> {
        match self {
            Self::Array(engine) => Box::new(engine.free_scratch().iter().copied()),
            Self::Log(log) => Box::new(log.places.free(&log.array)),
        }
    }

    /// Where in the arena is what a group's engine names.
    pub(super) fn place(&self, group: GroupId, mem: Mem) -> Mem {
        match self {
            Self::Array(_) => mem,
            Self::Log(log) => log.places.of(log.array.place(group, mem)),
        }
    }
}

/// Where in the arena the memory of a log volume is.
#[derive(Debug)]
pub(super) struct Places {
    /// The first scratch buffer of each group, then of the segments, then of the slots.
    first: Vec<u16>,
}

impl Places {
    /// After [`Machine::scratch`].
    pub(super) fn new(array: &LogArray, segments: u16) -> Self {
        let engines =
            (0..array.groups()).map(|group| array.array(GroupId(group as u8)).scratch_buffers());
        let mut next = 0u16;
        // What does not fit in a number the arena refuses.
        let first = engines.chain([segments, 0]).map(|count| {
            let first = next;
            next = next.saturating_add(count);
            first
        });
        Self { first: first.collect() }
    }

    /// The scratch buffers that are in no use.
    fn free<'a>(&'a self, array: &'a LogArray) -> impl Iterator<Item = u16> + 'a {
        let engines = (0..array.groups()).map(|group| array.array(GroupId(group as u8)));
        let segments = array.volume().into_iter().flat_map(Volume::free_buffers);
        let engines = engines.zip(&self.first).flat_map(|(engine, &first)| {
            engine.free_scratch().iter().map(move |&buffer| first + buffer)
        });
        let [.., segment, slot] = self.first[..] else { unreachable!("segments, and slots") };
        let segments = segments.map(move |buffer| segment + buffer);
        let slots = array.free_slots().iter().map(move |&free| slot + free);
        engines.chain(segments).chain(slots)
    }

    pub(super) fn of(&self, place: Place) -> Mem {
        let groups = self.first.len() - 2;
        match place {
            Place::Payload { tag, at } => Mem::Payload { tag, at },
            Place::Segment { buffer, at } => {
                Mem::Scratch { buffer: self.first[groups] + buffer, at }
            }
            Place::Slot { slot, at } => Mem::Scratch { buffer: self.first[groups + 1] + slot, at },
            Place::Scratch { group, buffer, at } => {
                Mem::Scratch { buffer: self.first[group.index()] + buffer, at }
            }
            Place::Zero => Mem::Zero,
        }
    }
}
