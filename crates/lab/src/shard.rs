//! A shard: one run of one point with one seed. Shards are independent, so they can run anywhere
//! and in any order.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use det::{Instant, Prng};
use flashsim::{Precondition, Ssd};
use raidcore::engine::Config;
use raidcore::units::BLOCK_BYTES;

use crate::experiment::Point;
use crate::measure::Figures;
use crate::run::run;
use crate::system::{
    Alone, Array, DriveError, Log, LogError, LogSpec, Pdb, PdbError, PdbSpec, StartError, System,
    Told,
};
use crate::workload::WorkloadError;

/// Why a shard can't be run.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// There are no such drives.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// There is no such array.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no such log array.
    #[error(transparent)]
    Log(#[from] LogError),
    /// There is no such array of the paper on popular data backup.
    #[error(transparent)]
    Pdb(#[from] PdbError),
    /// The point's workload is invalid.
    #[error("{0}")]
    NoWorkload(String),
    /// The workload does not fit the system, or can't be read on.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// Runs a point with a seed; equal ones give equal figures. Relative paths are relative to `base`,
/// and `count` counts the requests that have ended.
///
/// # Errors
/// If it can't be run; see [`ShardError`].
pub fn run_shard(
    point: &Point,
    seed: u64,
    base: &Path,
    count: &AtomicU64,
) -> Result<Figures, ShardError> {
    if let Some(log) = &point.log {
        return run_log(point, log, seed, base, count);
    }
    if let Some(pdb) = &point.pdb {
        return run_pdb(point, pdb, seed, base, count);
    }
    let profile = point.ssd.profile(base)?;
    let mut seeds = Prng::new(seed);
    let requests = requests(seed);
    let mut ssd = || {
        let made = Ssd::new(&profile, point.ssd.precondition(), seeds.next_u64());
        made.map_err(DriveError::from)
    };
    let depth = point.run.queue_depth;
    let Some(array) = &point.array else {
        let mut alone = Alone::new(ssd()?, depth);
        let begun = (Instant::ORIGIN, Told::default());
        return measure(&mut alone, begun, point, requests, base, count);
    };
    let ssds = (0..array.ssds()).map(|_| ssd()).collect::<Result<_, _>>()?;
    let config = Config { tags: depth, jobs: jobs(depth), ..Config::default() };
    let mut told = Told::default();
    let (mut array, start) = Array::start(array, ssds, config, &mut told)?;
    measure(&mut array, (start, told), point, requests, base, count)
}

/// The SSDs' preconditioning is applied to the log.
fn run_log(
    point: &Point,
    spec: &LogSpec,
    seed: u64,
    base: &Path,
    count: &AtomicU64,
) -> Result<Figures, ShardError> {
    let profile = point.ssd.profile(base)?;
    let mut seeds = Prng::new(seed);
    let mut ssd = || {
        let made = Ssd::new(&profile, Precondition::Fresh, seeds.next_u64());
        made.map_err(DriveError::from)
    };
    let ssds = (0..spec.ssds()?).map(|_| ssd()).collect::<Result<_, _>>()?;
    let mut told = Told::default();
    let (used, depth) = (point.ssd.precondition(), point.run.queue_depth);
    let (mut log, start) = Log::start(spec, used, ssds, seeds.next_u64(), depth, &mut told)?;
    measure(&mut log, (start, told), point, requests(seed), base, count)
}

/// The preconditioning is that of all SSDs but the replacement.
fn run_pdb(
    point: &Point,
    spec: &PdbSpec,
    seed: u64,
    base: &Path,
    count: &AtomicU64,
) -> Result<Figures, ShardError> {
    spec.check()?;
    let data = point.ssd.profile(base)?;
    let parity = data.clone().with_blocks(Pdb::parity_blocks(spec, data.geometry.blocks)?);
    let (used, mut seeds) = (point.ssd.precondition(), Prng::new(seed));
    let of = |place: usize| if place < usize::from(spec.data) { &data } else { &parity };
    let replacement = spec.fails.then(|| (of(spec.failed.into()), Precondition::Fresh));
    let ssds = (0..spec.members()).map(|place| (of(place), used)).chain(replacement);
    let ssds = ssds.map(|(profile, used)| Ssd::new(profile, used, seeds.next_u64()));
    let ssds: Vec<_> = ssds.collect::<Result<_, _>>().map_err(DriveError::from)?;
    let mut array = Pdb::new(spec, ssds, point.run.queue_depth)?;
    let begun = (Instant::ORIGIN, Told::default());
    measure(&mut array, begun, point, requests(seed), base, count)
}

/// The seed of the workload: the requests don't depend on the number of SSDs.
fn requests(seed: u64) -> u64 {
    Prng::new(!seed).next_u64()
}

/// Stripes that can be worked on at once: two for each request, since many touch two.
fn jobs(depth: u16) -> u16 {
    depth.saturating_mul(2).max(Config::default().jobs)
}

fn measure<T: System>(
    system: &mut T,
    (start, told): (Instant, Told),
    point: &Point,
    seed: u64,
    base: &Path,
    count: &AtomicU64,
) -> Result<Figures, ShardError> {
    let workload = point.workload().map_err(ShardError::NoWorkload)?;
    let stream = workload.open(system.blocks() * BLOCK_BYTES as u64, seed, base)?;
    let pace = stream.pace();
    let (meter, end) = run(system, start, stream, pace, &point.run, told, count)?;
    Ok(meter.figures(end))
}
