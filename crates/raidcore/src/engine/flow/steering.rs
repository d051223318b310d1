//! Reads go around busy members, as the policy says.

use alloc::boxed::Box;
use core::mem;

use crate::engine::job::Asked;
use crate::engine::steering::{Outcome, SteeringPolicy, Way};
use crate::engine::work::Work;
use crate::engine::{Engine, JobId, LatencyTotals};
use crate::geometry::Role;
use crate::plan::{self, Base, Health, Lost, Parity};
use crate::units::{MemberId, Set, Stripe};

impl Engine {
    /// The policy that says where reads and writes go, if there is one.
    #[must_use]
    pub fn steering_policy(&self) -> Option<&dyn SteeringPolicy> {
        self.array.steering.policy()
    }

    /// What requests have come to, as far as the policy keeps count.
    #[must_use]
    pub fn latency_totals(&self) -> LatencyTotals {
        self.steering_policy().map(|policy| policy.latency_totals()).unwrap_or_default()
    }

    /// Tells the policy how a user's read or write has ended.
    pub(super) fn tell_policy(&mut self, id: JobId) {
        let job = &self.range.jobs[id];
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
        if read && job.pieces.is_empty() && !job.kept.is_empty() {
            // It was found in memory, which says nothing about members.
            return;
        }
        // A job that was given up has no tag any more.
        if job.error.is_none() && job.bad.is_empty() && !job.asked.tags.is_empty() {
            let Asked { blocks, begun, way, late, .. } = job.asked;
            let (took, late) = (self.now - begun, late.map(|chosen| self.now - chosen));
            let hedged = !read && self.range.jobs[id].hedge.twin.is_some();
            self.array.steering.ended(Outcome { read, blocks, way, took, late, hedged });
        }
    }

    /// Sets the policy that says where reads and writes go; without one they go home, and no member
    /// counts as busy. What is under way stays as it was begun, and what is staged comes home by
    /// itself.
    pub fn set_steering(&mut self, policy: Option<Box<dyn SteeringPolicy>>) {
        let hold = policy.as_ref().and_then(|policy| policy.hold());
        self.range.staging.set_hold(hold, &self.layout);
        self.array.steering.set_policy(policy);
        self.range.staging.look_again(self.array.steering.busy());
    }

    /// These members and no others are busy now.
    pub(in crate::engine) fn set_busy(&mut self, busy: Set<MemberId>) {
        self.array.steering.set_busy(busy);
        self.range.staging.look_again(self.array.steering.busy());
    }

    /// The roles of members in a stripe; staging devices have none.
    pub(super) fn roles_of(&self, stripe: Stripe, members: Set<MemberId>) -> Set<Role> {
        let members = members.and(self.layout.member_set());
        members.filter_map(|member| self.layout.role(stripe, member)).collect()
    }

    /// Plans a read around busy members, if there are any that it concerns and the policy wants to.
    /// Tells whether it has.
    pub(super) fn plan_detour(&mut self, id: JobId, readable: Set<Role>, parity: Parity) -> bool {
        let job = &self.range.jobs[id];
        let geo = self.layout.of(job.stripe);
        let blocks = job.piece_blocks();
        let first_try = job.bad.is_empty();
        if first_try {
            self.array.steering.count_read(blocks);
        }
        let redundant = parity == Parity::InStep && !geo.is_mirrored();
        if !self.array.steering.leads_around()
            || !first_try
            || !redundant
            || job.base == Base::Zeros
        {
            return false;
        }
        let busy = self.roles_of(job.stripe, self.array.steering.busy());
        let calm = readable.minus(busy);
        let concerned = job.pieces.iter().any(|piece| busy.has(piece.role));
        let enough = calm.len() + geo.parities() >= geo.width();
        if !concerned || !enough {
            return false;
        }
        if !self.array.steering.detours() {
            self.range.jobs[id].asked.way = Way::Home;
            return false;
        }
        let job = &mut self.range.jobs[id];
        let mut plan = mem::take(&mut job.plan);
        let health = Health { readable: calm, writable: calm, parity, bad: &[] };
        let planned = plan::read(&mut plan, geo, &health, &job.pieces, job.base, 0);
        let reads: u32 = plan.reads.iter().map(|io| io.blocks).sum();
        job.plan = plan;
        let extra = reads.saturating_sub(blocks);
        let takes = planned != Err(Lost) && self.array.steering.takes(self.now, blocks, extra);
        self.range.jobs[id].asked.way = if takes { Way::Around } else { Way::Home };
        if takes {
            self.array.counters.detours += 1;
            self.array.counters.detour_blocks += u64::from(extra);
            let job = &self.range.jobs[id];
            let home = |role: Role| self.layout.member(job.stripe, role);
            let homes: Set<_> = job.pieces.iter().map(|piece| home(piece.role)).collect();
            let around = homes.and(self.array.steering.busy());
            around.for_each(|member| self.array.membership.avoid_read(member));
        }
        takes
    }
}
