//! The latency of all requests in total, beside what it would have been without busy members.

use core::time::Duration;

/// How many requests have ended, how long they took, and how long they would have taken without busy
/// members in their way, as far as a policy knows: see
/// [`SteeringPolicy::latency_totals`](super::SteeringPolicy::latency_totals).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LatencyTotals {
    requests: u64,
    took: Duration,
    calm: Duration,
}

impl LatencyTotals {
    /// A request has ended; such a one takes as long as `calm` without a busy member in its way.
    pub fn add(&mut self, took: Duration, calm: Duration) {
        self.requests += 1;
        self.took += took;
        self.calm += calm;
    }

    /// What has been added since it was like this.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            took: self.took - before.took,
            calm: self.calm - before.calm,
        }
    }

    /// How many requests there were.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// How long a request took in the mean; nothing if there were none.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        (self.requests > 0).then(|| self.took.div_f64(self.requests as f64))
    }

    /// How long a request would have taken in the mean if all had been calm; nothing if there were
    /// none.
    #[must_use]
    pub fn calm(&self) -> Option<Duration> {
        (self.requests > 0).then(|| self.calm.div_f64(self.requests as f64))
    }
}
