//! Drives without an engine: what arrays are made of that papers describe and the engine does not have.
//!
//! Such an array begins I/Os together, as a job, and says what comes when all of them have ended.

use det::Instant;
use flashsim::{Op, Ssd};
use raidcore::engine::Stream;

use super::drive::{Drive, Io, IoEnd};
use super::stripes::Run;
use super::{Met, Told};

/// See the [module](self). `T` is what comes after a job.
pub(super) struct Bare<T> {
    drives: Vec<Drive>,
    /// By number, which the job's I/Os have.
    jobs: Vec<Option<Job<T>>>,
    free: Vec<usize>,
    ios: (u64, u64),
    ends: Vec<IoEnd>,
}

struct Job<T> {
    /// I/Os that have not ended.
    left: u32,
    met: Met,
    then: T,
}

/// A job has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done<T> {
    /// What comes now.
    pub(super) then: T,
    /// What was in the way of its I/Os.
    pub(super) met: Met,
}

impl<T> Bare<T> {
    /// Of these SSDs, with I/Os in blocks of `block` bytes.
    pub(super) fn new(ssds: Vec<Ssd>, block: u64) -> Self {
        let drive = |(number, ssd)| Drive::of_blocks(ssd, number, block);
        Self {
            drives: (0..).zip(ssds).map(drive).collect(),
            jobs: Vec::new(),
            free: Vec::new(),
            ios: (0, 0),
            ends: Vec::new(),
        }
    }

    /// Begins I/Os, at least one, and returns the job's number.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        op: Op,
        runs: impl ExactSizeIterator<Item = Run>,
        then: T,
        told: &mut Told,
    ) -> usize {
        let number = self.free.pop().unwrap_or(self.jobs.len());
        if number == self.jobs.len() {
            self.jobs.push(None);
        }
        let left = runs.len() as u32;
        self.jobs[number] = Some(Job { left, met: Met::default(), then });
        for Run { drive, at, blocks } in runs {
            let io = Io { id: number as u64, op, fua: false, stream: Stream::Data, at, blocks };
            self.drives[drive].begin(now, io, &mut told.gc);
        }
        number
    }

    /// What comes after a job that has not ended.
    pub(super) fn then(&mut self, job: usize) -> Option<&mut T> {
        self.jobs[job].as_mut().map(|job| &mut job.then)
    }

    /// When [`Bare::poll`] is to be called next.
    pub(super) fn next(&self) -> Option<Instant> {
        let next = self.drives.iter().map(Drive::next).min()?;
        Some(Instant(next)).filter(|&next| next < Instant(u64::MAX))
    }

    /// Lets everything happen up to `now`, and returns the jobs that have ended.
    pub(super) fn poll(&mut self, now: Instant, told: &mut Told) -> Vec<Done<T>> {
        let mut done = Vec::new();
        for drive in &mut self.drives {
            if drive.next() > now.0 {
                continue;
            }
            drive.poll(now, &mut self.ends, &mut told.gc);
            for IoEnd { id, met } in self.ends.drain(..) {
                self.ios.0 += 1;
                self.ios.1 += u64::from(met.collection);
                let number = id as usize;
                let Some(job) = &mut self.jobs[number] else { continue };
                job.left -= 1;
                job.met |= met;
                if job.left == 0 {
                    let ended = self.jobs[number].take();
                    done.extend(ended.map(|Job { then, met, .. }| Done { then, met }));
                    self.free.push(number);
                }
            }
        }
        done
    }

    /// The blocks of each drive.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.drives.iter().map(Drive::blocks)
    }

    pub(super) fn ssds(&self) -> impl Iterator<Item = &Ssd> {
        self.drives.iter().map(Drive::ssd)
    }

    /// I/Os that have ended, and how many of them had to wait for garbage collection.
    pub(super) fn ios(&self) -> (u64, u64) {
        self.ios
    }

    /// The measurement begins: all count from zero.
    pub(super) fn reset(&mut self) {
        self.ios = (0, 0);
        self.drives.iter_mut().for_each(Drive::reset_stats);
    }
}
