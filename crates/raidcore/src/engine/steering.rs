//! Where reads go when members are busy: home, or to the others, as a policy says.
//!
//! Invariants: a member is gone around only where redundancy is known to agree with the data, and
//! only if what is left is enough without any other busy member; so a policy, whatever it says,
//! can't change what is read, only when.

use alloc::boxed::Box;
use core::time::Duration;

use det::Instant;

use super::LatencyTotals;
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
