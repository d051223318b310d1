//! The lease of an array at its start, before which nothing is written.

use std::time::{Duration, Instant};

use super::{DaemonConfig, DaemonError, patience};
use crate::attach::{AttachError, Attached};
use crate::host::HostError;
use crate::lease::{Agent, LeaseError, take};
use crate::members::OpenError;

/// How often what was read may have changed by the time the lease is held.
const ROUNDS: u32 = 8;

/// How long to wait before members are opened and read once more.
const PAUSE: Duration = Duration::from_millis(200);

/// Attaches the array; if it has a lease, or is to have one, takes that, and reads the members again, which
/// no other host writes any more.
pub(super) async fn attach(
    config: &DaemonConfig,
) -> Result<(Attached, Option<Agent>), DaemonError> {
    let deadline = Instant::now() + config.wait;
    let (mut rounds, mut has_lease) = (0, false);
    loop {
        let mut attached = match patience::attach(config).await {
            // What this process had open before is about to be closed.
            Err(AttachError::Open(OpenError::InUse { holder: Some(holder), .. }))
                if rounds > 0 && rounds < ROUNDS && holder == std::process::id() =>
            {
                rounds += 1;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            attached => attached?,
        };
        // Who took it away may run the array now, and nothing tells whether it does.
        if has_lease && attached.record().lease.is_none() {
            return Err(LeaseError::Gone { name: attached.record().name.clone() }.into());
        }
        has_lease = attached.record().lease.is_some();
        let Some(term) = config.lease.term.flatten().or(attached.record().lease) else {
            return Ok((attached, None));
        };
        if config.becomes.is_some() {
            return Err(LeaseError::Becomes.into());
        }
        if attached.record().lease != Some(term) {
            attached.record().may_get_lease().map_err(LeaseError::from)?;
        }
        let (name, events) = (attached.record().name.clone(), attached.record().events);
        let group = &mut attached.groups[0];
        let taken = take(group, term, config.lease, deadline, &config.waits).await?;
        if let Some(agent) = taken {
            let attached = attached.read_again(config.options)?;
            if attached.record().events == events {
                return Ok((attached, Some(agent)));
            }
            // Before the devices, which others may lock then.
            drop(agent);
        }
        rounds += 1;
        if rounds >= ROUNDS && Instant::now() >= deadline {
            return Err(LeaseError::Record { name }.into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The array is started with the lease that the operator wants, which is on record when it serves.
pub(super) fn begin(attached: &mut Attached, config: &DaemonConfig) -> Result<(), DaemonError> {
    let Some(term) = config.lease.term else { return Ok(()) };
    for group in &mut attached.groups {
        group.assembled.begin_lease(term).map_err(LeaseError::from)?;
    }
    Ok(())
}

/// Why an array ended whose lease is over.
pub(super) fn explain(error: DaemonError, name: &str) -> DaemonError {
    if let DaemonError::Stop(HostError::Lease(why)) = error {
        return DaemonError::LeaseLost { name: name.to_owned(), why };
    }
    error
}
