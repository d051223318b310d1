//! Whose turn it is to collect garbage, where members let themselves be told.
//!
//! Invariant: a member that has run out of space collects whatever it is told: an order delays
//! collection or brings it forward, it never forbids it.

mod global;
mod rotate;
mod window;

use alloc::boxed::Box;
use core::time::Duration;

use det::Instant;
use raidcore::units::{MemberId, Set};

pub use global::Global;
pub use rotate::Rotate;
pub use window::Window;

/// How a member is, as it says itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Flash {
    /// The part of its blocks that is free, where it has the fewest.
    pub free: f64,
    /// Whether it is collecting.
    pub collecting: bool,
    /// How many I/Os it has in hand, with those to come that can't go elsewhere.
    pub in_flight: u32,
}

/// Shares of free blocks that matter to members, which are all alike.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Limits {
    /// Left to itself, a member begins to collect at so much …
    pub start: f64,
    /// … and has enough at so much.
    pub stop: f64,
}

impl Limits {
    /// What a member has to reach that collects a little: where it has the fewest free blocks, as
    /// many more as it would have collected by itself.
    fn step(&self, member: &Flash) -> f64 {
        member.free + (self.stop - self.start)
    }
}

/// What a member is told.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Order {
    /// To decide by itself.
    Auto,
    /// Not to collect.
    Hold,
    /// To collect until this part of its blocks is free.
    Reach(f64),
}

/// A policy: whose turn it is.
pub trait Collect: Send {
    /// Looks at the members, and tells some of them what to do.
    fn decide(&mut self, now: Instant, members: &[Flash], order: &mut dyn FnMut(usize, Order));

    /// How long until it wants to look again, though no member has begun or ended to collect.
    fn pause(&self) -> Duration;

    /// Whose turn it is: they may begin to collect at any moment.
    fn turns(&self) -> Set<MemberId> {
        Set::EMPTY
    }
}

/// Remembers what members were told last, so that they are not told it again.
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

/// How often to look at members that are left alone.
const ALONE: Duration = Duration::from_millis(1);

/// Looks again when it is time.
pub struct Watch {
    /// None while members are left alone.
    policy: Option<Box<dyn Collect>>,
    next: Instant,
}

impl Watch {
    /// For a policy, from `now` on.
    #[must_use]
    pub fn new(policy: Box<dyn Collect>, now: Instant) -> Self {
        Self { policy: Some(policy), next: now }
    }

    /// Members are left alone from now on, or a policy's again that has told them nothing yet.
    pub fn set(&mut self, policy: Option<Box<dyn Collect>>) {
        self.policy = policy;
    }

    /// Whether members are left alone.
    #[must_use]
    pub fn rests(&self) -> bool {
        self.policy.is_none()
    }

    /// When to look at the latest.
    #[must_use]
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Whose turn it is, as [`Collect::turns`] has it.
    #[must_use]
    pub fn turns(&self) -> Set<MemberId> {
        self.policy.as_ref().map_or(Set::EMPTY, |policy| policy.turns())
    }

    /// Looks now.
    pub fn look(&mut self, now: Instant, members: &[Flash], order: &mut dyn FnMut(usize, Order)) {
        let pause = match &mut self.policy {
            Some(policy) => {
                policy.decide(now, members, order);
                policy.pause()
            }
            None => ALONE,
        };
        self.next = now + pause;
    }
}
