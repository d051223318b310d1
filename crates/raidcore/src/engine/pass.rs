//! A background pass: which stripe comes next, and how far it has come.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;

use super::left::{Left, LeftStripe};
use super::order::Course;
use super::progress::Progress;
use super::{Mismatches, PassKind, PassStatus};
use crate::meta::Ranges;
use crate::units::{Lba, MemberId, Stripe};

/// The most stripes that a pass has under way.
const UNDER_WAY_MAX: u64 = 64;

/// The most stripes that are to come before all others.
const WANTED_MAX: usize = 64;

/// How many blocks of a device are discarded at a time: 256 MiB.
const CLEAR_BLOCKS: u64 = 1 << 16;

/// How long that may take: some devices write zeros instead, which is slower than to fill them.
const CLEAR_TIME: Duration = Duration::from_millis(100);

impl PassKind {
    /// Whether it brings redundancy back that a member's failure has taken.
    pub(super) fn fills(self) -> bool {
        match self {
            Self::Rebuild(_) | Self::Distribute(_) => true,
            Self::Resync | Self::Copy(_) | Self::Scrub { .. } | Self::Reshape => false,
        }
    }

    /// Whether it is put on record now and then how far it has come.
    pub(super) fn has_watermark(self) -> bool {
        match self {
            Self::Rebuild(_) | Self::Distribute(_) | Self::Copy(_) => true,
            Self::Resync | Self::Scrub { .. } | Self::Reshape => false,
        }
    }

    /// Whether it goes over stripes one by one, and not in windows.
    pub(super) fn goes_by_stripes(self) -> bool {
        self != Self::Reshape
    }

    /// Whether something else has what a member had when it is over.
    pub(super) fn stands_in(self) -> bool {
        match self {
            Self::Rebuild(_) | Self::Copy(_) | Self::Distribute(_) => true,
            Self::Resync | Self::Scrub { .. } | Self::Reshape => false,
        }
    }

    /// The member for which it fills a device.
    pub(super) fn filled(self) -> Option<MemberId> {
        match self {
            Self::Rebuild(member) | Self::Copy(member) => Some(member),
            Self::Resync | Self::Distribute(_) | Self::Scrub { .. } | Self::Reshape => None,
        }
    }
}

/// A pass under way.
#[derive(Debug)]
pub(super) struct Pass {
    kind: PassKind,
    progress: Progress,
    /// The ranges of which all stripes are done.
    whole: Ranges,
    total: u64,
    paused: bool,
    /// The stripes that could not be done.
    left: Left,
    found: Mismatches,
    started: Instant,
    /// When it is to end.
    due: Option<Instant>,
    /// How many stripes were done when it started.
    from: u64,
    /// Stripes that were done since, without those that are zeros.
    worked: u64,
    /// The ranges of which no stripe is to be begun any more but for those of the one under way.
    gone: Ranges,
    /// What is left to be begun of the range under way.
    next: u64,
    until: u64,
    /// Stripes that come before all others.
    wanted: VecDeque<u64>,
    under_way: Vec<u64>,
    /// What has to be discarded before stripes are begun.
    clearing: Option<Clearing>,
    /// When the last stripe was begun; nothing if the next need not wait for it.
    begun_at: Option<Instant>,
    cancelled: bool,
    closing: Closing,
}

/// A device is discarded before it is filled: an SSD has room for what comes in whatever order, and what it
/// held before is not kept.
#[derive(Clone, Copy, Debug)]
struct Clearing {
    /// The blocks that were discarded.
    done: u64,
    /// Blocks in all.
    of: u64,
    /// When the part under way was begun, if one is.
    begun: Option<Instant>,
}

/// What a pass has filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filled {
    pub(super) kind: PassKind,
    /// All stripes before this one.
    pub(super) to: u64,
    /// All stripes of these.
    pub(super) ranges: Ranges,
}

