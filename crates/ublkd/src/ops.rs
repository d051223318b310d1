//! The table of I/Os in the kernel.
//!
//! Invariants:
//! - An op has at most one entry in the kernel (or on its way there), and its slot is freed only
//!   after that entry's completion: a completion always finds its op.
//! - An op that succeeded on a modelled SSD is *held* until the model has ended it, too.
//! - The engine gets the result of an op once: at its end, or when it is given up. Then it is an
//!   *orphan*, whose late completion only frees it.
//! - A durable write to a device that doesn't honour the flag is a write and then a flush, as one
//!   op: it ends with the flush.

use det::Instant;
use flashsim::real::Ended;
use raidcore::engine::{IoError, IoId, Stream};
use raidcore::units::Mem;
use raidlog::GroupId;

use crate::arena::PieceId;
use crate::open_members::{MemberIndex, Members};

/// Names an I/O of the array, or of one of the arrays below a log volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IoName {
    /// Whose; the first where there is only one.
    pub(crate) group: GroupId,
    /// The engine's name for it.
    pub(crate) id: IoId,
}

/// What an op does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpKind {
    /// Device to memory.
    Read(Mem),
    /// Memory to device.
    Write {
        /// Durable when it completes.
        durable: bool,
        /// What it is of.
        stream: Stream,
    },
    /// Memory to device, from several places; durable when it completes.
    Gather {
        /// What it is of.
        stream: Stream,
    },
    /// What was written becomes durable.
    Flush,
    /// A range is given back, and reads as zeros.
    Discard,
    /// A range of a block device is given back, and may read as anything.
    Trim,
    /// Query the length of the file.
    Look,
}

/// An I/O that is with the kernel.
pub(crate) struct Op {
    generation: u32,
    state: State,
    /// The I/O that ends with it; none if it is an op of the ring itself.
    io: Option<IoName>,
    /// Other I/Os that end with it.
    pub(crate) others: Vec<IoName>,
    pub(crate) member: MemberIndex,
    pub(crate) kind: OpKind,
    /// The memory of a read or write.
    pub(crate) base: *mut u8,
    /// Where on the device, in bytes.
    pub(crate) offset: u64,
    /// How much in all, in bytes.
    pub(crate) bytes: usize,
    /// How much of it is done.
    pub(crate) done: usize,
    /// When it was begun.
    pub(crate) began: Instant,
    /// The pieces of memory that it touches.
    pub(crate) pieces: Vec<PieceId>,
    /// What is left of a gather, in bytes from `done` on. `iovecs[first..]` are in use.
    pub(crate) iovecs: Vec<libc::iovec>,
    pub(crate) first: usize,
    pub(crate) model: Model,
    pub(crate) way: Way,
    /// The thread's ring that has it.
    pub(crate) lane: Lane,
    pub(crate) sync: Sync,
    /// The write stream that its entry names; 0 is none.
    pub(crate) named: u8,
    /// Whether the kernel is asked for the file's length, first or only.
    pub(crate) asks: bool,
    /// Where the answer goes, in one of the pieces.
    pub(crate) answer: *mut u8,
}

/// One of the ring's ways to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lane(pub(crate) u8);

impl Lane {
    /// The array's thread itself.
    pub(crate) const OWN: Self = Self(0);
}

/// By which way an op goes to its device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// As I/O on a file.
    BlockLayer,
    /// As a command to an NVMe drive.
    Passthrough,
}

/// What a durable write needs besides the write itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sync {
    /// Nothing; the write itself may be durable.
    None,
    /// A flush after the write.
    Due,
    /// That flush, which is under way.
    Busy,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Flying,
    /// The kernel has ended it; the model has not.
    Held,
    Orphan,
}

/// Whether the model of an SSD has ended an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Model {
    /// The device is not modelled.
    None,
    /// It has not ended it.
    Busy,
    /// It has ended it.
    Ended(Ended),
}

/// What to do after a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Continue in the kernel: the rest, or the flush that makes it durable.
    Again,
    /// It has ended.
    Done(Result<(), IoError>),
}

