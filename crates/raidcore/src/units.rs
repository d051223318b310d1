//! Units as types: a number that says what it counts.

use core::fmt;

/// The size of a block: the unit of every address and length, and of what a member writes
/// atomically.
pub const BLOCK_BYTES: usize = 4096;

/// The most members that an array can have.
pub const MEMBERS_MAX: usize = 32;

/// A block of the array, as its users address it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lba(pub u64);

/// A block of a member, counted from the member's first block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Pba(pub u64);

/// A stripe of the array, counted from its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stripe(pub u64);

/// A member's place in the array, from 0: what Linux md calls the raid disk or slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MemberId(pub u8);

impl MemberId {
    /// As an index into a table of members.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A device that the host has opened. Numbers are never used twice in a run, so a late completion
/// of a device that was replaced can't be taken for one of its successor (its *incarnation*).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceId(pub u32);

/// A request's place in the host's table of requests; the host chooses it and frees it when the
/// engine completes the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tag(pub u16);

/// A set of members (or of roles), one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Set(pub u64);

impl Set {
    /// The set without elements.
    pub const EMPTY: Self = Self(0);

    /// The set of `0..count`.
    #[must_use]
    pub const fn first(count: usize) -> Self {
        Self(if count >= 64 { u64::MAX } else { (1 << count) - 1 })
    }

    /// The set of one element.
    #[must_use]
    pub const fn one(index: usize) -> Self {
        Self(1 << index)
    }

    /// Whether `index` is in the set.
    #[must_use]
    pub const fn has(self, index: usize) -> bool {
        self.0 >> index & 1 != 0
    }

    /// The set and `index`.
    #[must_use]
    pub const fn with(self, index: usize) -> Self {
        Self(self.0 | 1 << index)
    }

    /// The set without `index`.
    #[must_use]
    pub const fn without(self, index: usize) -> Self {
        Self(self.0 & !(1 << index))
    }

    /// What is in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is in `self` and not in `other`.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// How many elements the set has.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set has no element.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The least element.
    #[must_use]
    pub const fn least(self) -> Option<usize> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() as usize) }
    }
}

impl Iterator for Set {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let index = self.least()?;
        self.0 &= self.0 - 1;
        Some(index)
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(*self).finish()
    }
}

/// Where bytes are: the host owns the memory, the core names it. Offsets are in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mem {
    /// In the buffer of a user's request.
    Payload {
        /// Whose request.
        tag: Tag,
        /// From which block of its buffer on.
        at: u32,
    },
    /// In a scratch buffer. Each holds one chunk.
    Scratch {
        /// Which of the scratch buffers.
        buffer: u16,
        /// From which block of it on.
        at: u32,
    },
    /// Zeros, as many as asked for. Never a destination.
    Zero,
}

impl Mem {
    /// The memory `blocks` further on.
    #[must_use]
    pub fn plus(self, blocks: u32) -> Self {
        match self {
            Self::Payload { tag, at } => Self::Payload { tag, at: at + blocks },
            Self::Scratch { buffer, at } => Self::Scratch { buffer, at: at + blocks },
            Self::Zero => Self::Zero,
        }
    }
}
