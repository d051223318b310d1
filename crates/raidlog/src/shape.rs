//! The layout of a volume: pure address arithmetic.
//!
//! Each group begins with two header blocks, one unit apart, then two areas of pages, then its
//! segments. All groups are alike, and pages are spread over all of them.
//!
//! Invariants:
//! - A unit is a whole number of stripes. A segment is a whole number of units, and begins at one.
//!   So the log is written in full stripes.
//! - The copies of a page are on different groups, and each stripe has pages of one checkpoint.
//! - The capacity leaves enough blocks to the cleaner that cleaning always gains: see
//!   [`Shape::capacity`].

use raidcore::meta::VolumePart;
use raidcore::units::{BLOCK_BYTES, Lba};

use crate::sizes::{AGES_PER_PAGE, ENTRIES_PER_PAGE, ENTRY_BYTES, SUMMARY_BYTES};
use crate::units::{GroupId, Pba, Segment};

/// The most groups of a volume.
pub(crate) const GROUPS_MAX: usize = VolumePart::GROUPS_MAX as usize;

/// The most blocks of a volume's log: what a block's number has room for, 2 PiB.
const LOG_MAX: u64 = (1 << 39) - 1;

/// The most segments of a volume: what a segment's number has room for.
const SEGMENTS_MAX: u32 = u32::MAX;

/// The most blocks of a segment.
const SEGMENT_MAX: u32 = VolumePart::SEGMENT_MAX;

/// The fewest blocks of a unit, if stripes are smaller.
const UNIT_MIN: u32 = 8;

/// Blocks of a segment unless something else is wanted: 1 MiB.
const SEGMENT: u32 = 256;

/// Segments of a group that are open or come next, of users and of the cleaner.
const HELD: u32 = 4;

/// The number of copies of pages, with as many groups or more.
const COPIES: usize = 2;

/// The parameters of a new volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// How many groups.
    pub groups: usize,
    /// Blocks of the smallest of them.
    pub group_blocks: u64,
    /// Blocks of data in a stripe of theirs.
    pub stripe: u32,
    /// Blocks of a segment, at least; rounded up to whole units. 0 is 1 MiB.
    pub segment: u32,
    /// How many of a thousand blocks of the log are not offered to users.
    pub spare: u32,
}

/// Why a volume can't be made so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShapeError {
    /// No groups, or too many.
    #[error("a log volume lies on 1 to {GROUPS_MAX} groups, not {0}")]
    Groups(usize),
    /// Stripes or segments are empty or too large.
    #[error("a segment has 1 to {SEGMENT_MAX} blocks of 4 KiB in whole stripes, not {0}")]
    Segment(u64),
    /// A batch of the smallest size has no room for its summary.
    #[error(
        "a segment of {segment} blocks has a summary of {summary}, too many for units of {unit}: \
         use smaller segments or larger stripes"
    )]
    Summary {
        /// Blocks of a segment.
        segment: u32,
        /// Blocks of its summary.
        summary: u32,
        /// Blocks of a unit.
        unit: u32,
    },
    /// Cleaning would gain nothing.
    #[error("of 1000 blocks 50 to 900 are spare, not {0}")]
    Spare(u32),
    /// There is no room for what cleaning needs.
    #[error("a group has {have} segments after its metadata, and needs {need}: use larger groups")]
    TooSmall {
        /// Segments of a group.
        have: u32,
        /// Those that it needs.
        need: u32,
    },
    /// There are more blocks than can be numbered.
    #[error("a log volume has at most {LOG_MAX} blocks of 4 KiB, not {0}")]
    TooLarge(u64),
    /// There are more segments than can be numbered.
    #[error("a log volume has at most {SEGMENTS_MAX} segments, not {0}: use larger segments")]
    Segments(u64),
}

/// The layout of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    groups: u8,
    unit: u32,
    segment: u32,
    /// Segments of a group.
    segments: u32,
    /// Free segments of each group that only its cleaner may take.
    reserve: u32,
    capacity: u64,
    /// Blocks of one area of pages, in whole units.
    area: u64,
}

