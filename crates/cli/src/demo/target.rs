//! The demonstration's connection to the array, through one of its front ends.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use raidcore::units::BLOCK_BYTES;
use rustix::fs::OFlags;

/// A connection to the array. Offsets and lengths are whole blocks, memory is aligned to them.
pub(super) trait Target {
    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()>;
    fn write(&mut self, at: u64, from: &[u8]) -> io::Result<()>;
    fn flush(&mut self) -> io::Result<()>;
}

/// A file that is read and written with O_DIRECT.
pub(super) struct DirectFile(File);

impl DirectFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
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
