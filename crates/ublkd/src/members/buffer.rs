//! Memory for direct I/O where there is no ring.
#![allow(unsafe_code)]

use std::io;

use crate::region::Region;

/// Memory aligned to blocks, zeroed, as direct I/O needs it.
pub struct BlockBuffer {
    region: Region,
    len: usize,
}

impl BlockBuffer {
    /// `len` bytes.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(len: usize) -> io::Result<Self> {
        Ok(Self { region: Region::new(len)?, len })
    }
}

impl std::ops::Deref for BlockBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the region is at least `len` long and only we give out its address.
        unsafe { std::slice::from_raw_parts(self.region.at(0), self.len) }
    }
}

impl std::ops::DerefMut for BlockBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.region.at(0), self.len) }
    }
}
