//! Bringing home what is staged (the paper's reclaim, section III-D): stripe by stripe, oldest
//! first, all that is staged of a stripe at once, so that what follows each other is one write.

use core::time::Duration;

use det::Instant;

use super::{Entry, Kind, Staging};
use crate::geometry::Layout;
use crate::units::{Lba, MemberId, Set, Stripe};

/// Stripes that are reclaimed at once if room is wanted; one if not, and users want nothing or what
/// they write has gone home for a while.
const HASTE: usize = 8;

/// Entries that are looked at for one whose members are calm.
const LOOK: usize = 64;

/// How much room in the log is wanted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::engine) enum Haste {
    /// There is enough: busy members are left alone, and users too.
    No,
    /// There will not be enough: as much comes home as can without busy members.
    Soon,
    /// There is not enough: it comes home even if members are busy.
    Now,
}

impl Staging {
    /// How much room is wanted; `anyway` if all is to come home whatever room there is.
    pub(in crate::engine) fn haste(&self, anyway: bool) -> Haste {
        let (used, len) = self.used();
        let waited_for = self.starved || self.draining || self.is_thin();
        match () {
            () if anyway || waited_for || 4 * used > 3 * len => Haste::Now,
            () if 2 * used > len => Haste::Soon,
            () => Haste::No,
        }
    }

    /// Whether nothing was staged for so long: then it comes home by and by, whatever users want.
    pub(in crate::engine) fn stages_no_more(&self, now: Instant, delay: Duration) -> bool {
        now >= self.staged_at + delay
    }

    /// The next stripe to be reclaimed: the oldest that can come home now, if no others are under way
    /// than may be at once. Busy members are left alone as long as there is room: a request to the stripe
    /// would have to wait for them, too. Without haste one comes home at a time, if it `may`.
    pub(in crate::engine) fn next_to_reclaim(
        &mut self,
        haste: Haste,
        may: bool,
        busy: Set<MemberId>,
        geo: &Layout,
    ) -> Option<Stripe> {
        let window = if haste == Haste::No { usize::from(may) } else { HASTE };
        let full = self.reclaiming.len() >= window;
        if full || self.dirty == 0 || self.blocked && haste < Haste::Now {
            return None;
        }
        self.skip_clean();
        let wanted = |entry: &&Entry| {
            entry.kind == Kind::Data
                && entry.dirty > 0
                && !self.stuck.contains(&entry.stripe)
                && !self.reclaiming.contains(&entry.stripe)
        };
        let calm = |entry: &&Entry| entry.is_calm(busy, geo);
        let mut found = self.undone().filter(wanted).take(LOOK).find(calm);
        if haste == Haste::Now {
            found = found.or_else(|| self.undone().find(wanted));
        }
        let found = found.map(|entry| entry.stripe);
        self.blocked = found.is_none() && !busy.is_empty();
        found
    }

    /// The entries from the first on that may not be at home.
    fn undone(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().skip(self.first_dirty.saturating_sub(self.front()) as usize)
    }

    /// Passes by what is at home, which stays so.
    fn skip_clean(&mut self) {
        let clean = self.undone().take_while(|entry| entry.done && entry.dirty == 0).count();
        self.first_dirty = self.first_dirty.max(self.front()) + clean as u64;
    }

    /// Other members are busy, or something else is staged: what could not be reclaimed perhaps can be now.
    pub(in crate::engine) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// A stripe is being reclaimed.
    pub(in crate::engine) fn begin_reclaim(&mut self, stripe: Stripe) {
        self.reclaiming.push(stripe);
    }

    /// A reclaim is put off until none of these is busy.
    pub(in crate::engine) fn put_off(&mut self, stripe: Stripe, waits_for: Set<MemberId>) {
        for entry in self.entries.iter_mut().filter(|entry| entry.stripe == stripe) {
            entry.waits_for = waits_for;
        }
    }

    /// A reclaim has ended that has brought these blocks home; tells how many they are.
    pub(in crate::engine) fn reclaimed(
        &mut self,
        stripe: Stripe,
        lbas: impl Iterator<Item = Lba>,
    ) -> u64 {
        self.end_reclaim(stripe);
        let (mut lbas, mut blocks) = (lbas.peekable(), 0);
        self.homes += u64::from(lbas.peek().is_some());
        for lba in lbas {
            self.clean(lba);
            blocks += 1;
        }
        blocks
    }

    /// A reclaim has ended that could not bring its stripe home.
    pub(in crate::engine) fn reclaim_failed(&mut self, stripe: Stripe) {
        self.end_reclaim(stripe);
        self.stuck.push(stripe);
    }

    fn end_reclaim(&mut self, stripe: Stripe) {
        self.blocked = false;
        self.reclaiming.retain(|&other| other != stripe);
    }

    /// Whether something can't be brought home.
    pub(in crate::engine) fn is_stuck(&self) -> bool {
        !self.stuck.is_empty()
    }

    /// What was stuck may not be any more.
    pub(in crate::engine) fn try_again(&mut self) {
        self.stuck.clear();
    }

    /// The same, in a stripe.
    pub(super) fn try_stripe_again(&mut self, stripe: Stripe) {
        self.stuck.retain(|&other| other != stripe);
    }

    // What has come home is flushed there.

    /// Whether a flush is to begin, so that what has come home is there for good.
    pub(in crate::engine) fn begins_flush(&mut self) -> bool {
        let waits =
            |entry: &Entry| entry.done && entry.dirty == 0 && entry.home > self.durable_homes;
        let begins = !self.flushing && self.entries.iter().take(LOOK).any(waits);
        self.flushing |= begins;
        begins
    }