impl Shape {
    /// The shape of a new volume.
    ///
    /// # Errors
    /// If there can't be such a volume.
    pub fn new(wish: Wish) -> Result<Self, ShapeError> {
        if wish.groups == 0 || wish.groups > GROUPS_MAX {
            return Err(ShapeError::Groups(wish.groups));
        }
        if !(50..=900).contains(&wish.spare) {
            return Err(ShapeError::Spare(wish.spare));
        }
        let segment = if wish.segment == 0 { SEGMENT } else { wish.segment };
        let unit = Self::unit_of(wish.stripe);
        let segment = u64::from(segment).next_multiple_of(unit);
        if wish.stripe == 0 || segment > u64::from(SEGMENT_MAX) {
            return Err(ShapeError::Segment(segment));
        }
        let all = wish.group_blocks.saturating_mul(wish.groups as u64);
        if all > LOG_MAX {
            return Err(ShapeError::TooLarge(all));
        }
        // Pages for all blocks that there could be: a little more than there will be.
        let pages = all.div_ceil(ENTRIES_PER_PAGE) + (all / segment + 1).div_ceil(AGES_PER_PAGE);
        let area = area_for(wish.groups, unit, pages).next_multiple_of(unit);
        let segments = wish.group_blocks.saturating_sub(2 * unit + 2 * area) / segment;
        let shape = Self {
            groups: wish.groups as u8,
            unit: unit as u32,
            segment: segment as u32,
            segments: segments as u32,
            // As many as fill up before a checkpoint frees more than that, and two for padding.
            reserve: 2 + (2 * (1000 - wish.spare)).div_ceil(wish.spare),
            capacity: 0,
            area,
        };
        let count = segments * wish.groups as u64;
        if count > u64::from(SEGMENTS_MAX) {
            return Err(ShapeError::Segments(count));
        }
        let Self { segment, unit, .. } = shape;
        if shape.summary() >= unit {
            return Err(ShapeError::Summary { segment, summary: shape.summary(), unit });
        }
        shape.with_capacity(wish.spare)
    }

    fn with_capacity(self, spare: u32) -> Result<Self, ShapeError> {
        // The spare share of the other segments has to make up for the cost of a checkpoint.
        let need = self.reserve + HELD + 2000u32.div_ceil(spare).max(4);
        if self.segments < need {
            return Err(ShapeError::TooSmall { have: self.segments, need });
        }
        let usable = u64::from(self.groups) * u64::from(self.segments - self.reserve - HELD);
        let capacity = usable * u64::from(self.slots()) * u64::from(1000 - spare) / 1000;
        Ok(Self { capacity, ..self })
    }

    /// The shape in a header.
    pub(crate) fn from_parts(
        groups: u8,
        unit: u32,
        segment: u32,
        segments: u32,
        reserve: u32,
        capacity: u64,
        area: u64,
    ) -> Option<Self> {
        let shape = Self { groups, unit, segment, segments, reserve, capacity, area };
        let sound = (1..=GROUPS_MAX).contains(&usize::from(groups))
            && unit >= UNIT_MIN
            && segment <= SEGMENT_MAX
            && segment >= unit
            && segment.is_multiple_of(unit)
            && shape.summary() < unit
            && segments > 0
            && reserve < segments
            && u64::from(segments) * u64::from(groups) <= u64::from(SEGMENTS_MAX)
            && shape.log_blocks() <= LOG_MAX
            && capacity <= u64::from(shape.segment_count()) * u64::from(shape.slots())
            && area <= LOG_MAX
            && area_for(shape.groups(), unit.into(), shape.pages().into()) <= area;
        sound.then_some(shape)
    }

    /// Blocks of a unit, where stripes hold so many blocks of data.
    pub(crate) fn unit_of(stripe: u32) -> u64 {
        let stripe = u64::from(stripe.max(1));
        stripe * u64::from(UNIT_MIN).div_ceil(stripe)
    }

    /// The blocks that each group must have.
    #[must_use]
    pub fn group_blocks(&self) -> u64 {
        self.area_start(1) + self.area + u64::from(self.segments) * u64::from(self.segment)
    }

    /// How many groups there are.
    #[must_use]
    pub fn groups(&self) -> usize {
        usize::from(self.groups)
    }

    /// The blocks that users have: few enough that cleaning always gains.
    ///
    /// Each group keeps some segments that are not counted here (see the source). Only a part of
    /// the blocks of all others is offered to users. So closed segments are filled to that part at
    /// most on average, and the emptiest of them, which the cleaner takes, no more than that. So
    /// cleaning frees more segments than it fills.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Blocks of a unit. The log is written in whole units.
    #[must_use]
    pub fn unit(&self) -> u32 {
        self.unit
    }

    /// Blocks of a segment.
    #[must_use]
    pub fn segment_blocks(&self) -> u32 {
        self.segment
    }

    /// Blocks of a summary, with which each batch begins: enough for a batch of a whole segment.
    #[must_use]
    pub fn summary(&self) -> u32 {
        let bytes = SUMMARY_BYTES + ENTRY_BYTES * self.segment as usize;
        bytes.div_ceil(BLOCK_BYTES) as u32
    }

