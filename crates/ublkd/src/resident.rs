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

/// Of commands that concern no file.
const NO_FILE: RawFd = -1;

/// Something for the kernel to do, mostly with a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Command {
    number: u16,
    file: RawFd,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// A command to the driver behind it (`IORING_OP_URING_CMD`).
    Driver {
        code: u32,
        arguments: [u8; 16],
    },
    /// Bytes of a socket, as soon as there are any.
    Receive {
        to: *mut u8,
        bytes: u32,
    },
    /// Until one of these events of a file.
    Poll {
        events: u32,
    },
    /// Until so much time has passed.
    Wait {
        limit: *const types::Timespec,
    },
    /// The end of another command of the resident.
    Cancel {
        other: u16,
    },
    Nothing,
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

    /// Completes when a file can be read, or has failed.
    pub(crate) fn when_readable(number: u16, file: BorrowedFd<'_>) -> Self {
        Self::poll(number, file, libc::POLLIN)
    }

    /// Completes when a file takes bytes, or has failed.
    pub(crate) fn when_writable(number: u16, file: BorrowedFd<'_>) -> Self {
        Self::poll(number, file, libc::POLLOUT)
    }

    fn poll(number: u16, file: BorrowedFd<'_>, events: i16) -> Self {
        let events = u32::from(events as u16);
        Self { number, file: file.as_raw_fd(), what: What::Poll { events } }
    }

    /// Completes when so much time has passed.
    ///
    /// # Safety
    /// The limit must stay where it is until the command has completed or the ring is gone.
    pub(crate) unsafe fn wait(number: u16, limit: &types::Timespec) -> Self {
        Self { number, file: NO_FILE, what: What::Wait { limit } }
    }

    /// Ends another command of the resident, unless that is about to complete by itself. Both
    /// complete.
    pub(crate) fn cancel(number: u16, other: u16) -> Self {
        Self { number, file: NO_FILE, what: What::Cancel { other } }
    }

    /// Completes at once, when other front ends have had their turn.
    pub(crate) fn nothing(number: u16) -> Self {
        Self { number, file: NO_FILE, what: What::Nothing }
    }

    /// The resident's name for it.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// The entry for the kernel, which knows commands by what `name` makes of their numbers.
    pub(crate) fn entry(&self, name: impl Fn(u16) -> u64) -> squeue::Entry {
        let file = types::Fd(self.file);
        let entry = match self.what {
            What::Driver { code, arguments } => {
                opcode::UringCmd16::new(file, code).cmd(arguments).build()
            }
            What::Receive { to, bytes } => opcode::Recv::new(file, to, bytes).build(),
            What::Poll { events } => opcode::PollAdd::new(file, events).build(),
            What::Wait { limit } => opcode::Timeout::new(limit).build(),
            What::Cancel { other } => opcode::AsyncCancel::new(name(other)).build(),
            What::Nothing => opcode::Nop::new().build(),
        };
        entry.user_data(name(self.number()))
    }
}

/// The result of a command's completion.
pub(crate) enum Came {
    /// A request for the volume; its answer has the command's number.
    Request(Submit, Buffer),
    /// Another command.
    Again(Command),
    /// Whatever [`Resident::next`] says.
    Several,
    /// There is nothing to do.
    Nothing,
}

/// Something that a resident wants.
pub(crate) enum Todo {
    /// A request for the volume; its answer has this number, which need be none of a command.
    Request(u16, Submit, Buffer),
    /// Another command.
    Command(Command),
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

    /// At the end of each pass, in which it may have been given answers: whether [`Resident::next`] has
    /// something to say, or it has ended.
    fn settle(&mut self) -> bool {
        false
    }

    /// The next thing that it wants.
    fn next(&mut self) -> Option<Todo> {
        None
    }

    /// Whether no command is under way, nor will be.
    fn has_ended(&self) -> bool;
}
