//! What is wrong with arrays, as far as people are told.

use evenkeel_client::paths::shown;
use evenkeel_client::{ArrayReport, DriveReport, MemberReport, WhyReport, disk_name};
use ublkd::history::{ENDED, Entry, What};

use super::message::Severity;

/// Something that is wrong, or has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Finding {
    /// What it is told by once: equal as long as it is the same occurrence.
    pub(super) key: String,
    pub(super) event: String,
    pub(super) severity: Severity,
    pub(super) disk: Option<String>,
    pub(super) message: String,
    pub(super) what_to_do: Option<String>,
    /// When it began, in seconds since 1970, if that is known.
    pub(super) at: Option<u64>,
}

/// Problems that end by themselves, or that an operator has made.
const UNTOLD: [&str; 4] = ["", "rebuilding", "resync", "paused"];

/// Problems after which data may be lost, or requests fail.
const CRITICAL: [&str; 5] = ["failed", "torn", "left-behind", "staged-lost", "log-failed"];

/// What share of a drive's endurance may be used, in percent.
const WORN: u16 = 90;

/// What is wrong with an array now.
pub(super) fn of_report(report: &ArrayReport, why: Option<&WhyReport>, now: u64) -> Vec<Finding> {
    let problems = report.problems.iter().filter(|problem| !UNTOLD.contains(&&*problem.kind));
    let mut findings: Vec<Finding> = problems
        .map(|problem| {
            let is_critical = CRITICAL.contains(&&*problem.kind);
            let disk = problem.disk.clone().unwrap_or_default();
            let since = problem.since.map(|since| since.to_string()).unwrap_or_default();
            Finding {
                key: format!("{}/{disk}/{since}", problem.kind),
                event: problem.kind.clone(),
                severity: if is_critical { Severity::Critical } else { Severity::Warning },
                disk: problem.disk.clone(),
                message: problem.what.clone(),
                what_to_do: Some(problem.action.clone()),
                at: problem.since,
            }
        })
        .collect();
    findings.extend(report.members.iter().filter_map(|member| worn(member, report, now)));
    if let Some(why) = why {
        findings.extend(slow(why, &report.facts.name));
        findings.extend(resting(why, &report.facts.name));
    }
    findings
}

/// A member whose drive is worn.
fn worn(member: &MemberReport, report: &ArrayReport, now: u64) -> Option<Finding> {
    let drive: &DriveReport = member.drive.as_ref()?;
    let used = drive.health.used_percent;
    let is_used = used.is_some_and(|used| u16::from(used) >= WORN);
    if !is_used && drive.replace_at.is_none_or(|at| at > now) {
        return None;
    }
    let disk = disk_name(member.group, member.member);
    let path = member.path.as_ref().map(|path| format!(" ({})", shown(path))).unwrap_or_default();
    let used = used.map_or_else(|| format!("{WORN}%"), |used| format!("{used}%"));
    // Another drive in its place is another occurrence.
    let drive =
        member.serial.clone().or_else(|| member.path.as_ref().map(|path| shown(path).to_string()));
    let name = &report.facts.name;
    Some(Finding {
        key: format!("wear/{disk}/{}", drive.unwrap_or_default()),
        event: "wear".to_owned(),
        severity: Severity::Warning,
        message: format!("member {disk}{path}: {used} of its drive's endurance is used"),
        what_to_do: Some(format!(
            "replace it while it works, it is copied: `evenkeel disk replace {name} {disk} PATH`"
        )),
        disk: Some(disk),
        at: None,
    })
}

/// Members that have long been slower than the others.
fn slow<'w>(why: &'w WhyReport, name: &'w str) -> impl Iterator<Item = Finding> + 'w {
    why.advice.iter().map(move |advice| {
        let disk = disk_name(advice.group, advice.member);
        let kind = format!("{:?}s", advice.kind).to_lowercase();
        Finding {
            key: format!("slow-member/{disk}/{kind}"),
            event: "slow-member".to_owned(),
            severity: Severity::Warning,
            message: format!(
                "member {disk} has been slower than the others for two days: its {kind} take {} % of theirs \
                 (p99: {} %)",
                advice.median_percent, advice.p99_percent
            ),
            what_to_do: Some(format!(
                "check it (smartctl), or replace it: `evenkeel disk replace {name} {disk} PATH`"
            )),
            disk: Some(disk),
            at: None,
        }
    })
}

