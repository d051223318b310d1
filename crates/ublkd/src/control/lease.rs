//! What is told of an array's lease.

use evenkeel_client::LeaseReport;

use crate::host::HostHandle;

/// The lease of an array that runs, if it has one.
pub(super) fn lease_report(host: &HostHandle) -> Option<LeaseReport> {
    let lease = host.lease()?.permit.view()?;
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Some(LeaseReport {
        holder: lease.holder.name.to_string(),
        before: lease.before.map(|before| before.to_string()),
        term_ms: millis(lease.term.duration()),
        generation: lease.generation,
        renewed_ms_ago: lease.age().map(millis),
        voters: lease.voters.len(),
        silent: lease.silent.map(|member| member.0).collect(),
    })
}
