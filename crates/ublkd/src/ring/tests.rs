use std::fs::File;

use raidcore::units::Tag;

use super::*;
use crate::volume::{Buffer, Submissions, Volume, VolumeConfig};

const LIMIT: Duration = Duration::from_secs(1);
const DEVICE: DeviceId = DeviceId(0);

struct World {
    ring: Ring,
    arena: Arena,
    volume: Volume,
    _submissions: Submissions,
}

/// A ring of two entries over one device.
fn world(file: File) -> World {
    let (volume, submissions) = Volume::channel(VolumeConfig {
        name: "test".into(),
        blocks: 64,
        chunk_blocks: 1,
        stripe_blocks: 2,
        max_request_blocks: 1,
        tags: 40,
    });
    let mut arena = Arena::new(submissions.payload_memory(), 1, 1).unwrap();
    let config = RingConfig { entries: 2, io_timeout: LIMIT, register_memory: false };
    let mut ring = Ring::new(config, &mut arena, submissions.bell().fd()).unwrap();
    ring.open(DEVICE, Device::from_file(file, 64)).unwrap();
    World { ring, arena, volume, _submissions: submissions }
}

impl World {
    fn buffers(&self, count: usize) -> Vec<Buffer> {
        let buffers = (0..count).map(|_| self.volume.try_buffer().unwrap());
        buffers.collect()
    }

    /// The next I/O that has ended, at the origin of time.
    fn done(&mut self) -> (IoId, Result<(), IoError>) {
        loop {
            if let Some(done) = self.ring.next_done() {
                return done;
            }
            self.ring.submit_and_sleep(None).unwrap();
            self.ring.reap(Instant::ORIGIN, &mut self.arena);
        }
    }
}

fn mem(tag: Tag) -> Mem {
    Mem::Payload { tag, at: 0 }
}

#[test]
fn more_io_than_the_queue_holds_is_carried_out() {
    let mut world = world(tempfile::tempfile().unwrap());
    let mut buffers = world.buffers(40);
    for (i, buffer) in (0..).zip(&mut buffers) {
        buffer.fill(i as u8 + 1);
        let (io, from) = ((IoId(i), DEVICE), Source::Mem(mem(buffer.tag())));
        let arena = &mut world.arena;
        let range = (Pba(i), 1);
        world.ring.write(Instant::ORIGIN, arena, io, from, false, range);
    }
    let mut done: Vec<_> = (0..40).map(|_| world.done()).collect();
    done.sort_by_key(|(id, _)| id.0);
    let expected: Vec<_> = (0..40).map(|i| (IoId(i), Ok(()))).collect();
    assert_eq!(done, expected);

    for (i, buffer) in (0..).zip(&buffers) {
        let io = (IoId(i), DEVICE);
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
fn a_device_that_does_not_answer_is_given_up_and_let_go_of() {
    // A pipe that nobody writes to never answers.
    let (reader, writer) = io::pipe().unwrap();
    let mut world = world(File::from(std::os::fd::OwnedFd::from(reader)));
    let mut buffer = world.buffers(1).remove(0);
    buffer.fill(7);
    let memory = buffer.as_ptr();
    let io = (IoId(1), DEVICE);
    let (arena, to) = (&mut world.arena, mem(buffer.tag()));
    world.ring.read(Instant::ORIGIN, arena, io, to, (Pba(0), 1));
    world.ring.submit().unwrap();
    world.ring.reap(Instant::ORIGIN, &mut world.arena);
    assert_eq!(world.ring.next_done(), None);
    assert_eq!(world.ring.deadline(), Some(Instant::ORIGIN + LIMIT));

    let late = Instant::ORIGIN + LIMIT;
    world.ring.reap(late, &mut world.arena);
    assert_eq!(world.ring.next_done(), Some((IoId(1), Err(IoError::Gone))));
    assert_ne!(buffer.as_ptr(), memory, "the device may still write there");
    assert!(buffer.iter().all(|&byte| byte == 7), "the content stays");

    world.ring.close(DEVICE);
    while world.ring.members[0].is_some() {
        world.ring.submit_and_sleep(None).unwrap();
        world.ring.reap(late, &mut world.arena);
    }
    assert_eq!(world.ring.next_done(), None, "it is told once");
    assert_eq!(world.ring.outstanding(), 0);
    drop(writer);
}

#[test]
fn io_on_a_device_that_is_closed_fails_at_once() {
    let mut world = world(tempfile::tempfile().unwrap());
    world.ring.close(DEVICE);
    world.ring.flush(Instant::ORIGIN, &world.arena, (IoId(1), DEVICE));
    assert!(world.ring.has_done());
    assert_eq!(world.ring.next_done(), Some((IoId(1), Err(IoError::Gone))));
}
