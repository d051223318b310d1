//! Why an array of md can't become Evenkeel's, with what to do.

use std::io;
use std::path::PathBuf;

use raidcore::geometry::GeometryError;
use raidcore::meta::{LayoutError, SuperblockError};

use super::md::MdError;
use crate::members::OpenError;
use crate::paths::shown;
use crate::signature::Signature;

/// What is wrong with an array of md, or with one of its devices.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfit {
    /// No device was given.
    #[error("no device was given")]
    NoDevices,
    /// It belongs to another array of md than the first device.
    #[error("it belongs to another md array than the first device")]
    OtherArray,
    /// It is a spare.
    #[error("it is a spare of its md array")]
    Spare,
    /// md has taken it out of service.
    #[error("md has taken it out of service")]
    Failed,
    /// It says that it is a member that there is not.
    #[error("it says that it is member {0}, which its md array does not have")]
    Role(u16),
    /// The array has a journal of md's.
    #[error("its md array has a journal device, which holds data that is not in its place")]
    Journal,
    /// The array has a partial parity log.
    #[error("its md array has a partial parity log (PPL), which lies where metadata has to be")]
    Ppl,
    /// The array belongs to a cluster.
    #[error("its md array is one of a cluster")]
    Cluster,
    /// The array is being reshaped.
    #[error("its md array is being reshaped")]
    Reshape,
    /// A member is being filled.
    #[error("its md array is being rebuilt")]
    Recovery,
    /// It has bad blocks.
    #[error("md has a list of bad blocks of it")]
    BadBlocks,
    /// The superblock has features that are not known.
    #[error("its md superblock has features that are not known here (bits {0:#x})")]
    Features(u32),
    /// Its superblock is not as those of the others.
    #[error(
        "its md superblock says something else than the first device's: it is older, or was used alone"
    )]
    Disagrees,
    /// The data begins elsewhere than on other members.
    #[error("its data begins at {have} KiB, and that of the first device at {others} KiB")]
    OtherOffset {
        /// KiB on this device.
        have: u64,
        /// KiB on the first.
        others: u64,
    },
    /// The level is none of Evenkeel's.
    #[error("{} is no level that Evenkeel has", level_name(*.0))]
    Level(i32),
    /// The placement is none of Evenkeel's.
    #[error("its chunks lie by layout {0} of md's, which Evenkeel does not have at this level")]
    Layout(u32),
    /// RAID10 with other copies than Evenkeel's.
    #[error("it is RAID10 with {}, and Evenkeel has two near copies only (n2)", copies(*.0))]
    Copies(u32),
    /// RAID10 whose members are no pairs.
    #[error("it is RAID10 of {0} members, and Evenkeel takes an even number, which are pairs")]
    Odd(u32),
    /// There are too many members.
    #[error("it has {0} members, and Evenkeel takes 32 at most")]
    Members(u32),
    /// Members are missing.
    #[error("it is degraded: it has no member {}", list(.0))]
    Degraded(Vec<u16>),
    /// Members were not given.
    #[error("member {} was not given", list(.0))]
    NotGiven(Vec<u16>),
    /// Two devices say that they are the same member.
    #[error("two devices say that they are the same member: one is a copy")]
    Twice,
    /// It was not stopped cleanly, or was never in step.
    #[error(
        "its redundancy is not in step: it was not stopped cleanly, or a resync is not finished"
    )]
    Unclean,
    /// A position is no multiple of 4 KiB.
    #[error("{what} at sector {sectors} of a member, which is no multiple of 4 KiB")]
    Unaligned {
        /// What is there.
        what: &'static str,
        /// In sectors of 512 bytes.
        sectors: u64,
    },
    /// The chunk is none that Evenkeel can have.
    #[error("its chunk has {kib} KiB, and has to be a power of two from 4 KiB to 1 MiB")]
    Chunk {
        /// Its size.
        kib: u32,
    },
    /// The members of a RAID0 have different sizes.
    #[error(
        "its members use different sizes, so that the stripes at its end are on some of them only"
    )]
    Zones,
    /// It holds nothing.
    #[error("it has no data")]
    Empty,
    /// The device is smaller than the superblock says.
    #[error("it has {} MiB, less than its md superblock says", .have >> 8)]
    Short {
        /// Blocks that it has.
        have: u64,
    },
    /// The shape is none that Evenkeel has.
    #[error(transparent)]
    Geometry(GeometryError),
}

