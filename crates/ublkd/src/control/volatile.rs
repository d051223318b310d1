//! The write cache in memory, for programs and for people.

use evenkeel_client::{Problem, Refusal, VolatileReport};
use raidcore::units::BLOCK_BYTES;

use super::service::Service;
use crate::host::CacheState;

/// The report of a write cache in memory.
fn volatile_report(state: &CacheState) -> VolatileReport {
    let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
    let (status, counters) = (&state.status, &state.status.counters);
    VolatileReport {
        capacity_bytes: bytes(status.room.into()),
        dirty_bytes: bytes(status.held.into()),
        oldest_seconds: state.oldest.map(|age| age.as_secs_f64()),
        stuck_bytes: bytes(status.stuck.into()),
        waiting_writes: status.waiting,
        flushing: status.flushing,
        holds: status.holds,
        written_bytes: bytes(counters.held_blocks),
        again_bytes: bytes(counters.rewritten_blocks),
        read_bytes: bytes(counters.read_blocks),
        home_bytes: bytes(counters.home_blocks),
        failures: counters.failed_trips,
        waits: counters.waits,
    }
}

/// The problem of the cache of the array called `name`, if it has one.
pub(super) fn cache_problem(cache: &VolatileReport, name: &str) -> Option<Problem> {
    let stuck = cache.stuck_bytes;
    (stuck > 0).then(|| {
        let what = format!(
            "{stuck} bytes that were acknowledged from memory could not be written to the members: they \
             are held, and every flush fails until they are written"
        );
        let action = format!(
            "mend the array (what else is wrong says how) before `evenkeel stop {name}`: what can't be \
             written by then is lost"
        );
        Problem::of_array("not-home", what, action)
    })
}

impl Service {
    /// The state of the write cache in memory, if there is one.
    pub(super) async fn volatile(&self) -> Result<Option<VolatileReport>, Refusal> {
        let state = self.host.cache().await.map_err(|error| self.refusal(error))?;
        Ok(state.as_ref().map(volatile_report))
    }
}
