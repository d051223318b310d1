//! Devices of tests.

use std::fs::File;
use std::path::PathBuf;

use flashsim::Ssd;
use raidcore::units::BLOCK_BYTES;

use crate::nvme::Passthrough;

use super::{Device, DurableBy, Identity, Kind};

impl Device {
    /// A device for tests of I/O: of a pipe, for example, which can hang like a device.
    pub(crate) fn from_file(file: File, blocks: u64) -> Self {
        Self {
            path: "test".into(),
            identity: Identity::of(&file.metadata().expect("it is open")),
            durable_by: DurableBy::Flag,
            file,
            bytes: blocks * BLOCK_BYTES as u64,
            direct: false,
            kind: Kind::Block,
            flash: None,
            passthrough: None,
            block_streams: 0,
            permit: None,
        }
    }

    /// The same file, as if it were on a file system that could hang when the size is requested.
    pub(crate) fn elsewhere(mut self) -> Self {
        self.durable_by = DurableBy::Flush;
        self
    }

    /// The same, whose I/O goes past the block layer.
    pub(crate) fn passing(mut self, passthrough: Passthrough) -> Self {
        self.passthrough = Some(Box::new(passthrough));
        self
    }

    /// The same, of which the block layer knows so many write streams.
    pub(crate) fn with_block_streams(mut self, block_streams: u8) -> Self {
        self.block_streams = block_streams;
        self
    }

    /// The same, modelled as an SSD whose state is beside the file at `path`.
    pub(crate) fn with_flash(mut self, path: PathBuf, drive: Ssd) -> Self {
        (self.path, self.flash) = (path, Some(Box::new(drive)));
        self
    }
}
