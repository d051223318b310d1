//! Commands of residents.
#![allow(unsafe_code)]

use super::{COMMAND, Ring};
use crate::ops::Lane;
use crate::resident::Command;

/// A resident's place among those of the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CommandSlot(pub(crate) u16);

/// A command of a resident that has completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Completed {
    pub(crate) place: CommandSlot,
    pub(crate) number: u16,
    pub(crate) result: i32,
}

impl Ring {
    /// A resident takes a place. If it is a driver's queue of this number, its commands come from one
    /// thread, which the driver trusts less from now on.
    pub(crate) fn seat(&mut self, place: CommandSlot, queue: Option<u16>) {
        let lane = queue.map_or(Lane::OWN, |queue| self.entries.lane(queue));
        if queue.is_some() {
            self.entries.give_up_sys_admin(lane);
        }
        let at = usize::from(place.0);
        self.lanes.resize(self.lanes.len().max(at + 1), Lane::OWN);
        self.lanes[at] = lane;
    }

    /// Begins a command of a resident that has its place.
    pub(crate) fn command(&mut self, place: CommandSlot, command: Command) {
        let name = |number| COMMAND | u64::from(place.0) << 16 | u64::from(number);
        let lane = self.lanes[usize::from(place.0)];
        // SAFETY: as the maker of the command has promised.
        unsafe { self.entries.push(lane, command.entry(name)) };
    }

    /// A command that has completed; every command is returned once.
    pub(crate) fn next_completed(&mut self) -> Option<Completed> {
        self.completed.pop_front()
    }
}
