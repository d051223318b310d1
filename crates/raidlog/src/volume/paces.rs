//! How fast users fill segments, and cleaners empty them: what tells when cleaning has to begin so that
//! a group is ready when it comes to the front.

use core::time::Duration;

use det::Instant;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Paces {
    /// What it takes users to fill a segment, but for waits; the shortest of late counts most.
    pub(super) fill: Duration,
    /// What it takes a cleaner to empty one.
    pub(super) clean: Duration,
    /// When users went on to the segment that they fill, and how long they had waited by then.
    began: (Instant, Duration),
}

impl Paces {
    /// Users go on to another segment, and have waited so long since there is the volume.
    pub(super) fn goes_on(&mut self, now: Instant, waited: Duration) {
        let (began, before) = core::mem::replace(&mut self.began, (now, waited));
        let took = (now - began).saturating_sub(waited - before);
        // A user that begins to write faster is to find room.
        let part = if took < self.fill { 2 } else { 16 };
        follow(&mut self.fill, took, part);
    }

    /// A segment was emptied in such a time.
    pub(super) fn cleaned(&mut self, took: Duration) {
        follow(&mut self.clean, took, 16);
    }
}

/// Moves a mean on by a part of what the next value differs from it.
fn follow(mean: &mut Duration, next: Duration, part: u32) {
    *mean = *mean - *mean / part + next / part;
}
