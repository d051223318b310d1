//! Drives without an engine: what arrays are made of that papers describe and the engine does not have.
//!
//! Such an array says itself what each I/O on a drive is for: a [`Bare`] keeps it, and gives it back with the
//! I/O's end.

use det::Instant;
use flashsim::{Op, Ssd};

use super::drive::{Drive, Io, IoEnd};
use super::{Met, Told};

/// See the [module](self). `T` is what an I/O is for.
pub(super) struct Bare<T> {
    drives: Vec<Drive>,
    /// By I/O.
    purposes: Vec<Option<T>>,
    free: Vec<usize>,
    ios: (u64, u64),
    ends: Vec<IoEnd>,
}

/// The end of an I/O on a drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done<T> {
    /// What the I/O was for.
    pub(super) purpose: T,
    pub(super) met: Met,
}

impl<T> Bare<T> {
    /// Of these SSDs, with I/Os in blocks of `block` bytes.
    pub(super) fn new(ssds: Vec<Ssd>, block: u64) -> Self {
        let drive = |(number, ssd)| Drive::of_blocks(ssd, number, block);
        Self {
            drives: (0..).zip(ssds).map(drive).collect(),
            purposes: Vec::new(),
            free: Vec::new(),
            ios: (0, 0),
            ends: Vec::new(),
        }
    }

    /// Begins an I/O on `blocks` blocks from block `at` on, within the drive.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        (drive, op): (usize, Op),
        (at, blocks): (u64, u32),
        purpose: T,
        told: &mut Told,
    ) {
        let id = self.free.pop().unwrap_or(self.purposes.len());
        if id == self.purposes.len() {
            self.purposes.push(None);
        }
        self.purposes[id] = Some(purpose);
        let io = Io { id: id as u64, op, fua: false, at, blocks };
        self.drives[drive].begin(now, io, &mut told.gc);
    }

    /// When [`Bare::poll`] is to be called next.
    pub(super) fn next(&self) -> Option<Instant> {
        let next = self.drives.iter().map(Drive::next).min()?;
        Some(Instant(next)).filter(|&next| next < Instant(u64::MAX))
    }

    /// Lets everything happen up to `now`, and returns the I/Os that have ended.
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
                let Some(purpose) = self.purposes[id as usize].take() else { continue };
                self.free.push(id as usize);
                done.push(Done { purpose, met });
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
