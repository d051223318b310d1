//! The effect of the members' garbage collection on requests: each request is counted among those
//! during which some member collected, or those during which none did, by the array's own record.

use anyhow::Result;
use evenkeel_client::{FlashReport, GcInterval, MemberReport};
use serde_json::{Value, json};

use super::load::Span;
use super::spread::{json as quantiles, row, spread, table};

/// Requests, divided by whether a member collected garbage.
#[derive(Default)]
pub(super) struct Collection {
    /// While one did, in nanoseconds: reads and writes.
    during: Latencies,
    /// While none did.
    without: Latencies,
    /// The members by number, as they were at the end.
    members: Vec<(u8, FlashReport)>,
}

#[derive(Default)]
struct Latencies {
    reads: Vec<u64>,
    writes: Vec<u64>,
}

impl Collection {
    /// Adds requests, and when each member collected meanwhile.
    pub(super) fn add(&mut self, spans: &[Span], logs: &[Vec<GcInterval>]) {
        let stretches = union(logs);
        for span in spans {
            let next = stretches.partition_point(|stretch| stretch.ended <= span.began);
            let met = stretches.get(next).is_some_and(|stretch| stretch.began < span.ended);
            let side = if met { &mut self.during } else { &mut self.without };
            let latencies = if span.read { &mut side.reads } else { &mut side.writes };
            latencies.push(span.nanos());
        }
    }

    /// Adds the members' state.
    pub(super) fn members(&mut self, members: Vec<MemberReport>) {
        let drives = members.into_iter().filter_map(|m| Some((m.member, m.flash?)));
        self.members = drives.collect();
    }

    pub(super) fn text(&self) -> Result<Vec<String>> {
        let mut lines = vec![
            "The members are modelled SSDs that collect garbage. Requests during which".to_owned(),
            row("", ["some member collected", "none did"].map(str::to_owned)),
        ];
        let sides = [&self.during, &self.without];
        lines.extend(table("reads", &sides.map(|side| side.reads.clone()))?);
        lines.extend(table("writes", &sides.map(|side| side.writes.clone()))?);
        lines.extend(["".to_owned(), "Of all requests it took so many".to_owned()]);
        lines.extend(spread(&sides.map(|side| [&side.reads[..], &side.writes].concat())));
        lines.push(String::new());
        lines.extend(self.members.iter().map(|(number, report)| {
            let drive = &report.drive;
            format!(
                "member {number} ({}): collected {:>2.0} % of the time, {} times, for up to {:.0} ms; \
                 {:.2} pages programmed for each written",
                drive.profile,
                100.0 * drive.gc_ns as f64 / drive.open_ns.max(1) as f64,
                drive.gc_stretches,
                drive.gc_longest_ns as f64 / 1e6,
                drive.waf
            )
        }));
        Ok(lines)
    }

    pub(super) fn json(&self) -> Result<Value> {
        let side = |latencies: &Latencies| -> Result<Value> {
            let (reads, writes) = (quantiles(&latencies.reads)?, quantiles(&latencies.writes)?);
            Ok(json!({ "read_ns": reads, "write_ns": writes }))
        };
        let members = self.members.iter();
        let members = members.map(|(number, report)| json!({ "member": number, "flash": report }));
        Ok(json!({
            "some_member_collected": side(&self.during)?,
            "none_did": side(&self.without)?,
            "members": members.collect::<Value>(),
        }))
    }
}

/// Stretches of time in which at least one member collected, in order.
fn union(logs: &[Vec<GcInterval>]) -> Vec<GcInterval> {
    let mut all: Vec<GcInterval> = logs.iter().flatten().copied().collect();
    all.sort_by_key(|stretch| stretch.began);
    let mut union: Vec<GcInterval> = Vec::with_capacity(all.len());
    for stretch in all {
        match union.last_mut().filter(|last| stretch.began <= last.ended) {
            Some(last) => last.ended = last.ended.max(stretch.ended),
            None => union.push(stretch),
        }
    }
    union
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_belongs_to_what_happened_while_it_was_under_way() {
        let stretch = |began, ended| GcInterval { began, ended };
        let logs = [vec![stretch(10, 20), stretch(40, 50)], vec![stretch(15, 30), stretch(50, 55)]];
        assert_eq!(union(&logs), [stretch(10, 30), stretch(40, 55)]);
        let mut collection = Collection::default();
        let span = |began, ended| Span { read: true, began, ended };
        let met = [(5, 11), (12, 13), (29, 45), (5, 60), (54, 99)];
        let calm = [(1, 10), (30, 40), (31, 39), (55, 56)];
        let spans: Vec<Span> = met.iter().chain(&calm).map(|&(b, e)| span(b, e)).collect();
        collection.add(&spans, &logs);
        let lengths = |spans: &[(u64, u64)]| spans.iter().map(|(b, e)| e - b).collect::<Vec<_>>();
        assert_eq!(collection.during.reads, lengths(&met));
        assert_eq!(collection.without.reads, lengths(&calm));
    }
}
