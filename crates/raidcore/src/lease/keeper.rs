//! The lease of a holder: renewed, lost or given up.
//!
//! Each member is read before it is written, so that a claim of another host is noticed and not written over.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;

use super::{Answer, Ask, majority};
use crate::meta::{Holder, LeaseBlock, Term};
use crate::units::{MEMBERS_MAX, MemberId, Set};

/// Why a holder may act no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// It could not renew the lease on a quorum within the term.
    Expired,
    /// Another has claimed it.
    Taken(Holder),
}

/// What a member has of the renewals.
#[derive(Clone, Copy, Default, Debug)]
struct OnMember {
    /// When the last renewal was begun that it has.
    renewed: Option<Instant>,
    /// Of which voters that told.
    version: u32,
    /// What it was asked for, if it has not answered.
    asked: Option<Renewal>,
}

/// A renewal of one member.
#[derive(Clone, Copy, Debug)]
struct Renewal {
    begun: Instant,
    version: u32,
}

/// A lease that is held. See the [module](super).
#[derive(Debug)]
pub struct Keeper {
    block: LeaseBlock,
    /// The members whose blocks are written.
    members: Set<MemberId>,
    /// The voters that are in effect, and those that are written and may be in effect for some takers.
    voters: Vec<Set<MemberId>>,
    version: u32,
    on: [OnMember; MEMBERS_MAX],
    /// Members that have not answered what the taker asked them.
    late: Set<MemberId>,
    next: Instant,
    asks: VecDeque<Ask>,
    lost: Option<Lost>,
    gives_up: Option<Instant>,
}

impl Keeper {
    /// The lease of a claim, or of a renewal in place of a process that was killed, which was begun at
    /// `begun` and is on the members `on`. It renews at once, but for members that are `late` with an answer.
    pub(super) fn new(
        block: LeaseBlock,
        begun: Instant,
        on: Set<MemberId>,
        (members, late): (Set<MemberId>, Set<MemberId>),
    ) -> Self {
        let mut keeper = Self {
            block,
            members,
            voters: alloc::vec![block.voters],
            version: 0,
            on: [OnMember::default(); MEMBERS_MAX],
            late,
            next: begun,
            asks: VecDeque::new(),
            lost: None,
            gives_up: None,
        };
        on.for_each(|member| keeper.on[member.index()].renewed = Some(begun));
        keeper
    }

    /// Until when the holder may act.
    #[must_use]
    pub fn until(&self) -> Instant {
        let acts = self.lost.is_none() && self.gives_up.is_none();
        if acts { self.expires() } else { Instant::ORIGIN }
    }

    /// Until when its blocks may be written.
    fn expires(&self) -> Instant {
        let until = self.voters.iter().map(|&voters| self.renewed_on_quorum(voters));
        until.min().flatten().map_or(Instant::ORIGIN, |begun| begun + self.block.term.duration())
    }

    /// When the last renewal was begun that counts.
    #[must_use]
    pub fn renewed(&self) -> Option<Instant> {
        self.renewed_on_quorum(self.voters[0])
    }

