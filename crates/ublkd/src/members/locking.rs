//! Locks of files, which tell processes of one machine apart from one another.
#![allow(unsafe_code)]

use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;

use crate::lease::played_host;

/// Where the byte is that a played host locks: far behind what any file has.
const BYTES: i64 = 1 << 62;

/// Locks a file for this process alone. Hosts that are played on one machine share its files, as hosts share
/// devices: each has a lock of its own, which excludes no other, but who plays none.
///
/// # Errors
/// `WouldBlock` if another process has it, or as from the kernel.
pub(super) fn lock(file: &File) -> Result<(), TryLockError> {
    let Some(host) = played_host() else { return file.try_lock() };
    file.try_lock_shared()?;
    let hash = host.bytes().fold(0i64, |hash, byte| (hash * 31 + i64::from(byte)) % (1 << 32));
    let byte = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: BYTES + hash,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the structure lives as long as the call, which changes nothing in it.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &byte) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Err(TryLockError::WouldBlock),
        _ => Err(TryLockError::Error(error)),
    }
}
