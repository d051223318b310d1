//! Arrays that become others: begun at a start after a clean stop, with all members there.

use raidcore::meta::{Assembled, ReshapeError, Target};

use crate::scenario::{Becomes, placement};
use crate::world::{World, payload};

impl World {
    /// Sees to it that the array can be reshaped after a stop, if it is to be; tells whether it is.
    pub(crate) fn prepares_to_reshape(&mut self) -> bool {
        let Some(Becomes { more, .. }) = self.scenario.reshape.filter(|_| !self.has_begun) else {
            return false;
        };
        self.heal(Self::is_whole);
        while self.engine().spares().count() < more {
            let spare = self.new_spare();
            self.command(spare);
            self.drain();
        }
        self.drain();
        true
    }

    /// Begins to reshape an array that is being started, if it is to be and can be.
    pub(crate) fn begin_reshape(&mut self, assembled: &mut Assembled) {
        let Some(becomes) = self.scenario.reshape else { return };
        let from = assembled.record.geometry;
        // A crash may have come before the beginning was on record.
        (self.scenario.level, self.scenario.members) = (from.level(), from.members());
        self.has_begun &= (from.level(), from.members()) == self.target;
        if self.has_begun {
            return;
        }
        let members = from.members() + becomes.more;
        let target = Target {
            level: Some(becomes.level),
            members: Some(members),
            placement: Some(placement(becomes.level, members, becomes.placement)),
        };
        match assembled.begin_reshape(&target) {
            Ok(_) => {
                self.trace(format_args!("it becomes {target:?}"));
                (self.scenario.level, self.scenario.members) = (becomes.level, members);
                self.target = (becomes.level, members);
                self.has_begun = true;
            }
            Err(
                ReshapeError::Degraded
                | ReshapeError::Unclean
                | ReshapeError::Spares { .. }
                | ReshapeError::Nothing
                | ReshapeError::Shrinks { .. }
                | ReshapeError::NoRoom
                | ReshapeError::Layout(_)
                | ReshapeError::Geometry(_),
            ) => {}
            Err(error) => panic!("it can't be reshaped: {error}"),
        }
    }

    /// What the array has become larger by reads as zeros.
    pub(crate) fn grow(&mut self) {
        let capacity = self.engine().layout().capacity();
        if capacity > self.model.len() {
            self.model.grow(capacity);
            let mut buffers = payload(&self.scenario, capacity).into_iter();
            for buffer in &mut self.memory.payload {
                buffer.resize(buffers.next().map_or(0, |longer| longer.len()), [0; _]);
            }
        }
    }

    /// With everything whole, a reshape that has begun is over.
    pub(crate) fn is_reshaped(&mut self) {
        let frontier = self.engine().layout().frontier();
        assert_eq!(frontier, None, "it comes to its end: {:?}", self.engine().status());
        self.summary.reshaped += u64::from(self.has_begun) * self.engine().layout().stripes();
    }
}
