//! The orders in which passes go over the stripes.

use crate::meta::BitMap;

/// Which stripes a pass does, and which comes after which.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order<'a> {
    /// All, from the first to the last.
    All,
    /// Those of marked regions, from the first to the last.
    Regions {
        /// The regions. Those that are done may be taken out meanwhile.
        regions: &'a BitMap,
        /// How many stripes a region has.
        region_stripes: u64,
        /// Whether a gap is only gone over when nothing before it is under way.
        leaps: bool,
    },
}

impl Order<'_> {
    /// The first stripe that is to be done, from this one on; `total` if there is none.
    pub(super) fn next(&self, from: u64, total: u64) -> u64 {
        match *self {
            Order::Regions { regions, region_stripes, .. } if from < total => {
                let region = (from / region_stripes).min(regions.len());
                let next = regions.next_set(region);
                next.map_or(total, |region| (region * region_stripes).max(from))
            }
            Order::All | Order::Regions { .. } => from,
        }
    }

    /// Whether a gap is only gone over when nothing before it is under way.
    pub(super) fn leaps(&self) -> bool {
        matches!(self, Order::Regions { leaps: true, .. })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::meta::MapKind;

    #[test]
    fn all_stripes_come_one_after_the_other() {
        assert_eq!((0..3).map(|from| Order::All.next(from, 2)).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn stripes_of_marked_regions_come_and_no_others() {
        let mut regions = BitMap::new(MapKind::Bitmap, 4);
        regions.set(1);
        regions.set(3);
        let order = Order::Regions { regions: &regions, region_stripes: 3, leaps: false };
        let mut from = 0;
        let mut done = Vec::new();
        while order.next(from, 11) < 11 {
            done.push(order.next(from, 11));
            from = order.next(from, 11) + 1;
        }
        assert_eq!(done, [3, 4, 5, 9, 10]);
    }
}
