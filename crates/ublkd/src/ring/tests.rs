use std::fs::File;

use raidcore::engine::IoId;
use raidcore::units::Tag;
use raidlog::{GroupId, Pool};

use super::*;
use crate::arena::{Look, RUN_BLOCKS};
use crate::flash;
use crate::resident::Command;
use crate::volume::{Buffer, Submissions, Volume, VolumeConfig};

fn io_name(number: u64) -> IoName {
    IoName { group: GroupId(0), id: IoId(number) }
}

mod crew;
mod passthrough;
mod size;
mod streams;
mod windows;

const LIMIT: Duration = Duration::from_secs(1);
const DEVICE: DeviceId = DeviceId(0);

struct World {
    ring: Ring,
    arena: Arena,
    volume: Volume,
    submissions: Submissions,
}

/// A ring of two entries over one device.
fn world(file: File) -> World {
    world_of(Device::from_file(file, 64))
}

fn world_of(device: Device) -> World {
    world_with(device, false)
}

/// Whether the memory of I/O is registered is up to the caller.
fn world_with(device: Device, register_memory: bool) -> World {
    world_on(1, device, register_memory)
}

/// A ring of so many threads.
fn world_on(threads: u16, device: Device, register_memory: bool) -> World {
    let large_entries = device.passthrough().is_some();
    let (volume, submissions) = Volume::channel(VolumeConfig {
        name: "test".into(),
        blocks: 64,
        chunk_blocks: 1,
        stripe_blocks: 2,
        discard_blocks: 2,
        max_request_blocks: 1,
        tags: 40,
    });
    let arena = Arena::new(submissions.payload_memory(), &[Pool { count: 1, blocks: 1 }]).unwrap();
    let config =
        RingConfig { entries: 2, threads, large_entries, io_timeout: LIMIT, register_memory };
    let mut ring = Ring::new(config, &arena, submissions.bell()).unwrap();
    ring.open(Instant::ORIGIN, DEVICE, device).unwrap();
    World { ring, arena, volume, submissions }
}

impl World {
    fn buffers(&self, count: usize) -> Vec<Buffer> {
        let buffers = (0..count).map(|_| self.volume.try_buffer().unwrap());
        buffers.collect()
    }

    fn submit_and_sleep(&mut self, limit: Option<Duration>) {
        let bell = self.submissions.bell();
        if bell.park(|| self.ring.has_news()) {
            self.ring.submit_and_sleep(Instant::ORIGIN, &mut self.arena, limit).unwrap();
            bell.unpark();
        } else {
            self.ring.submit(Instant::ORIGIN, &mut self.arena).unwrap();
        }
    }

    /// The next I/O that has ended, at the origin of time.
    fn done(&mut self) -> (IoName, Result<(), IoError>) {
        loop {
            if let Some(done) = self.ring.next_done() {
                return done;
            }
            self.submit_and_sleep(None);
            self.ring.reap(Instant::ORIGIN, &mut self.arena);
        }
    }
}

fn mem(tag: Tag) -> Mem {
    Mem::Payload { tag, at: 0 }
}

#[test]
fn more_io_than_the_queue_holds_is_carried_out() {
    for threads in [1, 2, 4] {
        let file = tempfile::tempfile().unwrap();
        write_and_read_much(world_on(threads, Device::from_file(file, 64), threads == 2));
    }
}

fn write_and_read_much(mut world: World) {
    world.ring.is_calm = false;
    let mut buffers = world.buffers(40);
    for (i, buffer) in (0..).zip(&mut buffers) {
        buffer.fill(i as u8 + 1);
        let (io, from) = ((io_name(i), DEVICE), Source::Mem(mem(buffer.tag())));
        let arena = &mut world.arena;
        let range = (Pba(i), 1);
        world.ring.write(Instant::ORIGIN, arena, io, from, (false, Stream::Data), range);
    }
    let mut done: Vec<_> = (0..40).map(|_| world.done()).collect();
    done.sort_by_key(|(name, _)| name.id.0);
    let expected: Vec<_> = (0..40).map(|i| (io_name(i), Ok(()))).collect();
    assert_eq!(done, expected);

    for (i, buffer) in (0..).zip(&buffers) {
        let io = (io_name(i), DEVICE);
        let (arena, to) = (&mut world.arena, mem(buffer.tag()));
        world.ring.read(Instant::ORIGIN, arena, io, to, (Pba(39 - i), 1));
    }
    for _ in 0..40 {
        assert_eq!(world.done().1, Ok(()));
    }
    for (i, buffer) in (0..).zip(&buffers) {
        assert!(buffer.iter().all(|&byte| byte == 40 - i as u8));
    }
}

