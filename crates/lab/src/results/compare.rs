//! Two points side by side.

use super::{COLUMNS, Column, Estimate, Group};

/// A figure of two points.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// Which figure.
    pub column: &'static Column,
    /// Of the first.
    pub base: Estimate,
    /// Of the second.
    pub other: Estimate,
}

impl Comparison {
    /// The second as a part of the first; `None` if the first is zero.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.base.mean != 0.0).then(|| self.other.mean / self.base.mean)
    }

    /// Whether they differ by more than chance would explain, with 95% confidence.
    #[must_use]
    pub fn is_significant(&self) -> bool {
        self.base.differs_from(&self.other)
    }
}

/// Compares two points, figure by figure.
#[must_use]
pub fn compare(base: &Group<'_>, other: &Group<'_>) -> Vec<Comparison> {
    let compare = |column: &'static Column| Comparison {
        column,
        base: base.estimate(column),
        other: other.estimate(column),
    };
    COLUMNS.iter().map(compare).collect()
}
