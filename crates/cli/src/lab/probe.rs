//! Probes real drives: a plan, carried out by threads with one request each.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use det::Prng;
use evenkeel_client::Refusal;
use evenkeel_client::paths::shown;
use lab::fit::{Load, Plan, PlanError, Recorded, Recording, Sample, Step};
use raidcore::units::{BLOCK_BYTES, Pba};
use ublkd::flash::Named;
use ublkd::lease::{Elsewhere, runs_elsewhere};
use ublkd::members::{BlockBuffer, Device, OpenOptions};
use ublkd::probe::Target;
use ublkd::signature::Signature;

use crate::args::ProbeArgs;

/// A drive that is ready to be probed.
pub(super) struct Probed {
    path: PathBuf,
    target: Target,
    plan: Plan,
}

/// What was recorded of a drive.
pub(super) struct Found {
    /// The drive.
    pub(super) path: PathBuf,
    /// How large it is, in bytes.
    pub(super) bytes: u64,
    pub(super) recording: Recording,
    /// What is to be said about how it was probed.
    pub(super) notes: Vec<String>,
}

/// Opens a drive to probe it as the arguments say. Nothing is written yet.
pub(super) fn open(typed: &Path, args: &ProbeArgs) -> Result<Probed> {
    let Named { path, flash } = Named::parse(typed)?;
    let options = OpenOptions { direct: true, read_only: !args.write };
    let mut device = Device::open(&path, options)?;
    if args.write && !args.force {
        refuse_content(&device)?;
    } else if args.write
        && let Some(Elsewhere { array, host }) = runs_elsewhere(&device)?
    {
        let path = shown(&path);
        bail!("{path} is a member of the array \"{array}\", which host {host} runs");
    }
    let bytes = device.blocks() * BLOCK_BYTES as u64;
    let plan = Plan::new(args.seconds, args.write, bytes);
    let plan = plan.map_err(|error| match error {
        PlanError::Seconds(_) => anyhow::anyhow!("--seconds: {error}"),
        PlanError::Small(_) => anyhow::anyhow!("{}: {error}", shown(&path)),
    })?;
    if let Some(flash) = flash {
        if !args.write && device.flash_profile().is_none() {
            bail!("{} is no modelled SSD yet: give --write to make it one", shown(&path));
        }
        device.make_flash(&flash)?;
    }
    Ok(Probed { path, target: Target::new(device), plan })
}

fn refuse_content(device: &Device) -> Result<()> {
    let path = shown(device.path()).to_string();
    let found = Signature::find_any(device, || Ok(())).with_context(|| path.clone())?;
    let Some(signature) = found else { return Ok(()) };
    Err(Refusal {
        code: "occupied".to_owned(),
        message: format!("{path} carries {signature}, which --write would destroy"),
        hint: Some(
            "leave --write out to only read it, or add --force if nothing on it is needed"
                .to_owned(),
        ),
    }
    .into())
}

/// Probes drives, all at the same time.
pub(super) fn probe(drives: Vec<Probed>) -> Result<Vec<Found>> {
    thread::scope(|scope| {
        let threads: Vec<_> =
            drives.into_iter().map(|drive| scope.spawn(move || drive.run())).collect();
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread that probes has died")))
        });
        ended.collect()
    })
}

impl Probed {
    fn run(self) -> Result<Found> {
        let Self { path, target, plan } = self;
        let mut notes = Vec::new();
        if !target.device().is_direct() && !target.is_modelled() {
            notes.push(
                "its file system has no direct I/O: latencies are those of memory".to_owned(),
            );
        }
        let (mut area, mut steps) = (plan.blocks, Vec::new());
        for (index, &(step, seconds)) in plan.steps.iter().enumerate() {
            let length = Duration::from_secs_f64(seconds);
            let recorded = carry_out(&target, step, length, area, index as u64);
            let recorded = recorded.with_context(|| shown(&path).to_string())?;
            if step == Step::Fill {
                let filled = recorded.samples.len() as u64 * u64::from(step.load().blocks);
                area = filled.clamp(1, plan.blocks);
            }
            steps.push(recorded);
        }
        let written = if plan.writes() { area } else { 0 };
        target.finish(written)?;
        let recording = Recording { blocks: plan.blocks, area, steps };
        Ok(Found { path, bytes: plan.blocks * BLOCK_BYTES as u64, recording, notes })
    }
}

/// What the threads of a step share.
struct Shared<'a> {
    target: &'a Target,
    load: Load,
    length: Duration,
    area: u64,
    next: AtomicU64,
    samples: AtomicUsize,
    start: Barrier,
}

/// Carries out a step.
fn carry_out(
    target: &Target,
    step: Step,
    length: Duration,
    area: u64,
    seed: u64,
) -> Result<Recorded> {
    let load = step.load();
    let places = load.readers + load.writers;
    if places == 0 {
        thread::sleep(length);
        return Ok(Recorded { step, seconds: length.as_secs_f64(), samples: Vec::new() });
    }
    let shared = Shared {
        target,
        load,
        length,
        area,
        next: AtomicU64::new(0),
        samples: AtomicUsize::new(0),
        start: Barrier::new(places as usize + 1),
    };
    let began = Instant::now();
    let ended = thread::scope(|scope| {
        let shared = &shared;
        let one = |place| scope.spawn(move || shared.place(place, seed, began));
        let threads: Vec<_> = (0..places).map(one).collect();
        shared.start.wait();
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread has died")))
        });
        ended.collect::<std::io::Result<Vec<_>>>()
    })?;
    let mut samples: Vec<Sample> = ended.into_iter().flatten().collect();
    samples.sort_unstable_by_key(Sample::end);
    // Threads took a moment to begin.
    let first = samples.iter().map(|sample| sample.at).min().unwrap_or(0);
    samples.iter_mut().for_each(|sample| sample.at -= first);
    let last = samples.last().map_or(0, Sample::end);
    let seconds = length.as_secs_f64().min(last as f64 / 1e9);
    Ok(Recorded { step, seconds, samples })
}

impl Shared<'_> {
    /// One request after the other, until the time is over or there is nothing left to do.
    fn place(&self, place: u32, seed: u64, began: Instant) -> std::io::Result<Vec<Sample>> {
        let read = place < self.load.readers;
        let mut prng = Prng::new(seed << 32 | u64::from(place));
        let mut bytes = BlockBuffer::new(self.load.blocks as usize * BLOCK_BYTES);
        if let Ok(bytes) = &mut bytes {
            // What can be compressed may be faster.
            prng.fill(bytes);
        }
        self.start.wait();
        let (mut bytes, mut samples) = (bytes?, Vec::new());
        let start = Instant::now();
        while start.elapsed() < self.length {
            let Some(at) = self.block(&mut prng) else { break };
            let at_ns = nanos(began.elapsed());
            match read {
                true => self.target.read(at, &mut bytes)?,
                false => self.target.write(at, &bytes)?,
            }
            let took = nanos(began.elapsed()).saturating_sub(at_ns);
            samples.push(Sample { at: at_ns, took, read });
            if self.samples.fetch_add(1, Ordering::Relaxed) >= Recording::SAMPLES_MAX {
                break;
            }
        }
        Ok(samples)
    }

    /// Where the next request goes; nowhere if all was written in sequence.
    fn block(&self, prng: &mut Prng) -> Option<Pba> {
        if !self.load.in_sequence {
            return Some(Pba(prng.below(self.area)));
        }
        let blocks = u64::from(self.load.blocks);
        let at = self.next.fetch_add(blocks, Ordering::Relaxed);
        (at + blocks <= self.area).then_some(Pba(at))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
