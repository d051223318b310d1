//! A null block device, which answers at once and stores nothing. It measures the cost of a request
//! without an array.

use std::io;
use std::path::Path;

use super::{UblkError, UblkOptions, UblkServer};
use crate::null::Null;
use crate::resident::Resident;

/// Serves such a device. Dropping it stops the device.
#[derive(Debug)]
pub struct NullServer(UblkServer);

impl NullServer {
    /// Serves a device of so many blocks of 4 KiB, on a thread of its own.
    ///
    /// # Errors
    /// As from [`UblkServer::start`].
    pub fn start(blocks: u64, options: UblkOptions) -> Result<Self, UblkError> {
        let null = Null::start(blocks, options.depth).map_err(UblkError::Queue)?;
        let admit = |queue: Box<dyn Resident>| {
            let begun = null.admit(queue).recv();
            begun.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).map_err(UblkError::Queue)
        };
        UblkServer::start_at(null.volume(), &admit, options).map(Self)
    }

    /// The block device.
    #[must_use]
    pub fn disk(&self) -> &Path {
        self.0.disk()
    }
}