impl Op {
    /// The I/Os that end with it.
    pub(crate) fn names(&self) -> impl Iterator<Item = IoName> {
        self.io.into_iter().chain(self.others.iter().copied())
    }

    /// The piece of a read or write; only this can be a registered buffer.
    pub(crate) fn piece(&self) -> Option<PieceId> {
        let in_one = matches!(self.kind, OpKind::Read(_) | OpKind::Write { .. });
        self.pieces.first().copied().filter(|_| in_one)
    }

    /// Takes the kernel's result: bytes done, or a negative errno.
    pub(crate) fn progress(&mut self, result: i32) -> Next {
        let Ok(bytes) = usize::try_from(result) else {
            return match result.unsigned_abs() as i32 {
                // A lack of memory passes; if it does not, the time limit applies.
                libc::EAGAIN | libc::EINTR | libc::ENOMEM => Next::Again,
                errno => Next::Done(Err(error(errno))),
            };
        };
        match self.kind {
            OpKind::Flush | OpKind::Discard | OpKind::Trim | OpKind::Look => {
                return Next::Done(Ok(()));
            }
            OpKind::Write { .. } | OpKind::Gather { .. } if self.sync == Sync::Busy => {
                return Next::Done(Ok(()));
            }
            OpKind::Read(_) | OpKind::Write { .. } | OpKind::Gather { .. } => {}
        }
        if bytes == 0 {
            // A read beyond the end of a file that was long enough when it was opened: it has
            // shrunk.
            return Next::Done(Err(IoError::Shrunk));
        }
        self.done = (self.done + bytes).min(self.bytes);
        if self.done == self.bytes {
            if self.sync == Sync::Due {
                self.sync = Sync::Busy;
                return Next::Again;
            }
            return Next::Done(Ok(()));
        }
        if matches!(self.kind, OpKind::Gather { .. }) {
            self.skip(bytes);
        }
        Next::Again
    }

    /// Takes `bytes` bytes off the front of the gather.
    fn skip(&mut self, mut bytes: usize) {
        while let Some(iovec) = self.iovecs.get_mut(self.first) {
            let taken = bytes.min(iovec.iov_len);
            iovec.iov_base = iovec.iov_base.wrapping_byte_add(taken);
            iovec.iov_len -= taken;
            bytes -= taken;
            if iovec.iov_len > 0 {
                return;
            }
            self.first += 1;
        }
    }
}

/// The meaning of an errno for a device.
pub(crate) fn error(errno: i32) -> IoError {
    match errno {
        libc::EIO | libc::ENODATA | libc::EILSEQ | libc::EREMOTEIO => IoError::Medium,
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => IoError::NoSpace,
        // ENODEV, ENXIO, EBADF, ESHUTDOWN, ETIMEDOUT; and any other error of an operation that
        // every device supports.
        _ => IoError::Gone,
    }
}

/// See the [module](self).
pub(crate) struct Ops {
    slots: Vec<Op>,
    free: Vec<u32>,
    flying: usize,
}

/// Names an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpId {
    index: u32,
    generation: u32,
}

impl OpId {
    /// As a number for the kernel, below 2⁶³: larger numbers are for other uses.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// What [`OpId::to_bits`] gave.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

impl Ops {
    /// A table with room for `room` ops; it grows if it must.
    pub(crate) fn new(room: usize) -> Self {
        Self { slots: Vec::with_capacity(room), free: Vec::with_capacity(room), flying: 0 }
    }