    /// Why the holder may act no more, if it may not.
    #[must_use]
    pub fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// How often the lease was claimed.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.block.generation
    }

    /// The term.
    #[must_use]
    pub fn term(&self) -> Term {
        self.block.term
    }

    /// The members whose blocks decide.
    #[must_use]
    pub fn voters(&self) -> Set<MemberId> {
        self.block.voters
    }

    /// The members that have not answered for `patience`: they hang.
    #[must_use]
    pub fn silent(&self, now: Instant, patience: Duration) -> Set<MemberId> {
        let hangs = |on: &OnMember| on.asked.is_some_and(|asked| now - asked.begun >= patience);
        let all = (0..MEMBERS_MAX).map(MemberId::at);
        all.filter(|member| hangs(&self.on[member.index()])).collect()
    }

    /// When [`Keeper::tick`] is to be called at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let expires = self.expires();
        let given_up =
            self.gives_up.map(|at| at + self.block.term.fresh() + Duration::from_nanos(1));
        self.lost.is_none().then_some(given_up.unwrap_or(self.next).min(expires))
    }

    /// What is to be done.
    pub fn next_ask(&mut self) -> Option<Ask> {
        self.asks.pop_front()
    }

    /// The members that serve are others now: their blocks decide from when all of them tell so. `fresh` are
    /// those in whose place is another device than before. All of this is on record, durably, after so many
    /// changes of it.
    pub fn set_members(
        &mut self,
        now: Instant,
        serve: Set<MemberId>,
        fresh: Set<MemberId>,
        events: u64,
    ) {
        // What the device that left has does not count, and its answers are not to come here any more.
        fresh.for_each(|member| self.on[member.index()] = OnMember::default());
        self.late = self.late.minus(fresh);
        self.members = serve;
        self.block.events = events;
        if serve == self.block.voters || serve.is_empty() {
            return;
        }
        self.block.voters = serve;
        self.voters.push(serve);
        self.version += 1;
        self.next = now;
    }

    /// The array is stopped: nothing is under way any more, and others may have the lease at once.
    pub fn give_up(&mut self, now: Instant) {
        if self.lost.is_none() && now < self.until() {
            self.gives_up = Some(now);
            self.block.held = false;
            self.renew(now);
        }
    }

    /// Whether what is left to be done of giving it up is done, or nothing more of it may be begun.
    #[must_use]
    pub fn is_given_up(&self, now: Instant) -> bool {
        let Some(at) = self.gives_up else { return false };
        let is_done = self.on.iter().all(|on| on.asked.is_none());
        self.lost.is_some() || is_done || now - at > self.block.term.fresh()
    }

    /// The time is `now`.
    pub fn tick(&mut self, now: Instant) {
        if self.lost.is_none() && now >= self.expires() {
            self.lose(Lost::Expired);
        }
        if self.lost.is_none() && self.gives_up.is_none() && now >= self.next {
            self.renew(now);
        }
    }

    /// A member has done what it was asked for.
    pub fn answered(&mut self, now: Instant, member: MemberId, answer: Answer) {
        self.tick(now);
        if self.late.has(member) {
            self.late = self.late.without(member);
            return;
        }
        let Some(asked) = self.on[member.index()].asked.take() else { return };
        if self.lost.is_some() {
            return;
        }
        match answer {
            Answer::Read(Some(block)) if self.is_of_another(&block) => {
                self.lose(Lost::Taken(block.holder));
            }
            // Who has seen that it is given up may have claimed it, and would be written over.
            Answer::Read(_)
                if self.gives_up.is_some_and(|at| now - at > self.block.term.fresh()) => {}
            Answer::Read(_) => {
                self.on[member.index()].asked = Some(Renewal { version: self.version, ..asked });
                let block = LeaseBlock { begun: asked.begun.0, ..self.block };
                self.asks.push_back(Ask::Write(member, block));
            }
            Answer::Wrote => {
                let on = &mut self.on[member.index()];
                (on.renewed, on.version) = (Some(asked.begun), asked.version);
                self.settle();
            }
            Answer::Failed => {}
        }
    }

    /// Begins a renewal on all members that have answered.
    fn renew(&mut self, now: Instant) {
        self.next = now + self.block.term.renews();
        self.block.counter += 1;
        let renewal = Renewal { begun: now, version: self.version };
        for member in self.members.minus(self.late) {
            let on = &mut self.on[member.index()];
            if on.asked.is_none() {
                on.asked = Some(renewal);
                self.asks.push_back(Ask::Read(member));
            }
        }
    }

    /// The last voters are in effect if each of them tells of them.
    fn settle(&mut self) {
        let told = |member: MemberId| self.on[member.index()].version >= self.version;
        if self.voters.len() > 1 && self.block.voters.into_iter().all(told) {
            self.voters = alloc::vec![self.block.voters];
        }
    }

    /// Whether another has claimed it. A claim of the same generation is one that has failed, as this one
    /// has succeeded; it is written over.
    fn is_of_another(&self, block: &LeaseBlock) -> bool {
        block.generation > self.block.generation
    }

    fn lose(&mut self, why: Lost) {
        self.lost = Some(why);
        self.asks.clear();
    }

    /// When the last renewal was begun that a quorum of the voters has.
    fn renewed_on_quorum(&self, voters: Set<MemberId>) -> Option<Instant> {
        let mut begun: Vec<Option<Instant>> = voters.map(|m| self.on[m.index()].renewed).collect();
        begun.sort_unstable_by(|a, b| b.cmp(a));
        begun.get(majority(voters) - 1).copied().flatten()
    }
}
