//! The vocabulary of detection, and its constants.

use core::time::Duration;

/// What an I/O does. Flushes and discards are not reported to the detector: their latencies don't
/// predict those of reads and writes.
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

/// A member's mood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mood {
    /// It answers as it usually does.
    #[default]
    Free,
    /// An I/O is late. That alone is no reason to avoid the member.
    Suspect,
    /// It keeps its I/Os waiting.
    Busy,
}

/// The constants of a [`super::Detector`]. `docs/results/detection.md` tells how the defaults were
/// found.
///
/// [The module](super) defines an I/O's *usual* latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// I/Os under way that can be followed: as many as the host sends at most. Those beyond are not
    /// judged, and don't explain why others wait.
    pub in_flight: usize,
    /// An I/O is late after this many times its usual latency …
    pub late: u32,
    /// … but not before this time.
    pub floor: Duration,
    /// An I/O makes its member BUSY by itself after this many times the latency at which it became
    /// late.
    pub alone: u32,
    /// A late I/O makes its member SUSPECT. This many, each within [`Tuning::again`] of the one
    /// before, make it BUSY; with zero no number does.
    pub repeated: u8,
    /// How long a late I/O is remembered.
    pub again: Duration,
    /// This many completions in a row that are not late make a member FREE.
    pub calm: u8,
    /// After this time without late I/Os a BUSY member becomes SUSPECT, so that requests are sent
    /// to it again and show its state. A SUSPECT one becomes FREE.
    pub probe: Duration,
    /// After this many I/Os of a kind and size, all earlier ones count half.
    pub window: u16,
    /// A kind and size is judged by its own median after this many I/Os.
    pub warm: u16,
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
            decisions: 256,
        }
    }
}
