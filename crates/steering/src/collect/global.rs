//! All at once.

use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;

use super::{Collect, Flash, Limits, Order, ROUNDING, Told};

/// When one member has to collect, all do: GGC, the globally coordinated collection of Kim et al.
/// ("Harmonia: A Globally Coordinated Garbage Collector for Arrays of Solid-State Drives", MSST
/// 2011), a baseline of GC-Steering. The array stalls less often, but as a whole.
///
/// All are those that would have to soon. A member that has more room than it leaves by itself stays
/// out: its blocks have little garbage yet, and each time would take it further from having to.
///
/// A member is left alone as soon as it has reached its own goal. An order to reach one holds for
/// ever: a member that is written would collect for each block that it loses again. The next time
/// comes when a member begins to collect by itself.
#[derive(Debug)]
pub struct Global {
    limits: Vec<Limits>,
    /// The goal of each member that is on its way to it.
    goals: Vec<Option<f64>>,
    /// The members that collected at the last look.
    before: Vec<bool>,
    told: Told,
}

impl Global {
    /// For members with these limits.
    #[must_use]
    pub fn new(limits: Vec<Limits>) -> Self {
        Self { limits, goals: Vec::new(), before: Vec::new(), told: Told::default() }
    }
}

impl Collect for Global {
    fn decide(
        &mut self,
        _: Instant,
        members: &[Flash],
        _: bool,
        order: &mut dyn FnMut(usize, Order),
    ) {
        self.goals.resize(members.len(), None);
        self.before.resize(members.len(), false);
        let together = self.goals.iter().any(Option::is_some);
        let any = members.iter().any(|member| member.collecting);
        let begins =
            members.iter().zip(&self.before).any(|(now, before)| now.collecting && !before);
        if !together && begins {
            for (index, (member, goal)) in members.iter().zip(&mut self.goals).enumerate() {
                let limits = &self.limits[index];
                if member.free > limits.stop + ROUNDING {
                    continue;
                }
                let reach = limits.step(member);
                *goal = Some(reach);
                self.told.tell(index, Order::Reach(reach), order);
            }
        } else if together {
            for (index, (member, goal)) in members.iter().zip(&mut self.goals).enumerate() {
                if goal.is_some_and(|goal| !any || member.free >= goal - ROUNDING) {
                    *goal = None;
                    self.told.tell(index, Order::Auto, order);
                }
            }
        }
        for (before, member) in self.before.iter_mut().zip(members) {
            *before = member.collecting;
        }
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(10)
    }
}
