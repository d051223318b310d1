//! When a drive will be worn out, if it goes on as it has.

use steering::stagger;

use super::DriveHealth;

/// How much of a drive's endurance is used when it should be replaced, in percent.
pub const REPLACE_AT_PERCENT: u8 = stagger::REPLACED_AT;

/// When all of its endurance is used, in percent.
const WORN_OUT_AT_PERCENT: u8 = 100;

/// What a younger drive tells is too little to go by.
const HOURS_AT_LEAST: u64 = 100;

/// A drive that would last longer is not replaced for its wear.
const HORIZON_HOURS: u128 = 100 * 365 * 24;

/// When a drive is expected to be worn, in seconds since 1970. A date that has passed is the time of
/// the reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// When [`REPLACE_AT_PERCENT`] of its endurance is used.
    pub replace_at: u64,
    /// When all of its endurance is used.
    pub worn_out_at: u64,
}

impl Expected {
    /// The dates for a drive that told this at `at` (in seconds since 1970), if it stays on and is
    /// written as it was in its whole life so far. None if it does not tell enough, is not worn yet, is
    /// too young, or lasts a century.
    #[must_use]
    pub fn of(health: &DriveHealth, at: u64) -> Option<Self> {
        let (used, hours) = (health.used_percent?, health.power_on_hours?);
        if used == 0 || hours < HOURS_AT_LEAST {
            return None;
        }
        let replace = hours_until(REPLACE_AT_PERCENT, used, hours);
        let worn_out = hours_until(WORN_OUT_AT_PERCENT, used, hours);
        if replace > HORIZON_HOURS {
            return None;
        }
        let date = |hours: u128| {
            at.saturating_add(u64::try_from(hours.saturating_mul(3600)).unwrap_or(u64::MAX))
        };
        Some(Self { replace_at: date(replace), worn_out_at: date(worn_out) })
    }
}

/// How many hours it takes from `used` percent, which took `hours`, to `percent`.
fn hours_until(percent: u8, used: u8, hours: u64) -> u128 {
    u128::from(percent.saturating_sub(used)) * u128::from(hours) / u128::from(used)
}
