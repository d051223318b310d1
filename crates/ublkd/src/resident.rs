//! Front ends on the array's thread: their commands share its ring with member I/O, and their
//! requests reach the engine in the same pass as their completions.
//!
//! Invariants:
//! - A command completes once, and its number is free from then on.
//! - A resident stays until its last command has completed, or the ring is gone: it owns the memory
//!   of its commands. The kernel cancels those of a socket only a while after the ring is gone, so
//!   their memory is leaked if they have not completed by then.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use io_uring::{opcode, squeue, types};
use raidcore::engine::RequestError;

use crate::volume::{Buffer, Submit};

/// Something for the kernel to do with a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Command {
    number: u16,
    file: RawFd,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// A command to the driver behind it (`IORING_OP_URING_CMD`).
    Driver { code: u32, arguments: [u8; 16] },
    /// Bytes of a socket, as soon as there are any.
    Receive { to: *mut u8, bytes: u32 },
    /// Bytes into a socket, as soon as it takes some.
    Send { from: *const u8, bytes: u32 },
}

impl Command {
    /// A command for the driver of `file`, which the resident knows by its number.
    ///
    /// # Safety
    /// The memory in the arguments must stay valid, and be left to the driver, until the command
    /// has completed or the ring is gone.
    pub(crate) unsafe fn new(
        number: u16,
        file: BorrowedFd<'_>,
        code: u32,
        arguments: [u8; 16],
    ) -> Self {
        Self { number, file: file.as_raw_fd(), what: What::Driver { code, arguments } }
    }

    /// Receives at most so many bytes of a socket that blocks, when some arrive. The result is their
    /// count, or 0 when no more will.
    ///
    /// # Safety
    /// The memory at `to` must stay valid, and be left to the kernel, until the command has
    /// completed: for ever, if the ring is gone before.
    pub(crate) unsafe fn receive(
        number: u16,
        socket: BorrowedFd<'_>,
        to: *mut u8,
        bytes: u32,
    ) -> Self {
        Self { number, file: socket.as_raw_fd(), what: What::Receive { to, bytes } }
    }

    /// Sends at most so many bytes into a socket that blocks, when it takes some. The result is their
    /// count.
    ///
    /// # Safety
    /// As of [`Command::receive`], of the memory at `from`, which may be read meanwhile.
    pub(crate) unsafe fn send(
        number: u16,
        socket: BorrowedFd<'_>,
        from: *const u8,
        bytes: u32,
    ) -> Self {
        Self { number, file: socket.as_raw_fd(), what: What::Send { from, bytes } }
    }

    /// The resident's name for it.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// The entry for the kernel.
    pub(crate) fn entry(&self) -> squeue::Entry {
        let file = types::Fd(self.file);
        match self.what {
            What::Driver { code, arguments } => {
                opcode::UringCmd16::new(file, code).cmd(arguments).build()
            }
            What::Receive { to, bytes } => opcode::Recv::new(file, to, bytes).build(),
            What::Send { from, bytes } => {
                opcode::Send::new(file, from, bytes).flags(libc::MSG_NOSIGNAL).build()
            }
        }
    }
}

/// The result of a command's completion.
pub(crate) enum Came {
    /// A request for the volume; its answer has the command's number.
    Request(Submit, Buffer),
    /// The same, and another command.
    RequestAndCommand(Submit, Buffer, Command),
    /// Another command.
    Again(Command),
    /// There is nothing to do.
    Nothing,
}

/// A front end on the array's thread. It must not block: nothing else is served meanwhile.
pub(crate) trait Resident: Send {
    /// Which of its driver's queues it is, if the driver wants each from one thread.
    fn queue(&self) -> Option<u16> {
        None
    }

    /// Returns its first commands.
    fn begin(&mut self) -> Vec<Command>;

    /// A command has completed with `result`.
    fn came(&mut self, number: u16, result: i32) -> Came;

    /// The request of a command has ended; after a read without error the buffer begins with the
    /// blocks read.
    fn answered(
        &mut self,
        number: u16,
        buffer: Buffer,
        result: Result<(), RequestError>,
    ) -> Option<Command>;

    /// Whether no command is under way, nor will be.
    fn has_ended(&self) -> bool;
}
