//! Latencies: a histogram, and figures from it.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// The quantiles in results, and their names.
pub const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// Latencies of one kind of request. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many requests.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// Their standard deviation.
    pub deviation_us: f64,
    /// Their quantiles, as [`QUANTILES`] has them, within 0.1%.
    pub quantiles_us: [f64; QUANTILES.len()],
    /// The longest, within 0.1%.
    pub max_us: f64,
    /// All of them in nanoseconds, with three significant digits: an HdrHistogram in the encoding
    /// that is the same in all languages (V2, deflated, in base64). Empty if there are none.
    pub histogram: String,
}

/// An invalid histogram.
#[derive(Debug, thiserror::Error)]
#[error("this is no histogram of latencies (an HdrHistogram, deflated, in base64): {0}")]
pub struct LatencyError(String);

impl Latency {
    /// The histogram, in nanoseconds.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn histogram(&self) -> Result<Histogram<u64>, LatencyError> {
        if self.histogram.is_empty() {
            return Ok(empty());
        }
        let bytes =
            BASE64_STANDARD.decode(&self.histogram).map_err(|e| LatencyError(e.to_string()))?;
        Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|e| LatencyError(e.to_string()))
    }
}

/// Records latencies.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    histogram: Histogram<u64>,
    sum: u128,
    squares: f64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { histogram: empty(), sum: 0, squares: 0.0 }
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are possible")
}

impl Recorder {
    pub(super) fn add(&mut self, latency: Duration) {
        let nanos = latency.as_nanos().min(u128::from(u64::MAX / 2)) as u64;
        self.histogram.record(nanos).expect("it grows as needed");
        self.sum += u128::from(nanos);
        self.squares += (nanos as f64).powi(2);
    }

    /// Both recorders as one.
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut histogram = self.histogram.clone();
        histogram.add(&other.histogram).expect("it grows as needed");
        Self { histogram, sum: self.sum + other.sum, squares: self.squares + other.squares }
    }

    pub(super) fn latency(&self) -> Latency {
        let count = self.histogram.len();
        if count == 0 {
            return Latency {
                count: 0,
                mean_us: 0.0,
                deviation_us: 0.0,
                quantiles_us: [0.0; QUANTILES.len()],
                max_us: 0.0,
                histogram: String::new(),
            };
        }
        let mean = self.sum as f64 / count as f64;
        let variance = (self.squares / count as f64 - mean * mean).max(0.0);
        let us = |nanos: u64| nanos as f64 / 1e3;
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.histogram, &mut bytes)
            .expect("a histogram of latencies is written to memory");
        Latency {
            count,
            mean_us: mean / 1e3,
            deviation_us: variance.sqrt() / 1e3,
            quantiles_us: QUANTILES.map(|(_, q)| us(self.histogram.value_at_quantile(q))),
            max_us: us(self.histogram.max()),
            histogram: BASE64_STANDARD.encode(bytes),
        }
    }
}
