//! Validation of the model against independent references: closed forms, and the output of other
//! programs in their own configuration. No constant of the model is fitted to any of them.

mod cleaning;
mod disksim;
pub mod formulas;
mod mqsim;
mod pts;
mod queueing;
mod row;
mod workload;

pub use cleaning::{Depth, skewed, uniform};
pub use disksim::{with_gc, without_gc};
pub use mqsim::mqsim;
pub use pts::saturation;
pub use queueing::{md1, saturated};
pub use row::{Row, Verdict};

/// A group of comparisons.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name, for choosing it.
    pub name: &'static str,
    /// Makes the comparisons.
    pub run: fn(Depth) -> Vec<Row>,
}

/// All groups.
pub const SECTIONS: &[Section] = &[
    Section { name: "uniform", run: uniform },
    Section { name: "skewed", run: skewed },
    Section { name: "saturated", run: saturated },
    Section { name: "md1", run: md1 },
    Section { name: "disksim", run: without_gc },
    Section { name: "disksim-gc", run: with_gc },
    Section { name: "mqsim", run: mqsim },
    Section { name: "pts", run: saturation },
];