impl Pass {
    /// One that goes over `total` stripes, of which some may be done.
    pub(super) fn new(kind: PassKind, progress: Progress, total: u64, now: Instant) -> Self {
        let mut whole = Ranges::none(total);
        for range in 0..whole.count() {
            let (first, end) = whole.stripes(range);
            if progress.next_open(first, end) == end {
                whole.add(range);
            }
        }
        Self {
            kind,
            from: progress.count(),
            progress,
            whole,
            total,
            paused: false,
            left: Left::default(),
            found: Mismatches::default(),
            started: now,
            due: None,
            worked: 0,
            gone: whole,
            next: 0,
            until: 0,
            wanted: VecDeque::new(),
            under_way: Vec::new(),
            clearing: None,
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
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What it has filled, if that is put on record. Once it is cancelled, another device may be in the
    /// place of the one that it has filled.
    pub(super) fn filled(&self) -> Option<Filled> {
        let filled = Filled { kind: self.kind, to: self.progress.base(), ranges: self.whole };
        (self.kind.has_watermark() && !self.cancelled).then_some(filled)
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

    /// Before stripes are begun so many blocks of the device are discarded that is filled.
    pub(super) fn clear_first(&mut self, blocks: u64) {
        self.clearing = Some(Clearing { done: 0, of: blocks, begun: None });
    }

    /// What is left of the device is not discarded.
    pub(super) fn fill_as_it_is(&mut self) {
        self.clearing.take_if(|left| left.begun.is_none());
    }

    /// Whether a part of the device is to be discarded next.
    pub(super) fn clears_next(&self) -> bool {
        !self.is_held() && self.clearing.is_some_and(|left| left.begun.is_none())
    }

    /// The part of the device that is discarded next, from which block on and how many: that is begun now.
    pub(super) fn begin_to_clear(&mut self, now: Instant) -> Option<(u64, u32)> {
        let clears = self.clears_next();
        let left = self.clearing.as_mut().filter(|_| clears)?;
        left.begun = Some(now);
        Some((left.done, (left.of - left.done).min(CLEAR_BLOCKS) as u32))
    }

    /// A part of the device was discarded. If that took long, the rest is not.
    pub(super) fn cleared(&mut self, now: Instant) {
        let Some(left) = &mut self.clearing else { return };
        let is_slow = left.begun.take().is_some_and(|begun| now > begun + CLEAR_TIME);
        left.done = (left.done + CLEAR_BLOCKS).min(left.of);
        self.clearing.take_if(|left| is_slow || left.done == left.of);
    }

    /// Whether stripes of it are under way, or what comes before them.
    pub(super) fn is_under_way(&self) -> bool {
        !self.under_way.is_empty() || self.clearing.is_some_and(|left| left.begun.is_some())
    }

    /// Whether all stripes are done.
    pub(super) fn is_whole(&self) -> bool {
        self.progress.base() >= self.total
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// It can't go on: what is not done is left behind, or too much is.
    pub(super) fn is_stuck(&self) -> bool {
        let open = || self.total.saturating_sub(self.progress.count());
        // A reshape goes in order.
        let goes_on = self.kind.goes_by_stripes() && !self.left.is_full();
        self.left.len() > 0 && (!goes_on || self.left.len() >= open())
    }

    /// The stripes that it has left behind.
    pub(super) fn left(&self) -> impl Iterator<Item = &LeftStripe> {
        self.left.iter()
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
        let goes_on = !self.is_held() && self.closing == Closing::No;
        self.kind.fills() && self.total > 0 && goes_on
    }

    /// Whether it fills the device that is in this member's place now.
    pub(super) fn fills(&self, member: MemberId) -> bool {
        self.kind == PassKind::Rebuild(member) && !self.cancelled
    }

    pub(super) fn pause(&mut self) {
        self.paused = true;
    }

    /// Goes on, and tries all stripes again that it has left behind.
    pub(super) fn resume(&mut self) {
        self.paused = false;
        self.try_again();
    }

    /// Tries all stripes again that it has left behind.
    pub(super) fn try_again(&mut self) {
        if self.left.len() > 0 {
            self.left.take_all();
            (self.gone, self.next, self.until) = (self.whole, 0, 0);
        }
    }

    /// Goes on if it was stuck, and what it could not do has changed.
    pub(super) fn try_changed(&mut self) {
        if self.left.next_changed().is_some() {
            self.try_again();
        }
    }

    /// What a stripe holds has changed, if `covers` tells so of a block: if it was left behind for that, it is
    /// tried again next.
    #[inline]
    pub(super) fn changed(&mut self, stripe: Stripe, covers: impl Fn(Lba) -> bool) {
        if self.left.has(stripe.0) {
            self.left.change(stripe, covers);
        }
    }

    /// Ends before it is done.
    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// It leaves a stripe behind.
    ///
    /// Tells whether it is the first that people are told of.
    pub(super) fn leave(&mut self, left: LeftStripe) -> bool {
        self.wanted.retain(|&wanted| wanted != left.stripe.0);
        self.left.add(left)
    }

    /// The next stripe need not wait for the last.
    pub(super) fn hurry(&mut self) {
        self.begun_at = None;
    }

    /// When the last stripe was begun, if the next has to wait for it.
    pub(super) fn begun_at(&self) -> Option<Instant> {
        self.begun_at
    }

    /// Whether stripes may be left to be begun.
    pub(super) fn has_more(&self) -> bool {
        self.next < self.until
            || self.gone.first_missing().is_some()
            || !self.wanted.is_empty()
            || self.left.next_changed().is_some()
    }

    /// A stripe is to come before all others.
    pub(super) fn want(&mut self, stripe: Stripe) {
        let was_tried = self.left.has_tried(stripe.0);
        let is_new = !was_tried && self.is_open(stripe.0) && !self.wanted.contains(&stripe.0);
        if is_new && self.wanted.len() < WANTED_MAX && stripe.0 < self.total {
            self.wanted.push_back(stripe.0);
        }
    }

    /// Whether a stripe is neither done nor under way.
    fn is_open(&self, stripe: u64) -> bool {
        !self.progress.has(stripe) && !self.under_way.contains(&stripe)
    }

    /// The stripe that comes next, if it may be begun while the others are under way, of which there are
    /// `most` at a time.
    pub(super) fn next_of(&mut self, course: &Course<'_>, most: u64) -> Option<Stripe> {
        let is_full = self.under_way.len() as u64 >= most.min(UNDER_WAY_MAX);
        if self.is_held() || is_full || self.clearing.is_some() {
            return None;
        }
        while let Some(&wanted) = self.wanted.front() {
            if self.is_open(wanted) {
                return Some(Stripe(wanted));
            }
            self.wanted.pop_front();
        }
        if let Some(changed) = self.left.next_changed() {
            return Some(changed);
        }
        loop {
            self.next = self.progress.next_open(self.next, self.until);
            if self.next == self.until {
                self.gone.first_missing()?;
                let range = course.choose(&self.gone)?;
                self.gone.add(range);
                (self.next, self.until) = self.gone.stripes(range);
                continue;
            }
            if self.under_way.contains(&self.next) || self.left.has(self.next) {
                self.next += 1;
                continue;
            }
            let next = course.next(self.next, self.until);
            if next == self.next {
                return Some(Stripe(next));
            }
            self.progress.add_all(self.next, next);
            self.look_at_range_of(next - 1);
        }
    }

    /// A stripe is begun.
    pub(super) fn begin(&mut self, stripe: Stripe, now: Instant) {
        self.under_way.push(stripe.0);
        self.wanted.retain(|&wanted| wanted != stripe.0);
        self.left.begin(stripe);
        self.begun_at = Some(now);
    }

    /// Notes whether all stripes of a range are done, as this one of it is.
    fn look_at_range_of(&mut self, stripe: u64) {
        let range = self.whole.of(Stripe(stripe));
        let (first, end) = self.whole.stripes(range);
        let is_done = |from| self.progress.next_open(from, end) == end;
        // What comes after it is mostly open, and then nothing has to be looked at.
        if is_done(stripe) && is_done(first) {
            self.whole.add(range);
        }
    }

    /// A stripe could not be done. Tells whether it is the first that people are told of.
    pub(super) fn fail(&mut self, left: LeftStripe) -> bool {
        self.under_way.retain(|&other| other != left.stripe.0);
        !self.cancelled && self.leave(left)
    }

    /// A stripe is done, and has read or written something if `worked`. Tells whether that counts: if the
    /// pass is cancelled, it does not.
    pub(super) fn end(&mut self, stripe: Stripe, worked: bool) -> bool {
        self.under_way.retain(|&other| other != stripe.0);
        if !self.cancelled {
            self.worked += u64::from(worked);
            self.progress.add(stripe.0);
            self.look_at_range_of(stripe.0);
        }
        !self.cancelled
    }

    /// The stripes from one to before another are done, of which the first was begun.
    pub(super) fn end_range(&mut self, from: u64, to: u64) {
        self.abandon(from);
        if !self.cancelled {
            self.worked += self.progress.add_all(from, to);
        }
    }

    /// A stripe that was begun is not done, and can be begun once more.
    pub(super) fn abandon(&mut self, stripe: u64) {
        self.under_way.retain(|&other| other != stripe);
    }

    /// Whether all stripes from one to before another are done.
    pub(super) fn has_done(&self, from: u64, to: u64) -> bool {
        self.progress.next_open(from, to) == to
    }

    /// A scrub has found rows that don't match, and of some of them which block is wrong.
    pub(super) fn finds(&mut self, rows: u64, located: u64) {
        self.found.rows += rows;
        self.found.located += located;
    }

    /// It is to end by then.
    pub(super) fn end_by(&mut self, due: Option<Instant>) {
        self.due = due;
    }

    /// How much time from `at` on there is for each stripe that is not done, if it is to end by some time.
    pub(super) fn time_for_each(&self, at: Instant) -> Option<Duration> {
        let left = self.total - self.progress.count();
        let nanos = (self.due? - at).as_nanos() / u128::from(left.max(1));
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// What is told of it.
    pub(super) fn status(&self, now: Instant, held_to: Option<u64>) -> PassStatus {
        PassStatus {
            kind: self.kind,
            done: self.progress.count(),
            total: self.total,
            paused: self.paused,
            stuck: self.left.first().filter(|_| self.is_stuck()),
            left: self.left.len(),
            found: self.found,
            elapsed: now - self.started,
            due_in: self.due.map(|due| due - now),
            held_to,
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
mod tests;
