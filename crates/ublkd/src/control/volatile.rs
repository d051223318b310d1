//! The write cache in memory, for programs and for people.

use std::sync::PoisonError;

use evenkeel_client::{Problem, Refusal, VolatileReport};
use raidcore::units::BLOCK_BYTES;

use super::service::Service;
use crate::front::vhost;
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

/// The problem that something that is held can't be brought home, if it is so.
fn stuck(cache: &VolatileReport, name: &str) -> Option<Problem> {
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

/// The problem that writes were lost.
fn lost(name: &str) -> Problem {
    let what =
        "an earlier process had a write cache in memory and was not stopped cleanly: what was not \
                flushed is lost, and NBD is refused"
            .to_owned();
    let action = format!(
        "check what users of the array keep on it, disconnect clients of NBD that try to connect again, and \
         start {name} with --accept-lost-writes some time"
    );
    Problem::of_array("lost-writes", what, action)
}

impl Service {
    /// The state of the write cache in memory, if there is one.
    pub(super) async fn volatile(&self) -> Result<Option<VolatileReport>, Refusal> {
        let state = self.host.cache().await.map_err(|error| self.refusal(error))?;
        Ok(state.as_ref().map(volatile_report))
    }

    /// What is wrong with writes that are, or were, in memory.
    pub(super) fn problems_of_memory(
        &self,
        cache: Option<&VolatileReport>,
    ) -> impl Iterator<Item = Problem> + use<> {
        let name = &self.facts.name;
        let is_lost = self.arrays.iter().any(|array| array.record.volatile.lost);
        let stuck = cache.and_then(|cache| stuck(cache, name));
        stuck.into_iter().chain(is_lost.then(|| lost(name)))
    }

    /// Refuses a stop that would lose what is in memory and could not be written to the members.
    pub(super) async fn refuse_loss(&self, command: &str, force: bool) -> Result<(), Refusal> {
        let stuck = self.volatile().await?.map_or(0, |cache| cache.stuck_bytes);
        if force || stuck == 0 {
            return Ok(());
        }
        let name = &self.facts.name;
        let message = format!(
            "{stuck} bytes that were acknowledged from memory could not be written to the members, and \
             would be lost"
        );
        Err(Refusal::new("not-home", message).hint(format!(
            "mend the array (`evenkeel status {name}` tells what is wrong); or \
             `evenkeel {command} {name} --force`: the next start tells of the loss"
        )))
    }

    /// Refuses a write cache in memory while virtual machines use the array.
    pub(super) fn refuse_guests(&self) -> Result<(), Refusal> {
        let fronts = self.fronts.lock().unwrap_or_else(PoisonError::into_inner);
        if !fronts.iter().any(|front| front.kind == vhost::KIND) {
            return Ok(());
        }
        let message = "it serves virtual machines, which would go on without the writes that a crash \
                       loses from memory";
        Err(Refusal::new("in-use", message)
            .hint("serve it by another front end than --vhost first"))
    }
}
