//! Clients that are served on the thread of an array.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use det::Prng;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use ublkd::front::nbd::{NbdAddress, NbdConfig, NbdLimits, NbdServer};
use ublkd::host::HostHandle;

use crate::array::start;
use crate::client::{
    BLOCK_STATUS, Client, Content, DISCONNECT, EINVAL, ENOSPC, ESHUTDOWN, FLUSH, FUA, HANGS, READ,
    TRIM, WRITE, header,
};
use crate::world::{BLOCK, pattern};

/// More requests than it takes for a client to go to the thread.
const MANY: u64 = 20;

/// The same for one that has often come back.
const MOST: u64 = 1100;

/// An array that is served.
struct Array {
    server: Option<NbdServer>,
    host: HostHandle,
    runtime: Runtime,
    dir: TempDir,
}

impl Array {
    fn new(limits: NbdLimits) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let address = NbdAddress::Unix(dir.path().join("nbd.sock"));
        Self::at(dir, NbdConfig { limits, ..NbdConfig::new(address) })
    }

    fn at(dir: TempDir, config: NbdConfig) -> Self {
        // It does nothing unless it is driven.
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (volume, host) = start(dir.path());
        let server = runtime.block_on(NbdServer::start_at(volume, &host, config));
        Self { server: Some(server.expect("a server")), host, runtime, dir }
    }

    /// While clients do this, the server's own thread works.
    fn beside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let done = self.runtime.spawn_blocking(work);
        self.runtime.block_on(done).expect("no panic")
    }

    fn direct_client(&self, structured: bool) -> Client {
        let path = self.dir.path().join("nbd.sock");
        self.beside(move || {
            let stream = UnixStream::connect(path).expect("a server");
            let mut client = Client::new(stream).ready(structured);
            settle_in(&mut client, MANY);
            client
        })
    }

    fn stop(&mut self) {
        let server = self.server.take().expect("it was not stopped before");
        self.runtime.block_on(server.stop());
    }
}

fn settle_in<S: Read + Write>(client: &mut Client<S>, requests: u64) {
    for _ in 0..requests {
        assert_eq!(client.read(0, 0, 4096).error, 0);
    }
}

#[test]
fn a_client_is_served_while_the_servers_own_thread_does_nothing() {
    let array = Array::new(NbdLimits::default());
    for structured in [true, false] {
        let mut client = array.direct_client(structured);
        for lba in [0, 3, 77] {
            let data = pattern(lba, 16);
            assert_eq!(client.write(0, lba * BLOCK, &data), 0);
            let read = client.read(0, lba * BLOCK, 16 * 4096);
            assert!(read.data == data && (read.error, read.pieces) == (0, 1));
            let read = client.read(0, (lba + 5) * BLOCK, 4096);
            assert!(read.data == pattern(lba + 5, 1), "{structured}");
        }
        assert_eq!(client.command(FLUSH, 0, 0, 0), 0);
        assert_eq!(client.write(FUA, 9 * BLOCK, &pattern(5, 1)), 0);
        // A request may come in pieces, and with its payload at once.
        let whole = [header(WRITE, 0, 99, 40 * BLOCK, 4096), pattern(4, 1)].concat();
        for cut in [1, 27, 28, 29, 4000] {
            client.send(&whole[..cut]);
            client.send(&whole[cut..]);
            assert_eq!(client.outcome(99, 0, 0).error, 0);
        }
        client.send(&whole);
        assert_eq!(client.outcome(99, 0, 0).error, 0);
        assert!(client.read(0, 40 * BLOCK, 4096).data == pattern(4, 1));
        assert!(client.read(0, 9 * BLOCK, 4096).data == pattern(5, 1));
    }
}

/// A request that a client makes among others.
struct One {
    handle: u64,
    lba: u64,
    blocks: u64,
    /// What it writes, or has to read.
    data: Vec<u8>,
    writes: bool,
}

