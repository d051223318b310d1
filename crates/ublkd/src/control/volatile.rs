//! The write cache in memory, for programs and for people, and how it is left.

use std::time::Duration;

use evenkeel_client::{Problem, Refusal, VolatileReport};
use raidcore::engine::Command;
use raidcore::units::BLOCK_BYTES;

use super::service::Service;
use crate::host::CacheState;

/// How often it is looked whether all is at home.
const LOOK: Duration = Duration::from_millis(20);

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

    /// Lets writes go past the write cache in memory from now on, and waits until all is at home.
    pub(super) async fn leave_cache(&self) -> Result<(), Refusal> {
        self.holds(false).await?;
        loop {
            self.command_all(Command::BringHome).await?;
            match self.volatile().await? {
                Some(cache) if cache.stuck_bytes > 0 => {
                    self.holds(true).await?;
                    let message = format!(
                        "{} bytes that it holds could not be written to the members",
                        cache.stuck_bytes
                    );
                    let name = &self.facts.name;
                    return Err(Refusal::new("not-home", message)
                        .hint(format!("`evenkeel status {name}` tells what is wrong")));
                }
                Some(cache) if cache.dirty_bytes > 0 || cache.waiting_writes > 0 => {
                    tokio::time::sleep(LOOK).await;
                }
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Lets the write cache in memory hold writes, or lets them go past.
    pub(super) async fn holds(&self, holds: bool) -> Result<(), Refusal> {
        self.host.set_holds(holds).await.map_err(|error| self.refusal(error))
    }
}
