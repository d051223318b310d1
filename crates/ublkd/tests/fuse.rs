//! The FUSE front end as the kernel and its users see it, over a back end in memory. Mounting needs
//! root and /dev/fuse; without them these tests say so and check nothing.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use raidcore::engine::{Op, RequestError};
use raidcore::units::{BLOCK_BYTES, Lba};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;
use ublkd::front::fuse::{FuseError, FuseServer, Unmounted};
use ublkd::volume::{Submission, Submissions, Submit, Volume, VolumeConfig};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Blocks in memory; a block that is not there reads as zeros.
#[derive(Default)]
struct Memory {
    blocks: BTreeMap<u64, Vec<u8>>,
    log: Vec<Submit>,
    failing: bool,
}

impl Memory {
    fn serve(&mut self, submission: &mut Submission) -> Result<(), RequestError> {
        let Submit {
            op,
            lba: Lba(lba),
            blocks,
            ..
        } = submission.request;
        self.log.push(submission.request);
        if self.failing {
            return Err(RequestError::Io);
        }
        let pieces = submission.buffer.chunks_exact_mut(BLOCK_BYTES);
        match op {
            Op::Read => {
                for (lba, piece) in (lba..lba + u64::from(blocks)).zip(pieces) {
                    match self.blocks.get(&lba) {
                        Some(block) => piece.copy_from_slice(block),
                        None => piece.fill(0),
                    }
                }
            }
            Op::Write => {
                for (lba, piece) in (lba..lba + u64::from(blocks)).zip(pieces) {
                    self.blocks.insert(lba, piece.to_vec());
                }
            }
            Op::Flush => {}
            Op::Discard | Op::WriteZeroes => {
                let mut behind = self.blocks.split_off(&lba);
                self.blocks
                    .append(&mut behind.split_off(&(lba + u64::from(blocks))));
            }
        }
        Ok(())
    }
}

/// A mount over a [`Memory`], undone when it is dropped, however the test ends.
struct World {
    server: Option<FuseServer>,
    memory: Arc<Mutex<Memory>>,
    dir: TempDir,
}

fn config(blocks: u64) -> VolumeConfig {
    VolumeConfig {
        name: "tank".to_owned(),
        blocks,
        chunk_blocks: 16,
        stripe_blocks: 64,
        max_request_blocks: 256,
        tags: 32,
    }
}

fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("not checked: mounting needs root and /dev/fuse");
    }
    can
}

fn back_end(mut submissions: Submissions) -> Arc<Mutex<Memory>> {
    let memory = Arc::new(Mutex::new(Memory::default()));
    let shared = Arc::clone(&memory);
    thread::spawn(move || {
        while let Some(mut submission) = submissions.recv() {
            let result = shared.lock().expect("no panic").serve(&mut submission);
            submission.complete(result);
        }
    });
    memory
}

impl World {
    fn new(config: VolumeConfig) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (volume, submissions) = Volume::channel(config);
        let memory = back_end(submissions);
        let server = FuseServer::mount(dir.path(), volume).expect("a mount");
        Self {
            server: Some(server),
            memory,
            dir,
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("tank")
    }

    /// The file, opened as programs open a disk.
    fn open(&self) -> File {
        self.open_with(libc::O_DIRECT)
    }

    fn open_with(&self, flags: i32) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags);
        options.open(self.path()).expect("the file opens")
    }

    fn log(&self) -> Vec<Submit> {
        self.memory.lock().expect("no panic").log.clone()
    }

    fn count(&self, op: Op) -> usize {
        self.log().iter().filter(|request| request.op == op).count()
    }

    fn unmount(&mut self) -> Unmounted {
        self.server
            .take()
            .expect("a mount")
            .unmount()
            .expect("an unmount")
    }
}

/// Bytes that tell which block they are of.
fn pattern(lba: u64, blocks: u64) -> Vec<u8> {
    (lba..lba + blocks)
        .flat_map(|lba| [lba.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes(); BLOCK_BYTES / 8])
        .flatten()
        .collect()
}

