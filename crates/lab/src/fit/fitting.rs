//! The fit: what is read off a recording, and what is sought.

use flashsim::profile::DieChoice;
use flashsim::{Profile, ProfileError};

use super::behaviour::{Behaviour, Latencies, Rested, Stalls};
use super::recording::{Recorded, Recording, Sample, Step, WRITERS};
use super::search::search;
use super::shape::{Collects, ERASE, Shape};
use super::unsure::Unsure;
use crate::plan::victim_utilisation;

/// A write is stalled if it takes so many times as long as one that nothing is in the way of.
const STALLED: f64 = 4.0;

/// A figure further from what was recorded than by this factor is told.
const RESIDUAL: f64 = 1.25;

/// The deepest reads of a probe.
const DEEPEST: u32 = 64;

/// The profile of a reading-only fit, but for its reads.
const GENERIC: &str = "nvme-tlc";

/// A fitted profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The profile: a small drive that behaves like the recorded one.
    pub profile: Profile,
    /// What one read takes by itself, in microseconds: the median.
    pub read_us: f64,
    /// How the recorded drive behaved under sustained writes, in their second half; nothing if it was not
    /// written.
    pub observed: Option<Behaviour>,
    /// How a drive of the profile behaves under them.
    pub modelled: Option<Behaviour>,
    /// What idling brought.
    pub rested: Option<Rested>,
    /// What is in doubt.
    pub unsure: Vec<Unsure>,
}

/// Why there is no fit.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// There are no single reads, or they took no time.
    #[error(
        "the recording has no reads of one at a time that took any time: give the probe more seconds"
    )]
    NoReads,
    /// No modelled drive could be played.
    #[error(
        "no modelled drive is like this one: one read takes {read_us:.0} µs, {units} at a time"
    )]
    NoDrive {
        /// What one read takes.
        read_us: f64,
        /// What it does at a time.
        units: u32,
    },
    /// The generic profile can't have such reads.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Fits a profile to a recording.
///
/// # Errors
/// If the recording has no single reads, or no modelled drive has such.
pub fn fit(recording: &Recording) -> Result<Fit, FitError> {
    let single = recording.step(Step::Reads { depth: 1 }).ok_or(FitError::NoReads)?;
    let read_us = Latencies::of(single.samples.iter()).within(0.5);
    if read_us <= 0.0 {
        return Err(FitError::NoReads);
    }
    let mut unsure = Vec::new();
    let units = units(recording, read_us, &mut unsure);
    let Some(sustained) = recording.step(Step::Sustained) else {
        return reads_only(read_us);
    };
    // What a write takes of the drive's time before anything is collected, in seconds.
    let fresh = fresh_rate(recording, sustained);
    let program_us = f64::from(units) * 1e6 / fresh;
    let median = Latencies::of(sustained.samples.iter().filter(|s| !s.read)).within(0.5);
    let calm_us = (f64::from(WRITERS.max(units)) * 1e6 / fresh).min(median);
    let threshold_us = STALLED * calm_us;
    let observed = Behaviour::of(sustained, sustained.seconds / 2.0, threshold_us)
        .with_single(recording.step(Step::Single), STALLED * program_us);
    doubts(recording, sustained, &observed, &mut unsure);
    let rested = recording.step(Step::Rested).map(|step| Rested::of(step, threshold_us));
    let buffer_kib = buffer(recording, program_us);
    let suspends = observed.stalls.count > 0
        && observed.read_p99_us < observed.stalls.mean_us / 4.0
        && observed.read_p99_us < threshold_us;
    let guess = guess(&observed, Measured { units, read_us, program_us, buffer_kib, suspends });
    let found = search(guess, &observed).ok_or(FitError::NoDrive { read_us, units })?;
    let idle_pages = rested.map_or(0.0, |rested| idle_pages(&rested, &observed, units));
    let shape = Shape { idle_pages, ..found.shape };
    residuals(&observed, &found.behaviour, &mut unsure);
    unsure.push(Unsure::Inferred);
    let (observed, modelled) = (Some(observed), Some(found.behaviour));
    Ok(Fit { profile: shape.profile(), read_us, observed, modelled, rested, unsure })
}

/// How many things the drive does at once, as far as reads show it: of a closed network of so many equal
/// stations with random visits, n / (n + stations - 1) of them are busy.
fn units(recording: &Recording, read_us: f64, unsure: &mut Vec<Unsure>) -> u32 {
    let busy = |depth: u32| {
        let rate = recording.step(Step::Reads { depth }).map(Recorded::rate);
        rate.map(|rate| rate * read_us / 1e6)
    };
    let Some(at_most) = busy(DEEPEST) else { return 1 };
    let deep = f64::from(DEEPEST);
    let stations = at_most * (deep - 1.0) / (deep - at_most).max(1.0);
    let units = stations.round().clamp(1.0, 128.0) as u32;
    if busy(16).is_some_and(|before| at_most > 2.0 * before) {
        unsure.push(Unsure::MoreUnits { units });
    }
    units
}

/// A profile of which only reads were measured.
fn reads_only(read_us: f64) -> Result<Fit, FitError> {
    let mut profile = Profile::builtin(GENERIC)?.with_blocks(64);
    let overhead = profile.link.map_or(0.0, |link| link.overhead_us);
    let transfer = profile.bus.map_or(0.0, |bus| 4096.0 / bus.mb_per_s);
    profile.nand.read_us = (read_us - overhead - transfer).max(1.0).round();
    profile.name = "fitted".to_owned();
    // A whole one takes long to be played: this one has an eighth of the planes and of a block's pages.
    (profile.geometry.channels, profile.geometry.chips) = (4, 2);
    (profile.geometry.planes, profile.geometry.pages) = (2, 96);
    // The shares are those of larger drives.
    profile.ftl.spare = profile.ftl.spare.max(0.1);
    profile.check()?;
    let unsure = vec![Unsure::ReadOnly];
    Ok(Fit { profile, read_us, observed: None, modelled: None, rested: None, unsure })
}

