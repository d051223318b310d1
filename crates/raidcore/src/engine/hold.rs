//! In which order the staging log is emptied: a destage order, told what is held and asked what comes
//! home next.
//!
//! Invariant: an order can't change what is read, only when it comes home. The log asks it only about
//! stripes that may come home now, and takes no other.

use crate::geometry::Role;
use crate::units::{Set, Stripe};

/// Whether a group may come home now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// It may.
    Yes,
    /// It may not: it can't, is on its way, or its members are busy.
    No,
    /// Enough were asked about: none is to be looked for any more.
    Enough,
}

/// A destage order. The blocks of a stripe that are held in the log are a *group*, as they come home
/// together.
pub trait Hold: Send {
    /// A block of a stripe was written to the log, `again` if it was held already.
    fn wrote(&mut self, stripe: Stripe, role: Role, again: bool);

    /// A block of a stripe is held no longer: it came home, was written there or discarded.
    fn left(&mut self, stripe: Stripe);

    /// The group that comes home next. It is one that is `ready`, which is asked about a group with all
    /// chunks of which it may hold a block.
    fn next(&mut self, ready: &mut dyn FnMut(Stripe, Set<Role>) -> Ready) -> Option<Stripe>;

    /// How many groups come home at once when room is wanted.
    fn width(&self) -> usize {
        8
    }
}
