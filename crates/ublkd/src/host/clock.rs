//! The time, for the engine and for people.

use std::time::{Duration, SystemTime};

use det::Instant;

/// The system's monotonic clock, which other processes can read, too.
pub(super) fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let time = Duration::try_from(time).expect("the monotonic clock began at zero");
    Instant::ORIGIN + time
}

/// The time in seconds since 1970.
pub(super) fn wall_seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
