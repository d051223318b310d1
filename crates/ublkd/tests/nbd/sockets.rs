//! Where a server listens.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::{fs, io};

use tokio::runtime::Runtime;
use ublkd::front::SocketError;
use ublkd::front::nbd::{NbdAddress, NbdConfig, NbdError, NbdServer};
use ublkd::volume::Volume;

use crate::client::Client;
use crate::world::{World, config};

fn start(runtime: &Runtime, config_: NbdConfig) -> Result<NbdServer, NbdError> {
    let (volume, _submissions) = Volume::channel(config());
    runtime.block_on(NbdServer::start(volume, config_))
}

/// Why a server does not start, if it does not.
pub(crate) fn refusal(config: NbdConfig) -> Option<String> {
    let runtime = Runtime::new().expect("a runtime");
    start(&runtime, config).err().map(|error| error.to_string())
}

fn unix(path: &Path) -> NbdConfig {
    NbdConfig::new(NbdAddress::Unix(path.to_owned()))
}

#[test]
fn only_its_owner_may_use_the_socket() {
    let world = World::new();
    let NbdAddress::Unix(path) = world.address() else {
        panic!("a Unix socket");
    };
    let mode = fs::metadata(path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn a_dead_servers_socket_is_replaced_and_a_living_ones_is_not() {
    let runtime = Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("nbd.sock");
    let foreign = UnixListener::bind(&path).expect("a listener");
    let error = start(&runtime, unix(&path)).expect_err("somebody listens");
    assert!(
        matches!(&error, NbdError::Socket(SocketError::InUse { path: named }) if *named == path),
        "{error}"
    );
    drop(foreign);
    assert!(path.exists());
    let server = start(&runtime, unix(&path)).expect("nobody listens");
    let again = start(&runtime, unix(&path)).expect_err("the first one listens");
    assert!(matches!(again, NbdError::Socket(SocketError::InUse { .. })), "{again}");
    Client::new(UnixStream::connect(&path).expect("it listens")).greet(3);
    runtime.block_on(server.stop());
    assert!(!path.exists());
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let runtime = Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("precious");
    fs::write(&path, "data").expect("a file");
    let error = start(&runtime, unix(&path)).expect_err("a file is no socket");
    assert!(matches!(&error, NbdError::Socket(SocketError::NotASocket { .. })), "{error}");
    assert_eq!(fs::read(&path).expect("the file"), b"data");
    let error =
        start(&runtime, unix(&dir.path().join("absent/nbd.sock"))).expect_err("no directory");
    assert!(matches!(&error, NbdError::Socket(SocketError::Listen { .. })), "{error}");
}

#[test]
fn a_socket_that_was_replaced_meanwhile_is_left_alone() {
    let runtime = Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("nbd.sock");
    let server = start(&runtime, unix(&path)).expect("a server");
    fs::rename(&path, dir.path().join("aside")).expect("a new name");
    let _other = UnixListener::bind(&path).expect("a listener");
    runtime.block_on(server.stop());
    UnixStream::connect(&path).expect("the other one's socket is there");
}

#[test]
fn servers_that_start_together_take_turns() {
    let runtime = Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let turn = fs::File::open(dir.path()).expect("the directory");
    turn.lock().expect("a lock");
    let path = dir.path().join("nbd.sock");
    let error = start(&runtime, unix(&path)).expect_err("it is not its turn");
    assert!(matches!(&error, NbdError::Socket(SocketError::Locked { .. })), "{error}");
    drop(turn);
    start(&runtime, unix(&path)).expect("it is its turn");
}

#[test]
fn other_machines_are_served_only_on_demand() {
    let runtime = Runtime::new().expect("a runtime");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:0.0.0.0]:0"] {
        let address: SocketAddr = address.parse().expect("an address");
        let error = start(&runtime, NbdConfig::new(NbdAddress::Tcp(address)));
        let error = error.expect_err("it was not asked for");
        assert!(matches!(&error, NbdError::Remote { .. }), "{error}");
        assert!(error.to_string().contains("allow"), "{error}");
    }
    let allowed = NbdConfig {
        allow_remote: true,
        ..NbdConfig::new(NbdAddress::Tcp(SocketAddr::from(([0, 0, 0, 0], 0))))
    };
    start(&runtime, allowed).expect("it was asked for");
}

#[test]
fn a_taken_port_is_named() {
    let runtime = Runtime::new().expect("a runtime");
    let world = World::tcp();
    let NbdAddress::Tcp(address) = world.address() else {
        panic!("TCP");
    };
    assert_ne!(address.port(), 0, "the actual port");
    let error = start(&runtime, NbdConfig::new(NbdAddress::Tcp(*address)));
    let error = error.expect_err("the port is taken");
    assert!(matches!(&error, NbdError::Bind { .. }), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    let NbdError::Bind { source, .. } = error else {
        panic!("a refusal");
    };
    assert_eq!(source.kind(), io::ErrorKind::AddrInUse);
}
