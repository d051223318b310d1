use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::units::Bytes;

/// Why a trace can't be used.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file can't be opened.
    #[error("{}: {error}", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Reading or decompressing fails.
    #[error("{}, {position}: can't read on: {error}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// The last that was read.
        position: Position,
        /// What the system or the decompressor said.
        error: io::Error,
    },
    /// Neither name nor content tell the format.
    #[error(
        "{}: can't tell its format; give it as `format`: spc, msr, ssdsim, disksim, heimdall, \
         vscsi or blkparse", path.display()
    )]
    UnknownFormat {
        /// Which file.
        path: PathBuf,
    },
    /// A record is malformed.
    #[error("{}, {position}: expected {expected}, found {found}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Where.
        position: Position,
        /// What should be there.
        expected: &'static str,
        /// What is there, shortened.
        found: String,
    },
    /// There is nothing in it, or nothing that was selected.
    #[error("{}: no request in it is left{}", path.display(), left(devices))]
    Nothing {
        /// Which file.
        path: PathBuf,
        /// The devices in it.
        devices: Vec<String>,
    },
    /// It can't be scaled to a rate, since all its requests come at once.
    #[error("{}: all requests come at the same time, so `rate` can't scale them", path.display())]
    NoDuration {
        /// Which file.
        path: PathBuf,
    },
    /// It does not fit the system.
    #[error(
        "{}: the trace needs {} and the target has {}: say fit = \"compact\" (extents that are \
         touched lie densely) or fit = \"wrap\" (addresses modulo the capacity)",
        path.display(), Bytes(*need), Bytes(*capacity)
    )]
    Beyond {
        /// Which file.
        path: PathBuf,
        /// How many bytes it reaches.
        need: u64,
        /// How many bytes there are.
        capacity: u64,
    },
    /// It touches more than the system has.
    #[error(
        "{}: the trace touches more than the {} of the target, in extents of 64KiB: use a larger \
         target, `limit`, or fit = \"wrap\"", path.display(), Bytes(*capacity)
    )]
    Wider {
        /// Which file.
        path: PathBuf,
        /// How many bytes there are.
        capacity: u64,
    },
    /// It touches too many pages to count them.
    #[error(
        "{}: the trace touches more than can be counted in memory: use `limit` or `devices`",
        path.display()
    )]
    Uncountable {
        /// Which file.
        path: PathBuf,
    },
}

/// Where in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A line, from 1.
    Line(u64),
    /// A record of a binary trace, from 1, and the byte at which it begins, from 0.
    Record {
        /// Which record.
        number: u64,
        /// Its first byte, in the decompressed trace.
        byte: u64,
    },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Record { number, byte } => write!(f, "record {number} (byte {byte})"),
        }
    }
}

fn left(devices: &[String]) -> String {
    match devices {
        [] => String::new(),
        _ => format!(" after `devices` and `skip`; it has the devices {}", devices.join(", ")),
    }
}
