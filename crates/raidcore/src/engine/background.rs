//! Background passes: resync, rebuild and scrub walk over the stripes as jobs like any other, as fast as
//! their pace allows: users have it slower.
//!
//! Invariants: one pass at a time, resync before rebuild before scrub; a stripe of a member being
//! rebuilt counts as current exactly when its job has succeeded, and is told so before its lock is
//! free.

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use det::Instant;

use super::left::LeftStripe;
use super::order::{Course, RebuildOrder};
use super::pass::{Closing, Filled, Pass};
use super::progress::Progress;
use super::response::{Response, Slowdown};
use super::{CommandError, Config, Op, Pace, PassKind, PassStatus};
use crate::meta::{ArrayRecord, Filling};
use crate::units::{BLOCK_BYTES, Lba, MemberId, Set, Stripe};

/// In a second.
const NANOS: u64 = 1_000_000_000;

/// All background work.
#[derive(Debug)]
pub(super) struct Background {
    pace: Pace,
    /// How much users may feel of it beyond the least pace.
    slowdown: Option<Slowdown>,
    response: Response,
    /// Within how long each pass is to end.
    within: Option<Duration>,
    /// In which order redundancy is brought back.
    order: &'static RebuildOrder,
    pass: Option<Pass>,
    /// For each member, how far it is rebuilt.
    rebuilt: Vec<Progress>,
    /// The members whose rebuilds could not go on, and wait for others'.
    aside: Set<MemberId>,
    scrub_wanted: Option<bool>,
    /// Something has changed that may call for a pass.
    look: bool,
}

impl Background {
    /// With what is on record of how far members are rebuilt.
    pub(super) fn new(config: &Config, record: &ArrayRecord) -> Self {
        let rebuilt = record.slots.iter().map(|slot| {
            let ranges = record.filled_ranges(Filling::Device(slot.device));
            Progress::recorded(slot.watermark(), ranges.filter(|_| slot.is_being_filled()))
        });
        Self {
            pace: config.pace,
            slowdown: config.slowdown,
            response: Response::default(),
            within: None,
            order: config.rebuild_order,
            pass: None,
            rebuilt: rebuilt.collect(),
            aside: Set::EMPTY,
            scrub_wanted: None,
            look: true,
        }
    }

    /// Something has changed that may call for a pass.
    pub(super) fn look(&mut self) {
        self.look = true;
    }

    /// Whether something has changed that may call for a pass, since this was asked last.
    pub(super) fn has_to_look(&mut self) -> bool {
        mem::take(&mut self.look)
    }

    /// Whether that would be told now.
    #[inline]
    pub(super) fn may_have_to_look(&self) -> bool {
        self.look
    }

    /// The pass under way.
    pub(super) fn pass(&self) -> Option<&Pass> {
        self.pass.as_ref()
    }

    /// The pass under way, if it is of this kind.
    pub(super) fn pass_mut(&mut self, kind: PassKind) -> Option<&mut Pass> {
        self.pass.as_mut().filter(|pass| pass.kind() == kind)
    }

    /// A pass begins.
    pub(super) fn begin(&mut self, pass: Pass, now: Instant) {
        self.pass = Some(pass);
        self.response.begin(self.pace);
        self.end_within(self.within, now);
    }

    /// The pass under way is over.
    pub(super) fn end(&mut self) -> Option<Pass> {
        self.pass.take()
    }

