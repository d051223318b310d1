//! What decides: the engine of an array, or a log volume with the engines of its groups; and where in
//! the arena is what they name.
//!
//! Invariant: what an engine of a log volume calls a request's payload is the volume's memory (a
//! user's buffer, a segment's, a slot); that is looked up when an action is carried out, while the
//! request is under way.

use det::Instant;
use raidcore::engine::{Engine, JobId, SteeringPolicy};
use raidcore::meta::DeviceLabel;
use raidcore::plan::Found;
use raidcore::units::{DeviceId, Mem};
use raidlog::GroupId;
use raidlog::array::SLOT_BLOCKS;

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
        (0..count).map(GroupId::at)
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

    /// Sets the policy that says where a group's reads and writes go.
    pub(super) fn set_steering(&mut self, group: GroupId, policy: Option<Box<dyn SteeringPolicy>>) {
        match self {
            Self::Array(engine) => engine.set_steering(policy),
            Self::Log(log) => log.array.set_steering(group, policy),
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
            Self::Log(log) => Box::new(log.memory.free(&log.array)),
        }
    }

    /// Where in the arena is what a group's engine names.
    pub(super) fn place(&self, group: GroupId, mem: Mem) -> Mem {
        match self {
            Self::Array(_) => mem,
            Self::Log(log) => log.memory.of(log.array.place(group, mem)),
        }
    }
}
