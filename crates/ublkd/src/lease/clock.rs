//! The clock that leases go by.

use std::time::Duration;

use det::Instant;

/// The time since the kernel was booted, the time in which the host slept included: a term goes on meanwhile.
pub(crate) fn boot_time() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let time = Duration::try_from(time).expect("the clock began at zero");
    Instant::ORIGIN + time
}
