//! Memory for what a drive answers.

/// What logs are read in.
pub(super) const SECTOR_BYTES: usize = 512;

/// A sector, aligned so that every controller can write to it directly.
#[repr(C, align(512))]
pub(super) struct Sector(pub(super) [u8; SECTOR_BYTES]);

impl Sector {
    /// Zeros.
    pub(super) fn new() -> Self {
        Self([0; SECTOR_BYTES])
    }
}
