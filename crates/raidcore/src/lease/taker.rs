//! From members on which any host may have written to a lease that is held.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;

use super::{Answer, Ask, Keeper, decides};
use crate::meta::{Holder, LeaseBlock, Term};
use crate::units::{MEMBERS_MAX, MemberId, Set};

/// Who wants the lease, and of what.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The process.
    pub me: Holder,
    /// The term on record.
    pub term: Term,
    /// The members that are there.
    pub members: Set<MemberId>,
    /// The members that are in service on record, as it was read before the taker began.
    pub voters: Set<MemberId>,
    /// The changes of that record.
    pub events: u64,
    /// With how many members the array can run at least.
    pub least: usize,
    /// No other host runs the array or starts it, as the operator says: nothing is waited for.
    pub fenced: bool,
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// The members' answers.
    Members,
    /// That the record is read anew: it has changed since, and other devices may be members.
    Record,
    /// More members: these are there, and too few of those that decide.
    Quorum(Set<MemberId>),
    /// The holder, which was renewed before it was `seen` first: it is dead if it is not renewed until `until`.
    Holder(LeaseBlock, Instant),
    /// That the claim stands, until then.
    Claim(Instant),
}

/// A round in which members are asked for the same.
#[derive(Debug)]
struct Round {
    begun: Instant,
    /// Those that have not answered.
    left: Set<MemberId>,
    /// Those that have, without an error.
    done: Set<MemberId>,
    read: [Option<LeaseBlock>; MEMBERS_MAX],
}

impl Round {
    fn new(begun: Instant) -> Self {
        let nobody = Set::EMPTY;
        Self { begun, left: nobody, done: nobody, read: [None; MEMBERS_MAX] }
    }
}

/// Where the taker is. Sets are of the members that have answered all that was asked so far.
#[derive(Debug)]
enum Phase {
    /// All members are read.
    Looks,
    /// Until it looks again.
    Pauses(Instant),
    /// A holder may be alive. Nothing has moved since `since`.
    Watches { since: Instant, of: Set<MemberId>, next: Instant },
    /// The members are read once more.
    Rereads { since: Instant, of: Set<MemberId> },
    /// The claim is being written.
    Claims(LeaseBlock),
    /// The lease of a process of this kernel that was killed is renewed, which has to end before it expires.
    Continues(LeaseBlock, Instant),
    /// The claim is written, and has to stand until then.
    Settles { block: LeaseBlock, begun: Instant, of: Set<MemberId>, until: Instant },
    /// The claim is read back.
    Confirms { block: LeaseBlock, begun: Instant },
    /// It is held.
    Holds,
}

/// Takes a lease. See the [module](super).
#[derive(Debug)]
pub struct Taker {
    candidate: Candidate,
    phase: Phase,
    round: Round,
    /// What was read when the watch began.
    seen: [Option<LeaseBlock>; MEMBERS_MAX],
    /// Members that have not answered what they were asked in earlier rounds.
    late: Set<MemberId>,
    lacks: Option<Wait>,
    asks: VecDeque<Ask>,
    keeper: Option<Keeper>,
}

impl Taker {
    /// Begins to take the lease.
    #[must_use]
    pub fn new(now: Instant, candidate: Candidate) -> Self {
        let mut taker = Self {
            candidate,
            phase: Phase::Looks,
            round: Round::new(now),
            seen: [None; MEMBERS_MAX],
            late: Set::EMPTY,
            lacks: None,
            asks: VecDeque::new(),
            keeper: None,
        };
        taker.look(now);
        taker
    }

    /// What is to be done.
    pub fn next_ask(&mut self) -> Option<Ask> {
        self.asks.pop_front()
    }

    /// What is waited for.
    #[must_use]
    pub fn waits_for(&self) -> Wait {
        match (&self.phase, self.lacks) {
            (Phase::Watches { since, .. } | Phase::Rereads { since, .. }, _) => {
                let newest = newest(self.seen.iter().flatten());
                newest.map_or(Wait::Members, |block| {
                    Wait::Holder(*block, *since + self.term().waits())
                })
            }
            (Phase::Settles { until, .. }, _) => Wait::Claim(*until),
            (_, lacks) => lacks.unwrap_or(Wait::Members),
        }
    }

    /// The lease, once it is held, and the holder before, if there was one.
    pub fn held(&mut self) -> Option<(Keeper, Option<Holder>)> {
        let before = newest(self.seen.iter().flatten()).map(|block| block.holder);
        self.keeper.take().map(|keeper| (keeper, before))
    }

