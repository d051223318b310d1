//! Where reads go when members are busy: home, or to the others, as a policy says.
//!
//! Invariants: a member is gone around only where redundancy is known to agree with the data, and
//! only if what is left is enough without any other busy member; so a policy, whatever it says,
//! can't change what is read, only when.

use alloc::boxed::Box;
use core::mem;
use core::time::Duration;

use det::Instant;

use super::work::Work;
use super::{Engine, JobId, LatencyTotals};
use crate::geometry::{Level, Role};
use crate::plan::{self, Base, Health, Lost, Parity};
use crate::units::{Lba, MemberId, Set, Stripe};

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
}

/// A policy: says where reads and writes go.
pub trait SteeringPolicy: Send {
    /// Whether a read goes around the busy members that it concerns.
    fn takes(&mut self, now: Instant, detour: Detour) -> bool;

    /// How long a read of so many blocks waits at home before another way is tried, too (see
    /// [`SteeringPolicy::takes`], which is asked then); for ever if none.
    fn patience(&mut self, _now: Instant, _blocks: u32) -> Option<Duration> {
        None
    }

    /// Whether it may stage a write that no busy member would keep waiting. If not, it is not asked about such
    /// a write.
    fn stages_calm(&self) -> bool {
        false
    }

    /// Whether a write is staged, to come home later.
    fn stages(&mut self, now: Instant, redirect: Redirect) -> bool;

    /// Whether a copy is made of what is read at home, so that it can be read elsewhere when that is
    /// busy. Asked for each small read.
    fn keeps(&mut self, _now: Instant, _home: MemberId, _first: Lba, _blocks: u32) -> bool {
        false
    }

    /// A read or write has ended well.
    fn ended(&mut self, _outcome: Outcome) {}

    /// What the requests that have ended come to in all, if it keeps count.
    fn latency_totals(&self) -> LatencyTotals {
        LatencyTotals::default()
    }

    /// What there is to say of its parts, for people.
    fn tell(&self, _part: &mut dyn FnMut(Part)) {}
}

/// What a policy says of one of its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// What it does.
    pub name: &'static str,
    /// In a few words, what `around` and `home` are.
    pub ways: [&'static str; 2],
    /// Whether it does it now: a part that is found to lose rests.
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

/// Which members are busy, and what is done about it.
#[derive(Default)]
pub(super) struct Steering {
    pub(super) policy: Option<Box<dyn SteeringPolicy>>,
    pub(super) busy: Set<MemberId>,
    pub(super) read: u64,
}

impl Engine {
    /// The policy that says where reads and writes go, if there is one.
    #[must_use]
    pub fn steering_policy(&self) -> Option<&dyn SteeringPolicy> {
        self.steering.policy.as_deref()
    }

    /// What requests have come to, as far as the policy keeps count.
    #[must_use]
    pub fn latency_totals(&self) -> LatencyTotals {
        self.steering_policy().map(|policy| policy.latency_totals()).unwrap_or_default()
    }

    /// Tells the policy how a user's read or write has ended.
    pub(super) fn tell_policy(&mut self, id: JobId) {
        let Some(policy) = &mut self.steering.policy else { return };
        let job = &self.jobs[id];
        let read = match job.work {
            Work::Read => true,
            Work::Write => false,
            Work::Zero { .. }
            | Work::Sync(_)
            | Work::Align
            | Work::Repair
            | Work::Replay { .. }
            | Work::Reclaim => return,
        };
        // A job that was given up has no tag any more.
        if job.error.is_none() && job.bad.is_empty() && !job.tags.is_empty() {
            let (blocks, took) = (job.blocks, self.now - job.begun);
            policy.ended(Outcome { read, blocks, way: job.way, took });
        }
    }

    /// Sets the policy that says where reads and writes go; without one they go home, and no member
    /// counts as busy. What is under way stays as it was begun, and what is staged comes home by
    /// itself.
    pub fn set_steering(&mut self, policy: Option<Box<dyn SteeringPolicy>>) {
        if policy.is_none() {
            self.set_busy(Set::EMPTY);
        }
        self.steering.policy = policy;
    }

    /// These members and no others are busy now.
    pub(super) fn set_busy(&mut self, busy: Set<MemberId>) {
        self.steering.busy = busy;
        self.staging.blocked = false;
    }

    /// The roles of members in a stripe; staging devices have none.
    pub(super) fn roles_of(&self, stripe: Stripe, members: Set<MemberId>) -> Set<Role> {
        let members = members.and(self.geo.member_set());
        members.filter_map(|member| self.geo.role(stripe, member)).collect()
    }

    /// Whether a member is said to be busy.
    pub(super) fn is_member_busy(&self, member: MemberId) -> bool {
        self.steering.busy.has(member)
    }

    /// Plans a read around busy members, if there are any that it concerns and the policy wants to.
    /// Tells whether it has.
    pub(super) fn plan_detour(&mut self, id: JobId, readable: Set<Role>, parity: Parity) -> bool {
        let job = &self.jobs[id];
        let geo = self.geo.of(job.stripe);
        let blocks = job.piece_blocks();
        let first_try = job.bad.is_empty();
        if first_try {
            self.steering.read += u64::from(blocks);
        }
        let redundant = parity == Parity::InStep && geo.level() != Level::Raid1;
        if self.steering.busy.is_empty() || !first_try || !redundant || job.base == Base::Zeros {
            return false;
        }
        let busy = self.roles_of(job.stripe, self.steering.busy);
        let calm = readable.minus(busy);
        let concerned = job.pieces.iter().any(|piece| busy.has(piece.role));
        let enough = calm.len() + geo.parities() >= geo.width();
        if !concerned || !enough {
            return false;
        }
        let Some(mut policy) = self.steering.policy.take() else { return false };
        let job = &mut self.jobs[id];
        let mut plan = mem::take(&mut job.plan);
        let health = Health { readable: calm, writable: calm, parity, bad: &[] };
        let planned = plan::read(&mut plan, geo, &health, &job.pieces, job.base, 0);
        let reads: u32 = plan.reads.iter().map(|io| io.blocks).sum();
        job.plan = plan;
        let extra = reads.saturating_sub(blocks);
        let detour = Detour { read: self.steering.read, blocks, extra };
        let takes = planned != Err(Lost) && policy.takes(self.now, detour);
        self.steering.policy = Some(policy);
        self.jobs[id].way = if takes { Way::Around } else { Way::Home };
        if takes {
            self.counters.detours += 1;
            self.counters.detour_blocks += u64::from(extra);
            let job = &self.jobs[id];
            let home = |role: Role| self.geo.member(job.stripe, role);
            let homes: Set<_> = job.pieces.iter().map(|piece| home(piece.role)).collect();
            let around = homes.and(self.steering.busy);
            around.for_each(|member| self.array.members[member.index()].avoided.reads += 1);
        }
        takes
    }
}
