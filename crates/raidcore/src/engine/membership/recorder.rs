//! The array's record, made durable on every member and spare.
//!
//! The recorder numbers the record's versions, and knows which one records a failure, and what waits for one.
//!
//! Invariants: one version is written at a time, two copies and then the other two on each device,
//! so that a quorum of the previous or of this version is there at any moment; a version is begun
//! only when the one before is durable everywhere.

use alloc::vec::Vec;

use crate::engine::OnRecord;
use crate::meta::{ArrayRecord, DeviceLabel};
use crate::units::{DeviceId, MemberId};

/// The record, and how far it is durable.
#[derive(Debug)]
pub(in crate::engine) struct Recorder {
    /// As it is to be.
    pub(super) record: ArrayRecord,
    /// As it is being written.
    snapshot: ArrayRecord,
    /// What is durable of it, once anything is.
    on_record: Option<OnRecord>,
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
    /// What was assembled has other maps than the record, and what is on disk of them is to stay as long
    /// as a start may find it.
    replaces_maps: bool,
    /// The version that records the last failure.
    failure: u64,
    /// Commands, each with the version that it is answered with.
    answers: Vec<(u64, u64)>,
    /// What people call devices that may come to be members.
    labels: Vec<(DeviceId, DeviceLabel)>,
}

/// What comes after a round of copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Next {
    /// The next version is to be written.
    Version,
    /// The other copies are.
    OtherCopies,
    /// What waits for the version can go on: it is durable, or nothing will be any more.
    Ended,
}

