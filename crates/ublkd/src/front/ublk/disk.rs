//! A device's files in `/dev`: their names and their users.
//!
//! Invariants:
//! - A device in use is found to be so by what has it open: a mount, a holder (device-mapper, md,
//!   swap, a loop device) or a process. One that can't be looked at is taken to be in use.
//! - A name is never taken from a file that is no symbolic link.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::abi;
use crate::paths::shown;
use crate::users;

/// The directory of names of arrays.
const NAMES: &str = "/dev/evenkeel";

/// The block device of this number.
pub(super) fn path(id: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkb{id}"))
}

/// The character device of this number, by which it is served.
pub(super) fn server_path(id: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkc{id}"))
}

/// The numbers of all devices of the driver.
pub(super) fn all() -> io::Result<Vec<u32>> {
    let number = |entry: io::Result<fs::DirEntry>| {
        let name = entry.ok()?.file_name();
        name.to_str()?.strip_prefix("ublkc")?.parse().ok()
    };
    let mut numbers: Vec<u32> = fs::read_dir("/dev")?.filter_map(number).collect();
    numbers.retain(|&number| number != abi::ANY_DEVICE);
    numbers.sort_unstable();
    Ok(numbers)
}

/// The user of a block device, as far as this process may know; `None` if it has none.
pub(super) fn user(disk: &Path) -> Option<String> {
    let exclusive = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(disk, exclusive, Mode::empty()).err() {
        Some(Errno::BUSY) => return Some("a mount, or a device on top of it".to_owned()),
        // So it is for a process of an initramfs, whose /dev has been moved to the root file system.
        Some(Errno::NOENT) => {
            return Some("somebody, since this process does not see it".to_owned());
        }
        _ => {}
    }
    let device = fs::metadata(disk).ok().filter(|meta| meta.file_type().is_block_device())?.rdev();
    process_with(device).or_else(|| users::loop_devices_on(disk).next())
}

/// A process that has the device open, other than this one.
fn process_with(device: u64) -> Option<String> {
    let is_it = |meta: fs::Metadata| meta.file_type().is_block_device() && meta.rdev() == device;
    let has_it =
        |process: &Path| users::open_files(process).any(|file| fs::metadata(file).is_ok_and(is_it));
    users::processes_that(has_it).next()
}

/// Gives the device its array's name as a link, replacing that of an earlier server.
pub(super) fn give_name(disk: &Path, array: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(NAMES)?;
    let name = Path::new(NAMES).join(array);
    let new = Path::new(NAMES).join(format!(".{array}.{}", std::process::id()));
    if fs::symlink_metadata(&name).is_ok_and(|meta| !meta.is_symlink()) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    symlink(disk, &new)?;
    fs::rename(&new, &name)?;
    announce(disk);
    Ok(name)
}

/// Has udev look at the device again, whose name it did not know before: mounts wait for a device by its
/// name.
fn announce(disk: &Path) {
    let name = disk.file_name().unwrap_or_default();
    let event = Path::new("/sys/class/block").join(name).join("uevent");
    if let Err(error) = fs::write(&event, "change") {
        tracing::debug!(%error, "udev is not told of the name of {}", shown(disk));
    }
}

/// The name of a served block device in `/dev/evenkeel`. None if it has none.
#[must_use]
pub fn name_of(disk: &Path) -> Option<PathBuf> {
    let names = fs::read_dir(NAMES).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut given = names.filter(|name| {
        let being_given = name.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        !being_given && fs::read_link(name).is_ok_and(|target| target == disk)
    });
    given.next()
}

/// Takes the name away, if it is still this device's.
pub(super) fn take_name(name: &Path, disk: &Path) {
    if fs::read_link(name).is_ok_and(|target| target == disk)
        && let Err(error) = fs::remove_file(name)
    {
        tracing::warn!(name = %shown(name), %error, "a device's name stays behind");
    }
}
