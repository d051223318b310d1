//! What the host tells a log array, and what it answers.

use raidcore::engine::{self, CommandError, Request, RequestError};
use raidcore::units::Tag;

use crate::recovery::{Answer, RecoveryError};
use crate::units::GroupId;
use crate::volume::{BatchId, IoId, Note, Pages};

/// What the host tells a log array.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A user's request. The tag must be free.
    Request(Request),
    /// Something for the array of a group: an I/O that has ended, arithmetic that is done, a device
    /// that has gone, a command. Not a request and not [`Stop`](engine::Command::Stop), which are
    /// for all of it.
    Array {
        /// Whose array.
        group: GroupId,
        /// What.
        input: engine::Input,
    },
    /// What [`Action::Look`] asked for.
    Seen {
        /// Which look.
        look: Look,
        /// What is there.
        answer: Answer<'a>,
    },
    /// Finish what was begun, and record it, in the volume and then in its arrays. Requests that
    /// come after it fail.
    Stop,
    /// The time of [`LogArray::deadline`](super::LogArray::deadline) has come. Once at first, to set
    /// everything going.
    Tick,
}

/// What a log array wants done, in this order.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// What a group's array wants. Its memory is what [`LogArray::place`](super::LogArray::place)
    /// says. There are no completions among these.
    Array {
        /// Whose array.
        group: GroupId,
        /// What it wants.
        action: engine::Action,
    },
    /// Put the summary of a batch where it belongs: that is
    /// [`Volume::encode_summary`](crate::Volume::encode_summary)'s.
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
    /// Put pages into a slot, one after the other: they are
    /// [`Volume::encode_page`](crate::Volume::encode_page)'s.
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
    /// Look at what was read into a slot, from its first block on, and tell [`Input::Seen`].
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
    /// Something that an operator may want to know of the volume.
    Note(Note),
    /// The groups hold no volume that can be started. No user is served.
    Lost(RecoveryError),
    /// Everything has stopped; whether that is on record in every group's array.
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
