//! I/O by several threads.

use std::os::unix::fs::FileExt;

use super::*;
use crate::lease::Permit;

#[test]
fn what_hangs_on_another_thread_is_given_up_there() {
    let (reader, writer) = io::pipe().unwrap();
    let device = Device::from_file(File::from(std::os::fd::OwnedFd::from(reader)), 64);
    let mut world = world_on(2, device, true);
    world.ring.is_calm = false;
    let buffers = world.buffers(3 * CALM);
    for (number, buffer) in (0..).zip(&buffers) {
        let (io, to) = ((io_name(number), DEVICE), mem(buffer.tag()));
        world.ring.read(Instant::ORIGIN, &mut world.arena, io, to, (Pba(0), 1));
    }
    world.ring.submit(Instant::ORIGIN, &mut world.arena).unwrap();
    world.ring.close(&mut world.arena, DEVICE);
    world.ring.give_up_all(Instant::ORIGIN, &mut world.arena);
    for _ in &buffers {
        assert_eq!(world.ring.next_done().unwrap().1, Err(IoError::TimedOut));
    }
    // The kernel cancels each where it is.
    while world.ring.members[0].is_some() {
        world.submit_and_sleep(None);
        world.ring.reap(Instant::ORIGIN, &mut world.arena);
    }
    assert!(world.ring.is_at_rest());
    drop(writer);
}

#[test]
fn a_lease_that_is_over_is_over_on_every_thread() {
    let file = tempfile::tempfile().unwrap();
    let mut world = world_on(2, Device::from_file(file.try_clone().unwrap(), 64), true);
    world.ring.under(Permit::over());
    world.ring.is_calm = false;
    let buffers = world.buffers(3 * CALM);
    for (number, buffer) in (0..).zip(&buffers) {
        write_at(&mut world, buffer, number, number);
    }
    let refused = world.ring.submit(Instant::ORIGIN, &mut world.arena).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    drop(world);
    assert_eq!(file.read_at(&mut [0], 0).unwrap(), 0, "nothing was written");
}
