//! What a member's drive tells of itself.

use evenkeel_client::DriveReport;

use crate::health::Reading;

/// From what was read.
#[must_use]
pub fn drive_report(reading: &Reading) -> DriveReport {
    let expected = reading.expected();
    DriveReport {
        health: reading.health,
        read_at: reading.at,
        replace_at: expected.map(|dates| dates.replace_at),
        worn_out_at: expected.map(|dates| dates.worn_out_at),
    }
}
