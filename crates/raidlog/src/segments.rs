//! What is known of each segment, and which of them are free.
//!
//! Invariants:
//! - A segment's `live` is how many blocks of the map lie in it.
//! - A segment goes round: free, held (a stream's next), open, closed, perhaps being cleaned,
//!   emptied (nothing lives in it), doomed (a checkpoint that does not point into it is being
//!   written), freeing (that is durable; readers leave, it is trimmed), free. So **nothing is
//!   written over what the latest durable checkpoint, or what has to be replayed after it, refers
//!   to**.
//! - Segments that are closed and could be read so far are in the bucket of their live blocks.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::buckets::Buckets;
use crate::shape::Shape;
use crate::units::{GroupId, Segment};

/// Where a segment is on its way round.
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
    /// What lives in it is being moved.
    Cleaning,
    /// Nothing lives in it.
    Emptied,
    /// A checkpoint is being written that does not point into it.
    Doomed,
    /// Nothing durable points into it; it is about to be trimmed.
    Freeing,
}

/// Which segment a cleaner takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// The one with the fewest live blocks.
    #[default]
    Greedy,
    /// The one with the greatest (1 − u) · age / (1 + u), where u is the live part of it
    /// (Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System").
    /// Of those with equal u only the one that has lost no block for the longest time is looked at.
    CostBenefit,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Info {
    pub(crate) state: SegmentState,
    /// Reads of users and cleaners under way in it.
    pub(crate) readers: u16,
    /// The buffer that holds what is not written yet, and from which block on.
    pub(crate) memory: Option<(u16, u32)>,
    /// It could not be read: it is not cleaned again as long as there are others.
    pub(crate) stuck: bool,
    pub(crate) live: u32,
    /// When the youngest of its blocks was written, by the clock that counts users' blocks.
    pub(crate) age: u64,
}

impl Info {
    /// Whether it is one of those that a cleaner chooses from.
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
    /// Blocks of each group that live.
    live: Vec<u64>,
    emptied: Vec<Vec<Segment>>,
    doomed: Vec<Segment>,
    freeing: Vec<Segment>,
    buckets: Buckets,
    shape: Shape,
}

impl Segments {
    /// Segments in which so many blocks live, of such ages; `held` are those that streams have. The
    /// others are free if nothing lives in them.
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

    /// A block lives in the segment from now on.
    pub(crate) fn add(&mut self, segment: Segment) {
        self.live[self.shape.group_of(segment).index()] += 1;
        self.change(segment, |info| info.live += 1);
    }

    /// A block has left the segment.
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

    /// Changes what may have to do with a segment's bucket.
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

    /// A checkpoint begins that does not point into what is empty.
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

    /// Takes a segment that can be trimmed: it is not read any more.
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

    /// The segment of a group that is best cleaned, if any is worth it: at least one block in
    /// sixteen is to be gained.
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
