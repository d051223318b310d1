//! The interface between the host and a log array.

use raidcore::engine::{self, CommandError, Request, RequestError};
use raidcore::units::{Mem, Tag};

use crate::recovery::{Answer, RecoveryError};
use crate::units::GroupId;
use crate::volume::{BatchId, IoId, Note, Pages};

/// An event or request for a log array.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A user's request. The tag must be free.
    Request(Request),
    /// An input for the array of a group: an I/O that has ended, arithmetic that is done, a device
    /// that has gone, a command. Not a request and not [`Stop`](engine::Command::Stop), which are
    /// for the log array.
    Array {
        /// Whose array.
        group: GroupId,
        /// What.
        input: engine::Input,
    },
    /// The answer to an [`Action::Look`].
    Seen {
        /// Which look.
        look: Look,
        /// What is there.
        answer: Answer<'a>,
    },
    /// Finish what was begun, and record the stop, in the volume and then in its arrays. Later
    /// requests fail.
    Stop,
    /// The time of [`LogArray::deadline`](super::LogArray::deadline) has come. Send it once at
    /// first to start.
    Tick,
}

/// Actions for the host, to be begun in this order.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// What a group's array wants. The memory of its I/O is the host's, and so is that which
    /// [`Machine`](crate::Machine) tells of arithmetic and the journal. There are no completions among
    /// these.
    Array {
        /// Whose array.
        group: GroupId,
        /// What it wants.
        action: engine::Action,
    },
    /// Encode the summary of a batch with
    /// [`LogVolume::encode_summary`](crate::LogVolume::encode_summary).
    Summary {
        /// Whose.
        batch: BatchId,
        /// Where it goes, in front of what the batch holds.
        to: Mem,
        /// To which group it will be written.
        group: GroupId,
        /// To which block of it.
        at: u64,
    },
    /// Put pages into memory, one after the other: they are
    /// [`LogVolume::encode_page`](crate::LogVolume::encode_page)'s.
    Pages {
        /// For which group.
        group: GroupId,
        /// Which pages.
        pages: Pages,
        /// How many.
        blocks: u32,
        /// Where the first goes.
        to: Mem,
    },
    /// Look at what was read, and tell [`Input::Seen`].
    Look(Looking),
    /// Copy blocks.
    Copy {
        /// The bytes.
        from: Mem,
        /// Where they go.
        to: Mem,
        /// How many blocks.
        blocks: u32,
    },
    /// A request has ended; its tag is free.
    Complete {
        /// Which.
        tag: Tag,
        /// How.
        result: Result<(), RequestError>,
    },
    /// A note on the volume for an operator.
    Note(Note),
    /// The groups hold no volume that can be started. No request is served.
    Lost(RecoveryError),
    /// Everything has stopped. Tells whether the stop is on record in every group's array.
    Stopped(Result<(), CommandError>),
}

/// What is to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Looking {
    /// Comes back with the answer.
    pub look: Look,
    /// Where it is.
    pub from: Mem,
    /// From which group it was read.
    pub group: GroupId,
    /// From which block of it on.
    pub at: u64,
    /// How many blocks.
    pub blocks: u32,
    /// Whether only [checksums](crate::codec::checksum) of the blocks are wanted.
    pub checksums: bool,
}

/// Names an [`Action::Look`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look(pub(super) Option<IoId>, pub(super) u16);
