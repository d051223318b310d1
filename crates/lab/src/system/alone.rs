//! One SSD by itself.

use det::Instant;
use flashsim::{Op, Ssd};
use raidcore::engine::Stream;

use super::drive::{Drive, Io, IoEnd};
use super::{Ended, Request, Steered, System, Told};
use crate::workload::Kind;

/// One SSD by itself.
pub struct Alone {
    drive: Drive,
    depth: u16,
    ended: Vec<IoEnd>,
    ios: (u64, u64),
}

impl Alone {
    /// An SSD that takes `depth` requests at a time.
    #[must_use]
    pub fn new(ssd: Ssd, depth: u16) -> Self {
        Self { drive: Drive::new(ssd, 0), depth, ended: Vec::new(), ios: (0, 0) }
    }
}

impl System for Alone {
    fn blocks(&self) -> u64 {
        self.drive.blocks()
    }

    fn depth(&self) -> u16 {
        self.depth
    }

    fn submit(&mut self, now: Instant, request: Request, told: &mut Told) {
        let op = match request.kind {
            Kind::Read => Op::Read,
            Kind::Write => Op::Write,
            Kind::Discard => Op::Trim,
            Kind::Flush => Op::Flush,
        };
        let Request { tag, lba: at, blocks, .. } = request;
        let io = Io { id: tag.into(), op, fua: false, stream: Stream::Data, at, blocks };
        self.drive.begin(now, io, &mut told.gc);
    }

    fn next(&self) -> Option<Instant> {
        Some(Instant(self.drive.next())).filter(|&next| next < Instant(u64::MAX))
    }

    fn poll(&mut self, now: Instant, told: &mut Told) {
        self.drive.poll(now, &mut self.ended, &mut told.gc);
        for IoEnd { id, met } in self.ended.drain(..) {
            self.ios.0 += 1;
            self.ios.1 += u64::from(met.collection);
            told.ended.push(Ended { tag: id as u16, met, side: None });
        }
    }

    fn ssds(&self) -> impl Iterator<Item = &Ssd> {
        core::iter::once(self.drive.ssd())
    }

    fn begin(&mut self, _now: Instant, _told: &mut Told) {
        self.drive.reset_stats();
        self.ios = (0, 0);
    }

    fn drive_ios(&self) -> (u64, u64) {
        self.ios
    }

    fn steered(&self) -> Steered {
        Steered::default()
    }
}