    /// The most entries of a summary.
    #[must_use]
    pub fn entries(&self) -> usize {
        (self.summary() as usize * BLOCK_BYTES - SUMMARY_BYTES) / ENTRY_BYTES
    }

    /// Blocks of data in a segment that is written as one batch.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.segment - self.summary()
    }

    /// Segments of each group.
    #[must_use]
    pub fn group_segments(&self) -> u32 {
        self.segments
    }

    /// Segments of all groups.
    #[must_use]
    pub fn segment_count(&self) -> u32 {
        self.segments * u32::from(self.groups)
    }

    /// Blocks of all segments.
    #[must_use]
    pub fn log_blocks(&self) -> u64 {
        u64::from(self.segment_count()) * u64::from(self.segment)
    }

    /// Free segments of each group that only its cleaner may take.
    #[must_use]
    pub fn reserve(&self) -> u32 {
        self.reserve
    }

    /// The group of a segment.
    #[must_use]
    pub fn group_of(&self, segment: Segment) -> GroupId {
        GroupId((segment.0 / self.segments) as u8)
    }

    /// The segments of a group.
    pub fn segments_of(&self, group: GroupId) -> impl Iterator<Item = Segment> + use<> {
        let first = u32::from(group.0) * self.segments;
        (first..first + self.segments).map(Segment)
    }

    /// Where a segment begins in its group.
    #[must_use]
    pub fn start_of(&self, segment: Segment) -> u64 {
        let within = u64::from(segment.0 % self.segments);
        self.area_start(1) + self.area + within * u64::from(self.segment)
    }

    /// The number of a segment's block.
    #[must_use]
    pub fn pba(&self, segment: Segment, at: u32) -> Pba {
        Pba(u64::from(segment.0) * u64::from(self.segment) + u64::from(at))
    }

    /// The segment of a block, and the block's number in it.
    #[must_use]
    pub fn locate(&self, pba: Pba) -> (Segment, u32) {
        let blocks = u64::from(self.segment);
        (Segment((pba.0 / blocks) as u32), (pba.0 % blocks) as u32)
    }

    /// The block of the header of checkpoints with even (0) or odd (1) numbers, in each group.
    #[must_use]
    pub fn header(&self, area: u64) -> u64 {
        area * u64::from(self.unit)
    }

    /// Where the pages of checkpoints with even (0) or odd (1) numbers begin.
    #[must_use]
    pub fn area_start(&self, area: u64) -> u64 {
        2 * u64::from(self.unit) + area * self.area
    }

    /// Blocks of an area of pages.
    #[must_use]
    pub fn area_blocks(&self) -> u64 {
        self.area
    }

    /// Pages of a checkpoint that hold the map. Those of the segments' ages follow.
    #[must_use]
    pub fn map_pages(&self) -> u32 {
        self.capacity.div_ceil(ENTRIES_PER_PAGE) as u32
    }

    /// Pages of a checkpoint.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.map_pages() + u64::from(self.segment_count()).div_ceil(AGES_PER_PAGE) as u32
    }

    /// How many copies of each page there are, on as many groups.
    #[must_use]
    pub fn page_copies(&self) -> usize {
        copies(self.groups())
    }

    /// This many pages are consecutive in their group. With more groups than copies, the pages of
    /// each unit are elsewhere: copy `k` of run `r`, number `n = r * copies + k`, is on group `n
    /// mod groups`, `floor(n / groups)` units after the start of the area.
    #[must_use]
    pub fn page_run(&self) -> u32 {
        if self.groups() > self.page_copies() { self.unit } else { u32::MAX }
    }

    /// Where a copy of a page is for checkpoints with even (0) or odd (1) numbers.
    #[must_use]
    pub fn page_place(&self, area: u64, page: u32, copy: usize) -> (GroupId, u64) {
        let (run, within) = (page / self.page_run(), page % self.page_run());
        let number = u64::from(run) * self.page_copies() as u64 + copy as u64;
        let groups = u64::from(self.groups);
        let at = number / groups * u64::from(self.unit) + u64::from(within);
        (GroupId((number % groups) as u8), self.area_start(area) + at)
    }

    /// Whether a request lies within the capacity.
    #[must_use]
    pub fn contains(&self, lba: Lba, blocks: u32) -> bool {
        blocks > 0 && lba.0.checked_add(blocks.into()).is_some_and(|end| end <= self.capacity)
    }
}

/// How many copies of pages there are with this many groups.
fn copies(groups: usize) -> usize {
    groups.min(COPIES)
}