#[test]
fn writes_that_continue_one_another_go_together_and_are_told_each() {
    use std::os::unix::fs::FileExt;
    let file = tempfile::tempfile().unwrap();
    let mut world = world(file.try_clone().unwrap());
    // Two that are contiguous; one after a gap; and one of the largest size.
    for (number, at, blocks) in [(0, 7, 1), (1, 8, 2), (2, 11, 1), (3, 12, RUN_BLOCKS)] {
        let arena = &mut world.arena;
        let range = (Pba(at), blocks);
        let io = (io_name(number), DEVICE);
        world.ring.write_behind(Instant::ORIGIN, arena, io, range, Stream::Journal, |_, into| {
            assert_eq!(into.len(), blocks as usize * BLOCK_BYTES);
            into.fill(number as u8 + 1);
        });
    }
    assert_eq!(world.ring.outstanding(), 3);
    let done: std::collections::BTreeMap<_, _> =
        (0..4).map(|_| world.done()).map(|(name, result)| (name.id.0, result)).collect();
    assert!(done.len() == 4 && done.values().all(Result::is_ok), "{done:?}");
    let stats = world.ring.stats(DEVICE);
    assert_eq!(stats.writes.count(), 3, "I/Os of the device");
    let mut found = vec![0; 15 * BLOCK_BYTES];
    file.read_exact_at(&mut found, 0).unwrap();
    let blocks: Vec<_> = found.chunks(BLOCK_BYTES).map(|block| (block[0], block)).collect();
    assert!(blocks.iter().all(|(first, block)| block.iter().all(|byte| byte == first)));
    let firsts: Vec<_> = blocks.iter().map(|(first, _)| *first).collect();
    assert_eq!(firsts, [0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 0, 3, 4, 4, 4]);
}

#[test]
fn nothing_goes_with_what_was_given_up() {
    let mut world = world(tempfile::tempfile().unwrap());
    let write = |world: &mut World, number| {
        let (io, range) = ((io_name(number), DEVICE), (Pba(number), 1));
        world.ring.write_behind(
            Instant::ORIGIN,
            &mut world.arena,
            io,
            range,
            Stream::Journal,
            |_, into| {
                into.fill(0);
            },
        );
    };
    write(&mut world, 0);
    world.ring.give_up(&mut world.arena, DEVICE);
    assert_eq!(world.done(), (io_name(0), Err(IoError::TimedOut)));
    write(&mut world, 1);
    assert_eq!(world.done(), (io_name(1), Ok(())));
    assert_eq!(world.ring.outstanding(), 0);
}

#[test]
fn writes_that_go_together_fail_together() {
    let mut world = world(File::open("/dev/null").unwrap());
    for number in 0..3 {
        let io = (io_name(number), DEVICE);
        let (arena, range) = (&mut world.arena, (Pba(number), 1));
        world.ring.write_behind(Instant::ORIGIN, arena, io, range, Stream::Journal, |_, into| {
            into.fill(0)
        });
    }
    // It is open to read only.
    for number in 0..3 {
        assert_eq!(world.done(), (io_name(number), Err(IoError::Gone)));
    }
    assert_eq!(world.ring.outstanding(), 0);
}

/// A read of a pipe without a writer, which never answers; the device counts as hanging.
fn hung() -> (World, Buffer, io::PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    let mut world = world(File::from(std::os::fd::OwnedFd::from(reader)));
    let mut buffer = world.buffers(1).remove(0);
    buffer.fill(7);
    let io = (io_name(1), DEVICE);
    let (arena, to) = (&mut world.arena, mem(buffer.tag()));
    world.ring.read(Instant::ORIGIN, arena, io, to, (Pba(0), 1));
    world.ring.submit(Instant::ORIGIN, &mut world.arena).unwrap();
    for half in [Duration::ZERO, LIMIT / 2] {
        world.ring.reap(Instant::ORIGIN + half, &mut world.arena);
        assert_eq!(world.ring.deadline(), Some(Instant::ORIGIN + half + LIMIT / 2));
        assert_eq!(world.ring.next_hung(), None);
    }
    world.ring.reap(Instant::ORIGIN + LIMIT, &mut world.arena);
    assert_eq!(world.ring.next_hung(), Some(vec![DEVICE]));
    assert_eq!(world.ring.next_hung(), None, "it is told once");
    assert_eq!(world.ring.deadline(), None);
    assert_eq!(world.ring.next_done(), None);
    (world, buffer, writer)
}

