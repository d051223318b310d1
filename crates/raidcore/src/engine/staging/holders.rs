//! What becomes of the log when devices that hold its entries fail.
//!
//! An entry with data is needed as long as it is there: the last device that holds it is not given
//! up. An entry without data (a *note*: a marker or a tail) is knowledge: without it, a start would
//! take for staged what is void. Whatever later entry tells as much replaces it; and if nothing is
//! staged, the epoch of the whole log can be counted up instead, in the same change of the record
//! that says that the device has failed.

use super::{Entry, Kind, Staging};
use crate::units::{MemberId, Set};

/// What the log loses with some devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Loss {
    /// Nothing that is not on others, too.
    Nothing,
    /// Notes, in a log of nothing but notes.
    Notes,
    /// What is on no other device.
    Needed,
}

impl Staging {
    /// Whether entries may be on fewer devices than they are meant to be. Not asked where there are only
    /// members: a lost member is rebuilt, and the log is emptied before that.
    pub(in crate::engine) fn is_thin(&self) -> bool {
        self.front() < self.thin_until
    }

    /// Whether something would be lost with these devices that nothing makes up for. Of members alone,
    /// not more can be spared than each entry has to spare.
    pub(in super::super) fn needs(&self, lost: Set<MemberId>) -> bool {
        self.has_devices() && self.loss(lost) == Loss::Needed
    }

    pub(in crate::engine) fn loss(&self, lost: Set<MemberId>) -> Loss {
        let is_left = |entry: &&Entry| entry.done && !entry.holders.minus(lost).is_empty();
        let told = self.entries.iter().filter(is_left).map(|entry| entry.tail).max();
        let is_lost =
            |entry: &&Entry| !entry.holders.is_empty() && entry.holders.minus(lost).is_empty();
        let is_needed = |entry: &Entry| match entry.kind {
            Kind::Data | Kind::Marker => true,
            // One that is being written has told nothing yet.
            Kind::Tail => entry.done && told.is_none_or(|told| told < entry.tail),
        };
        match self.entries.iter().filter(is_lost).any(is_needed) {
            false => Loss::Nothing,
            true if self.has_only_notes() => Loss::Notes,
            true => Loss::Needed,
        }
    }

    /// Whether nothing is staged, nor about to be, so that all of the log may be void.
    fn has_only_notes(&self) -> bool {
        self.entries.iter().all(|entry| match entry.kind {
            Kind::Data => false,
            Kind::Marker => entry.done,
            Kind::Tail => true,
        })
    }

    /// A member is gone, and its part of the log with it.
    pub(in crate::engine) fn drop_member(&mut self, member: MemberId) {
        self.rings[member.index()].clear();
        for entry in &mut self.entries {
            entry.holders = entry.holders.without(member);
        }
        if self.has_devices() {
            self.thin_until = self.next;
        }
    }

    /// Whether there are places for staging devices.
    pub(in crate::engine) fn has_devices(&self) -> bool {
        self.rings.len() > self.members
    }
}
