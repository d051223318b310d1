//! What the file does.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use raidcore::engine::Op;
use raidcore::units::{BLOCK_BYTES, Lba};
use rustix::fs::{FallocateFlags, SeekFrom};
use ublkd::front::fuse::{FuseServer, Unmounted};
use ublkd::volume::{Volume, VolumeConfig};

use crate::world::{BLOCK, World, check_for_fuse, config, errno, pattern, placed};

#[test]
fn the_directory_has_one_file_of_the_arrays_size() {
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
    assert_eq!((space.f_blocks, space.f_bfree, space.f_bsize as u64), (1000, 0, BLOCK));
    assert!(!world.dir.path().join("other").exists());
    assert_eq!(world.unmount(), Unmounted::Clean);
    assert_eq!(fs::read_dir(world.dir.path()).expect("a directory").count(), 0);
}

#[test]
fn a_file_that_grows_is_larger_for_who_has_it_open() {
    let world = World::new(config(1000));
    let file = world.open();
    assert_eq!(file.metadata().expect("attributes").len(), 1000 * BLOCK);
    world.size.grow(1500);
    world.server().tell_size().expect("the kernel is told");
    assert_eq!(file.metadata().expect("attributes").len(), 1500 * BLOCK);
    assert_eq!(fs::metadata(world.path()).expect("attributes").blocks(), 1500 * BLOCK / 512);
    let space = rustix::fs::statfs(world.dir.path()).expect("statfs");
    assert_eq!(space.f_blocks, 1500);
    let data = pattern(1499, 1);
    placed(0, &data, |data| file.write_all_at(data, 1499 * BLOCK)).expect("a write at the new end");
    placed(0, &vec![0; data.len()], |back| {
        file.read_exact_at(back, 1499 * BLOCK).expect("a read");
        assert!(*back == data);
    });
    let behind = placed(0, &data, |data| file.write_all_at(data, 1500 * BLOCK));
    assert_eq!(errno(behind), Some(libc::ENOSPC));
}

#[test]
fn a_size_that_nobody_has_asked_for_is_told_all_the_same() {
    let world = World::new(config(1000));
    world.size.grow(1500);
    world.server().tell_size().expect("the kernel is told");
    assert_eq!(fs::metadata(world.path()).expect("attributes").len(), 1500 * BLOCK);
}

