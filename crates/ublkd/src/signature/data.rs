//! Whether a file has anything but zeros in it.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom as Extent;

use crate::members::Device;

/// How much is read at once.
const STEP_BYTES: usize = 1 << 20;

/// The first byte of a file that is not zero. Known holes are not read. `goes_on` is asked before
/// each step, which is short, and its error ends the search.
///
/// # Errors
/// If the file can't be read.
pub(super) fn first_byte(
    device: &Device,
    goes_on: impl Fn() -> io::Result<()>,
) -> io::Result<Option<u64>> {
    // Through its descriptor, since the path may lead elsewhere by now. Not direct, so that any
    // offset will do.
    let mut file = File::open(format!("/proc/self/fd/{}", device.fd()))?;
    let end = file.seek(SeekFrom::End(0))?;
    let mut bytes = vec![0; STEP_BYTES];
    let mut at = 0;
    while at < end {
        goes_on()?;
        let Some(data) = next_data(&file, at)? else { return Ok(None) };
        at = data;
        let len = (end - at).min(STEP_BYTES as u64) as usize;
        file.read_exact_at(&mut bytes[..len], at)?;
        if let Some(found) = bytes[..len].iter().position(|&byte| byte != 0) {
            return Ok(Some(at + found as u64));
        }
        at += len as u64;
    }
    Ok(None)
}

/// Where data begins, from `at` on. A file system without holes has data everywhere.
fn next_data(file: impl AsFd, at: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, Extent::Data(at)) {
        Ok(data) => Ok(Some(data)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}
