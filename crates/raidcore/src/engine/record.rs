//! The array's record, made durable on every member and spare.
//!
//! Invariants: one version is written at a time, two copies and then the other two on each device,
//! so that a quorum of the previous or of this version is there at any moment; a version is begun
//! only when the one before is durable everywhere.

use alloc::vec::Vec;

use super::flight::{Flight, Owner};
use super::wait::Wait;
use super::{Action, CommandError, Engine, IoError, IoOp, Phase, RequestError};
use crate::meta::{ArrayRecord, DeviceLabel, MetaPage, SlotState};
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
    assembled: Option<ArrayRecord>,
    wanted: u64,
    started: u64,
    durable: u64,
    second_round: bool,
    outstanding: u32,
    /// The devices that have stored the copies.
    stored: Vec<DeviceId>,
    broken: bool,
    failure: u64,
    answers: Vec<(u64, u64)>,
    /// What people call devices that may come to be members.
    labels: Vec<(DeviceId, DeviceLabel)>,
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

impl Engine {
    /// Tells what people call a device. It is on record from the next change of the record on, and as
    /// long as nothing else is in the device's place; so members' labels are told before the first
    /// step, and those of others before they are given as spares.
    pub fn label(&mut self, device: DeviceId, label: DeviceLabel) {
        self.array.recorder.forget_label(device);
        self.array.recorder.labels.push((device, label));
        if let Some(place) = self.array.members.iter().position(|m| m.device == Some(device)) {
            self.array.recorder.put_label(MemberId::at(place), device);
        }
    }

    /// The record has changed and is to be made durable; returns the version that will be.
    pub(super) fn record_change(&mut self, out: &mut Vec<Action>) -> u64 {
        self.array.recorder.wanted += 1;
        let wanted = self.array.recorder.wanted;
        if self.array.recorder.outstanding == 0
            && !self.array.recorder.second_round
            && !self.array.recorder.broken
        {
            self.start_record(out);
        }
        wanted
    }

    /// A member's failure is to be made durable before writes that it missed are acknowledged.
    pub(super) fn record_failure(&mut self, out: &mut Vec<Action>) {
        // Known to be needed before it is begun: beginning it may meet the next failure.
        self.array.recorder.failure = self.array.recorder.wanted + 1;
        self.record_change(out);
    }

    /// What is written from now on is acknowledged only when this version of the record is durable, as
    /// after a member's failure: until then a start would go by a record that makes something else of it.
    pub(super) fn acknowledge_after(&mut self, version: u64) {
        self.array.recorder.failure = self.array.recorder.failure.max(version);
    }

    /// Answers a command when the record is durable.
    pub(super) fn answer_when_recorded(&mut self, number: u64, out: &mut Vec<Action>) {
        if self.array.recorder.broken {
            out.push(Action::Answer { number, result: Err(CommandError::NotRecorded) });
            return;
        }
        // Known before it is begun, as it can end at once.
        self.array.recorder.answers.push((self.array.recorder.wanted + 1, number));
        self.record_change(out);
    }

    fn start_record(&mut self, out: &mut Vec<Action>) {
        if let Some(assembled) = self.array.recorder.assembled.take() {
            self.array.recorder.snapshot = assembled;
        } else {
            self.array.recorder.record.events += 1;
            self.array.recorder.snapshot = self.array.recorder.record.clone();
            self.array.recorder.started = self.array.recorder.wanted;
        }
        self.array.recorder.second_round = false;
        self.store_copies([0, 1], out);
    }

    fn store_copies(&mut self, copies: [u8; 2], out: &mut Vec<Action>) {
        self.array.recorder.stored.clear();
        for index in 0..self.array.members.len() + self.array.spares.len() {
            let (member, device) = match index.checked_sub(self.array.members.len()) {
                None => (Some(MemberId::at(index)), self.array.members[index].device),
                Some(spare) => (None, Some(self.array.spares[spare].device)),
            };
            let failed = member.is_some_and(|m| self.array.state(m) == SlotState::Failed);
            let Some(device) = device.filter(|_| !failed) else {
                continue;
            };
            for copy in copies {
                self.array.recorder.outstanding += 1;
                self.counters.meta_stores += 1;
                let op = Flight::new(Owner::Superblock, member, device);
                let at = self.areas.superblock(copy);
                self.issue(op, IoOp::Store(MetaPage::Superblock { copy }), at, 1, out);
            }
        }
        if self.array.recorder.outstanding == 0 {
            self.copies_stored(out);
        }
    }

    pub(super) fn superblock_done(
        &mut self,
        op: Flight,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        match (result, op.member) {
            (Ok(()), _) => self.array.recorder.stored.push(op.device),
            (Err(why), Some(member)) => {
                if self.array.is_current(&op) && !self.write_failed(member, why, out) {
                    // It can't be left behind, or it would be left out at the next start.
                    self.array.recorder.broken = true;
                }
            }
            (Err(why), None) => match self.array.member_with(op.device) {
                // It was a spare when that began.
                Some(member) => self.array.recorder.broken |= !self.write_failed(member, why, out),
                None => self.spare_failed(op.device, why, out),
            },
        }
        self.array.recorder.outstanding -= 1;
        if self.array.recorder.outstanding == 0 {
            self.copies_stored(out);
        }
    }

    fn copies_stored(&mut self, out: &mut Vec<Action>) {
        // A device that was a spare when that began may be the member now.
        let is_member = |device: &DeviceId| self.array.member_with(*device).is_some();
        let kept = self.array.recorder.stored.iter().any(is_member);
        let changed = self.array.recorder.wanted > self.array.recorder.started;
        if !kept && changed && !self.array.recorder.broken {
            // All that were to have it have failed since; the next version names those that serve now.
            self.array.recorder.second_round = false;
            return self.start_record(out);
        }
        // Nowhere to record it: nothing that waits for it may be acknowledged.
        self.array.recorder.broken |= !kept;
        if !self.array.recorder.broken && !self.array.recorder.second_round {
            self.array.recorder.second_round = true;
            self.store_copies([2, 3], out);
            return;
        }
        self.array.recorder.second_round = false;
        let broken = self.array.recorder.broken;
        let durable = if broken { u64::MAX } else { self.array.recorder.started };
        if !broken {
            self.array.recorder.durable = durable;
        }
        if broken {
            self.jobs.fail_waiting(|wait| matches!(wait, Wait::Record(_)));
        } else {
            self.jobs.wake(|wait| matches!(wait, Wait::Record(version) if *version <= durable));
        }
        self.failures_recorded(durable, broken.then_some(RequestError::Io), out);
        let changed = self.array.recorder.wanted > self.array.recorder.started && !broken;
        // A stop is answered when nothing is left to be recorded, nor under way.
        if !(changed && self.phase == Phase::Stopped) {
            self.answer_recorded(durable, broken, out);
        }
        self.feed_starved(out);
        if changed {
            self.start_record(out);
        }
    }

    fn answer_recorded(&mut self, durable: u64, broken: bool, out: &mut Vec<Action>) {
        while let Some(index) = self.array.recorder.answers.iter().position(|(v, _)| *v <= durable)
        {
            let (_, number) = self.array.recorder.answers.remove(index);
            let result = if broken { Err(CommandError::NotRecorded) } else { Ok(()) };
            out.push(Action::Answer { number, result });
        }
    }
}
