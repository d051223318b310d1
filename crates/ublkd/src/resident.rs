//! Front ends that live on the array's thread: their commands share its ring with member I/O, and
//! their requests reach the engine in the pass in which the ring brings them.
//!
//! Invariants:
//! - A command completes once, and its number is free from then on.
//! - A resident stays until its last command has completed, or the ring is gone: the memory that
//!   commands name is its own.
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
    /// What `file` shall do; the resident knows the command by its number.
    ///
    /// # Safety
    /// The memory that the arguments name must stay, and be left to the driver, until the command
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

    /// What the kernel is handed.
    pub(crate) fn entry(&self) -> squeue::Entry {
        opcode::UringCmd16::new(types::Fd(self.file), self.code).cmd(self.arguments).build()
    }
}

/// What follows from the completion of a command.
pub(crate) enum Came {
    /// The volume is asked for something; its answer goes by the command's number.
    Request(Submit, Buffer),
    /// There is another command.
    Again(Command),
    /// There is nothing to do.
    Nothing,
}

/// A front end on the array's thread, which serves nothing else meanwhile: it must not block.
pub(crate) trait Resident: Send {
    /// Begins, by these commands.
    fn begin(&mut self) -> Vec<Command>;

    /// A command has completed with `result`.
    fn came(&mut self, number: u16, result: i32) -> Came;

    /// The request that a command brought has ended; after a read without error the buffer begins
    /// with the blocks read.
    fn answered(
        &mut self,
        number: u16,
        buffer: Buffer,
        result: Result<(), RequestError>,
    ) -> Option<Command>;

    /// Whether no command is under way, nor will be.
    fn has_ended(&self) -> bool;
}
