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

/// The stream that an entry names: byte 44 of `struct io_uring_sqe`.
fn named_by(entry: io_uring::squeue::Entry) -> u8 {
    // SAFETY: an entry is that structure, of plain numbers.
    let bytes: [u8; 64] = unsafe { std::mem::transmute(entry) };
    bytes[44]
}

/// The op of that number, from 0 on, in a world where each ends before the next.
fn op_id(number: u64) -> OpId {
    OpId::from_bits(number << 32)
}

/// Begins an I/O of each kind on a device of which the block layer knows so many streams, and returns what
/// their entries name: a write and a durable one in memory that is registered or not, a gather and a joined
/// write of each stream; a read and a flush.
fn named(streams: u8, register_memory: bool) -> (Vec<[u8; 4]>, [u8; 2]) {
    let device = Device::from_file(tempfile::tempfile().unwrap(), 64).with_block_streams(streams);
    let mut world = world_with(device, register_memory);
    assert_eq!(world.ring.keeps_streams(), streams > 0);
    let buffer = world.buffers(1).remove(0);
    let (now, io, range) = (Instant::ORIGIN, (io_name(1), DEVICE), (Pba(3), 1));
    let mut number = 0;
    let mut last = |world: &mut World| {
        let op = world.ring.ops.get(op_id(number));
        number += 1;
        let by_entry = kernel::entry(op, io_uring::types::Fd(0), register_memory.then_some(0));
        assert_eq!(named_by(by_entry), op.named);
        let named = op.named;
        assert_eq!(world.done(), (io_name(1), Ok(())));
        named
    };
    let writes = ALL.map(|stream| {
        let writes = [false, true].map(|durable| {
            let from = Source::Mem(mem(buffer.tag()));
            world.ring.write(now, &mut world.arena, io, from, (durable, stream), range);
            last(&mut world)
        });
        let pages = (world.arena.take_pages(1), 1);
        world.ring.gather(now, &mut world.arena, io, pages, (Pba(3), stream), |_| {});
        let gather = last(&mut world);
        world.ring.write_behind(now, &mut world.arena, io, range, stream, |_, _| {});
        world.ring.start_runs(now, &mut world.arena);
        [writes[0], writes[1], gather, last(&mut world)]
    });
    world.ring.read(now, &mut world.arena, io, mem(buffer.tag()), range);
    let read = last(&mut world);
    world.ring.flush(now, &mut world.arena, io);
    (writes.to_vec(), [read, last(&mut world)])
}

#[test]
fn through_the_block_layer_writes_name_streams_from_1_on_where_there_are_some() {
    for (streams, expected) in [
        (0, [0, 0, 0, 0]),
        (2, [1, 2, 2, 1]),
        (3, [1, 2, 3, 1]),
        (4, [1, 2, 3, 4]),
        (255, [1, 2, 3, 4]),
    ] {
        for register_memory in [false, true] {
            let (writes, others) = named(streams, register_memory);
            assert_eq!(writes, expected.map(|number| [number; 4]), "{streams} streams");
            assert_eq!(others, [0; 2]);
        }
    }
}

#[test]
fn what_is_too_large_for_a_command_names_its_stream_through_the_block_layer() {
    let passthrough = Passthrough::to_file(null(), 0, Placement::default());
    let device = Device::from_file(null(), 64).passing(passthrough).with_block_streams(4);
    let mut world = world_of(device);
    assert!(world.ring.keeps_streams());
    let buffer = world.buffers(1).remove(0);
    let (io, from) = ((io_name(1), DEVICE), Source::Mem(mem(buffer.tag())));
    let how = (true, Stream::Parity);
    world.ring.write(Instant::ORIGIN, &mut world.arena, io, from, how, (Pba(3), 1));
    let op = world.ring.ops.get(op_id(0));
    assert_eq!((op.way, op.named), (Way::BlockLayer, 4));
    assert_eq!(world.done(), (io_name(1), Ok(())));
}

#[test]
fn a_device_that_refuses_a_stream_gets_the_write_without_and_none_from_then_on() {
    // An eventfd refuses to be written these bytes with EINVAL, and takes others.
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
    let mut world = world_of(Device::from_file(File::from(event), 64).with_block_streams(4));
    let mut buffer = world.buffers(1).remove(0);
    buffer.fill(0xff);
    let (now, io, range) = (Instant::ORIGIN, (io_name(1), DEVICE), (Pba(0), 1));
    let (from, how) = (Source::Mem(mem(buffer.tag())), (false, Stream::Parity));
    world.ring.write(now, &mut world.arena, io, from, how, range);
    let first = op_id(0);
    assert_eq!(world.ring.ops.get(first).named, 4);
    while world.ring.ops.get(first).named > 0 {
        world.submit_and_sleep(None);
        world.ring.reap(now, &mut world.arena);
    }
    // What is refused without a stream, too, fails as ever.
    assert_eq!(world.done(), (io_name(1), Err(IoError::Gone)));
    world.ring.write(now, &mut world.arena, io, from, how, range);
    assert_eq!(world.ring.ops.get(op_id(1)).named, 0);
    assert_eq!(world.done(), (io_name(1), Err(IoError::Gone)));
}