impl Unfit {
    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::OtherArray => "give the members of one array (mdadm --examine)",
            Self::Spare => {
                "leave it out; when the array runs, `mdadm --zero-superblock` and `evenkeel disk add` make \
                 it a spare again"
            }
            Self::Failed | Self::Disagrees | Self::Degraded(_) => {
                "let md rebuild it first: mdadm --assemble, mdadm --add, and when it is done mdadm --stop"
            }
            Self::Journal => "remove the journal by mdadm first (mdadm(8), --write-journal)",
            Self::Ppl => {
                "mdadm --grow --consistency-policy=resync removes it, while the array runs"
            }
            Self::Reshape | Self::Recovery | Self::Unclean => {
                "let md finish it: mdadm --assemble, mdadm --wait, mdadm --stop"
            }
            Self::BadBlocks => {
                "mdadm --examine-badblocks tells them: replace the device under md, or, if the list is \
                 empty, assemble once with --update=no-bbl"
            }
            Self::OtherOffset { .. } => {
                "replace this device under md by one whose data begins where that of the others does \
                 (mdadm --add --data-offset)"
            }
            Self::Layout(_) | Self::Chunk { .. } => {
                "md changes layout and chunk by a reshape: mdadm --grow --layout, --chunk"
            }
            Self::Copies(_) => {
                "md changes that by a reshape where it can: mdadm --grow --layout=n2; else copy the data \
                 to a new array"
            }
            Self::NotGiven(_) => "give all members",
            Self::Twice => "leave the copy out",
            Self::Unaligned { .. } => {
                "shrink the file system and then the array to a multiple of 4 KiB (mdadm --grow --size), \
                 or copy the data"
            }
            Self::NoDevices
            | Self::Role(_)
            | Self::Cluster
            | Self::Features(_)
            | Self::Level(_)
            | Self::Odd(_)
            | Self::Members(_)
            | Self::Zones
            | Self::Empty
            | Self::Short { .. }
            | Self::Geometry(_) => return None,
        })
    }
}

/// What is wrong, and of what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum MdRefusal {
    /// Of the array.
    Array(Unfit),
    /// Of one of the given devices.
    Device {
        /// Which.
        index: usize,
        /// What.
        unfit: Unfit,
    },
}

/// Why an import, its commit, or its undoing is refused or has failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Two paths lead to one device.
    #[error("{} and {} are the same device", shown(.first), shown(.second))]
    Duplicate {
        /// One path.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A device can't be read.
    #[error("{} can't be read: {source}", shown(.path))]
    Unreadable {
        /// The device.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A device is no member of an array of md.
    #[error("{}: {error}", shown(.path))]
    Md {
        /// The device.
        path: PathBuf,
        /// What is wrong.
        error: MdError,
    },
    /// A device carries something else.
    #[error("{} carries {signature}", shown(.path))]
    Other {
        /// The device.
        path: PathBuf,
        /// What.
        signature: Signature,
    },
    /// The array of md is none that Evenkeel can have.
    #[error("the md array can't be imported: {0}")]
    Array(Unfit),
    /// A device is none that Evenkeel can have.
    #[error("{}: {unfit}", shown(.path))]
    Device {
        /// The device.
        path: PathBuf,
        /// What is wrong.
        unfit: Unfit,
    },
    /// Metadata has no room before the data, or the data begins where it must not.
    #[error("the md array can't be imported: {0}")]
    Layout(LayoutError),
    /// What md has before the data is where metadata has to be.
    #[error("{}: {what} lies where the array's metadata has to be", shown(.path))]
    InTheWay {
        /// The device.
        path: PathBuf,
        /// What lies there.
        what: InTheWay,
    },
    /// The array has no name that Evenkeel takes.
    #[error("\"{0}\" can't be an array's name")]
    Name(String),
    /// A device is a member of an array of Evenkeel's.
    #[error("{} is a member of the Evenkeel array \"{name}\" already", shown(.path))]
    Taken {
        /// The device.
        path: PathBuf,
        /// The array.
        name: String,
    },
    /// A device's superblock of Evenkeel must not be used by this release, or is damaged.
    #[error("{}: {error}", shown(.path))]
    Superblock {
        /// The device.
        path: PathBuf,
        /// What is wrong.
        error: SuperblockError,
    },
    /// Not all members of a prepared array were given.
    #[error(
        "\"{name}\" was prepared with {members} members, and {given} of them were given: give all"
    )]
    Incomplete {
        /// The array.
        name: String,
        /// How many it has.
        members: usize,
        /// How many were given.
        given: usize,
    },
    /// md has used a member after a commit was begun.
    #[error("md has used {} since the commit was begun, without members that it did not know any more", shown(.path))]
    UsedSince {
        /// The device.
        path: PathBuf,
    },
    /// There is nothing to go back to.
    #[error("{}: neither md's superblock nor its copy is intact", shown(.path))]
    NoWayBack {
        /// The device.
        path: PathBuf,
    },
    /// A device could not be written.
    #[error("{}: {source}", shown(.path))]
    Io {
        /// The device.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was written is not what the devices hold.
    #[error("what was written to the members is not what they hold: md's array is as it was")]
    Unwritten,
    /// The kernel gave no random numbers for identities.
    #[error("no random numbers for the array's identity: {0}")]
    Random(io::Error),
}

