//! A background pass: which stripe comes next, and how far it has come.

use det::Instant;

use super::order::Order;
use super::progress::{Progress, WINDOW};
use super::{Mismatches, PassKind, PassStatus};
use crate::units::{MemberId, Stripe};

impl PassKind {
    /// Whether it brings redundancy back that a member's failure has taken.
    pub(super) fn fills(self) -> bool {
        match self {
            Self::Rebuild(_) | Self::Distribute(_) => true,
            Self::Resync | Self::Copy(_) | Self::Scrub { .. } => false,
        }
    }

    /// Whether it is put on record now and then how far it has come.
    pub(super) fn has_watermark(self) -> bool {
        match self {
            Self::Rebuild(_) | Self::Distribute(_) | Self::Copy(_) => true,
            Self::Resync | Self::Scrub { .. } => false,
        }
    }

    /// Whether something else has what a member had when it is over.
    pub(super) fn stands_in(self) -> bool {
        match self {
            Self::Rebuild(_) | Self::Copy(_) | Self::Distribute(_) => true,
            Self::Resync | Self::Scrub { .. } => false,
        }
    }

    /// The member for which it fills a device.
    pub(super) fn filled(self) -> Option<MemberId> {
        match self {
            Self::Rebuild(member) | Self::Copy(member) => Some(member),
            Self::Resync | Self::Distribute(_) | Self::Scrub { .. } => None,
        }
    }
}

/// A pass under way.
#[derive(Debug)]
pub(super) struct Pass {
    kind: PassKind,
    progress: Progress,
    total: u64,
    paused: bool,
    stuck: Option<Stripe>,
    found: Mismatches,
    started: Instant,
    /// Where it started.
    from: u64,
    /// Stripes that were done since, without those that are zeros.
    worked: u64,
    next: u64,
    in_flight: u32,
    /// When the last stripe was begun; nothing if the next need not wait for it.
    begun_at: Option<Instant>,
    cancelled: bool,
    closing: Closing,
}

/// How a stripe of a pass went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Done {
    /// The stripe can't be done, so the pass is stuck there from now on.
    Stuck,
    /// The stripe is done. All stripes up to `to` are, of which those up to `from` were before.
    UpTo { from: u64, to: u64 },
    /// It changes nothing, as the pass is cancelled or stuck already.
    Void,
}

impl Pass {
    /// One that goes over `total` stripes, of which some may be done.
    pub(super) fn new(kind: PassKind, progress: Progress, total: u64, now: Instant) -> Self {
        Self {
            kind,
            progress,
            total,
            paused: false,
            stuck: None,
            found: Mismatches::default(),
            started: now,
            from: progress.base,
            worked: 0,
            next: progress.base,
            in_flight: 0,
            begun_at: None,
            cancelled: false,
            closing: Closing::No,
        }
    }

    /// What it does.
    pub(super) fn kind(&self) -> PassKind {
        self.kind
    }

    /// Which stripes are done.
    pub(super) fn progress(&self) -> Progress {
        self.progress
    }

    /// What a scrub has found so far.
    pub(super) fn found(&self) -> Mismatches {
        self.found
    }

    /// How far its end has come.
    pub(super) fn closing(&self) -> Closing {
        self.closing
    }

    /// Its end has come this far.
    pub(super) fn close(&mut self, closing: Closing) {
        self.closing = closing;
    }

