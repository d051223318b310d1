//! How I/O ends.

use det::Instant;
use io_uring::opcode;
use raidcore::engine::IoError;

use super::queue::Completion;
use super::watch::Size;
use super::{BELL, CANCELLED, COMMAND, CommandSlot, Completed, Ring};
use crate::arena::Arena;
use crate::members::{Device, Kind};
use crate::ops::{Model, Next, OpId, OpKind, Way};

impl Ring {
    /// Takes in what the kernel has completed.
    pub(super) fn take_completions(&mut self, now: Instant, arena: &mut Arena) {
        loop {
            // Completions that arrive during this loop are not part of it: the check of a file's
            // size, which is made once for all of them, has to be repeated.
            let ready = self.entries.count();
            if ready == 0 {
                return;
            }
            self.turn += 1;
            while let Some(completion) = self.entries.next_completion() {
                self.take_completion(now, completion, arena);
            }
        }
    }

    fn take_completion(&mut self, now: Instant, completion: Completion, arena: &mut Arena) {
        let Completion { name, result } = completion;
        match name {
            CANCELLED | BELL => {}
            bits if bits & COMMAND != 0 => self.completed.push_back(Completed {
                place: CommandSlot((bits >> 16) as u16),
                number: bits as u16,
                result,
            }),
            bits => self.completed(now, OpId::from_bits(bits), result, arena),
        }
    }

    fn completed(&mut self, now: Instant, id: OpId, result: i32, arena: &mut Arena) {
        if self.ops.is_orphan(id) {
            self.retire(id, arena);
            return;
        }
        let op = self.ops.get(id);
        let unknown = matches!(-result, libc::EOPNOTSUPP | libc::ENOSYS);
        let discards = op.kind == OpKind::Discard && unknown;
        // An older kernel does not know the command.
        let trims = op.kind == OpKind::Trim && (unknown || -result == libc::EINVAL);
        let next = if op.asks {
            self.answered(id, result)
        } else if op.named > 0 && (unknown || -result == libc::EINVAL) {
            self.unnamed(id, result)
        } else if op.way == Way::Passthrough {
            self.passed(id, result)
        } else if discards || trims {
            if let Some(member) = &mut self.members[usize::from(op.member.0)] {
                member.keeps_everything |= discards;
                member.is_not_trimmed |= trims;
            }
            Next::Done(Ok(()))
        } else {
            op.progress(result)
        };
        let Next::Done(mut result) = next else {
            self.go(id, arena);
            return;
        };
        let member = self.ops.get(id).member;
        if result.is_ok() && self.has_shrunk(member) {
            result = Err(IoError::Shrunk);
        }
        // A block device that was unplugged has no blocks any more, but keeps its content.
        let member = self.members[usize::from(member.0)].as_ref();
        let block =
            member.map(|member| &member.device).filter(|device| device.kind() == Kind::Block);
        let pulled = match result {
            Err(IoError::Shrunk) => block.is_some(),
            // So a write fails with a lack of space, too.
            Err(IoError::NoSpace) => block.is_some_and(Device::has_shrunk),
            Ok(()) | Err(_) => false,
        };
        if pulled {
            result = Err(IoError::Gone);
        }
        let op = self.ops.get(id);
        if let (OpKind::Read(mem), Ok(())) = (op.kind, result) {
            arena.settle(mem, op.base, op.bytes);
        }
        if result.is_err() || !self.ops.hold(id) {
            self.finish(now, id, result, arena);
        }
    }

    /// Advances the models, and ends the ops that only they had held.
    pub(super) fn poll_drives(&mut self, now: Instant, arena: &mut Arena) {
        let mut all = std::mem::take(&mut self.modelled);
        self.drives.poll(now, &mut all);
        for ended in all.drain(..) {
            let id = OpId::from_bits(ended.tag);
            if self.ops.modelled(id, ended) {
                self.finish(now, id, Ok(()), arena);
            }
        }
        self.modelled = all;
    }

    /// An op has ended.
    fn finish(&mut self, now: Instant, id: OpId, result: Result<(), IoError>, arena: &mut Arena) {
        let op = self.ops.get(id);
        if result.is_ok() {
            let began = op.began;
            if let Model::Ended(ended) = op.model {
                self.drives.count(op, began, ended, now);
            }
            if let Some(member) = &mut self.members[usize::from(op.member.0)] {
                member.stats.add(op.kind, op.bytes, now.0.saturating_sub(began.0));
            }
        }
        self.done.extend(op.names().map(|io| (io, result)));
        self.retire(id, arena);
    }

    /// Asks the kernel to cancel an op.
    pub(super) fn cancel(&mut self, id: OpId) {
        let cancel = opcode::AsyncCancel::new(id.to_bits()).build().user_data(CANCELLED);
        let lane = self.ops.get(id).lane;
        // SAFETY: it names no memory.
        unsafe { self.entries.push(lane, cancel) };
    }

    /// The kernel has ended an op.
    fn retire(&mut self, id: OpId, arena: &mut Arena) {
        let op = self.ops.get(id);
        for &piece in &op.pieces {
            arena.end(piece);
        }
        let (index, looked) = (op.member, op.kind == OpKind::Look);
        self.ops.free(id);
        if let Some(member) = &mut self.members[usize::from(index.0)] {
            member.in_flight -= 1;
            if looked && member.size == Size::Asked(true) {
                member.size = Size::Asked(false);
            }
        }
        self.close_if_idle(index);
    }
}
