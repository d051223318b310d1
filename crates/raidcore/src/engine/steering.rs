//! Where reads go when members are busy: home, or to the others, as a policy says.
//!
//! Invariants: a member is gone around only where redundancy is known to agree with the data, and
//! only if what is left is enough without any other busy member; so a policy, whatever it says,
//! can't change what is read, only when.

use alloc::boxed::Box;
use core::time::Duration;

use det::Instant;

use super::LatencyTotals;
use super::hold::Hold;
use crate::units::{Lba, MemberId, Set};

/// A read that could go around busy members. Numbers are of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detour {
    /// What users have read since the start.
    pub read: u64,
    /// What is asked for by this one.
    pub blocks: u32,
    /// What this one would read beyond what is asked for.
    pub extra: u32,
}

/// A write that could be staged on other members.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Redirect {
    /// How many blocks it writes.
    pub blocks: u32,
    /// Whether a member is busy whose data it writes.
    pub data_busy: bool,
    /// Whether any member is busy that it would have to wait for.
    pub busy: bool,
    /// Whether a member is being rebuilt, which whatever is done at home would slow down.
    pub rebuilds: bool,
    /// Whether it writes over what is staged: at home it would have to wait for flushes.
    pub staged: bool,
    /// Whether it is late: it was to go home, and has read old data or parity for that. It may have waited for a busy
    /// member already, and then there is less to win by staging it.
    pub late: bool,
    /// Whether it would be written to the journal at home, which it need not be if it is staged.
    pub journaled: bool,
    /// Which part of the staging log is in use, where it is fullest.
    pub used: f64,
}

/// Which way a request went, or a part of it that lies in one stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Home, and no member that it needed was busy.
    Calm,
    /// Home, although one was: the policy wanted it so.
    Home,
    /// Around busy members: read from the others, or staged.
    Around,
}

/// How a request has ended, or a part of it that lies in one stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Whether it was a read; if not, a write.
    pub read: bool,
    /// How many blocks it had.
    pub blocks: u32,
    /// Which way it went.
    pub way: Way,
    /// How long it took.
    pub took: Duration,
    /// If it was [late](Redirect::late) when its way was chosen: how long it took from then on. It may have waited for
    /// a busy member before, whichever way it went then.
    pub late: Option<Duration>,
    /// Whether it was a write that took long at home, and was [staged as well](SteeringPolicy::hedged_write).
    pub hedged: bool,
}

/// A write that took long at home, and was staged as well, when both have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HedgedWrite {
    /// How many blocks it had.
    pub blocks: u32,
    /// Which way it was to go.
    pub way: Way,
    /// How long it took.
    pub took: Duration,
    /// The same from when its way was chosen, if it was [late](Redirect::late) by then.
    pub late: Option<Duration>,
    /// How long it would have taken at home: at least this, if it was still reading when it was staged.
    pub home: Duration,
}

/// A policy: says where reads and writes go.
pub trait SteeringPolicy: Send {
    /// Whether a read goes around the busy members that it concerns, or around those that take long.
    fn takes(&mut self, now: Instant, detour: Detour) -> bool;

    /// Whether reads go around busy members at once. If not, it is asked only about those that have taken long at
    /// home.
    fn detours(&self) -> bool {
        true
    }

    /// How long a read of so many blocks waits at home before another way is tried, too (see
    /// [`SteeringPolicy::takes`], which is asked then); for ever if none.
    fn patience(&mut self, _now: Instant, _blocks: u32) -> Option<Duration> {
        None
    }

    /// How long a staged write of so many blocks waits for members that take long, before others get its entry in
    /// their place; for ever if none.
    fn write_patience(&mut self, _now: Instant, _blocks: u32) -> Option<Duration> {
        None
    }

    /// How long a write of so many blocks may take at home before it is staged as well, if the policy wants
    /// [that](SteeringPolicy::hedges_write) then; for ever if none.
    fn home_patience(&mut self, _now: Instant, _blocks: u32) -> Option<Duration> {
        None
    }

