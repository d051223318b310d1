//! When a drive will be worn out.

use ublkd::health::{DriveHealth, Expected, Source};

const NOW: u64 = 1_800_000_000;
const HOUR: u64 = 3600;

fn drive(used_percent: Option<u8>, power_on_hours: Option<u64>) -> DriveHealth {
    DriveHealth {
        used_percent,
        written_bytes: None,
        temperature_celsius: None,
        media_errors: None,
        power_on_hours,
        source: Source::NvmeLog,
    }
}

fn expected(used_percent: u8, hours: u64) -> Option<Expected> {
    Expected::of(&drive(Some(used_percent), Some(hours)), NOW)
}

#[test]
fn a_drive_goes_on_as_it_has() {
    let dates = expected(60, 12_000).expect("both are known");
    assert_eq!(dates.replace_at, NOW + 6_000 * HOUR, "a percent takes 200 hours");
    assert_eq!(dates.worn_out_at, NOW + 8_000 * HOUR);
}

#[test]
fn what_is_past_is_now() {
    let late = expected(95, 9500).expect("both are known");
    assert_eq!(late, Expected { replace_at: NOW, worn_out_at: NOW + 500 * HOUR });
    for used in [100, 101, 255] {
        assert_eq!(expected(used, 9500), Some(Expected { replace_at: NOW, worn_out_at: NOW }));
    }
}

#[test]
fn too_little_tells_nothing() {
    assert_eq!(expected(0, 10_000), None, "not worn");
    assert_eq!(expected(50, 99), None, "too young");
    assert!(expected(50, 100).is_some());
    assert_eq!(Expected::of(&drive(None, Some(1000)), NOW), None);
    assert_eq!(Expected::of(&drive(Some(5), None), NOW), None);
}

#[test]
fn a_drive_that_lasts_a_century_has_no_date() {
    assert!(expected(1, 9_842).is_some(), "89 times that is just below");
    assert_eq!(expected(1, 9_844), None);
    assert_eq!(expected(1, u64::MAX), None);
    let spent = Expected::of(&drive(Some(255), Some(u64::MAX)), u64::MAX);
    assert_eq!(spent, Some(Expected { replace_at: u64::MAX, worn_out_at: u64::MAX }));
}
