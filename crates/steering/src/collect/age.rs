//! Who collects earlier, so that members age as they should.

use alloc::vec::Vec;

use super::{Flash, Limits};

/// The dynamic low thresholds of McEwan and Komsul, "Age Aware Pre-emptive Garbage Collection for
/// SSD RAID". Members with unequal shares of parity wear out one after the other; a member that
/// has aged less than its share of the writes says collects earlier from now on, with less garbage
/// in each block, and one that has aged more collects later.
///
/// Ages are relative to the member with the most parity, the paper's member n. Where they should be follows from
/// [`Wear`](crate::wear::Wear).
///
/// The thresholds are lost with the process, when a member is replaced, and when turns have rested. They are
/// found again from the ages, which drives remember. Ages are those of a drive's whole life: beside a new one in
/// a member's place all others are old, so thresholds stay at their ends until it has aged as much.
#[derive(Clone, Debug)]
pub struct Age {
    law: Law,
    /// The paper's `low` and `optimal`, by member.
    members: Vec<Member>,
    /// The member with the most parity.
    oldest: usize,
    /// Its age at the last update.
    seen: f64,
}

/// How thresholds follow ages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// Equations 2 and 3 and Algorithm 1 as they are printed. A member's threshold changes only
    /// if its free blocks happen to be below the old one, and then by the whole error.
    Printed,
    /// A tenth of the error each time, whatever is free. Collection keeps the free blocks at about the threshold, so
    /// the condition of Algorithm 1 would nearly always be false; and ages are sums, so that the
    /// whole error would be corrected again and again before the ages have followed.
    Damped,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    low: f64,
    optimal: f64,
    /// The room that its low threshold may take: Eq 5, which only knows the end of 0.5.
    least: f64,
    most: f64,
    /// Whether it is a member that tells its age. One that does not counts as neither old nor young.
    tells: bool,
}

/// The part of an error that the damped law corrects each time.
const GAIN: f64 = 0.1;

/// Thresholds are updated when the member with the most parity has aged by so many erases per
/// block: the paper's `period`, here 500 of its drives' 2,048 blocks.
const PERIOD: f64 = 0.25;

/// The medium threshold of the paper's experiments.
pub(super) const MEDIUM: f64 = 0.01;

/// The paper's `priorityFactor` (Eq 4): the high threshold is this part of the low one.
pub(super) const PRIORITY: f64 = 0.02;

/// How far the low threshold stays from the medium one ...
const ABOVE: f64 = 0.001;

/// ... and from the drive's last spare blocks, of which some are always open.
const BELOW: f64 = 0.02;

impl Age {
    /// For members with these limits and [optimal ages](crate::wear::optimal_ages). Each begins with the threshold
    /// that it has by itself. Staging devices come after the members, have no optimal age, and keep their own.
    #[must_use]
    pub fn new(law: Law, limits: &[Limits], optimal: &[f64]) -> Self {
        let member = |(limits, optimal): (&Limits, Option<f64>)| {
            // At the hard limit it would collect whatever it is told.
            let least = MEDIUM.max(limits.hard) + ABOVE;
            let most = (limits.spare - BELOW).max(least);
            let tells = limits.spare > 0.0 && optimal.is_some();
            let low = if tells { limits.start.clamp(least, most) } else { limits.start };
            Member { low, optimal: optimal.unwrap_or(1.0), least, most, tells }
        };
        let oldest = (0..optimal.len()).max_by(|&a, &b| optimal[a].total_cmp(&optimal[b]));
        let optimal = optimal.iter().copied().map(Some).chain(core::iter::repeat(None));
        let members = limits.iter().zip(optimal).map(member).collect();
        Self { law, members, oldest: oldest.unwrap_or(0), seen: 0.0 }
    }

    /// The low threshold of a member: a share of its blocks.
    #[must_use]
    pub fn low(&self, member: usize) -> f64 {
        self.members[member].low
    }

    /// Looks at the members' ages, and updates the thresholds if it is time.
    pub fn look(&mut self, flash: &[Flash]) {
        let oldest = flash[self.oldest].age;
        // A younger one than before is another device.
        if oldest < self.seen {
            self.seen = oldest;
        }
        if oldest - self.seen < PERIOD {
            return;
        }
        self.seen = oldest;
        let too_young = |(member, flash): (&Member, &Flash)| match member.tells {
            true => member.optimal - flash.age / oldest,
            false => 0.0,
        };
        let errors: Vec<f64> = self.members.iter().zip(flash).map(too_young).collect();
        let sum: f64 = errors.iter().sum();
        for (index, (member, flash)) in self.members.iter_mut().zip(flash).enumerate() {
            if !member.tells {
                continue;
            }
            // Of the oldest the error is always zero: it goes by the others' (Eq 3).
            let error = if index == self.oldest { -sum } else { errors[index] };
            let change = match self.law {
                Law::Printed if flash.free < member.low && flash.free > PRIORITY * member.low => {
                    error
                }
                Law::Printed => 0.0,
                Law::Damped => GAIN * error,
            };
            member.low = (member.low + change).clamp(member.least, member.most);
        }
    }
}