/// Parts of the policy that rest.
fn resting<'w>(why: &'w WhyReport, name: &'w str) -> impl Iterator<Item = Finding> + 'w {
    why.parts.iter().filter(|part| !part.on).map(move |part| {
        let group = part.group.map(|group| format!("group {group}: ")).unwrap_or_default();
        Finding {
            key: format!("policy-resting/{group}/{}", part.name),
            event: "policy-resting".to_owned(),
            severity: Severity::Info,
            disk: None,
            message: format!(
                "{group}a part of the policy {} rests, as it was found to make requests slower: {}",
                why.policy, part.name
            ),
            what_to_do: Some(format!(
                "nothing: it is tried again by itself. `evenkeel status --why {name}` tells more"
            )),
            at: part.since,
        }
    })
}

/// Events that are told. What lasts is found in the report, so these are those that end something.
pub(super) fn of_event(entry: &Entry, verbose: bool) -> Option<Finding> {
    let What { kind, text, disk, .. } = &entry.what;
    let severity = match &**kind {
        ENDED => Severity::Critical,
        "rebuilt" | "copied" | "reshaped" | "healed" => Severity::Info,
        "scrubbed" | "resynced" | "member-returned" | "started" | "stopped" if verbose => {
            Severity::Info
        }
        _ => return None,
    };
    Some(Finding {
        key: format!("{kind}/{}", entry.number),
        event: kind.clone(),
        severity,
        disk: disk.clone(),
        message: text.clone(),
        what_to_do: to_do(kind).map(str::to_owned),
        at: Some(entry.at),
    })
}

/// What to do about an event.
fn to_do(kind: &str) -> Option<&'static str> {
    match kind {
        "rebuilt" => {
            Some("nothing; if a spare was used, give the array another (`evenkeel disk add`)")
        }
        "copied" => Some("the device that was replaced can be taken out"),
        "reshaped" => {
            Some("stop and start the array when it suits, to have the room that was added")
        }
        ENDED => Some("see the array's log; `evenkeel start` or systemd starts it again"),
        _ => None,
    }
}

/// A failure, or a mismatch, that was mended before anyone could see it in a report.
pub(super) fn passed(entry: &Entry) -> Option<Finding> {
    let What { kind, text, disk, .. } = &entry.what;
    let (event, key, what_to_do) = match &**kind {
        "member-failed" => (
            "degraded",
            format!("passed/{}", entry.number),
            "a spare was there; check the device that failed",
        ),
        "mismatch" | "blocks-wrong" => (
            "mismatch",
            "passed/mismatch".to_owned(),
            "see how the scrub ends: `evenkeel status`; check the members' drives (smartctl)",
        ),
        _ => return None,
    };
    Some(Finding {
        key,
        event: event.to_owned(),
        severity: Severity::Warning,
        disk: disk.clone(),
        message: text.clone(),
        what_to_do: Some(what_to_do.to_owned()),
        at: Some(entry.at),
    })
}

