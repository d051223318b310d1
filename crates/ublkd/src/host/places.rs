//! Translates a machine's memory into the arena's.
//!
//! Invariant: an engine's payload in a log volume is the volume's memory (a user's buffer, a
//! segment's, a slot). It is looked up when an action is carried out, while the request is under
//! way.

use raidcore::engine::Engine;
use raidcore::units::Mem;
use raidlog::array::{LogMem, SLOT_BLOCKS};
use raidlog::{GroupId, LogArray, Machine, Volume};

use crate::arena::Pieces;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Places {
    /// The first scratch buffer of each group, then of the segments, then of the slots.
    first: Vec<u16>,
}

impl Places {
    /// For a machine with this many segment buffers of this many blocks; returns also the scratch
    /// buffers that the arena needs.
    pub(super) fn new(
        machine: &Machine,
        segments: u16,
        segment_blocks: u32,
    ) -> (Self, Vec<Pieces>) {
        let engine = |engine: &Engine| Pieces {
            count: engine.scratch_buffers(),
            blocks: engine.geometry().chunk(),
        };
        let slots = machine.log().map_or(0, LogArray::slots);
        let engines = machine.groups().map(|group| engine(machine.engine(group)));
        let segments = Pieces { count: segments, blocks: segment_blocks };
        let slots = Pieces { count: slots, blocks: SLOT_BLOCKS };
        let pieces: Vec<Pieces> = engines.chain([segments, slots]).collect();
        // The arena refuses numbers that overflow.
        let first = pieces.iter().scan(0u16, |next, pieces| {
            let first = *next;
            *next = next.saturating_add(pieces.count);
            Some(first)
        });
        (Self { first: first.collect() }, pieces)
    }

    /// The scratch buffers that are in no use.
    pub(super) fn free<'a>(&'a self, machine: &'a Machine) -> impl Iterator<Item = u16> + 'a {
        let segments = machine.volume().into_iter().flat_map(Volume::free_buffers);
        let slots = machine.log().into_iter().flat_map(|array| array.free_slots().iter().copied());
        let groups = machine.groups().zip(&self.first).flat_map(|(group, &first)| {
            machine.engine(group).free_scratch().iter().map(move |&buffer| first + buffer)
        });
        let [.., segment, slot] = self.first[..] else { unreachable!("segments, and slots") };
        let segments = segments.map(move |buffer| segment + buffer);
        groups.chain(segments).chain(slots.map(move |free| slot + free))
    }

    /// The place of a group's engine's memory. An array's scratch buffers are the arena's first.
    #[inline]
    pub(super) fn place(&self, machine: &Machine, group: GroupId, mem: Mem) -> Mem {
        machine.log().map_or(mem, |array| self.of(array.place(group, mem)))
    }

    /// The place of a log array's memory.
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
