//! Which of several hosts that reach the same members runs an array: it holds a lease, which is a block on
//! each member that it writes again and again. State machines without I/O; `docs/scale-out.md` has the
//! protocol with its reasons.
//!
//! A [`Taker`] waits until no other holder can be alive, claims the lease, and becomes a [`Keeper`], which
//! renews it. The keeper's [`Gate`] tells the data path until when it may act.
//!
//! What is assumed, with `term` for the term of the lease:
//! - Clocks run at the same rate within [`DRIFT_PERCENT`]; what they show does not matter.
//! - A write that a host has submitted reaches a member within half a term, or never.
//! - A member reads back what was written to it last, and blocks are written completely or not at all.
//!
//! Invariants:
//! - Who holds the lease has written its claim to a quorum of the voters, on each of which it found no
//!   other claim before and, [after a while](Term::settles), after it.
//! - A holder acts until a term after it *began* a renewal that is on a quorum, and never after that, even
//!   if a later renewal succeeds.
//! - A taker reaches a member that decides about the holder's renewals: two majorities have a member in
//!   common, and voters that are dropped leave as many as the taker may not miss.

mod gate;
mod keeper;
mod taker;

use core::time::Duration;

pub use gate::Gate;
pub use keeper::{Keeper, Lost};
pub use taker::{Candidate, Taker, Wait};

use crate::meta::{LeaseBlock, Term};
use crate::units::{MemberId, Set};

/// By how much the rates of two clocks may differ from true time, in percent, each.
pub const DRIFT_PERCENT: u32 = 5;

impl Term {
    /// The time between two renewals: a third of the term.
    #[must_use]
    pub fn renews(self) -> Duration {
        self.duration() / 3
    }

    /// For how long a taker sees no renewal before it claims: the term and a quarter, for clocks that differ.
    #[must_use]
    pub fn waits(self) -> Duration {
        self.duration() * 5 / 4
    }

    /// How long a claim has to stand before it counts: three quarters of the term, which is longer than
    /// another's claim can take from what it has read to where it is written.
    #[must_use]
    pub fn settles(self) -> Duration {
        self.duration() * 3 / 4
    }

    /// How old what a taker has read may be when it claims: an eighth of the term.
    #[must_use]
    pub fn fresh(self) -> Duration {
        self.duration() / 8
    }

    /// How soon after a change of the record the holder has to tell the lease of the members that serve.
    #[must_use]
    pub fn learns(self) -> Duration {
        self.duration() / 6
    }

    /// For how long a submitted write may be under way at most: half the term. It is assumed, not enforced.
    #[must_use]
    pub fn flight(self) -> Duration {
        self.duration() / 2
    }
}

/// What a machine asks for: the lease block of a member. A member is asked for one thing at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// To be read.
    Read(MemberId),
    /// To be written, durably.
    Write(MemberId, LeaseBlock),
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// What was read; nothing if no lease was ever written there.
    Read(Option<LeaseBlock>),
    /// It was written.
    Wrote,
    /// It failed, or what was read is damaged.
    Failed,
}

/// How many of the voters are a quorum: more than half.
fn majority(voters: Set<MemberId>) -> usize {
    voters.len() / 2 + 1
}

/// Whether a taker that reaches these members decides: it needs a quorum of the voters, and fewer must be
/// missing than can run the array, for they may be what is left of it after all others were dropped.
fn decides(voters: Set<MemberId>, least: usize, reached: Set<MemberId>) -> bool {
    voters.and(reached).len() >= majority(voters) && voters.minus(reached).len() < least
}
