//! The interface between the host and a log array.

use raidcore::engine::{self, CommandError, Request, RequestError};
use raidcore::units::Tag;

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
    /// An action of a group's array. [`LogArray::place`](super::LogArray::place) translates its
    /// memory. There are no completions among these.
    Array {
        /// Whose array.
        group: GroupId,
        /// What it wants.
        action: engine::Action,
    },
    /// Encode the summary of a batch with
    /// [`Volume::encode_summary`](crate::Volume::encode_summary).
    Summary {
        /// Whose.
        batch: BatchId,
        /// The buffer that holds the batch.
        buffer: u16,
        /// The block of it where the summary goes.
        first: u32,
        /// To which group it will be written.
        group: GroupId,
        /// To which block of it.
        at: u64,
    },
    /// Encode pages into a slot, one after the other, with
    /// [`Volume::encode_page`](crate::Volume::encode_page).
    Pages {
        /// For which group.
        group: GroupId,
        /// Which pages.
        pages: Pages,
        /// How many.
        blocks: u32,
        /// Into which slot, from its first block on.
        slot: u16,
    },
    /// Pass the content of a slot, from its first block on, to [`Input::Seen`].
    Look {
        /// Comes back with the answer.
        look: Look,
        /// In which slot.
        slot: u16,
        /// From which group it was read.
        group: GroupId,
        /// From which block of it on.
        at: u64,
        /// How many blocks.
        blocks: u32,
        /// Whether only [checksums](crate::codec::checksum) of the blocks are wanted.
        checksums: bool,
    },
    /// Copy blocks.
    Copy {
        /// The bytes.
        from: LogMem,
        /// Where they go.
        to: LogMem,
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

/// Names an [`Action::Look`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look(pub(super) Option<IoId>, pub(super) u16);

/// Where bytes are: the host owns the memory. Offsets are in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LogMem {
    /// In the buffer of a user's request.
    Payload {
        /// Whose request.
        tag: Tag,
        /// From which block of its buffer on.
        at: u32,
    },
    /// In one of the [buffers of one segment](crate::Volume::buffers).
    Segment {
        /// Which.
        buffer: u16,
        /// From which block of it on.
        at: u32,
    },
    /// In one of the [slots](super::LogArray::slots) of [`SLOT_BLOCKS`](super::SLOT_BLOCKS).
    Slot {
        /// Which.
        slot: u16,
        /// From which block of it on.
        at: u32,
    },
    /// In a scratch buffer of a group's array.
    Scratch {
        /// Whose.
        group: GroupId,
        /// Which.
        buffer: u16,
        /// From which block of it on.
        at: u32,
    },
    /// Zeros. Never a destination.
    Zero,
}
