//! A log volume: what it wants done besides what the engines of its groups want.

use std::collections::VecDeque;

use raidcore::engine::Engine;
use raidcore::meta::VolumePart;
use raidlog::array::{Action, Look};
use raidlog::{Config, LogArray, Shape, Status, VolumeId};

use super::log_memory::LogMemory;

/// How a log volume begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// As a new one, of this shape.
    Create(Shape),
    /// As what its groups hold.
    Open,
}

/// How a log volume is.
#[derive(Clone, PartialEq, Debug)]
pub struct LogStatus {
    /// Where everything is.
    pub shape: Shape,
    /// Its state.
    pub status: Status,
    /// Blocks that live in the log, of those that it has room for.
    pub used: (u64, u64),
}

/// A log volume on its groups' engines, and what it is known by.
pub(super) struct Log {
    pub(super) array: LogArray,
    /// What the superblocks say of it.
    pub(super) part: VolumePart,
    pub(super) memory: LogMemory,
    segment_buffers: u16,
    /// That the volume is what the superblocks say was seen.
    seen: bool,
    pub(super) looks: VecDeque<Looked>,
    pub(super) actions: Vec<Action>,
    /// Scratch space for what is encoded.
    pub(super) bytes: Vec<u8>,
    pub(super) checksums: Vec<u32>,
}

/// What is to be looked at.
pub(super) struct Looked {
    pub(super) look: Look,
    pub(super) slot: u16,
    pub(super) blocks: u32,
    pub(super) checksums: bool,
}

impl Log {
    pub(super) fn new(
        config: Config,
        part: VolumePart,
        begin: Begin,
        engines: Vec<Engine>,
    ) -> Self {
        let id = VolumeId(part.volume.0);
        let array = match begin {
            Begin::Create(shape) => LogArray::create(config, id, shape, engines),
            Begin::Open => LogArray::open(config, id, engines),
        };
        let segment_buffers = config.buffers_in_all(part.groups.into());
        Self {
            memory: LogMemory::new(&array, segment_buffers),
            array,
            part,
            segment_buffers,
            seen: false,
            looks: VecDeque::new(),
            actions: Vec::new(),
            bytes: Vec::new(),
            checksums: Vec::new(),
        }
    }

    pub(super) fn segment_buffers(&self) -> u16 {
        self.segment_buffers
    }

    /// How it is; nothing while it is not there yet.
    pub(super) fn status(&self) -> Option<LogStatus> {
        let volume = self.array.volume()?;
        Some(LogStatus { shape: *volume.shape(), status: volume.status(), used: volume.used() })
    }

    /// Whether the volume, once it is there, is what the superblocks say.
    pub(super) fn is_as_said(&mut self) -> bool {
        if let Some(volume) = self.array.volume().filter(|_| !self.seen) {
            let (part, shape) = (&self.part, volume.shape());
            self.seen = (shape.groups(), shape.segment_blocks(), shape.capacity())
                == (part.groups.into(), part.segment, part.blocks);
            return self.seen;
        }
        true
    }
}
