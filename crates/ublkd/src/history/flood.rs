//! Keeps many events of one kind from pushing all others out of a history.

use std::collections::BTreeMap;

use super::{COMMAND, What};

/// How many entries of one kind are written in [`PERIOD`].
const MOST: u64 = 100;

/// In seconds.
const PERIOD: u64 = 3600;

/// What was let through, by kind.
#[derive(Debug, Default)]
pub(super) struct Flood(BTreeMap<String, Period>);

#[derive(Debug)]
struct Period {
    since: u64,
    entries: u64,
}

impl Period {
    /// What says how many were left out, if some were.
    fn left_out(&self, kind: &str) -> Option<What> {
        let more = self.entries.checked_sub(MOST).filter(|&more| more > 0)?;
        Some(What::of_array(kind, format!("and {more} more of this kind, which are left out here")))
    }
}

impl Flood {
    /// What to write at `now`, in seconds, as something happened. Commands always are.
    pub(super) fn pass(&mut self, what: What, now: u64) -> Vec<What> {
        if what.kind == COMMAND {
            return vec![what];
        }
        let mut written = Vec::new();
        let fresh = Period { since: now, entries: 0 };
        let period = self.0.entry(what.kind.clone()).or_insert(fresh);
        // A clock that was set back begins anew, too.
        if now.checked_sub(period.since).is_none_or(|age| age >= PERIOD) {
            written.extend(period.left_out(&what.kind));
            *period = Period { since: now, entries: 0 };
        }
        period.entries += 1;
        if period.entries <= MOST {
            written.push(what);
        }
        written
    }

    /// What says how many were left out, at the end.
    pub(super) fn rest(&self) -> Vec<What> {
        self.0.iter().filter_map(|(kind, period)| period.left_out(kind)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_of_a_kind_are_counted() {
        let mut flood = Flood::default();
        let mut pass = |kind: &str, now| flood.pass(What::of_array(kind, "it"), now).len();
        let written: usize = (0..1000).map(|second| pass("mismatch", second)).sum();
        assert_eq!(written, 100);
        assert_eq!(pass("started", 1000), 1);
        assert_eq!((0..1000).map(|_| pass(COMMAND, 1000)).sum::<usize>(), 1000);
        assert_eq!(pass("mismatch", PERIOD), 2);
        assert!(flood.rest().is_empty());
        for _ in 0..110 {
            flood.pass(What::of_array("mismatch", "it"), PERIOD);
        }
        assert_eq!(flood.rest()[0].text, "and 11 more of this kind, which are left out here");
    }
}
