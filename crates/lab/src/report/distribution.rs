//! The latencies of a point, over all of its seeds.

use hdrhistogram::Histogram;

use super::ReportError;
use super::model::Point;
use crate::measure::Latency;
use crate::results::Record;

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requests {
    Reads,
    Writes,
}

impl Requests {
    pub(super) const BOTH: [Self; 2] = [Self::Reads, Self::Writes];

    /// What they are called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
        }
    }

    /// Those of a result.
    pub(super) fn of(self, record: &Record) -> &Latency {
        match self {
            Self::Reads => &record.figures.reads,
            Self::Writes => &record.figures.writes,
        }
    }
}

/// The distribution of latencies. There is at least one.
#[derive(Clone, Debug)]
pub(super) struct Distribution {
    histogram: Histogram<u64>,
}

impl Distribution {
    /// Over all seeds of a point; `None` without such requests.
    ///
    /// # Errors
    /// If a histogram is invalid.
    pub(super) fn of(point: &Point<'_>, requests: Requests) -> Result<Option<Self>, ReportError> {
        let mut all = Histogram::new(3).expect("three digits are possible");
        for record in &point.group.records {
            let one = requests.of(record).histogram().map_err(|error| ReportError::Latency {
                experiment: record.experiment.clone(),
                label: point.label.clone(),
                seed: record.seed,
                requests: requests.name(),
                error,
            })?;
            all.add(one).expect("it grows as needed");
        }
        Ok((!all.is_empty()).then_some(Self { histogram: all }))
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency, in microseconds, that this share of the requests stays within.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        self.histogram.value_at_quantile(share) as f64 / 1e3
    }

    /// The shortest and the longest, in microseconds.
    pub(super) fn range(&self) -> (f64, f64) {
        (self.histogram.min() as f64 / 1e3, self.histogram.max() as f64 / 1e3)
    }

    /// Each latency that occurs, in microseconds, with the share of requests that stay within it.
    pub(super) fn steps(&self) -> impl Iterator<Item = (f64, f64)> {
        let all = self.count() as f64;
        let mut within = 0;
        self.histogram.iter_recorded().map(move |step| {
            within = u64::saturating_add(within, step.count_since_last_iteration());
            (step.value_iterated_to() as f64 / 1e3, within as f64 / all)
        })
    }
}
