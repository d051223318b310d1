//! A calm client on the thread of a null volume.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt::set_socket_send_buffer_size;

use super::super::session::Session;
use super::*;
use crate::front::LogicalBlock;
use crate::null::Null;

const TAGS: u16 = 4;

type Leaves = oneshot::Receiver<io::Result<Left>>;

/// A client that is not with a thread yet, whose server's socket takes little at once, and what
/// becomes of that.
fn newcomer(null: &Null) -> (UnixStream, Calm, Arc<Turn>, Leaves) {
    let (server, client) = UnixStream::pair().expect("sockets");
    client.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    set_socket_send_buffer_size(&server, 4096).expect("a size");
    let checks = Checks {
        volume: null.volume().clone(),
        session: Session { structured: true, allocation: false },
        logical_block: LogicalBlock::Whole,
    };
    let turn = Arc::<Turn>::default();
    let (calm, left) =
        Calm::new(server.into(), checks, null.volume().share(), Arc::clone(&turn)).expect("memory");
    (client, calm, turn, left)
}

/// The same, with the volume's thread.
fn client(null: &Null) -> (UnixStream, Arc<Turn>, Leaves) {
    let (client, calm, turn, left) = newcomer(null);
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

fn leave(left: Leaves) -> Left {
    left.blocking_recv().expect("it leaves").expect("it is not cut")
}

fn wait_until_it_waits(turn: &Turn) {
    wait_for_another(turn, None);
}

/// Waits until the thread waits for something else than that, and returns what it is.
fn wait_for_another(turn: &Turn, before: Option<u64>) -> Option<u64> {
    loop {
        let now = turn.waiting();
        if now.is_some() && now != before {
            return now;
        }
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
        // When the client has all of a reply, the thread may not have noticed yet.
        before = wait_for_another(&turn, before);
        let all: Vec<_> = (0..TAGS).map(|_| null.volume().buffer_blocking()).collect();
        let mut reply = vec![1; 28 + DATA_BYTES];
        client.read_exact(&mut reply).expect("a reply");
        drop(all);
        assert_eq!(reply[4..6], [0, 1], "it is the last one");
        assert!(reply[28..].iter().all(|byte| *byte == 0));
    }
    drop(client);
    assert!(leave(left).ahead.is_empty());
}

#[test]
fn a_client_that_goes_amid_a_reply_is_left() {
    let null = Null::start(1024, TAGS).expect("a volume");
    let (mut client, turn, left) = client(&null);
    client.write_all(&request()).expect("a server");
    wait_until_it_waits(&turn);
    drop(client);
    assert!(left.blocking_recv().expect("it leaves").is_err(), "its reply is lost");
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
    assert!(leave(left).ahead == request());
}

#[test]
fn what_came_before_a_cut_is_not_served_after_it() {
    let null = Null::start(1024, TAGS).expect("a volume");
    // Of its socket the thread hears nothing yet.
    let (elsewhere, _) = UnixStream::pair().expect("sockets");
    for sent in [0, 20] {
        let (mut client, turn, left) = client(&null);
        client.write_all(&request()[..sent]).expect("a server");
        if sent > 0 {
            wait_until_it_waits(&turn);
        }
        turn.cut(elsewhere.as_fd());
        client.write_all(&request()[sent..]).expect("a server");
        assert!(left.blocking_recv().expect("it leaves").is_err(), "it does not come back");
        assert_eq!(client.read(&mut [0]).ok(), Some(0), "there is no reply");
    }
}

#[test]
fn a_cut_amid_a_reply_ends_what_came_behind_it() {
    let null = Null::start(1024, TAGS).expect("a volume");
    let (mut client, calm, turn, left) = newcomer(&null);
    let socket = calm.socket().expect("it has one").try_clone_to_owned().expect("a descriptor");
    null.admit(Box::new(calm)).recv().expect("an answer").expect("a place");
    client.write_all(&request()).expect("a server");
    wait_until_it_waits(&turn);
    client.write_all(&request()).expect("a server");
    turn.cut(socket.as_fd());
    assert!(left.blocking_recv().expect("it leaves").is_err(), "it does not come back");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("an end");
    assert!(rest.len() < 28 + DATA_BYTES, "a part of one reply");
}

#[test]
fn a_connection_ends_with_a_thread_that_receives_for_it() {
    let null = Null::start(1024, TAGS).expect("a volume");
    let (mut client, mut calm, _, left) = newcomer(&null);
    let socket = calm.socket().expect("it has one").try_clone_to_owned().expect("a descriptor");
    assert_eq!(calm.begin().len(), 1);
    drop(calm);
    assert!(left.blocking_recv().is_err(), "it has gone");
    assert_eq!(client.read(&mut [0]).ok(), Some(0), "nothing can be received for it any more");
    drop(socket);
}
