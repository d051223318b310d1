//! The members that a ring has open, by their index, and sets of them.

/// Members that can be open at once: the most members and spares, and as many that are not closed
/// yet.
pub(crate) const MEMBERS: u32 = 128;

/// A member's place among those that are open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemberIndex(pub(crate) u16);

/// Members, by their [index](MemberIndex).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Members(u128);

const _: () = assert!(MEMBERS <= u128::BITS);

impl Members {
    pub(crate) fn insert(&mut self, index: u16) {
        self.0 |= 1 << index;
    }

    pub(crate) fn has(self, index: u16) -> bool {
        self.0 >> index & 1 != 0
    }
}
