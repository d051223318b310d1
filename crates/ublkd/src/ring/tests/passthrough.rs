//! Commands that the kernel refuses are carried out by the block layer.

use super::*;
use crate::nvme::Passthrough;
use crate::nvme::placement::Placement;

/// A device whose commands are refused, if they have at most so many bytes.
fn refused(file: &File, max_bytes: usize) -> Device {
    let passthrough =
        Passthrough::to_file(file.try_clone().unwrap(), max_bytes, Placement::default());
    Device::from_file(file.try_clone().unwrap(), 64).passing(passthrough)
}

/// Whether I/O on the device is tried as commands.
fn passing(world: &World) -> bool {
    world.ring.members[0].as_ref().unwrap().passes
}

/// Begins a write of a block filled with `byte` at a place, and waits for it.
fn write(world: &mut World, at: u64, byte: u8) -> Result<(), IoError> {
    let mut buffer = world.volume.try_buffer().unwrap();
    buffer.fill(byte);
    let (io, from) = ((io_name(at), DEVICE), Source::Mem(mem(buffer.tag())));
    world.ring.write(
        Instant::ORIGIN,
        &mut world.arena,
        io,
        from,
        (true, Stream::Data),
        (Pba(at), 1),
    );
    world.done().1
}

/// What a block reads as.
fn read(world: &mut World, at: u64) -> (Result<(), IoError>, u8) {
    let buffer = world.volume.try_buffer().unwrap();
    let (io, to) = ((io_name(at), DEVICE), mem(buffer.tag()));
    world.ring.read(Instant::ORIGIN, &mut world.arena, io, to, (Pba(at), 1));
    (world.done().1, buffer[BLOCK_BYTES - 1])
}

#[test]
fn a_refused_command_is_carried_out_and_is_the_last_one() {
    let file = tempfile::tempfile().unwrap();
    for (number, register_memory) in [(0, false), (1, true)] {
        let mut world = world_with(refused(&file, 1 << 20), register_memory);
        assert!(passing(&world));
        assert_eq!(write(&mut world, 3, 7 + number), Ok(()));
        assert!(!passing(&world), "a command was refused");
        assert_eq!(read(&mut world, 3), (Ok(()), 7 + number));
        assert_eq!(world.ring.stats(DEVICE).writes.count(), 1, "it counts once");
    }
}

#[test]
fn a_refused_read_flush_and_gather_are_carried_out() {
    let file = tempfile::tempfile().unwrap();
    let mut world = world_with(refused(&file, 1 << 20), false);
    world.ring.flush(Instant::ORIGIN, &mut world.arena, (io_name(0), DEVICE));
    assert_eq!((world.done().1, passing(&world)), (Ok(()), false));

    let mut world = world_with(refused(&file, 1 << 20), false);
    let pages = world.arena.take_pages(1);
    world.arena.fill_pages(pages, 0..1, |_, into| into.fill(9));
    let io = (io_name(1), DEVICE);
    world.ring.gather(
        Instant::ORIGIN,
        &mut world.arena,
        io,
        (pages, 1),
        (Pba(5), Stream::Journal),
        |_| {},
    );
    assert_eq!((world.done().1, passing(&world)), (Ok(()), false));

    let mut world = world_with(refused(&file, 1 << 20), false);
    assert_eq!(read(&mut world, 5), (Ok(()), 9));
    assert!(!passing(&world));
}

#[test]
fn what_is_larger_than_a_command_is_none() {
    let file = tempfile::tempfile().unwrap();
    let mut world = world_with(refused(&file, BLOCK_BYTES - 1), false);
    assert_eq!(write(&mut world, 3, 7), Ok(()));
    assert_eq!(read(&mut world, 3), (Ok(()), 7));
    assert!(passing(&world), "no command was refused");
}

#[test]
fn more_io_than_a_queue_of_large_entries_holds_is_carried_out() {
    let file = tempfile::tempfile().unwrap();
    let mut world = world_with(refused(&file, 1 << 20), false);
    let buffers = world.buffers(40);
    for (i, buffer) in (0..).zip(&buffers) {
        let (io, from) = ((io_name(i), DEVICE), Source::Mem(mem(buffer.tag())));
        world.ring.write(
            Instant::ORIGIN,
            &mut world.arena,
            io,
            from,
            (false, Stream::Data),
            (Pba(i), 1),
        );
    }
    let mut done: Vec<_> = (0..40).map(|_| world.done()).collect();
    done.sort_by_key(|(name, _)| name.id.0);
    let expected: Vec<_> = (0..40).map(|i| (io_name(i), Ok(()))).collect();
    assert_eq!(done, expected);
}