impl Recorder {
    /// The record of an array that was assembled; `before` is what it was assembled from, if that was
    /// changed since.
    pub(in crate::engine) fn new(record: ArrayRecord, before: Option<ArrayRecord>) -> Self {
        let replaces = |before: &ArrayRecord| before.areas.stripes() != record.areas.stripes();
        Self {
            snapshot: record.clone(),
            on_record: None,
            replaces_maps: before.as_ref().is_some_and(replaces),
            assembled: Some(before.unwrap_or_else(|| record.clone())),
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

    // What is wanted.

    /// The record has changed: the version that will have that, and whether one is to be begun now.
    pub(in crate::engine) fn change(&mut self) -> (u64, bool) {
        self.wanted += 1;
        (self.wanted, self.outstanding == 0 && !self.second_round && !self.broken)
    }

    /// The version that records what has changed since the last one was begun, or will change now.
    pub(in crate::engine) fn next_version(&self) -> u64 {
        self.wanted + 1
    }

    /// What is written from now on is acknowledged only when this version of the record is durable, as
    /// after a member's failure: until then a start would go by a record that makes something else of it.
    pub(in crate::engine) fn acknowledge_after(&mut self, version: u64) {
        self.failure = self.failure.max(version);
    }

    /// The same of the next version.
    pub(in crate::engine) fn acknowledge_after_next(&mut self) {
        self.acknowledge_after(self.next_version());
    }

    /// A command is to be answered when what it changes now is durable.
    pub(in crate::engine) fn answer_later(&mut self, command: u64) {
        self.answers.push((self.next_version(), command));
    }

    /// A command that is to be answered now, if there is one left.
    pub(in crate::engine) fn take_answer(&mut self) -> Option<u64> {
        let is_over = |(version, _): &(u64, u64)| self.broken || *version <= self.durable;
        let index = self.answers.iter().position(is_over)?;
        Some(self.answers.remove(index).1)
    }

    // Writing it.

    /// A version is begun: first that which was assembled, then what is wanted now.
    pub(in crate::engine) fn begin(&mut self) {
        if let Some(assembled) = self.assembled.take() {
            self.snapshot = assembled;
        } else {
            self.record.events += 1;
            self.snapshot = self.record.clone();
            self.started = self.wanted;
        }
        self.second_round = false;
    }

    /// The version that is being written.
    pub(in crate::engine) fn snapshot(&self) -> &ArrayRecord {
        &self.snapshot
    }

    /// The copies that are written in this round.
    pub(in crate::engine) fn begin_copies(&mut self) -> [u8; 2] {
        self.stored.clear();
        if self.second_round { [2, 3] } else { [0, 1] }
    }

    /// So many copies are being stored; returns whether there is no device left for any.
    pub(in crate::engine) fn begun(&mut self, copies: u32) -> bool {
        self.outstanding = copies;
        copies == 0
    }

    /// A device has stored a copy.
    pub(in crate::engine) fn stored(&mut self, device: DeviceId) {
        self.stored.push(device);
    }

    /// A store has ended; returns whether that was the last one of the round.
    pub(in crate::engine) fn one_done(&mut self) -> bool {
        self.outstanding -= 1;
        self.outstanding == 0
    }

    /// The devices that have stored copies in this round.
    pub(in crate::engine) fn holders(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.stored.iter().copied()
    }

    /// A round of copies has ended. `kept` is whether some member has stored them.
    pub(in crate::engine) fn copies_stored(&mut self, kept: bool) -> Next {
        if !kept && self.has_changed() {
            // All that were to have it have failed since; the next version names those that serve now.
            return Next::Version;
        }
        // Nowhere to record it: nothing that waits for it may be acknowledged.
        self.broken |= !kept;
        if !self.broken && !self.second_round {
            self.second_round = true;
            return Next::OtherCopies;
        }
        self.second_round = false;
        if !self.broken {
            self.durable = self.started;
            self.on_record = Some(OnRecord::of(&self.snapshot));
        }
        Next::Ended
    }

    /// Whether another version is to be written after the one that was begun last.
    pub(in crate::engine) fn has_changed(&self) -> bool {
        self.wanted > self.started && !self.broken
    }

    // How far it is durable.

    /// Whether all changes are durable.
    pub(in crate::engine) fn is_durable(&self) -> bool {
        self.durable == self.wanted
    }

    /// What is durable of it; nothing before any version is.
    pub(in crate::engine) fn on_record(&self) -> Option<&OnRecord> {
        self.on_record.as_ref()
    }

    /// Whether this version is durable, or one after it.
    pub(in crate::engine) fn is_on_record(&self, version: u64) -> bool {
        self.durable >= version
    }

    /// What waits for a version up to this one need not wait any more.
    pub(in crate::engine) fn over(&self) -> u64 {
        if self.broken { u64::MAX } else { self.durable }
    }

    /// Whether a start may find the record from before that has other maps, so that pages of its bitmap
    /// and zero map must not be overwritten.
    pub(in crate::engine) fn keeps_former_maps(&self) -> bool {
        self.replaces_maps && self.durable == 0
    }

    /// The version that records a failure which is not yet durable.
    pub(in crate::engine) fn unrecorded_failure(&self) -> Option<u64> {
        (self.failure > self.durable).then_some(self.failure)
    }

    /// Nothing is to be recorded any more, so that the next start finds everything as it is.
    pub(in crate::engine) fn record_no_more(&mut self) {
        self.broken = true;
    }

    /// Whether nothing can be recorded any more.
    pub(in crate::engine) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether all changes are durable, or never will be.
    pub(in crate::engine) fn is_settled(&self) -> bool {
        self.is_durable() || self.broken
    }

    // Labels.

    /// What people call a device.
    pub(in crate::engine) fn label(&mut self, device: DeviceId, label: DeviceLabel) {
        self.forget_label(device);
        self.labels.push((device, label));
    }

    /// The label of whatever device is in a place from now on.
    pub(in crate::engine) fn put_label(&mut self, place: MemberId, device: DeviceId) {
        let known = self.labels.iter().find(|(other, _)| *other == device);
        self.record.set_label(place, known.map_or(DeviceLabel::NONE, |&(_, label)| label));
    }

    /// A device has left: its number is not used again.
    pub(in crate::engine) fn forget_label(&mut self, device: DeviceId) {
        self.labels.retain(|(other, _)| *other != device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Level, Placement};
    use crate::meta::{ArrayId, Consistency, DeviceUuid, JOURNAL_BLOCKS, NewArray};

    fn record() -> ArrayRecord {
        let new = NewArray {
            array: ArrayId([7; 16]),
            name: "record".into(),
            created: 5,
            level: Level::Raid5,
            placement: Placement::of(Level::Raid5),
            chunk: 4,
            consistency: Consistency::Journal,
            devices: (1..=3).map(|member| DeviceUuid([member; 16])).collect(),
            journal_blocks: JOURNAL_BLOCKS,
            staging_blocks: 0,
            staging_devices: Vec::new(),
            staging_device_blocks: 0,
            distributed_spare: false,
            member_blocks: alloc::vec![200_000; 4],
        };
        new.record().expect("it is possible")
    }

    /// Writes a round of copies to two devices, the first of which is a member's.
    fn round(recorder: &mut Recorder, copies: [u8; 2], kept: bool) -> Next {
        assert_eq!(recorder.begin_copies(), copies);
        assert!(!recorder.begun(2));
        recorder.stored(DeviceId(1));
        assert!(!recorder.one_done() && recorder.one_done());
        recorder.copies_stored(kept)
    }

    /// Writes both rounds of a version that was begun.
    fn write(recorder: &mut Recorder) {
        recorder.begin();
        assert_eq!(round(recorder, [0, 1], true), Next::OtherCopies);
        assert_eq!(round(recorder, [2, 3], true), Next::Ended);
    }

    #[test]
    fn what_was_assembled_is_level_everywhere_before_it_is_changed() {
        let mut recorder = Recorder::new(record(), None);
        let events = recorder.record.events;
        recorder.record.epoch += 1;
        assert_eq!(recorder.change(), (1, true));
        write(&mut recorder);
        assert_eq!((recorder.snapshot().events, recorder.is_durable()), (events, false));
        assert!(recorder.has_changed());
        write(&mut recorder);
        assert_eq!(recorder.snapshot().events, events + 1);
        assert!(recorder.is_durable() && recorder.is_on_record(1) && !recorder.has_changed());
    }

    #[test]
    fn a_change_during_a_version_is_in_the_next_one() {
        let mut recorder = Recorder::new(record(), None);
        write(&mut recorder);
        recorder.answer_later(10);
        recorder.change();
        recorder.begin();
        assert_eq!(round(&mut recorder, [0, 1], true), Next::OtherCopies);
        recorder.answer_later(11);
        recorder.acknowledge_after_next();
        assert_eq!(recorder.change(), (2, false), "copies are being written");
        assert_eq!(round(&mut recorder, [2, 3], true), Next::Ended);
        assert_eq!((recorder.take_answer(), recorder.take_answer()), (Some(10), None));
        assert_eq!(recorder.unrecorded_failure(), Some(2));
        write(&mut recorder);
        assert_eq!((recorder.take_answer(), recorder.unrecorded_failure()), (Some(11), None));
    }

    #[test]
    fn a_version_that_no_member_has_breaks_the_record_unless_another_one_is_to_be_written() {
        let mut recorder = Recorder::new(record(), None);
        write(&mut recorder);
        recorder.change();
        recorder.begin();
        recorder.change();
        assert_eq!(round(&mut recorder, [0, 1], false), Next::Version);
        recorder.begin();
        recorder.answer_later(7);
        assert_eq!(round(&mut recorder, [0, 1], false), Next::Ended);
        assert!(recorder.is_broken() && recorder.is_settled() && !recorder.is_durable());
        assert_eq!((recorder.over(), recorder.take_answer()), (u64::MAX, Some(7)));
        assert!(!recorder.change().1, "nothing is recorded any more");
    }
}