/// What the first blocks hold.
struct Stored(Vec<u8>);

impl Stored {
    fn new() -> Self {
        Self(vec![0; (40 * 256 * BLOCK) as usize])
    }

    fn part(&mut self, lba: u64, blocks: u64) -> &mut [u8] {
        &mut self.0[(lba * BLOCK) as usize..((lba + blocks) * BLOCK) as usize]
    }

    /// At most 40 requests that don't touch each other.
    fn some(&mut self, rng: &mut Prng, large: bool) -> Vec<One> {
        let count = 1 + rng.below(40);
        let most = if large { 256 } else { 16 };
        let one = |handle| {
            let lba = handle * 256 + rng.below(256 - most + 1);
            let blocks = 1 + rng.below(most);
            let writes = rng.chance(1, 2);
            if writes {
                rng.fill(self.part(lba, blocks));
            }
            One { handle, lba, blocks, data: self.part(lba, blocks).to_vec(), writes }
        };
        (0..count).map(one).collect()
    }
}

/// Sends all of these in parts of any size, and then hears the answers.
fn ask_for_all<S: Read + Write>(client: &mut Client<S>, rng: &mut Prng, ones: Vec<One>) {
    let mut bytes = Vec::new();
    for One { handle, lba, blocks, data, writes } in &ones {
        let command = if *writes { WRITE } else { READ };
        let length = (blocks * BLOCK) as u32;
        bytes.extend(header(command, 0, *handle, lba * BLOCK, length));
        if *writes {
            bytes.extend(data);
        }
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let most = if rng.chance(1, 2) { 100 } else { rest.len() as u64 };
        let (part, behind) = rest.split_at((1 + rng.below(most) as usize).min(rest.len()));
        client.send(part);
        rest = behind;
    }
    let mut left = ones;
    while !left.is_empty() {
        let chunk = client.chunk();
        let at = left.iter().position(|one| one.handle == chunk.handle);
        let one = left.remove(at.expect("a request that is waited for"));
        let data = match chunk.content {
            Content::Simple(0) if one.writes => continue,
            Content::Simple(0) => client.take(one.data.len()),
            Content::Data { offset, data } if offset == one.lba * BLOCK => data,
            other @ (Content::Simple(_)
            | Content::None
            | Content::Data { .. }
            | Content::Status { .. }
            | Content::Error { .. }) => panic!("{other:?}"),
        };
        assert!(!one.writes && data == one.data);
    }
}

#[test]
fn many_requests_at_a_time_are_served_while_the_servers_own_thread_does_nothing() {
    let array = Array::new(NbdLimits::default());
    let mut stored = Stored::new();
    for structured in [true, false] {
        let mut client = array.direct_client(structured);
        let mut rng = Prng::new(structured.into());
        for round in 0..30 {
            let ones = stored.some(&mut rng, round % 10 == 0);
            ask_for_all(&mut client, &mut rng, ones);
        }
        let whole = client.read(0, 256 * BLOCK, 256 * 4096);
        assert!(whole.data == stored.part(256, 256), "as large as a buffer");
    }
}

#[test]
fn many_requests_at_a_time_are_served_over_tcp() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let address = NbdAddress::Tcp(([127, 0, 0, 1], 0).into());
    let array = Array::at(dir, NbdConfig::new(address));
    let server = array.server.as_ref().expect("it serves");
    let NbdAddress::Tcp(address) = *server.address() else { panic!("TCP") };
    let mut client = array.beside(move || {
        let stream = TcpStream::connect(address).expect("a server");
        stream.set_read_timeout(Some(HANGS)).expect("a timeout");
        let mut client = Client::over(stream);
        client.greet(3);
        let mut client = client.negotiated(true);
        settle_in(&mut client, MANY);
        client
    });
    let (mut stored, mut rng) = (Stored::new(), Prng::new(3));
    for round in 0..10 {
        let ones = stored.some(&mut rng, round % 10 == 0);
        ask_for_all(&mut client, &mut rng, ones);
    }
}