/// What can be in the way before the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InTheWay {
    /// A boot loader, or a partition table.
    #[error("something that is not md's (a boot loader, or a partition table)")]
    FirstBlock,
    /// md's bitmap, or what should be one.
    #[error("md's bitmap")]
    Bitmap,
    /// md's list of bad blocks.
    #[error("md's list of bad blocks")]
    BadBlocks,
}

impl ImportError {
    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::Open(OpenError::InUse { .. }) => {
                "if md has it, unmount what is on the array and stop that: mdadm --stop"
            }
            Self::Md { error: MdError::NoMagic, .. } => {
                "only members with md's metadata 1.2 can be imported (mdadm --examine tells the version): \
                 copy the data of others"
            }
            Self::Md { error: MdError::Checksum, .. } => {
                "if an import was under way, `evenkeel import --undo` or `--commit` with all members \
                 goes on with it"
            }
            Self::Array(unfit) | Self::Device { unfit, .. } => return unfit.advice(),
            Self::Layout(_) => {
                "md moves the data by `mdadm --grow --data-offset` where its size leaves room; \
                 --consistency bitmap takes less room than the journal"
            }
            Self::InTheWay { what: InTheWay::FirstBlock, .. } => {
                "if nothing boots from it and it is not needed, zero the first 4 KiB"
            }
            Self::InTheWay { what: InTheWay::Bitmap, .. } => {
                "remove it while md runs: mdadm --grow --bitmap=none"
            }
            Self::InTheWay { what: InTheWay::BadBlocks, .. } => {
                "if it is empty, assemble once with --update=no-bbl"
            }
            Self::Name(_) => {
                "give another by --name: 1 to 63 of A-Z a-z 0-9 _ . -, beginning with a letter or digit"
            }
            Self::Taken { .. } => {
                "start it by `evenkeel start`; docs/leaving-for-md.md says how md gets it back"
            }
            Self::UsedSince { .. } => {
                "`evenkeel import --undo` with all members gives the array back to md, which then has to \
                 rebuild the others: mdadm --add"
            }
            Self::Duplicate { .. }
            | Self::Open(_)
            | Self::Unreadable { .. }
            | Self::Md { .. }
            | Self::Other { .. }
            | Self::Superblock { .. }
            | Self::Incomplete { .. }
            | Self::NoWayBack { .. }
            | Self::Io { .. }
            | Self::Unwritten
            | Self::Random(_) => return None,
        })
    }
}

/// The copies by md's layout of RAID10.
fn copies(layout: u32) -> String {
    let (near, far) = (layout & 255, layout >> 8 & 255);
    let kind = if layout & 1 << 16 == 0 { "far" } else { "offset" };
    if far > 1 {
        format!("{near} near and {far} {kind} copies")
    } else {
        format!("{near} near copies")
    }
}

fn level_name(level: i32) -> String {
    match level {
        -1 => "linear".to_owned(),
        -4 => "multipath".to_owned(),
        level => format!("RAID{level}"),
    }
}

fn list(members: &[u16]) -> String {
    members.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}
