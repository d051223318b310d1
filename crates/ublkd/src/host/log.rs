//! A log volume: how it begins, how it is, and whether it is what it should be.

use raidcore::engine::Engine;
use raidcore::meta::VolumePart;
use raidlog::{Config, LogArray, Machine, Shape, Status, VolumeId};

/// How a log volume begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// As a new one, of this shape.
    Create(Shape),
    /// As the one in its groups.
    Open,
}

/// The state of a log volume.
#[derive(Clone, PartialEq, Debug)]
pub struct LogStatus {
    /// Its layout.
    pub shape: Shape,
    /// Its state.
    pub status: Status,
    /// Live blocks in the log, and the most that there can be.
    pub used: (u64, u64),
}

/// A log volume on these engines.
pub(super) fn machine(
    config: Config,
    part: VolumePart,
    begin: Begin,
    engines: Vec<Engine>,
) -> Machine {
    let id = VolumeId(part.volume.0);
    Machine::Log(Box::new(match begin {
        Begin::Create(shape) => LogArray::create(config, id, shape, engines),
        Begin::Open => LogArray::open(config, id, engines),
    }))
}

/// The state of a log volume, if it is one and has been found.
pub(super) fn status(machine: &Machine) -> Option<LogStatus> {
    let volume = machine.volume()?;
    Some(LogStatus { shape: *volume.shape(), status: volume.status(), used: volume.used() })
}

/// What a log volume is known by.
pub(super) struct Log {
    /// The volume in the superblocks.
    part: VolumePart,
    /// Whether the volume was checked against the superblocks.
    seen: bool,
}

impl Log {
    /// The volume in the superblocks.
    pub(super) fn new(part: VolumePart) -> Self {
        Self { part, seen: false }
    }

    /// Whether the volume, once it is found, matches the superblocks.
    pub(super) fn is_as_said(&mut self, machine: &Machine) -> bool {
        if let Some(volume) = machine.volume().filter(|_| !self.seen) {
            let (part, shape) = (&self.part, volume.shape());
            self.seen = (shape.groups(), shape.segment_blocks(), shape.capacity())
                == (part.groups.into(), part.segment, part.blocks);
            return self.seen;
        }
        true
    }
}
