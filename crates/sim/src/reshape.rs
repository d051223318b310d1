//! Arrays that become others: begun at a start after a clean stop, with all members there.

use std::rc::Rc;

use raidcore::meta::{Assembled, ReshapeError, Target};

use crate::scenario::{Becomes, placement};
use crate::world::{World, payload};

impl World {
    /// Sees to it that the array can become another after a stop, if it is to; tells whether it is.
    pub(crate) fn prepares_to_reshape(&mut self) -> bool {
        let reshape = self.scenario.reshape.filter(|_| !self.has_begun);
        if reshape.is_none() && (self.scenario.larger == 0 || self.enlarged.is_some()) {
            return false;
        }
        self.heal(Self::is_whole);
        let more = reshape.map_or(0, |Becomes { more, .. }| more);
        while self.engine().spares().count() < more {
            let spare = self.new_spare();
            self.command(spare);
            self.drain();
        }
        self.drain();
        true
    }

    /// Makes an array that is being started another, if it is to be and can be; tells whether it does.
    pub(crate) fn becomes_another(&mut self, assembled: &mut Assembled) -> bool {
        self.forget_what_it_becomes(assembled);
        self.begin_reshape(assembled) || self.enlarge(assembled)
    }

    /// A crash may have come before what it was to become was on record.
    pub(crate) fn forget_what_it_becomes(&mut self, assembled: &Assembled) {
        let from = assembled.record.geometry;
        let is = (from.level(), from.members(), from.chunk());
        (self.scenario.level, self.scenario.members, self.scenario.chunk) = is;
        self.has_begun &= is == self.target;
        self.enlarged = self.enlarged.filter(|&stripes| stripes <= from.stripes());
    }

    fn begin_reshape(&mut self, assembled: &mut Assembled) -> bool {
        let Some(becomes) = self.scenario.reshape.filter(|_| !self.has_begun) else { return false };
        let from = assembled.record.geometry;
        let members = from.members() + becomes.more;
        let target = Target {
            level: Some(becomes.level),
            members: Some(members),
            chunk: (becomes.chunk > 0).then_some(becomes.chunk),
            placement: Some(placement(becomes.level, members, becomes.placement)),
        };
        match assembled.begin_reshape(&target) {
            Ok(_) => {
                self.trace(format_args!("it becomes {target:?}"));
                let chunk = assembled.record.geometry.chunk();
                (self.scenario.level, self.scenario.members) = (becomes.level, members);
                self.scenario.chunk = chunk;
                self.target = (becomes.level, members, chunk);
                self.has_begun = true;
                // Stripes have other numbers.
                self.enlarged = None;
                true
            }
            Err(
                ReshapeError::Degraded
                | ReshapeError::Unclean
                | ReshapeError::Spares { .. }
                | ReshapeError::Nothing
                | ReshapeError::Shrinks { .. }
                | ReshapeError::NoRoom
                | ReshapeError::TooSmall { .. }
                | ReshapeError::Layout(_)
                | ReshapeError::Geometry(_),
            ) => false,
            Err(error) => panic!("it can't be reshaped: {error}"),
        }
    }

    fn enlarge(&mut self, assembled: &mut Assembled) -> bool {
        if self.scenario.larger == 0 || self.enlarged.is_some() {
            return false;
        }
        match assembled.enlarge() {
            Ok(()) => {
                let stripes = assembled.record.geometry.stripes();
                self.trace(format_args!("it gets {stripes} stripes"));
                self.enlarged = Some(stripes);
                self.summary.enlarged += 1;
                true
            }
            Err(
                ReshapeError::UnderWay
                | ReshapeError::Degraded
                | ReshapeError::Unclean
                | ReshapeError::TooSmall { .. }
                | ReshapeError::Layout(_),
            ) => false,
            Err(error) => panic!("it can't become larger: {error}"),
        }
    }

    /// Writes what members have to have before a start, unless the power fails amid it.
    pub(crate) fn write_maps(&mut self, assembled: &Assembled, there: &[usize]) -> bool {
        let pages: Vec<_> = assembled.relaid_maps().collect();
        let is_cut = self.source.chance(1, 3);
        let slots = assembled.slots.iter().take(assembled.record.geometry.members());
        for disk in slots.flatten().map(|&image| there[image]) {
            for (at, page) in &pages {
                if !is_cut || self.source.chance(1, 2) {
                    self.disks[disk].write_meta(at.0, Rc::new(*page), true);
                }
            }
        }
        !is_cut
    }

    /// What the array has become larger by reads as zeros, once that is on record.
    pub(crate) fn grow(&mut self) {
        let capacity = self.engine().layout().capacity();
        if capacity > self.model.len() && self.engine().is_serving() {
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
