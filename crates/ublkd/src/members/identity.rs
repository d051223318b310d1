//! Which device a path leads to.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::flash::Named;

/// The identity of a device, whatever its path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity(u64, u64);

impl Identity {
    /// That of a file or block device.
    pub(super) fn of(meta: &Metadata) -> Self {
        if meta.file_type().is_block_device() {
            return Self(u64::MAX, meta.rdev());
        }
        Self(meta.dev(), meta.ino())
    }

    /// The device number, if it is a block device's.
    pub(crate) fn block_device(self) -> Option<u64> {
        (self.0 == u64::MAX).then_some(self.1)
    }

    /// The identity of the device that a path, or the name of a modelled SSD, leads to.
    ///
    /// # Errors
    /// If there is nothing.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        let named = Named::parse(path);
        let path = named.as_ref().map_or(path, |named| &named.path);
        Ok(Self::of(&path.metadata()?))
    }
}
