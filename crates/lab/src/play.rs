//! A planned SWAN array, played in virtual time: does its front keep up, and does no user wait for
//! cleaning?
//!
//! What the model leaves out is here: SSDs with buffers and garbage collection of their own, the
//! log's summaries and checkpoints, parity. Users write blocks of 4 KiB at random, as the model has
//! it, by the clock.

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

/// What a plan is played on, and how hard.
#[derive(Clone, Debug)]
pub struct Play {
    /// The SSDs. The volume on them is filled and then overwritten once.
    pub ssd: DriveSpec,
    /// A segment's part on each SSD.
    pub segment: Bytes,
    /// What users write, in bytes a second.
    pub throughput: f64,
    /// How long that is measured, in seconds of virtual time; until the log's room has been written
    /// once if not given.
    pub seconds: Option<f64>,
    /// What the random numbers follow from.
    pub seed: u64,
}

/// What there is no way to play.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The plan asks for more than there can be.
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

/// What a played plan has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All that users wanted to write was taken in time, and no user waited for cleaning.
    Keeps,
    /// Users' writes had to wait for cleaning.
    Stalls,
    /// No user waited for cleaning, but less was written than was wanted.
    Slow,
    /// Not every group has been at the front: nothing can be said.
    Short,
}

/// The part of what has come in a second that has to be taken in one: those that come last take
/// their time after nothing more comes.
const ENOUGH: f64 = 0.98;

/// How many requests the array takes at a time.
const QUEUE_DEPTH: u16 = 256;

impl Verdict {
    /// What the figures of an array of so many groups come to.
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
    /// Plays an array; `count` counts requests that have ended.
    ///
    /// # Errors
    /// If there can't be such an array.
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
        // As groups of a log volume are made.
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
            log: Some(spec),
            ssd: DriveSpec { used: Use::Aged, overwrites: 1.0, ..self.ssd.clone() },
            workload: Table::from_iter([("synthetic".to_owned(), Value::Table(synthetic))]),
            run: RunSpec {
                requests: Some((measured / block).ceil() as u64),
                seconds: None,
                // At the wanted pace, as it was worn as fast as it could be.
                warmup: (measured / block / 4.0) as u64,
                queue_depth: QUEUE_DEPTH,
                seeds: 1,
            },
        })
    }
}
