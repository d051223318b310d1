//! Errors of creating an array, and notes for its operator.

use std::io;
use std::path::PathBuf;

use raidcore::geometry::Shares;
use raidcore::meta::{HostName, LayoutError, NoLease};
use raidcore::units::BLOCK_BYTES;

use super::StagingError;
use crate::members::OpenError;
use crate::paths::shown;
use crate::policy::PolicyError;
use crate::signature::Signature;

/// A note for the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CreateNote {
    /// Larger members are used only in part.
    SmallestRules {
        /// The smallest member.
        path: PathBuf,
        /// Its blocks.
        blocks: u64,
        /// Blocks that are left unused on all others together.
        unused: u64,
    },
    /// Something was overwritten, by force.
    Overwritten {
        /// The member.
        path: PathBuf,
        /// What it carried.
        signature: Signature,
    },
    /// Parity is shared unevenly, since the members would wear out together otherwise.
    UnevenByAge {
        /// What they have used of their lives, in percent.
        used: Vec<u8>,
        /// Their shares.
        shares: Shares,
        /// How far apart neighbours come by it, in percents of a life.
        gap: u8,
        /// How fast small writes are at least, in percent of what they are with even shares.
        speed: u8,
    },
    /// Parity is shared evenly, since the members do not wear out together.
    EvenByAge {
        /// What they have used of their lives, in percent.
        used: Vec<u8>,
        /// How far apart neighbours are at least, in percents of a life.
        gap: u8,
    },
    /// A modelled SSD is so small that it is not what its profile means.
    SmallFlash {
        /// Its file.
        path: PathBuf,
        /// In what.
        note: String,
    },
    /// There is no `blkid`, so only the most common formats were looked for.
    NoBlkid,
    /// A member that can't zero itself, which makes a resync necessary.
    NotZeroed {
        /// The member.
        path: PathBuf,
    },
}

impl std::fmt::Display for CreateNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SmallestRules { path, blocks, unused } => write!(
                f,
                "the members differ in size: {} is the smallest ({} MiB) and rules, {} MiB of the \
                 others stay unused",
                shown(path),
                mib(*blocks),
                mib(*unused)
            ),
            Self::Overwritten { path, signature } => {
                write!(f, "{}: overwrote {signature}", shown(path))
            }
            Self::UnevenByAge { used, shares, gap, speed } => write!(
                f,
                "the members' shares of parity are {}%: they have used {}% of their lives, and come up to {gap}% apart by \
                 it, so that they wear out one after the other; small writes are at least {:.2} times as fast as with \
                 even shares",
                list(shares.percent()),
                list(used),
                f64::from(*speed) / 100.0
            ),
            Self::EvenByAge { used, gap } => write!(
                f,
                "the members share parity evenly: they have used {}% of their lives, and so are {gap}% apart already",
                list(used)
            ),
            Self::SmallFlash { path, note } => {
                write!(f, "{}: {note}; a larger file is modelled better", shown(path))
            }
            Self::NoBlkid => f.write_str(
                "blkid is not installed, so only the most common formats were looked for on the \
                 members; install util-linux to be warned of all",
            ),
            Self::NotZeroed { path } => write!(
                f,
                "{} can't zero its space quickly, so parity is computed in the background after \
                 the first start",
                shown(path)
            ),
        }
    }
}

/// Numbers, one after the other.
fn list(numbers: &[u8]) -> String {
    numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}

fn mib(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK_BYTES as u64) >> 20
}

/// Why there is no array. Nothing was changed, except with [`CreateError::Io`].
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The name is not one.
    #[error(
        "\"{0}\" can't be an array's name: 1 to 63 of A-Z a-z 0-9 _ . -, beginning with a letter \
         or digit"
    )]
    Name(String),
    /// A member can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A member does not exist.
    #[error(
        "{path} does not exist; give --file-size to make sparse files of that size as members",
        path = shown(.path)
    )]
    Missing {
        /// The member.
        path: PathBuf,
    },
    /// Two paths lead to one device.
    #[error(
        "{first} and {second} are the same device",
        first = shown(.first), second = shown(.second)
    )]
    Duplicate {
        /// One path.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The requested size is larger than a member.
    #[error(
        "{path} has {} MiB, less than the {} MiB of each member that are to be used; give a smaller \
         --member-size or larger members",
        mib(*.have), mib(*.wanted),
        path = shown(.path)
    )]
    TooSmall {
        /// The smallest member.
        path: PathBuf,
        /// Its blocks.
        have: u64,
        /// How many are to be used.
        wanted: u64,
    },
    /// The shape is impossible, or the members are too small for it.
    #[error("{0}")]
    Layout(#[from] LayoutError),
    /// There can't be such a staging log.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// The array could not follow the policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Parity is to be shared by age, and members do not tell theirs.
    #[error(
        "{} {} not tell how worn {}, by which parity is to be shared (only root may ask drives): give each member's \
         share in percent, like 5,10,15,70, or leave --parity-shares out",
        paths.iter().map(|path| shown(path).to_string()).collect::<Vec<_>>().join(", "),
        if paths.len() == 1 { "does" } else { "do" },
        if paths.len() == 1 { "it is" } else { "they are" }
    )]
    Ageless {
        /// These members.
        paths: Vec<PathBuf>,
    },
    /// It can't have a lease.
    #[error(transparent)]
    Lease(#[from] NoLease),
    /// A member is a modelled SSD, whose state is a file of this host.
    #[error(
        "{path} is a modelled SSD, whose state only this host knows: an array with a lease can't have it",
        path = shown(.path)
    )]
    LeaseOnFlash {
        /// The member.
        path: PathBuf,
    },
    /// Another host runs the array that a member belongs to.
    #[error(
        "{path} is a member of the array \"{array}\", which host {host} runs: stop it there first",
        path = shown(.path)
    )]
    Elsewhere {
        /// The member.
        path: PathBuf,
        /// The array's name.
        array: String,
        /// The host's.
        host: HostName,
    },
    /// A member carries something.
    #[error("{path} carries {signature}; --force overwrites it", path = shown(.path))]
    Occupied {
        /// The member.
        path: PathBuf,
        /// What it carries.
        signature: Signature,
    },
    /// A member can't be read, so it is not known what it carries.
    #[error("{path} can't be read: {source}", path = shown(.path))]
    Unreadable {
        /// The member.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A member could not be written; some members may be overwritten already, but there is no
    /// array.
    #[error("{path}: {source}; the array was not created", path = shown(.path))]
    Io {
        /// The member.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The members don't make up the layout's groups.
    #[error("{layout} takes {need} members, not {have}")]
    Members {
        /// The layout.
        layout: raidlog::Layout,
        /// How many it takes, in words.
        need: String,
        /// How many are given.
        have: usize,
    },
    /// There can't be such a log volume.
    #[error(transparent)]
    Volume(#[from] raidlog::ShapeError),
    /// The groups' arrays are there, but the log volume could not be put on them.
    #[error(
        "the members were written, but not the log volume on them: {0}; create it again by --force"
    )]
    Unfinished(String),
    /// The kernel gave no random numbers for identities.
    #[error("no random numbers for the array's identity: {0}")]
    Random(io::Error),
}
