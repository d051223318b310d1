//! Mounting, and what becomes of mounts.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use raidcore::units::BLOCK_BYTES;
use rustix::mount::{MountFlags, UnmountFlags};
use ublkd::front::fuse::{FuseError, FuseOptions, FuseServer, Unmounted};
use ublkd::volume::Volume;

use crate::world::{BLOCK, World, back_end, check_for_fuse, config, errno, pattern};

#[test]
fn a_back_end_that_is_gone_answers_with_errors() {
    check_for_fuse();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (volume, submissions) = Volume::channel(config(100));
    drop(submissions);
    let server = FuseServer::mount(dir.path(), volume).expect("a mount");
    let file = File::open(dir.path().join("tank")).expect("the file opens");
    assert_eq!(errno(file.read_at(&mut [0; BLOCK_BYTES], 0)), Some(libc::EIO));
    drop(file);
    assert_eq!(server.unmount().expect("an unmount"), Unmounted::Clean);
}

#[test]
fn who_holds_the_file_keeps_it_when_it_is_withdrawn() {
    let mut world = World::new(config(100));
    let file = world.open();
    file.write_all_at(&pattern(5, 1), 5 * BLOCK).expect("a write");
    assert_eq!(world.unmount(), Unmounted::Busy);
    assert!(!world.path().exists());
    let mut back = vec![0; BLOCK_BYTES];
    file.read_exact_at(&mut back, 5 * BLOCK).expect("a read");
    assert!(back == pattern(5, 1));
}

#[test]
fn an_operators_umount_is_no_error() {
    let mut world = World::new(config(100));
    rustix::mount::unmount(world.dir.path(), UnmountFlags::empty()).expect("an unmount");
    assert_eq!(world.unmount(), Unmounted::Clean);
}

#[test]
fn others_get_in_if_they_are_let() {
    check_for_fuse();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (volume, submissions) = Volume::channel(config(100));
    let _memory = back_end(submissions);
    let options = FuseOptions { allow_other: true };
    let _server = FuseServer::mount_with(dir.path(), volume, options).expect("a mount");
    let mode = fs::metadata(dir.path().join("tank")).expect("attributes").mode();
    assert_eq!(mode & 0o7777, 0o660);
}

/// A FUSE mount whose server is dead, or never lived; the mount is removed at the end in any case.
struct RawMount {
    dir: PathBuf,
}

impl RawMount {
    fn new(dir: &Path) -> Self {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").expect("FUSE");
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = std::ffi::CString::new(options).expect("no NUL");
        rustix::mount::mount("dead", dir, "fuse", MountFlags::NODEV, options.as_c_str())
            .expect("a mount");
        // Dropping the device has the effect of a killed server.
        Self { dir: dir.to_owned() }
    }
}

impl Drop for RawMount {
    fn drop(&mut self) {
        while fs::metadata(&self.dir).is_err_and(|e| e.raw_os_error() == Some(libc::ENOTCONN)) {
            if rustix::mount::unmount(&self.dir, UnmountFlags::DETACH).is_err() {
                break;
            }
        }
    }
}

#[test]
fn the_mounts_of_killed_servers_are_removed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let _first = RawMount::new(dir.path());
    assert_eq!(errno(fs::metadata(dir.path())), Some(libc::ENOTCONN));
    let (volume, submissions) = Volume::channel(config(100));
    let _memory = back_end(submissions);
    let server = FuseServer::mount(dir.path(), volume).expect("a mount");
    assert!(dir.path().join("tank").exists());
    assert_eq!(server.unmount().expect("an unmount"), Unmounted::Clean);
    assert_eq!(fs::read_dir(dir.path()).expect("nothing is below").count(), 0);
}

#[test]
fn a_living_mount_is_left_alone() {
    let world = World::new(config(100));
    let (volume, _submissions) = Volume::channel(config(100));
    let error = FuseServer::mount(world.dir.path(), volume).expect_err("it is taken");
    assert!(matches!(error, FuseError::InUse { .. }), "{error}");
    assert!(world.path().exists());
}
