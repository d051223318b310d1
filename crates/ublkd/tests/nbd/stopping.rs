//! The end of a server.

use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use ublkd::front::nbd::{NbdAddress, NbdLimits};

use crate::client::{Client, DISCONNECT, ESHUTDOWN, FLUSH, READ, WRITE, header};
use crate::world::{World, config, pattern};

#[test]
fn a_stop_lets_requests_end_and_refuses_new_ones() {
    let mut world = World::new();
    let NbdAddress::Unix(path) = world.address().clone() else {
        panic!("a Unix socket");
    };
    let mut idle = world.connect().ready(true);
    let mut haggling = world.connect();
    haggling.greet(3);
    let mut busy = world.connect().ready(true);
    world.back_end.hold();
    let held = busy.request(READ, 0, 0, 4096);
    world.back_end.wait_for_request();

    let stopped = world.stop();
    assert_eq!(idle.rest(), b"", "nothing is in flight");
    assert_eq!(haggling.rest(), b"");
    let refused = busy.write(0, 0, &pattern(0, 1));
    assert_eq!(refused, ESHUTDOWN);
    world.back_end.release();
    assert_eq!(busy.outcome(held, 0, 4096).error, 0);
    assert_eq!(busy.rest(), b"");
    stopped.join().expect("no panic");
    assert!(!path.exists(), "the socket goes");
    assert!(UnixStream::connect(&path).is_err());
    assert!(world.back_end.memory().blocks.is_empty());
}

/// A connection with a write of 100 blocks of which 48 have arrived, to a volume that is held.
fn half_a_write(world: &World) -> (Client, u64) {
    let mut client = world.connect().ready(true);
    world.back_end.hold();
    let handle = client.request(WRITE, 0, 0, 100 * 4096);
    client.send(&pattern(0, 48));
    world.back_end.wait_for_request();
    (client, handle)
}

#[test]
fn a_payload_may_arrive_after_a_stop() {
    let mut world = World::new();
    let (mut client, handle) = half_a_write(&world);
    let stopped = world.stop();
    client.send(&pattern(48, 52));
    world.back_end.release();
    assert_eq!(client.outcome(handle, 0, 0).error, 0);
    assert_eq!(client.rest(), b"");
    stopped.join().expect("no panic");
    let content = world.back_end.memory().blocks.values().flatten().copied().collect::<Vec<_>>();
    assert!(content == pattern(0, 100));
}

fn impatient() -> NbdLimits {
    NbdLimits { patience: Duration::from_millis(50), ..NbdLimits::default() }
}

#[test]
fn a_stop_does_not_wait_for_a_payload_for_ever() {
    let mut world = World::with(config(), impatient());
    let (mut hesitant, handle) = half_a_write(&world);
    let stopped = world.stop();
    world.back_end.release();
    assert_eq!(hesitant.outcome(handle, 0, 0).error, ESHUTDOWN);
    assert_eq!(hesitant.rest(), b"");
    stopped.join().expect("no panic");
}

#[test]
fn a_stop_does_not_wait_for_the_last_of_endless_requests() {
    let mut world = World::with(config(), impatient());
    let mut eager = world.connect().ready(true);
    // The volume never gets it, so only the client keeps the server busy.
    let refused = header(FLUSH, 0, 0, 0, 1);
    let mut sending = eager.stream.try_clone().expect("another descriptor");
    let sender = thread::spawn(move || (0..).find_map(|_| sending.write_all(&refused).err()));
    eager.chunk();
    let stopped = world.stop();
    io::copy(&mut eager.stream, &mut io::sink()).ok();
    let error = sender.join().expect("no panic").expect("it has an end");
    assert_ne!(error.kind(), ErrorKind::WouldBlock, "the server does not close");
    stopped.join().expect("no panic");
}

#[test]
fn a_volume_that_stops_is_reported() {
    let world = World::new();
    let mut client = world.connect().ready(true);
    world.back_end.end();
    assert_eq!(client.command(READ, 0, 0, 4096), ESHUTDOWN);
    assert_eq!(client.write(0, 0, &pattern(0, 100)), ESHUTDOWN);
    client.request(DISCONNECT, 0, 0, 0);
    assert_eq!(client.rest(), b"");
}
