//! How worn members' drives are, and when to replace them, in words.

use evenkeel_client::{ArrayReport, DriveReport, MemberReport, disk_name};

use crate::size::Size;

const DAY: u64 = 86_400;

/// Which members' drives are to be replaced first, and when, as seen from `now` (in seconds since 1970);
/// nothing if that is known of none.
pub(super) fn summary(report: &ArrayReport, now: u64) -> Option<String> {
    let date = |member: &MemberReport| Some((member.drive?.replace_at?, name(member, report)));
    let mut dates: Vec<(u64, String)> = report.members.iter().filter_map(date).collect();
    // Those with one date stay in the order of members.
    dates.sort_by_key(|&(at, _)| at);
    let mut dates = dates.into_iter();
    let (first, member) = dates.next()?;
    let mut text = format!("replace {member} {}", until(first, now));
    if let Some((second, member)) = dates.next() {
        // What is due already is due now.
        let between = second.max(now) - first.max(now);
        let later = if between < DAY {
            "at about the same time".to_owned()
        } else {
            format!("{} later", about(between))
        };
        text += &format!(", {member} {later}");
    }
    match dates.len() {
        0 => {}
        1 => text += ", another one after that",
        others => text += &format!(", {others} others after that"),
    }
    Some(text)
}

/// What a drive tells, as seen from `now`.
pub(super) fn line(drive: &DriveReport, now: u64) -> String {
    let health = &drive.health;
    let parts = [
        health.used_percent.map(|percent| format!("{percent}% used")),
        health.written_bytes.map(|bytes| format!("{} written", Size(bytes))),
        health.power_on_hours.map(|hours| format!("on for {hours} h")),
        health.temperature_celsius.map(|celsius| format!("{celsius} °C")),
        health.media_errors.filter(|&errors| errors > 0).map(|errors| match errors {
            1 => "1 media error".to_owned(),
            errors => format!("{errors} media errors"),
        }),
    ];
    let told: Vec<String> = parts.into_iter().flatten().collect();
    let replace = drive.replace_at.map(|at| format!("; replace {}", until(at, now)));
    format!("drive: {}{}", told.join(", "), replace.unwrap_or_default())
}

fn name(member: &MemberReport, report: &ArrayReport) -> String {
    let is_member = usize::from(member.member) < report.facts.member_count;
    let what = if is_member { "member" } else { "staging device" };
    format!("{what} {}", disk_name(member.group, member.member))
}

/// When a date is.
fn until(at: u64, now: u64) -> String {
    match at.saturating_sub(now) {
        0 => "now".to_owned(),
        1..DAY => "within a day".to_owned(),
        left => format!("in {}", about(left)),
    }
}

