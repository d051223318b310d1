//! What the last scrub found, as plain data.

use raidcore::meta::{ScrubEnd, ScrubRecord};
use serde::{Deserialize, Serialize};

use super::problem::Problem;

/// How a scrub ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Rows that did not match; a row is one block of each member.
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
    /// It has compared everything, and left it as it was.
    Compared,
    /// What it found was corrected: located blocks from redundancy, in the other rows redundancy from
    /// the data.
    Repaired,
    /// It is under way, or did not reach the end: what it found may not be all.
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

    /// How many rows are known not to match and were not corrected since.
    fn unrepaired(&self) -> u64 {
        match self.end {
            ScrubEndReport::Repaired => 0,
            ScrubEndReport::Compared | ScrubEndReport::CutShort => self.mismatches,
        }
    }

    /// What it found, if that was not corrected since.
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
            what: format!("data and redundancy did not match in {rows} rows of blocks{cut}"),
            since: Some(self.at),
            action: format!("correct them (`evenkeel scrub start {name} --repair`){believed}"),
        })
    }
}