    /// The stripe that comes next by the course that a pass takes, if it may be begun, and the pass.
    pub(super) fn next_of<'a>(
        &mut self,
        most: u64,
        course: impl FnOnce(PassKind) -> Course<'a>,
    ) -> Option<(PassKind, Stripe)> {
        let pass = self.pass.as_mut()?;
        Some((pass.kind(), pass.next_of(&course(pass.kind()), most)?))
    }

    /// In which order redundancy is brought back.
    pub(super) fn order(&self) -> &'static RebuildOrder {
        self.order
    }

    pub(super) fn set_order(&mut self, order: &'static RebuildOrder) {
        self.order = order;
    }

    /// A read had to be reconstructed in a stripe. If what it lacks is being filled, that comes next.
    pub(super) fn demand(&mut self, stripe: Stripe) {
        let fills = self.pass.as_mut().filter(|pass| pass.kind().fills() && self.order.on_demand);
        if let Some(pass) = fills {
            pass.want(stripe);
        }
    }

    /// The pass under way discards the next part of the device that it fills: from which block on, and how
    /// many.
    pub(super) fn begin_to_clear(&mut self, now: Instant) -> Option<(u64, u32)> {
        self.pass.as_mut()?.begin_to_clear(now)
    }

    /// The pass under way does not discard the device that it fills, or not all of it.
    pub(super) fn fill_as_it_is(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.fill_as_it_is();
        }
    }

    /// The pass under way has discarded a part of a device.
    pub(super) fn cleared(&mut self, now: Instant) {
        if let Some(pass) = &mut self.pass {
            pass.cleared(now);
        }
    }

    /// The pass under way begins a stripe.
    pub(super) fn begin_stripe(&mut self, stripe: Stripe, now: Instant) {
        if let Some(pass) = &mut self.pass {
            pass.begin(stripe, now);
        }
    }

    /// The end of the pass under way has come this far.
    pub(super) fn close(&mut self, closing: Closing) {
        if let Some(pass) = &mut self.pass {
            pass.close(closing);
        }
    }

    /// The pass under way can't end: it is stuck with its last stripe.
    pub(super) fn stick(&mut self, left: LeftStripe) {
        if let Some(pass) = &mut self.pass {
            pass.close(Closing::No);
            pass.leave(left);
        }
    }

    /// What a stripe holds has changed, if `covers` tells so of a block.
    #[inline]
    pub(super) fn changed(&mut self, stripe: Stripe, covers: impl Fn(Lba) -> bool) {
        if let Some(pass) = &mut self.pass {
            pass.changed(stripe, covers);
        }
    }

    /// The rebuild under way can't go on, and waits until all others are done.
    pub(super) fn set_aside(&mut self) {
        let Some(pass) = &mut self.pass else { return };
        if let PassKind::Rebuild(member) = pass.kind() {
            // What it has filled goes on being written.
            self.rebuilt[member.index()] = pass.progress().clone();
            self.aside = self.aside.with(member);
            pass.cancel();
        }
    }

    /// There are no stripes from this one on any more. Of members that are being rebuilt what is filled ahead
    /// of the rest is forgotten, too.
    pub(super) fn forget_from(&mut self, stripe: u64) {
        for progress in self.rebuilt.iter_mut().filter(|progress| progress.count() > 0) {
            *progress = Progress::from(progress.base().min(stripe));
        }
    }

    /// The members whose rebuilds wait for others'.
    pub(super) fn aside(&self) -> Set<MemberId> {
        self.aside
    }

    /// They wait no more.
    pub(super) fn take_back(&mut self) {
        self.aside = Set::EMPTY;
    }

    /// What could not be done may be possible now.
    pub(super) fn try_again(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.try_again();
        }
    }

    /// How far the end of the pass under way has come.
    pub(super) fn closing(&self) -> Option<Closing> {
        self.pass.as_ref().map(Pass::closing)
    }

    /// Whether no pass is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.pass.is_none()
    }

    /// Whether redundancy is being brought back, and that is not to wait.
    pub(super) fn rebuilds(&self) -> bool {
        self.pass.as_ref().is_some_and(Pass::is_urgent)
    }

    /// Whether a member being rebuilt is current in a stripe.
    pub(super) fn is_rebuilt(&self, member: MemberId, stripe: Stripe) -> bool {
        self.progress_of(member).has(stripe.0)
    }

    /// How far a member is rebuilt.
    pub(super) fn progress_of(&self, member: MemberId) -> &Progress {
        match &self.pass {
            Some(pass) if pass.fills(member) => pass.progress(),
            Some(_) | None => &self.rebuilt[member.index()],
        }
    }

    /// How far a member is rebuilt that no pass fills: one takes it over.
    pub(super) fn take_progress_of(&mut self, member: MemberId) -> Progress {
        mem::take(&mut self.rebuilt[member.index()])
    }

    /// What the pass under way has filled, if that is put on record.
    pub(super) fn filled(&self) -> Option<Filled> {
        self.pass.as_ref().and_then(Pass::filled)
    }

    /// How far the distributed spare is being filled, if it is.
    pub(super) fn distributed(&self) -> Option<&Progress> {
        let distributes = |pass: &&Pass| matches!(pass.kind(), PassKind::Distribute(_));
        self.pass.as_ref().filter(distributes).map(Pass::progress)
    }

    /// Another device takes a member's place, with nothing on it.
    pub(super) fn restart(&mut self, member: MemberId) {
        self.rebuilt[member.index()] = Progress::default();
        self.aside = self.aside.without(member);
    }

    /// The device that takes a member's place has something on it.
    pub(super) fn inherit(&mut self, member: MemberId, progress: Progress) {
        self.rebuilt[member.index()] = progress;
    }

    /// A member left the service, or a staging device: what fills it is pointless.
    pub(super) fn member_failed(&mut self, member: MemberId, stages: bool) {
        self.restart(member);
        // What it held need not agree any more with what others do.
        self.try_again();
        self.cancel_if(|kind| {
            kind.filled() == Some(member) || matches!(kind, PassKind::Scrub { .. }) && !stages
        });
    }

    /// Ends the pass under way before it is done, if it is one of these.
    pub(super) fn cancel_if(&mut self, which: impl FnOnce(PassKind) -> bool) {
        if let Some(pass) = self.pass.as_mut().filter(|pass| which(pass.kind())) {
            pass.cancel();
        }
    }

    // What operators ask for.

    pub(super) fn pause(&mut self) -> Result<(), CommandError> {
        self.pass.as_mut().ok_or(CommandError::NothingToDo).map(Pass::pause)
    }

    pub(super) fn resume(&mut self) -> Result<(), CommandError> {
        self.pass.as_mut().ok_or(CommandError::NothingToDo).map(Pass::resume)
    }

    pub(super) fn pace(&self) -> Pace {
        self.pace
    }

    pub(super) fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
        if let Some(pass) = &mut self.pass {
            pass.hurry();
        }
    }

    /// How much users may feel of background work beyond the least pace.
    pub(super) fn slowdown(&self) -> Option<Slowdown> {
        self.slowdown
    }

    pub(super) fn limit_slowdown(&mut self, slowdown: Option<Slowdown>) {
        self.slowdown = slowdown;
        self.response.begin(self.pace);
    }

    pub(super) fn end_within(&mut self, within: Option<Duration>, now: Instant) {
        self.within = within;
        if let Some(pass) = &mut self.pass {
            pass.end_by(within.map(|within| now + within));
        }
    }

    /// Within how long each pass is to end.
    pub(super) fn within(&self) -> Option<Duration> {
        self.within
    }

    pub(super) fn want_scrub(&mut self, repair: bool) -> Result<(), CommandError> {
        self.look = true;
        if self.pass.is_some() || self.scrub_wanted.is_some() {
            return Err(CommandError::Busy);
        }
        self.scrub_wanted = Some(repair);
        Ok(())
    }

    /// The scrub that was asked for, if one was: it begins now.
    pub(super) fn wanted_scrub(&mut self) -> Option<PassKind> {
        self.scrub_wanted.take().map(|repair| PassKind::Scrub { repair })
    }

    pub(super) fn cancel_scrub(&mut self) -> Result<(), CommandError> {
        match &mut self.pass {
            Some(pass) if matches!(pass.kind(), PassKind::Scrub { .. }) => pass.cancel(),
            Some(_) | None => {
                self.scrub_wanted.take().ok_or(CommandError::NothingToDo)?;
            }
        }
        Ok(())
    }

    /// What is told of the pass under way.
    pub(super) fn status(&self, now: Instant, users_are_busy: bool) -> Option<PassStatus> {
        let rate = self.rate(true);
        let pass = self.pass.as_ref()?;
        // With a deadline it may have to go faster.
        let is_held = users_are_busy && self.within.is_none() && !pass.is_held();
        Some(pass.status(now, (is_held && rate < self.pace.max).then_some(rate)))
    }

    // Pace.

    /// A user's request has ended well. The array is told to be `whole` if no member is missing.
    pub(super) fn request_ended(
        &mut self,
        (now, op, took): (Instant, Op, Duration),
        whole: impl FnOnce() -> bool,
    ) {
        if !matches!(op, Op::Read | Op::Write) {
            return;
        }
        let read = op == Op::Read;
        match (&self.pass, self.slowdown) {
            (Some(pass), Some(slowdown)) if !pass.is_held() => {
                self.response.adapt((now, read, took), slowdown, self.pace);
            }
            (None, _) if whole() => self.response.learn(read, took),
            (Some(_) | None, _) => {}
        }
    }

    /// How fast it may go now, in bytes of each member per second.
    fn rate(&self, users_are_busy: bool) -> u64 {
        let Pace { min, max } = self.pace;
        if !users_are_busy {
            return max;
        }
        let borne =
            self.slowdown.filter(|_| self.pass.is_some()).and_then(|_| self.response.rate());
        let borne = borne.map(|rate| if rate == Response::GREATEST { max } else { rate });
        borne.map_or(min, |rate| rate.max(min)).min(max)
    }

    /// When the next stripe may begin at the pace that holds now, if it has to wait for the last.
    pub(super) fn next_at(&self, users_are_busy: bool, blocks: u64) -> Option<Instant> {
        let pass = self.pass.as_ref()?;
        let begun_at = pass.begun_at()?;
        let at = self.next_after(begun_at, users_are_busy, blocks)?;
        let Some(share) = pass.time_for_each(begun_at) else { return Some(at) };
        let fastest = self.next_after(begun_at, false, blocks).unwrap_or(begun_at);
        Some(at.min(begun_at + share).max(fastest))
    }

    /// When background work may go on that began something of so many blocks of each member, at the
    /// pace that holds now; nothing if at once.
    pub(super) fn next_after(
        &self,
        begun_at: Instant,
        users_are_busy: bool,
        blocks: u64,
    ) -> Option<Instant> {
        let rate = self.rate(users_are_busy);
        if rate == u64::MAX {
            return None;
        }
        let (bytes, rate) = (blocks * BLOCK_BYTES as u64, rate.max(1));
        // Nearly always it fits, and this is asked in each step.
        let nanos = bytes.checked_mul(NANOS).map_or_else(
            || u64::try_from(u128::from(bytes) * u128::from(NANOS) / u128::from(rate)),
            |nanos| Ok(nanos / rate),
        );
        Some(Instant(begun_at.0.saturating_add(nanos.unwrap_or(u64::MAX))))
    }
}