    /// A new op. Its lists are empty.
    pub(crate) fn add(
        &mut self,
        io: Option<IoName>,
        member: MemberIndex,
        kind: OpKind,
        began: Instant,
    ) -> OpId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Op {
                generation: 0,
                state: State::Free,
                io,
                others: Vec::new(),
                member,
                kind,
                base: std::ptr::null_mut(),
                offset: 0,
                bytes: 0,
                done: 0,
                began,
                pieces: Vec::new(),
                iovecs: Vec::new(),
                first: 0,
                model: Model::None,
                way: Way::BlockLayer,
                lane: Lane::OWN,
                sync: Sync::None,
                named: 0,
                asks: false,
                answer: std::ptr::null_mut(),
            });
            (self.slots.len() - 1) as u32
        });
        let op = &mut self.slots[index as usize];
        assert!(op.state == State::Free, "the free list held an op in flight");
        op.state = State::Flying;
        (op.io, op.member, op.kind, op.began) = (io, member, kind, began);
        (op.base, op.offset, op.bytes, op.done) = (std::ptr::null_mut(), 0, 0, 0);
        op.others.clear();
        op.pieces.clear();
        op.iovecs.clear();
        (op.first, op.model, op.sync, op.named) = (0, Model::None, Sync::None, 0);
        (op.way, op.lane) = (Way::BlockLayer, Lane::OWN);
        (op.asks, op.answer) = (false, std::ptr::null_mut());
        self.flying += usize::from(io.is_some());
        OpId { index, generation: op.generation }
    }

    /// The op of that name.
    ///
    /// # Panics
    /// If it has been freed.
    pub(crate) fn get(&mut self, id: OpId) -> &mut Op {
        let op = &mut self.slots[id.index as usize];
        assert!(op.generation == id.generation && op.state != State::Free, "a stale op {id:?}");
        op
    }

    /// The op of that name, unless it has been freed.
    pub(crate) fn find(&mut self, id: OpId) -> Option<&mut Op> {
        let op = self.slots.get_mut(id.index as usize)?;
        (op.generation == id.generation && op.state != State::Free).then_some(op)
    }

    /// The kernel has ended it: it is held if the model has not. Tells whether it is held.
    pub(crate) fn hold(&mut self, id: OpId) -> bool {
        let op = self.get(id);
        let held = op.model == Model::Busy;
        if held {
            op.state = State::Held;
        }
        held
    }

    /// The model has ended it. Tells whether the kernel had before.
    pub(crate) fn modelled(&mut self, id: OpId, ended: Ended) -> bool {
        // An op that failed is gone, and its slot may be reused.
        let Some(op) = self.find(id) else { return false };
        op.model = Model::Ended(ended);
        op.state == State::Held
    }

    /// How many ops the kernel has ended and a model has not.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.slots.iter().filter(|op| op.state == State::Held).count()
    }

    /// Whether it was given up.
    pub(crate) fn is_orphan(&mut self, id: OpId) -> bool {
        self.get(id).state == State::Orphan
    }

    /// The kernel has ended it.
    pub(crate) fn free(&mut self, id: OpId) {
        let op = self.get(id);
        let flying = op.state != State::Orphan && op.io.is_some();
        op.state = State::Free;
        op.generation = (op.generation + 1) & (u32::MAX >> 1);
        self.flying -= usize::from(flying);
        self.free.push(id.index);
    }

    /// Gives up an op of a member, if there is one; it becomes an orphan.
    pub(crate) fn give_up(&mut self, member: MemberIndex) -> Option<OpId> {
        let lost = |op: &Op| op.state == State::Flying && op.member == member;
        let index = self.slots.iter().position(lost)?;
        let op = &mut self.slots[index];
        op.state = State::Orphan;
        self.flying -= usize::from(op.io.is_some());
        Some(OpId { index: index as u32, generation: op.generation })
    }

    /// The members with ops that have been in the kernel since `before` or longer; and the begin of
    /// the oldest of the other ops.
    pub(crate) fn oldest(&self, before: Option<Instant>) -> (Members, Option<Instant>) {
        let (mut silent, mut oldest) = (Members::default(), None);
        for op in self.slots.iter().filter(|op| op.state == State::Flying) {
            if before.is_some_and(|before| op.began <= before) {
                silent.insert(op.member.0);
            } else {
                oldest = oldest.into_iter().chain([op.began]).min();
            }
        }
        (silent, oldest)
    }

    /// How many ops the engine waits for.
    pub(crate) fn flying(&self) -> usize {
        self.flying
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN: Instant = Instant(100);

    fn op(ops: &mut Ops, kind: OpKind, bytes: usize) -> OpId {
        let io = IoName { group: GroupId(0), id: IoId(1) };
        let id = ops.add(Some(io), MemberIndex(0), kind, BEGUN);
        ops.get(id).bytes = bytes;
        id
    }

    #[test]
    fn short_transfers_go_on_and_an_early_end_is_a_lost_device() {
        let mut ops = Ops::new(1);
        let id = op(&mut ops, OpKind::Read(Mem::Zero), 8192);
        let op = ops.get(id);
        assert_eq!(op.progress(4096), Next::Again);
        assert_eq!(op.progress(-libc::EINTR), Next::Again);
        assert_eq!(op.done, 4096);
        assert_eq!(op.progress(0), Next::Done(Err(IoError::Shrunk)));
        assert_eq!(op.progress(4096), Next::Done(Ok(())));
    }

    #[test]
    fn errors_have_their_meaning() {
        let mut ops = Ops::new(1);
        let id = op(&mut ops, OpKind::Write { durable: false, stream: Stream::Data }, 4096);
        let op = ops.get(id);
        for (errno, meaning) in [
            (libc::EIO, IoError::Medium),
            (libc::EILSEQ, IoError::Medium),
            (libc::ENOSPC, IoError::NoSpace),
            (libc::ENODEV, IoError::Gone),
            (libc::ESHUTDOWN, IoError::Gone),
        ] {
            assert_eq!(op.progress(-errno), Next::Done(Err(meaning)));
        }
    }

    #[test]
    fn a_gather_goes_on_in_the_middle_of_a_part() {
        let mut ops = Ops::new(1);
        let id = op(&mut ops, OpKind::Gather { stream: Stream::Journal }, 30);
        let op = ops.get(id);
        let iovec = |at: usize, len| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(at),
            iov_len: len,
        };
        op.iovecs.extend([iovec(100, 10), iovec(200, 10), iovec(300, 10)]);
        assert_eq!(op.progress(14), Next::Again);
        let left: Vec<_> =
            op.iovecs[op.first..].iter().map(|v| (v.iov_base.addr(), v.iov_len)).collect();
        assert_eq!(left, [(204, 6), (300, 10)]);
        assert_eq!(op.progress(6), Next::Again);
        assert_eq!(op.iovecs[op.first].iov_base.addr(), 300);
        assert_eq!(op.progress(10), Next::Done(Ok(())));
    }

    #[test]
    fn an_orphan_is_told_once_and_keeps_its_slot() {
        let mut ops = Ops::new(1);
        let id = op(&mut ops, OpKind::Flush, 0);
        let nobody = Members::default();
        let mut somebody = nobody;
        somebody.insert(0);
        assert_eq!(ops.oldest(Some(Instant(99))), (nobody, Some(BEGUN)));
        assert_eq!(ops.oldest(Some(BEGUN)), (somebody, None));
        assert_eq!(ops.give_up(MemberIndex(1)), None);
        assert_eq!(ops.give_up(MemberIndex(0)), Some(id));
        assert_eq!(ops.give_up(MemberIndex(0)), None);
        assert_eq!((ops.flying(), ops.oldest(Some(BEGUN))), (0, (nobody, None)));
        assert!(ops.is_orphan(id));
        let other = op(&mut ops, OpKind::Flush, 0);
        assert_ne!(other.index, id.index);
        ops.free(id);
        let reused = op(&mut ops, OpKind::Flush, 0);
        assert_eq!(reused.index, id.index);
        assert_ne!(reused, id);
        assert_eq!(OpId::from_bits(reused.to_bits()), reused);
        assert_eq!(ops.flying(), 2);
    }

    #[test]
    #[should_panic(expected = "a stale op")]
    fn a_completion_of_a_former_op_is_noticed() {
        let mut ops = Ops::new(1);
        let id = op(&mut ops, OpKind::Flush, 0);
        ops.free(id);
        op(&mut ops, OpKind::Flush, 0);
        ops.get(id);
    }
}
