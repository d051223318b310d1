//! The lease by which hosts agree which of them runs an array: taken before a start writes anything, renewed
//! by an agent on a thread of its own, and given up by a stop. [`raidcore::lease`] decides; here is its I/O.
//!
//! Invariants:
//! - The agent's I/O goes past the data path's queues: each member has a thread of its own for it, whose file
//!   shares the member's lock.
//! - What writes to a member, other than the agent, has a `Permit` and asks it before each write.
//! - Locks of members outlive the agent's last write: who finds them free finds what it wrote last.

mod agent;
mod clock;
mod elsewhere;
mod file;
mod identity;
mod message;
mod permit;
mod take;
mod worker;

use std::path::PathBuf;

use raidcore::meta::{HostName, NoLease, Term};

use crate::paths::shown;

pub(crate) use agent::{Agent, Leash};
pub(crate) use clock::boot_time;
pub(crate) use elsewhere::held_elsewhere;
pub use elsewhere::{Elsewhere, runs_elsewhere};
pub(crate) use file::LeaseFile;
pub use identity::host_name;
pub(crate) use identity::played_host;
pub(crate) use message::{Ending, Serve};
pub use permit::LeaseLost;
pub(crate) use permit::Permit;
pub(crate) use take::take;

/// What an operator says of an array's lease at a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeaseOptions {
    /// The array gets a lease of this term, or none any more; if not given, it stays as it is.
    pub term: Option<Option<Term>>,
    /// No other host runs the array: it is fenced.
    pub fenced: bool,
}

/// Why an array's lease is not taken.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The array can't have one.
    #[error(transparent)]
    None(#[from] NoLease),
    /// It is to become another at this start.
    #[error(
        "an array with a lease can't be reshaped: take the lease away by `evenkeel start --lease none`, reshape \
         the array, and give it the lease again"
    )]
    Becomes,
    /// A member is a modelled SSD, whose state is a file of this host.
    #[error("{} is a modelled SSD, whose state only this host knows: an array with a lease can't have it", shown(.path))]
    Flash {
        /// The member.
        path: PathBuf,
    },
    /// What other hosts write to a member can't be seen.
    #[error(
        "{}: its file system has no direct I/O, so what another host writes may not be seen here: an array with \
         a lease can't have it", shown(.path)
    )]
    NotDirect {
        /// The member.
        path: PathBuf,
    },
    /// Another host has it.
    #[error(
        "host {host} runs the array \"{name}\": it has its lease, and has renewed it while this start looked"
    )]
    Held {
        /// The array's name.
        name: String,
        /// The host's name.
        host: HostName,
    },
    /// Too few members answer.
    #[error(
        "of the {voters} members that decide who has the lease of the array \"{name}\", only {there} answer here: \
         another host may run it by the others"
    )]
    TooFew {
        /// The array's name.
        name: String,
        /// Those that answer.
        there: usize,
        /// Those that decide.
        voters: usize,
    },
    /// What the members that are here tell of the array is old.
    #[error(
        "the array \"{name}\" has changed since the members were read, again and again, or members that are not \
         here know more of it than those that are"
    )]
    Record {
        /// The array's name.
        name: String,
    },
    /// The record had a lease when this start began to wait for it, and has none any more.
    #[error(
        "the lease of the array \"{name}\" was taken away while this start waited: start it again if no other host \
         runs it"
    )]
    Gone {
        /// The array's name.
        name: String,
    },
    /// The lease was lost before the array was started.
    #[error("the lease of the array \"{name}\" was lost before it was started: {why}")]
    Lost {
        /// The array's name.
        name: String,
        /// Why.
        why: LeaseLost,
    },
    /// The host can't say who it is, or do I/O on the members.
    #[error("the lease can't be taken: {0}")]
    Host(#[from] std::io::Error),
}

impl LeaseError {
    /// What to do about it, if there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Held { .. } => Some(
                "stop it there; if that host is dead it is taken over in a while, and at once with --fenced once \
                 the host is fenced",
            ),
            Self::TooFew { .. } => Some(
                "connect more members; --fenced starts it from those that are here, once the other host is fenced",
            ),
            Self::Record { .. } => Some(
                "connect all members, and start it again; --fenced starts it as the members that are here tell, \
                 once the other host is fenced",
            ),
            Self::None(_)
            | Self::Becomes
            | Self::Flash { .. }
            | Self::NotDirect { .. }
            | Self::Gone { .. }
            | Self::Lost { .. }
            | Self::Host(_) => None,
        }
    }
}
