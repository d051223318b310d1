//! What can be wrong with a set of members, with messages that say what to do.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::codec::CodecError;
use super::record::{ArrayId, DeviceUuid};
use crate::units::{MemberId, Set};

/// A member without a usable device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingMember {
    /// Its place.
    pub member: MemberId,
    /// The device that the array expects there, or that was there last.
    pub device: DeviceUuid,
    /// It is a staging device.
    pub stages: bool,
    /// Since when it is out of service, in seconds since 1970; `None` if it was there when the
    /// array last ran.
    pub since: Option<u64>,
}

impl MissingMember {
    /// What is missing: a member or a staging device.
    #[must_use]
    pub fn what(&self) -> &'static str {
        if self.stages { "staging device" } else { "member" }
    }
}

impl fmt::Display for MissingMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (device {})", self.what(), self.member.0, self.device)
    }
}

/// Why an array can't be started. Labels are those of the images.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AssembleError {
    /// No image was given.
    #[error("no device was given")]
    NoImages,
    /// Something that is no member was given.
    #[error("{label}: it is not a member of an Evenkeel array; leave it out")]
    NotAMember {
        /// Which image.
        label: String,
    },
    /// A member must not be used by this release.
    #[error("{label}: {why}")]
    Refused {
        /// Which image.
        label: String,
        /// Why.
        why: CodecError,
    },
    /// The array is prepared only, on devices that are still md's.
    #[error(
        "the array \"{name}\" is prepared on members that are still md's: `evenkeel import --commit` with \
         these members makes it Evenkeel's, `evenkeel import --undo` leaves it to md"
    )]
    Pending {
        /// Its name.
        name: String,
    },
    /// No image has an intact superblock.
    #[error("no device has an intact superblock: {}", List(.left_out))]
    AllDamaged {
        /// What is wrong with each.
        left_out: Vec<Warning>,
    },
    /// Members of different arrays were given.
    #[error(
        "{label} belongs to the array {array}, but {first_label} to {first}; \
         give the members of one array"
    )]
    OtherArray {
        /// Which image.
        label: String,
        /// Its array.
        array: ArrayId,
        /// The image that it is compared with.
        first_label: String,
        /// That one's array.
        first: ArrayId,
    },
    /// One device was given twice, or it was copied.
    #[error("{first} and {second} are one device ({device}) or copies of one; leave one out")]
    Copies {
        /// One.
        first: String,
        /// The other.
        second: String,
        /// The identity that both have.
        device: DeviceUuid,
    },
    /// Members went on without each other, each as if it were the array.
    #[error(
        "{first} and {second} went on without each other and disagree since; give only the devices \
         whose contents are to be kept, then wipe the others and add them as spares"
    )]
    SplitBrain {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// Members are missing that were in service when the array stopped.
    #[error(
        "missing: {}; there when the array ran last, so connect them, or start without them by \
         --degraded{}",
        List(.missing),
        Also(.left_out)
    )]
    Incomplete {
        /// Which.
        missing: Vec<MissingMember>,
        /// Images that were given but can't be used.
        left_out: Vec<Warning>,
    },
    /// More members are missing than redundancy can make up for.
    #[error(
        "{lost} members are missing, failed or being rebuilt, the array can do without \
         {redundancy}{}; missing: {}; out of service before: {}{}",
        Of(.group),
        List(.missing),
        List(.failed),
        Also(.left_out)
    )]
    TooManyMissing {
        /// Members that are missing or incomplete.
        lost: usize,
        /// How many may be, of the group if there is one.
        redundancy: usize,
        /// The members of stripes that are lost, if these are on some members only.
        group: Option<Set<MemberId>>,
        /// Those that the array expects.
        missing: Vec<MissingMember>,
        /// Those that have been out of service for longer.
        failed: Vec<MissingMember>,
        /// Images that were given but can't be used.
        left_out: Vec<Warning>,
    },
    /// The write hole: the array is degraded, has no journal, and was not fully resynced after an
    /// unclean stop.
    #[error(
        "the array is degraded and was not resynced since an unclean stop, so blocks that were \
         being written then, and their neighbours on the missing member, may be wrong; connect the \
         missing members, or accept that by --force"
    )]
    DirtyDegraded,
    /// The journal is needed, and part of it can't be read.
    #[error(
        "{label}: part of its journal can't be read, and the array was not stopped cleanly and is \
         degraded, so blocks that were being written may be wrong; accept that by --force"
    )]
    JournalUnreadable {
        /// Which image.
        label: String,
    },
    /// No intact copy of a page of the zero map.
    #[error(
        "no member has an intact copy of page {page} of the zero map, so discarded blocks can't be \
         told from others; accept that they read as anything by --force"
    )]
    ZeroMapLost {
        /// Which page.
        page: u32,
    },
    /// Too few devices are there to tell what was staged.
    #[error(
        "so many members and staging devices are missing since an unclean stop that blocks which were \
         written before it may be on none of the others, and would read as what they were before; \
         connect them, or accept that by --force"
    )]
    StagedMissing,
    /// No intact copy of what was staged.
    #[error(
        "no member has an intact copy of entry {entry} of the staging log, so some blocks that were \
         written before the unclean stop would read as what they were before; accept that by --force"
    )]
    StagedLost {
        /// Which entry, or the first of them.
        entry: u64,
    },
}