    /// Whether a write is staged as well that has taken that long at home.
    fn hedges_write(&mut self, _now: Instant, _redirect: Redirect) -> bool {
        false
    }

    /// Whether it may stage a write that no busy member would keep waiting. If not, it is not asked about such
    /// a write.
    fn stages_calm(&self) -> bool {
        false
    }

    /// Whether a write is staged, to come home later.
    fn stages(&mut self, now: Instant, redirect: Redirect) -> bool;

    /// In which order what is staged comes home; the oldest first if none. Asked when the policy is set.
    fn hold(&self) -> Option<Box<dyn Hold>> {
        None
    }

    /// For how long users have to want nothing before what is staged comes home, if the log is empty.
    fn lull(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether a copy is made of what is read at home, so that it can be read elsewhere when that is
    /// busy. Asked for each small read.
    fn keeps(&mut self, _now: Instant, _home: MemberId, _first: Lba, _blocks: u32) -> bool {
        false
    }

    /// A read or write has ended well.
    fn ended(&mut self, _outcome: Outcome) {}

    /// A read of so many blocks that was tried a second way has ended both ways: all was there after `took`, and would
    /// have been at home after `home`, both without what arithmetic takes. Not told if either has failed.
    fn hedged(&mut self, _blocks: u32, _took: Duration, _home: Duration) {}

    /// A write that was staged as well as written home has ended both ways. Not told if either has failed.
    fn hedged_write(&mut self, _hedged: HedgedWrite) {}

    /// What the requests that have ended come to in all, if it keeps count.
    fn latency_totals(&self) -> LatencyTotals {
        LatencyTotals::default()
    }

    /// Tells of the choices that it judges.
    fn tell(&self, _judged: &mut dyn FnMut(Judged)) {}
}

/// A choice of a policy, which it judges by the mean latency of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Requests for a busy member's blocks are led around it: reads go to other members, writes are
    /// staged.
    Detour {
        /// Whether it is of reads, not of writes.
        reads: bool,
        /// Whether it is of small requests, not of large ones.
        small: bool,
    },
    /// Writes for a busy member's blocks that are [late](Redirect::late) are staged.
    Late {
        /// Whether it is of small ones, not of large ones.
        small: bool,
    },
    /// Small writes that take long at home are staged as well.
    HedgedWrites,
    /// Members collect garbage in turns, not as they like.
    Turns,
}

/// What a policy has found of one of its choices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judged {
    /// Which.
    pub choice: Choice,
    /// Whether it is made now: one that is found to lose rests.
    pub on: bool,
    /// Since when, if it ever changed.
    pub since: Option<Instant>,
    /// How long requests take on average that it need not concern itself with; nothing if there was
    /// none yet, as below.
    pub calm: Option<Duration>,
    /// How long those take that go the way that it leads ...
    pub around: Option<Duration>,
    /// ... and those that are left alone.
    pub home: Option<Duration>,
}

/// How many I/Os more a young member may have in hand than another, and still be taken first.
const HEAD_START: u32 = 8;

/// Which members are busy or young, and the policy that says what is done about it. Without one requests
/// go home.
#[derive(Default)]
pub(super) struct Steering {
    policy: Option<Box<dyn SteeringPolicy>>,
    busy: Set<MemberId>,
    young: Set<MemberId>,
    /// Blocks that users have read since the start.
    read: u64,
}

impl Steering {
    pub(super) fn policy(&self) -> Option<&dyn SteeringPolicy> {
        self.policy.as_deref()
    }

    /// Where requests go is said by this policy. Without one no member counts as busy, or as young.
    pub(super) fn set_policy(&mut self, policy: Option<Box<dyn SteeringPolicy>>) {
        if policy.is_none() {
            (self.busy, self.young) = (Set::EMPTY, Set::EMPTY);
        }
        self.policy = policy;
    }

    /// The members that are said to be busy.
    #[inline]
    pub(super) fn busy(&self) -> Set<MemberId> {
        self.busy
    }

