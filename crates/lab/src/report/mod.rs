//! A report: results as one page of HTML, to read, print and pass on.
//!
//! Invariants:
//! - The page is self-contained. It refers to nothing outside and needs no script.
//! - It is HTML and well-formed XML at once, whatever the texts in the results are.
//! - Plots show the results within half a unit of their grid. Only finite numbers are drawn or
//!   written.

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
    /// A histogram is invalid.
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

/// The report of one or several experiments, in the order of the results, with their expectations.
/// Each shard has to be there once (as after [`merge`](crate::results::merge)).
///
/// # Errors
/// If the histogram of a latency is invalid.
pub fn html(records: &[Record], judgements: &[Judgement<'_>]) -> Result<String, ReportError> {
    let sections = model::sections(records);
    Ok(page::page(None, &sections, judgements)?.into_string())
}

/// What a page says before its results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// Its heading.
    pub heading: String,
    /// What is to be known.
    pub paragraphs: Vec<String>,
    /// A command to type, if there is one.
    pub command: Option<String>,
    /// What is unsure.
    pub doubts: Vec<String>,
}

/// A report that begins with a lead.
///
/// # Errors
/// As [`html`].
pub fn html_with(lead: &Lead, records: &[Record]) -> Result<String, ReportError> {
    let sections = model::sections(records);
    Ok(page::page(Some(lead), &sections, &[])?.into_string())
}
