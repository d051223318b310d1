//! What the host has ordered about collection, in whole blocks and pages.

use super::Ssd;
use super::api::{GcMode, GcOrder, Thresholds};
use super::work::NONE;
use crate::profile::{Preempt, Profile};

/// The order that stands, and one block besides.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    order: GcOrder,
    /// Free blocks per plane that [`GcOrder::Reach`] wants.
    reach: u32,
    /// What [`GcOrder::Thresholds`] says.
    levels: Option<Levels>,
    /// The plane of which [`GcOrder::Once`] wants a block.
    once: Option<u32>,
}

/// [`Thresholds`] of a plane's free blocks.
#[derive(Clone, Copy, Debug)]
struct Levels {
    low: u32,
    medium: u32,
    high: u32,
    /// The fewest invalid pages of a victim above `medium`.
    gain: u32,
}

impl Levels {
    /// At most as many free blocks are wanted as the drive can have. Levels that are out of order
    /// are lowered.
    fn of(thresholds: Thresholds, profile: &Profile) -> Self {
        let Thresholds { low, medium, high, gce } = thresholds;
        let level = |share| in_blocks(share, profile);
        let (low, medium) = (level(low), level(medium).min(level(low)));
        Self { low, medium, high: level(high).min(medium), gain: more_than(gce, profile) }
    }
}

/// A share of a plane's blocks, of which at most as many can be free as the drive has to spare.
fn in_blocks(share: f64, profile: &Profile) -> u32 {
    let most = profile.spare_blocks().saturating_sub(profile.blocks_at_work());
    profile.share(share.clamp(0.0, 1.0)).min(most)
}

/// The fewest pages that are more than this share of a block.
fn more_than(gce: f64, profile: &Profile) -> u32 {
    (gce.clamp(0.0, 1.0) * f64::from(profile.sizes().data_pages)) as u32 + 1
}

impl Orders {
    fn set(&mut self, order: GcOrder, profile: &Profile) {
        self.order = order;
        (self.reach, self.levels) = match order {
            GcOrder::Reach(share) => (in_blocks(share, profile), None),
            GcOrder::Thresholds(thresholds) => (0, Some(Levels::of(thresholds, profile))),
            GcOrder::Auto | GcOrder::Hold | GcOrder::AllowUntil(_) | GcOrder::Once { .. } => {
                (0, None)
            }
        };
    }

    /// Whether the drive decides by itself.
    pub(super) fn are_none(&self) -> bool {
        self.order == GcOrder::Auto && self.once.is_none()
    }

    /// Whether the drive may collect by its own thresholds.
    pub(super) fn allow(&self, now: u64) -> bool {
        match self.order {
            GcOrder::Auto => true,
            GcOrder::Hold | GcOrder::Reach(_) | GcOrder::Thresholds(_) | GcOrder::Once { .. } => {
                false
            }
            GcOrder::AllowUntil(end) => now < end.0,
        }
    }

    /// The level at which a plane is low, instead of the profile's.
    pub(super) fn low(&self) -> Option<u32> {
        self.levels.map(|levels| levels.low)
    }

    /// Whether a plane is to be collected, whether operations wait or not.
    pub(super) fn want(&self, plane: u32, free: u32) -> bool {
        free < self.reach || self.once == Some(plane)
    }

    /// Whether what was begun in a plane may go on in the middle of a unit.
    pub(super) fn let_go_on(&self, plane: u32, free: u32) -> bool {
        self.levels.is_some() || self.want(plane, free)
    }

    /// The fewest invalid pages of a victim.
    pub(super) fn gain(&self, plane: u32, free: u32) -> u32 {
        match self.levels {
            Some(levels) if free > levels.medium && self.once != Some(plane) => levels.gain,
            _ => 0,
        }
    }

    /// Whether operations of the host go before the steps of a plane's collection, if the order
    /// says it.
    pub(super) fn preempt(&self, plane: u32, free: u32) -> Option<Preempt> {
        if self.once == Some(plane) {
            return Some(Preempt::Page);
        }
        let levels = self.levels?;
        Some(if free <= levels.high { Preempt::Never } else { Preempt::Page })
    }

    /// A block of `plane` has been erased. True if it was the one that was ordered.
    pub(super) fn erased(&mut self, plane: u32) -> bool {
        self.once.take_if(|once| *once == plane).is_some()
    }
}

impl Ssd {
    pub(super) fn take_order(&mut self, order: GcOrder) {
        if let GcOrder::Once { gce } = order {
            let once = self.worth_collecting(more_than(gce, &self.profile));
            self.gc.orders.once = self.gc.orders.once.or(once);
            return;
        }
        let levels = self.gc.orders.levels.is_some();
        self.gc.orders.set(order, &self.profile);
        if levels || self.gc.orders.levels.is_some() {
            (0..self.geometry().planes).for_each(|plane| self.forget_low(plane));
        }
    }

    /// The plane that has the dirtiest block of those that are not being collected, if that block
    /// has at least `gain` invalid pages.
    fn worth_collecting(&mut self, gain: u32) -> Option<u32> {
        let mut best = None;
        for plane in 0..self.geometry().planes {
            let die = self.geometry().die_of(plane);
            let invalid = self.ftl.dirtiest(plane).unwrap_or(0);
            if self.dies[die as usize].gc.plane != plane
                && best.is_none_or(|(most, _)| invalid > most)
                && self.ftl.can_collect(plane, gain)
            {
                best = Some((invalid, plane));
            }
        }
        best.map(|(_, plane)| plane)
    }

    /// How a plane's collection treats the host.
    pub(super) fn preempt(&self, plane: u32) -> Preempt {
        let by_order = self.gc.orders.preempt(plane, self.ftl.free_blocks(plane));
        by_order.unwrap_or(self.gc.preempt)
    }

    /// How the drive collects: normally, if one of its dies does.
    #[must_use]
    pub fn gc_mode(&self) -> GcMode {
        let planes = self.dies.iter().map(|die| die.gc.plane).filter(|&plane| plane != NONE);
        let modes = planes.map(|plane| match self.preempt(plane) {
            Preempt::Page if self.ftl.free_blocks(plane) > self.gc.hard => GcMode::PreEmptive,
            Preempt::Page | Preempt::Block | Preempt::Never => GcMode::Normal,
        });
        modes.min().unwrap_or(GcMode::None)
    }
}
