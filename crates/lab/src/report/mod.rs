//! A report: results as one page of HTML, to read, print and pass on.
//!
//! Invariants:
//! - The page is complete by itself. It refers to nothing outside and needs no script.
//! - It is HTML and well-formed XML at once, whatever the texts in the results are.
//! - What is drawn is what the results say, within half a unit of a plot's grid; nothing that is
//!   not a finite number is drawn or written as one.

mod distribution;
mod expected;
mod model;
pub(crate) mod number;
mod page;
mod plot;
mod setup;
mod table;

use crate::judge::Judgement;
use crate::measure::LatencyError;
use crate::results::Record;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Latencies can't be read.
    #[error(
        "the {requests} of {label} of \"{experiment}\" (seed {seed}): {error}; run the experiment \
         again"
    )]
    Latency {
        /// The experiment.
        experiment: String,
        /// The point.
        label: String,
        /// Its seed.
        seed: u64,
        /// Reads or writes.
        requests: &'static str,
        /// What is wrong.
        error: LatencyError,
    },
}

/// The report of one or several experiments, in the order of the results, each shard of which is
/// there once (as after [`merge`](crate::results::merge)), with what was expected of them.
///
/// # Errors
/// If the histogram of a latency is none.
pub fn html(records: &[Record], judgements: &[Judgement<'_>]) -> Result<String, ReportError> {
    let sections = model::sections(records);
    Ok(page::page(&sections, judgements)?.into_string())
}
