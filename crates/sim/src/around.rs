//! Where requests go in worlds with busy members.

use std::time::Duration;

use det::Instant;
use raidcore::engine::{Detour, Hold, Redirect, SteeringPolicy};
use raidcore::units::{Lba, MemberId};

use crate::hold::AnyOrder;
use crate::scenario::Scenario;

/// The policy of an engine with busy members.
pub(crate) fn around(scenario: &Scenario) -> Option<Box<dyn SteeringPolicy>> {
    (scenario.busy > 0).then(|| Box::new(Around::of(scenario)) as Box<dyn SteeringPolicy>)
}

/// Reads go around busy members, or are hedged. Most writes that would have to wait are staged, and so are some that
/// take long at home; in some worlds also every other one that would not wait, and they come home in another order,
/// or after a lull.
struct Around {
    asked: u64,
    stored: u64,
    sent_home: u64,
    calm: bool,
    orders: bool,
    lull: Duration,
}

impl Around {
    fn of(scenario: &Scenario) -> Self {
        let often = scenario.busy > 8;
        let waits = scenario.busy > 1 && !scenario.tags.is_multiple_of(2);
        let lull = Duration::from_micros(if waits { 300 } else { 0 });
        let calm = often && scenario.page_bits == 0;
        Self { asked: 0, stored: 0, sent_home: 0, calm, orders: often, lull }
    }
}

impl SteeringPolicy for Around {
    fn takes(&mut self, _: Instant, _: Detour) -> bool {
        true
    }

    fn patience(&mut self, _: Instant, blocks: u32) -> Option<Duration> {
        self.asked += 1;
        // From zero to more than most reads take.
        let micros = [0, 20, 100, 500, 2000][(self.asked % 5) as usize];
        (self.asked % 4 != u64::from(blocks % 4)).then_some(Duration::from_micros(micros))
    }

    fn write_patience(&mut self, _: Instant, _: u32) -> Option<Duration> {
        self.stored += 1;
        let micros = [0, 50, 300, 1000][(self.stored / 2 % 4) as usize];
        self.stored.is_multiple_of(2).then_some(Duration::from_micros(micros))
    }

    fn home_patience(&mut self, _: Instant, _: u32) -> Option<Duration> {
        self.sent_home += 1;
        let micros = [0, 20, 100, 300, 1000][(self.sent_home / 2 % 5) as usize];
        self.sent_home.is_multiple_of(2).then_some(Duration::from_micros(micros))
    }

    fn hedges_write(&mut self, _: Instant, _: Redirect) -> bool {
        !self.sent_home.is_multiple_of(9)
    }

    fn keeps(&mut self, _: Instant, _: MemberId, _: Lba, _: u32) -> bool {
        self.asked += 1;
        !self.asked.is_multiple_of(4)
    }

    fn hold(&self) -> Option<Box<dyn Hold>> {
        self.orders.then(|| Box::<AnyOrder>::default() as Box<dyn Hold>)
    }

    fn lull(&self) -> Duration {
        self.lull
    }

    fn stages_calm(&self) -> bool {
        self.calm
    }

    fn stages(&mut self, _: Instant, redirect: Redirect) -> bool {
        self.asked += 1;
        if self.calm && !redirect.busy && !redirect.staged && !redirect.rebuilds {
            return self.asked.is_multiple_of(2);
        }
        !self.asked.is_multiple_of(if redirect.staged { 3 } else { 7 })
    }
}
