//! A client on the thread of a null volume.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use raidcore::units::{BLOCK_BYTES, Lba};
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::AsyncReadExt;

use super::super::ledger::Ledger;
use super::super::replies::Replies;
use super::super::session::Session;
use super::*;
use crate::front::LogicalBlock;
use crate::null::Null;
use crate::volume::Edges;

const TAGS: u16 = 4;

/// What is read or written.
const DATA: usize = 64 << 10;

const READ: u16 = 0;
const WRITE: u16 = 1;
const BLOCK_STATUS: u16 = 7;

type Leaves = oneshot::Receiver<io::Result<Left>>;

/// A client that is not with a thread yet, of which this was read before, whose server's socket takes
/// little at once, and what becomes of that.
fn newcomer(null: &Null, ahead: &[u8]) -> (UnixStream, Direct, Arc<Turn>, Leaves) {
    let (server, client) = UnixStream::pair().expect("sockets");
    client.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    set_socket_send_buffer_size(&server, 4096).expect("a size");
    let checks = Checks {
        volume: null.volume().clone(),
        session: Session { structured: true, allocation: false },
        logical_block: LogicalBlock::Whole,
    };
    let turn = Arc::new(Turn::new().expect("an eventfd"));
    let limits = NbdLimits { linger: Duration::from_millis(5), ..NbdLimits::default() };
    let own = (checks, null.volume().share());
    let incoming = Incoming::new(ahead).expect("memory");
    let (direct, left) = Direct::new((server.into(), incoming), own, &limits, Arc::clone(&turn));
    (client, direct, turn, left)
}

/// The same, with the volume's thread.
fn client(null: &Null) -> (UnixStream, Arc<Turn>, Leaves) {
    let (client, direct, turn, left) = newcomer(null, &[]);
    null.admit(Box::new(direct)).recv().expect("an answer").expect("a place");
    (client, turn, left)
}

fn null() -> Null {
    Null::start(1024, TAGS).expect("a volume")
}

/// A request of the first blocks, by its number.
fn request(command: u16, handle: u64, length: usize) -> Vec<u8> {
    let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
    request.extend([0; 2]);
    request.extend(command.to_be_bytes());
    request.extend(handle.to_be_bytes());
    request.extend([0; 8]);
    request.extend((length as u32).to_be_bytes());
    request
}

/// The reply to a read.
fn reply(handle: u64) -> Vec<u8> {
    let mut reply = 0x668e_33ef_u32.to_be_bytes().to_vec();
    reply.extend([0, 1, 0, 1]);
    reply.extend(handle.to_be_bytes());
    reply.extend((8 + DATA as u32).to_be_bytes());
    reply.extend([0; 8]);
    reply.resize(28 + DATA, 0);
    reply
}

fn leave(left: Leaves) -> Left {
    left.blocking_recv().expect("it leaves").expect("it is not cut")
}

fn wait_until_it_waits(turn: &Turn, way: Way) {
    while turn.waiting(way).is_none() {
        std::thread::yield_now();
    }
}

fn hear(client: &mut UnixStream, wanted: &[u8]) {
    let mut heard = vec![1; wanted.len()];
    client.read_exact(&mut heard).expect("a server");
    assert!(heard == wanted);
}

/// What the thread has given back of replies that the task sends.
#[tokio::test]
async fn data_that_was_given_back_is_read_again_before_its_reply() {
    let null = null();
    let session = Session { structured: true, allocation: false };
    let answered = |handle, buffer| {
        let blocks = (DATA / BLOCK_BYTES) as u32;
        let part = Part { handle, lba: Lba(0), blocks, edges: Edges::NONE, buffer };
        let head = session.data(handle, true, 0, DATA as u32);
        Message { head, part: Some(part), last: true }
    };
    let last = null.volume().buffer().await;
    let messages = vec![answered(7, None), answered(8, Some(last))];
    let limits = NbdLimits::default();
    let unsent = Unsent { messages, ..Unsent::default() };
    let (ledger, outgoing, rest) = Ledger::new(session, &limits, null.volume().share(), unsent);
    let (server, mut client) = tokio::io::duplex(1 << 20);
    let volume = null.volume().clone();
    let mut replies = Replies::new(server, volume, &ledger, (outgoing, rest), Pace::of(&limits));
    let wanted = [reply(7), reply(8)].concat();
    let mut heard = vec![1; wanted.len()];
    tokio::select! {
        error = replies.run() => panic!("{error}"),
        heard = client.read_exact(&mut heard) => assert_eq!(heard.expect("replies"), wanted.len()),
    }
    assert!(heard == wanted);
}

