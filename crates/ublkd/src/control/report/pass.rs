//! The progress and rate of a background pass.

use evenkeel_client::{PassReport, Task};
use raidcore::engine::{PassKind, PassStatus};

/// How long a pass has to run before its rate is meaningful, in milliseconds.
const RATE_TELLS_MS: u64 = 1000;

/// The report of a pass of an array with chunks of this size, in this group of a log volume, if
/// it is in one.
pub(crate) fn pass_report(pass: &PassStatus, chunk_bytes: u64, group: Option<u8>) -> PassReport {
    let (task, member) = match pass.kind {
        PassKind::Resync => (Task::Resync, None),
        PassKind::Rebuild(member) => (Task::Rebuild, Some(member.0)),
        PassKind::Distribute(member) => (Task::Distribute, Some(member.0)),
        PassKind::Copy(member) => (Task::Copy, Some(member.0)),
        PassKind::Scrub { .. } => (Task::Scrub, None),
        PassKind::Reshape => (Task::Reshape, None),
    };
    let done_bytes = pass.done * chunk_bytes;
    let total_bytes = pass.total * chunk_bytes;
    let elapsed_ms = u64::try_from(pass.elapsed.as_millis()).unwrap_or(u64::MAX);
    let [rate, advance] = [pass.worked, pass.done.saturating_sub(pass.from)].map(|stripes| {
        let bytes = u128::from(stripes * chunk_bytes);
        if elapsed_ms < RATE_TELLS_MS { 0 } else { bytes * 1000 / u128::from(elapsed_ms) }
    });
    let left = u128::from(total_bytes.saturating_sub(done_bytes)) * 1000;
    let left_ms = left.checked_div(advance).and_then(|ms| u64::try_from(ms).ok());
    PassReport {
        task,
        member,
        group,
        done_bytes,
        total_bytes,
        paused: pass.paused,
        stuck_at_stripe: pass.stuck.map(|stripe| stripe.0),
        left_stripes: pass.left,
        mismatches: pass.found.rows,
        located: pass.found.located,
        elapsed_ms,
        bytes_per_second: u64::try_from(rate).unwrap_or(u64::MAX),
        due_in_ms: pass.due_in.map(|due| u64::try_from(due.as_millis()).unwrap_or(u64::MAX)),
        held_to_bytes_per_second: pass.held_to,
        left_ms: left_ms.filter(|_| !pass.paused && pass.stuck.is_none()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use raidcore::engine::Mismatches;
    use raidcore::units::{MemberId, Stripe};

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A rebuild, of an array with chunks of 1 MiB, that has come to stripe 700 of 1000.
    fn pass(from: u64, worked: u64, elapsed: Duration) -> PassStatus {
        PassStatus {
            kind: PassKind::Rebuild(MemberId(1)),
            done: 700,
            total: 1000,
            paused: false,
            stuck: None,
            left: 0,
            found: Mismatches::default(),
            elapsed,
            due_in: None,
            held_to: None,
            from,
            worked,
        }
    }

    /// The reported rate in MiB per second, and the remaining time in seconds.
    fn told(pass: &PassStatus) -> (u64, Option<u64>) {
        let report = pass_report(pass, MIB, None);
        assert_eq!((report.done_bytes, report.total_bytes), (700 * MIB, 1000 * MIB));
        (report.bytes_per_second / MIB, report.left_ms.map(|ms| ms / 1000))
    }

    #[test]
    fn a_rate_is_of_what_was_read_or_written() {
        let ten = Duration::from_secs(10);
        assert_eq!(told(&pass(0, 700, ten)), (70, Some(4)));
        // Most stripes were zeros. The rest is expected to be alike.
        assert_eq!(told(&pass(0, 70, ten)), (7, Some(4)));
        assert_eq!(told(&pass(0, 0, ten)), (0, Some(4)));
        // The progress of an earlier run does not count for the rate.
        assert_eq!(told(&pass(600, 100, ten)), (10, Some(30)));
        assert_eq!(told(&pass(700, 0, ten)), (0, None));
    }

    #[test]
    fn no_rate_is_told_before_there_is_one() {
        let soon = Duration::from_millis(RATE_TELLS_MS - 1);
        assert_eq!(told(&pass(0, 700, soon)), (0, None));
        assert_eq!(told(&pass(0, 700, Duration::from_millis(RATE_TELLS_MS))), (700, Some(0)));
        let paused = PassStatus { paused: true, ..pass(0, 700, Duration::from_secs(10)) };
        assert_eq!(told(&paused), (70, None));
        let stuck = PassStatus { paused: false, stuck: Some(Stripe(700)), ..paused };
        assert_eq!(told(&stuck), (70, None));
    }
}