#[test]
fn a_device_that_hangs_is_waited_for() {
    let (mut world, buffer, mut writer) = hung();
    let memory = buffer.as_ptr();
    let late = Instant::ORIGIN + 9 * LIMIT;
    world.ring.reap(late, &mut world.arena);
    assert_eq!(world.ring.next_done(), None);
    io::Write::write_all(&mut writer, &[8; BLOCK_BYTES]).unwrap();
    while world.ring.ops.flying() > 0 {
        world.submit_and_sleep(None);
        world.ring.reap(late, &mut world.arena);
    }
    assert_eq!(world.ring.next_done(), Some((io_name(1), Ok(()))));
    assert_eq!(world.ring.next_hung(), Some(vec![]));
    assert_eq!(buffer.as_ptr(), memory);
    assert!(buffer.iter().all(|&byte| byte == 8));
}

#[test]
fn a_device_that_hangs_is_let_go_of() {
    let (mut world, buffer, writer) = hung();
    let memory = buffer.as_ptr();
    world.ring.close(&mut world.arena, DEVICE);
    assert_eq!(world.ring.next_done(), Some((io_name(1), Err(IoError::TimedOut))));
    assert_ne!(buffer.as_ptr(), memory, "the device may still write there");
    assert!(buffer.iter().all(|&byte| byte == 7), "the content stays");
    while world.ring.members[0].is_some() {
        world.submit_and_sleep(None);
        world.ring.reap(Instant::ORIGIN + LIMIT, &mut world.arena);
    }
    assert_eq!(world.ring.next_done(), None, "it is told once");
    assert_eq!(world.ring.outstanding(), 0);
    drop(writer);
}

#[test]
fn a_command_completes_by_its_place_and_number() {
    // It completes any command.
    let null = File::open("/dev/null").unwrap();
    for (threads, queue) in [(1, None), (1, Some(7)), (3, None), (3, Some(0)), (3, Some(1))] {
        let device = Device::from_file(tempfile::tempfile().unwrap(), 64);
        let world = world_on(threads, device, false);
        commands_complete(world, queue, &null);
    }
}

fn commands_complete(mut world: World, queue: Option<u16>, null: &File) {
    use std::os::fd::AsFd;
    let (place, numbers) = (CommandSlot(300), [0, 7, u16::MAX]);
    world.ring.seat(place, queue);
    for number in numbers {
        // SAFETY: it names no memory.
        let command = unsafe { Command::new(number, null.as_fd(), 0, [0; 16]) };
        world.ring.command(place, command);
    }
    let mut completed = Vec::new();
    while completed.len() < numbers.len() {
        world.submit_and_sleep(None);
        world.ring.reap(Instant::ORIGIN, &mut world.arena);
        completed.extend(std::iter::from_fn(|| world.ring.next_completed()));
    }
    assert_eq!(completed, numbers.map(|number| Completed { place, number, result: 0 }));
    assert_eq!(world.ring.outstanding(), 0, "a command is no I/O");
}

#[test]
fn a_device_that_hangs_when_nobody_needs_it_is_given_up() {
    let (reader, writer) = io::pipe().unwrap();
    let mut world = world(File::from(std::os::fd::OwnedFd::from(reader)));
    let buffer = world.buffers(1).remove(0);
    let (arena, to) = (&mut world.arena, mem(buffer.tag()));
    world.ring.read(Instant::ORIGIN, arena, (io_name(1), DEVICE), to, (Pba(0), 1));
    world.ring.submit(Instant::ORIGIN, &mut world.arena).unwrap();
    world.ring.close(&mut world.arena, DEVICE);
    for half in 0..3 {
        assert_eq!(world.ring.next_done(), None);
        world.ring.reap(Instant::ORIGIN + half * LIMIT / 2, &mut world.arena);
    }
    assert_eq!(world.ring.next_hung(), Some(vec![]));
    assert_eq!(world.ring.next_done(), Some((io_name(1), Err(IoError::TimedOut))));
    drop(writer);
}