/// Blocks that are written a second before anything is collected: as the drive was filled, unless it was
/// faster later.
fn fresh_rate(recording: &Recording, sustained: &Recorded) -> f64 {
    let blocks = f64::from(Step::Fill.load().blocks);
    let filled = recording.step(Step::Fill).map_or(0.0, |fill| fill.rate() * blocks);
    let writes = sustained.samples.iter().filter(|sample| !sample.read).count() as f64;
    filled.max(writes / sustained.seconds.max(1e-9)).max(1.0)
}

/// The size of a write buffer, if single writes end long before a program can.
fn buffer(recording: &Recording, program_us: f64) -> Option<u32> {
    let alone = recording.step(Step::Alone)?;
    let median = Latencies::of(alone.samples.iter()).within(0.5);
    if median >= 0.6 * program_us {
        return None;
    }
    // What is taken at once after idling, before writes wait for programs.
    let rested = recording.step(Step::Rested)?;
    let mut writes: Vec<&Sample> = rested.samples.iter().filter(|sample| !sample.read).collect();
    writes.sort_unstable_by_key(|sample| sample.at);
    let slow = (program_us * 500.0) as u64;
    let taken = writes.iter().position(|sample| sample.took > slow).unwrap_or(writes.len());
    let kib = u32::try_from(taken).unwrap_or(u32::MAX).saturating_mul(4);
    Some(kib.clamp(128, 65_536).next_power_of_two())
}

/// What is in doubt before anything is sought.
fn doubts(
    recording: &Recording,
    sustained: &Recorded,
    observed: &Behaviour,
    unsure: &mut Vec<Unsure>,
) {
    let share = recording.area as f64 / recording.blocks.max(1) as f64;
    if share < 0.9 {
        unsure.push(Unsure::SmallPart { share });
    }
    let writes = sustained.samples.iter().filter(|sample| !sample.read);
    let times = writes.clone().count() as f64 / recording.area.max(1) as f64;
    if times < 1.5 {
        unsure.push(Unsure::LittleWritten { times });
    }
    let quarter = sustained.seconds / 4.0;
    let within = |from: f64, to: f64| {
        let ended = |sample: &&Sample| (from..to).contains(&(sample.end() as f64 / 1e9 / quarter));
        writes.clone().filter(ended).count() as f64 / quarter.max(1e-9)
    };
    let (before, after) = (within(2.0, 3.0), within(3.0, 4.0));
    if !(0.8..=1.25).contains(&(after / before.max(1.0))) {
        unsure.push(Unsure::NotSteady { before, after });
    }
    match observed.stalls.count {
        0 => unsure.push(Unsure::NoStalls),
        count @ 1..Stalls::FEW => unsure.push(Unsure::FewStalls { count }),
        _ => {}
    }
    if observed.stalls.count > 0 && observed.single.count < Stalls::FEW {
        unsure.push(Unsure::NoLengths { count: observed.single.count });
    }
}

/// What was read off the recording.
struct Measured {
    units: u32,
    read_us: f64,
    program_us: f64,
    buffer_kib: Option<u32>,
    suspends: bool,
}

/// Where the search begins: by how much slower writes are than at first, and how much is written between
/// stalls.
fn guess(observed: &Behaviour, measured: Measured) -> Shape {
    let Measured { units, read_us, program_us, buffer_kib, suspends } = measured;
    let of_each = f64::from(units) * 1e6 / observed.writes_per_s.max(1.0);
    let moved = ((of_each - program_us) / (read_us + program_us)).max(0.05);
    let live = moved / (1.0 + moved);
    // A late write waits for about a block to be collected.
    let late = (observed.write_p99_us - ERASE * program_us).max(program_us);
    let pages =
        if observed.stalls.count == 0 { 64.0 } else { late / (live * (read_us + program_us)) };
    // The spare of which victims have so much that is live.
    let (mut low, mut high) = Shape::SPARE;
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if victim_utilisation(1.0 - middle) > live { low = middle } else { high = middle }
    }
    Shape {
        collects: Collects::Device,
        die: DieChoice::RoundRobin,
        suspends,
        units,
        read_us,
        program_us,
        pages: pages.clamp(Shape::PAGES.0, Shape::PAGES.1),
        spare: low,
        buffer_kib,
        idle_pages: 0.0,
    }
}

/// Pages of each unit that were collected while nothing was asked of the drive: what it took more than usual
/// before it stalled again.
fn idle_pages(rested: &Rested, observed: &Behaviour, units: u32) -> f64 {
    let usual = observed.stalls.spacing_bytes;
    if observed.stalls.count == 0 || rested.bytes < 3.0 * usual {
        return 0.0;
    }
    (rested.bytes - usual) / 4096.0 / f64::from(units)
}

/// Tells which figures are far from what was recorded.
fn residuals(observed: &Behaviour, modelled: &Behaviour, unsure: &mut Vec<Unsure>) {
    let all = observed.figures().into_iter().zip(modelled.figures());
    for ((figure, _, observed), (_, _, modelled)) in all {
        let there = observed > 0.0 && figure != "stall longest";
        if there && !(1.0 / RESIDUAL..=RESIDUAL).contains(&(modelled / observed)) {
            unsure.push(Unsure::Residual { figure, observed, modelled });
        }
    }
}
