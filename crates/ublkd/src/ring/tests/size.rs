//! Files that are cut off.

use super::*;

/// A file of 64 blocks, and a second handle of it.
fn file_of_64(dir: &tempfile::TempDir) -> (Device, File) {
    let path = dir.path().join("a");
    let file = File::create(&path).unwrap();
    file.set_len(64 * BLOCK_BYTES as u64).unwrap();
    (Device::open(&path, crate::members::OpenOptions::default()).unwrap(), file)
}

/// A member file that can be watched, and a second handle of it.
fn watched(dir: &tempfile::TempDir) -> (World, File) {
    let (device, file) = file_of_64(dir);
    assert!(device.can_be_watched(), "temporary files are on a local file system");
    (world_of(device), file)
}

/// The same for a file whose size has to be requested.
fn asked(dir: &tempfile::TempDir) -> (World, File) {
    let (device, file) = file_of_64(dir);
    (world_of(device.elsewhere()), file)
}

#[test]
fn a_file_that_was_cut_off_is_gone_although_writes_make_it_longer() {
    // The last write would restore its length.
    for at in [40, 63] {
        let dir = tempfile::tempdir().unwrap();
        let (mut world, file) = watched(&dir);
        let buffer = world.buffers(1).remove(0);
        write_at(&mut world, &buffer, 1, at);
        assert_eq!(world.done(), (io_name(1), Ok(())));
        file.set_len(8 * BLOCK_BYTES as u64).unwrap();
        write_at(&mut world, &buffer, 2, at);
        assert_eq!(world.done(), (io_name(2), Err(IoError::Shrunk)), "block {at}");
        // A read of the hole.
        let (arena, to) = (&mut world.arena, mem(buffer.tag()));
        world.ring.read(Instant::ORIGIN, arena, (io_name(3), DEVICE), to, (Pba(20), 1));
        assert_eq!(world.done(), (io_name(3), Err(IoError::Shrunk)), "block {at}");
        assert_eq!(world.ring.next_gone(), Some(DEVICE));
        assert_eq!(world.ring.next_gone(), None, "it is told once");
    }
}

#[test]
fn a_file_that_is_cut_off_while_nobody_uses_it_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, file) = watched(&dir);
    let next = world.ring.deadline().expect("a time to look");
    world.ring.reap(next, &mut world.arena);
    assert_eq!(world.ring.next_gone(), None);
    file.set_len(8 * BLOCK_BYTES as u64).unwrap();
    let next = world.ring.deadline().expect("a time to look");
    world.ring.reap(next, &mut world.arena);
    assert_eq!(world.ring.next_gone(), Some(DEVICE));
    assert_eq!(world.ring.deadline(), None);
}

#[test]
fn a_file_elsewhere_that_is_cut_off_while_nobody_uses_it_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, file) = asked(&dir);
    let ask = |world: &mut World| {
        // The first thing to be done may be to look for silent members.
        let next = world.ring.deadline().expect("a time to ask") + Duration::from_secs(5);
        world.ring.reap(next, &mut world.arena);
        assert_eq!(world.ring.outstanding(), 0, "nobody waits for the answer");
        world.submit_and_sleep(None);
        world.ring.reap(next, &mut world.arena);
        assert_eq!(world.ring.next_done(), None, "nobody is told of it");
        world.ring.next_gone()
    };
    assert_eq!(ask(&mut world), None);
    file.set_len(8 * BLOCK_BYTES as u64).unwrap();
    assert_eq!(ask(&mut world), Some(DEVICE));
    while let Some(next) = world.ring.deadline() {
        world.ring.reap(next, &mut world.arena);
        assert_eq!(world.ring.next_gone(), None, "it is told once");
    }
}

#[test]
fn a_file_elsewhere_is_asked_for_its_size_before_a_write_makes_it_as_long_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (mut world, file) = asked(&dir);
    let buffer = world.buffers(1).remove(0);
    write_at(&mut world, &buffer, 1, 63);
    assert_eq!(world.done(), (io_name(1), Ok(())), "it was as long as it is");
    file.set_len(8 * BLOCK_BYTES as u64).unwrap();
    write_at(&mut world, &buffer, 2, 63);
    assert_eq!(world.done(), (io_name(2), Err(IoError::Shrunk)));
    assert_eq!(file.metadata().unwrap().len(), 8 * BLOCK_BYTES as u64, "nothing was written");
    write_at(&mut world, &buffer, 3, 0);
    assert_eq!(world.done(), (io_name(3), Err(IoError::Shrunk)), "it is not used any more");
    assert_eq!((world.ring.next_gone(), world.ring.next_gone()), (Some(DEVICE), None));
}
