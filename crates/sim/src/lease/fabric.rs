//! The members, and what is under way between hosts and them.
//!
//! What is submitted lands within the time that the protocol assumes, or never. Its answer may come later, and
//! tell of an error though it has landed.

use std::collections::BTreeSet;

use raidcore::lease::{Answer, Ask};
use raidcore::meta::{ArrayId, LeaseBlock};
use raidcore::units::{MemberId, Set};

/// The array that all of this is about.
const ARRAY: ArrayId = ArrayId([0; 16]);

/// What a member has on record of the array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    /// Counts the starts.
    pub(super) epoch: u64,
    /// Counts the changes.
    pub(super) events: u64,
    /// The members in service.
    pub(super) serve: Set<MemberId>,
}

impl Record {
    /// What is greater of a later one.
    pub(super) fn version(&self) -> (u64, u64) {
        (self.epoch, self.events)
    }
}

/// A member.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    /// The block of the lease.
    pub(super) lease: Vec<u8>,
    pub(super) record: Record,
    pub(super) written: BTreeSet<u32>,
}

impl Disk {
    /// What its lease block says.
    pub(super) fn lease(&self) -> Option<LeaseBlock> {
        LeaseBlock::decode(ARRAY, &self.lease).ok().flatten()
    }
}

/// What is submitted to a member.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Lease(Ask),
    /// A user's write.
    Write(u32),
    /// A user's read, or that of a start, which has no number.
    Read(u32),
    Record(Record),
    /// All that users have written, to a device that joins.
    Copy(BTreeSet<u32>),
}

/// What a host hears of it.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Lease(Answer),
    Wrote,
    Read(Record, BTreeSet<u32>),
    Failed,
}

/// Something under way.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) host: usize,
    /// The process that has submitted it.
    pub(super) instance: u64,
    /// The holding in which it was submitted.
    pub(super) period: u64,
    pub(super) member: MemberId,
    pub(super) op: Op,
    /// When it lands at the latest.
    pub(super) latest: u64,
    /// What it made of the member, when it has landed.
    pub(super) said: Option<Said>,
}

impl Flight {
    /// Whether it changes what users have of the array.
    pub(super) fn is_data(&self) -> bool {
        matches!(self.op, Op::Write(_) | Op::Record(_) | Op::Copy(_))
    }

    /// It lands.
    pub(super) fn land(&mut self, disk: &mut Disk) {
        self.said = Some(match &self.op {
            Op::Lease(Ask::Read(_)) => Said::Lease(Answer::Read(disk.lease())),
            Op::Lease(Ask::Write(_, block)) => {
                block.encode(ARRAY, &mut disk.lease);
                Said::Lease(Answer::Wrote)
            }
            Op::Write(number) => {
                disk.written.insert(*number);
                Said::Wrote
            }
            Op::Read(_) => Said::Read(disk.record.clone(), disk.written.clone()),
            Op::Record(record) => {
                disk.record = record.clone();
                Said::Wrote
            }
            Op::Copy(all) => {
                disk.written.clone_from(all);
                disk.lease.fill(0);
                Said::Wrote
            }
        });
    }

    /// What the host hears if it failed, or its answer was lost.
    pub(super) fn failed(&self) -> Said {
        match self.op {
            Op::Lease(_) => Said::Lease(Answer::Failed),
            Op::Write(_) | Op::Read(_) | Op::Record(_) | Op::Copy(_) => Said::Failed,
        }
    }
}