    /// How many homecomings a flush that begins now makes durable.
    pub(in crate::engine) fn mark(&self) -> u64 {
        self.homes
    }

    /// A flush has ended that began at a mark.
    pub(in crate::engine) fn flushed(&mut self, mark: u64, good: bool) {
        self.flushing = false;
        if good {
            self.durable_homes = self.durable_homes.max(mark);
        }
    }

    // What a start has found.

    /// Whether all that can come home has.
    pub(in crate::engine) fn is_home(&self) -> bool {
        self.dirty == 0 && self.reclaiming.is_empty()
    }

    /// After this flush all that a start has found is at home for good.
    pub(in crate::engine) fn void_after(&mut self, flush: u64) {
        self.voiding = Some(flush);
    }

    /// The flush after which all that a start has found is at home for good, once it has begun.
    pub(in crate::engine) fn voiding_flush(&self) -> Option<u64> {
        self.voiding
    }
}

impl Entry {
    /// Whether no member is busy to which its blocks and their parity go, nor one that it waits for.
    fn is_calm(&self, busy: Set<MemberId>, geo: &Layout) -> bool {
        let parities = geo.of(self.stripe).spare_roles();
        let mut roles = parities.chain(self.runs.iter().map(|run| run.role));
        self.waits_for.and(busy).is_empty()
            && roles.all(|role| !busy.has(geo.member(self.stripe, role)))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::tests::Log;
    use super::*;
    use crate::geometry::Role;

    fn next(log: &mut Log, haste: Haste, busy: Set<MemberId>) -> Option<u64> {
        let stripe = log.staging.next_to_reclaim(haste, true, busy, &log.layout);
        stripe.map(|stripe| stripe.0)
    }

    #[test]
    fn the_oldest_comes_home_first_and_each_once() {
        let mut log = Log::new(0);
        for stripe in [5, 2, 5, 9] {
            log.stage(stripe, 1);
        }
        // The first of all was written over since.
        for stripe in [2, 5, 9] {
            assert_eq!(next(&mut log, Haste::Soon, Set::EMPTY), Some(stripe));
            log.staging.begin_reclaim(Stripe(stripe));
        }
        assert_eq!(next(&mut log, Haste::Soon, Set::EMPTY), None);
        assert_eq!(next(&mut log, Haste::No, Set::EMPTY), None, "one at a time");
        log.bring_home(5, 1);
        log.staging.reclaim_failed(Stripe(2));
        log.staging.reclaim_failed(Stripe(9));
        assert_eq!(next(&mut log, Haste::Now, Set::EMPTY), None, "they are stuck");
        log.stage(9, 1);
        assert_eq!(next(&mut log, Haste::No, Set::EMPTY), Some(9), "it was written since");
        log.staging.try_again();
        assert_eq!(next(&mut log, Haste::No, Set::EMPTY), Some(2));
        assert!(log.staging.next_to_reclaim(Haste::No, false, Set::EMPTY, &log.layout).is_none());
    }

    #[test]
    fn busy_members_are_left_alone_as_long_as_there_is_room() {
        let mut log = Log::new(0);
        log.stage(0, 1);
        let home = log.layout.member(Stripe(0), Role(0));
        let parity = log.layout.of(Stripe(0)).spare_roles().next().expect("it has one");
        for busy in [home, log.layout.member(Stripe(0), parity)].map(Set::one) {
            log.staging.unblock();
            assert_eq!(next(&mut log, Haste::Soon, busy), None);
            assert_eq!(next(&mut log, Haste::Soon, Set::EMPTY), None, "it is not looked at again");
            assert_eq!(next(&mut log, Haste::Now, busy), Some(0));
        }
        let other = log.layout.member(Stripe(0), Role(1));
        log.staging.unblock();
        assert_eq!(next(&mut log, Haste::Soon, Set::one(other)), Some(0));
        log.staging.put_off(Stripe(0), Set::one(other));
        assert_eq!(next(&mut log, Haste::Soon, Set::one(other)), None, "it would need it");
    }

    #[test]
    fn haste_grows_with_what_is_used_and_with_who_waits() {
        let mut log = Log::new(0);
        assert!(log.staging.haste(false) == Haste::No && log.staging.haste(true) == Haste::Now);
        let mut seen = Vec::new();
        for stripe in 0..16 {
            log.stage(stripe, 7);
            let (used, len) = log.staging.used();
            seen.push((4 * used / len, log.staging.haste(false)));
            if 4 * used > 3 * len {
                break;
            }
        }
        assert!(seen.iter().all(|&(quarters, haste)| match quarters {
            0 | 1 => haste == Haste::No,
            2 => haste != Haste::Now,
            _ => haste >= Haste::Soon,
        }));
        assert_eq!(seen.last().map(|&(_, haste)| haste), Some(Haste::Now));
        assert!(seen.iter().any(|&(_, haste)| haste == Haste::Soon));
        let mut log = Log::new(0);
        log.staging.drain();
        assert_eq!(log.staging.haste(false), Haste::Now);
    }

    #[test]
    fn what_did_not_come_home_stays_dirty() {
        let mut log = Log::new(0);
        log.stage(0, 4);
        log.bring_home(0, 3);
        assert_eq!((log.staging.dirty(), log.staging.staged()), (1, 4));
        assert!(!log.staging.is_home() && !log.staging.begins_flush());
        assert_eq!(next(&mut log, Haste::No, Set::EMPTY), Some(0));
        assert!(!log.staging.stages_no_more(Instant(16), Duration::from_nanos(10)));
        assert!(log.staging.stages_no_more(Instant(17), Duration::from_nanos(10)));
        log.staging.check();
    }
}