#[test]
fn clients_that_take_no_replies_keep_no_buffers_of_others_and_get_them_in_the_end() {
    let limits = NbdLimits { linger: Duration::from_millis(5), ..NbdLimits::default() };
    let array = Array::new(limits);
    let mut writer = array.direct_client(true);
    let data = pattern(0, 256);
    assert_eq!(writer.write(0, 0, &data), 0);
    array.beside(move || drop(writer));
    let mut clients: Vec<_> = (0..4).map(|_| array.direct_client(true)).collect();
    let handles: Vec<u64> = (1000..1040).collect();
    for client in &mut clients {
        let requests = handles.iter().flat_map(|&name| header(READ, 0, name, 0, 64 * 4096));
        client.send(&requests.collect::<Vec<_>>());
    }
    let path = array.dir.path().join("nbd.sock");
    array.beside(move || {
        let stream = UnixStream::connect(path).expect("a server");
        let mut other = Client::new(stream).ready(true);
        settle_in(&mut other, 3 * MANY);
        assert!(other.read(0, 0, 256 * 4096).data == data);
        for client in &mut clients {
            for outcome in client.outcomes(&handles, 0, 64 * 4096) {
                assert!(outcome.error == 0 && outcome.data == data[..64 * 4096]);
            }
            assert_eq!(client.command(FLUSH, 0, 0, 0), 0);
        }
    });
}

#[test]
fn whatever_a_client_asks_for_it_is_served() {
    let array = Array::new(NbdLimits::default());
    for structured in [true, false] {
        let mut client = array.direct_client(structured);
        array.beside(move || {
            let mut requests = MANY;
            let mut return_again = |client: &mut Client| {
                requests = (2 * requests).min(MOST);
                settle_in(client, requests);
            };
            let data = pattern(7, 600);
            assert_eq!(client.write(0, 0, &data), 0, "more than it may have there");
            return_again(&mut client);
            let range = (33 * BLOCK, 8 * 4096);
            let requests = |from: u64| {
                (from..from + 30).flat_map(|name| header(READ, 0, name, range.0, range.1))
            };
            for from in [1000, 2000] {
                let handles: Vec<u64> = (from..from + 30).collect();
                client.send(&requests(from).collect::<Vec<_>>());
                let all = client.outcomes(&handles, range.0, range.1);
                assert!(all.iter().all(|one| one.error == 0 && one.data == pattern(40, 8)));
                return_again(&mut client);
            }
            assert_eq!(client.read(0, 1, 4096).error, EINVAL, "no block");
            return_again(&mut client);
            let end = (1 << 40) - BLOCK;
            assert_eq!(client.write(0, end, &pattern(0, 1)), ENOSPC, "past the end");
            return_again(&mut client);
            assert_eq!(client.command(TRIM, 0, 0, 4096), 0);
            return_again(&mut client);
            if structured {
                client.request(BLOCK_STATUS, 0, 0, 4096);
                client.chunk();
                return_again(&mut client);
            }
            assert!(client.read(0, 0, 600 * 4096).data[4096..] == data[4096..]);
            return_again(&mut client);
            client.send(&header(READ, 0, 1, 0, 0)[..20]);
            client.send(&header(READ, 0, 1, 0, 0)[20..]);
            assert_eq!(client.outcome(1, 0, 0).error, 0, "of no bytes");
            return_again(&mut client);
            client.request(DISCONNECT, 0, 0, 0);
            assert_eq!(client.rest(), b"");
        });
    }
}

#[test]
fn a_client_that_comes_back_returns_after_twice_as_many_requests() {
    let array = Array::new(NbdLimits::default());
    let mut client = array.direct_client(true);
    for requests in [2 * MANY, 4 * MANY, 8 * MANY] {
        client = array.beside(move || {
            assert_eq!(client.write(0, 0, &pattern(7, 600)), 0, "more than it may have there");
            settle_in(&mut client, requests);
            client
        });
        assert_eq!(client.read(0, 0, 4096).error, 0, "the server's own thread does nothing");
    }
}

