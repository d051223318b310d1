//! An NBD client that sends anything: its answers are in order or it is cut off, and other clients
//! are served all the same.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use ublkd::front::nbd::{NbdAddress, NbdConfig, NbdServer};
use ublkd::null::Null;
use ublkd::volume::Volume;

use crate::choices::Choices;
use crate::client::{Client, READ, WRITE, go, header, string};
use crate::memory;
use crate::transcript;
use crate::world::{BLOCK, World, config};

/// What the client receives before it hangs up.
const HEARD_MAX: usize = 4 << 20;

/// The most that the client sends, if requests have payloads.
const SAID_MAX: usize = 4 << 20;

/// The memory that the server and its clients may need besides what goes through the connection.
const MEMORY_MAX: usize = 2 << 20;

/// The time after which a server that does not give back its buffers hangs.
const HANGS: Duration = Duration::from_secs(60);

/// The bytes choose what the client sends: options, requests, noise. One server serves it by a task of its own, the
/// other on the thread of a volume that stores nothing.
pub fn nbd(bytes: &[u8]) {
    let said = script(&mut Choices::new(bytes));
    let world = World::new();
    bears(&said, &world.volume, &|| world.connect());
    let null = NullWorld::new();
    bears(&said, null.null.volume(), &|| null.connect());
}

/// A server over a volume that answers on its own thread.
struct NullWorld {
    null: Null,
    server: Option<NbdServer>,
    socket: PathBuf,
    runtime: Runtime,
    _dir: TempDir,
}

impl NullWorld {
    /// With as many blocks and buffers as a [`World`].
    fn new() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let dir = tempfile::tempdir().expect("a temporary directory");
        let socket = dir.path().join("nbd.sock");
        let null = Null::start(config().blocks, config().tags).expect("a volume");
        let address = NbdConfig::new(NbdAddress::Unix(socket.clone()));
        let server = runtime.block_on(NbdServer::start_null(null.clone(), address));
        Self { null, server: Some(server.expect("a server")), socket, runtime, _dir: dir }
    }

    fn connect(&self) -> Client {
        Client::new(UnixStream::connect(&self.socket).expect("a server"))
    }
}

impl Drop for NullWorld {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
    }
}

/// What a client has said does no harm to the server of a volume.
fn bears(said: &[u8], volume: &Volume, connect: &dyn Fn() -> Client) {
    let mut witness = connect().ready(true);
    let (heard, growth) = memory::growth(|| converse(connect().stream, said));
    transcript::check((said, &heard), volume.name(), heard.len() >= HEARD_MAX);
    assert_eq!(witness.read(0, 0, 8192).error, 0, "another client");
    let most = MEMORY_MAX + 4 * HEARD_MAX + 2 * said.len();
    assert!(growth <= most, "the server used {growth} bytes");
    all_buffers_are_back(volume);
}

/// The bytes that the client sends.
fn script(choices: &mut Choices<'_>) -> Vec<u8> {
    let flags = choices.pick(&[3u32, 1, 0, 2, 4, u32::MAX]);
    let mut said = flags.to_be_bytes().to_vec();
    for _ in 0..choices.below(8) {
        option(choices, &mut said);
    }
    if !choices.rarely(8) {
        let (option, data) = if flags == 0 { (1, Vec::new()) } else { (7, go("", &[])) };
        push_option(option, &data, &mut said);
    }
    for handle in 0..choices.below(24) {
        request(handle, choices, &mut said);
    }
    said.extend(choices.rest());
    said
}

/// An option whose header is right most of the time, and whose data may be.
fn option(choices: &mut Choices<'_>, said: &mut Vec<u8>) {
    let option = choices.pick(&[8, 10, 9, 7, 6, 3, 1, 2, 5, 0, 4, 77]);
    let name = choices.pick(&["", "tank", "tan", "null"]);
    let data = match choices.below(4) {
        0 => Vec::new(),
        1 => {
            let wanted: Vec<u16> = choices.take(3).iter().map(|&kind| kind.into()).collect();
            go(name, &wanted)
        }
        2 => {
            let contexts = ["base:allocation", "base:", "base:other", "x:y", ""];
            let queries = (0..choices.below(3)).map(|_| string(choices.pick(&contexts)));
            let queries: Vec<_> = queries.collect();
            let count = (queries.len() as u32).to_be_bytes();
            [string(name), count.to_vec(), queries.concat()].concat()
        }
        _ => {
            let length = choices.index(60);
            choices.take(length).to_vec()
        }
    };
    if choices.rarely(16) {
        said.extend(b"IHAVEOPT");
        said.extend(u32::to_be_bytes(option));
        said.extend((choices.number() as u32).to_be_bytes());
        said.extend(data);
    } else {
        push_option(option, &data, said);
    }
}

fn push_option(option: u32, data: &[u8], said: &mut Vec<u8>) {
    said.extend(b"IHAVEOPT");
    said.extend(option.to_be_bytes());
    said.extend((data.len() as u32).to_be_bytes());
    said.extend(data);
}

/// A request that is well-formed most of the time, with a payload or some of it.
fn request(handle: u64, choices: &mut Choices<'_>, said: &mut Vec<u8>) {
    let command = choices.pick(&[WRITE, READ, 3, 4, 6, 7, 5, 2, 8]);
    let flags = if choices.rarely(4) { choices.below(1 << 16) as u16 } else { 0 };
    let blocks = config().blocks;
    let offset = match choices.below(4) {
        0 => 0,
        1 => choices.below(blocks) * BLOCK,
        2 => (blocks - choices.below(4)) * BLOCK,
        _ => choices.number(),
    };
    let length = match choices.below(8) {
        0..6 => choices.below(200) as u32 * BLOCK as u32,
        6 => choices.below(9000) as u32,
        _ => choices.number() as u32,
    };
    said.extend(header(command, flags, handle, offset, length));
    if command == WRITE {
        let short = if choices.rarely(8) { choices.index(9000) } else { 0 };
        let payload = (length as usize).saturating_sub(short);
        let room = SAID_MAX.saturating_sub(said.len());
        said.resize(said.len() + payload.min(room), 0xa5);
    }
}

/// Sends all that the server takes, and returns all that it answers.
fn converse(stream: UnixStream, said: &[u8]) -> Vec<u8> {
    let mut heard = Vec::new();
    thread::scope(|scope| {
        let (mut sending, hearing) = (&stream, &stream);
        scope.spawn(move || {
            // An error means that the client was cut off, or hung up.
            sending.write_all(said).ok();
            sending.shutdown(Shutdown::Write).ok();
        });
        let ended = hearing.take(HEARD_MAX as u64).read_to_end(&mut heard);
        // Any other error means that the client was cut off.
        let silent = ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        assert!(!silent, "the server neither answers nor closes");
        stream.shutdown(Shutdown::Both).ok();
    });
    heard
}

fn all_buffers_are_back(volume: &Volume) {
    let deadline = Instant::now() + HANGS;
    let mut buffers = Vec::new();
    while buffers.len() < usize::from(config().tags) {
        match volume.try_buffer() {
            Some(buffer) => buffers.push(buffer),
            None => thread::sleep(Duration::from_millis(1)),
        }
        assert!(Instant::now() < deadline, "the server keeps buffers");
    }
}