#[test]
fn io_on_a_device_that_is_closed_fails_at_once() {
    let mut world = world(tempfile::tempfile().unwrap());
    world.ring.close(&mut world.arena, DEVICE);
    world.ring.flush(Instant::ORIGIN, &mut world.arena, (io_name(1), DEVICE));
    assert!(world.ring.has_done());
    assert_eq!(world.ring.next_done(), Some((io_name(1), Err(IoError::Gone))));
}

/// A device that is a modelled SSD with nothing to do, and no interface that takes time.
fn ssd(dir: &tempfile::TempDir, file: File) -> Device {
    let mut profile = flashsim::Profile::builtin("msr2008").unwrap().covering(1 << 20).unwrap();
    (profile.bus, profile.link) = (None, None);
    let drive = flashsim::Ssd::new(&profile, flashsim::Precondition::Filled, 1).unwrap();
    Device::from_file(file, 64).with_flash(dir.path().join("a"), drive)
}

#[test]
fn io_on_a_modelled_ssd_ends_when_both_have_ended_it() {
    let program = Duration::from_micros(200);
    let dir = tempfile::tempdir().unwrap();
    let mut world = world_of(ssd(&dir, tempfile::tempfile().unwrap()));
    let buffer = world.buffers(1).remove(0);
    let (io, from) = ((io_name(1), DEVICE), Source::Mem(mem(buffer.tag())));
    world.ring.write(
        Instant::ORIGIN,
        &mut world.arena,
        io,
        from,
        (false, Stream::Data),
        (Pba(3), 1),
    );
    // The kernel has ended it, and the model's clock stands still.
    while world.ring.ops.held() == 0 {
        world.submit_and_sleep(Some(Duration::from_millis(1)));
        world.ring.reap(Instant::ORIGIN, &mut world.arena);
    }
    assert_eq!(world.ring.next_done(), None);
    assert_eq!(
        (world.ring.outstanding(), world.ring.deadline()),
        (1, Some(Instant::ORIGIN + program))
    );
    let almost = Instant(program.as_nanos() as u64 - 1);
    world.ring.reap(almost, &mut world.arena);
    assert_eq!(world.ring.next_done(), None);
    // The limit for an answer does not count the model's time, either.
    world.ring.reap(Instant::ORIGIN + program, &mut world.arena);
    assert_eq!(world.ring.next_done(), Some((io_name(1), Ok(()))));
    assert_eq!(world.ring.outstanding(), 0);

    let reports = world.ring.flash_reports(Instant::ORIGIN + LIMIT);
    let [(DEVICE, report)] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!((report.writes.count, report.drive.pages_written), (1, 1));
    world.ring.close(&mut world.arena, DEVICE);
    assert!(world.ring.members[0].is_none());
    drop(world);
    let stored = flash::load(&dir.path().join("a"), 1 << 18).unwrap().expect("a state");
    assert_eq!(stored.stats().pages_written, 1);
}

#[test]
fn a_stall_of_the_model_is_no_device_that_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut profile = flashsim::Profile::builtin("msr2008").unwrap().covering(1 << 20).unwrap();
    profile.nand.read_us = 3e6;
    let drive = flashsim::Ssd::new(&profile, flashsim::Precondition::Filled, 1).unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 18).unwrap();
    let mut world = world_of(Device::from_file(file, 64).with_flash(dir.path().join("a"), drive));
    let buffer = world.buffers(1).remove(0);
    let (arena, to) = (&mut world.arena, mem(buffer.tag()));
    world.ring.read(Instant::ORIGIN, arena, (io_name(1), DEVICE), to, (Pba(0), 1));
    while world.ring.ops.held() == 0 {
        world.submit_and_sleep(Some(Duration::from_millis(1)));
        world.ring.reap(Instant::ORIGIN, &mut world.arena);
    }
    world.ring.reap(Instant::ORIGIN + 2 * LIMIT, &mut world.arena);
    assert_eq!(world.ring.next_done(), None, "it is neither gone nor done");
    world.ring.reap(Instant::ORIGIN + 4 * LIMIT, &mut world.arena);
    assert_eq!(world.ring.next_done(), Some((io_name(1), Ok(()))));
}

