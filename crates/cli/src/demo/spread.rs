//! Latencies side by side, as text: quantiles and a histogram.

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use serde_json::Value;

/// The quantiles.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// The bounds of the histogram.
const LIMITS_MS: [f64; 6] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0];

/// How long a bar for all requests is.
const BAR: f64 = 13.0;

/// A line of a table: its name, and a column for each side.
pub(super) fn row(name: &str, columns: impl IntoIterator<Item = String>) -> String {
    let columns = columns.into_iter().map(|column| format!("{column:>22}"));
    format!("{name:<20}{}", columns.collect::<String>()).trim_end().to_owned()
}

/// The number of requests on each side, and quantiles of their latencies. Latencies are in
/// nanoseconds, here and below.
pub(super) fn table(name: &str, sides: &[Vec<u64>]) -> Result<Vec<String>> {
    let sides = sides.iter().map(|side| histogram(side)).collect::<Result<Vec<_>>>()?;
    let mut lines = vec![row(name, sides.iter().map(|side| side.len().to_string()))];
    lines.extend(QUANTILES.map(|(name, quantile)| {
        let ms = |side: &Histogram<u64>| match side.len() {
            0 => "-".to_owned(),
            _ => format!("{:.2} ms", side.value_at_quantile(quantile) as f64 / 1e6),
        };
        row(&format!("  {name}"), sides.iter().map(ms))
    }));
    Ok(lines)
}

/// A histogram of the latencies of each side, with bars.
pub(super) fn spread(sides: &[Vec<u64>]) -> Vec<String> {
    let shares = sides.iter().map(|side| {
        let mut counts = [0; LIMITS_MS.len() + 1];
        side.iter().for_each(|&nanos| {
            counts[LIMITS_MS.partition_point(|ms| nanos as f64 > ms * 1e6)] += 1;
        });
        let sum: u64 = counts.iter().sum();
        counts.map(|count| count as f64 / sum.max(1) as f64)
    });
    let shares: Vec<[f64; LIMITS_MS.len() + 1]> = shares.collect();
    let line = |range: usize| {
        let name = match (LIMITS_MS.get(range), range.checked_sub(1)) {
            (Some(to), None) => format!("  up to {to} ms"),
            (Some(to), Some(before)) => format!("  {} to {to} ms", LIMITS_MS[before]),
            (None, _) => format!("  more than {} ms", LIMITS_MS[range - 1]),
        };
        let bar = |share: f64| "#".repeat((share * BAR).round() as usize);
        let column = |share: f64| format!("{:>6.2} % {:<13}", 100.0 * share, bar(share));
        row(&name, shares.iter().map(|side| column(side[range])))
    };
    (0..=LIMITS_MS.len()).map(line).collect()
}

/// Quantiles for programs.
pub(super) fn json(nanos: &[u64]) -> Result<Value> {
    let histogram = histogram(nanos)?;
    let quantiles =
        QUANTILES.map(|(name, at)| (name.to_owned(), histogram.value_at_quantile(at).into()));
    let count = ("count".to_owned(), histogram.len().into());
    Ok(Value::Object(quantiles.into_iter().chain([count]).collect()))
}

fn histogram(nanos: &[u64]) -> Result<Histogram<u64>> {
    let mut histogram = Histogram::new(3).map_err(|e| anyhow!("a histogram: {e:?}"))?;
    for &nanos in nanos {
        histogram.record(nanos).map_err(|e| anyhow!("a histogram: {e:?}"))?;
    }
    Ok(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_told_side_by_side() {
        let sides = [vec![500_000, 2_000_000, 2_500_000, 400_000_000], vec![]];
        let table = table("reads", &sides).expect("numbers");
        let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(columns(&table[0]), ["reads", "4", "0"]);
        assert_eq!(columns(&table[1]), ["p50", "2.00", "ms", "-"]);
        assert_eq!(table[0].len(), table[1].len(), "{table:?}");
        let spread = spread(&sides);
        assert_eq!(spread.len(), LIMITS_MS.len() + 1);
        assert!(spread[0].starts_with("  up to 1 ms         25.00 % ###"), "{}", spread[0]);
        assert!(spread[1].contains("50.00 % #######"), "{}", spread[1]);
        assert!(spread[6].starts_with("  more than 300 ms"), "{}", spread[6]);
    }
}
