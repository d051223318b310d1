//! The write cache in memory, for programs and for people, and how it is left.

use std::time::Duration;

use raidcore::engine::Command;
use raidcore::units::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

use super::service::Service;
use super::{Problem, Refusal};
use crate::host::CacheState;

/// How often it is looked whether all is at home.
const LOOK: Duration = Duration::from_millis(20);

/// The state of a write cache in memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VolatileReport {
    /// How much it can hold.
    pub capacity_bytes: u64,
    /// Held, and not at home yet.
    pub dirty_bytes: u64,
    /// For how long the oldest write is held of which something is not at home, in seconds.
    pub oldest_seconds: Option<f64>,
    /// Held, and could not be brought home: flushes fail until it is.
    pub stuck_bytes: u64,
    /// Writes that wait for room now.
    pub waiting_writes: u32,
    /// What was held at the last `evenkeel cache flush` is still on its way home.
    pub flushing: bool,
    /// Whether writes are held. They go past it once another cache is chosen.
    pub holds: bool,
    /// Written to memory since the start, as all counters below.
    pub written_bytes: u64,
    /// Of these, what took the place of what was held of the same blocks.
    pub again_bytes: u64,
    /// Read from memory.
    pub read_bytes: u64,
    /// Brought home.
    pub home_bytes: u64,
    /// How often bringing something home failed.
    pub failures: u64,
    /// Writes that had to wait for room.
    pub waits: u64,
}

impl VolatileReport {
    pub(super) fn of(state: &CacheState) -> Self {
        let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
        let (status, counters) = (&state.status, &state.status.counters);
        Self {
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
    pub(super) fn problem(&self, name: &str) -> Option<Problem> {
        (self.stuck_bytes > 0).then(|| Problem {
            kind: "not-home".to_owned(),
            disk: None,
            what: format!(
                "{} bytes that were acknowledged from memory could not be written to the members: they \
                 are held, and every flush fails until they are written",
                self.stuck_bytes
            ),
            since: None,
            action: format!(
                "mend the array (what else is wrong says how) before `evenkeel stop {name}`: what can't \
                 be written by then is lost"
            ),
        })
    }
}

impl Service {
    /// The state of the write cache in memory, if there is one.
    pub(super) async fn volatile(&self) -> Result<Option<VolatileReport>, Refusal> {
        let state = self.host.cache().await.map_err(|error| self.refusal(error))?;
        Ok(state.as_ref().map(VolatileReport::of))
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
