//! Front ends on the array's thread: their commands share its ring with member I/O, and their
//! requests reach the engine in the same pass as their completions.
//!
//! Invariants:
//! - A command completes once, and its number is free from then on.
//! - A resident stays until its last command has completed, or the ring is gone: it owns the memory
//!   of its commands.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use io_uring::{opcode, squeue, types};
use raidcore::engine::RequestError;

use crate::volume::{Buffer, Submit};

/// A command to the driver behind a file (`IORING_OP_URING_CMD`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Command {
    number: u16,
    file: RawFd,
    code: u32,
    arguments: [u8; 16],
}

impl Command {
    /// A command for `file`, which the resident knows by its number.
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
        Self { number, file: file.as_raw_fd(), code, arguments }
    }

    /// The resident's name for it.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// The entry for the kernel.
    pub(crate) fn entry(&self) -> squeue::Entry {
        opcode::UringCmd16::new(types::Fd(self.file), self.code).cmd(self.arguments).build()
    }
}

/// The result of a command's completion.
pub(crate) enum Came {
    /// A request for the volume; its answer has the command's number.
    Request(Submit, Buffer),
    /// Another command.
    Again(Command),
    /// There is nothing to do.
    Nothing,
}

/// A front end on the array's thread. It must not block: nothing else is served meanwhile.
pub(crate) trait Resident: Send {
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
