//! When to look for memory to give back: only while there is any, so that an idle array sleeps.

use det::Instant;

use super::data::Data;
use crate::arena::{LOOK, LOOK_LATER, Look};

impl Data {
    /// When to look at memory next.
    pub(super) fn next_look(&mut self) -> Option<Instant> {
        if self.arena.take_stirred() {
            let soon = self.now + LOOK;
            self.look_at = Some(self.look_at.map_or(soon, |at| at.min(soon)));
        }
        self.look_at
    }

    /// Gives back what has not been used for a while, if it is time to look.
    pub(super) fn look_at_memory(&mut self) {
        if self.look_at.is_none_or(|at| at > self.now) {
            return;
        }
        let look = self.ring.look_at_memory(&mut self.arena, self.machine.free_buffers());
        self.look_at = match look {
            Look::Soon => Some(self.now + LOOK),
            Look::Later => Some(self.now + LOOK_LATER),
            Look::Never => None,
        };
    }
}
