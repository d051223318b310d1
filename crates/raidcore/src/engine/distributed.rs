//! The distributed spare: room behind the data of all members, in which a failed member's chunks are
//! put when no spare is at hand (GC-Steering, Wu et al., section III-D: rebuilding onto the reserved
//! staging space, to all survivors in parallel). When a new device comes they are copied back.
//!
//! The paper keeps there what it keeps in its staging space, so that is reclaimed first, and made
//! redundant by a parity of its own. Here it is apart from the staging log, which goes on meanwhile;
//! and each chunk has as many copies as may be lost, and one more, on different members: a small
//! write costs another write, not a second parity's update.
//!
//! Invariants:
//! - A copy on a member is current in a stripe exactly when the spare holds the stripe's chunk and
//!   the member is current there. So the rebuild of a member fills the copies that belong on it,
//!   and nothing else has to be known of them.
//! - What is on the spare is written whenever the chunk is, until another device is the member: that
//!   device may fail, too.
//! - The spare holds something new only when no I/O is under way to what it held before, and it is on
//!   record that it held nothing since: until then a start reads what is there as what it held before.

use core::mem;

use det::Instant;

use super::progress::Progress;
use super::spare_trim::SpareTrim;
use crate::meta::{ArrayRecord, Filling, Spared};
use crate::units::{MemberId, Pba};

/// The most places of a chunk: at home, and its copies.
const PLACES_MAX: usize = 4;

/// What the spare does.
#[derive(Debug, Default)]
pub(super) struct Distributed {
    /// How far it is filled while no pass fills it.
    filled: Progress,
    /// The version of the record that says that it is free, as whose chunks were on it has another device.
    freed_with: u64,
    /// What of it is to be discarded.
    trim: Option<SpareTrim>,
}

/// Where a chunk's rows go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Targets {
    places: [(MemberId, Pba); PLACES_MAX],
    count: usize,
}

impl Targets {
    pub(super) const NONE: Self = Self { places: [(MemberId(0), Pba(0)); PLACES_MAX], count: 0 };

    pub(super) fn push(&mut self, member: MemberId, at: Pba) {
        self.places[self.count] = (member, at);
        self.count += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MemberId, Pba)> + use<> {
        self.places.into_iter().take(self.count)
    }
}

impl Distributed {
    /// As it was recorded.
    pub(super) fn new(record: &ArrayRecord) -> Self {
        let filled = record.spared.map(|Spared { member, watermark }| {
            let of = Filling::SpareFor(record.slots[member.index()].device);
            Progress::recorded(watermark, record.filled_ranges(of))
        });
        Self { filled: filled.unwrap_or_default(), ..Self::default() }
    }

    /// How far it is filled. If a pass is filling it, that knows it.
    pub(super) fn progress<'a>(&'a self, of_pass: Option<&'a Progress>) -> &'a Progress {
        of_pass.unwrap_or(&self.filled)
    }

    /// How far it is filled: a pass takes it over.
    pub(super) fn take_progress(&mut self) -> Progress {
        mem::take(&mut self.filled)
    }

    /// No pass fills it now, and this is how far it is filled.
    pub(super) fn set_progress(&mut self, progress: Progress) {
        self.filled = progress;
    }

    /// Nothing is on it any more, and this version of the record is to say so. What it has held is
    /// discarded then.
    pub(super) fn free(&mut self, version: u64) {
        self.freed_with = version;
        self.trim = Some(SpareTrim::default());
    }

    /// The version of the record that says that it is free.
    pub(super) fn freed_with(&self) -> u64 {
        self.freed_with
    }

    /// What of it is to be discarded, but for what was.
    pub(super) fn trim(&self) -> Option<SpareTrim> {
        self.trim
    }

    /// The next part of it, of so many blocks in all, is discarded now: from which block on, and how many.
    pub(super) fn trim_part(
        &mut self,
        chunk: u32,
        blocks: u64,
        now: Instant,
    ) -> Option<(u64, u64)> {
        let left = self.trim?;
        let (from, part) = left.next_part(chunk, blocks);
        self.trim = left.after(part, now, blocks);
        Some((from, part))
    }
}