#[test]
fn replies_go_on_when_the_client_takes_more() {
    let null = null();
    let (mut client, turn, left) = client(&null);
    // More than there are buffers.
    for round in 0..3 {
        let handles = 8 * round..8 * (round + 1);
        let requests: Vec<_> = handles.clone().flat_map(|n| request(READ, n, DATA)).collect();
        client.write_all(&requests).expect("a server");
        wait_until_it_waits(&turn, Way::Out);
        handles.for_each(|handle| hear(&mut client, &reply(handle)));
    }
    drop(client);
    assert!(leave(left).ahead.is_empty());
}

#[test]
fn a_client_that_takes_no_replies_gives_back_buffers_that_others_need() {
    let null = null();
    let (mut client, turn, left) = client(&null);
    // They arrive together.
    let requests = [request(READ, 7, DATA), request(READ, 8, DATA)].concat();
    client.write_all(&requests).expect("a server");
    wait_until_it_waits(&turn, Way::Out);
    let all: Vec<_> = (0..TAGS).map(|_| null.volume().buffer_blocking()).collect();
    let Left { ahead, unsent, .. } = leave(left);
    // There may have been no buffer for the second.
    let messages = &unsent.messages;
    assert_eq!((messages.len() + ahead.len() / 28, unsent.rest.last), (1, 1));
    let given_back = |message: &Message| message.part.as_ref().is_some_and(|p| p.buffer.is_none());
    assert!(messages.iter().all(given_back));
    let mut begun = vec![1; 28 + DATA - unsent.rest.bytes.len()];
    client.read_exact(&mut begun).expect("a server");
    assert!([begun, unsent.rest.bytes].concat() == reply(7));
    drop(all);
}

#[test]
fn a_client_that_sends_half_a_payload_gives_back_a_buffer_that_others_need() {
    let null = null();
    for sent in [1, 28, 29, 9000, 30_000] {
        let (mut client, turn, left) = client(&null);
        let write = [request(WRITE, 7, DATA), vec![9; DATA]].concat();
        client.write_all(&write[..sent]).expect("a server");
        wait_until_it_waits(&turn, Way::In);
        let all: Vec<_> = (0..TAGS).map(|_| null.volume().buffer_blocking()).collect();
        if sent < 28 {
            // It has none.
            turn.call();
        }
        let ahead = leave(left).ahead;
        // The rest may still be in the socket.
        assert!(write.starts_with(&ahead) && ahead.len() <= sent);
        drop(all);
    }
}

#[test]
fn a_client_that_goes_amid_a_reply_is_left() {
    let null = null();
    let (mut client, turn, left) = client(&null);
    client.write_all(&request(READ, 1, DATA)).expect("a server");
    wait_until_it_waits(&turn, Way::Out);
    drop(client);
    assert!(left.blocking_recv().expect("it leaves").is_err(), "its reply is lost");
    let all: Vec<_> = (0..TAGS).map(|_| null.volume().buffer_blocking()).collect();
    assert_eq!(all.len(), usize::from(TAGS));
}

#[test]
fn what_is_not_for_the_thread_goes_back_unserved() {
    let null = null();
    let other = request(BLOCK_STATUS, 3, 4096);
    let behind = request(READ, 4, DATA);
    let all = [request(READ, 1, DATA), other.clone(), behind.clone()].concat();
    let (mut client, direct, _, left) = newcomer(&null, &all);
    null.admit(Box::new(direct)).recv().expect("an answer").expect("a place");
    let Left { ahead, unsent, socket } = leave(left);
    assert!(ahead == [other, behind].concat());
    drop(socket);
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).expect("an end");
    heard.extend(unsent.rest.bytes);
    heard.extend(unsent.messages.iter().flat_map(Message::slices).flatten());
    assert!(heard == reply(1), "what the socket did not take is with the client");
}

