//! I/O in an interval, for people.

use evenkeel_client::TransfersReport;

use super::rates::{Interval, all, count, mean, quantile};
use crate::size::Size;
use crate::table::Table;

/// How many columns of a histogram are beside each other.
const COLUMNS: usize = 8;

/// A line for each array, and one for each of its members.
pub(super) fn rates(intervals: &[&Interval]) -> String {
    let mut table = Table::new([
        "array, member",
        "reads/s",
        "writes/s",
        "read/s",
        "written/s",
        "read: mean",
        "p50",
        "p99",
        "write: mean",
        "p50",
        "p99",
    ]);
    for interval in intervals {
        table.row(line(interval, interval.name.clone(), &interval.requests));
        for member in &interval.members {
            let name = format!("  {} {}", member.disk, member.path.replace('\0', "\\x"));
            table.row(line(interval, name, &member.io));
        }
    }
    table.text()
}

fn line(interval: &Interval, name: String, rates: &[TransfersReport]) -> Vec<String> {
    let (reads, writes) = (all(rates, "read"), all(rates, "write"));
    let mut cells = vec![name];
    cells.extend([&reads, &writes].map(|rate| format!("{:.0}", interval.per_second(count(rate)))));
    let bytes =
        |rate: &TransfersReport| Size(interval.per_second(rate.bytes).round() as u64).to_string();
    cells.extend([&reads, &writes].map(bytes));
    for rate in [&reads, &writes] {
        let quantile = |share| quantile(rate, &interval.bounds_ns, share);
        cells.extend([mean(rate), quantile(0.5), quantile(0.99)].map(latency));
    }
    cells
}

/// How many took how long: users' requests by kind and size, and the members' I/O.
pub(super) fn histograms(interval: &Interval) -> String {
    let of_users = interval.requests.iter().map(|rate| {
        let sizes = interval.requests.iter().filter(|other| other.op == rate.op).count();
        let size = match rate.up_to_bytes {
            Some(bytes) => format!(" ≤{}", Size(bytes)),
            None if sizes > 1 => " larger".to_owned(),
            None => String::new(),
        };
        (format!("{}{size}", rate.op), rate)
    });
    let of_members = interval.members.iter().flat_map(|member| {
        member.io.iter().map(|rate| (format!("{} {}", member.disk, rate.op), rate))
    });
    let mut texts = Vec::new();
    let users: Vec<_> = of_users.filter(|(_, rate)| count(rate) > 0).collect();
    let members: Vec<_> = of_members.filter(|(_, rate)| count(rate) > 0).collect();
    for (what, columns) in [("requests", users), ("members' I/O", members)] {
        for some in columns.chunks(COLUMNS) {
            let name = &interval.name;
            texts.push(format!("{name}: {what}\n{}", histogram(&interval.bounds_ns, some)));
        }
    }
    texts.join("\n\n")
}

/// A row for each bucket from the first to the last that has any.
fn histogram(bounds_ns: &[u64], columns: &[(String, &TransfersReport)]) -> String {
    let names = columns.iter().map(|(name, _)| name.clone());
    let mut table = Table::new(["took".to_owned()].into_iter().chain(names));
    let of =
        |at: usize| columns.iter().map(move |(_, rate)| rate.buckets.get(at).copied().unwrap_or(0));
    let has_any = |&at: &usize| of(at).any(|count| count > 0);
    let first = (0..=bounds_ns.len()).find(has_any).unwrap_or(0);
    let last = (0..=bounds_ns.len()).rfind(has_any).unwrap_or(0);
    for at in first..=last {
        let took = match bounds_ns.get(at) {
            Some(&bound) => format!("≤ {}", latency(Some(bound as f64))),
            None => "longer".to_owned(),
        };
        table.row([took].into_iter().chain(of(at).map(|count| count.to_string())));
    }
    table.text()
}

/// A latency in nanoseconds.
fn latency(nanos: Option<f64>) -> String {
    match nanos {
        None => "-".to_owned(),
        Some(nanos) if nanos < 1e6 => format!("{:.0} µs", nanos / 1e3),
        Some(nanos) if nanos < 1e7 => format!("{:.1} ms", nanos / 1e6),
        Some(nanos) if nanos < 1e9 => format!("{:.0} ms", nanos / 1e6),
        Some(nanos) => format!("{:.1} s", nanos / 1e9),
    }
}
