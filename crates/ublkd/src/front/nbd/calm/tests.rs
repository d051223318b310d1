//! A calm client on the thread of a null volume.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use rustix::net::sockopt::set_socket_send_buffer_size;

use super::super::session::Session;
use super::*;
use crate::front::LogicalBlock;
use crate::null::Null;

const TAGS: u16 = 4;

/// A client whose server's socket takes little at once, and what becomes of that.
fn client(null: &Null) -> (UnixStream, Arc<Turn>, oneshot::Receiver<Left>) {
    let (server, client) = UnixStream::pair().expect("sockets");
    set_socket_send_buffer_size(&server, 4096).expect("a size");
    let checks = Checks {
        volume: null.volume().clone(),
        session: Session { structured: true, allocation: false },
        logical_block: LogicalBlock::Whole,
    };
    let turn = Arc::<Turn>::default();
    let (calm, left) =
        Calm::new(server.into(), checks, null.volume().share(), Arc::clone(&turn)).expect("memory");
    null.admit(Box::new(calm)).recv().expect("an answer").expect("a place");
    (client, turn, left)
}

/// The largest read.
fn request() -> Vec<u8> {
    let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
    request.extend([0; 20]);
    request.extend((DATA_BYTES as u32).to_be_bytes());
    request
}

fn wait_until_it_waits(turn: &Turn) {
    while turn.waiting().is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn a_reply_goes_on_when_the_client_takes_more_and_holds_no_buffer_until_then() {
    let null = Null::start(1024, TAGS).expect("a volume");
    let (mut client, turn, left) = client(&null);
    let mut before = None;
    for _ in 0..3 {
        client.write_all(&request()).expect("a server");
        wait_until_it_waits(&turn);
        let now = turn.waiting();
        assert_ne!(now, before, "it waits for something else");
        before = now;
        let all: Vec<_> = (0..TAGS).map(|_| null.volume().buffer_blocking()).collect();
        let mut reply = vec![1; 28 + DATA_BYTES];
        client.read_exact(&mut reply).expect("a reply");
        drop(all);
        assert_eq!(reply[4..6], [0, 1], "it is the last one");
        assert!(reply[28..].iter().all(|byte| *byte == 0));
    }
    drop(client);
    assert!(left.blocking_recv().expect("it leaves").ahead.is_empty());
}

#[test]
fn a_client_that_goes_amid_a_reply_is_left() {
    let null = Null::start(1024, TAGS).expect("a volume");
    let (mut client, turn, left) = client(&null);
    client.write_all(&request()).expect("a server");
    wait_until_it_waits(&turn);
    drop(client);
    left.blocking_recv().expect("it leaves");
    let all: Vec<_> = (0..TAGS).map(|_| null.volume().buffer_blocking()).collect();
    assert_eq!(all.len(), usize::from(TAGS));
}

#[test]
fn what_comes_before_the_reply_goes_back_unserved() {
    let null = Null::start(1024, TAGS).expect("a volume");
    let (mut client, turn, left) = client(&null);
    client.write_all(&request()).expect("a server");
    wait_until_it_waits(&turn);
    client.write_all(&request()).expect("a server");
    let mut reply = vec![1; 28 + DATA_BYTES];
    client.read_exact(&mut reply).expect("a reply");
    assert!(left.blocking_recv().expect("it leaves").ahead == request());
}
