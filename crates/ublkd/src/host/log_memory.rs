//! Where in the arena the memory of a log volume is.

use raidcore::units::Mem;
use raidlog::array::LogMem;
use raidlog::{GroupId, LogArray, Volume};

/// Where in the arena the memory of a log volume is.
#[derive(Debug)]
pub(super) struct LogMemory {
    /// The first scratch buffer of each group, then of the segments, then of the slots.
    first: Vec<u16>,
}

impl LogMemory {
    /// After [`Machine::scratch`](super::machine::Machine::scratch).
    pub(super) fn new(array: &LogArray, segments: u16) -> Self {
        let engines =
            (0..array.groups()).map(|group| array.array(GroupId::at(group)).scratch_buffers());
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
    pub(super) fn free<'a>(&'a self, array: &'a LogArray) -> impl Iterator<Item = u16> + 'a {
        let engines = (0..array.groups()).map(|group| array.array(GroupId::at(group)));
        let segments = array.volume().into_iter().flat_map(Volume::free_buffers);
        let engines = engines.zip(&self.first).flat_map(|(engine, &first)| {
            engine.free_scratch().iter().map(move |&buffer| first + buffer)
        });
        let [.., segment, slot] = self.first[..] else { unreachable!("segments, and slots") };
        let segments = segments.map(move |buffer| segment + buffer);
        let slots = array.free_slots().iter().map(move |&free| slot + free);
        engines.chain(segments).chain(slots)
    }

    pub(super) fn of(&self, place: LogMem) -> Mem {
        let groups = self.first.len() - 2;
        match place {
            LogMem::Payload { tag, at } => Mem::Payload { tag, at },
            LogMem::Segment { buffer, at } => {
                Mem::Scratch { buffer: self.first[groups] + buffer, at }
            }
            LogMem::Slot { slot, at } => Mem::Scratch { buffer: self.first[groups + 1] + slot, at },
            LogMem::Scratch { group, buffer, at } => {
                Mem::Scratch { buffer: self.first[group.index()] + buffer, at }
            }
            LogMem::Zero => Mem::Zero,
        }
    }
}
