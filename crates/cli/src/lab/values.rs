//! Figures for people.

use lab::results::{Estimate, Unit};

use crate::size::Size;

/// A figure and its unit.
pub(crate) fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Microseconds => time(value),
        Unit::Seconds => time(value * 1e6),
        Unit::BytesPerSecond => format!("{}/s", Size(value as u64)),
        Unit::PerSecond | Unit::Count => count(value),
        Unit::Share => format!("{:.2}%", 100.0 * value),
        Unit::Factor => format!("{value:.3}"),
    }
}

/// A mean over seeds, with half its confidence interval where there is one.
pub(super) fn estimate(estimate: &Estimate, unit: Unit) -> String {
    let Estimate { mean, half_width, .. } = *estimate;
    let mean_text = value(mean, unit);
    if !half_width.is_finite() || mean == 0.0 {
        return mean_text;
    }
    format!("{mean_text} ±{:.1}%", 100.0 * half_width / mean.abs())
}

fn time(us: f64) -> String {
    match us {
        0.0..1e3 => format!("{} µs", digits(us)),
        1e3..1e6 => format!("{} ms", digits(us / 1e3)),
        _ => format!("{} s", digits(us / 1e6)),
    }
}

fn count(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 { digits(value) } else { format!("{value:.0}") }
}

/// With three significant digits.
fn digits(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
