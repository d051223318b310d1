//! Whose turn it is to collect garbage, where members take orders when to.
//!
//! Invariant: a member that has run out of space collects whatever its order is: an order delays
//! collection or brings it forward, but never forbids it.

pub mod age;
mod global;
pub mod modes;
mod rotate;
mod window;

use alloc::boxed::Box;
use core::time::Duration;

use det::Instant;
use raidcore::units::{MemberId, Set};

pub use global::Global;
pub use rotate::Rotate;
pub use window::{Window, Windows};

/// A member's state, as it reports it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Flash {
    /// The share of free blocks, in the plane that has the fewest.
    pub free: f64,
    /// Whether it is collecting.
    pub collecting: bool,
    /// Whether it has begun to collect a block, even if users go before the next page: the paper's
    /// `mode` (McEwan and Komsul) is not none.
    pub at_work: bool,
    /// The share of invalid pages of its dirtiest block.
    pub dirtiest: f64,
    /// Erases per block since it was put to use.
    pub age: f64,
    /// I/Os under way on it, and I/Os to come that can't go elsewhere.
    pub in_flight: u32,
}

/// A member's thresholds of free blocks, as shares of its blocks. They are zero for one that takes no
/// orders, or doesn't report them.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Limits {
    /// Left to itself, a member begins to collect at this share …
    pub start: f64,
    /// … and ends at this share.
    pub stop: f64,
    /// At this share it collects whatever it is told.
    pub hard: f64,
    /// It has so many blocks more than it offers.
    pub spare: f64,
}

/// When a member collects, and how: the thresholds of McEwan and Komsul's Algorithm 2, shares of
/// free blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Thresholds {
    /// Below it blocks are collected that are worth it, and users go before each page.
    pub low: f64,
    /// Below it all blocks are worth it.
    pub medium: f64,
    /// Below it users wait.
    pub high: f64,
    /// Blocks are worth it if more than this share of their pages is invalid.
    pub gce: f64,
}

impl Limits {
    /// Whether they were reported.
    fn are_known(&self) -> bool {
        self.spare > 0.0
    }

    /// The goal of a member that collects a little: its current share of free blocks, plus what it
    /// collects by itself at a time.
    fn step(&self, member: &Flash) -> f64 {
        member.free + (self.stop - self.start)
    }
}

/// Shares that differ by less are equal.
const ROUNDING: f64 = 1e-9;

/// An order to a member.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Order {
    /// Decide by itself.
    Auto,
    /// Don't collect.
    Hold,
    /// Collect until this share of its blocks is free.
    Reach(f64),
    /// Decide by these thresholds.
    Thresholds(Thresholds),
    /// Collect the dirtiest block besides, if more than this share of its pages is invalid; users go
    /// before each page.
    Once {
        /// The share.
        gce: f64,
    },
}

/// A policy that decides whose turn it is.
pub trait Collect: Send {
    /// Looks at the members, and gives orders to some. If one is missing, requests have to wait for
    /// whichever collects.
    fn decide(
        &mut self,
        now: Instant,
        members: &[Flash],
        missing: bool,
        order: &mut dyn FnMut(usize, Order),
    );

    /// The longest pause until the next look, if no member begins or ends collecting.
    fn pause(&self) -> Duration;

    /// The members whose turn it is: they may begin to collect at any moment.
    fn turns(&self) -> Set<MemberId> {
        Set::EMPTY
    }

    /// The share of free blocks from which on it has a member collect, if it goes by one.
    fn threshold(&self, _member: usize) -> Option<f64> {
        None
    }
}

/// The last order to each member, so that none is repeated.
#[derive(Debug, Default)]
struct Told {
    orders: alloc::vec::Vec<Option<Order>>,
}

impl Told {
    fn tell(&mut self, member: usize, what: Order, order: &mut dyn FnMut(usize, Order)) {
        if self.orders.len() <= member {
            self.orders.resize(member + 1, None);
        }
        if self.orders[member] != Some(what) {
            self.orders[member] = Some(what);
            order(member, what);
        }
    }
}

/// The interval between looks at members that are left alone.
const ALONE: Duration = Duration::from_millis(1);

/// Runs a policy, and knows when the next look is due.
pub struct Watch {
    /// None while members are left alone.
    policy: Option<Box<dyn Collect>>,
    next: Instant,
}

impl Watch {
    /// Runs `policy` from `now` on.
    #[must_use]
    pub fn new(policy: Box<dyn Collect>, now: Instant) -> Self {
        Self { policy: Some(policy), next: now }
    }

    /// Leaves the members alone from now on, or runs a policy that has given no orders yet.
    pub fn set(&mut self, policy: Option<Box<dyn Collect>>) {
        self.policy = policy;
    }

    /// Whether members are left alone.
    #[must_use]
    pub fn rests(&self) -> bool {
        self.policy.is_none()
    }

    /// When the next look is due.
    #[must_use]
    pub fn next(&self) -> Instant {
        self.next
    }

    /// The members whose turn it is, as [`Collect::turns`].
    #[must_use]
    pub fn turns(&self) -> Set<MemberId> {
        self.policy.as_ref().map_or(Set::EMPTY, |policy| policy.turns())
    }

    /// The threshold of a member, as [`Collect::threshold`].
    #[must_use]
    pub fn threshold(&self, member: usize) -> Option<f64> {
        self.policy.as_ref()?.threshold(member)
    }

    /// Looks now, as [`Collect::decide`] does.
    pub fn look(
        &mut self,
        now: Instant,
        members: &[Flash],
        missing: bool,
        order: &mut dyn FnMut(usize, Order),
    ) {
        let pause = match &mut self.policy {
            Some(policy) => {
                policy.decide(now, members, missing, order);
                policy.pause()
            }
            None => ALONE,
        };
        self.next = now + pause;
    }
}