    #[inline]
    pub(super) fn is_busy(&self, member: MemberId) -> bool {
        self.busy.has(member)
    }

    /// These members and no others are busy now.
    pub(super) fn set_busy(&mut self, busy: Set<MemberId>) {
        self.busy = busy;
    }

    /// The members that are said to be young.
    #[inline]
    pub(super) fn young(&self) -> Set<MemberId> {
        self.young
    }

    /// These members and no others are young.
    pub(super) fn set_young(&mut self, young: Set<MemberId>) {
        self.young = young;
    }

    /// How much speaks against writing to a member that has so many I/Os in hand, where it could be another.
    #[inline]
    pub(super) fn burden(&self, member: MemberId, in_hand: u32) -> u32 {
        if self.young.has(member) { in_hand } else { in_hand + HEAD_START }
    }

    /// These members by which are asked first to hold something: young ones, others, busy ones.
    pub(super) fn tiers(&self, able: Set<MemberId>) -> [Set<MemberId>; 3] {
        let calm = able.minus(self.busy);
        [calm.and(self.young), calm.minus(self.young), able.and(self.busy)]
    }

    // Reads.

    /// A user reads so many blocks, whichever way.
    pub(super) fn count_read(&mut self, blocks: u32) {
        self.read += u64::from(blocks);
    }

    /// Whether any read may be led around members that are said to be busy.
    #[inline]
    pub(super) fn leads_around(&self) -> bool {
        self.policy.is_some() && !self.busy.is_empty()
    }

