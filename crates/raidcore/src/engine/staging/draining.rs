//! The log is emptied: before a new member may count on it, before stripes get other numbers, or before users may
//! have it again.

use super::Staging;

/// How far that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Draining {
    /// It is not emptied.
    No,
    /// Entries before this one were made, or under way, when that began.
    From(u64),
    /// Nothing is staged, and an entry that was made since has told so.
    Told,
}

impl Staging {
    /// It is to be emptied.
    pub(in crate::engine) fn drain(&mut self) {
        if self.draining == Draining::No {
            self.draining = Draining::From(self.next);
        }
    }

    /// It need not be emptied any more, or is.
    pub(in crate::engine) fn end_drain(&mut self) {
        self.draining = Draining::No;
    }

    /// Nothing is staged, and no entry would be found after a crash.
    pub(in crate::engine) fn is_drained(&self) -> bool {
        self.dirty == 0 && self.table.is_empty() && self.draining == Draining::Told
    }

    /// An entry is durable that tells that all before it is void. What was under way when the log began to be
    /// emptied may be followed by others that were, too.
    pub(super) fn tells_of_all(&mut self, number: u64) {
        if let Draining::From(first) = self.draining
            && number >= first
            && self.table.is_empty()
        {
            self.draining = Draining::Told;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Log;
    use crate::units::Set;

    #[test]
    fn an_entry_that_was_under_way_does_not_tell_that_a_log_is_drained() {
        let mut log = Log::new(0);
        log.stage(0, 1);
        log.bring_home(0, 1);
        log.flush();
        let tiers = [log.able(), Set::EMPTY, Set::EMPTY];
        let tail = log.staging.begin_tail(tiers, false).expect("there are enough");
        // It tells of all before it, and this comes after it.
        let number = log.begin(1, 1, Set::EMPTY);
        log.staging.drain();
        assert!(log.staging.tail_stored().is_none() && log.staging.tail_stored() == Some(tail));
        log.staging.advance(tail, None, &log.layout);
        assert!(!log.staging.is_drained(), "something is on its way to the log");
        log.staging.stored(number, &[], &log.layout);
        log.bring_home(1, 1);
        log.flush();
        assert!(log.tell() && log.staging.is_drained());
    }

    #[test]
    fn a_log_is_drained_only_when_that_was_told_since_it_was_to_be() {
        let mut log = Log::new(0);
        log.stage(0, 1);
        log.staging.drain();
        log.bring_home(0, 1);
        assert!(!log.staging.is_drained(), "a start would find it");
        log.flush();
        assert!(log.tell() && log.staging.is_drained());
        assert!(!log.staging.has_tail_to_tell());
        log.staging.end_drain();
        log.staging.drain();
        assert!(!log.staging.is_drained() && log.tell(), "others may have it now");
        assert!(log.staging.is_drained());
    }
}
