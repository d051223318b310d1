//! What the host tells the engine, and what the engine answers.

use core::time::Duration;

use super::{RebuildOrder, Slowdown};
use crate::meta::{DeviceUuid, MetaPage, PolicyName, Returning};
use crate::units::{DeviceId, Lba, Mem, MemberId, Pba, Set, Stripe, Tag};

/// What a user asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The host's name for it. Its buffer (reads and writes) holds `blocks` blocks.
    pub tag: Tag,
    /// What to do.
    pub op: Op,
    /// The first block. Ignored for a flush.
    pub lba: Lba,
    /// How many blocks. Ignored for a flush.
    pub blocks: u32,
    /// Forced unit access: durable before it completes (writes, discards, write-zeroes).
    pub fua: bool,
}

/// The kinds of request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Read into the request's buffer.
    Read,
    /// Write from the request's buffer.
    Write,
    /// Make every write completed so far durable.
    Flush,
    /// The range is not needed; it reads as zeros afterwards.
    Discard,
    /// Make the range read as zeros.
    WriteZeroes,
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// The range lies (partly) outside the array, or is empty.
    #[error("the request reaches outside the array")]
    OutOfRange,
    /// More members failed than the redundancy makes up for.
    #[error("more failed than the array's redundancy makes up for")]
    Io,
    /// The array is stopping or stopped.
    #[error("the array is stopping")]
    Stopping,
}

/// Names an I/O in flight; travels through the host's ring and comes back with its result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IoId(pub u64);

/// One I/O on one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// Comes back in [`Input::IoDone`].
    pub id: IoId,
    /// Where.
    pub device: DeviceId,
    /// What.
    pub op: IoOp,
    /// The device's first block that is concerned (not for a flush).
    pub at: Pba,
    /// How many blocks (not for a flush).
    pub blocks: u32,
}

/// What an I/O does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoOp {
    /// Device to memory.
    Read(Mem),
    /// Memory to device.
    Write {
        /// The bytes.
        from: Mem,
        /// Durable when it completes.
        fua: bool,
    },
    /// A metadata block, always one block and always with FUA: before it tells the engine of anything
    /// but requests, the host calls [`Engine::encode`](super::Engine::encode) into memory of its own,
    /// and writes that.
    Store(MetaPage),
    /// A journal entry, always with FUA: its header, then its payload. Before it tells the engine of
    /// anything but requests, the host calls
    /// [`Engine::encode_journal`](super::Engine::encode_journal) for the header blocks; the payload is where [`Engine::journal_payload`](super::Engine::journal_payload)
    /// says, in that order.
    Journal,
    /// Everything written to the device so far becomes durable.
    Flush,
    /// The range is not needed; what it reads as afterwards does not matter. A device that can't
    /// does nothing.
    Discard,
}

/// Why an I/O failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoError {
    /// These blocks can't be read (EIO, ENODATA, EILSEQ) or written, but the device answers.
    Medium,
    /// The device is full (ENOSPC on a sparse file).
    NoSpace,
    /// The device is gone.
    Gone,
    /// The device is smaller than it was: some of what it held is lost, whatever it is again later.
    Shrunk,
    /// The device has not answered in time, and is given up.
    TimedOut,
}

impl IoError {
    /// Whether there is nothing to be hoped for from the device.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Gone | Self::Shrunk | Self::TimedOut)
    }
}

/// What the host tells the engine.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// A user's request. The tag must be free.
    Request(Request),
    /// An I/O has ended. After [`IoError::TimedOut`] the host makes sure that the device never touches
    /// the memory again.
    IoDone {
        /// Which.
        id: IoId,
        /// How.
        result: Result<(), IoError>,
    },
    /// The arithmetic of [`Action::Compute`] is done.
    Computed(super::JobId),
    /// A device has gone without an I/O telling (hot-unplug).
    DeviceGone(DeviceId),
    /// A device is smaller than it was, without an I/O telling.
    DeviceShrunk(DeviceId),
    /// These members and no others have not answered for too long. If the others make up for all of
    /// them, they are taken out of service; their I/O has to end, by [`IoError::TimedOut`], after
    /// [`Action::Release`]. If not, they are waited for.
    Hung(Set<MemberId>),
    /// These members and no others are busy now: each I/O on them may take long. What is made of it
    /// is up to the [policy](super::SteeringPolicy).
    Busy(Set<MemberId>),
    /// These members and no others are young: what does not have to be on particular members goes to them
    /// first, so that they catch up in wear. It is advice: busy members still come last, and nothing
    /// depends on which members they are. Without a [policy](super::SteeringPolicy) none is.
    Young(Set<MemberId>),
    /// An operator's command. The answer is an [`Action::Answer`] with the same number.
    Command {
        /// Chosen by the host.
        number: u64,
        /// What to do.
        command: Command,
    },
    /// The time of [`Engine::deadline`](super::Engine::deadline) has come.
    Tick,
}

