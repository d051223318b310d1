//! The end of a server.

use std::io::Read;
use std::os::unix::net::UnixStream;

use ublkd::front::nbd::NbdAddress;

use crate::client::{DISCONNECT, ESHUTDOWN, READ, WRITE};
use crate::world::{World, pattern};

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

#[test]
fn what_was_sent_before_a_stop_is_written_or_refused() {
    let mut world = World::new();
    let mut client = world.connect().ready(true);
    let handle = client.request(WRITE, 0, 0, 8192);
    client.send(&pattern(0, 1));
    let stopped = world.stop();
    client.stream.set_nonblocking(false).expect("a socket");
    client.send(&pattern(1, 1));
    let mut reply = Vec::new();
    client.stream.read_to_end(&mut reply).expect("a clean end");
    // A request whose header came after the stop is refused; both are a reply to it.
    let told = reply.windows(8).any(|window| window == handle.to_be_bytes());
    let written = !world.back_end.memory().blocks.is_empty();
    assert!(told || reply.is_empty() && !written);
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
