//! How fast users fill segments, and cleaners empty them. It tells when the cleaning of a group has
//! to begin so that it is ready when it comes to the front.

use core::time::Duration;

use det::Instant;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Paces {
    /// How long users take to fill a segment, without waits; short times count most.
    pub(super) fill: Duration,
    /// How long a cleaner takes to empty one.
    pub(super) clean: Duration,
    /// When users began to fill the current segment, and how long they had waited by then.
    began: (Instant, Duration),
}

impl Paces {
    /// Users continue with another segment. `waited` is their total wait so far.
    pub(super) fn goes_on(&mut self, now: Instant, waited: Duration) {
        let (began, before) = core::mem::replace(&mut self.began, (now, waited));
        let took = (now - began).saturating_sub(waited - before);
        // Faster writes count at once, so that they find room.
        let part = if took < self.fill { 2 } else { 16 };
        follow(&mut self.fill, took, part);
    }

    /// A segment was emptied in such a time.
    pub(super) fn cleaned(&mut self, took: Duration) {
        follow(&mut self.clean, took, 16);
    }
}

/// Moves a mean towards the next value by a part of the difference.
fn follow(mean: &mut Duration, next: Duration, part: u32) {
    *mean = *mean - *mean / part + next / part;
}
