//! Metrics of what members' drives tell of themselves.

use super::text::{Family, Text};
use crate::health::Reading;

/// Those of an array's members whose drives tell something: their numbers, and what.
pub(super) fn members(text: &mut Text, array: &str, known: &[(String, Reading)]) {
    let sample = |mut family: Family<'_>, value: fn(&Reading) -> Option<f64>| {
        for (number, reading) in known {
            let labels = [("array", array), ("member", &**number)];
            value(reading).into_iter().for_each(|value| family.sample(&labels, value));
        }
    };
    let wear = text.gauge(
        "evenkeel_member_wear_percent",
        "How much of its rated endurance a member's drive has used, as it tells; can exceed 100.",
    );
    sample(wear, |reading| reading.health.used_percent.map(f64::from));
    let temperature = text
        .gauge("evenkeel_member_temperature_celsius", "How warm a member's drive is, as it tells.");
    sample(temperature, |reading| reading.health.temperature_celsius.map(f64::from));
    let replace = text.gauge(
        "evenkeel_member_replace_timestamp_seconds",
        "When 90% of its endurance is used if it is written as it was, in seconds since 1970.",
    );
    sample(replace, |reading| reading.expected().map(|dates| dates.replace_at as f64));
    let written = text.counter(
        "evenkeel_member_written_bytes_total",
        "Written to a member's drive in its whole life, as it tells.",
    );
    sample(written, |reading| reading.health.written_bytes.map(|bytes| bytes as f64));
    let errors = text.counter(
        "evenkeel_member_media_errors_total",
        "How often a member's drive could not give back what was written, in its whole life.",
    );
    sample(errors, |reading| reading.health.media_errors.map(|errors| errors as f64));
    let on = text.counter(
        "evenkeel_member_power_on_seconds_total",
        "For how long a member's drive has been on in its whole life, as it tells.",
    );
    sample(on, |reading| reading.health.power_on_hours.map(|hours| hours as f64 * 3600.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{DriveHealth, Source};

    #[test]
    fn what_a_drive_does_not_tell_has_no_sample() {
        let silent = DriveHealth {
            used_percent: None,
            written_bytes: None,
            temperature_celsius: Some(-5),
            media_errors: None,
            power_on_hours: None,
            source: Source::Smartctl,
        };
        let worn = DriveHealth {
            used_percent: Some(45),
            written_bytes: Some(1 << 40),
            temperature_celsius: Some(41),
            media_errors: Some(3),
            power_on_hours: Some(1000),
            source: Source::NvmeLog,
        };
        let known = [
            ("0".to_owned(), Reading { at: 5, health: silent }),
            ("3".to_owned(), Reading { at: 5, health: worn }),
        ];
        let mut text = Text::default();
        members(&mut text, "tank", &known);
        let page = text.finish();
        let samples: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "evenkeel_member_wear_percent{array=\"tank\",member=\"3\"} 45",
            "evenkeel_member_temperature_celsius{array=\"tank\",member=\"0\"} -5",
            "evenkeel_member_temperature_celsius{array=\"tank\",member=\"3\"} 41",
            "evenkeel_member_replace_timestamp_seconds{array=\"tank\",member=\"3\"} 3600005",
            "evenkeel_member_written_bytes_total{array=\"tank\",member=\"3\"} 1099511627776",
            "evenkeel_member_media_errors_total{array=\"tank\",member=\"3\"} 3",
            "evenkeel_member_power_on_seconds_total{array=\"tank\",member=\"3\"} 3600000",
        ];
        assert_eq!(samples, expected);
    }
}
