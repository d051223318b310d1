//! What makes an array better than another.

use serde::Serialize;

use crate::measure::Figures;
use crate::results::{COLUMNS, Column};

/// The latencies that count, by their columns: each as much as the others.
pub const FIGURES: [&str; 6] =
    ["read mean", "read p99", "read p99.9", "write mean", "write p99", "write p99.9"];

/// What an array does to flash: bytes programmed per byte that users write.
pub const WEAR: &str = "total WAF";

/// How much wear counts beside latencies: flash that is written twice as much has to make latencies shorter by
/// the square root of two.
const WEAR_COUNTS: f64 = 0.5;

/// An array beside another one, in one run each under the same requests. Below 1 is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// The geometric mean of the ratios of the latencies that count.
    pub latency: f64,
    /// The ratio of what flash is written.
    pub wear: f64,
    /// Both together: what is compared.
    pub cost: f64,
}

impl Beside {
    /// That of an array's figures beside those of another. Requests of a kind that there are none of don't
    /// count.
    #[must_use]
    pub fn of(figures: &Figures, other: &Figures) -> Self {
        let ratio = |name: &str| {
            let value = column(name).value;
            let (a, b) = (value(figures), value(other));
            (a > 0.0 && b > 0.0).then(|| a / b)
        };
        let logs: Vec<f64> = FIGURES.iter().filter_map(|name| ratio(name)).map(libm::log).collect();
        let latency = libm::exp(logs.iter().sum::<f64>() / logs.len().max(1) as f64);
        let wear = ratio(WEAR).unwrap_or(1.0);
        Self { latency, wear, cost: latency * libm::pow(wear, WEAR_COUNTS) }
    }
}

/// The column of that name.
pub(super) fn column(name: &str) -> &'static Column {
    COLUMNS.iter().find(|column| column.name == name).expect("a column that all results have")
}
