//! Units as types: a number that says what it counts.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

/// The size of a block: the unit of every address and length, and of what a member writes
/// atomically.
pub const BLOCK_BYTES: usize = 4096;

/// The most members that an array can have.
pub const MEMBERS_MAX: usize = 32;

/// A block of the array, as its users address it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lba(pub u64);

impl Lba {
    /// Where each range of blocks that follow one another begins, and how many it has.
    pub(crate) fn ranges(sorted: &[Self]) -> Vec<(Self, u64)> {
        let ranges = sorted.chunk_by(|a, b| a.0 + 1 == b.0);
        ranges.map(|range| (range[0], range.len() as u64)).collect()
    }
}

/// A block of a member, counted from the member's first block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Pba(pub u64);

/// A stripe of the array, counted from its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stripe(pub u64);

impl Stripe {
    /// One of so many buckets, by a hash.
    #[must_use]
    pub(crate) const fn bucket(self, of: usize) -> usize {
        let hash = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((hash * of as u64) >> 32) as usize
    }
}

/// A member's place in the array, from 0: Linux md's raid disk or slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MemberId(pub u8);

impl MemberId {
    /// As an index into a table of members.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The one of an index below [`MEMBERS_MAX`] into a table of members.
    #[must_use]
    pub const fn at(index: usize) -> Self {
        debug_assert!(index <= u8::MAX as usize);
        Self(index as u8)
    }
}

/// A device that the host has opened. Numbers are never reused in a run, so a late completion of a
/// replaced device can't be taken for one of its successor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceId(pub u32);

/// A request's place in the host's table of requests; the host chooses it and frees it when the
/// engine completes the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tag(pub u16);

/// Types of which a [`Set`] can be made: their values are numbers from 0 to 63.
pub trait Element: Copy {
    /// Its number.
    fn index(self) -> usize;

    /// The one of a number.
    fn at(index: usize) -> Self;
}

impl Element for MemberId {
    fn index(self) -> usize {
        self.index()
    }

    fn at(index: usize) -> Self {
        Self::at(index)
    }
}

/// An index of a short list.
impl Element for usize {
    fn index(self) -> usize {
        self
    }

    fn at(index: usize) -> Self {
        index
    }
}

/// A set of members, or of roles, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Set<T> {
    bits: u64,
    of: PhantomData<T>,
}

impl<T> Set<T> {
    /// The set without elements.
    pub const EMPTY: Self = Self::from_bits(0);

    /// The set of those whose bits are set, the element 0 the lowest.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self { bits, of: PhantomData }
    }

    /// A bit for each element, the element 0 the lowest.
    #[must_use]
    pub const fn bits(self) -> u64
    where
        T: Copy,
    {
        self.bits
    }

    /// The set of the first `count`.
    #[must_use]
    pub const fn first(count: usize) -> Self {
        Self::from_bits(if count >= 64 { u64::MAX } else { (1 << count) - 1 })
    }
}

impl<T: Element> Set<T> {
    /// The set of one element.
    #[must_use]
    pub fn one(element: T) -> Self {
        Self::from_bits(1 << element.index())
    }

    /// Whether `element` is in the set.
    #[must_use]
    pub fn has(self, element: T) -> bool {
        self.bits >> element.index() & 1 != 0
    }

    /// The set and `element`.
    #[must_use]
    pub fn with(self, element: T) -> Self {
        self.or(Self::one(element))
    }

    /// The set without `element`.
    #[must_use]
    pub fn without(self, element: T) -> Self {
        self.minus(Self::one(element))
    }

    /// What is in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self::from_bits(self.bits | other.bits)
    }

    /// What is in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self::from_bits(self.bits & other.bits)
    }

    /// What is in `self` and not in `other`.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self::from_bits(self.bits & !other.bits)
    }

    /// How many elements the set has.
    #[must_use]
    pub const fn len(self) -> usize {
        self.bits.count_ones() as usize
    }

    /// Whether the set has no element.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The least element.
    #[must_use]
    pub fn least(self) -> Option<T> {
        (self.bits != 0).then(|| T::at(self.bits.trailing_zeros() as usize))
    }
}

impl<T: Element> Iterator for Set<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let element = self.least()?;
        self.bits &= self.bits - 1;
        Some(element)
    }
}

/// The set of these elements; duplicates are allowed.
impl<T: Element> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        elements.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl<T: Element> fmt::Debug for Set<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.map(T::index)).finish()
    }
}

/// Where bytes are: the host owns the memory, machines name it. Offsets are in blocks.
///
/// To the host that runs a machine each name means one thing, whatever of the machine names it. What is
/// in the middle of a machine sees its own part: to an engine below a log volume, the volume is the user,
/// and its scratch buffers are numbered from zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mem {
    /// In the buffer of a user's request.
    Payload {
        /// Whose request.
        tag: Tag,
        /// From which block of its buffer on.
        at: u32,
    },
    /// In a scratch buffer: of an array one chunk, of a log volume also a segment, or pages.
    Scratch {
        /// Which of the scratch buffers.
        buffer: u16,
        /// From which block of it on.
        at: u32,
    },
    /// Zeros, as many as asked for. Never a destination.
    Zero,
}

const _: () = assert!(size_of::<Mem>() == 8, "plans and I/O are full of it");

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
