//! `evenkeel status --why`: which members are busy, how that is known, and how often it was right.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_client::{
    AdviceReport, Client, Detected, Detours, Kind, Known, MemberWhy, Mood, PartReport,
    StagedWrites, Verdict, WhyReport, disk_name,
};
use serde_json::json;

use crate::output::{Output, ago};

/// How many verdicts are shown.
const VERDICTS_SHOWN: usize = 8;

pub(crate) fn why(name: &str, run_dir: &Path, output: Output) -> Result<ExitCode> {
    let report = Client::connect(run_dir, name)?.why()?;
    output.result(&json!(report), || text(name, &report));
    Ok(ExitCode::SUCCESS)
}

fn text(name: &str, report: &WhyReport) -> String {
    let Detours { reads: detours, extra_blocks: extra } = report.detours;
    let StagedWrites { writes: staged, blocks } = report.staged;
    let mut lines = vec![
        format!(" array: {name}"),
        format!(
            "policy: {}; {detours} reads went around busy members, and read {extra} blocks more for \
             it; {staged} writes of {blocks} blocks were staged",
            report.policy
        ),
    ];
    lines.extend(report.policy_since.map(|since| format!("        for {}", ago(since))));
    lines.extend(report.parts.iter().map(part));
    lines.push(String::new());
    lines.extend(report.members.iter().map(member));
    if !report.advice.is_empty() {
        lines.push(String::new());
        lines.extend(report.advice.iter().map(|advice| advised(name, advice)));
    }
    if !report.verdicts.is_empty() {
        lines.push(String::new());
        lines.extend(report.verdicts.iter().take(VERDICTS_SHOWN).map(verdict));
    }
    lines.join("\n")
}

fn part(part: &PartReport) -> String {
    let told = |what: &str, micros: Option<f64>| {
        micros.map(|micros| format!("{what} {:.2} ms", micros / 1000.0))
    };
    let means = [
        told("with nobody busy in the way", part.calm_us),
        told(&part.around, part.around_us),
        told(&part.home, part.home_us),
    ];
    let means: Vec<String> = means.into_iter().flatten().collect();
    let means = if means.is_empty() { "there was none yet".into() } else { means.join(", ") };
    let since = part.since.map(|since| format!(" for {}", ago(since))).unwrap_or_default();
    let state = match part.on {
        true if since.is_empty() => String::new(),
        true => format!(" (again{since})"),
        false => format!(" (rests{since}, as it would take longer)"),
    };
    let group = part.group.map(|group| format!("group {group}: ")).unwrap_or_default();
    format!("        {group}{}{state}: {means}", part.name)
}

fn member(member: &MemberWhy) -> String {
    let (mood, how) = match &member.known {
        Known::Nothing => ("-", "not asked: reads go home, or there is no device".to_owned()),
        Known::Told { busy: true } => ("BUSY", "it says so itself".to_owned()),
        Known::Told { busy: false } => ("free", "it says so itself".to_owned()),
        Known::Detected(detected) => (mood(detected.mood), judged(detected)),
    };
    let busy =
        member.busy_us.map(|us| format!("gone around for {:.1} ms by now; ", us as f64 / 1e3));
    let (reads, writes) = (member.detours, member.staged_writes);
    let around = match (reads, writes) {
        (0, 0) => String::new(),
        _ => format!("; {reads} reads went around it, {writes} writes were staged because of it"),
    };
    let disk = disk_name(member.group, member.member);
    format!("  member {disk:<3} {mood:<8} {}{how}{around}", busy.unwrap_or_default())
}

fn mood(mood: Mood) -> &'static str {
    match mood {
        Mood::Free => "free",
        Mood::Suspect => "suspect",
        Mood::Busy => "BUSY",
    }
}

fn judged(detected: &Detected) -> String {
    let percent = |share: Option<f64>| share.map(|share| format!("{:.0} %", 100.0 * share));
    let found = match percent(detected.precision) {
        None => "never found busy so far".to_owned(),
        Some(right) => {
            let verdicts = detected.right + detected.wrong;
            format!("found busy {verdicts} times, {right} of these rightly")
        }
    };
    let late = match percent(detected.recall) {
        None => format!("none of {} I/Os was late", detected.judged),
        Some(foreseen) => {
            format!(
                "{} of {} I/Os were late, {foreseen} of these foreseen",
                detected.late, detected.judged
            )
        }
    };
    format!("{found}; {late}")
}

fn advised(name: &str, advice: &AdviceReport) -> String {
    let AdviceReport { group, member, kind, median_percent, p99_percent } = *advice;
    let member = disk_name(group, member);
    let kind = match kind {
        Kind::Read => "reads",
        Kind::Write => "writes",
    };
    format!(
        " slow: member {member} has been slower than the others for two days: its {kind} take \
         {median_percent} % of theirs (p99: {p99_percent} %)\n        -> check it (smartctl), or \
         replace it: `evenkeel disk replace {name} {member} PATH`"
    )
}

fn verdict(verdict: &Verdict) -> String {
    let ago = ago(verdict.at);
    let disk = disk_name(verdict.group, verdict.member);
    format!("  {ago:>14} ago  member {disk}: {}", verdict.text)
}
