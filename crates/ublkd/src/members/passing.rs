//! Block devices of NVMe whose I/O goes past the block layer.
//!
//! Invariant: what the page cache holds of such a device is never older than the device when it is
//! opened, and is forgotten when it is closed.

use rustix::fs::{Advice, fadvise};

use super::Device;
use crate::nvme::{Passthrough, Unfit, Windows};
use crate::paths::shown;

impl Device {
    /// Lets I/O go past the block layer from now on, if it can, and logs why if it can't.
    pub(crate) fn pass_block_layer(&mut self) {
        match self.find_passthrough() {
            Ok(mut passthrough) => {
                passthrough.begin_windows();
                tracing::info!("{}: I/O goes past the block layer", shown(self.path()));
                self.passthrough = Some(Box::new(passthrough));
            }
            Err(why) => {
                let path = shown(self.path());
                tracing::info!("{path}: I/O goes through the block layer: {why}");
            }
        }
    }

    /// Whether its drive takes orders when to collect garbage once I/O goes past the block layer. Nothing is
    /// changed.
    pub(crate) fn could_have_windows(&self) -> bool {
        let number = self.identity.block_device();
        let found = number.map(|number| Passthrough::of(&self.file, number, self.bytes));
        found.is_some_and(|it| it.is_ok_and(|passthrough| passthrough.could_have_windows()))
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

    /// Its windows, if its drive takes orders when to collect garbage.
    pub(crate) fn windows(&self) -> Option<&Windows> {
        self.passthrough()?.windows()
    }

    /// The same, for whoever closes it.
    pub(crate) fn take_windows(&mut self) -> Option<Windows> {
        self.passthrough.as_mut()?.take_windows()
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
