//! What the host tells the volume, and what the volume answers.

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
    /// After so many blocks of users' log (data, summaries, padding) a checkpoint is written, so that a
    /// start has no more to follow; but not before it is as many times what the checkpoint takes as
    /// [`Self::checkpoint_share`] tells.
    pub checkpoint: u64,
    /// Checkpoints that are written for that take at most one block for so many of users' log.
    pub checkpoint_share: u32,
    /// How long a block waits in memory at most until it is written, if nothing else writes it.
    pub patience: Duration,
    /// How many blocks of discards a step goes over at most: others are served between two steps.
    pub forget: u32,
}

impl Config {
    /// How many buffers of one segment each a volume with so many groups has in all: the host provides
    /// them.
    #[must_use]
    pub fn buffers_in_all(&self, groups: usize) -> u16 {
        self.buffers.max(2) + super::COLD_BUFFERS * groups as u16
    }
}

impl Default for Config {
    /// A checkpoint for each 4 GiB of users' log, or 16 times what it takes; a second in memory; 64 MiB of
    /// a discard at a time.
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

/// When a volume with one group cleans. One with several cleans at the back, whenever there is
/// something to gain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cleaning {
    /// Not before it must, then users wait until enough is free.
    Blocking,
    /// As much for each block that users write as is needed to go on like this.
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
    /// The group's first block that is concerned (not for a flush).
    pub at: u64,
    /// How many blocks (not for a flush).
    pub blocks: u32,
}

/// What an I/O does. Before its next call of [`Volume::step`](super::Volume::step) the host asks
/// for the bytes of what it is to write besides users' data, into memory of its own choice for
/// pages, and into the buffer itself for summaries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoOp {
    /// Group to memory.
    Read(Mem),
    /// Summaries, which the volume wants to see: the answer is an [`Input::Loaded`].
    Load,
    /// A batch, whole stripes from memory to the group. Its summary is
    /// [`Volume::encode_summary`](super::Volume::encode_summary)'s and goes where `from` begins.
    Write {
        /// The bytes.
        from: Mem,
        /// Whose summary.
        batch: BatchId,
    },
    /// Pages of a checkpoint: [`Volume::encode_page`](super::Volume::encode_page)'s, one after the
    /// other from this one on.
    Store(Pages),
    /// Everything written to the group so far becomes durable.
    Flush,
    /// The range is not needed; what it reads as afterwards does not matter.
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

/// What the host tells the volume.
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
    /// Finish what was begun, and record it. Requests that come after it fail.
    Stop,
    /// The time of [`Volume::deadline`](super::Volume::deadline) has come. Once at first, to set
    /// the volume going.
    Tick,
}

/// What the volume wants done.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Carry out an I/O.
    Io(Io),
    /// Copy blocks, before anything that comes after it.
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
    /// Something that an operator may want to know.
    Note(Note),
    /// The volume has stopped; nothing is under way.
    Stopped,
}

/// What an operator may want to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// Another group takes what users write.
    Front(GroupId),
    /// A group could not be written or flushed; the volume takes no more writes.
    Failed(GroupId, IoError),
    /// A segment can't be cleaned: its blocks or its summaries can't be read. What can be read of
    /// it stays there.
    Stuck(Segment),
    /// A checkpoint is durable.
    Checkpoint(u64),
}

/// The volume's state, for people.
#[derive(Clone, PartialEq, Debug)]
pub struct Status {
    /// The group that takes what users write.
    pub front: GroupId,
    /// For each group: free segments, segments that a checkpoint is to free, and blocks that live.
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

/// What the volume has done since it started. Numbers are of blocks if nothing else is said.
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
    /// Blocks that lived in them then.
    pub victims_live: u64,
    /// How often users' writes had to wait until segments were free.
    pub stalls: u64,
    /// How long they have waited for cleaning, be it for that or to keep pace with it.
    pub waited: Duration,
    /// The longest of these waits.
    pub longest_wait: Duration,
    /// How often another group went to the front.
    pub rotations: u64,
}
