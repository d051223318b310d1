//! A user of an array, by NBD or by the FUSE file.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags, fallocate, fdatasync};

use crate::nbd::Nbd;

/// Why a request was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The server refused it, with this error of the protocol or the system.
    Refused(u32),
    /// The server is gone. It is unknown whether the request was carried out.
    Gone,
}

/// See the [module](self). It has one request at a time.
pub(crate) trait User: Send + 'static {
    fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, Refusal>;
    /// With `durable`, the data is durable when this returns.
    fn write(&mut self, offset: u64, data: &[u8], durable: bool) -> Result<(), Refusal>;
    /// Writes zeros.
    fn zero(&mut self, offset: u64, length: u32) -> Result<(), Refusal>;
    /// Discards; an array's discarded blocks are zeros.
    fn discard(&mut self, offset: u64, length: u32) -> Result<(), Refusal>;
    /// All acknowledged writes are durable when this returns.
    fn flush(&mut self) -> Result<(), Refusal>;
}

impl User for Nbd {
    fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, Refusal> {
        Self::read(self, offset, length)
    }

    fn write(&mut self, offset: u64, data: &[u8], durable: bool) -> Result<(), Refusal> {
        Self::write(self, offset, data, durable)
    }

    fn zero(&mut self, offset: u64, length: u32) -> Result<(), Refusal> {
        Self::zero(self, offset, length)
    }

    fn discard(&mut self, offset: u64, length: u32) -> Result<(), Refusal> {
        Self::discard(self, offset, length)
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        Self::flush(self)
    }
}

/// A user of the FUSE file, which takes writes of any bytes.
pub(crate) struct FileUser {
    file: File,
    /// The same file, with durable writes.
    durable: File,
}

impl FileUser {
    pub(crate) fn open(path: &Path) -> Self {
        let open = |flags: OFlags| {
            let mut how = File::options();
            how.read(true).write(true).custom_flags(flags.bits() as i32);
            how.open(path).expect("the array's file")
        };
        Self { file: open(OFlags::empty()), durable: open(OFlags::DSYNC) }
    }

    fn allocate(&self, how: FallocateFlags, offset: u64, length: u32) -> Result<(), Refusal> {
        let how = how | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, how, offset, length.into()).map_err(|error| refusal(error.into()))
    }
}

impl User for FileUser {
    fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, Refusal> {
        let mut data = vec![0; length as usize];
        self.file.read_exact_at(&mut data, offset).map_err(refusal)?;
        Ok(data)
    }

    fn write(&mut self, offset: u64, data: &[u8], durable: bool) -> Result<(), Refusal> {
        let file = if durable { &self.durable } else { &self.file };
        file.write_all_at(data, offset).map_err(refusal)
    }

    fn zero(&mut self, offset: u64, length: u32) -> Result<(), Refusal> {
        self.allocate(FallocateFlags::ZERO_RANGE, offset, length)
    }

    fn discard(&mut self, offset: u64, length: u32) -> Result<(), Refusal> {
        self.allocate(FallocateFlags::PUNCH_HOLE, offset, length)
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        fdatasync(&self.file).map_err(|error| refusal(error.into()))
    }
}

fn refusal(error: io::Error) -> Refusal {
    const ENOTCONN: i32 = 107;
    const ECONNABORTED: i32 = 103;
    match error.raw_os_error() {
        Some(ENOTCONN | ECONNABORTED) => Refusal::Gone,
        code => Refusal::Refused(code.map_or(u32::MAX, i32::unsigned_abs)),
    }
}
