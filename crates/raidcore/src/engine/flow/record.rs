//! The array's record is stored on members and spares.

use alloc::vec::Vec;

use crate::engine::flight::{Flight, Owner};
use crate::engine::membership::Next;
use crate::engine::wait::Wait;
use crate::engine::{Action, CommandError, Engine, IoError, IoOp, Phase, RequestError};
use crate::meta::{DeviceLabel, MetaPage};
use crate::units::DeviceId;

impl Engine {
    /// Tells what people call a device. It is on record from the next change of the record on, and as
    /// long as nothing else is in the device's place; so members' labels are told before the first
    /// step, and those of others before they are given as spares.
    pub fn label(&mut self, device: DeviceId, label: DeviceLabel) {
        self.array.membership.recorder.label(device, label);
        if let Some(member) = self.array.membership.member_with(device) {
            self.array.membership.recorder.put_label(member, device);
        }
    }

    /// The record has changed and is to be made durable; returns the version that will be.
    pub(super) fn record_change(&mut self, out: &mut Vec<Action>) -> u64 {
        let (version, begins) = self.array.membership.recorder.change();
        if begins {
            self.start_record(out);
        }
        version
    }

    /// A member's failure is to be made durable before writes that it missed are acknowledged.
    pub(super) fn record_failure(&mut self, out: &mut Vec<Action>) {
        // Known to be needed before it is begun: beginning it may meet the next failure.
        self.array.membership.recorder.acknowledge_after_next();
        self.record_change(out);
    }

    /// Answers a command when the record is durable.
    pub(super) fn answer_when_recorded(&mut self, number: u64, out: &mut Vec<Action>) {
        if self.array.membership.recorder.is_broken() {
            out.push(Action::Answer { number, result: Err(CommandError::NotRecorded) });
            return;
        }
        // Known before it is begun, as it can end at once.
        self.array.membership.recorder.answer_later(number);
        self.record_change(out);
    }

    fn start_record(&mut self, out: &mut Vec<Action>) {
        self.array.membership.recorder.begin();
        self.store_copies(out);
    }

    fn store_copies(&mut self, out: &mut Vec<Action>) {
        let copies = self.array.membership.recorder.begin_copies();
        let mut begun = 0;
        let devices: Vec<_> = self.array.membership.keep_record().collect();
        for (member, device) in devices {
            for copy in copies {
                begun += 1;
                self.array.counters.meta_stores += 1;
                let op = Flight::new(Owner::Superblock, member, device);
                let at = self.areas.superblock(copy);
                self.issue(op, IoOp::Store(MetaPage::Superblock { copy }), at, 1, out);
            }
        }
        if self.array.membership.recorder.begun(begun) {
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
            (Ok(()), _) => self.array.membership.recorder.stored(op.device),
            (Err(why), Some(member)) => {
                if self.array.membership.is_current(&op) && !self.write_failed(member, why, out) {
                    // It can't be left behind, or it would be left out at the next start.
                    self.array.membership.recorder.record_no_more();
                }
            }
            (Err(why), None) => match self.array.membership.member_with(op.device) {
                // It was a spare when that began.
                Some(member) => {
                    if !self.write_failed(member, why, out) {
                        self.array.membership.recorder.record_no_more();
                    }
                }
                None => self.spare_failed(op.device, why, out),
            },
        }
        if self.array.membership.recorder.one_done() {
            self.copies_stored(out);
        }
    }

    fn copies_stored(&mut self, out: &mut Vec<Action>) {
        // A device that was a spare when that began may be the member now.
        let membership = &self.array.membership;
        let is_member = |device| membership.member_with(device).is_some();
        let kept = membership.recorder.holders().any(is_member);
        match self.array.membership.recorder.copies_stored(kept) {
            Next::Version => return self.start_record(out),
            Next::OtherCopies => return self.store_copies(out),
            Next::Ended => {}
        }
        let broken = self.array.membership.recorder.is_broken();
        let over = self.array.membership.recorder.over();
        let is_over = |wait: &Wait| matches!(wait, Wait::Record(version) if *version <= over);
        if broken {
            self.range.jobs.fail_waiting(is_over);
        } else {
            self.range.jobs.wake(is_over);
        }
        while let Some(tag) = self.array.flusher.take_recorded(over) {
            self.complete(tag, broken.then_some(RequestError::Io), out);
        }
        let changed = self.array.membership.recorder.has_changed();
        // A stop is answered when nothing is left to be recorded, nor under way.
        if !(changed && self.phase == Phase::Stopped) {
            while let Some(number) = self.array.membership.recorder.take_answer() {
                let result = if broken { Err(CommandError::NotRecorded) } else { Ok(()) };
                out.push(Action::Answer { number, result });
            }
        }
        self.feed_starved(out);
        if changed {
            self.start_record(out);
        }
    }
}