/// Calls `with` with the bytes, `shift` bytes after a page's start.
fn placed<T>(shift: usize, bytes: &[u8], with: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut memory = vec![0; bytes.len() + 2 * BLOCK_BYTES];
    let start = memory.as_ptr().align_offset(BLOCK_BYTES) + shift;
    let place = &mut memory[start..start + bytes.len()];
    place.copy_from_slice(bytes);
    with(place)
}

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Option<i32> {
    result.expect_err("an error").raw_os_error()
}

#[test]
fn the_directory_has_one_file_of_the_arrays_size() {
    if !can_mount() {
        return;
    }
    let mut world = World::new(config(1000));
    let names: Vec<_> = fs::read_dir(world.dir.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["tank"]);
    let metadata = fs::metadata(world.path()).expect("attributes");
    assert_eq!(metadata.len(), 1000 * BLOCK);
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    assert_eq!(metadata.uid(), rustix::process::geteuid().as_raw());
    let space = rustix::fs::statfs(world.dir.path()).expect("statfs");
    assert_eq!(
        (space.f_blocks, space.f_bfree, space.f_bsize as u64),
        (1000, 0, BLOCK)
    );
    assert!(!world.dir.path().join("other").exists());
    assert_eq!(world.unmount(), Unmounted::Clean);
    assert_eq!(
        fs::read_dir(world.dir.path()).expect("a directory").count(),
        0
    );
}

