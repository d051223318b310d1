//! Member files that are cut off while in use.
//!
//! The data behind the new end is gone. A later write there leaves a hole that reads as zeros,
//! which would be taken for good data. But such a write does not restore the file's length, unless
//! it ends where the file did. So a file that is smaller than when it was opened has lost data. Its
//! size is checked after I/O before the end is reported, once for all completions of a pass, and
//! before a write that ends with the file. A member without I/O is checked from time to time.
//!
//! The size of a file that is not on a local file system (FUSE, NFS and the like) is queried by the
//! kernel's workers, like any other I/O: a member that does not answer hangs. That is done from
//! time to time, and before a write that ends with the file, but not for each I/O, which would take
//! twice as long.
//!
//! Invariant: no I/O on a local file that was cut off before is reported as done, as long as only
//! this ring makes the file longer again.
#![allow(unsafe_code)]

use std::time::Duration;

use det::Instant;
use raidcore::engine::IoError;
use raidcore::units::DeviceId;
use rustix::fs::{Statx, StatxFlags};

use super::{MemberIndex, Ring};
use crate::arena::Arena;
use crate::members::Device;
use crate::ops::{Next, OpId, OpKind};
use crate::paths::shown;

/// How often members without I/O are checked.
const EVERY: Duration = Duration::from_secs(5);

/// The state of a member's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    /// It can't change.
    Unwatched,
    /// It was right at the last query; and whether a query is under way.
    Asked(bool),
    /// It was right in this pass.
    Right(u64),
    /// It is smaller than it was.
    Shrunk,
}

impl Size {
    /// That of a device that has just been opened.
    pub(super) fn of(device: &Device) -> Self {
        if device.can_be_watched() {
            Self::Right(0)
        } else if device.has_to_be_asked() {
            Self::Asked(false)
        } else {
            Self::Unwatched
        }
    }
}

impl Ring {
    /// Checks a member before a write that could restore its length: afterwards the loss could not
    /// be seen. Tells whether its size has to be queried.
    ///
    /// # Errors
    /// If it has shrunk.
    pub(super) fn look_before(
        &mut self,
        index: MemberIndex,
        offset: u64,
        bytes: usize,
    ) -> Result<bool, IoError> {
        let Some(member) = &self.members[usize::from(index.0)] else { return Ok(false) };
        if !member.device.ends_with(offset, bytes) {
            return Ok(false);
        }
        let asks = matches!(member.size, Size::Asked(_));
        self.turn += 1;
        if self.has_shrunk(index) { Err(IoError::Shrunk) } else { Ok(asks) }
    }

    /// Memory for a member's answer.
    pub(super) fn make_room_for_answer(&mut self, arena: &mut Arena, id: OpId) {
        let page = arena.take_pages(1);
        arena.begin(page);
        let op = self.ops.get(id);
        op.answer = arena.base(page);
        op.pieces.push(page);
    }

    /// The size of a file was queried. An error says nothing about it.
    pub(super) fn answered(&mut self, id: OpId, result: i32) -> Next {
        let op = self.ops.get(id);
        op.asks = false;
        let (index, looks) = (op.member, op.kind == OpKind::Look);
        // SAFETY: it is a page of the arena's that is this op's, and that the kernel has let go of;
        // any bytes are such a structure.
        let answer = unsafe { op.answer.cast::<Statx>().read() };
        let told = result == 0 && answer.stx_mask & StatxFlags::SIZE.bits() != 0;
        if let Some(member) = &self.members[usize::from(index.0)]
            && told
            && member.device.is_longer_than(answer.stx_size)
        {
            self.has_lost_something(index);
            return Next::Done(Err(IoError::Shrunk));
        }
        if looks { Next::Done(Ok(())) } else { Next::Again }
    }

    fn has_lost_something(&mut self, index: MemberIndex) {
        let Some(member) = &mut self.members[usize::from(index.0)] else { return };
        if member.size == Size::Shrunk {
            return;
        }
        tracing::error!(
            path = %shown(member.device.path()),
            "the file is smaller than it was when it was opened; it is not used any more"
        );
        member.size = Size::Shrunk;
        self.gone.push(member.id);
    }

    /// Whether a member is known to have shrunk.
    pub(super) fn has_shrunk(&mut self, index: MemberIndex) -> bool {
        let turn = self.turn;
        let Some(member) = &mut self.members[usize::from(index.0)] else { return false };
        match member.size {
            Size::Unwatched | Size::Asked(_) => false,
            Size::Shrunk => true,
            Size::Right(at) if at == turn => false,
            Size::Right(_) if member.device.has_shrunk() => {
                self.has_lost_something(index);
                true
            }
            Size::Right(_) => {
                member.size = Size::Right(turn);
                false
            }
        }
    }

    /// A device that has lost data; each is returned once.
    pub(crate) fn next_gone(&mut self) -> Option<DeviceId> {
        self.gone.pop()
    }

    /// Checks all members, if it is time.
    pub(super) fn watch(&mut self, now: Instant, arena: &mut Arena) {
        if self.next_watch.is_none_or(|at| now < at) {
            return;
        }
        self.turn += 1;
        for index in 0..self.members.len() {
            let index = MemberIndex(index as u16);
            self.has_shrunk(index);
            self.ask(now, arena, index);
        }
        self.plan_watch(now);
    }

    /// Queries a member's size, unless a query is under way.
    fn ask(&mut self, now: Instant, arena: &mut Arena, index: MemberIndex) {
        let Some(member) = &mut self.members[usize::from(index.0)] else { return };
        if member.size != Size::Asked(false) || member.released {
            return;
        }
        member.size = Size::Asked(true);
        let id = self.add(now, None, index, OpKind::Look);
        self.ops.get(id).asks = true;
        self.make_room_for_answer(arena, id);
        self.go(id, arena);
    }

    /// Computes when to check members next.
    pub(super) fn plan_watch(&mut self, now: Instant) {
        let watched = |size| matches!(size, Size::Right(_) | Size::Asked(_));
        let any = self.members.iter().flatten().any(|member| watched(member.size));
        self.next_watch = any.then(|| now + EVERY);
    }
}