#[test]
fn a_client_is_left_when_the_server_is_dropped_with_its_runtime() {
    let array = Array::new(NbdLimits::default());
    let mut client = array.direct_client(true);
    let Array { server, host, runtime, .. } = array;
    drop(runtime);
    assert_eq!(client.rest(), b"");
    drop(server);
    host.stop().wait().expect("a clean stop");
}

#[test]
#[should_panic(expected = "a volume of another array")]
fn a_volume_is_not_served_on_another_arrays_thread() {
    let (one, other) = (tempfile::tempdir(), tempfile::tempdir());
    let (one, other) = (one.expect("a directory"), other.expect("a directory"));
    let (volume, _host) = start(one.path());
    let (_volume, host) = start(other.path());
    let config = NbdConfig::new(NbdAddress::Unix(one.path().join("nbd.sock")));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(NbdServer::start_at(volume, &host, config)).ok();
}

#[test]
fn all_are_served_however_many_there_are() {
    let array = Array::new(NbdLimits::default());
    let mut clients: Vec<_> = (0..9).map(|_| array.direct_client(true)).collect();
    array.beside(move || {
        for round in 0..3 * MANY {
            for (at, client) in (0..).zip(&mut clients) {
                let data = pattern(round + at, 1);
                assert_eq!(client.write(0, at * BLOCK, &data), 0);
                assert!(client.read(0, at * BLOCK, 4096).data == data);
            }
        }
    });
}

#[test]
fn a_client_that_makes_the_server_wait_is_cut_off() {
    let patience = Duration::from_millis(50);
    let array = Array::new(NbdLimits { patience, ..NbdLimits::default() });
    let mut idle = array.direct_client(true);
    for sent in [1, 28, 100] {
        let mut client = array.direct_client(true);
        let whole = [header(WRITE, 0, 1, 0, 4096), pattern(0, 1)].concat();
        client.send(&whole[..sent]);
        assert_eq!(array.beside(move || client.rest()), b"");
    }
    assert_eq!(idle.read(0, 0, 4096).error, 0, "it was idle for longer than that");
}

#[test]
fn clients_leave_and_are_left() {
    let mut array = Array::new(NbdLimits::default());
    let mut client = array.direct_client(false);
    client.close_sending();
    assert_eq!(array.beside(move || client.rest()), b"");
    drop(array.direct_client(true));

    let mut client = array.direct_client(true);
    let data = pattern(1, 1);
    assert_eq!(client.write(0, 0, &data), 0);
    array.stop();
    assert_eq!(client.rest(), b"");
    array.host.stop().wait().expect("a clean stop");
}

#[test]
fn a_stop_waits_for_the_rest_of_a_request() {
    let mut array = Array::new(NbdLimits::default());
    let mut client = array.direct_client(true);
    let whole = [header(WRITE, 0, 99, 0, 64 * 4096), pattern(4, 64)].concat();
    client.send(&whole[..100_000]);
    client.wait_until_received();
    let server = array.server.take().expect("it serves");
    let stopped = array.runtime.spawn(server.stop());
    let mut client = array.beside(move || {
        client.send(&whole[100_000..]);
        // It may be complete before the stop is noticed.
        assert!([0, ESHUTDOWN].contains(&client.outcome(99, 0, 0).error));
        client
    });
    array.runtime.block_on(stopped).expect("no panic");
    assert_eq!(client.rest(), b"");
}

#[test]
fn a_client_of_an_array_that_ends_is_cut_off() {
    let array = Array::new(NbdLimits::default());
    let mut client = array.direct_client(true);
    array.host.stop().wait().expect("a clean stop");
    assert_eq!(array.beside(move || client.rest()), b"");
}