#[test]
fn an_error_of_the_file_behind_a_modelled_ssd_is_told_at_once() {
    let dir = tempfile::tempdir().unwrap();
    // Nothing can be read from an empty file.
    let mut world = world_of(ssd(&dir, tempfile::tempfile().unwrap()));
    let buffers = world.buffers(2);
    for (id, buffer) in (1..).zip(&buffers) {
        let (arena, to) = (&mut world.arena, mem(buffer.tag()));
        world.ring.read(Instant::ORIGIN, arena, (io_name(id), DEVICE), to, (Pba(0), 1));
        assert_eq!(world.done(), (io_name(id), Err(IoError::Gone)));
    }
    // What the model ends later belongs to no I/O.
    world.ring.reap(Instant::ORIGIN + LIMIT, &mut world.arena);
    assert_eq!((world.ring.next_done(), world.ring.outstanding()), (None, 0));
}

fn write_at(world: &mut World, buffer: &Buffer, number: u64, at: u64) {
    let (io, from) = ((io_name(number), DEVICE), Source::Mem(mem(buffer.tag())));
    world.ring.write(
        Instant::ORIGIN,
        &mut world.arena,
        io,
        from,
        (false, Stream::Data),
        (Pba(at), 1),
    );
}

/// Looks at memory until all that is free is given back.
fn wait_long(world: &mut World) {
    while world.ring.look_at_memory(&mut world.arena, [0].into_iter()) == Look::Soon {}
}

#[test]
fn io_goes_into_the_memory_that_is_there_whatever_was_given_back() {
    let mut world = world_with(Device::from_file(tempfile::tempfile().unwrap(), 64), true);
    for turn in 1..=3 {
        let mut buffers = world.buffers(2);
        buffers[0].fill(turn);
        write_at(&mut world, &buffers[0], 1, 7);
        assert_eq!(world.done(), (io_name(1), Ok(())));
        let (arena, to) = (&mut world.arena, mem(buffers[1].tag()));
        world.ring.read(Instant::ORIGIN, arena, (io_name(2), DEVICE), to, (Pba(7), 1));
        assert_eq!(world.done(), (io_name(2), Ok(())));
        assert!(buffers[1].iter().all(|&byte| byte == turn), "turn {turn}");
        assert_eq!(world.arena.registered_bytes(), 2 * BLOCK_BYTES as u64);
        drop(buffers);
        wait_long(&mut world);
        assert_eq!(world.arena.registered_bytes(), 0);
    }
}

#[test]
fn a_late_read_that_was_given_up_meets_nobody() {
    let (reader, _writer) = io::pipe().unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(reader));
    let mut world = world_with(Device::from_file(file, 64), true);
    let buffer = world.buffers(1).remove(0);
    let (arena, to) = (&mut world.arena, mem(buffer.tag()));
    let (late, piece) = arena.resolve(to, 1);
    world.ring.read(Instant::ORIGIN, arena, (io_name(1), DEVICE), to, (Pba(0), 1));
    // The kernel lets a read of a pipe go at once; a device may take its time.
    world.arena.begin(piece);
    world.ring.give_up(&mut world.arena, DEVICE);
    assert_eq!(world.done(), (io_name(1), Err(IoError::TimedOut)));
    drop(buffer);
    wait_long(&mut world);
    let registered = world.arena.registered_bytes();
    assert!(registered > 0, "the kernel may write there");
    // SAFETY: it is set aside, as an I/O on it counts as begun; this is what a device does.
    unsafe { late.write_bytes(9, BLOCK_BYTES) };
    let all = world.buffers(40);
    assert!(all.iter().all(|buffer| buffer.iter().all(|&byte| byte == 0)));
    drop(all);
    world.arena.end(piece);
    world.ring.close(&mut world.arena, DEVICE);
    while world.ring.members[0].is_some() {
        world.submit_and_sleep(None);
        world.ring.reap(Instant::ORIGIN, &mut world.arena);
    }
    wait_long(&mut world);
    assert_eq!(world.arena.registered_bytes(), 0);
}

#[test]
fn io_goes_on_where_memory_cant_be_registered() {
    let mut world = world_with(Device::from_file(tempfile::tempfile().unwrap(), 64), true);
    world.ring.buffers = Buffers::new(&mut world.ring.entries, 0);
    let buffer = world.buffers(1).remove(0);
    write_at(&mut world, &buffer, 1, 7);
    assert_eq!(world.done(), (io_name(1), Ok(())));
    assert_eq!(world.arena.registered_bytes(), 0);
}
