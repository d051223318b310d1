//! The result of the last scrub, as plain data.

use raidcore::meta::{ScrubEnd, ScrubRecord};
use serde::{Deserialize, Serialize};

use super::problem::Problem;

/// How a scrub ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Inconsistent rows; a row is one block of each member.
    pub mismatches: u64,
    /// Of these, rows in which redundancy tells which blocks are wrong.
    pub located: u64,
    /// How it ended.
    pub end: ScrubEndReport,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// How a scrub ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubEndReport {
    /// It compared everything and changed nothing.
    Compared,
    /// It corrected what it found: located blocks from redundancy, in the other rows redundancy
    /// from the data.
    Repaired,
    /// It is under way or was stopped: the findings may be incomplete.
    CutShort,
}

impl ScrubReport {
    pub(super) fn of(scrub: &ScrubRecord) -> Self {
        Self {
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
    pub(super) fn and(self, other: Self) -> Self {
        let open = |scrub: &Self| scrub.end != ScrubEndReport::Repaired;
        Self {
            mismatches: self.mismatches + other.mismatches,
            located: self.located + other.located,
            end: match (self.end, other.end) {
                _ if !open(&self) && !open(&other) => ScrubEndReport::Repaired,
                (ScrubEndReport::CutShort, _) | (_, ScrubEndReport::CutShort) => {
                    ScrubEndReport::CutShort
                }
                _ => ScrubEndReport::Compared,
            },
            at: self.at.max(other.at),
        }
    }

    /// How many inconsistent rows have not been corrected.
    fn unrepaired(&self) -> u64 {
        match self.end {
            ScrubEndReport::Repaired => 0,
            ScrubEndReport::Compared | ScrubEndReport::CutShort => self.mismatches,
        }
    }

    /// The problem of inconsistent rows that have not been corrected.
    pub(super) fn problem(&self, name: &str) -> Option<Problem> {
        let rows = self.unrepaired();
        let believed = match rows.saturating_sub(self.located) {
            _ if rows == 0 => return None,
            0 => String::new(),
            rows => format!(
                "; in {rows} of the rows nothing tells what is wrong: data is believed there, so \
                 check the contents"
            ),
        };
        let cut = match self.end {
            ScrubEndReport::CutShort => ", and the scrub did not reach the end",
            ScrubEndReport::Compared | ScrubEndReport::Repaired => "",
        };
        Some(Problem {
            kind: "mismatch".to_owned(),
            disk: None,
            what: format!("data and redundancy did not match in {rows} rows of blocks{cut}"),
            since: Some(self.at),
            action: format!("correct them (`evenkeel scrub start {name} --repair`){believed}"),
        })
    }
}
