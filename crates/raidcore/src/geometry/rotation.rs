//! A stripe, for a placement.

use crate::units::Stripe;

/// How far a placement has rotated in a stripe.
pub(super) struct Rotation {
    pub(super) members: u64,
    pub(super) parities: u64,
    pub(super) stripe: Stripe,
}

impl Rotation {
    /// After the last member comes the first.
    #[inline]
    pub(super) const fn around(&self, member: u64) -> u64 {
        if member < self.members { member } else { member - self.members }
    }
}