#[test]
fn nothing_but_content_can_be_changed() {
    let world = World::new(config(16));
    let dir = world.dir.path();
    assert!(File::create(dir.join("new")).is_err());
    assert!(fs::remove_file(world.path()).is_err());
    assert!(fs::rename(world.path(), dir.join("new")).is_err());
    let file = world.open();
    assert_eq!(errno(file.set_len(0)), Some(libc::EPERM));
    assert_eq!(errno(file.set_len(17 * BLOCK)), Some(libc::EPERM));
    file.set_len(16 * BLOCK).expect("the size that it has");
    fs::set_permissions(world.path(), fs::Permissions::from_mode(0o644)).expect("forgotten");
    let mode = fs::metadata(world.path()).expect("attributes").mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn what_was_written_is_read() {
    let world = World::new(config(2000));
    for flags in [libc::O_DIRECT, 0] {
        let file = world.open_with(flags);
        // Up to more than one FUSE message carries.
        for (lba, blocks) in [(0, 1), (7, 3), (100, 256), (1000, 1000)] {
            let data = pattern(lba + flags as u64, blocks);
            placed(0, &data, |data| file.write_all_at(data, lba * BLOCK)).expect("a write");
            for shift in [0, 16] {
                placed(shift, &vec![0; data.len()], |back| {
                    file.read_exact_at(back, lba * BLOCK).expect("a read");
                    assert!(*back == data, "{blocks} blocks at {lba}, {shift} bytes off a page");
                });
            }
        }
    }
    let zeros = &mut [1; BLOCK_BYTES][..];
    world.open().read_exact_at(zeros, 50 * BLOCK).expect("a read");
    assert_eq!(zeros, &[0; BLOCK_BYTES][..]);
    let largest = world.log().iter().map(|request| request.blocks).max();
    assert_eq!(largest, Some(256), "1 MiB arrives as one request, and nothing larger");
}

#[test]
fn a_small_volume_gets_small_requests() {
    let world = World::new(VolumeConfig { max_request_blocks: 4, ..config(1000) });
    let file = world.open();
    let data = pattern(3, 500);
    placed(0, &data, |data| file.write_all_at(data, 3 * BLOCK)).expect("a write");
    let mut back = vec![0; data.len()];
    file.read_exact_at(&mut back, 3 * BLOCK).expect("a read");
    assert!(back == data);
    assert!(world.log().iter().all(|request| request.blocks <= 4));
}

#[test]
fn the_file_ends_where_the_array_ends() {
    let world = World::new(config(10));
    let file = world.open();
    let mut buffer = vec![0; 4 * BLOCK_BYTES];
    assert_eq!(file.read_at(&mut buffer, 8 * BLOCK).expect("a short read"), 2 * BLOCK_BYTES);
    assert_eq!(file.read_at(&mut buffer, 10 * BLOCK).expect("the end"), 0);
    assert_eq!(errno(file.write_at(&buffer, 8 * BLOCK)), Some(libc::ENOSPC));
    assert_eq!(errno(file.write_at(&buffer, 10 * BLOCK)), Some(libc::ENOSPC));
    assert_eq!(world.count(Op::Write), 0);
    let seek = |from| rustix::fs::seek(&file, from).map_err(rustix::io::Errno::raw_os_error);
    assert_eq!(seek(SeekFrom::Data(4096)), Ok(4096));
    assert_eq!(seek(SeekFrom::Hole(4096)), Ok(10 * BLOCK));
    assert_eq!(seek(SeekFrom::Data(10 * BLOCK)), Err(libc::ENXIO));
}

#[test]
fn durability_is_asked_for_when_the_user_asks() {
    let world = World::new(config(100));
    let data = pattern(0, 1);
    let file = world.open();
    file.write_all_at(&data, 0).expect("a write");
    assert_eq!(world.count(Op::Flush), 0);
    file.sync_all().expect("fsync");
    assert_eq!(world.count(Op::Flush), 1);
    file.sync_data().expect("fdatasync");
    assert_eq!(world.count(Op::Flush), 2);
    assert!(world.log().iter().all(|request| !request.fua));
    for flag in [libc::O_DSYNC, libc::O_SYNC] {
        let file = world.open_with(libc::O_DIRECT | flag);
        file.write_all_at(&data, 0).expect("a write");
        let last = world.log().into_iter().rfind(|request| request.op == Op::Write);
        assert!(last.expect("a write").fua);
    }
}

#[test]
fn holes_and_zeros_reach_the_back_end_as_such() {
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
    assert_eq!(allocate(FallocateFlags::empty(), 0, 10), Err(libc::EOPNOTSUPP));
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
    let blocks = 5 << 18;
    let world = World::new(VolumeConfig { tags: 1, ..config(blocks) });
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
    assert_eq!(failed.map_err(rustix::io::Errno::raw_os_error), Err(libc::EIO));
}

#[test]
fn errors_of_the_array_are_errors_of_the_file() {
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
fn many_requests_are_under_way_at_once() {
    const USERS: usize = 8;
    check_for_fuse();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (volume, mut submissions) = Volume::channel(config(100));
    let server = FuseServer::mount(dir.path(), volume).expect("a mount");
    let most = thread::scope(|scope| {
        let file = Arc::new(File::open(dir.path().join("tank")).expect("the file opens"));
        for user in 0..USERS as u64 {
            let file = Arc::clone(&file);
            scope.spawn(move || file.read_at(&mut [0; BLOCK_BYTES], user * BLOCK));
        }
        // No request is answered before all have come.
        let (mut asked, mut served, started) = (Vec::new(), 0, Instant::now());
        let mut most = 0;
        while served < USERS {
            asked.extend(submissions.pop());
            most = most.max(asked.len());
            if asked.len() == USERS || started.elapsed() > Duration::from_secs(20) {
                served += asked.len();
                asked.drain(..).for_each(|one| one.complete(Ok(())));
            }
            thread::yield_now();
        }
        most
    });
    assert_eq!(most, USERS);
    assert_eq!(server.unmount().expect("an unmount"), Unmounted::Clean);
}

#[test]
fn more_users_than_buffers_are_all_served() {
    let world = World::new(VolumeConfig { tags: 2, ..config(1600) });
    thread::scope(|scope| {
        for user in 0..16 {
            let file = world.open();
            scope.spawn(move || {
                for lba in (user * 100..).take(100) {
                    file.write_all_at(&pattern(lba, 1), lba * BLOCK).expect("a write");
                    let mut back = vec![0; BLOCK_BYTES];
                    file.read_exact_at(&mut back, lba * BLOCK).expect("a read");
                    assert!(back == pattern(lba, 1));
                }
            });
        }
    });
    assert_eq!(world.memory.lock().expect("no panic").blocks.len(), 1600);
}
