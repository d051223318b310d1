//! What writes cost all requests: by how much these take longer than calm ones, for each write.
//!
//! Members collect garbage because they are written. So whoever adds writes delays all requests, also those that
//! the writes are to spare a wait. How much, no drive tells. But of all writes together it can be seen: by how much
//! requests take longer than those without a busy member in their way. Of few more writes each counts as much as
//! one of all, or more where members have little time left.

use core::time::Duration;

/// The weight of the last write in the mean is one in this many. It spans bursts and what is between them: what
/// members collect for a write comes long after it, so a burst is no reason to spare them writes. With 256, less was
/// staged in bursts, where it pays.
const MEMORY: u32 = 8192;

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Burden {
    /// The mean, in nanoseconds.
    mean: f64,
    /// What came since the last write, in nanoseconds.
    since: f64,
    writes: u32,
}

impl Burden {
    /// A request has ended; a calm one of its kind takes `calm`.
    pub fn ended(&mut self, read: bool, took: Duration, calm: Duration) {
        self.since += took.as_nanos() as f64 - calm.as_nanos() as f64;
        if read {
            return;
        }
        self.writes = (self.writes + 1).min(MEMORY);
        self.mean += (self.since - self.mean) / f64::from(self.writes);
        self.since = 0.0;
    }

    /// By how much requests take longer for each write, in the mean of recent ones, as part of `one`.
    #[must_use]
    pub fn beside(&self, one: Duration) -> f64 {
        self.mean.max(0.0) / one.as_nanos().max(1) as f64
    }
}
