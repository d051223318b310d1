//! How long the server waits for a client.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;

use super::NbdLimits;
use crate::volume::Volume;

/// See [`NbdLimits`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) patience: Duration,
    pub(super) linger: Duration,
}

/// How waiting for a client ended.
pub(super) enum Waited<T> {
    /// The client did its part.
    Ended(T),
    /// Buffers that wait for this client are needed elsewhere.
    Starved,
    /// The client took too long.
    Late,
}

impl Pace {
    pub(super) fn of(limits: &NbdLimits) -> Self {
        Self { patience: limits.patience, linger: limits.linger }
    }

    /// How long buffers may wait for a client, which has `patience`, before others are looked at.
    pub(super) fn turn(self, patience: Duration) -> Duration {
        self.linger.clamp(Duration::from_millis(1), patience.max(Duration::from_millis(1)))
    }

    /// Waits for a client while it has buffers of the volume, for `times` the time of one buffer.
    /// The future can be continued after that.
    pub(super) async fn wait<F: Future>(
        self,
        volume: &Volume,
        times: u32,
        mut work: Pin<&mut F>,
    ) -> Waited<F::Output> {
        let patience = self.patience.saturating_mul(times);
        let turn = self.turn(patience);
        let mut waited = Duration::ZERO;
        loop {
            if let Ok(output) = timeout(turn, work.as_mut()).await {
                return Waited::Ended(output);
            }
            waited += turn;
            if waited >= patience {
                return Waited::Late;
            }
            if volume.is_starved() {
                return Waited::Starved;
            }
        }
    }
}