/// What an operator can ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Take a member out of service, as if it had failed.
    Fail(MemberId),
    /// Use an opened, empty device as a spare; if a member is missing, a rebuild starts.
    AddSpare {
        /// The host's number for it.
        device: DeviceId,
        /// Its identity, chosen by the host.
        uuid: DeviceUuid,
        /// How large it is.
        blocks: u64,
    },
    /// Forget a spare. If a member was being copied to it, the member stays. The host may close it when
    /// this is answered.
    Remove(DeviceId),
    /// Forget a spare that is on record and not there.
    Forget(DeviceUuid),
    /// Put a spare in a member's place. If the member serves, it is copied to the spare, which is written
    /// whenever the member is, and takes its place when it holds all of it; if not, it is rebuilt onto
    /// the spare.
    Replace {
        /// Which member.
        member: MemberId,
        /// Onto which spare.
        spare: DeviceId,
    },
    /// A device that was a member comes back into its place, and is filled with what it has missed. The
    /// host has opened it anew, so that it has a number that was never used, made sure that no I/O of its
    /// former number is under way any more, read its superblock, asked
    /// [`Engine::may_return`](super::Engine::may_return), and zeroed what
    /// [`Areas::stale_on_return`](crate::meta::Areas::stale_on_return) says, durably.
    Return {
        /// What [`Engine::may_return`](super::Engine::may_return) said.
        returning: Returning,
        /// The host's number for it.
        device: DeviceId,
        /// Its new identity, chosen by the host.
        uuid: DeviceUuid,
        /// How large it is.
        blocks: u64,
    },
    /// Stop a rebuild, resync or scrub where it is.
    Pause,
    /// Let it go on.
    Resume,
    /// Put it on record that the array is to follow a policy. What that means is up to the host.
    SetPolicy(PolicyName),
    /// Put it on record whether the host may acknowledge writes from memory, before the engine has them. It
    /// may when this is answered; if not, all of them are at home before it is asked for. With a write cache
    /// in memory above the engine, that sees to both.
    SetVolatile(bool),
    /// Bring home all that is staged now, whatever room there is and whichever members are busy. The
    /// answer does not wait for it.
    BringHome,
    /// Change the pace of background work.
    SetPace(Pace),
    /// Have each pass end within so long of its beginning, or of now if it is under way. While users are
    /// busy it goes faster than the least pace if it must, but never faster than the greatest.
    EndWithin(Option<Duration>),
    /// Have background work go faster than the least pace while users are busy, as long as their requests
    /// take no longer than so many times what they take in calm; or not.
    LimitSlowdown(Option<Slowdown>),
    /// Change the order in which redundancy is brought back.
    SetRebuildOrder(&'static RebuildOrder),
    /// Check every stripe; with `repair`, correct what does not match: the blocks that redundancy
    /// tells to be wrong, else the redundancy.
    Scrub {
        /// Whether to correct.
        repair: bool,
    },
    /// End a scrub.
    CancelScrub,
    /// Finish what was begun, flush, record a clean stop. Requests that come after it fail.
    Stop,
}

/// How fast background work goes, in bytes of each member per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Kept up even while users are busy.
    pub min: u64,
    /// Never exceeded; `u64::MAX` is unlimited.
    pub max: u64,
}

impl Default for Pace {
    /// 16 MiB/s under load, unlimited when idle.
    fn default() -> Self {
        Self { min: 16 << 20, max: u64::MAX }
    }
}

/// Why a command was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommandError {
    /// Another member can't be spared.
    #[error("the array has no redundancy left to spare this member")]
    NoRedundancy,
    /// There is no such member, or it is not in a state for this.
    #[error("no such member, or it has already failed")]
    NoSuchMember,
    /// There is no such device, or it is in use.
    #[error("no such device, or it is in use as a member")]
    NoSuchDevice,
    /// The member serves, or another device is in its place.
    #[error("the member serves, or another device has taken its place")]
    PlaceTaken,
    /// The device is smaller than the array needs.
    #[error("the device has {have} blocks of 4 KiB; the array needs {need}")]
    TooSmall {
        /// Blocks of the device.
        have: u64,
        /// Blocks needed.
        need: u64,
    },
    /// The table of spares is full.
    #[error("the array has as many spares as it can hold")]
    TooManySpares,
    /// So many members are missing that parity can't be told from data.
    #[error("members are missing, and nothing is left to compare with; rebuild them first")]
    NothingToCompare,
    /// The layout has no redundancy to check or rebuild from.
    #[error("this layout has no redundancy")]
    NotRedundant,
    /// Nothing to pause, resume or cancel.
    #[error("there is no such background work")]
    NothingToDo,
    /// Another member is being copied to a new device.
    #[error("another member is being copied to a new device; one is at a time")]
    AlreadyCopying,
    /// A member's data is on the distributed spare.
    #[error("the distributed spare is in use; the member that it stands in for comes first")]
    SpareInUse,
    /// Another background pass has to end first.
    #[error("a rebuild, resync or scrub is under way")]
    Busy,
    /// The journal is being carried out or the start recorded.
    #[error("the array is still starting; try again when it serves")]
    Starting,
    /// The array is stopping.
    #[error("the array is stopping")]
    Stopping,
    /// The change could not be made durable.
    #[error("the members could not record the change")]
    NotRecorded,
    /// Writes that were acknowledged by a write cache in memory can't be written to the members. After a stop
    /// they are lost.
    #[error("writes that were acknowledged from memory can't be written to the members")]
    NotHome,
    /// Another command like it is under way.
    #[error("the last such command is still under way: try again when it has ended")]
    UnderWay,
}

