//! A client of an array's control socket that sends invalid or senseless requests: it gets one
//! answer a line, in order, and the array continues.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use raidcore::geometry::Level;
use raidcore::meta::{AssembleOptions, Consistency};
use raidcore::units::BLOCK_BYTES;
use serde_json::{Map, Value};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use ublkd::attach::attach;
use ublkd::control::{ArrayReport, LINE_BYTES_MAX, Request, Server, Service, Stopper};
use ublkd::create::{CreateConfig, create};
use ublkd::host::{Host, HostConfig, HostHandle};
use ublkd::volume::Volume;

use crate::choices::Choices;
use crate::memory;

/// Blocks of a member.
const MEMBER_BLOCKS: u64 = 1024;

/// Lines of a conversation: by then the array has been changed often enough.
const LINES_MAX: u64 = 16;

/// The most memory that the server may need, in bytes.
const MEMORY_MAX: usize = 8 << 20;

/// The time after which an array that does not answer hangs.
const HANGS: Duration = Duration::from_secs(60);

/// Files in the array's directory that requests can name, and some that are not there.
const FILES: [&str; 8] = ["a", "b", "c", "spare", "another", "small", ".", "missing"];

/// The bytes choose an operator's requests, and invalid lines.
pub fn control(bytes: &[u8]) {
    let array = Array::start();
    let lines = script(&mut Choices::new(bytes), array.dir.path());
    let said = lines.concat();
    let (answers, growth) = memory::growth(|| array.converse(&said));
    assert!(growth <= MEMORY_MAX + 16 * said.len(), "{growth} bytes were used");
    let too_long = |line: &Vec<u8>| line.len() > LINE_BYTES_MAX;
    let expected = lines.iter().position(too_long).map_or(lines.len(), |line| line + 1);
    assert_eq!(answers.len(), expected, "one answer a line");
    for (line, answer) in lines.iter().zip(&answers) {
        check(line, answer);
    }
    let report = array.converse(b"{\"v\":1,\"cmd\":\"status\"}\n");
    assert_eq!(report.len(), 1, "the next one is served");
    array.stop();
}

/// Blocks that are written, and at which bytes.
type Written = Vec<(u64, Vec<u8>)>;

/// The writes that create the array on each member: made once for all inputs, as creating takes
/// longer than everything else.
static CREATED: LazyLock<Vec<Written>> = LazyLock::new(|| {
    let dir = in_memory();
    let members = members(dir.path());
    create(&CreateConfig {
        chunk: 4,
        consistency: Consistency::Bitmap,
        file_blocks: Some(MEMBER_BLOCKS),
        ..CreateConfig::new("tank", Level::Raid5, members.clone())
    })
    .expect("an array");
    let written = members.iter().map(|path| {
        let bytes = fs::read(path).expect("a member");
        let blocks = bytes.chunks(BLOCK_BYTES).map(<[u8]>::to_vec);
        let places = (0..).step_by(BLOCK_BYTES);
        places.zip(blocks).filter(|(_, block)| block.iter().any(|&byte| byte != 0)).collect()
    });
    written.collect()
});

/// A directory that syncs without delay, where there is one.
fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

fn members(dir: &Path) -> Vec<PathBuf> {
    FILES[..3].iter().map(|name| dir.join(name)).collect()
}

fn sparse(path: &Path, blocks: u64) -> File {
    let file = File::create(path).expect("a file");
    file.set_len(blocks * BLOCK_BYTES as u64).expect("a sparse file");
    file
}

/// An array that answers on its control socket.
struct Array {
    runtime: Runtime,
    server: Server,
    socket: PathBuf,
    host: HostHandle,
    /// A user of the array.
    _volume: Volume,
    dir: TempDir,
}

