//! How the demonstration reaches the array.

use std::io;
use std::path::PathBuf;

use super::nbd::NbdClient;
use super::target::{DirectFile, Target};

/// How to reach the array.
#[derive(Clone, Debug)]
pub(super) enum Address {
    /// An NBD server on a Unix socket, and the export's name.
    Nbd(PathBuf, String),
    /// A file, to be opened with O_DIRECT.
    File(PathBuf),
}

impl Address {
    /// One more connection.
    pub(super) fn connect(&self) -> io::Result<Box<dyn Target>> {
        Ok(match self {
            Self::Nbd(socket, name) => Box::new(NbdClient::connect(socket, name)?),
            Self::File(path) => Box::new(DirectFile::open(path)?),
        })
    }

    /// The array's size in bytes.
    pub(super) fn bytes(&self) -> io::Result<u64> {
        match self {
            Self::Nbd(socket, name) => Ok(NbdClient::connect(socket, name)?.bytes()),
            Self::File(path) => Ok(std::fs::metadata(path)?.len()),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Nbd(..) => "NBD",
            Self::File(_) => "FUSE",
        }
    }
}
