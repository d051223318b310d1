//! The state of each segment, and which of them are free.
//!
//! Invariants:
//! - A segment's `live` is the number of blocks of the map in it.
//! - A segment goes through these states: free, held (a stream's next), open, closed, perhaps
//!   cleaning, emptied (it has no live block), doomed (a checkpoint that does not refer to it is
//!   being written), freeing (that checkpoint is durable; reads end, it is trimmed), free. So
//!   **nothing that the latest durable checkpoint refers to, or that has to be replayed after it,
//!   is overwritten**.
//! - Segments that are closed and not known to be unreadable are in the bucket of their live
//!   blocks.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::buckets::Buckets;
use crate::shape::Shape;
use crate::units::{GroupId, Segment};

/// The state of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentState {
    /// It may be written.
    Free,
    /// A stream will write it next.
    Held,
    /// It is being written.
    Open,
    /// It is full.
    Closed,
    /// Its live blocks are being moved.
    Cleaning,
    /// It has no live block.
    Emptied,
    /// A checkpoint that does not refer to it is being written.
    Doomed,
    /// Nothing durable refers to it; it is about to be trimmed.
    Freeing,
}

/// Which segment a cleaner takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// The one with the fewest live blocks.
    #[default]
    Greedy,
    /// The one with the greatest (1 − u) · age / (1 + u), where u is its share of live blocks
    /// (Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System").
    /// Among those with equal u, only the one is considered that has lost no block for the longest
    /// time.
    CostBenefit,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Info {
    pub(crate) state: SegmentState,
    /// Reads of users and cleaners under way in it.
    pub(crate) readers: u16,
    /// The buffer that holds its unwritten blocks, and the first of them.
    pub(crate) memory: Option<(u16, u32)>,
    /// It could not be read: it is cleaned again only if there are no others.
    pub(crate) stuck: bool,
    pub(crate) live: u32,
    /// When the youngest of its blocks was written, in blocks that users had written by then.
    pub(crate) age: u64,
}

