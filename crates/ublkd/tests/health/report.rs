//! What programs are told of drives.

use serde_json::{Value, json};
use ublkd::control::{DriveReport, MemberReport, SpareReport, drive_report};
use ublkd::health::{Reading, nvme};

#[test]
fn a_drive_is_told_in_one_object() {
    let health = nvme::parse(&crate::nvme::log()).expect("it tells");
    let report = drive_report(&Reading { at: 1_800_000_000, health });
    let value = serde_json::to_value(report).expect("it can be written");
    let expected = json!({
        "used_percent": 83,
        "written_bytes": 453_120_000_000_000u64,
        "temperature_celsius": 41,
        "media_errors": 3,
        "power_on_hours": 21_000,
        "source": "nvme-log",
        "read_at": 1_800_000_000,
        // 7 percent more take 7 / 83 of the hours, whole hours only.
        "replace_at": 1_800_000_000 + 1771 * 3600,
        "worn_out_at": 1_800_000_000u64 + 4301 * 3600,
    });
    assert_eq!(value, expected);
    assert_eq!(serde_json::from_value::<DriveReport>(value).expect("it can be read"), report);
}

#[test]
fn what_a_drive_does_not_tell_is_left_out() {
    let value = json!({ "source": "smartctl", "read_at": 5 });
    let report: DriveReport = serde_json::from_value(value.clone()).expect("all else is optional");
    assert_eq!((report.health.used_percent, report.replace_at), (None, None));
    assert_eq!(serde_json::to_value(report).expect("it can be written"), value);
}

#[test]
fn a_member_of_an_older_release_has_no_drive() {
    let value = json!({
        "member": 1, "path": null, "uuid": "u", "state": "up", "since": 0,
        "read_errors": 0, "write_errors": 0,
    });
    let member: MemberReport = serde_json::from_value(value).expect("all else is optional");
    assert_eq!(member.drive, None);
    let value = serde_json::to_value(member).expect("it can be written");
    assert_eq!(value.get("drive"), None::<&Value>);
}

#[test]
fn a_spare_tells_of_its_drive_too() {
    let older: SpareReport =
        serde_json::from_value(json!({ "path": null })).expect("it is optional");
    assert_eq!(older.drive, None);
    let drive = json!({ "source": "smartctl", "read_at": 5, "used_percent": 7 });
    let value = json!({ "path": null, "drive": drive });
    let report: SpareReport = serde_json::from_value(value.clone()).expect("a spare");
    assert_eq!(report.drive.and_then(|drive| drive.health.used_percent), Some(7));
    assert_eq!(serde_json::to_value(report).expect("it can be written"), value);
}
