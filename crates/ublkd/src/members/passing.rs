//! Block devices of NVMe whose I/O goes past the block layer.
//!
//! Invariant: what the page cache holds of such a device is never older than the device when it is
//! opened, and is forgotten when it is closed.

use rustix::fs::{Advice, fadvise};

use super::Device;
use crate::nvme::{Passthrough, Unfit};
use crate::paths::shown;

impl Device {
    /// Lets I/O go past the block layer from now on, if it can, and logs why if it can't.
    pub(crate) fn pass_block_layer(&mut self) {
        match self.find_passthrough() {
            Ok(passthrough) => {
                tracing::info!("{}: I/O goes past the block layer", shown(self.path()));
                self.passthrough = Some(Box::new(passthrough));
            }
            Err(why) => {
                let path = shown(self.path());
                tracing::info!("{path}: I/O goes through the block layer: {why}");
            }
        }
    }

    fn find_passthrough(&self) -> Result<Passthrough, Unfit> {
        let number = self.identity.block_device().ok_or(Unfit::NotNvme)?;
        let passthrough = Passthrough::of(&self.file, number, self.bytes)?;
        // What others have written through the page cache.
        self.sync().map_err(Unfit::Unwritten)?;
        self.forget_pages();
        Ok(passthrough)
    }

    /// The way past the block layer, if I/O takes it.
    pub(crate) fn passthrough(&self) -> Option<&Passthrough> {
        self.passthrough.as_deref()
    }

    /// Lets the page cache forget what others have read of the device through it, which I/O past the
    /// block layer does not change.
    pub(super) fn forget_cached(&self) {
        if self.passthrough.is_some() {
            self.forget_pages();
        }
    }

    fn forget_pages(&self) {
        if let Err(error) = fadvise(&self.file, 0, None, Advice::DontNeed) {
            tracing::warn!(path = %shown(&self.path), %error, "the page cache may be out of date");
        }
    }
}