#[test]
fn nothing_but_content_can_be_changed() {
    if !can_mount() {
        return;
    }
    let world = World::new(config(16));
    let dir = world.dir.path();
    assert_eq!(errno(File::create(dir.join("new"))), Some(libc::EPERM));
    assert_eq!(errno(fs::create_dir(dir.join("new"))), Some(libc::EPERM));
    assert_eq!(errno(fs::remove_file(world.path())), Some(libc::EPERM));
    assert_eq!(
        errno(fs::rename(world.path(), dir.join("new"))),
        Some(libc::EPERM)
    );
    let file = world.open();
    assert_eq!(errno(file.set_len(0)), Some(libc::EPERM));
    assert_eq!(errno(file.set_len(17 * BLOCK)), Some(libc::EPERM));
    file.set_len(16 * BLOCK).expect("the size that it has");
    file.set_modified(std::time::SystemTime::UNIX_EPOCH)
        .expect("times are taken and forgotten");
    fs::set_permissions(world.path(), fs::Permissions::from_mode(0o644)).expect("so are modes");
    let mode = fs::metadata(world.path())
        .expect("attributes")
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn what_was_written_is_read() {
    if !can_mount() {
        return;
    }
    let world = World::new(config(2000));
    for flags in [libc::O_DIRECT, 0] {
        let file = world.open_with(flags);
        // Up to beyond what one FUSE message carries.
        for (lba, blocks) in [(0, 1), (7, 3), (100, 256), (1000, 1000)] {
            let data = pattern(lba + flags as u64, blocks);
            placed(0, &data, |data| file.write_all_at(data, lba * BLOCK)).expect("a write");
            for shift in [0, 16] {
                placed(shift, &vec![0; data.len()], |back| {
                    file.read_exact_at(back, lba * BLOCK).expect("a read");
                    assert!(
                        *back == data,
                        "{blocks} blocks at {lba}, {shift} bytes off a page"
                    );
                });
            }
        }
    }
    let zeros = &mut [1; BLOCK_BYTES][..];
    world
        .open()
        .read_exact_at(zeros, 50 * BLOCK)
        .expect("a read");
    assert_eq!(zeros, &[0; BLOCK_BYTES][..]);
    let largest = world.log().iter().map(|request| request.blocks).max();
    assert_eq!(
        largest,
        Some(256),
        "1 MiB arrives as one request, and nothing larger"
    );
}

#[test]
fn a_small_volume_gets_small_requests() {
    if !can_mount() {
        return;
    }
    let world = World::new(VolumeConfig {
        max_request_blocks: 4,
        ..config(1000)
    });
    let file = world.open();
    let data = pattern(3, 500);
    placed(0, &data, |data| file.write_all_at(data, 3 * BLOCK)).expect("a write");
    let mut back = vec![0; data.len()];
    file.read_exact_at(&mut back, 3 * BLOCK).expect("a read");
    assert!(back == data);
    assert!(world.log().iter().all(|request| request.blocks <= 4));
}

#[test]
fn what_is_not_aligned_fails_and_reaches_nobody() {
    if !can_mount() {
        return;
    }
    let world = World::new(config(100));
    let file = world.open();
    let mut buffer = vec![0; 8192];
    for (offset, length) in [(1, 4096), (512, 4096), (0, 512), (4096, 4097)] {
        let buffer = &mut buffer[..length];
        assert_eq!(errno(file.read_at(buffer, offset)), Some(libc::EINVAL));
        assert_eq!(errno(file.write_at(buffer, offset)), Some(libc::EINVAL));
    }
    assert_eq!(world.count(Op::Read) + world.count(Op::Write), 0);
}

/// The kernel cuts what is larger than a message where the user's memory has page boundaries. A
/// short answer would be lost data to a loop device, which takes it for success.
#[test]
fn a_write_is_never_short() {
    if !can_mount() {
        return;
    }
    let world = World::new(config(1000));
    let file = world.open();
    let result = placed(16, &pattern(0, 300), |data| file.write_at(data, 0));
    assert_eq!(errno(result), Some(libc::EINVAL));
    let result = placed(16, &pattern(0, 255), |data| file.write_at(data, 0));
    assert_eq!(result.expect("it fits into a message"), 255 * BLOCK_BYTES);
}

#[test]
fn the_file_ends_where_the_array_ends() {
    if !can_mount() {
        return;
    }
    let world = World::new(config(10));
    let file = world.open();
    let mut buffer = vec![0; 4 * BLOCK_BYTES];
    assert_eq!(
        file.read_at(&mut buffer, 8 * BLOCK).expect("a short read"),
        2 * BLOCK_BYTES
    );
    assert_eq!(file.read_at(&mut buffer, 10 * BLOCK).expect("the end"), 0);
    assert_eq!(errno(file.write_at(&buffer, 8 * BLOCK)), Some(libc::ENOSPC));
    assert_eq!(
        errno(file.write_at(&buffer, 10 * BLOCK)),
        Some(libc::ENOSPC)
    );
    assert_eq!(world.count(Op::Write), 0);
    let seek = |from| rustix::fs::seek(&file, from).map_err(rustix::io::Errno::raw_os_error);
    assert_eq!(seek(SeekFrom::Data(4096)), Ok(4096));
    assert_eq!(seek(SeekFrom::Hole(4096)), Ok(10 * BLOCK));
    assert_eq!(seek(SeekFrom::Data(10 * BLOCK)), Err(libc::ENXIO));
}

#[test]
fn durability_is_asked_for_when_the_user_asks() {
    if !can_mount() {
        return;
    }
    let world = World::new(config(100));
    let data = pattern(0, 1);
    let file = world.open();
    file.write_all_at(&data, 0).expect("a write");
    assert_eq!(world.count(Op::Flush), 0);
    file.sync_all().expect("fsync");
    assert_eq!(world.count(Op::Flush), 1);
    file.sync_data().expect("fdatasync");
    assert_eq!(world.count(Op::Flush), 2);
    drop(file);
    assert_eq!(world.count(Op::Flush), 3, "closing flushes");
    drop(File::open(world.path()).expect("the file opens"));
    assert_eq!(
        world.count(Op::Flush),
        3,
        "but not for who can't have written"
    );
    assert!(world.log().iter().all(|request| !request.fua));
    for flag in [libc::O_DSYNC, libc::O_SYNC] {
        let file = world.open_with(libc::O_DIRECT | flag);
        file.write_all_at(&data, 0).expect("a write");
        let last = world
            .log()
            .into_iter()
            .rfind(|request| request.op == Op::Write);
        assert!(last.expect("a write").fua);
    }
}

#[test]
fn holes_and_zeros_reach_the_back_end_as_such() {
    if !can_mount() {
        return;
    }
    let world = World::new(config(100));
    let file = world.open();
    placed(0, &pattern(0, 100), |data| file.write_all_at(data, 0)).expect("a write");
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let allocate = |flags, lba: u64, blocks: u64| {
        rustix::fs::fallocate(&file, flags, lba * BLOCK, blocks * BLOCK)
            .map_err(rustix::io::Errno::raw_os_error)
    };
    assert_eq!(allocate(punch, 10, 5), Ok(()));
    assert_eq!(allocate(FallocateFlags::ZERO_RANGE, 20, 2), Ok(()));
    assert_eq!(
        allocate(FallocateFlags::empty(), 0, 10),
        Err(libc::EOPNOTSUPP)
    );
    let unaligned = rustix::fs::fallocate(&file, punch, 512, 4096);
    assert_eq!(
        unaligned.map_err(rustix::io::Errno::raw_os_error),
        Err(libc::EINVAL)
    );
    let asked: Vec<_> = world
        .log()
        .into_iter()
        .filter(|request| request.op != Op::Write)
        .map(|request| (request.op, request.lba.0, request.blocks))
        .collect();
    assert_eq!(asked, [(Op::Discard, 10, 5), (Op::WriteZeroes, 20, 2)]);
    let mut expected = pattern(0, 100);
    expected[10 * BLOCK_BYTES..15 * BLOCK_BYTES].fill(0);
    expected[20 * BLOCK_BYTES..22 * BLOCK_BYTES].fill(0);
    let mut back = vec![1; expected.len()];
    file.read_exact_at(&mut back, 0).expect("a read");
    assert!(back == expected);
}

#[test]
fn a_long_discard_goes_in_parts_and_is_answered_once() {
    if !can_mount() {
        return;
    }
    let blocks = 5 << 18;
    let world = World::new(VolumeConfig {
        tags: 1,
        ..config(blocks)
    });
    let file = world.open();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, BLOCK, (blocks - 1) * BLOCK).expect("a hole");
    let mut next = 1;
    for part in world.log() {
        assert_eq!((part.op, part.lba), (Op::Discard, Lba(next)));
        next += u64::from(part.blocks);
    }
    assert_eq!(next, blocks);
    world.memory.lock().expect("no panic").failing = true;
    let failed = rustix::fs::fallocate(&file, punch, 0, blocks * BLOCK);
    assert_eq!(
        failed.map_err(rustix::io::Errno::raw_os_error),
        Err(libc::EIO)
    );
}

