//! Segments by the number of their live blocks, so that the emptiest is found without a search.
//!
//! Invariants: each segment is in at most one bucket. A bucket lists segments in the order in which
//! they came. No bucket of a group below its `lowest` holds any.

use alloc::vec;
use alloc::vec::Vec;

use crate::units::{GroupId, Segment};

/// No segment.
const NONE: u32 = u32::MAX;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Buckets {
    /// Buckets of a group.
    count: u32,
    /// The first and the last segment of each bucket.
    ends: Vec<(u32, u32)>,
    /// The segments before and after each segment in its bucket.
    links: Vec<(u32, u32)>,
    lowest: Vec<u32>,
}

impl Buckets {
    /// For `groups` groups and `segments` segments in all, with up to `most` live blocks each.
    pub(crate) fn new(groups: usize, segments: u32, most: u32) -> Self {
        let count = most + 1;
        Self {
            count,
            ends: vec![(NONE, NONE); groups * count as usize],
            links: vec![(NONE, NONE); segments as usize],
            lowest: vec![count; groups],
        }
    }

    fn index(&self, group: GroupId, live: u32) -> usize {
        group.index() * self.count as usize + live as usize
    }

    /// Puts a segment last in a bucket.
    pub(crate) fn insert(&mut self, group: GroupId, segment: Segment, live: u32) {
        let at = self.index(group, live);
        let (first, last) = self.ends[at];
        self.links[segment.index()] = (last, NONE);
        if last == NONE {
            self.ends[at] = (segment.0, segment.0);
        } else {
            self.links[last as usize].1 = segment.0;
            self.ends[at] = (first, segment.0);
        }
        let lowest = &mut self.lowest[group.index()];
        *lowest = (*lowest).min(live);
    }

    /// Takes a segment out of the bucket that it is in.
    pub(crate) fn remove(&mut self, group: GroupId, segment: Segment, live: u32) {
        let at = self.index(group, live);
        let (before, after) = self.links[segment.index()];
        match before {
            NONE => self.ends[at].0 = after,
            before => self.links[before as usize].1 = after,
        }
        match after {
            NONE => self.ends[at].1 = before,
            after => self.links[after as usize].0 = before,
        }
    }

    /// The first segment of a group's lowest non-empty bucket, if that is below `limit`.
    pub(crate) fn lowest(&mut self, group: GroupId, limit: u32) -> Option<Segment> {
        let mut live = self.lowest[group.index()];
        while live < self.count && self.ends[self.index(group, live)].0 == NONE {
            live += 1;
        }
        self.lowest[group.index()] = live;
        (live < limit.min(self.count)).then(|| Segment(self.ends[self.index(group, live)].0))
    }

    /// The first segment of each of a group's buckets below `limit`, with its number of live
    /// blocks.
    pub(crate) fn firsts(
        &self,
        group: GroupId,
        limit: u32,
    ) -> impl Iterator<Item = (Segment, u32)> + use<'_> {
        let buckets = self.lowest[group.index()]..limit.min(self.count);
        let first = move |live| (Segment(self.ends[self.index(group, live)].0), live);
        buckets.map(first).filter(|(segment, _)| segment.0 != NONE)
    }

    /// All segments of a group that are in a bucket, with the bucket's number.
    pub(crate) fn all(&self, group: GroupId) -> Vec<(Segment, u32)> {
        let mut all = Vec::new();
        for live in 0..self.count {
            let mut at = self.ends[self.index(group, live)].0;
            while at != NONE {
                all.push((Segment(at), live));
                at = self.links[at as usize].1;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GROUP: GroupId = GroupId(1);

    proptest! {
        #[test]
        fn they_are_as_plain_lists_are(
            moves in proptest::collection::vec((0u32..12, 0u32..6), 1..200),
            limit in 0u32..8,
        ) {
            let mut buckets = Buckets::new(2, 12, 5);
            let mut plain: Vec<(Segment, u32)> = Vec::new();
            for (segment, live) in moves {
                let segment = Segment(segment);
                if let Some(at) = plain.iter().position(|(other, _)| *other == segment) {
                    buckets.remove(GROUP, segment, plain.remove(at).1);
                } else {
                    buckets.insert(GROUP, segment, live);
                    plain.push((segment, live));
                }
                let mut expected = plain.clone();
                expected.sort_by_key(|(_, live)| *live);
                prop_assert_eq!(buckets.all(GROUP), expected.clone());
                let first = expected.first().filter(|(_, live)| *live < limit);
                prop_assert_eq!(buckets.lowest(GROUP, limit), first.map(|(segment, _)| *segment));
                expected.dedup_by_key(|(_, live)| *live);
                expected.retain(|(_, live)| *live < limit);
                prop_assert_eq!(buckets.firsts(GROUP, limit).collect::<Vec<_>>(), expected);
                prop_assert!(buckets.all(GroupId(0)).is_empty());
            }
        }
    }
}
