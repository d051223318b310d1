//! One window after the other.

use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;
use raidcore::units::{MemberId, Set};

use super::{Collect, Flash, Limits, Order, Told};

/// Members that tell whether they are in a window, but nothing of their space.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Windows {
    /// Which they are.
    pub members: Set<MemberId>,
    /// How long the windows of each have to be at the least.
    pub least: Duration,
}

/// Every member has windows of time in which only it may collect: the busy windows of IODA (Li et
/// al., "IODA: A Host/Device Co-Design for Strong Predictability Contract on Modern Flash Storage",
/// SOSP 2021). Unlike turns, windows come round whether there is something to collect or not, so
/// members need not report their state: those that don't collect in theirs by their own thresholds.
#[derive(Debug)]
pub struct Window {
    limits: Vec<Limits>,
    /// Those that are told when their window opens.
    told_windows: Set<MemberId>,
    length: Duration,
    /// The member whose window is open, and since when.
    open: Option<(Instant, usize)>,
    told: Told,
}

/// The length of a window. IODA's are from 26 ms to some seconds, depending on the drive's spare
/// blocks.
const LENGTH: Duration = Duration::from_millis(100);

impl Window {
    /// For members with these limits.
    #[must_use]
    pub fn new(limits: Vec<Limits>) -> Self {
        let (told_windows, length) = (Set::EMPTY, LENGTH);
        Self { limits, told_windows, length, open: None, told: Told::default() }
    }

    /// With windows that suit these members, too, and of which they are told: they are to collect as long as
    /// theirs is open.
    #[must_use]
    pub fn suits(self, windows: Windows) -> Self {
        Self { told_windows: windows.members, length: self.length.max(windows.least), ..self }
    }
}

impl Collect for Window {
    fn decide(
        &mut self,
        now: Instant,
        members: &[Flash],
        _: bool,
        order: &mut dyn FnMut(usize, Order),
    ) {
        let (since, whose) = match self.open {
            Some((since, whose)) if now - since < self.length => (since, whose % members.len()),
            Some((_, whose)) => (now, (whose + 1) % members.len()),
            None => (now, 0),
        };
        let opens = self.open != Some((since, whose));
        self.open = Some((since, whose));
        for (index, member) in members.iter().enumerate() {
            if index != whose {
                self.told.tell(index, Order::Hold, order);
            } else if self.told_windows.has(MemberId::at(index)) {
                self.told.tell(index, Order::Reach(1.0), order);
            } else if !self.limits[index].are_known() {
                self.told.tell(index, Order::Auto, order);
            } else if opens {
                // As much as it would have collected meanwhile, and no more than `stop`.
                let limits = &self.limits[index];
                let goal = limits.step(member).min(limits.stop);
                self.told.tell(index, Order::Reach(goal), order);
            }
        }
    }

    fn pause(&self) -> Duration {
        LENGTH / 4
    }
}
