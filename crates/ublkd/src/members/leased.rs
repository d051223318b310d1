//! Devices of an array with a lease.

use std::io;

use super::Device;
use crate::lease::{LeaseFile, Permit};

impl Device {
    /// It is written only with this permission from now on.
    pub(crate) fn under(&mut self, permit: &Permit) {
        self.permit = Some(permit.clone());
    }

    /// Its file for the lease's agent, which shares its lock.
    ///
    /// # Errors
    /// If there is no descriptor for it.
    pub(crate) fn lease_file(&self) -> io::Result<LeaseFile> {
        Ok(LeaseFile::new(self.file.try_clone()?, self.durable_by))
    }

    /// Whether it may be written now.
    ///
    /// # Errors
    /// If not.
    pub(super) fn ask(&self) -> io::Result<()> {
        self.permit.as_ref().map_or(Ok(()), Permit::ask)
    }
}
