//! Thresholds and modes of collection, member by member.

use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;

use super::age::{Age, MEDIUM, PRIORITY};
use super::{Collect, Flash, Limits, Order, ROUNDING, Thresholds, Told};

/// Members collect by thresholds that are given to them, and let users go before each page: the
/// pre-emptive garbage collection of Lee et al. ("Preemptible I/O Scheduling of Garbage Collection
/// for Solid State Drives", TCAD 2013) and, with ages and forcing, the age-aware one of McEwan and
/// Komsul. The members themselves decide by the thresholds when to begin (their Algorithm 2).
///
/// It needs no memory but that of [`Age`].
#[derive(Debug)]
pub struct Modes {
    limits: Vec<Limits>,
    /// None if thresholds are fixed.
    age: Option<Age>,
    /// None if each member is on its own.
    forcing: Option<Forcing>,
    /// By member, at the last look.
    before: Vec<Before>,
    told: Told,
}

/// Which members collect a block together with one that begins to: the mode controller, the
/// paper's Algorithm 3. Erases that coincide meet fewer requests than erases one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forcing {
    /// All whose dirtiest block is worth it, as it is printed. Each one that is forced begins to
    /// collect, and so forces the others.
    Printed,
    /// Of these, those that would begin soon by themselves; one that was forced forces no other.
    Near,
}

#[derive(Clone, Copy, Default, Debug)]
struct Before {
    at_work: bool,
    forced: bool,
}

/// A block is worth collecting if more than this share of its pages is invalid: the paper's `gce`,
/// if its "factor" of 15% is that.
const EFFICIENT: f64 = 0.15;

/// Members begin soon by themselves whose free blocks are within this share of their threshold:
/// two of the paper's 1,024.
const NEAR: f64 = 0.002;

impl Modes {
    /// With fixed thresholds, those of the members themselves.
    #[must_use]
    pub fn fixed(limits: Vec<Limits>) -> Self {
        Self { limits, age: None, forcing: None, before: Vec::new(), told: Told::default() }
    }

    /// With low thresholds that follow ages.
    #[must_use]
    pub fn aged(self, age: Option<Age>) -> Self {
        Self { age, ..self }
    }

    /// With members that collect together.
    #[must_use]
    pub fn forcing(self, forcing: Option<Forcing>) -> Self {
        Self { forcing, ..self }
    }

    /// The thresholds of a member now.
    fn thresholds(&self, member: usize) -> Thresholds {
        let Limits { start, hard, .. } = self.limits[member];
        match &self.age {
            None => Thresholds { low: start, medium: hard, high: hard, gce: 0.0 },
            Some(age) => {
                let low = age.low(member);
                Thresholds { low, medium: MEDIUM, high: PRIORITY * low, gce: EFFICIENT }
            }
        }
    }
}

impl Collect for Modes {
    fn decide(
        &mut self,
        _: Instant,
        members: &[Flash],
        _: bool,
        order: &mut dyn FnMut(usize, Order),
    ) {
        if let Some(age) = &mut self.age {
            age.look(members);
        }
        for member in (0..members.len()).filter(|&member| self.limits[member].are_known()) {
            let thresholds = self.thresholds(member);
            self.told.tell(member, Order::Thresholds(thresholds), order);
        }
        let Some(forcing) = self.forcing else { return };
        self.before.resize(members.len(), Before::default());
        let begins = |(now, before): (&Flash, &Before)| {
            let forces = forcing == Forcing::Printed || !before.forced;
            now.at_work && !before.at_work && forces
        };
        let anyone = members.iter().zip(&self.before).any(begins);
        for (index, member) in members.iter().enumerate() {
            let soon = match forcing {
                Forcing::Printed => true,
                Forcing::Near => member.free <= self.thresholds(index).low + NEAR + ROUNDING,
            };
            let before = self.before[index];
            let forced = anyone && soon && !member.at_work && member.dirtiest > EFFICIENT;
            if forced {
                order(index, Order::Once { gce: EFFICIENT });
            }
            let goes_on = before.forced && (member.at_work || !before.at_work);
            self.before[index] = Before { at_work: member.at_work, forced: forced || goes_on };
        }
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(10)
    }

    fn threshold(&self, member: usize) -> Option<f64> {
        (member < self.limits.len()).then(|| self.thresholds(member).low)
    }
}
