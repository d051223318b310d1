//! Drives are told of which stream writes are.

use super::*;
use crate::nvme::placement::{self, Placement};
use crate::nvme::{Begun, Passthrough};
use crate::ops::{Next, Way};

/// It completes any command.
fn null() -> File {
    File::options().read(true).write(true).open("/dev/null").unwrap()
}

/// A device whose commands all complete, and which keeps streams apart; and those commands.
fn placed() -> (Device, Begun) {
    let mut status = vec![0; 16];
    for (identifier, handle) in [(0x0a00, 7), (0x0b00, 6), (0x0c00, 5), (0x0d00, 4)] {
        status.extend(u16::to_le_bytes(identifier));
        status.extend(u16::to_le_bytes(handle));
        status.extend([0; 28]);
    }
    status[14] = 4;
    let placement = placement::parse(&status).unwrap();
    let passthrough = Passthrough::to_file(null(), 1 << 20, placement);
    let begun = Begun::clone(passthrough.begun());
    (Device::from_file(null(), 64).passing(passthrough), begun)
}

const ALL: [Stream; 4] = [Stream::Data, Stream::Journal, Stream::Staging, Stream::Parity];

/// Whether writes go as commands.
fn passing(world: &World) -> bool {
    world.ring.members[0].as_ref().unwrap().passes
}

/// Begins a read of a block, and waits for it.
fn read(world: &mut World, at: u64) -> Result<(), IoError> {
    let buffer = world.buffers(1).remove(0);
    let (io, to) = ((io_name(at), DEVICE), mem(buffer.tag()));
    world.ring.read(Instant::ORIGIN, &mut world.arena, io, to, (Pba(at), 1));
    world.done().1
}

/// What commands say of where they go: opcode, the upper half of dword 12, dword 13.
fn told(begun: &Begun) -> Vec<(u8, u16, u32)> {
    let begun = std::mem::take(&mut *begun.lock().unwrap());
    let two = |bytes: &[u8]| u16::from_ne_bytes(bytes.try_into().unwrap());
    let four = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().unwrap());
    begun.iter().map(|it| (it.bytes[0], two(&it.bytes[50..52]), four(&it.bytes[52..56]))).collect()
}

#[test]
fn writes_of_all_kinds_say_where_they_go_by_any_thread() {
    for threads in [1, 3] {
        let (device, begun) = placed();
        let mut world = world_on(threads, device, false);
        world.ring.is_calm = false;
        assert!(world.ring.keeps_streams());
        let buffer = world.buffers(1).remove(0);
        for (stream, dword13) in
            ALL.into_iter().zip([0x0a00_0000, 0x0b00_0000, 0x0c00_0000, 0x0d00_0000])
        {
            let (now, io, range) = (Instant::ORIGIN, (io_name(1), DEVICE), (Pba(3), 1));
            for (durable, dword12) in [(false, 0x20), (true, 0x4020)] {
                let from = Source::Mem(mem(buffer.tag()));
                world.ring.write(now, &mut world.arena, io, from, (durable, stream), range);
                assert_eq!(world.done(), (io_name(1), Ok(())));
                assert_eq!(told(&begun), [(1, dword12, dword13)]);
            }
            let pages = (world.arena.take_pages(1), 1);
            let to = (Pba(3), stream);
            world.ring.gather(now, &mut world.arena, io, pages, to, |_| {});
            assert_eq!(world.done(), (io_name(1), Ok(())));
            world.ring.write_behind(now, &mut world.arena, io, range, stream, |_, _| {});
            assert_eq!(world.done(), (io_name(1), Ok(())));
            assert_eq!(told(&begun), [(1, 0x4020, dword13); 2]);
        }
    }
}

#[test]
fn what_writes_nothing_says_nothing_of_where_it_goes() {
    let (device, begun) = placed();
    let mut world = world_of(device);
    assert_eq!(read(&mut world, 3), Ok(()));
    world.ring.flush(Instant::ORIGIN, &mut world.arena, (io_name(0), DEVICE));
    assert_eq!(world.done(), (io_name(0), Ok(())));
    assert_eq!(told(&begun), [(2, 0, 0), (0, 0, 0)]);
}

#[test]
fn where_streams_are_not_kept_apart_writes_say_nothing() {
    let passthrough = Passthrough::to_file(null(), 1 << 20, Placement::default());
    let begun = Begun::clone(passthrough.begun());
    let mut world = world_of(Device::from_file(null(), 64).passing(passthrough));
    assert!(!world.ring.keeps_streams());
    let buffer = world.buffers(1).remove(0);
    let (io, from) = ((io_name(1), DEVICE), Source::Mem(mem(buffer.tag())));
    let how = (true, Stream::Parity);
    world.ring.write(Instant::ORIGIN, &mut world.arena, io, from, how, (Pba(3), 1));
    assert!(world.done().0 == io_name(1));
    assert_eq!(told(&begun), [(1, 0x4000, 0)]);
}

#[test]
fn writes_of_different_streams_are_not_joined() {
    let (device, begun) = placed();
    let mut world = world_of(device);
    for (number, stream) in [(0, Stream::Journal), (1, Stream::Journal), (2, Stream::Staging)] {
        let (io, range) = ((io_name(number), DEVICE), (Pba(number), 1));
        let arena = &mut world.arena;
        world.ring.write_behind(Instant::ORIGIN, arena, io, range, stream, |_, into| into.fill(0));
    }
    (0..3).for_each(|_| assert_eq!(world.done().1, Ok(())));
    let mut told = told(&begun);
    told.sort_unstable();
    assert_eq!(told, [(1, 0x4020, 0x0b00_0000), (1, 0x4020, 0x0c00_0000)]);
}

#[test]
fn a_drive_that_refuses_to_place_writes_is_told_no_more_where_they_go() {
    // Invalid Field in Command; Namespace Not Ready.
    for (status, reads, places) in
        [(0x4002, false, false), (0x4002, true, true), (0x0082, false, true)]
    {
        let (device, begun) = placed();
        let mut world = world_of(device);
        let buffer = world.buffers(1).remove(0);
        let (now, io, range) = (Instant::ORIGIN, (io_name(1), DEVICE), (Pba(3), 1));
        let (arena, at) = (&mut world.arena, mem(buffer.tag()));
        if reads {
            world.ring.read(now, arena, io, at, range);
        } else {
            world.ring.write(now, arena, io, Source::Mem(at), (false, Stream::Parity), range);
        }
        let first = world.ring.ops.get(OpId::from_bits(0));
        assert_eq!(first.way, Way::Passthrough);
        assert_eq!(world.ring.passed(OpId::from_bits(0), status), Next::Again);
        assert_eq!(world.ring.ops.get(OpId::from_bits(0)).way, Way::BlockLayer);
        assert!(passing(&world), "it is still told of writes");
        told(&begun);
        write_at(&mut world, &buffer, 2, 3);
        let expected = if places { (1, 0x20, 0x0a00_0000) } else { (1, 0, 0) };
        assert_eq!(told(&begun), [expected]);
        (0..2).for_each(|_| _ = world.done());
    }
}
