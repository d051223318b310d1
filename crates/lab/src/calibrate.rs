//! Finds the load at which drives collect garbage for a given share of the time.
//!
//! The collection that a request causes hardly depends on the rate of requests. So the share is
//! nearly proportional to the load, and a few runs of the baseline find it, as the mean over its
//! seeds. The runs depend only on the experiment: every machine finds the same load.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use rayon::prelude::*;

use crate::experiment::{Calibration, Experiment, GC_DUTY, Labelled, Point, label};
use crate::measure::Figures;
use crate::results::{COLUMNS, Estimate, Record};
use crate::run::RunEnd;
use crate::shard::{ShardError, run_shard};

/// The accepted difference from the wanted share, relative to it.
const TOLERANCE: f64 = 0.05;

/// The same of the nearest of all loads that were tried: where the array is overloaded just above it, say.
const TOLERANCE_AT_LAST: f64 = 0.15;

/// Loads that are tried for one share; more would not help.
const LOADS_MAX: usize = 10;

/// The largest factor between the loads of two successive runs.
const STRIDE_MAX: f64 = 20.0;

/// Why no load was found.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// A run failed.
    #[error("{0}")]
    Shard(#[from] ShardError),
    /// The load can't be set.
    #[error("[calibrate] {key} = {load}: {message}")]
    Load {
        /// The key.
        key: String,
        /// What it was to be.
        load: f64,
        /// Why it can't be.
        message: String,
    },
    /// The drives do not collect at all.
    #[error(
        "[calibrate] at {key} = {load} no drive collected garbage: begin with more, let the run be \
         longer, or age the drives (ssd.overwrites)"
    )]
    Idle {
        /// The key.
        key: String,
        /// What it was.
        load: f64,
    },
    /// No load was right.
    #[error(
        "[calibrate] no load was found at which drives collect for {} of the time: at \
         {key} = {load} it was {}{}",
        percent(*wanted),
        percent(*found),
        if *overloaded { ", and the array could not keep up" } else { "" }
    )]
    NotFound {
        /// The share of the time that was wanted.
        wanted: f64,
        /// The key.
        key: String,
        /// What it was in the end.
        load: f64,
        /// What the share was then.
        found: f64,
        /// Whether the array could not keep up with that load.
        overloaded: bool,
    },
}

fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

/// The points of an experiment with their loads: those of `before`, and where it has none, loads
/// that are found now. `count` counts requests as in [`run_shard`].
///
/// # Errors
/// If no load is found: the point, and why.
pub fn calibrated(
    experiment: &Experiment,
    before: &[Record],
    count: &AtomicU64,
) -> Result<Vec<Labelled>, (String, CalibrateError)> {
    let Some(calibration) = &experiment.calibration else { return Ok(experiment.points.clone()) };
    let search = Search { calibration, base: &experiment.base, count };
    let is_base = |point: &&Labelled| point.variant == calibration.variant;
    let bases: Vec<_> = experiment.points.iter().filter(is_base).collect();
    let known = |base: &Labelled| {
        let record = before.iter().find(|record| record.swept == base.swept)?;
        calibration.load(&record.point)
    };
    let found: Result<Vec<f64>, _> = bases
        .par_iter()
        .map(|base| match known(base) {
            Some(load) => Ok(load),
            None => search.find(base).map_err(|e| (label(None, &base.swept), e)),
        })
        .collect();
    let found = found?;
    let with_load = |labelled: &Labelled| {
        let at = bases.iter().position(|base| base.swept == labelled.swept);
        let load = found[at.expect("every variant has all swept values")];
        let point = search.point(&labelled.point, load);
        let point = point.map_err(|e| (labelled.label(), e))?;
        Ok(Labelled { point, ..labelled.clone() })
    };
    experiment.points.iter().map(with_load).collect()
}

/// See [`calibrated`].
struct Search<'a> {
    calibration: &'a Calibration,
    base: &'a Path,
    count: &'a AtomicU64,
}

impl Search<'_> {
    /// The load at which a point has its wanted share.
    fn find(&self, base: &Labelled) -> Result<f64, CalibrateError> {
        let key = &self.calibration.key;
        let swept = base.swept.iter().find(|(key, _)| key == GC_DUTY);
        let wanted = swept.and_then(|(_, value)| value.as_float()).expect("it is calibrated");
        let mut load = self.calibration.load(&base.point).expect("it was looked at when read");
        let (mut found, mut overloaded, mut tried) = (0.0, false, load);
        // The greatest load that was too little, and the least that was too much.
        let (mut little, mut much) = (0.0, f64::INFINITY);
        let mut nearest: Option<(f64, f64)> = None;
        for _ in 0..LOADS_MAX {
            (found, overloaded) = self.measure(&base.point, load)?;
            tried = load;
            if found == 0.0 {
                return Err(CalibrateError::Idle { key: key.clone(), load });
            }
            let off = (found / wanted - 1.0).abs();
            if off <= TOLERANCE && !overloaded {
                return Ok(load);
            }
            if !overloaded && nearest.is_none_or(|(least, _)| off < least) {
                nearest = Some((off, load));
            }
            if overloaded || found > wanted {
                much = load.min(much);
            } else {
                little = load.max(little);
            }
            let factor = (wanted / found).clamp(1.0 / STRIDE_MAX, STRIDE_MAX);
            // An overloaded drive collects less than it would have to.
            load *= if overloaded { factor.min(0.5) } else { factor };
            if load <= little || load >= much {
                load = (little * much).sqrt();
            }
        }
        match nearest {
            Some((off, load)) if off <= TOLERANCE_AT_LAST => Ok(load),
            Some(_) | None => {
                let (key, load) = (key.clone(), tried);
                Err(CalibrateError::NotFound { wanted, key, load, found, overloaded })
            }
        }
    }

    /// The share of the time in which drives collect under a load, and whether that overloads the
    /// array.
    fn measure(&self, point: &Point, load: f64) -> Result<(f64, bool), CalibrateError> {
        let point = self.point(point, load)?;
        let run = |seed| run_shard(&point, seed, self.base, self.count);
        let runs = (1..=u64::from(point.run.seeds)).into_par_iter().map(run);
        let runs: Vec<Figures> = runs.collect::<Result<_, _>>()?;
        let duty = COLUMNS.iter().find(|column| column.name == "GC duty").expect("it is told");
        let duty = Estimate::of(runs.iter().map(duty.value)).mean;
        Ok((duty, runs.iter().any(|figures| figures.end == RunEnd::Overloaded)))
    }

    fn point(&self, point: &Point, load: f64) -> Result<Point, CalibrateError> {
        self.calibration.with_load(point, load).map_err(|message| {
            let key = self.calibration.key.clone();
            CalibrateError::Load { key, load, message }
        })
    }
}
