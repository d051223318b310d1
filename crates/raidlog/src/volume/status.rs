//! The volume's state, for people and for checks.

use alloc::vec::Vec;

use raidcore::units::Lba;

use super::stream::Stream;
use super::{Counters, LogVolume, Status};
use crate::codec::VolumeId;
use crate::segments::SegmentState;
use crate::shape::Shape;
use crate::units::{GroupId, Segment};

impl LogVolume {
    /// The volume's identity.
    #[must_use]
    pub fn id(&self) -> VolumeId {
        self.id
    }

    /// Where everything is.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many buffers of one segment the host has to provide.
    #[must_use]
    pub fn buffers(&self) -> u16 {
        self.buffers.len() as u16
    }

    /// The unused ones. Their content is void until the next step.
    pub fn free_buffers(&self) -> impl Iterator<Item = u16> + '_ {
        self.streams.iter().flat_map(Stream::free_buffers)
    }

    /// Whether requests are served: only after the start is on record.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.checkpointer.is_serving() && !self.stopping
    }

    /// The state of a segment.
    #[must_use]
    pub fn segment(&self, segment: Segment) -> SegmentState {
        self.segments.get(segment).state
    }

    /// The group of a block, or the one to which it will be written from memory; `None` if it has
    /// no place.
    ///
    /// # Panics
    /// If there is no such block.
    #[must_use]
    pub fn group_of(&self, lba: Lba) -> Option<GroupId> {
        let segment = self.shape.locate(self.map.get(lba)?).0;
        Some(self.shape.group_of(segment))
    }

    /// The group that takes users' writes.
    #[must_use]
    pub fn front_group(&self) -> GroupId {
        self.front()
    }

    /// Whether a group is being cleaned.
    ///
    /// # Panics
    /// If there is no such group.
    #[must_use]
    pub fn is_cleaning(&self, group: GroupId) -> bool {
        self.cleaners[group.index()].is_busy()
    }

    /// Live blocks, and the most that there can be.
    #[must_use]
    pub fn used(&self) -> (u64, u64) {
        let live = self.groups().map(|group| self.segments.live(group)).sum();
        (live, u64::from(self.shape.segment_count()) * u64::from(self.shape.slots()))
    }

    /// The most that users may have to wait for at a time: this many segments that have to be freed
    /// by cleaning a group, and this many blocks that have to be written first, which are those in
    /// memory and a checkpoint that frees the segments.
    #[must_use]
    pub fn longest_turn(&self) -> (u32, u64) {
        let memory = u64::from(self.config.buffers_in_all(1)) * u64::from(self.shape.slots());
        let written = memory + self.checkpoint_cost(self.shape.pages());
        if self.shape.groups() == 1 {
            return (1, written);
        }
        (self.groups().map(|group| self.room_of(group).turn()).max().unwrap_or(1), written)
    }

    /// Counters since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The volume's state, for people.
    #[must_use]
    pub fn status(&self) -> Status {
        let of = |group: GroupId| {
            (self.segments.free(group), self.segments.coming(group), self.segments.live(group))
        };
        let cleans = |group: &GroupId| self.cleaners[group.index()].is_busy();
        Status {
            front: self.front(),
            groups: self.groups().map(of).collect(),
            cleaning: self.groups().filter(cleans).collect(),
            stalled: self.stalled,
            failed: self.failed,
            checkpoint: self.checkpointer.number(),
            counters: self.counters,
        }
    }

    /// Checks all invariants that can be checked from within. It looks at every block.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        self.segments.check();
        let mut live = alloc::vec![0u32; self.shape.segment_count() as usize];
        let mut seen: Vec<u64> = Vec::new();
        for lba in (0..self.map.blocks()).map(Lba) {
            if let Some(pba) = self.map.get(lba) {
                let (segment, at) = self.shape.locate(pba);
                live[segment.index()] += 1;
                seen.push(pba.0);
                assert!(at >= self.shape.summary(), "{lba:?} is where a summary is");
            }
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count, "two blocks are in one place");
        for (segment, live) in (0..).map(Segment).zip(live) {
            assert_eq!(self.segments.get(segment).live, live, "live blocks of {segment:?}");
        }
        for stream in &self.streams {
            let position = stream.position;
            assert_eq!(self.segments.get(position.next).state, SegmentState::Held);
            let full = position.at == self.shape.segment_blocks();
            let state = self.segments.get(position.segment).state;
            assert!(full || state == SegmentState::Open, "{position:?} is {state:?}");
            assert!(stream.durable <= stream.written(), "what is not written is not durable");
        }
    }
}
