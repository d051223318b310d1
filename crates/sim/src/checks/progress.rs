//! Progress: everything ends within bounds that a correct run never reaches.

use crate::world::World;

/// The rest of a number of events.
pub(crate) struct Bound {
    left: u32,
    what: &'static str,
}

impl Bound {
    /// At most `events` events until `what`.
    pub(crate) fn new(what: &'static str, events: u32) -> Self {
        Self { left: events, what }
    }

    /// One more event.
    pub(crate) fn spend(&mut self, world: &World) {
        assert!(
            self.left > 0,
            "it takes for ever until {}: {:?}",
            self.what,
            world.engine().status()
        );
        self.left -= 1;
    }
}

impl World {
    /// Ends one operation, or lets time pass.
    pub(crate) fn proceed(&mut self) {
        if self.is_busy() {
            self.complete_any();
        } else {
            self.pass_time();
        }
    }

    /// Runs until nothing is under way.
    pub(crate) fn drain(&mut self) {
        let mut bound = Bound::new("all is quiet", 1_000_000);
        // An array that can't even be started never serves.
        let waits = |world: &Self| {
            let starts = !world.engine().is_serving() && !world.beyond;
            starts || world.requests.iter().any(Option::is_some)
        };
        while self.is_busy() || waits(self) {
            self.proceed();
            bound.spend(self);
        }
    }
}