/// What an operator should know of an array that can be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Warning {
    /// A member is left out because its superblock is damaged.
    Damaged {
        /// Which image.
        label: String,
        /// Intact copies.
        valid: usize,
    },
    /// A member is left out because it missed changes.
    Behind {
        /// Which image.
        label: String,
        /// Its event count.
        events: u64,
        /// The array's.
        newest: u64,
    },
    /// A device is left out because the array has taken it out of service.
    OutOfService {
        /// Which image.
        label: String,
    },
    /// A device is left out because the array has taken it out of service; it may return.
    MayReturn {
        /// Which image.
        label: String,
        /// To which place.
        member: MemberId,
    },
    /// A member is left out because its device has become smaller.
    Shrunk {
        /// Which image.
        label: String,
        /// Its blocks.
        have: u64,
        /// Blocks needed.
        need: u64,
    },
    /// A spare is not there.
    SpareMissing {
        /// Its device.
        device: DeviceUuid,
    },
    /// A spare is left out because it is too small.
    SpareTooSmall {
        /// Which image.
        label: String,
        /// Its blocks.
        have: u64,
        /// Blocks needed.
        need: u64,
    },
    /// A page of the write-intent bitmap was lost; its regions are resynced.
    BitmapPageLost {
        /// Which page.
        page: u32,
    },
    /// A page of the zero map was lost, by force.
    ZeroMapPageLost {
        /// Which page.
        page: u32,
    },
    /// Degraded, not resynced since an unclean stop, and without a journal, by force.
    DirtyDegraded,
    /// Part of the journal can't be read.
    JournalUnreadable {
        /// Which image.
        label: String,
    },
    /// An entry of the journal names blocks that the array does not have; it is not carried out.
    JournalEntryInvalid {
        /// Which entry.
        entry: u64,
    },
    /// Entries of the staging log may be lost, by force.
    StagedMissing,
    /// Entries of the staging log are lost, by force.
    StagedLost {
        /// The first of them.
        entry: u64,
    },
    /// An entry of the staging log is not what its copies say, or names blocks that the array does
    /// not have; it is not brought home.
    StagedInvalid {
        /// Which entry.
        entry: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { label, valid } => write!(
                f,
                "{label}: only {valid} of its 4 superblocks are intact, so it is left out; if the \
                 device is healthy, wipe it and add it as a spare"
            ),
            Self::Behind { label, events, newest } => write!(
                f,
                "{label}: it missed changes (event {events}, the array is at {newest}), so it is \
                 left out; wipe it and add it as a spare"
            ),
            Self::OutOfService { label } => write!(
                f,
                "{label}: the array has gone on without it, so it is left out; wipe it and add it \
                 as a spare"
            ),
            Self::MayReturn { label, member } => write!(
                f,
                "{label}: the array has gone on without it, so it is left out; once the array runs, \
                 `evenkeel disk add` takes it back as member {}",
                member.0
            ),
            Self::Shrunk { label, have, need } => write!(
                f,
                "{label}: the device has {have} blocks of 4 KiB and the array needs {need}, so it is \
                 left out: it shrank, or it is an unfinished copy; restore its size"
            ),
            Self::SpareMissing { device } => write!(
                f,
                "a spare (device {device}) is not there: connect it, and give it to the next start"
            ),
            Self::SpareTooSmall { label, have, need } => write!(
                f,
                "{label}: the spare has {have} blocks of 4 KiB and the array needs {need}, so it \
                 is left out"
            ),
            Self::BitmapPageLost { page } => write!(
                f,
                "page {page} of the write-intent bitmap is lost; all that it covers is resynced"
            ),
            Self::ZeroMapPageLost { page } => write!(
                f,
                "page {page} of the zero map is lost; blocks discarded there may read as anything"
            ),
            Self::DirtyDegraded => f.write_str(
                "started degraded although not resynced since an unclean stop: check the contents \
                 (fsck) before use",
            ),
            Self::JournalUnreadable { label } => {
                write!(f, "{label}: part of its journal can't be read; replace the device")
            }
            Self::JournalEntryInvalid { entry } => write!(
                f,
                "entry {entry} of the journal names blocks that the array does not have; it is not \
                 carried out"
            ),
            Self::StagedMissing => f.write_str(
                "some blocks may read as what they were before, as too few devices are there to tell \
                 what was staged: check the contents (fsck) before use",
            ),
            Self::StagedLost { entry } => write!(
                f,
                "entry {entry} of the staging log is lost: some blocks read as what they were \
                 before; check the contents (fsck) before use"
            ),
            Self::StagedInvalid { entry } => write!(
                f,
                "entry {entry} of the staging log has copies that differ, or names blocks that the \
                 array does not have; that one is not brought home"
            ),
        }
    }
}

struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// Members that hold the same, if not all do.
struct Of<'a>(&'a Option<Set<MemberId>>);

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut members = self.0.iter().copied().flatten();
        let Some(first) = members.next() else { return Ok(()) };
        write!(f, " of members {}", first.0)?;
        members.try_for_each(|member| write!(f, " and {}", member.0))
    }
}

/// What else is wrong, if anything.
struct Also<'a>(&'a [Warning]);

impl fmt::Display for Also<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " ({})", List(self.0)) }
    }
}
