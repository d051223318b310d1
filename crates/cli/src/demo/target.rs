//! What the demonstration reads and writes through: one of the array's front ends.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use raidcore::units::BLOCK_BYTES;
use rustix::fs::OFlags;

use super::nbd::NbdClient;

/// A connection to the array. Offsets and lengths are whole blocks, memory is aligned to them.
pub(super) trait Target {
    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()>;
    fn write(&mut self, at: u64, from: &[u8]) -> io::Result<()>;
    fn flush(&mut self) -> io::Result<()>;
}

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

struct DirectFile(File);

impl DirectFile {
    fn open(path: &Path) -> io::Result<Self> {
        let direct = OFlags::DIRECT.bits() as i32;
        let file = File::options().read(true).write(true).custom_flags(direct).open(path)?;
        Ok(Self(file))
    }
}

impl Target for DirectFile {
    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, at)
    }

    fn write(&mut self, at: u64, from: &[u8]) -> io::Result<()> {
        self.0.write_all_at(from, at)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Memory that O_DIRECT accepts.
pub(super) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    pub(super) fn new(len: usize) -> Self {
        let bytes = vec![0; len + BLOCK_BYTES];
        let start = bytes.as_ptr().addr().next_multiple_of(BLOCK_BYTES) - bytes.as_ptr().addr();
        Self { bytes, start, len }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}
