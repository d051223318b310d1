//! All at once.

use core::time::Duration;

use det::Instant;

use super::{Collect, Flash, Limits, Order, Told};

/// When one member has to collect, all do: GGC, the globally coordinated collection of Kim et al.
/// ("Harmonia: A Globally Coordinated Garbage Collector for Arrays of Solid-State Drives", MSST
/// 2011), a baseline of GC-Steering. The array stalls less often, but as a whole.
#[derive(Debug)]
pub struct Global {
    limits: Limits,
    together: bool,
    told: Told,
}

impl Global {
    /// For members with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, together: false, told: Told::default() }
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
        let any = members.iter().any(|member| member.collecting);
        if any && !self.together {
            self.together = true;
            for (index, member) in members.iter().enumerate() {
                self.told.tell(index, Order::Reach(self.limits.step(member)), order);
            }
        } else if !any && self.together {
            self.together = false;
            for member in 0..members.len() {
                self.told.tell(member, Order::Auto, order);
            }
        }
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(10)
    }
}
