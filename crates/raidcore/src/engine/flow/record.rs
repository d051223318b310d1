//! The array's record is stored on members and spares.

use alloc::vec::Vec;

use crate::engine::flight::{Flight, Owner};
use crate::engine::wait::Wait;
use crate::engine::{Action, CommandError, Engine, IoError, IoOp, Phase, RequestError};
use crate::meta::{DeviceLabel, MetaPage, SlotState};
use crate::units::{DeviceId, MemberId};

impl Engine {
    /// Tells what people call a device. It is on record from the next change of the record on, and as
    /// long as nothing else is in the device's place; so members' labels are told before the first
    /// step, and those of others before they are given as spares.
    pub fn label(&mut self, device: DeviceId, label: DeviceLabel) {
        self.array.membership.recorder.forget_label(device);
        self.array.membership.recorder.labels.push((device, label));
        if let Some(place) =
            self.array.membership.members.iter().position(|m| m.device == Some(device))
        {
            self.array.membership.recorder.put_label(MemberId::at(place), device);
        }
    }

    /// The record has changed and is to be made durable; returns the version that will be.
    pub(super) fn record_change(&mut self, out: &mut Vec<Action>) -> u64 {
        self.array.membership.recorder.wanted += 1;
        let wanted = self.array.membership.recorder.wanted;
        if self.array.membership.recorder.outstanding == 0
            && !self.array.membership.recorder.second_round
            && !self.array.membership.recorder.broken
        {
            self.start_record(out);
        }
        wanted
    }

    /// A member's failure is to be made durable before writes that it missed are acknowledged.
    pub(super) fn record_failure(&mut self, out: &mut Vec<Action>) {
        // Known to be needed before it is begun: beginning it may meet the next failure.
        self.array.membership.recorder.failure = self.array.membership.recorder.wanted + 1;
        self.record_change(out);
    }

    /// What is written from now on is acknowledged only when this version of the record is durable, as
    /// after a member's failure: until then a start would go by a record that makes something else of it.
    pub(super) fn acknowledge_after(&mut self, version: u64) {
        self.array.membership.recorder.failure =
            self.array.membership.recorder.failure.max(version);
    }

    /// Answers a command when the record is durable.
    pub(super) fn answer_when_recorded(&mut self, number: u64, out: &mut Vec<Action>) {
        if self.array.membership.recorder.broken {
            out.push(Action::Answer { number, result: Err(CommandError::NotRecorded) });
            return;
        }
        // Known before it is begun, as it can end at once.
        self.array
            .membership
            .recorder
            .answers
            .push((self.array.membership.recorder.wanted + 1, number));
        self.record_change(out);
    }

    fn start_record(&mut self, out: &mut Vec<Action>) {
        if let Some(assembled) = self.array.membership.recorder.assembled.take() {
            self.array.membership.recorder.snapshot = assembled;
        } else {
            self.array.membership.recorder.record.events += 1;
            self.array.membership.recorder.snapshot = self.array.membership.recorder.record.clone();
            self.array.membership.recorder.started = self.array.membership.recorder.wanted;
        }
        self.array.membership.recorder.second_round = false;
        self.store_copies([0, 1], out);
    }

    fn store_copies(&mut self, copies: [u8; 2], out: &mut Vec<Action>) {
        self.array.membership.recorder.stored.clear();
        for index in 0..self.array.membership.members.len() + self.array.membership.spares.len() {
            let (member, device) = match index.checked_sub(self.array.membership.members.len()) {
                None => (Some(MemberId::at(index)), self.array.membership.members[index].device),
                Some(spare) => (None, Some(self.array.membership.spares[spare].device)),
            };
            let failed =
                member.is_some_and(|m| self.array.membership.state(m) == SlotState::Failed);
            let Some(device) = device.filter(|_| !failed) else {
                continue;
            };
            for copy in copies {
                self.array.membership.recorder.outstanding += 1;
                self.array.counters.meta_stores += 1;
                let op = Flight::new(Owner::Superblock, member, device);
                let at = self.areas.superblock(copy);
                self.issue(op, IoOp::Store(MetaPage::Superblock { copy }), at, 1, out);
            }
        }
        if self.array.membership.recorder.outstanding == 0 {
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
            (Ok(()), _) => self.array.membership.recorder.stored.push(op.device),
            (Err(why), Some(member)) => {
                if self.array.membership.is_current(&op) && !self.write_failed(member, why, out) {
                    // It can't be left behind, or it would be left out at the next start.
                    self.array.membership.recorder.broken = true;
                }
            }
            (Err(why), None) => match self.array.membership.member_with(op.device) {
                // It was a spare when that began.
                Some(member) => {
                    self.array.membership.recorder.broken |= !self.write_failed(member, why, out)
                }
                None => self.spare_failed(op.device, why, out),
            },
        }
        self.array.membership.recorder.outstanding -= 1;
        if self.array.membership.recorder.outstanding == 0 {
            self.copies_stored(out);
        }
    }

    fn copies_stored(&mut self, out: &mut Vec<Action>) {
        // A device that was a spare when that began may be the member now.
        let is_member = |device: &DeviceId| self.array.membership.member_with(*device).is_some();
        let kept = self.array.membership.recorder.stored.iter().any(is_member);
        let changed =
            self.array.membership.recorder.wanted > self.array.membership.recorder.started;
        if !kept && changed && !self.array.membership.recorder.broken {
            // All that were to have it have failed since; the next version names those that serve now.
            self.array.membership.recorder.second_round = false;
            return self.start_record(out);
        }
        // Nowhere to record it: nothing that waits for it may be acknowledged.
        self.array.membership.recorder.broken |= !kept;
        if !self.array.membership.recorder.broken && !self.array.membership.recorder.second_round {
            self.array.membership.recorder.second_round = true;
            self.store_copies([2, 3], out);
            return;
        }
        self.array.membership.recorder.second_round = false;
        let broken = self.array.membership.recorder.broken;
        let durable = if broken { u64::MAX } else { self.array.membership.recorder.started };
        if !broken {
            self.array.membership.recorder.durable = durable;
        }
        if broken {
            self.range.jobs.fail_waiting(|wait| matches!(wait, Wait::Record(_)));
        } else {
            self.range
                .jobs
                .wake(|wait| matches!(wait, Wait::Record(version) if *version <= durable));
        }
        while let Some(tag) = self.array.flusher.take_recorded(durable) {
            self.complete(tag, broken.then_some(RequestError::Io), out);
        }
        let changed = self.array.membership.recorder.wanted
            > self.array.membership.recorder.started
            && !broken;
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
        while let Some(index) =
            self.array.membership.recorder.answers.iter().position(|(v, _)| *v <= durable)
        {
            let (_, number) = self.array.membership.recorder.answers.remove(index);
            let result = if broken { Err(CommandError::NotRecorded) } else { Ok(()) };
            out.push(Action::Answer { number, result });
        }
    }
}
