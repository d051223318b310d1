//! The lease block of a member, by a file of its own.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use evenkeel_client::DurableBy;
use raidcore::meta::LEASE_BLOCK;
use raidcore::units::BLOCK_BYTES;
use rustix::io::ReadWriteFlags;

use crate::members::BlockBuffer;

/// Where the lease block begins, in bytes.
const OFFSET: u64 = LEASE_BLOCK.0 * BLOCK_BYTES as u64;

/// A member's file, opened as the member is, which shares its lock.
#[derive(Debug)]
pub(crate) struct LeaseFile {
    file: File,
    durable_by: DurableBy,
}

impl LeaseFile {
    pub(crate) fn new(file: File, durable_by: DurableBy) -> Self {
        Self { file, durable_by }
    }

    pub(super) fn read(&self, buffer: &mut BlockBuffer) -> io::Result<()> {
        self.file.read_exact_at(buffer, OFFSET)
    }

    /// The block is durable when this returns.
    pub(super) fn write(&self, buffer: &BlockBuffer) -> io::Result<()> {
        match self.durable_by {
            DurableBy::Flag => {
                let parts = [io::IoSlice::new(buffer)];
                let written =
                    rustix::io::pwritev2(&self.file, &parts, OFFSET, ReadWriteFlags::DSYNC)?;
                if written == BLOCK_BYTES { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
            }
            DurableBy::Flush => {
                self.file.write_all_at(buffer, OFFSET)?;
                self.file.sync_data()
            }
        }
    }
}