#[test]
fn errors_of_the_array_are_errors_of_the_file() {
    if !can_mount() {
        return;
    }
    let world = World::new(config(100));
    let file = world.open();
    world.memory.lock().expect("no panic").failing = true;
    let mut block = vec![0; BLOCK_BYTES];
    assert_eq!(errno(file.read_at(&mut block, 0)), Some(libc::EIO));
    assert_eq!(errno(file.write_at(&block, 0)), Some(libc::EIO));
    assert_eq!(errno(file.sync_all()), Some(libc::EIO));
    world.memory.lock().expect("no panic").failing = false;
    file.write_all_at(&block, 0).expect("errors pass");
}

#[test]
fn more_users_than_buffers_are_all_served() {
    if !can_mount() {
        return;
    }
    let world = World::new(VolumeConfig {
        tags: 2,
        ..config(1600)
    });
    thread::scope(|scope| {
        for user in 0..16 {
            let file = world.open();
            scope.spawn(move || {
                for lba in (user * 100..).take(100) {
                    file.write_all_at(&pattern(lba, 1), lba * BLOCK)
                        .expect("a write");
                    let mut back = vec![0; BLOCK_BYTES];
                    file.read_exact_at(&mut back, lba * BLOCK).expect("a read");
                    assert!(back == pattern(lba, 1));
                }
            });
        }
    });
    assert_eq!(world.memory.lock().expect("no panic").blocks.len(), 1600);
}

#[test]
fn a_back_end_that_is_gone_answers_with_errors() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (volume, submissions) = Volume::channel(config(100));
    drop(submissions);
    let server = FuseServer::mount(dir.path(), volume).expect("a mount");
    let file = File::open(dir.path().join("tank")).expect("the file opens");
    assert_eq!(
        errno(file.read_at(&mut [0; BLOCK_BYTES], 0)),
        Some(libc::EIO)
    );
    drop(file);
    assert_eq!(server.unmount().expect("an unmount"), Unmounted::Clean);
}

#[test]
fn who_holds_the_file_keeps_it_when_it_is_withdrawn() {
    if !can_mount() {
        return;
    }
    let mut world = World::new(config(100));
    let file = world.open();
    file.write_all_at(&pattern(5, 1), 5 * BLOCK)
        .expect("a write");
    assert_eq!(world.unmount(), Unmounted::Busy);
    assert!(!world.path().exists());
    let mut back = vec![0; BLOCK_BYTES];
    file.read_exact_at(&mut back, 5 * BLOCK).expect("a read");
    assert!(back == pattern(5, 1));
}

