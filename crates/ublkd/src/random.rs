//! Randomness from the kernel.

use std::fs::File;
use std::io::{self, Read as _};

/// 16 random bytes in the form of a UUID, version 4 (RFC 9562, section 5.4).
///
/// # Errors
/// If the kernel gives none.
pub fn random_uuid() -> io::Result<[u8; 16]> {
    let mut uuid = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut uuid)?;
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}