/// The blocks of an area that holds a group's share of this many pages.
fn area_for(groups: usize, unit: u64, pages: u64) -> u64 {
    let copies = copies(groups);
    if groups == copies {
        return pages;
    }
    (pages.div_ceil(unit) * copies as u64).div_ceil(groups as u64) * unit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WISH: Wish = Wish { groups: 2, group_blocks: 1 << 16, stripe: 8, segment: 0, spare: 200 };

    #[test]
    fn what_can_not_work_is_refused() {
        let refused = |wish| Shape::new(wish).expect_err("it is impossible");
        assert_eq!(refused(Wish { groups: 0, ..WISH }), ShapeError::Groups(0));
        assert_eq!(refused(Wish { groups: 33, ..WISH }), ShapeError::Groups(33));
        assert_eq!(refused(Wish { spare: 49, ..WISH }), ShapeError::Spare(49));
        assert_eq!(refused(Wish { spare: 901, ..WISH }), ShapeError::Spare(901));
        assert_eq!(refused(Wish { stripe: 0, ..WISH }), ShapeError::Segment(256));
        let stripe = u32::MAX;
        assert_eq!(refused(Wish { stripe, ..WISH }), ShapeError::Segment(stripe.into()));
        let all = 1 << 40;
        assert_eq!(refused(Wish { group_blocks: 1 << 39, ..WISH }), ShapeError::TooLarge(all));
        let most = Wish { group_blocks: u64::MAX, ..WISH };
        assert_eq!(refused(most), ShapeError::TooLarge(u64::MAX));
        let long = ShapeError::Summary { segment: 4096, summary: 11, unit: 8 };
        assert_eq!(refused(Wish { segment: 4096, ..WISH }), long);
        let short = Wish { groups: 1, group_blocks: 1 << 38, segment: 8, ..WISH };
        assert!(matches!(refused(short), ShapeError::Segments(count) if count > 1 << 34));
        // One less than a group needs: the reserve, the held segments, and two spare ones of the
        // rest.
        let need = 2 + 8 + HELD + 10;
        let group_blocks = 64 + u64::from(need) * 256 - 1;
        let few = ShapeError::TooSmall { have: need - 1, need };
        assert_eq!(refused(Wish { group_blocks, ..WISH }), few);
        assert!(Shape::new(Wish { group_blocks: group_blocks + 1, ..WISH }).is_ok());
        assert_eq!(
            refused(Wish { group_blocks: 0, ..WISH }),
            ShapeError::TooSmall { have: 0, need }
        );
    }

    #[test]
    fn pages_are_spread_evenly_and_no_two_are_in_one_place() {
        for groups in 1..=GROUPS_MAX {
            let group_blocks = (1 << 20) / groups as u64;
            let shape = Shape::new(Wish { groups, group_blocks, ..WISH }).expect("it is possible");
            let mut places = alloc::collections::BTreeSet::new();
            for page in 0..shape.pages() {
                let mut on = alloc::collections::BTreeSet::new();
                for copy in 0..shape.page_copies() {
                    let (group, at) = shape.page_place(1, page, copy);
                    assert!(group.index() < groups && on.insert(group), "{page} on {group:?}");
                    let area = shape.area_start(1)..shape.area_start(1) + shape.area_blocks();
                    assert!(area.contains(&at), "{page} at {at} is not within {area:?}");
                    assert!(places.insert((group, at)), "two pages are at {at} of {group:?}");
                }
            }
            let of = |group| places.iter().filter(|(on, _)| on.index() == group).count();
            let least = (0..groups).map(of).min();
            let most = (0..groups).map(of).max();
            assert!(
                most <= least.map(|least| least + 2 * shape.unit() as usize),
                "{groups} groups"
            );
        }
    }

    proptest! {
        #[test]
        fn a_volume_that_can_be_made_can_be_opened(
            groups in 1usize..40,
            blocks in 0u32..40,
            more in 0u64..1000,
            stripe in prop_oneof![0u32..200, any::<u32>()],
            segment in prop_oneof![0u32..20_000, any::<u32>()],
            spare in 40u32..1000,
        ) {
            let group_blocks = (1 << blocks) + more;
            let wish = Wish { groups, group_blocks, stripe, segment, spare };
            if let Ok(shape) = Shape::new(wish) {
                let Shape { groups, unit, segment, segments, reserve, capacity, area } = shape;
                let told =
                    Shape::from_parts(groups, unit, segment, segments, reserve, capacity, area);
                prop_assert_eq!(told, Some(shape));
                prop_assert!(capacity > 0);
                prop_assert!(shape.group_blocks() <= group_blocks);
                prop_assert_eq!(u64::from(unit), Shape::unit_of(stripe));
            }
        }
    }
}