#[test]
fn a_client_that_is_called_comes_with_all_that_is_unsent() {
    let null = null();
    let requests: Vec<_> = (0..3).flat_map(|handle| request(READ, handle, DATA)).collect();
    let (mut client, direct, turn, left) = newcomer(&null, &requests);
    null.admit(Box::new(direct)).recv().expect("an answer").expect("a place");
    wait_until_it_waits(&turn, Way::Out);
    turn.call();
    let Left { ahead, unsent, socket } = leave(left);
    drop(socket);
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).expect("an end");
    heard.extend(unsent.rest.bytes);
    heard.extend(unsent.messages.iter().flat_map(Message::slices).flatten());
    // Those for which there was no buffer yet were not served.
    let served = 3 - ahead.len() / 28;
    assert!(requests.ends_with(&ahead) && ahead.len() % 28 == 0);
    assert!(heard == (0..served as u64).flat_map(reply).collect::<Vec<_>>());
}

#[test]
fn what_came_before_a_cut_is_not_served_after_it() {
    let null = null();
    // Of its socket the thread hears nothing.
    let (elsewhere, _) = UnixStream::pair().expect("sockets");
    for sent in [0, 20] {
        let (mut client, turn, left) = client(&null);
        let request = request(READ, 1, DATA);
        client.write_all(&request[..sent]).expect("a server");
        if sent > 0 {
            wait_until_it_waits(&turn, Way::In);
        }
        turn.cut(elsewhere.as_fd());
        // It may be gone already.
        client.write_all(&request[sent..]).ok();
        assert!(left.blocking_recv().expect("it leaves").is_err(), "it does not come back");
        assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)), "there is no reply");
    }
}

#[test]
fn a_cut_amid_replies_ends_what_came_behind_them() {
    let null = null();
    let requests: Vec<_> = (0..9).flat_map(|handle| request(READ, handle, DATA)).collect();
    let (mut client, direct, turn, left) = newcomer(&null, &requests);
    let socket = direct.socket().expect("it has one").try_clone_to_owned().expect("a descriptor");
    null.admit(Box::new(direct)).recv().expect("an answer").expect("a place");
    wait_until_it_waits(&turn, Way::Out);
    turn.cut(socket.as_fd());
    assert!(left.blocking_recv().expect("it leaves").is_err(), "it does not come back");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("an end");
    assert!(rest.len() < 9 * (28 + DATA), "a part of the replies");
    let all: Vec<_> = (0..TAGS).map(|_| null.volume().buffer_blocking()).collect();
    assert_eq!(all.len(), usize::from(TAGS));
}

#[test]
fn a_connection_ends_with_a_thread_that_receives_for_it() {
    let null = null();
    let half = [request(WRITE, 1, DATA), vec![9; 100]].concat();
    for (ahead, leaked) in [(&[][..], 0), (&half, 1)] {
        let (mut client, mut direct, _, left) = newcomer(&null, ahead);
        let socket = direct.socket().expect("it has one").try_clone_to_owned();
        direct.begin();
        direct.came(CONTINUE, 0);
        let commands = std::iter::from_fn(|| direct.next());
        assert!(commands.count() > 0 && direct.under_way.has(RECEIVE));
        drop(direct);
        assert!(left.blocking_recv().is_err(), "it has gone");
        assert_eq!(client.read(&mut [0]).ok(), Some(0), "nothing can be received for it any more");
        drop(socket);
        let all: Vec<_> = (0..TAGS).map_while(|_| null.volume().try_buffer()).collect();
        assert_eq!(all.len(), usize::from(TAGS) - leaked, "the kernel may still receive into one");
    }
}
