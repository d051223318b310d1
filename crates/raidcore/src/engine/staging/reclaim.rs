//! Bringing home what is staged (the paper's reclaim, section III-D): stripe by stripe, oldest
//! first, all that is staged of a stripe at once, so that what follows each other is one write.

use core::time::Duration;

use det::Instant;

use super::{Draining, Entry, Kind, Staging};
use crate::engine::hold::{Hold, Ready};
use crate::geometry::{Layout, Role};
use crate::units::{Lba, MemberId, Set, Stripe};

/// Stripes that are reclaimed at once if room is wanted; one if not, and users want nothing or what
/// they write has gone home for a while.
const HASTE: usize = 8;

/// Entries that are looked at for one whose members are calm.
const LOOK: usize = 64;

/// And how many with those that are at home.
const LOOK_AT: usize = 16 * LOOK;

/// How much room in the log is wanted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::engine) enum Haste {
    /// There is enough: busy members are left alone, and users too.
    No,
    /// There will not be enough: as much comes home as can without busy members.
    Soon,
    /// There is not enough: it comes home even if members are busy.
    Now,
    /// What was staged first has to be at home, for room or for redundancy: no order is asked.
    Oldest,
}

impl Staging {
    /// How much room is wanted; `anyway` if all is to come home whatever room there is.
    pub(in crate::engine) fn haste(&self, anyway: bool) -> Haste {
        let (used, len) = self.used();
        match () {
            () if anyway || self.starved || self.draining != Draining::No || self.is_thin() => {
                Haste::Oldest
            }
            () if self.is_hurried() || 4 * used > 3 * len => Haste::Now,
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
        let window = match (haste, &self.hold) {
            (Haste::No, _) => usize::from(may),
            (Haste::Soon | Haste::Now, Some(hold)) => hold.width(),
            (Haste::Soon | Haste::Now, None) | (Haste::Oldest, _) => HASTE,
        };
        let full = self.reclaiming.len() >= window;
        if full || self.dirty == 0 || self.blocked && haste < Haste::Now {
            return None;
        }
        self.skip_clean();
        let mut hold = self.hold.take();
        let found = match &mut hold {
            Some(hold) if haste < Haste::Oldest => {
                self.next_in_order(&mut **hold, haste, busy, geo)
            }
            Some(_) | None => self.oldest(haste, busy, geo),
        };
        self.hold = hold;
        self.blocked = found.is_none() && !busy.is_empty();
        if found.is_none() && haste >= Haste::Now && self.reclaiming.is_empty() {
            // What is left of what was to come home can't.
            self.hurry_until = 0;
        }
        found
    }

    fn oldest(&self, haste: Haste, busy: Set<MemberId>, geo: &Layout) -> Option<Stripe> {
        let wanted = |entry: &&Entry| {
            entry.kind == Kind::Data && entry.dirty > 0 && self.may_come_home(entry.stripe)
        };
        let calm = |entry: &&Entry| {
            let roles = entry.runs.iter().map(|run| run.role).collect();
            self.is_calm(entry.stripe, roles, busy, geo)
        };
        let mut found = self.undone().take(LOOK_AT).filter(wanted).take(LOOK).find(calm);
        if haste >= Haste::Now {
            found = found.or_else(|| self.undone().find(wanted));
        }
        found.map(|entry| entry.stripe)
    }

    fn next_in_order(
        &self,
        hold: &mut dyn Hold,
        haste: Haste,
        busy: Set<MemberId>,
        geo: &Layout,
    ) -> Option<Stripe> {
        let mut looks = LOOK;
        let found = hold.next(&mut |stripe, roles| {
            let wanted = self.may_come_home(stripe);
            looks = looks.saturating_sub(usize::from(wanted));
            match () {
                () if looks == 0 => Ready::Enough,
                () if wanted && self.is_calm(stripe, roles, busy, geo) => Ready::Yes,
                () => Ready::No,
            }
        });
        let anyone = |stripe, _| if self.may_come_home(stripe) { Ready::Yes } else { Ready::No };
        // An order may change by being asked.
        if found.is_some() || haste < Haste::Now { found } else { hold.next(&mut { anyone }) }
    }

    /// Whether what is staged of a stripe can be brought home, and is not on its way.
    fn may_come_home(&self, stripe: Stripe) -> bool {
        !self.stuck.contains(&stripe) && !self.reclaiming.contains(&stripe)
    }

    /// Whether no member is busy to which blocks with these roles go, or their parity, nor one that the
    /// stripe is put off for.
    fn is_calm(&self, stripe: Stripe, roles: Set<Role>, busy: Set<MemberId>, geo: &Layout) -> bool {
        let waits_for = self.put_off_at(stripe).map_or(Set::EMPTY, |at| self.put_off[at].1);
        let mut written = geo.of(stripe).spare_roles().chain(roles);
        waits_for.and(busy).is_empty() && written.all(|role| !busy.has(geo.member(stripe, role)))
    }

    /// The entries from the first on that may not be at home.
    fn undone(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().skip((self.undone_number() - self.front()) as usize)
    }

    /// The number of the first of these.
    fn undone_number(&self) -> u64 {
        self.first_dirty.max(self.front())
    }

    /// Passes by what is at home, which stays so.
    fn skip_clean(&mut self) {
        let clean = self.undone().take_while(|entry| entry.done && entry.dirty == 0).count();
        self.first_dirty = self.undone_number() + clean as u64;
    }

    /// Something else is staged: if nothing could be reclaimed, perhaps this can be.
    pub(in crate::engine) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// These members are busy now: what could not be reclaimed perhaps can be.
    pub(in crate::engine) fn look_again(&mut self, busy: Set<MemberId>) {
        self.blocked = false;
        self.put_off.retain(|&(_, waits_for)| !waits_for.and(busy).is_empty());
    }

    /// All that is staged now comes home, whatever room there is and whichever members are busy; what was
    /// stuck is tried again.
    pub(in crate::engine) fn hurry(&mut self) {
        self.hurry_until = self.next;
        self.blocked = false;
        self.try_again();
    }

    /// Whether something is still to come home for that.
    pub(in crate::engine) fn is_hurried(&self) -> bool {
        self.dirty > 0 && self.undone_number() < self.hurry_until
    }

    /// When the oldest block was staged that is not at home; none if a start has found it.
    pub(in crate::engine) fn oldest_since(&self) -> Option<Instant> {
        let oldest = self.undone().find(|entry| entry.dirty > 0).map(|entry| entry.since);
        oldest.filter(|&since| since > Instant::ORIGIN)
    }

    /// A stripe is being reclaimed.
    pub(in crate::engine) fn begin_reclaim(&mut self, stripe: Stripe) {
        self.reclaiming.push(stripe);
    }

    /// A reclaim is put off until none of these is busy.
    pub(in crate::engine) fn put_off(&mut self, stripe: Stripe, waits_for: Set<MemberId>) {
        match self.put_off_at(stripe) {
            Ok(at) => self.put_off[at].1 = waits_for,
            Err(at) => self.put_off.insert(at, (stripe, waits_for)),
        }
    }

    /// Where a stripe is among those that are put off, or would be.
    fn put_off_at(&self, stripe: Stripe) -> Result<usize, usize> {
        self.put_off.binary_search_by_key(&stripe, |&(stripe, _)| stripe)
    }

    /// The number of the next entry.
    pub(in crate::engine) fn next(&self) -> u64 {
        self.next
    }

    /// A reclaim has ended that has brought these blocks home, as they were staged before an entry; tells how
    /// many they are. What was staged since is not at home.
    pub(in crate::engine) fn reclaimed(
        &mut self,
        (stripe, before): (Stripe, u64),
        lbas: impl Iterator<Item = Lba>,
    ) -> u64 {
        self.end_reclaim(stripe);
        let (mut lbas, mut blocks) = (lbas.peekable(), 0);
        self.homes += u64::from(lbas.peek().is_some());
        for lba in lbas {
            if !self.is_staged_since(before, lba) {
                self.clean(stripe, lba);
            }
            blocks += 1;
        }
        blocks
    }

    /// A reclaim has ended that could not bring its stripe home. What was staged of it since an entry may
    /// have changed that.
    pub(in crate::engine) fn reclaim_failed(&mut self, stripe: Stripe, before: u64) {
        self.end_reclaim(stripe);
        let since = self.entries.iter().skip((before.max(self.front()) - self.front()) as usize);
        if !since.filter(|entry| entry.done).any(|entry| entry.stripe == stripe) {
            self.stuck.push(stripe);
        }
    }

    fn end_reclaim(&mut self, stripe: Stripe) {
        self.blocked = false;
        self.reclaiming.retain(|&other| other != stripe);
    }

    /// Whether something is on its way home.
    pub(in crate::engine) fn is_reclaiming(&self) -> bool {
        !self.reclaiming.is_empty()
    }

    /// Whether nothing can come home for members that are busy.
    pub(in crate::engine) fn is_blocked(&self) -> bool {
        self.blocked
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
        if let Ok(at) = self.put_off_at(stripe) {
            self.put_off.remove(at);
        }
        self.stuck.retain(|&other| other != stripe);
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

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::collections::BTreeMap;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::sync::atomic::{AtomicU32, Ordering};

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
        log.fails(2);
        log.fails(9);
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

    /// The last group first, one at a time; it tells what it was told.
    #[derive(Default)]
    struct Last(BTreeMap<Stripe, u32>, Arc<AtomicU32>);

    impl Hold for Last {
        fn wrote(&mut self, stripe: Stripe, _: Role, again: bool) {
            *self.0.entry(stripe).or_insert(0) += u32::from(!again);
            self.1.fetch_add(u32::from(again), Ordering::Relaxed);
        }

        fn left(&mut self, stripe: Stripe) {
            *self.0.get_mut(&stripe).expect("it is held") -= 1;
            self.0.retain(|_, blocks| *blocks > 0);
        }

        fn next(&mut self, ready: &mut dyn FnMut(Stripe, Set<Role>) -> Ready) -> Option<Stripe> {
            let mut groups = self.0.keys().copied().rev();
            groups.find(|&stripe| ready(stripe, Set::one(Role(0))) == Ready::Yes)
        }

        fn width(&self) -> usize {
            1
        }
    }

    #[test]
    fn an_order_is_told_what_is_held_and_says_what_comes_home() {
        let mut log = Log::new(0);
        let again = Arc::new(AtomicU32::new(0));
        for stripe in [2, 5, 3] {
            log.stage(stripe, 2);
        }
        log.bring_home(3, 2);
        log.staging.set_hold(Some(Box::new(Last(BTreeMap::new(), again.clone()))), &log.layout);
        log.stage(5, 3);
        assert_eq!(again.load(Ordering::Relaxed), 2, "so many blocks were held");
        let busy = Set::one(log.layout.member(Stripe(5), Role(0)));
        assert_eq!(next(&mut log, Haste::Soon, busy), Some(2), "of the others' the last");
        let all = Set::first(log.layout.members());
        assert_eq!(next(&mut log, Haste::Soon, all), None);
        assert_eq!(next(&mut log, Haste::Now, all), Some(5), "busy or not");
        assert_eq!(next(&mut log, Haste::Now, Set::EMPTY), Some(5));
        assert_eq!(next(&mut log, Haste::Oldest, Set::EMPTY), Some(2), "it is not asked");
        log.staging.begin_reclaim(Stripe(5));
        assert_eq!(next(&mut log, Haste::Now, Set::EMPTY), None, "one at a time");
        log.staging.end_reclaim(Stripe(5));
        log.bring_home(5, 3);
        assert_eq!(next(&mut log, Haste::Now, Set::EMPTY), Some(2));
        log.bring_home(2, 2);
        assert_eq!(next(&mut log, Haste::Now, Set::EMPTY), None, "nothing is held");
        log.staging.set_hold(None, &log.layout);
        log.stage(9, 1);
        assert_eq!(next(&mut log, Haste::No, Set::EMPTY), Some(9));
    }

    #[test]
    fn what_is_put_off_is_looked_at_when_others_are_busy_or_it_is_written() {
        let mut log = Log::new(0);
        log.stage(0, 1);
        let other = Set::one(log.layout.member(Stripe(0), Role(1)));
        log.staging.put_off(Stripe(0), other);
        log.staging.look_again(other);
        assert_eq!(next(&mut log, Haste::Soon, other), None, "that is as it was");
        log.stage(0, 1);
        log.staging.unblock();
        assert_eq!(next(&mut log, Haste::Soon, other), Some(0), "it may be less that it needs now");
        log.staging.put_off(Stripe(0), other);
        log.staging.look_again(Set::EMPTY);
        log.staging.look_again(other);
        assert_eq!(next(&mut log, Haste::Soon, other), Some(0));
    }

    #[test]
    fn what_was_staged_when_it_was_to_come_home_does_so_at_once() {
        let mut log = Log::new(0);
        assert_eq!(log.staging.oldest_since(), None);
        log.stage(0, 1);
        log.staging.hurry();
        assert!(log.staging.is_hurried() && log.staging.haste(false) == Haste::Now);
        assert_eq!(log.staging.oldest_since(), Some(Instant(7)));
        log.stage(1, 1);
        log.bring_home(0, 1);
        assert_eq!(next(&mut log, Haste::Now, Set::EMPTY), Some(1), "that is the next");
        assert!(!log.staging.is_hurried(), "it came later");
        assert_eq!(log.staging.haste(false), Haste::No);
        log.staging.hurry();
        log.fails(1);
        assert_eq!(next(&mut log, Haste::Now, Set::EMPTY), None);
        assert!(!log.staging.is_hurried(), "what is left can't come");
    }

    #[test]
    fn haste_grows_with_what_is_used_and_with_who_waits() {
        let mut log = Log::new(0);
        assert!(log.staging.haste(false) == Haste::No);
        assert_eq!(log.staging.haste(true), Haste::Oldest);
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
        assert_eq!(log.staging.haste(false), Haste::Oldest);
    }

    #[test]
    fn what_failed_is_tried_again_if_something_was_staged_meanwhile() {
        let mut log = Log::new(0);
        log.stage(0, 1);
        let before = log.staging.next();
        log.stage(0, 1);
        log.staging.reclaim_failed(Stripe(0), before);
        assert_eq!(next(&mut log, Haste::No, Set::EMPTY), Some(0));
        log.fails(0);
        assert_eq!(next(&mut log, Haste::No, Set::EMPTY), None);
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
        log.staging.check(0);
    }
}
