//! I/O that goes past the block layer, as commands to NVMe drives.
//!
//! A command that does not end well is carried out again through the block layer, unless its blocks
//! are known to be unreadable. There the kernel's driver tries again what passes, waits for a
//! controller that is reset, and tells what was wrong: errors and time limits are those of block
//! devices.
//!
//! Only what is done for every request goes past the block layer: reads, writes and flushes. Discards
//! and large I/O are split there to the limits of the drive.
#![allow(unsafe_code)]

use io_uring::{opcode, types};
use raidcore::engine::IoError;
use raidcore::units::DeviceId;

use super::opening::passing_file;
use super::{Member, Ring};
use crate::arena::Arena;
use crate::nvme::command::{Data, Ended, ended};
use crate::nvme::placement::Placement;
use crate::nvme::{Command, Passthrough};
use crate::ops::{Next, Op, OpId, OpKind, Way};
use crate::paths::shown;

impl Member {
    /// By which way an op goes that is complete.
    pub(super) fn way(&self, op: &Op) -> Way {
        let takes = |passthrough: &Passthrough| match op.kind {
            OpKind::Read(_) | OpKind::Write { .. } | OpKind::Gather { .. } => {
                passthrough.takes(op.bytes)
            }
            OpKind::Flush => true,
            OpKind::Discard | OpKind::Trim | OpKind::Look => false,
        };
        match self.passthrough() {
            Some(passthrough) if takes(passthrough) => Way::Passthrough,
            Some(_) | None => Way::BlockLayer,
        }
    }

    fn passthrough(&self) -> Option<&Passthrough> {
        self.device.passthrough().filter(|_| self.passes)
    }
}

impl Ring {
    /// Whether a device keeps nothing in volatile memory.
    pub(super) fn needs_no_flush(&self, id: DeviceId) -> bool {
        let member = self.find(id).and_then(|at| self.members[usize::from(at.0)].as_ref());
        member.and_then(Member::passthrough).is_some_and(|passthrough| !passthrough.caches())
    }

    /// Submits an op as a command.
    pub(super) fn pass(&mut self, id: OpId, arena: &mut Arena) {
        let op = self.ops.get(id);
        let index = op.member;
        let member = self.members[usize::from(index.0)].as_ref();
        let known = member.and_then(|it| Some((it.device.passthrough()?, it.placement)));
        let Some((passthrough, placement)) = known else {
            unreachable!("a member stays while there is I/O on it");
        };
        let registered = op.piece().and_then(|piece| {
            self.buffers.of(&mut self.entries, arena, (piece, op.base, op.bytes))
        });
        let lane = op.lane;
        let command = command(op, passthrough, placement);
        #[cfg(test)]
        passthrough.begun().lock().expect("no test has panicked").push(command);
        let Command { code, bytes } = command;
        let command = opcode::UringCmd80::new(types::Fixed(passing_file(index)), code).cmd(bytes);
        let entry = command.buf_index(registered).build().user_data(id.to_bits());
        // SAFETY: as of an op that goes through the block layer.
        unsafe { self.entries.push_large(lane, entry) };
    }

    /// A command has ended.
    pub(super) fn passed(&mut self, id: OpId, result: i32) -> Next {
        let op = self.ops.get(id);
        let ended = ended(result);
        match ended {
            Ended::Done => return Next::Done(Ok(())),
            Ended::Medium => return Next::Done(Err(IoError::Medium)),
            Ended::Unknown | Ended::Otherwise | Ended::Refused => {}
        }
        op.way = Way::BlockLayer;
        if let Some(member) = &mut self.members[usize::from(op.member.0)] {
            let path = shown(member.device.path());
            if ended == Ended::Refused && std::mem::take(&mut member.passes) {
                tracing::warn!(
                    "{path}: I/O goes through the block layer from now on: the kernel refuses \
                     commands with error {}",
                    -result
                );
            } else if ended == Ended::Unknown
                && matches!(op.kind, OpKind::Write { .. } | OpKind::Gather { .. })
                && std::mem::take(&mut member.placement).streams() > 0
            {
                tracing::warn!(
                    "{path}: writes are not kept apart from now on: the drive refuses them with \
                     NVMe status {result:#x}"
                );
            } else {
                tracing::debug!(%path, result, "a command is carried out by the block layer");
            }
        }
        Next::Again
    }
}

/// An op as a command.
fn command(op: &Op, passthrough: &Passthrough, placement: Placement) -> Command {
    let data = Data { address: op.base.expose_provenance() as u64, length: op.bytes as u32 };
    match op.kind {
        OpKind::Read(_) => passthrough.read(op.offset, data),
        OpKind::Write { durable, stream } => {
            passthrough.write(op.offset, data, durable, placement.of(stream))
        }
        OpKind::Gather { stream } => {
            let address = op.iovecs.as_ptr().expose_provenance() as u64;
            let parts = Data { address, length: op.iovecs.len() as u32 };
            passthrough.gather(op.offset, op.bytes, parts, placement.of(stream))
        }
        OpKind::Flush => passthrough.flush(),
        OpKind::Discard | OpKind::Trim | OpKind::Look => {
            unreachable!("{:?} goes through the block layer", op.kind)
        }
    }
}
