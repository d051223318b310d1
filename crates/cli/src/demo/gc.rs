//! What the members' garbage collection does to requests: each request is put in with those during
//! which some member collected, or with those during which none did, by the array's own record.

use anyhow::{Result, anyhow};
use flashsim::real::GcInterval;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use ublkd::control::MemberReport;
use ublkd::host::FlashReport;

use super::load::Span;

/// Requests told apart by whether a member collected garbage.
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
    /// Takes in requests, and when each member collected meanwhile.
    pub(super) fn add(&mut self, spans: &[Span], logs: &[Vec<GcInterval>]) {
        let stretches = union(logs);
        for span in spans {
            let next = stretches.partition_point(|stretch| stretch.ended <= span.began);
            let met = stretches.get(next).is_some_and(|stretch| stretch.began < span.ended);
            let side = if met { &mut self.during } else { &mut self.without };
            let latencies = if span.read { &mut side.reads } else { &mut side.writes };
            latencies.push(span.ended - span.began);
        }
    }

    /// Takes in how the members are.
    pub(super) fn members(&mut self, members: Vec<MemberReport>) {
        let drives = members.into_iter().filter_map(|m| Some((m.member, m.flash?)));
        self.members = drives.collect();
    }

    pub(super) fn text(&self) -> Result<Vec<String>> {
        let mut lines = vec![
            "The members are modelled SSDs that collect garbage. Requests during which".to_owned(),
            format!("{:<20}{:>22}{:>22}", "", "some member collected", "none did"),
        ];
        for (name, side) in [("reads", 0), ("writes", 1)] {
            let of = |latencies: &Latencies| {
                let all = if side == 0 { &latencies.reads } else { &latencies.writes };
                histogram(all)
            };
            let (during, without) = (of(&self.during)?, of(&self.without)?);
            lines.push(format!("{name:<20}{:>22}{:>22}", during.len(), without.len()));
            for (name, quantile) in QUANTILES {
                let ms = |histogram: &Histogram<u64>| match histogram.len() {
                    0 => "-".to_owned(),
                    _ => format!("{:.2} ms", histogram.value_at_quantile(quantile) as f64 / 1e6),
                };
                lines.push(format!("  {name:<18}{:>22}{:>22}", ms(&during), ms(&without)));
            }
        }
        lines.extend(["".to_owned(), "Of all requests it took so many".to_owned()]);
        lines.extend(self.spread());
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

    /// How many of the requests on either side took how long, with bars.
    fn spread(&self) -> impl Iterator<Item = String> {
        let shares = [&self.during, &self.without].map(|side| {
            let all = side.reads.iter().chain(&side.writes);
            let mut counts = [0; LIMITS_MS.len() + 1];
            all.for_each(|&nanos| {
                counts[LIMITS_MS.partition_point(|ms| nanos as f64 > ms * 1e6)] += 1;
            });
            let sum: u64 = counts.iter().sum();
            counts.map(|count| count as f64 / sum.max(1) as f64)
        });
        (0..=LIMITS_MS.len()).map(move |range| {
            let name = match (LIMITS_MS.get(range), range.checked_sub(1)) {
                (Some(to), None) => format!("up to {to} ms"),
                (Some(to), Some(before)) => format!("{} to {to} ms", LIMITS_MS[before]),
                (None, _) => format!("more than {} ms", LIMITS_MS[range - 1]),
            };
            let bar = |share: f64| "#".repeat((share * BAR).round() as usize);
            let [during, without] = shares.map(|shares| shares[range]);
            let column = |share: f64| format!("{:>6.2} % {:<13}", 100.0 * share, bar(share));
            format!("  {name:<18}{:>22}{:>22}", column(during), column(without))
                .trim_end()
                .to_owned()
        })
    }

    pub(super) fn json(&self) -> Result<Value> {
        let side = |latencies: &Latencies| -> Result<Value> {
            let nanos = |all| histogram(all).map(|histogram| quantiles(&histogram));
            Ok(
                json!({ "read_ns": nanos(&latencies.reads)?, "write_ns": nanos(&latencies.writes)? }),
            )
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

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// Where the ranges of latencies end.
const LIMITS_MS: [f64; 6] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0];

/// How long a bar for all requests is.
const BAR: f64 = 13.0;

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

fn histogram(nanos: &[u64]) -> Result<Histogram<u64>> {
    let mut histogram = Histogram::new(3).map_err(|e| anyhow!("a histogram: {e:?}"))?;
    for &nanos in nanos {
        histogram.record(nanos).map_err(|e| anyhow!("a histogram: {e:?}"))?;
    }
    Ok(histogram)
}

fn quantiles(histogram: &Histogram<u64>) -> Value {
    let quantiles =
        QUANTILES.map(|(name, at)| (name.to_owned(), histogram.value_at_quantile(at).into()));
    let count = ("count".to_owned(), histogram.len().into());
    Value::Object(quantiles.into_iter().chain([count]).collect())
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
