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
enum Loss {
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
    pub(in crate::engine) fn needs(&self, lost: Set<MemberId>) -> bool {
        self.has_devices() && self.loss(lost) == Loss::Needed
    }

    fn loss(&self, lost: Set<MemberId>) -> Loss {
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

    /// A member is gone, and its part of the log with it. Tells whether the log loses what it knows of
    /// itself: then all of it is to be void by the record of the failure.
    #[must_use]
    pub(in crate::engine) fn drop_member(&mut self, member: MemberId) -> bool {
        let is_void = self.has_devices() && self.loss(Set::one(member)) == Loss::Notes;
        let gone =
            |holders: Set<MemberId>| if is_void { Set::EMPTY } else { holders.without(member) };
        // Rings go on where they are: until the record is durable, these entries count.
        for entry in &mut self.entries {
            entry.holders = gone(entry.holders);
        }
        let ring = &mut self.rings[member.index()];
        ring.clear();
        self.trim.begin_anew(member, ring);
        self.look_at_rings();
        if self.has_devices() {
            self.thin_until = self.next;
        }
        is_void
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Log;
    use super::*;

    const DEVICES: [MemberId; 2] = [MemberId(4), MemberId(5)];

    #[test]
    fn the_last_device_that_holds_something_is_needed() {
        let mut log = Log::new(2);
        let [first, second] = DEVICES.map(Set::one);
        log.stage(0, 4);
        assert!(!log.staging.needs(first) && !log.staging.needs(second));
        assert!(log.staging.needs(first.or(second)));
        assert!(!log.staging.drop_member(DEVICES[0]), "the other has it");
        assert!(log.staging.needs(second) && log.staging.is_thin());
        let mut log = Log::new(0);
        log.stage(0, 4);
        assert!(!log.staging.needs(log.able()), "of members alone as many fail as may");
        assert!(!log.staging.drop_member(MemberId(0)) && !log.staging.is_thin());
    }

    #[test]
    fn what_is_thin_is_not_so_when_the_tail_has_passed_it() {
        let mut log = Log::new(2);
        log.stage(0, 4);
        assert!(!log.staging.drop_member(DEVICES[0]));
        log.stage(1, 4);
        log.bring_home(0, 4);
        log.flush();
        assert!(log.staging.is_thin() && log.tell() && !log.staging.is_thin());
    }

    #[test]
    fn a_log_of_nothing_but_notes_is_void_with_the_last_that_has_them() {
        let mut log = Log::new(2);
        log.stage(0, 4);
        log.bring_home(0, 4);
        log.flush();
        assert!(log.tell());
        let [one, other, third] = [0, 1, 2].map(MemberId);
        assert!(!log.staging.drop_member(one), "the other knows");
        assert!(!log.staging.needs(Set::one(other)), "the log can be void instead");
        assert!(log.staging.drop_member(other), "nobody knows");
        assert!(!log.staging.drop_member(third), "nothing more can be lost");
    }
}