/// An array that gives no answer.
pub(super) fn silent(name: &str, is_there: bool, error: &str, since: u64) -> Finding {
    let (event, what, action) = if is_there {
        (
            "no-answer",
            format!("the array's process does not answer: {error}"),
            "see its log, and whether its members answer (the kernel's log)".to_owned(),
        )
    } else {
        (
            "vanished",
            "the array's process is gone, and has not stopped it".to_owned(),
            format!(
                "see its log; start it again: `systemctl restart evenkeel@{name}`, or `evenkeel start --name \
                 {name}`: what was acknowledged is there"
            ),
        )
    };
    Finding {
        key: format!("{event}//{since}"),
        event: event.to_owned(),
        severity: Severity::Critical,
        disk: None,
        message: what,
        what_to_do: Some(action),
        at: Some(since),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: u64 = 1_800_000_000;

    /// An array of three members, the first of which has a drive.
    fn report(drive: &Value, problems: &Value) -> ArrayReport {
        let member = |number: u8| {
            let drive = if number == 0 { drive.clone() } else { Value::Null };
            json!({
                "member": number, "path": "/dev/sdb", "serial": "S5", "uuid": "u", "state": "up", "since": 0,
                "read_errors": 0, "write_errors": 0, "drive": drive,
            })
        };
        let members: Vec<Value> = (0..3).map(member).collect();
        serde_json::from_value(json!({
            "name": "tank", "uuid": "u", "level": "raid5", "chunk_bytes": 65536, "member_count": 3,
            "capacity_bytes": 0, "member_bytes": 0, "data_offset_bytes": 0, "redundancy": 1,
            "consistency": "journal", "created": 0, "health": "online", "problems": problems,
            "members": members, "spares": [], "pass": null, "last_scrub": null,
            "dirty_regions": { "marked": 0, "total": 1 }, "zero_stripes": { "marked": 0, "total": 1 },
            "pace": { "min_bytes_per_second": 1, "max_bytes_per_second": null },
            "requests": { "completed": 0, "failed": 0 }, "policy": "plain",
            "detours": { "reads": 0, "extra_blocks": 0 }, "fronts": [], "events": [], "pid": 1,
        }))
        .expect("a report")
    }

    fn events(drive: &Value, problems: &Value) -> Vec<String> {
        let found = of_report(&report(drive, problems), None, NOW);
        found.into_iter().map(|found| found.event).collect()
    }

    #[test]
    fn a_worn_drive_is_told() {
        let drive = |used: u8, replace_at: u64| json!({ "source": "nvme-log", "read_at": NOW, "used_percent": used, "replace_at": replace_at });
        assert_eq!(events(&drive(89, NOW + 1), &json!([])), [""; 0]);
        assert_eq!(events(&drive(90, NOW + 1), &json!([])), ["wear"]);
        assert_eq!(events(&drive(89, NOW), &json!([])), ["wear"]);
        let found = of_report(&report(&drive(93, NOW), &json!([])), None, NOW);
        assert_eq!(found[0].key, "wear/0/S5");
        assert!(found[0].message.contains("member 0 (/dev/sdb): 93% of its drive's endurance"));
    }

    #[test]
    fn problems_are_told_but_those_that_end_by_themselves() {
        let problem = |kind: &str| json!({ "kind": kind, "what": "w", "since": 5, "action": "a" });
        let kinds = ["failed", "degraded", "rebuilding", "resync", "paused", "spare-missing"];
        let problems = Value::Array(kinds.map(problem).to_vec());
        assert_eq!(events(&Value::Null, &problems), ["failed", "degraded", "spare-missing"]);
        // An older release tells no kinds.
        let old = json!([{ "what": "w", "since": null, "action": "a" }]);
        assert_eq!(events(&Value::Null, &old), [""; 0]);
    }

    #[test]
    fn what_the_policy_finds_is_told() {
        let why = json!({
            "policy": "evenkeel", "detours": { "reads": 0, "extra_blocks": 0 },
            "staged": { "writes": 0, "blocks": 0 }, "members": [], "verdicts": [],
            "advice": [{ "member": 2, "kind": "read", "median_percent": 180, "p99_percent": 300 }],
            "parts": [
                { "name": "detours", "around": "", "home": "", "on": false, "since": 7 },
                { "name": "turns", "around": "", "home": "", "on": true },
            ],
        });
        let why: WhyReport = serde_json::from_value(why).expect("what it says");
        let found = of_report(&report(&Value::Null, &json!([])), Some(&why), NOW);
        let told: Vec<(&str, Option<&str>)> =
            found.iter().map(|found| (&*found.event, found.disk.as_deref())).collect();
        assert_eq!(told, [("slow-member", Some("2")), ("policy-resting", None)]);
        assert!(
            found[0].message.contains("its reads take 180 % of theirs"),
            "{}",
            found[0].message
        );
    }
}