    /// When [`Taker::tick`] is to be called at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Pauses(until) | Phase::Settles { until, .. } => Some(until),
            Phase::Watches { next, .. } => Some(next),
            Phase::Continues(_, until) => Some(until.min(self.round.begun + self.limit())),
            Phase::Looks | Phase::Rereads { .. } | Phase::Claims(_) | Phase::Confirms { .. } => {
                Some(self.round.begun + self.limit())
            }
            Phase::Holds => None,
        }
    }

    /// A member has done what it was asked for.
    pub fn answered(&mut self, now: Instant, member: MemberId, answer: Answer) {
        if self.late.has(member) {
            self.late = self.late.without(member);
        } else if self.round.left.has(member) {
            self.round.left = self.round.left.without(member);
            if answer != Answer::Failed {
                self.round.done = self.round.done.with(member);
            }
            if let Answer::Read(block) = answer {
                self.round.read[member.index()] = block;
            }
        }
        self.tick(now);
    }

    /// The time is `now`.
    pub fn tick(&mut self, now: Instant) {
        let is_over = self.round.left.is_empty() || now >= self.round.begun + self.limit();
        match self.phase {
            Phase::Pauses(until) if now >= until => self.look(now),
            Phase::Watches { since, of, next } if now >= next => {
                self.phase = Phase::Rereads { since, of };
                self.read(now, of);
            }
            Phase::Settles { block, begun, of, until } if now >= until => {
                self.phase = Phase::Confirms { block, begun };
                self.read(now, of);
            }
            Phase::Looks if is_over => self.looked(now),
            Phase::Rereads { since, of } if is_over => self.reread(now, since, of),
            Phase::Claims(block) if is_over => self.claimed(now, block),
            Phase::Continues(block, until) if is_over || now >= until => {
                self.continued(now, block, until)
            }
            Phase::Confirms { block, begun } if is_over => self.confirmed(now, block, begun),
            Phase::Pauses(_)
            | Phase::Watches { .. }
            | Phase::Settles { .. }
            | Phase::Looks
            | Phase::Rereads { .. }
            | Phase::Claims(_)
            | Phase::Continues(..)
            | Phase::Confirms { .. }
            | Phase::Holds => {}
        }
    }

    /// The longest term of those that holders go by.
    fn term(&self) -> Term {
        let terms = self.seen.iter().flatten().map(|block| block.term);
        terms.fold(self.candidate.term, Term::max)
    }

    /// How long a round may take.
    fn limit(&self) -> Duration {
        self.candidate.term.duration() / 4
    }

    fn look(&mut self, now: Instant) {
        self.phase = Phase::Looks;
        self.read(now, self.candidate.members);
    }

    fn pause(&mut self, now: Instant) {
        self.phase = Phase::Pauses(now + self.candidate.term.fresh());
    }

    fn read(&mut self, now: Instant, of: Set<MemberId>) {
        self.begin(now, of);
        self.asks.extend(self.round.left.map(Ask::Read));
    }

    /// Begins a round with those members that have answered what they were asked before.
    fn begin(&mut self, now: Instant, of: Set<MemberId>) {
        self.late = self.late.or(self.round.left);
        self.round = Round { left: of.minus(self.late), ..Round::new(now) };
    }

    /// Those that decide: the members in service on record. A holder that has yet to learn of a change learns
    /// it sooner than a taker, which has read the record before, has waited.
    fn voters(&self) -> Set<MemberId> {
        self.candidate.voters
    }

    fn is_quorum(&self, of: Set<MemberId>) -> bool {
        decides(self.voters(), self.candidate.least, of)
    }

    fn looked(&mut self, now: Instant) {
        self.seen = self.round.read;
        let of = self.round.done;
        if !self.is_quorum(of) {
            self.lacks = Some(Wait::Quorum(of));
            return self.pause(now);
        }
        let newest = newest(self.seen.iter().flatten()).copied();
        let is_old = newest.is_some_and(|block| block.events > self.candidate.events);
        // Members that are not here can't tell more than the operator.
        if is_old && !self.candidate.fenced {
            self.lacks = Some(Wait::Record);
            return self.pause(now);
        }
        self.lacks = None;
        match newest {
            Some(block) if block.held && !self.candidate.fenced => {
                let is_alone = self.is_of_this_kernel(block.generation);
                let continues = is_alone && self.voters() == block.voters;
                match self.expiry(block.generation).filter(|&until| continues && now < until) {
                    Some(until) => self.continue_it(now, block, until),
                    None if is_alone => self.claim(now),
                    None => {
                        let next = now + self.pace();
                        self.phase = Phase::Watches { since: now, of, next };
                    }
                }
            }
            Some(_) | None => self.claim(now),
        }
    }

    /// How often members are read while a holder is watched.
    fn pace(&self) -> Duration {
        self.term().duration() / 4
    }

    /// Whether all who had a hand in a generation are processes of this kernel. They are dead, with all that
    /// they have begun: their locks are free.
    fn is_of_this_kernel(&self, generation: u64) -> bool {
        let blocks = self.seen.iter().flatten().filter(|block| block.generation == generation);
        blocks.into_iter().all(|block| block.holder.shares_kernel_with(&self.candidate.me))
    }

    /// Until when the holder of a generation may act, as far as a quorum tells. One that has only claimed it
    /// may not.
    fn expiry(&self, generation: u64) -> Option<Instant> {
        let voters = self.voters();
        let of =
            |member: MemberId| self.seen[member.index()].filter(|b| b.generation == generation);
        let mut begun: Vec<Option<u64>> = voters
            .map(|member| of(member).filter(|block| block.counter > 0).map(|block| block.begun))
            .collect();
        begun.sort_unstable_by(|a, b| b.cmp(a));
        let begun = begun.get(super::majority(voters) - 1).copied().flatten()?;
        let term = newest(self.seen.iter().flatten())?.term;
        Some(Instant(begun) + term.duration())
    }

    fn reread(&mut self, now: Instant, since: Instant, of: Set<MemberId>) {
        let there = of.and(self.round.done);
        let has_moved = |m: MemberId| self.round.read[m.index()] != self.seen[m.index()];
        if there.into_iter().any(has_moved) {
            return self.look(now);
        }
        let end = since + self.term().waits();
        if self.round.begun < end {
            // Who has not answered this time may do so the next.
            let next = (now + self.pace()).min(now.max(end));
            self.phase = Phase::Watches { since, of, next };
            return;
        }
        if !self.is_quorum(there) {
            return self.look(now);
        }
        self.claim(now);
    }

    /// Claims the lease on the members of the last round, if what they told is new enough.
    fn claim(&mut self, now: Instant) {
        if now - self.round.begun > self.candidate.term.fresh() {
            return self.pause(now);
        }
        let newest = newest(self.seen.iter().flatten());
        let block = LeaseBlock {
            generation: newest.map_or(0, |block| block.generation) + 1,
            counter: 0,
            holder: self.candidate.me,
            begun: now.0,
            term: self.candidate.term,
            voters: self.voters(),
            events: self.candidate.events,
            held: true,
        };
        self.phase = Phase::Claims(block);
        self.write(now, block);
    }

    fn continue_it(&mut self, now: Instant, before: LeaseBlock, until: Instant) {
        let counter = before.counter + 1;
        let block = LeaseBlock { holder: self.candidate.me, counter, begun: now.0, ..before };
        self.phase = Phase::Continues(block, until);
        self.write(now, block);
    }

    fn write(&mut self, now: Instant, block: LeaseBlock) {
        self.begin(now, self.round.done);
        self.asks.extend(self.round.left.map(|member| Ask::Write(member, block)));
    }

    fn claimed(&mut self, now: Instant, block: LeaseBlock) {
        let (of, begun) = (self.round.done, self.round.begun);
        if !self.is_quorum(of) {
            return self.pause(now);
        }
        let settles = match newest(self.seen.iter().flatten()) {
            _ if self.candidate.fenced => Duration::ZERO,
            // A holder may have yet to learn what is on record.
            Some(before) if before.voters != block.voters => self.term().settles() * 2,
            Some(_) | None => self.term().settles(),
        };
        self.phase = Phase::Settles { block, begun, of, until: now + settles };
        self.tick(now);
    }

    fn continued(&mut self, now: Instant, block: LeaseBlock, until: Instant) {
        if now >= until || !self.is_quorum(self.round.done) {
            return self.pause(now);
        }
        self.hold(block, self.round.begun);
    }

    fn confirmed(&mut self, now: Instant, block: LeaseBlock, begun: Instant) {
        let of = self.round.done;
        let stands = |member: MemberId| self.round.read[member.index()] == Some(block);
        let is_held = self.is_quorum(of) && of.into_iter().all(stands);
        if !is_held || now >= begun + block.term.duration() {
            return self.pause(now);
        }
        self.hold(block, begun);
    }

    fn hold(&mut self, block: LeaseBlock, begun: Instant) {
        let (on, members) = (self.round.done, self.candidate.members.and(block.voters));
        let late = self.late.or(self.round.left);
        self.keeper = Some(Keeper::new(block, begun, on, (members, late)));
        self.phase = Phase::Holds;
    }
}

/// What was written last.
fn newest<'a>(blocks: impl Iterator<Item = &'a LeaseBlock>) -> Option<&'a LeaseBlock> {
    blocks.max_by_key(|block| (block.generation, block.counter))
}
