//! The array's record, made durable on every member and spare.
//!
//! Invariants: one version is written at a time, two copies and then the other two on each device,
//! so that a quorum of the previous or of this version is there at any moment; a version is begun
//! only when the one before is durable everywhere.

use alloc::vec::Vec;

use crate::meta::{ArrayRecord, DeviceLabel};
use crate::units::{DeviceId, MemberId};

/// The record, and how far it is durable.
#[derive(Debug)]
pub(super) struct Recorder {
    /// As it is to be.
    pub(super) record: ArrayRecord,
    /// As it is being written.
    pub(super) snapshot: ArrayRecord,
    /// As it was assembled, until it is on all members: those that a crash has left one change
    /// behind must not fall behind by two.
    pub(super) assembled: Option<ArrayRecord>,
    pub(super) wanted: u64,
    pub(super) started: u64,
    pub(super) durable: u64,
    pub(super) second_round: bool,
    pub(super) outstanding: u32,
    /// The devices that have stored the copies.
    pub(super) stored: Vec<DeviceId>,
    pub(super) broken: bool,
    pub(super) failure: u64,
    pub(super) answers: Vec<(u64, u64)>,
    /// What people call devices that may come to be members.
    pub(super) labels: Vec<(DeviceId, DeviceLabel)>,
}

impl Recorder {
    pub(super) fn new(record: ArrayRecord) -> Self {
        Self {
            snapshot: record.clone(),
            assembled: Some(record.clone()),
            record,
            wanted: 0,
            started: 0,
            durable: 0,
            second_round: false,
            outstanding: 0,
            stored: Vec::new(),
            broken: false,
            failure: 0,
            answers: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Whether all changes are durable.
    pub(super) fn is_durable(&self) -> bool {
        self.durable == self.wanted
    }

    /// Whether this version is durable, or one after it.
    pub(super) fn is_on_record(&self, version: u64) -> bool {
        self.durable >= version
    }

    /// The version that records what has changed since the last one was begun, or will change now.
    pub(super) fn next_version(&self) -> u64 {
        self.wanted + 1
    }

    /// The version that records a failure which is not yet durable.
    pub(super) fn unrecorded_failure(&self) -> Option<u64> {
        (self.failure > self.durable).then_some(self.failure)
    }

    /// The label of whatever device is in a place from now on.
    pub(super) fn put_label(&mut self, place: MemberId, device: DeviceId) {
        let known = self.labels.iter().find(|(other, _)| *other == device);
        self.record.set_label(place, known.map_or(DeviceLabel::NONE, |&(_, label)| label));
    }

    /// A device has left: its number is not used again.
    pub(super) fn forget_label(&mut self, device: DeviceId) {
        self.labels.retain(|(other, _)| *other != device);
    }

    /// Nothing is to be recorded any more, so that the next start finds everything as it is.
    pub(super) fn record_no_more(&mut self) {
        self.broken = true;
    }

    /// Whether nothing can be recorded any more.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether all changes are durable, or never will be.
    pub(super) fn is_settled(&self) -> bool {
        self.is_durable() || self.broken
    }
}