    /// Whether one that a busy member concerns may be led around it at once.
    pub(super) fn detours(&self) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.detours())
    }

    /// Whether a read of so many blocks goes another way, where it reads `extra` ones.
    pub(super) fn takes(&mut self, now: Instant, blocks: u32, extra: u32) -> bool {
        let detour = Detour { read: self.read, blocks, extra };
        self.policy.as_mut().is_some_and(|policy| policy.takes(now, detour))
    }

    /// How long a read of so many blocks waits at home before another way is tried, too; for ever if
    /// none.
    pub(super) fn patience(&mut self, now: Instant, blocks: u32) -> Option<Duration> {
        self.policy.as_mut()?.patience(now, blocks)
    }

    /// Whether a copy is made of what is read at home.
    pub(super) fn keeps(&mut self, now: Instant, home: MemberId, first: Lba, blocks: u32) -> bool {
        self.policy.as_mut().is_some_and(|policy| policy.keeps(now, home, first, blocks))
    }

    // Writes.

    /// Whether a write may be staged that nothing but busy members would keep waiting.
    #[inline]
    pub(super) fn may_stage(&self) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.stages_calm() || !self.busy.is_empty())
    }

    /// Whether a write is staged; none if the policy is not asked about it.
    pub(super) fn stages(&mut self, now: Instant, redirect: Redirect) -> Option<bool> {
        let policy = self.policy.as_mut()?;
        let waits = redirect.busy || redirect.staged || redirect.rebuilds;
        (waits || policy.stages_calm()).then(|| policy.stages(now, redirect))
    }

    /// How long a staged write of so many blocks waits for members that take long; for ever if none.
    pub(super) fn write_patience(&mut self, now: Instant, blocks: u32) -> Option<Duration> {
        self.policy.as_mut()?.write_patience(now, blocks)
    }

    /// How long a write of so many blocks may take at home; for ever if none.
    pub(super) fn home_patience(&mut self, now: Instant, blocks: u32) -> Option<Duration> {
        self.policy.as_mut()?.home_patience(now, blocks)
    }

    /// Whether a write that takes long at home is staged as well.
    pub(super) fn hedges_write(&mut self, now: Instant, redirect: Redirect) -> bool {
        self.policy.as_mut().is_some_and(|policy| policy.hedges_write(now, redirect))
    }

    /// A write has ended both ways.
    pub(super) fn hedged_write(&mut self, hedged: HedgedWrite) {
        if let Some(policy) = &mut self.policy {
            policy.hedged_write(hedged);
        }
    }

    /// How long a lull is after which what is staged comes home; none without a policy.
    pub(super) fn lull(&self) -> Duration {
        self.policy.as_ref().map_or(Duration::ZERO, |policy| policy.lull())
    }

    /// A user's read or write has ended well.
    pub(super) fn ended(&mut self, outcome: Outcome) {
        if let Some(policy) = &mut self.policy {
            policy.ended(outcome);
        }
    }

    /// A read of so many blocks has ended both ways: as of [`SteeringPolicy::hedged`].
    pub(super) fn hedged(&mut self, blocks: u32, took: Duration, home: Duration) {
        if let Some(policy) = &mut self.policy {
            policy.hedged(blocks, took, home);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stages all that it is asked about, and goes around if that costs less than was read so far.
    struct Policy {
        calm: bool,
    }

    impl SteeringPolicy for Policy {
        fn takes(&mut self, _: Instant, detour: Detour) -> bool {
            u64::from(detour.extra) < detour.read
        }

        fn stages_calm(&self) -> bool {
            self.calm
        }

        fn stages(&mut self, _: Instant, _: Redirect) -> bool {
            true
        }
    }

    fn steering(calm: bool) -> Steering {
        let mut steering = Steering::default();
        steering.set_policy(Some(Box::new(Policy { calm })));
        steering
    }

    const CALM: Redirect = Redirect {
        blocks: 1,
        data_busy: false,
        busy: false,
        rebuilds: false,
        staged: false,
        late: false,
        journaled: true,
        used: 0.0,
    };

    #[test]
    fn a_policy_is_asked_only_about_writes_that_something_would_keep_waiting() {
        let mut steering = steering(false);
        let mut stages = |redirect| steering.stages(Instant::ORIGIN, redirect);
        assert_eq!(stages(CALM), None);
        assert_eq!(stages(Redirect { data_busy: true, ..CALM }), None, "that alone says nothing");
        for redirect in [
            Redirect { busy: true, ..CALM },
            Redirect { rebuilds: true, ..CALM },
            Redirect { staged: true, ..CALM },
        ] {
            assert_eq!(stages(redirect), Some(true));
        }
    }

    #[test]
    fn a_policy_that_stages_calm_writes_is_asked_about_all() {
        assert_eq!(steering(true).stages(Instant::ORIGIN, CALM), Some(true));
        assert!(steering(true).may_stage() && !steering(false).may_stage());
    }

    #[test]
    fn detours_are_weighed_against_all_that_was_read() {
        let mut steering = steering(false);
        steering.count_read(3);
        steering.count_read(2);
        assert!(steering.takes(Instant::ORIGIN, 1, 4) && !steering.takes(Instant::ORIGIN, 1, 5));
    }

    #[test]
    fn a_young_member_is_written_first_unless_it_has_much_more_to_do() {
        let mut steering = steering(false);
        assert_eq!(steering.burden(MemberId(0), 3), steering.burden(MemberId(1), 3));
        steering.set_young(Set::one(MemberId(1)));
        assert!(steering.burden(MemberId(1), HEAD_START - 1) < steering.burden(MemberId(0), 0));
        assert!(steering.burden(MemberId(1), HEAD_START + 1) > steering.burden(MemberId(0), 0));
    }

    #[test]
    fn without_a_policy_all_goes_home_and_nobody_is_busy() {
        let mut steering = steering(true);
        steering.set_busy(Set::one(MemberId(2)));
        assert!(steering.leads_around() && steering.is_busy(MemberId(2)));
        steering.set_young(Set::one(MemberId(1)));
        steering.set_policy(None);
        assert!(steering.busy().is_empty() && steering.young().is_empty());
        steering.set_busy(Set::one(MemberId(2)));
        assert!(!steering.leads_around() && !steering.may_stage());
        assert_eq!(steering.stages(Instant::ORIGIN, Redirect { busy: true, ..CALM }), None);
        assert!(!steering.takes(Instant::ORIGIN, 1, 0));
    }
}
