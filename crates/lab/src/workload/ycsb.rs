//! YCSB's core workloads, as block requests of a store that keeps records in pages.
//!
//! These are *block patterns*, not a database: records lie in the order of their keys in pages that
//! are read and written in place, as in the leaves of a B-tree without a cache in front of it. The
//! ratios of operations, the popularity of records and the lengths of scans are those of YCSB
//! (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010). Caching, logs, inner
//! nodes and splits are not modelled. A log-structured store is better described by a mix of random
//! reads and large sequential reads and writes.
//!
//! | workload | operations | popularity |
//! |---|---|---|
//! | A | 50% read, 50% update | zipfian |
//! | B | 95% read, 5% update | zipfian |
//! | C | 100% read | zipfian |
//! | D | 95% read, 5% insert | latest |
//! | E | 95% scan, 5% insert | zipfian |
//! | F | 50% read, 50% read-modify-write | zipfian |

use serde::Deserialize;

use super::address::Room;
use super::pace::Pacing;
use super::random::{Random, Scramble, Zipf};
use super::synthetic::{block, nothing};
use super::{Ask, Kind, WorkloadError, range};
use crate::units::{Bytes, Portion};

/// One of YCSB's workloads on a store that fills the footprint.
///
/// A read is a read of the page with the record, an update a write of it, a read-modify-write
/// both, one after the other. A scan reads the pages of up to `scan` records in one request. An
/// insert writes the page of the next record; the store is a ring, so that it overwrites the
/// oldest one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ycsb {
    /// Which of them.
    pub workload: Letter,
    /// When requests come; one at a time if absent.
    pub pace: Option<Pacing>,
    /// The size of a record. YCSB's have ten fields of 100 bytes.
    #[serde(default = "record")]
    pub record: Bytes,
    /// The size of a page, which is read and written at once: a multiple of the record.
    #[serde(default = "block")]
    pub page: Bytes,
    /// The exponent of the popularity.
    #[serde(default = "theta")]
    pub theta: f64,
    /// The most records of a scan; they are uniform from 1 on.
    #[serde(default = "scan")]
    pub scan: u32,
    /// Where the store begins.
    #[serde(default = "nothing")]
    pub start: Portion,
    /// How large it is; up to the end if absent.
    pub footprint: Option<Portion>,
}

/// YCSB's core workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Letter {
    /// Update heavy.
    A,
    /// Read mostly.
    B,
    /// Read only.
    C,
    /// Read latest.
    D,
    /// Short ranges.
    E,
    /// Read, modify, write.
    F,
}

fn record() -> Bytes {
    Bytes(1024)
}

fn theta() -> f64 {
    0.99
}

fn scan() -> u32 {
    100
}

impl Ycsb {
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        if let Some(pace) = &self.pace {
            pace.check()?;
        }
        let (record, page) = (self.record.0, self.page.0);
        range("ycsb.record", record as f64, record > 0, "at least one byte")?;
        let fits = page >= record && page.is_multiple_of(record) && page < 1 << 31;
        range("ycsb.page", page as f64, fits, "a multiple of the record, less than 2 GiB")?;
        range("ycsb.theta", self.theta, (0.0..=10.0).contains(&self.theta), "between 0 and 10")?;
        let most = self.longest() <= u64::from(u32::MAX);
        let scan = self.scan > 0 && most;
        range("ycsb.scan", f64::from(self.scan), scan, "at least 1, and less than 4 GiB")
    }

    /// The most bytes of a request: a scan, which may begin at the end of a page.
    fn longest(&self) -> u64 {
        let pages = (u64::from(self.scan) * self.record.0).div_ceil(self.page.0) + 1;
        pages.saturating_mul(self.page.0)
    }
}

/// The effect of an operation besides reading.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

/// Draws requests.
#[derive(Debug)]
pub(crate) struct Generator {
    /// The share of the first operation; the rest is the second.
    share: f64,
    operations: [Operation; 2],
    latest: bool,
    room: Room,
    record: u64,
    page: u64,
    scan: u64,
    records: u64,
    /// The newest record.
    newest: u64,
    zipf: Zipf,
    scramble: Scramble,
    /// The write of a read-modify-write.
    pending: Option<Ask>,
}

impl Generator {
    pub(crate) fn new(
        ycsb: &Ycsb,
        capacity: u64,
        random: &mut Random,
    ) -> Result<Self, WorkloadError> {
        use Operation::{Insert, Read, ReadModifyWrite, Scan, Update};

        ycsb.check()?;
        let need = if ycsb.workload == Letter::E { ycsb.longest() } else { ycsb.page.0 };
        let room = Room::new(ycsb.start, ycsb.footprint, ycsb.page, capacity, need)?;
        let records = room.bytes / ycsb.page.0 * (ycsb.page.0 / ycsb.record.0);
        let (share, operations) = match ycsb.workload {
            Letter::A => (0.5, [Read, Update]),
            Letter::B => (0.95, [Read, Update]),
            Letter::C => (1.0, [Read, Read]),
            Letter::D => (0.95, [Read, Insert]),
            Letter::E => (0.95, [Scan, Insert]),
            Letter::F => (0.5, [Read, ReadModifyWrite]),
        };
        Ok(Self {
            share,
            operations,
            latest: ycsb.workload == Letter::D,
            room,
            record: ycsb.record.0,
            page: ycsb.page.0,
            scan: u64::from(ycsb.scan),
            records,
            newest: records - 1,
            zipf: Zipf::new(records, ycsb.theta),
            scramble: Scramble::new(records, random),
            pending: None,
        })
    }

    pub(crate) fn next(&mut self, random: &mut Random) -> Ask {
        if let Some(write) = self.pending.take() {
            return write;
        }
        let operation = self.operations[usize::from(!random.chance(self.share))];
        match operation {
            Operation::Read => self.page_of(self.popular(random), Kind::Read),
            Operation::Update => self.page_of(self.popular(random), Kind::Write),
            Operation::ReadModifyWrite => {
                let record = self.popular(random);
                self.pending = Some(self.page_of(record, Kind::Write));
                self.page_of(record, Kind::Read)
            }
            Operation::Insert => {
                self.newest = (self.newest + 1) % self.records;
                self.page_of(self.newest, Kind::Write)
            }
            Operation::Scan => {
                let first = self.popular(random);
                let last = first.saturating_add(random.below(self.scan)).min(self.records - 1);
                let (from, to) = (self.offset(first), self.offset(last));
                Ask { kind: Kind::Read, offset: from, bytes: (to - from + self.page) as u32 }
            }
        }
    }

    fn popular(&self, random: &mut Random) -> u64 {
        let rank = self.zipf.rank(random);
        if !self.latest {
            return self.scramble.of(rank);
        }
        // The newest record is the most popular; the ring continues from the first record to the
        // last.
        if rank <= self.newest { self.newest - rank } else { self.newest + (self.records - rank) }
    }

    /// Where the page with a record begins.
    fn offset(&self, record: u64) -> u64 {
        self.room.start + record * self.record / self.page * self.page
    }

    fn page_of(&self, record: u64, kind: Kind) -> Ask {
        Ask { kind, offset: self.offset(record), bytes: self.page as u32 }
    }
}
