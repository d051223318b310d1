//! The result of the last scrub.

use evenkeel_client::{Problem, ScrubEndReport, ScrubReport};
use raidcore::meta::{ScrubEnd, ScrubRecord};

/// What is on record of a scrub.
pub(super) fn scrub_report(scrub: &ScrubRecord) -> ScrubReport {
    ScrubReport {
        mismatches: scrub.rows,
        located: scrub.located,
        end: match scrub.end {
            ScrubEnd::Compared => ScrubEndReport::Compared,
            ScrubEnd::Repaired => ScrubEndReport::Repaired,
            ScrubEnd::CutShort => ScrubEndReport::CutShort,
        },
        at: scrub.at,
    }
}

/// Two groups' scrubs as one.
pub(super) fn both(one: ScrubReport, other: ScrubReport) -> ScrubReport {
    let open = |each: &ScrubReport| each.end != ScrubEndReport::Repaired;
    ScrubReport {
        mismatches: one.mismatches + other.mismatches,
        located: one.located + other.located,
        end: match (one.end, other.end) {
            _ if !open(&one) && !open(&other) => ScrubEndReport::Repaired,
            (ScrubEndReport::CutShort, _) | (_, ScrubEndReport::CutShort) => {
                ScrubEndReport::CutShort
            }
            _ => ScrubEndReport::Compared,
        },
        at: one.at.max(other.at),
    }
}

/// How many inconsistent rows have not been corrected.
fn unrepaired(scrub: &ScrubReport) -> u64 {
    match scrub.end {
        ScrubEndReport::Repaired => 0,
        ScrubEndReport::Compared | ScrubEndReport::CutShort => scrub.mismatches,
    }
}

/// The problem of inconsistent rows that have not been corrected.
pub(super) fn scrub_problem(scrub: &ScrubReport, name: &str) -> Option<Problem> {
    let rows = unrepaired(scrub);
    let believed = match rows.saturating_sub(scrub.located) {
        _ if rows == 0 => return None,
        0 => String::new(),
        rows => format!(
            "; in {rows} of the rows nothing tells what is wrong: data is believed there, so \
             check the contents"
        ),
    };
    let cut = match scrub.end {
        ScrubEndReport::CutShort => ", and the scrub did not reach the end",
        ScrubEndReport::Compared | ScrubEndReport::Repaired => "",
    };
    Some(Problem {
        kind: "mismatch".to_owned(),
        disk: None,
        what: format!("data and redundancy did not match in {rows} rows of blocks{cut}"),
        since: Some(scrub.at),
        action: format!("correct them (`evenkeel scrub start {name} --repair`){believed}"),
    })
}