    /// Whether stripes of it are under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether all stripes are done.
    pub(super) fn is_whole(&self) -> bool {
        self.progress.base >= self.total
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// It begins no stripe until it is resumed, or ever.
    pub(super) fn is_held(&self) -> bool {
        self.paused || self.is_stuck() || self.cancelled
    }

    /// Whether it brings redundancy back now, which is not to wait.
    pub(super) fn is_urgent(&self) -> bool {
        let goes_on = !self.paused && !self.cancelled && self.closing == Closing::No;
        self.kind.fills() && self.total > 0 && goes_on
    }

    /// Whether it fills the device that is in this member's place now.
    pub(super) fn fills(&self, member: MemberId) -> bool {
        self.kind == PassKind::Rebuild(member) && !self.cancelled
    }

    pub(super) fn pause(&mut self) {
        self.paused = true;
    }

    /// Goes on. If it was stuck, it tries again from the first stripe that is not done.
    pub(super) fn resume(&mut self) {
        self.paused = false;
        if self.stuck.take().is_some() {
            self.next = self.progress.base;
        }
    }

    /// Ends before it is done.
    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// It can't go on from this stripe.
    pub(super) fn stick(&mut self, stripe: Stripe) {
        self.stuck = Some(stripe);
    }

    /// The next stripe need not wait for the last.
    pub(super) fn hurry(&mut self) {
        self.begun_at = None;
    }

    /// When the last stripe was begun, if the next has to wait for it.
    pub(super) fn begun_at(&self) -> Option<Instant> {
        self.begun_at
    }

    /// Whether stripes are left to be begun.
    pub(super) fn has_more(&self) -> bool {
        self.next < self.total
    }

    /// The stripe that comes next by an order, if it may be begun while the others are under way, of
    /// which there are `most` at a time.
    pub(super) fn next_of(&mut self, order: &Order<'_>, most: u64) -> Option<Stripe> {
        let window = most.min(WINDOW);
        if self.is_held() || u64::from(self.in_flight) >= window {
            return None;
        }
        loop {
            while self.has_more() && self.progress.has(self.next) {
                self.next += 1;
            }
            let next = order.next(self.next, self.total);
            if next == self.next {
                break;
            } else if !self.is_under_way() {
                (self.next, self.progress) = (next, Progress::from(next));
            } else if !order.leaps() && self.next - self.progress.base < WINDOW {
                self.progress.add(self.next);
            } else {
                return None;
            }
        }
        let ready = self.has_more() && self.next - self.progress.base < WINDOW;
        ready.then_some(Stripe(self.next))
    }

    /// A stripe is begun.
    pub(super) fn begin(&mut self, stripe: Stripe, now: Instant) {
        self.in_flight += 1;
        self.next = stripe.0 + 1;
        self.begun_at = Some(now);
    }

    /// A stripe has ended: well, having read or written something if `worked`; or not.
    pub(super) fn end(&mut self, stripe: Stripe, well: bool, worked: bool) -> Done {
        self.in_flight -= 1;
        if self.cancelled || !well && self.is_stuck() {
            return Done::Void;
        }
        if !well {
            self.stick(stripe);
            return Done::Stuck;
        }
        self.worked += u64::from(worked);
        let from = self.progress.base;
        self.progress.add(stripe.0);
        Done::UpTo { from, to: self.progress.base }
    }

    /// A scrub has found rows that don't match, and of some of them which block is wrong.
    pub(super) fn finds(&mut self, rows: u64, located: u64) {
        self.found.rows += rows;
        self.found.located += located;
    }

    /// What is told of it.
    pub(super) fn status(&self, now: Instant) -> PassStatus {
        PassStatus {
            kind: self.kind,
            done: self.progress.base,
            total: self.total,
            paused: self.paused,
            stuck: self.stuck,
            found: self.found,
            elapsed: now - self.started,
            from: self.from,
            worked: self.worked,
        }
    }
}

/// The end of a pass that has changed something: that becomes durable; after a rebuild, the new
/// member is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Closing {
    No,
    Flushing(u64),
    Storing,
    /// This version of the record makes a successor the member.
    Succeeding(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(total: u64) -> Pass {
        Pass::new(PassKind::Resync, Progress::default(), total, Instant::ORIGIN)
    }

    fn begin(pass: &mut Pass) -> Option<Stripe> {
        let next = pass.next_of(&Order::All, 4)?;
        pass.begin(next, Instant::ORIGIN);
        Some(next)
    }

    #[test]
    fn as_many_stripes_are_under_way_as_may_be() {
        let mut pass = pass(9);
        let begun: u64 = core::iter::from_fn(|| begin(&mut pass)).map(|stripe| stripe.0).sum();
        assert_eq!(begun, 1 + 2 + 3);
        pass.end(Stripe(2), true, true);
        assert_eq!(begin(&mut pass), Some(Stripe(4)));
        assert_eq!(begin(&mut pass), None);
    }

    #[test]
    fn what_is_done_ends_at_the_first_stripe_that_is_not() {
        let mut pass = pass(3);
        while begin(&mut pass).is_some() {}
        assert_eq!(pass.end(Stripe(1), true, true), Done::UpTo { from: 0, to: 0 });
        assert_eq!(pass.end(Stripe(0), true, true), Done::UpTo { from: 0, to: 2 });
        assert!(!pass.is_whole() && pass.is_under_way());
        assert_eq!(pass.end(Stripe(2), true, false), Done::UpTo { from: 2, to: 3 });
        assert!(pass.is_whole() && !pass.is_under_way());
        assert_eq!(pass.status(Instant::ORIGIN).worked, 2);
    }

    #[test]
    fn a_stripe_that_fails_is_tried_again_when_the_pass_is_resumed() {
        let mut pass = pass(3);
        begin(&mut pass);
        begin(&mut pass);
        assert_eq!(pass.end(Stripe(0), false, true), Done::Stuck);
        assert_eq!(pass.end(Stripe(1), false, true), Done::Void, "it is told once");
        assert_eq!(begin(&mut pass), None);
        pass.resume();
        assert_eq!(begin(&mut pass), Some(Stripe(0)));
    }

    #[test]
    fn what_a_cancelled_pass_does_counts_no_more() {
        let mut pass = pass(3);
        begin(&mut pass);
        pass.cancel();
        assert_eq!(pass.end(Stripe(0), true, true), Done::Void);
        assert_eq!((pass.progress().base, begin(&mut pass)), (0, None));
    }
}