impl Array {
    fn start() -> Self {
        let dir = in_memory();
        for (name, blocks) in [("spare", MEMBER_BLOCKS), ("another", MEMBER_BLOCKS), ("small", 9)] {
            sparse(&dir.path().join(name), blocks);
        }
        let members = members(dir.path());
        for (path, written) in members.iter().zip(&*CREATED) {
            let file = sparse(path, MEMBER_BLOCKS);
            for (at, block) in written {
                file.write_all_at(block, *at).expect("there is room");
            }
        }
        let attached = attach(&members, AssembleOptions::default()).expect("its members");
        let record = attached.record().clone();
        let group = attached.groups.into_iter().next().expect("an array");
        let config =
            HostConfig { register_memory: false, ring_entries: 16, ..HostConfig::default() };
        let (volume, host) =
            Host::spawn(config, group.assembled, group.devices).expect("a running array");
        let runtime = Runtime::new().expect("a runtime");
        let stopper = Stopper::default();
        let service = Service::new(host.clone(), &[record], Vec::new(), stopper.clone());
        let mut server =
            runtime.block_on(async { Server::bind(dir.path(), "tank") }).expect("a socket");
        runtime.block_on(async { server.serve(Arc::new(service)) });
        let told = host.clone();
        runtime.spawn(async move {
            stopper.asked().await;
            stopper.stopped(told.stop().await.map_err(|error| error.to_string()));
        });
        let socket = server.path().to_owned();
        Self { runtime, server, socket, host, _volume: volume, dir }
    }

    /// Sends all lines, and returns the answers.
    fn converse(&self, said: &[u8]) -> Vec<String> {
        let stream = UnixStream::connect(&self.socket).expect("somebody listens");
        stream.set_read_timeout(Some(HANGS)).expect("a timeout");
        thread::scope(|scope| {
            let mut sending = &stream;
            scope.spawn(move || {
                // An error means that the client was cut off.
                sending.write_all(said).ok();
                sending.shutdown(Shutdown::Write).ok();
            });
            let lines = BufReader::new(&stream).lines();
            // A client that was cut off amid a line finds the connection reset, after the answers.
            let reset = std::io::ErrorKind::ConnectionReset;
            lines
                .take_while(|line| !matches!(line, Err(error) if error.kind() == reset))
                .map(|line| line.expect("the array answers or closes"))
                .collect()
        })
    }

    fn stop(self) {
        self.runtime.block_on(self.server.close());
        // However the stop was requested, it is clean.
        self.host.stop().wait().expect("a clean stop");
    }
}

/// The lines that the operator sends; the last one may have no end.
fn script(choices: &mut Choices<'_>, dir: &Path) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for _ in 0..choices.below(LINES_MAX) {
        let line = if choices.rarely(4) { noise(choices) } else { request(choices, dir) };
        lines.push(line);
    }
    let rest = choices.rest().split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec);
    lines.extend(rest.take(LINES_MAX as usize));
    lines.into_iter().map(|line| keep_inside(line, dir)).collect()
}

