//! The results of the demonstration, as a table or as JSON.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::gc::Collection;
use super::load::Figures;
use crate::size::Size;

/// The figures of all phases.
#[derive(Default)]
pub(super) struct Summary {
    phases: Vec<(&'static str, Figures)>,
    checks: Vec<(String, Figures)>,
    rebuild: Option<(u64, Duration)>,
    pub(super) gc: Collection,
}

impl Summary {
    /// A load of reads and writes.
    pub(super) fn phase(&mut self, name: &'static str, figures: Figures) {
        self.phases.push((name, figures));
    }

    /// Everything was written or checked.
    pub(super) fn sweep(&mut self, name: impl Into<String>, figures: Figures) {
        self.checks.push((name.into(), figures));
    }

    /// This many bytes of a member were rebuilt in this time.
    pub(super) fn rebuild(&mut self, bytes: u64, time: Duration) {
        self.rebuild = Some((bytes, time));
    }

    pub(super) fn text(&self) -> Result<String> {
        let mut lines = vec![format!(
            "{:<12}{:>11}{:>9}   {:>27}   {:>27}",
            "", "throughput", "req/s", "reads: p50 / p99 / max ms", "writes: p50 / p99 / max ms"
        )];
        lines.extend(self.phases.iter().map(|(name, figures)| {
            let rate = format!("{}/s", Size(figures.bytes_per_second()));
            format!(
                "{name:<12}{rate:>11}{:>9}   {:>27}   {:>27}",
                figures.requests_per_second(),
                latencies(&figures.reads),
                latencies(&figures.writes)
            )
        }));
        lines.push(String::new());
        lines.extend(self.checks.iter().map(|(name, figures)| {
            let rate = Size(figures.bytes_per_second());
            format!("{name:<34}{:>9} at {rate}/s", Size(figures.bytes).to_string())
        }));
        lines.extend(self.rebuild.map(|(bytes, time)| {
            let rate = Size(rate(bytes, time));
            let seconds = time.as_secs_f64();
            format!(
                "{:<34}{:>9} at {rate}/s, in {seconds:.1} s under load",
                "rebuilt",
                Size(bytes).to_string()
            )
        }));
        lines.push(String::new());
        lines.extend(self.gc.text()?);
        Ok(lines.join("\n"))
    }

    pub(super) fn json(&self) -> Result<Value> {
        let phase = |(name, figures): &(&str, Figures)| {
            json!({
                "name": name,
                "bytes_per_second": figures.bytes_per_second(),
                "requests_per_second": figures.requests_per_second(),
                "read_ns": nanos(&figures.reads),
                "write_ns": nanos(&figures.writes),
            })
        };
        let check = |(name, figures): &(String, Figures)| {
            json!({
                "name": name,
                "bytes": figures.bytes,
                "bytes_per_second": figures.bytes_per_second(),
            })
        };
        let rebuild = self.rebuild.map(|(bytes, time)| {
            let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            json!({ "bytes": bytes, "ms": ms, "bytes_per_second": rate(bytes, time) })
        });
        Ok(json!({
            "phases": self.phases.iter().map(phase).collect::<Value>(),
            "sweeps": self.checks.iter().map(check).collect::<Value>(),
            "rebuild": rebuild,
            "gc": self.gc.json()?,
        }))
    }
}

fn latencies(histogram: &Histogram<u64>) -> String {
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let quantile = |q| ms(histogram.value_at_quantile(q));
    format!("{:.2} / {:.2} / {:.1}", quantile(0.5), quantile(0.99), ms(histogram.max()))
}

fn nanos(histogram: &Histogram<u64>) -> Value {
    json!({
        "count": histogram.len(),
        "p50": histogram.value_at_quantile(0.5),
        "p99": histogram.value_at_quantile(0.99),
        "max": histogram.max(),
    })
}

fn rate(bytes: u64, time: Duration) -> u64 {
    let per_second = u128::from(bytes) * 1_000_000_000 / time.as_nanos().max(1);
    u64::try_from(per_second).unwrap_or(u64::MAX)
}
