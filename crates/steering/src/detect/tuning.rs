//! The words of detection, and its constants.

use core::time::Duration;

/// What an I/O does. Flushes and discards are not told to the detector: what they take says nothing
/// about what a read or a write will.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    pub(super) fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
        }
    }
}

/// What is thought of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mood {
    /// It answers as it usually does.
    #[default]
    Free,
    /// Something is late. That alone is no reason to avoid it.
    Suspect,
    /// It keeps its I/Os waiting.
    Busy,
}

/// A set of members, by their place in the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Members(u64);

impl Members {
    /// The most members that a set, and so a detector, can name.
    pub const MAX: usize = u64::BITS as usize;

    /// Whether `member` is among them.
    #[must_use]
    pub fn contains(self, member: usize) -> bool {
        member < Self::MAX && self.0 & (1 << member) != 0
    }

    /// How many there are.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// They, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..Self::MAX).filter(move |&member| self.contains(member))
    }

    pub(super) fn insert(&mut self, member: usize) {
        self.0 |= 1 << member;
    }

    pub(super) fn remove(&mut self, member: usize) {
        self.0 &= !(1 << member);
    }
}

/// The constants of a [`super::Detector`]. How the defaults were found is told in
/// `docs/detection.md`.
///
/// An I/O's *usual* latency is what the detector expects of it, with what stands before it: see
/// [the module](super).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// I/Os under way that can be followed: as many as the host sends at most. Those beyond are
    /// not judged, nor do they explain why others wait.
    pub in_flight: usize,
    /// An I/O is late after so many times its usual latency …
    pub late: u32,
    /// … but not before this time.
    pub floor: Duration,
    /// An I/O that takes so many times what made it late makes its member BUSY by itself.
    pub alone: u32,
    /// A late I/O makes its member SUSPECT. So many, each within [`Tuning::again`] of the one
    /// before, make it BUSY; with zero no number does.
    pub repeated: u8,
    /// How long a late I/O is remembered.
    pub again: Duration,
    /// So many completions in a row that are not late make a member FREE.
    pub calm: u8,
    /// A BUSY member of which nothing late was seen for so long becomes SUSPECT, so that requests
    /// are sent to it again: they tell how it is. A SUSPECT one becomes FREE.
    pub probe: Duration,
    /// After so many I/Os of a kind and size all that were before count half.
    pub window: u16,
    /// A kind and size is judged by its own median after so many I/Os.
    pub warm: u16,
    /// Extra reads that may be spent, in percent of the reads that were begun.
    pub extra_reads_percent: u32,
    /// Extra reads that can be saved up.
    pub extra_reads_saved: u32,
    /// Decisions that are kept.
    pub decisions: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            in_flight: 4096,
            late: 4,
            floor: Duration::from_micros(500),
            alone: 2,
            repeated: 3,
            again: Duration::from_millis(200),
            calm: 12,
            probe: Duration::from_millis(5),
            window: 1024,
            warm: 32,
            extra_reads_percent: 5,
            extra_reads_saved: 1024,
            decisions: 256,
        }
    }
}
