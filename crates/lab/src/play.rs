//! A planned SWAN array in simulation: does its front keep up, and does no user wait for cleaning?
//!
//! It includes what the model leaves out: SSDs with buffers and garbage collection of their own,
//! the log's summaries and checkpoints, and parity. As in the model, users write blocks of 4 KiB at
//! random, in an open loop.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use raidcore::meta::Consistency;
use raidcore::units::BLOCK_BYTES;
use raidlog::Layout;
use toml::{Table, Value};

use crate::experiment::Point;
use crate::measure::Figures;
use crate::plan::Swan;
use crate::run::{RunEnd, RunSpec};
use crate::shard::{ShardError, run_shard};
use crate::system::{DriveError, DriveSpec, LogSpec, Use};
use crate::units::Bytes;

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub struct Play {
    /// The SSDs. The volume on them is filled, and then overwritten once.
    pub ssd: DriveSpec,
    /// A segment's part on each SSD.
    pub segment: Bytes,
    /// The rate of users' writes, in bytes a second.
    pub throughput: f64,
    /// How long to measure, in seconds of virtual time; by default until the log's room has been
    /// written once.
    pub seconds: Option<f64>,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// Why a plan can't be simulated.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The planned array is too large.
    #[error("there is no array of {groups} groups of {members} members: at most 32 of 32 each")]
    TooLarge {
        /// Groups that the plan asks for.
        groups: u32,
        /// Members of each.
        members: u32,
    },
    /// There are no such SSDs.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The array can't be run.
    #[error(transparent)]
    Shard(#[from] ShardError),
}

/// The outcome of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All writes were accepted in time, and no user waited for cleaning.
    Keeps,
    /// Users' writes had to wait for cleaning.
    Stalls,
    /// No user waited for cleaning, but less was written than wanted.
    Slow,
    /// Not every group has been at the front: the run was too short.
    Short,
}

/// The share of the offered rate that has to be completed: the last requests take their time after
/// the load has ended.
const ENOUGH: f64 = 0.98;

/// How many requests the array takes at a time.
const QUEUE_DEPTH: u16 = 256;

impl Verdict {
    /// The outcome, from the figures of an array of `groups` groups.
    #[must_use]
    pub fn of(figures: &Figures, groups: u32) -> Self {
        let (stalls, rotations) =
            figures.log.as_ref().map_or((0, 0), |log| (log.stalls, log.rotations));
        let kept = figures.requests_per_second >= ENOUGH * figures.offered_per_second;
        match figures.end {
            _ if stalls > 0 => Self::Stalls,
            RunEnd::Overloaded => Self::Slow,
            RunEnd::Done | RunEnd::Exhausted if !kept => Self::Slow,
            RunEnd::Done | RunEnd::Exhausted if rotations < u64::from(groups) => Self::Short,
            RunEnd::Done | RunEnd::Exhausted => Self::Keeps,
        }
    }
}

impl Play {
    /// Simulates an array; `count` counts requests that have ended.
    ///
    /// # Errors
    /// If such an array is impossible.
    pub fn run(&self, swan: &Swan, count: &AtomicU64) -> Result<Figures, PlayError> {
        let (groups, members) = (swan.groups, swan.members);
        let layout = swan.layout().ok_or(PlayError::TooLarge { groups, members })?;
        Ok(run_shard(&self.point(swan, layout)?, self.seed, Path::new(""), count)?)
    }

    fn point(&self, swan: &Swan, layout: Layout) -> Result<Point, PlayError> {
        let profile = self.ssd.profile(Path::new(""))?;
        let sizes = profile.sizes();
        let data = u64::from(swan.members - swan.parity);
        let log = u64::from(sizes.logical_pages)
            * u64::from(sizes.page_bytes)
            * data
            * u64::from(swan.groups);
        let block = BLOCK_BYTES as f64;
        let measured = self.seconds.map_or(log as f64, |seconds| seconds * self.throughput);
        let mut spec = LogSpec::new(layout);
        spec.segment = Bytes(self.segment.0 * data);
        spec.spare = 1.0 - swan.used;
        // As `evenkeel create` makes the groups of a log volume.
        spec.consistency = Consistency::Bitmap;
        let rate = Table::from_iter([("rate".to_owned(), Value::Float(self.throughput / block))]);
        let open = Table::from_iter([("open".to_owned(), Value::Table(rate))]);
        let synthetic = Table::from_iter([
            ("read".to_owned(), Value::Float(0.0)),
            ("size".to_owned(), Value::Integer(BLOCK_BYTES as i64)),
            ("pace".to_owned(), Value::Table(open)),
        ]);
        Ok(Point {
            array: None,
            pdb: None,
            log: Some(spec),
            ssd: DriveSpec { used: Use::Aged, overwrites: 1.0, ..self.ssd.clone() },
            workload: Table::from_iter([("synthetic".to_owned(), Value::Table(synthetic))]),
            run: RunSpec {
                requests: Some((measured / block).ceil() as u64),
                seconds: None,
                // At the wanted rate, since the wear phase ran at the highest possible one.
                warmup: (measured / block / 4.0) as u64,
                queue_depth: QUEUE_DEPTH,
                seeds: 1,
            },
        })
    }
}