/// A request, most likely.
fn request(choices: &mut Choices<'_>, dir: &Path) -> Vec<u8> {
    let path = dir.join(choices.pick(&FILES)).display().to_string();
    let disk = match choices.below(8) {
        number @ 0..4 => number.to_string(),
        4 => String::from_utf8_lossy(choices.take(3)).into_owned(),
        _ => dir.join(choices.pick(&FILES)).display().to_string(),
    };
    let (force, limit) = (Value::from(choices.flag()), |choices: &mut Choices<'_>| {
        Value::from(choices.pick(&[0, 1, 1 << 20, 1 << 40, u64::MAX]))
    });
    let (name, fields): (_, Vec<(&str, Value)>) = match choices.below(13) {
        0 => ("status", vec![]),
        1 => ("disk-fail", vec![("disk", disk.into())]),
        2 => ("disk-add", vec![("path", path.into()), ("force", force)]),
        3 => ("disk-remove", vec![("disk", disk.into())]),
        4 => {
            let fields = vec![("disk", disk.into()), ("with", path.into()), ("force", force)];
            ("disk-replace", fields)
        }
        5 => ("pause", vec![]),
        6 => ("resume", vec![]),
        7 => ("limit", vec![("min", limit(choices)), ("max", limit(choices))]),
        8 => ("limit", vec![("max", limit(choices))]),
        9 => ("scrub-start", vec![("repair", force)]),
        10 => ("scrub-cancel", vec![]),
        11 => ("rebuild-order", vec![("order", choices.pick(&["popular", "no such"]).into())]),
        _ => ("stop", vec![]),
    };
    let version = if choices.rarely(16) { choices.below(4) } else { 1 };
    let mut object = Map::new();
    object.insert("v".into(), version.into());
    object.insert("cmd".into(), name.into());
    object.extend(fields.into_iter().map(|(field, value)| (field.to_owned(), value)));
    let mut line = Value::from(object).to_string().into_bytes();
    if choices.rarely(8) {
        let at = choices.index(line.len());
        line[at] = choices.below(0x100) as u8;
    }
    line.retain(|&byte| byte != b'\n');
    line.push(b'\n');
    line
}

/// A line that is no request, perhaps one that is too long.
fn noise(choices: &mut Choices<'_>) -> Vec<u8> {
    let length = choices.index(40);
    let mut line = choices.take(length).to_vec();
    line.retain(|&byte| byte != b'\n');
    if choices.rarely(8) {
        line.resize(LINE_BYTES_MAX - 2 + choices.index(4), b' ');
    }
    line.push(b'\n');
    line
}

/// The line, unless it is a request that names a device elsewhere: a fuzzer must not touch this
/// machine's disks.
fn keep_inside(line: Vec<u8>, dir: &Path) -> Vec<u8> {
    let is_inside = |path: &Path| FILES.iter().any(|name| path == dir.join(name));
    let named = match decode(&line) {
        Some(Request::DiskAdd { path, .. }) => path,
        Some(Request::DiskReplace { with, .. }) => with,
        _ => return line,
    };
    if is_inside(&named) { line } else { b"elsewhere\n".to_vec() }
}

/// The request of version 1 that a line is.
fn decode(line: &[u8]) -> Option<Request> {
    let mut object: Map<String, Value> = serde_json::from_slice(line).ok()?;
    object.remove("v").filter(|version| *version == 1)?;
    serde_json::from_value(object.into()).ok()
}

/// An answer is `ok`, or an error with a code and a message, and `ok` only if there was a request.
fn check(line: &[u8], answer: &str) {
    let shown = String::from_utf8_lossy(line);
    let answer: Map<String, Value> = serde_json::from_str(answer).expect("JSON");
    assert_eq!((answer.len(), &answer["v"]), (2, &Value::from(1)));
    let request = decode(line);
    if let Some(value) = answer.get("ok") {
        let request = request.unwrap_or_else(|| panic!("{shown} is no request"));
        if request == Request::Status {
            serde_json::from_value::<ArrayReport>(value.clone()).expect("a report");
        }
        return;
    }
    let word = |field: &str| answer["error"][field].as_str().unwrap_or_default().to_owned();
    let (code, message) = (word("code"), word("message"));
    let is_code = |code: &str| {
        code.split('-').all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase()))
    };
    assert!(is_code(&code) && !message.is_empty(), "{shown}: {answer:?}");
    // As a client would write it. Of two fields with the same name, for example, the array need not
    // take the last.
    let rewritten = serde_json::from_slice::<Value>(line).map(|value| value.to_string());
    let plain = rewritten.is_ok_and(|rewritten| rewritten == shown.trim_end());
    let bounds = matches!(request, Some(Request::Limit { .. } | Request::RebuildOrder { .. }));
    let misunderstood = code == "bad-request" && plain && !bounds;
    assert!(!misunderstood || request.is_none(), "{shown} is a request: {message}");
}