impl Info {
    /// Whether a cleaner may choose it.
    fn is_cleanable(&self) -> bool {
        self.state == SegmentState::Closed && !self.stuck
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Segments {
    infos: Vec<Info>,
    free: Vec<VecDeque<Segment>>,
    /// Segments of each group that are emptied, doomed or freeing.
    coming: Vec<u32>,
    /// Live blocks of each group.
    live: Vec<u64>,
    emptied: Vec<Vec<Segment>>,
    doomed: Vec<Segment>,
    freeing: Vec<Segment>,
    buckets: Buckets,
    shape: Shape,
}

impl Segments {
    /// Segments with these numbers of live blocks and ages; `held` are those of the streams. Others
    /// without live blocks are free.
    pub(crate) fn new(
        shape: Shape,
        live: &[u32],
        ages: &[u64],
        held: &[(Segment, SegmentState)],
    ) -> Self {
        let info = |(&live, &age): (&u32, &u64)| Info {
            state: if live > 0 { SegmentState::Closed } else { SegmentState::Free },
            readers: 0,
            memory: None,
            stuck: false,
            live,
            age,
        };
        let mut infos: Vec<Info> = live.iter().zip(ages).map(info).collect();
        for &(segment, state) in held {
            infos[segment.index()].state = state;
        }
        let groups = || (0..shape.groups()).map(GroupId::at);
        let is_free = |s: &Segment| infos[s.index()].state == SegmentState::Free;
        let lives = |s: Segment| u64::from(live[s.index()]);
        let mut buckets =
            Buckets::new(shape.groups(), shape.segment_count(), shape.segment_blocks());
        for (segment, info) in (0..).map(Segment).zip(&infos) {
            if info.is_cleanable() {
                buckets.insert(shape.group_of(segment), segment, info.live);
            }
        }
        Self {
            free: groups()
                .map(|group| shape.segments_of(group).filter(is_free).collect())
                .collect(),
            coming: vec![0; shape.groups()],
            live: groups().map(|group| shape.segments_of(group).map(lives).sum()).collect(),
            emptied: vec![Vec::new(); shape.groups()],
            doomed: Vec::new(),
            freeing: Vec::new(),
            buckets,
            infos,
            shape,
        }
    }

    pub(crate) fn get(&self, segment: Segment) -> &Info {
        &self.infos[segment.index()]
    }

    pub(crate) fn get_mut(&mut self, segment: Segment) -> &mut Info {
        &mut self.infos[segment.index()]
    }

    /// How many segments of a group are free.
    pub(crate) fn free(&self, group: GroupId) -> u32 {
        self.free[group.index()].len() as u32
    }

    /// How many will be free after the next checkpoints.
    pub(crate) fn coming(&self, group: GroupId) -> u32 {
        self.coming[group.index()]
    }

    /// How many of them a checkpoint that begins now would free.
    pub(crate) fn emptied(&self, group: GroupId) -> u32 {
        self.emptied[group.index()].len() as u32
    }

    /// The same, of all groups.
    pub(crate) fn all_emptied(&self) -> u32 {
        self.emptied.iter().map(|emptied| emptied.len() as u32).sum()
    }

    /// Whether segments are to be trimmed.
    pub(crate) fn is_freeing(&self) -> bool {
        !self.freeing.is_empty()
    }

    /// Takes the segment of a group that has been free for the longest time.
    pub(crate) fn hold(&mut self, group: GroupId) -> Option<Segment> {
        let segment = self.free[group.index()].pop_front()?;
        self.infos[segment.index()].state = SegmentState::Held;
        Some(segment)
    }

    /// A live block is added to the segment.
    pub(crate) fn add(&mut self, segment: Segment) {
        self.live[self.shape.group_of(segment).index()] += 1;
        self.change(segment, |info| info.live += 1);
    }

    /// A block of the segment is no longer live.
    pub(crate) fn remove(&mut self, segment: Segment) {
        self.live[self.shape.group_of(segment).index()] -= 1;
        self.change(segment, |info| {
            assert!(info.live > 0, "a block left a segment in which none lived");
            info.live -= 1;
        });
        let info = self.get(segment);
        if info.live == 0 && info.state == SegmentState::Closed {
            self.empty(segment);
        }
    }

    /// The segment is full and written.
    pub(crate) fn close(&mut self, segment: Segment) {
        self.change(segment, |info| info.state = SegmentState::Closed);
        if self.infos[segment.index()].live == 0 {
            self.empty(segment);
        }
    }

    /// A cleaner takes the segment.
    pub(crate) fn take(&mut self, segment: Segment) {
        self.change(segment, |info| info.state = SegmentState::Cleaning);
    }

    fn empty(&mut self, segment: Segment) {
        self.change(segment, |info| (info.state, info.stuck) = (SegmentState::Emptied, false));
        let group = self.shape.group_of(segment).index();
        self.coming[group] += 1;
        self.emptied[group].push(segment);
    }

    /// Applies a change that may move the segment to another bucket.
    fn change(&mut self, segment: Segment, change: impl FnOnce(&mut Info)) {
        let info = &mut self.infos[segment.index()];
        let before = info.is_cleanable().then_some(info.live);
        change(info);
        let after = info.is_cleanable().then_some(info.live);
        if before == after {
            return;
        }
        let group = self.shape.group_of(segment);
        if let Some(live) = before {
            self.buckets.remove(group, segment, live);
        }
        if let Some(live) = after {
            self.buckets.insert(group, segment, live);
        }
    }

    /// A checkpoint begins that does not refer to emptied segments.
    pub(crate) fn doom(&mut self) {
        assert!(self.doomed.is_empty(), "there is one checkpoint at a time");
        for emptied in &mut self.emptied {
            self.doomed.append(emptied);
        }
        for segment in &self.doomed {
            self.infos[segment.index()].state = SegmentState::Doomed;
        }
    }

    /// That checkpoint is durable.
    pub(crate) fn release(&mut self) {
        for segment in &self.doomed {
            self.infos[segment.index()].state = SegmentState::Freeing;
        }
        self.freeing.append(&mut self.doomed);
    }

    /// Takes a segment that can be trimmed, as it has no readers.
    pub(crate) fn trim_one(&mut self) -> Option<Segment> {
        let at = self.freeing.iter().position(|s| self.infos[s.index()].readers == 0)?;
        Some(self.freeing.remove(at))
    }

    /// It has been trimmed.
    pub(crate) fn trimmed(&mut self, segment: Segment) {
        let group = self.shape.group_of(segment).index();
        let info = &mut self.infos[segment.index()];
        assert!(info.state == SegmentState::Freeing && info.live == 0 && info.readers == 0);
        info.state = SegmentState::Free;
        self.coming[group] -= 1;
        self.free[group].push_back(segment);
    }

    /// The segment of a group that is best to clean, if at least one block in sixteen is gained.
    pub(crate) fn victim(&mut self, group: GroupId, choice: Choice, clock: u64) -> Option<Segment> {
        let slots = self.shape.slots();
        let worth = slots - slots / 16;
        let lowest = self.buckets.lowest(group, worth)?;
        if choice == Choice::Greedy {
            return Some(lowest);
        }
        let gain = |(segment, live): &(Segment, u32)| {
            let age = u128::from(clock.saturating_sub(self.get(*segment).age)) + 1;
            u128::from(slots - live) * age * u128::from(slots) / u128::from(slots + live)
        };
        self.buckets.firsts(group, worth).max_by_key(gain).map(|(segment, _)| segment)
    }

    /// A segment of a group that could not be cleaned.
    pub(crate) fn stuck(&self, group: GroupId) -> Option<Segment> {
        let mut all = self.shape.segments_of(group);
        all.find(|&s| self.get(s).stuck && self.get(s).state == SegmentState::Closed)
    }

    /// How many blocks of a group live.
    pub(crate) fn live(&self, group: GroupId) -> u64 {
        self.live[group.index()]
    }

    /// Checks what can be checked without the map.
    pub(crate) fn check(&self) {
        for group in (0..self.shape.groups()).map(GroupId::at) {
            let is = |segment, states: &[SegmentState]| states.contains(&self.get(segment).state);
            let count = |states: &[SegmentState]| {
                self.shape.segments_of(group).filter(|&segment| is(segment, states)).count() as u32
            };
            assert_eq!(count(&[SegmentState::Free]), self.free(group), "free in {group:?}");
            let leaving = [SegmentState::Emptied, SegmentState::Doomed, SegmentState::Freeing];
            let lives = self.shape.segments_of(group).map(|segment| self.get(segment).live);
            let lives: u64 = lives.map(u64::from).sum();
            assert_eq!(lives, self.live(group), "live in {group:?}");
            assert_eq!(count(&leaving), self.coming(group), "coming in {group:?}");
            let mut sorted = self.buckets.all(group);
            sorted.sort_unstable();
            let cleanable = self.shape.segments_of(group).map(|s| (s, self.get(s)));
            let cleanable = cleanable.filter(|(_, info)| info.is_cleanable());
            let cleanable: Vec<_> = cleanable.map(|(s, info)| (s, info.live)).collect();
            assert_eq!(sorted, cleanable, "buckets of {group:?}");
            for segment in self.shape.segments_of(group) {
                let info = self.get(segment);
                let empty = is(segment, &leaving) || is(segment, &[SegmentState::Free]);
                assert!(!empty || info.live == 0, "{segment:?} is {:?} but live", info.state);
                let lies_still = info.memory.is_none() || info.state == SegmentState::Open;
                assert!(lies_still, "{segment:?} is {:?} and in memory", info.state);
                let read = info.state != SegmentState::Free || info.readers == 0;
                assert!(read, "{segment:?} is free and being read");
            }
        }
    }
}
