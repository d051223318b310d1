//! The orders in which passes go over the stripes.

use super::heat::Heat;
use crate::meta::{BitMap, Ranges};

/// In which order what a member had is brought back, by a rebuild or on the distributed spare.
#[derive(Debug)]
pub struct RebuildOrder {
    /// What operators call it.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The next of the ranges that are not gone over yet.
    choose: fn(&Heat, &Ranges) -> Option<u64>,
    /// Whether stripes that a read has to be reconstructed of come before all others.
    pub(super) on_demand: bool,
}

/// All orders, the default first.
pub static REBUILD_ORDERS: [RebuildOrder; 4] = [
    RebuildOrder {
        name: "demand",
        about: "what reads have to reconstruct, then from the first stripe to the last",
        choose: by_place,
        on_demand: true,
    },
    RebuildOrder {
        name: "sequential",
        about: "from the first stripe to the last, as md does",
        choose: by_place,
        on_demand: false,
    },
    RebuildOrder {
        name: "popular",
        about: "what is asked for most, as it was counted before and meanwhile",
        choose: by_heat,
        on_demand: false,
    },
    RebuildOrder {
        name: "evenkeel",
        about: "what reads have to reconstruct, then what is asked for most",
        choose: by_heat,
        on_demand: true,
    },
];

impl RebuildOrder {
    /// The order of that name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        REBUILD_ORDERS.iter().find(|order| order.name == name)
    }

    /// From the first stripe to the last.
    pub(super) fn sequential() -> &'static Self {
        &REBUILD_ORDERS[1]
    }
}

impl Default for &'static RebuildOrder {
    fn default() -> Self {
        &REBUILD_ORDERS[0]
    }
}

impl PartialEq for RebuildOrder {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for RebuildOrder {}

fn by_place(_: &Heat, gone: &Ranges) -> Option<u64> {
    gone.first_missing()
}

fn by_heat(heat: &Heat, gone: &Ranges) -> Option<u64> {
    heat.hottest(gone)
}

/// Which stripes a pass does, and which comes after which.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course<'a> {
    pub(super) order: &'static RebuildOrder,
    /// What users ask for.
    pub(super) heat: &'a Heat,
    /// The regions that are to be done; all if not given.
    pub(super) only: Option<Only<'a>>,
}

/// Marked regions. Those that are done may be taken out meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Only<'a> {
    pub(super) regions: &'a BitMap,
    /// How many stripes a region has.
    pub(super) region_stripes: u64,
}

impl Course<'_> {
    /// The next range, of those that are not gone over yet.
    pub(super) fn choose(&self, gone: &Ranges) -> Option<u64> {
        (self.order.choose)(self.heat, gone)
    }

    /// The first stripe that is to be done, from one on and before another, or that other one.
    pub(super) fn next(&self, from: u64, to: u64) -> u64 {
        let Some(Only { regions, region_stripes, .. }) = self.only else { return from };
        let region = (from / region_stripes).min(regions.len());
        let next = regions.next_set(region).map(|region| (region * region_stripes).max(from));
        next.map_or(to, |next| next.min(to))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::meta::MapKind;
    use crate::units::Stripe;

    #[test]
    fn each_order_goes_over_all_ranges_once() {
        let mut heat = Heat::new(5, &[]);
        [4, 1, 4].into_iter().for_each(|stripe| heat.note(Stripe(stripe)));
        let ranges = |order| {
            let course = Course { order, heat: &heat, only: None };
            let mut gone = Ranges::none(5);
            let next = core::iter::from_fn(|| {
                let range = course.choose(&gone)?;
                gone.add(range);
                Some(range)
            });
            next.collect::<Vec<_>>()
        };
        for order in &REBUILD_ORDERS {
            let popular = matches!(order.name, "popular" | "evenkeel");
            assert_eq!(ranges(order), if popular { [4, 1, 0, 2, 3] } else { [0, 1, 2, 3, 4] });
            assert_eq!(RebuildOrder::named(order.name), Some(order));
        }
        assert_eq!(RebuildOrder::sequential().name, "sequential");
    }

    #[test]
    fn stripes_of_marked_regions_come_and_no_others() {
        let mut regions = BitMap::new(MapKind::Bitmap, 4);
        regions.set(1);
        regions.set(3);
        let only = Some(Only { regions: &regions, region_stripes: 3 });
        let course = Course { order: RebuildOrder::sequential(), heat: &Heat::new(11, &[]), only };
        let mut from = 0;
        let mut done = Vec::new();
        while course.next(from, 11) < 11 {
            done.push(course.next(from, 11));
            from = course.next(from, 11) + 1;
        }
        assert_eq!(done, [3, 4, 5, 9, 10]);
        assert_eq!(course.next(6, 8), 8);
    }
}