/// What the engine wants done.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Carry out an I/O.
    Io(Io),
    /// Carry out the arithmetic of [`Engine::steps`](super::Engine::steps), then tell
    /// [`Input::Computed`].
    Compute(super::JobId),
    /// A request has ended; its tag is free.
    Complete {
        /// Which.
        tag: Tag,
        /// How.
        result: Result<(), RequestError>,
    },
    /// A command has ended.
    Answer {
        /// Which.
        number: u64,
        /// How.
        result: Result<(), CommandError>,
    },
    /// Something that an operator may want to know.
    Note(Note),
    /// The engine no longer uses the device; the host may close it.
    Release(DeviceId),
}

/// What an operator may want to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// A member was taken out of service.
    MemberFailed {
        /// Which.
        member: MemberId,
        /// Its device.
        device: DeviceId,
        /// Why; `None` if an operator asked for it.
        why: Option<IoError>,
    },
    /// A write met an error that redundancy can't make up for; the array takes no more writes.
    ArrayFailed,
    /// What members refused for want of room is in its place; the array takes writes again.
    ArrayHealed,
    /// A member does not answer, and can't be spared: what needs it waits.
    MemberHangs {
        /// Which.
        member: MemberId,
        /// Its device.
        device: DeviceId,
    },
    /// A member that was waited for answers again.
    MemberAnswers {
        /// Which.
        member: MemberId,
        /// Its device.
        device: DeviceId,
    },
    /// A block could not be read and was rewritten from redundancy.
    BlocksRepaired {
        /// Whose.
        member: MemberId,
        /// The first.
        at: Pba,
        /// How many.
        blocks: u32,
    },
    /// A background pass has begun.
    PassStarted(PassKind),
    /// A background pass has ended.
    PassEnded(PassKind, PassEnd),
    /// A member's blocks of a stripe hold something else than what was written: redundancy tells
    /// that they do.
    BlocksWrong {
        /// Whose.
        member: MemberId,
        /// Of which stripe.
        stripe: Stripe,
        /// How many.
        blocks: u32,
        /// Whether they were rewritten from redundancy.
        corrected: bool,
    },
    /// A stripe's redundancy does not match its data, and does not tell what is wrong.
    Mismatch {
        /// Which stripe.
        stripe: Stripe,
        /// In how many rows.
        rows: u32,
        /// Whether redundancy was made anew, the data (of a mirror the first copy) being believed.
        corrected: bool,
    },
    /// A spare takes a member's place.
    SpareActivated {
        /// Whose place.
        member: MemberId,
        /// The spare.
        device: DeviceId,
    },
    /// A device has returned to the place that it had, and is filled with what it has missed.
    MemberReturned {
        /// Whose place.
        member: MemberId,
        /// Its number now.
        device: DeviceId,
        /// Regions of the write-intent bitmap in which it may lack something.
        regions: u64,
    },
    /// A member is to be copied to a spare, which takes its place then.
    CopyBegun {
        /// Which.
        member: MemberId,
        /// The spare.
        device: DeviceId,
    },
    /// The spare to which a member was to be copied is out of use; the member stays.
    CopyFailed {
        /// Which.
        member: MemberId,
        /// The spare.
        device: DeviceId,
        /// Why.
        why: IoError,
    },
    /// A spare holds all that a member does, and has taken its place.
    MemberReplaced {
        /// Which.
        member: MemberId,
        /// The device that it has now.
        device: DeviceId,
        /// The one that it had.
        old: DeviceId,
    },
    /// Entries of the journal were carried out after an unclean stop.
    JournalReplayed {
        /// How many.
        entries: u32,
        /// Blocks that they hold, redundancy included.
        blocks: u64,
    },
    /// What an unclean stop had left in the staging log was brought home.
    StagedReclaimed {
        /// Blocks of users'.
        blocks: u64,
    },
}

/// The kinds of background pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassKind {
    /// Makes redundancy agree with data after an unclean stop or at creation.
    Resync,
    /// Fills a new device in a member's place.
    Rebuild(MemberId),
    /// Puts a failed member's chunks on the distributed spare.
    Distribute(MemberId),
    /// Copies a member that serves to the spare that is to take its place.
    Copy(MemberId),
    /// Compares redundancy with data.
    Scrub {
        /// And corrects what does not match.
        repair: bool,
    },
    /// Makes the array's stripes those of another geometry.
    Reshape,
}

/// How a background pass ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassEnd {
    /// It reached the end.
    Done,
    /// Its target failed, or a member that it needs, or an operator cancelled it.
    Cancelled,
    /// It can't go on, and goes on when another member is rebuilt.
    Aside,
    /// It has not ended: more of a stripe can't be read than redundancy makes up for. It goes on with the
    /// others, and waits for this one. That is told of the first such stripe.
    Stuck(Stripe),
}
