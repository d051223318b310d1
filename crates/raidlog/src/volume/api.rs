//! The interface between the host and the volume.

use core::time::Duration;

use raidcore::engine::{IoError, Request, RequestError};
use raidcore::units::{Mem, Tag};

use crate::segments::Choice;
use crate::units::{GroupId, Segment};

/// Names a batch in its table.
pub type BatchId = det::Id<super::Batch>;

/// The sizes of the volume's tables, and how it behaves.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Requests that users can have in flight; their tags are below it.
    pub tags: u16,
    /// Buffers of one segment each for what users write. Each group's cleaner has two more. They are
    /// the first of the scratch buffers, and a segment's blocks lie in one where they do in the segment.
    pub buffers: u16,
    /// Which segment a cleaner takes.
    pub choice: Choice,
    /// When a volume with one group cleans.
    pub cleaning: Cleaning,
    /// A checkpoint is written after this many blocks of users' log (data, summaries, padding),
    /// which bounds what a start has to replay. It is delayed until that is
    /// [`Self::checkpoint_share`] times the checkpoint's own size.
    pub checkpoint: u64,
    /// The least ratio of users' log to the size of such checkpoints.
    pub checkpoint_share: u32,
    /// The longest time that a block waits in memory until it is written.
    pub patience: Duration,
    /// The most blocks of discards in a step: other requests are served between two steps.
    pub forget: u32,
}

impl Config {
    /// The total number of buffers, of one segment each, that the host provides for a volume with
    /// this many groups.
    #[must_use]
    pub fn buffers_in_all(&self, groups: usize) -> u16 {
        self.buffers.max(2) + super::COLD_BUFFERS * groups as u16
    }
}

impl Default for Config {
    /// A checkpoint for each 4 GiB of users' log, or 16 times its own size; a second in memory; 64
    /// MiB of a discard at a time.
    fn default() -> Self {
        Self {
            tags: 128,
            buffers: 8,
            choice: Choice::Greedy,
            cleaning: Cleaning::Paced,
            checkpoint: 1 << 20,
            checkpoint_share: 16,
            patience: Duration::from_secs(1),
            forget: 1 << 14,
        }
    }
}

/// When a volume with one group is cleaned. With several groups, those at the back are cleaned
/// whenever that gains something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cleaning {
    /// Only when it has to be: then users wait until enough is free.
    Blocking,
    /// In proportion to users' writes, as much as keeps free space constant.
    Paced,
}

/// Names an I/O in flight; comes back with its result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IoId(pub u64);

/// One I/O on one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// Comes back in [`Input::IoDone`] or [`Input::Loaded`].
    pub id: IoId,
    /// Where.
    pub group: GroupId,
    /// What.
    pub op: IoOp,
    /// The first block of the group (not for a flush).
    pub at: u64,
    /// How many blocks (not for a flush).
    pub blocks: u32,
}

/// The operation of an I/O. For writes other than users' data, the host gets the bytes from the
/// volume before its next call of [`LogVolume::step`](super::LogVolume::step): pages into memory of its
/// own choice, summaries into the buffer itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoOp {
    /// Group to memory.
    Read(Mem),
    /// Read summaries for the volume: the answer is an [`Input::Loaded`].
    Load,
    /// Write a batch of whole stripes from memory to the group. Its summary is that of
    /// [`LogVolume::encode_summary`](super::LogVolume::encode_summary) and goes to the start of `from`.
    Write {
        /// The bytes.
        from: Mem,
        /// The batch of the summary.
        batch: BatchId,
    },
    /// Write consecutive pages of a checkpoint, those of
    /// [`LogVolume::encode_page`](super::LogVolume::encode_page), from this one on.
    Store(Pages),
    /// Everything written to the group so far becomes durable.
    Flush,
    /// The range is not needed; its content afterwards does not matter.
    Discard,
}

/// Pages of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// The header, with FUA: durable when the I/O ends.
    Header,
    /// Pages of the map and of the segments' ages, from this number on.
    From(u32),
}

impl Pages {
    /// From so many further on; there is one header.
    #[must_use]
    pub fn plus(self, pages: u32) -> Self {
        match self {
            Self::Header => Self::Header,
            Self::From(first) => Self::From(first + pages),
        }
    }
}

/// An event or request for the volume.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A user's request. The tag must be free.
    Request(Request),
    /// An I/O has ended.
    IoDone {
        /// Which.
        id: IoId,
        /// How.
        result: Result<(), IoError>,
    },
    /// An [`IoOp::Load`] has ended.
    Loaded {
        /// Which.
        id: IoId,
        /// All its bytes.
        result: Result<&'a [u8], IoError>,
    },
    /// Finish what was begun, and record the stop. Later requests fail.
    Stop,
    /// The time of [`LogVolume::deadline`](super::LogVolume::deadline) has come. Send it once at first to
    /// start the volume.
    Tick,
}

/// An action for the host.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Carry out an I/O.
    Io(Io),
    /// Copy blocks, before any later action.
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
    /// A note for an operator.
    Note(Note),
    /// The volume has stopped; nothing is under way.
    Stopped,
}

/// A note for an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// Another group takes users' writes now.
    Front(GroupId),
    /// A group could not be written or flushed; the volume takes no more writes.
    Failed(GroupId, IoError),
    /// A segment can't be cleaned: its blocks or summaries can't be read. The readable ones stay
    /// there.
    Stuck(Segment),
    /// A checkpoint is durable.
    Checkpoint(u64),
}

/// The volume's state, for people.
#[derive(Clone, PartialEq, Debug)]
pub struct Status {
    /// The group that takes users' writes.
    pub front: GroupId,
    /// For each group: free segments, segments that a checkpoint will free, and live blocks.
    pub groups: alloc::vec::Vec<(u32, u32, u64)>,
    /// Groups that are being cleaned.
    pub cleaning: alloc::vec::Vec<GroupId>,
    /// Users' writes wait for the cleaner.
    pub stalled: bool,
    /// The volume takes no more writes.
    pub failed: bool,
    /// The last durable checkpoint.
    pub checkpoint: u64,
    /// Counters since the start.
    pub counters: Counters,
}

/// What the volume has done since it started. Counts are of blocks unless stated otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Written by users.
    pub written: u64,
    /// Moved by cleaners.
    pub moved: u64,
    /// Written to groups: data, summaries, padding.
    pub logged: u64,
    /// Of these, padding.
    pub padding: u64,
    /// Pages and headers of checkpoints, each copy counted.
    pub stored: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Segments that were trimmed.
    pub trimmed: u64,
    /// Segments that were cleaned.
    pub cleaned: u64,
    /// Segments that were chosen to be cleaned.
    pub victims: u64,
    /// Blocks that were live in them then.
    pub victims_live: u64,
    /// How often users' writes had to wait until segments were free.
    pub stalls: u64,
    /// How long they have waited for cleaning: for free segments, or as cleaning is paced.
    pub waited: Duration,
    /// The longest of these waits.
    pub longest_wait: Duration,
    /// How often another group went to the front.
    pub rotations: u64,
}