/// A length of time of a day or more, rounded as people say it.
fn about(seconds: u64) -> String {
    let days = seconds.saturating_add(DAY / 2) / DAY;
    let (number, unit) = match days {
        ..14 => (days, "day"),
        14..60 => ((days + 3) / 7, "week"),
        // A month has 30.44 days, a year 365.25.
        60..730 => ((days * 100 + 1522) / 3044, "month"),
        _ => ((days * 100 + 18_262) / 36_525, "year"),
    };
    let plural = if number == 1 { "" } else { "s" };
    format!("about {number} {unit}{plural}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: u64 = 1_800_000_000;

    /// An array whose members' drives are to be replaced in so many days.
    fn report(days: &[Option<u64>]) -> ArrayReport {
        let members: Vec<Value> =
            (0..).zip(days).map(|(number, days)| member(number, *days)).collect();
        serde_json::from_value(json!({
            "name": "tank", "uuid": "u", "level": "raid5", "chunk_bytes": 65536,
            "member_count": 5, "capacity_bytes": 0, "member_bytes": 0, "data_offset_bytes": 0,
            "redundancy": 1, "consistency": "journal", "created": 0, "health": "online",
            "problems": [], "members": members, "spares": [], "pass": null, "last_scrub": null,
            "dirty_regions": { "marked": 0, "total": 1 },
            "zero_stripes": { "marked": 0, "total": 1 },
            "pace": { "min_bytes_per_second": 1, "max_bytes_per_second": null },
            "requests": { "completed": 0, "failed": 0 }, "policy": "plain",
            "detours": { "reads": 0, "extra_blocks": 0 }, "fronts": [], "events": [], "pid": 1,
        }))
        .expect("a report")
    }

    fn member(number: u8, days: Option<u64>) -> Value {
        let mut drive = json!({ "source": "nvme-log", "read_at": NOW });
        if let Some(days) = days {
            drive["replace_at"] = json!(NOW + days * DAY);
        }
        json!({
            "member": number, "path": format!("/dev/nvme{number}n1"), "uuid": "u", "state": "up",
            "since": 0, "read_errors": 0, "write_errors": 0, "drive": drive,
        })
    }

    fn told(days: &[Option<u64>]) -> String {
        summary(&report(days), NOW).unwrap_or_default()
    }

    #[test]
    fn the_first_to_be_replaced_comes_first() {
        let told_of_four = told(&[None, Some(3000), Some(164), Some(122)]);
        assert_eq!(
            told_of_four,
            "replace member 3 in about 4 months, member 2 about 6 weeks later, another one after that"
        );
        assert_eq!(
            told(&[Some(10), Some(10)]),
            "replace member 0 in about 10 days, member 1 at about the same time"
        );
        assert_eq!(
            told(&[Some(800), Some(0), Some(900), Some(1000)]),
            "replace member 1 now, member 0 about 2 years later, 2 others after that"
        );
        assert_eq!(told(&[Some(30)]), "replace member 0 in about 4 weeks");
        assert_eq!(told(&[None, None]), "");
        let staged = told(&[None, None, None, None, None, Some(61)]);
        assert_eq!(staged, "replace staging device 5 in about 2 months");
        let late = summary(&report(&[Some(1), Some(3)]), NOW + 2 * DAY);
        let expected = "replace member 0 now, member 1 about 1 day later";
        assert_eq!(late.as_deref(), Some(expected), "what was due yesterday is due now");
    }

    #[test]
    fn a_drive_is_told_in_a_line() {
        let drive = |value: Value| {
            line(&serde_json::from_value::<DriveReport>(value).expect("a drive"), NOW)
        };
        let worn = json!({
            "used_percent": 83, "written_bytes": 412u64 << 40, "temperature_celsius": 41,
            "media_errors": 0, "power_on_hours": 21_000, "source": "nvme-log", "read_at": NOW,
            "replace_at": NOW + 122 * DAY, "worn_out_at": NOW + 300 * DAY,
        });
        let text =
            "drive: 83% used, 412 TiB written, on for 21000 h, 41 °C; replace in about 4 months";
        assert_eq!(drive(worn.clone()), text);
        let mut broken = worn;
        (broken["media_errors"], broken["replace_at"]) = (json!(1), json!(NOW));
        assert!(drive(broken.clone()).ends_with("41 °C, 1 media error; replace now"));
        (broken["media_errors"], broken["replace_at"]) = (json!(7), json!(NOW + 60));
        assert!(drive(broken).ends_with("41 °C, 7 media errors; replace within a day"));
        let new = json!({ "used_percent": 0, "source": "smartctl", "read_at": NOW });
        assert_eq!(drive(new), "drive: 0% used");
    }

    #[test]
    fn times_are_rounded() {
        for (days, expected) in [
            (1, "about 1 day"),
            (13, "about 13 days"),
            (14, "about 2 weeks"),
            (59, "about 8 weeks"),
            (60, "about 2 months"),
            (729, "about 24 months"),
            (730, "about 2 years"),
            (3653, "about 10 years"),
        ] {
            assert_eq!(about(days * DAY), expected);
        }
        assert_eq!(about(DAY + DAY / 2), "about 2 days");
        assert!(about(u64::MAX).ends_with(" years"));
    }
}