#[test]
fn an_operators_umount_is_no_error() {
    if !can_mount() {
        return;
    }
    let mut world = World::new(config(100));
    rustix::mount::unmount(world.dir.path(), UnmountFlags::empty()).expect("an unmount");
    assert_eq!(world.unmount(), Unmounted::Clean);
}

/// A FUSE mount whose server is dead, or never lived; removed at the end whatever is left of it.
struct RawMount {
    dir: PathBuf,
}

impl RawMount {
    fn new(dir: &Path) -> Self {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .expect("FUSE");
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        let options = std::ffi::CString::new(options).expect("no NUL");
        rustix::mount::mount("dead", dir, "fuse", MountFlags::NODEV, options.as_c_str())
            .expect("a mount");
        // Dropping the device is what the kernel does for a killed server.
        Self {
            dir: dir.to_owned(),
        }
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
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let _first = RawMount::new(dir.path());
    assert_eq!(errno(fs::metadata(dir.path())), Some(libc::ENOTCONN));
    let (volume, submissions) = Volume::channel(config(100));
    let _memory = back_end(submissions);
    let server = FuseServer::mount(dir.path(), volume).expect("a mount");
    assert!(dir.path().join("tank").exists());
    assert_eq!(server.unmount().expect("an unmount"), Unmounted::Clean);
    assert_eq!(
        fs::read_dir(dir.path()).expect("nothing is below").count(),
        0
    );
}

#[test]
fn a_living_mount_is_left_alone() {
    if !can_mount() {
        return;
    }
    let world = World::new(config(100));
    let (volume, _submissions) = Volume::channel(config(100));
    let error = FuseServer::mount(world.dir.path(), volume).expect_err("it is taken");
    assert!(matches!(error, FuseError::InUse { .. }), "{error}");
    assert!(world.path().exists());
}

/// A loop device and a mount of it, undone at the end.
struct Loop {
    device: String,
    mounted: Option<PathBuf>,
}

impl Loop {
    fn new(file: &Path) -> Self {
        let mut command = Command::new("losetup");
        command
            .args(["--direct-io=on", "--sector-size", "4096", "-f", "--show"])
            .arg(file);
        Self {
            device: run(&mut command).trim().to_owned(),
            mounted: None,
        }
    }

    fn mount(&mut self, dir: &Path) {
        run(Command::new("mount")
            .args(["-o", "discard", &self.device])
            .arg(dir));
        self.mounted = Some(dir.to_owned());
    }

    fn unmount(&mut self) {
        if let Some(dir) = self.mounted.take() {
            run(Command::new("umount").arg(dir));
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Some(dir) = self.mounted.take() {
            Command::new("umount").arg(dir).status().ok();
        }
        Command::new("losetup")
            .args(["-d", &self.device])
            .status()
            .ok();
    }
}

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_file_system_lives_on_a_loop_device_of_the_file() {
    if !can_mount() || !Path::new("/dev/loop-control").exists() {
        return;
    }
    let mut world = World::new(config(32 << 8));
    let mut device = Loop::new(&world.path());
    let name = device.device.clone();
    let query = ["-n", "-O", "DIO,LOG-SEC", "--raw", &name];
    assert_eq!(run(Command::new("losetup").args(query)).trim(), "1 4096");
    run(Command::new("mkfs.ext4").args(["-q", "-F", &name]));
    let dir = tempfile::tempdir().expect("a temporary directory");
    device.mount(dir.path());
    let content = pattern(1, 700);
    fs::write(dir.path().join("file"), &content).expect("a file");
    device.unmount();
    assert!(world.count(Op::Flush) > 0, "an unmount flushes");
    assert!(world.count(Op::Discard) > 0, "mkfs discards");
    run(Command::new("fsck.ext4").args(["-fn", &name]));
    device.mount(dir.path());
    assert!(fs::read(dir.path().join("file")).expect("a file") == content);
    device.unmount();
    drop(device);
    assert_eq!(world.unmount(), Unmounted::Clean);
}
