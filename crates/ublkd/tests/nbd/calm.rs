//! Clients that ask for one thing at a time, on the thread of an array.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use raidcore::geometry::{Level, Placement};
use raidcore::meta::{
    ArrayId, AssembleOptions, Consistency, DeviceUuid, JOURNAL_BLOCKS, MemberImage, NewArray,
    assemble,
};
use raidcore::units::{BLOCK_BYTES, Pba};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use ublkd::front::nbd::{NbdAddress, NbdConfig, NbdLimits, NbdServer};
use ublkd::host::{Host, HostConfig, HostHandle};
use ublkd::members::{Device, OpenOptions};
use ublkd::volume::Volume;

use crate::client::{
    BLOCK_STATUS, Client, DISCONNECT, EINVAL, ENOSPC, FLUSH, FUA, READ, TRIM, WRITE, header,
};
use crate::world::{BLOCK, pattern};

const MEMBER_BLOCKS: u64 = 8192;

/// More requests than it takes for a client to be calm.
const MANY: u64 = 20;

/// The same for one that has often been calm and something else.
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
        // It does nothing unless it is driven.
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (volume, host) = start(dir.path());
        let address = NbdAddress::Unix(dir.path().join("nbd.sock"));
        let config = NbdConfig { limits, ..NbdConfig::new(address) };
        let server = runtime.block_on(NbdServer::start_at(volume, &host, config));
        Self { server: Some(server.expect("a server")), host, runtime, dir }
    }

    /// While clients do this, the server's own thread works.
    fn beside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let done = self.runtime.spawn_blocking(work);
        self.runtime.block_on(done).expect("no panic")
    }

    fn calm_client(&self, structured: bool) -> Client {
        let path = self.dir.path().join("nbd.sock");
        self.beside(move || {
            let stream = UnixStream::connect(path).expect("a server");
            let mut client = Client::new(stream).ready(structured);
            calm_down(&mut client, MANY);
            client
        })
    }

    fn stop(&mut self) {
        let server = self.server.take().expect("it was not stopped before");
        self.runtime.block_on(server.stop());
    }
}

fn calm_down(client: &mut Client, requests: u64) {
    for _ in 0..requests {
        assert_eq!(client.read(0, 0, 4096).error, 0);
    }
}

/// A RAID0 of two files.
fn start(dir: &Path) -> (Volume, HostHandle) {
    let new = NewArray {
        array: ArrayId([7; 16]),
        name: "tank".into(),
        created: 0,
        level: Level::Raid0,
        placement: Placement::of(Level::Raid0),
        chunk: 4,
        consistency: Consistency::Resync,
        devices: vec![DeviceUuid([1; 16]), DeviceUuid([2; 16])],
        journal_blocks: JOURNAL_BLOCKS,
        staging_blocks: 0,
        staging_devices: Vec::new(),
        staging_device_blocks: 0,
        distributed_spare: false,
        member_blocks: vec![MEMBER_BLOCKS; 2],
    };
    let record = new.record().expect("an array");
    let mut devices = Vec::new();
    let mut images = Vec::new();
    for (number, slot) in record.slots.iter().enumerate() {
        let path = dir.join(format!("member{number}"));
        let file = File::create(&path).expect("a file");
        file.set_len(MEMBER_BLOCKS * BLOCK_BYTES as u64).expect("a size");
        let device = Device::open(&path, OpenOptions::default()).expect("a device");
        for (at, block) in record.new_maps(false).chain(record.superblocks(slot.device)) {
            device.write_at(at, &block).expect("a write");
        }
        images.push(image(&device));
        devices.push(Some(device));
    }
    let assembled = assemble(&images, AssembleOptions::default()).expect("an array");
    Host::spawn(HostConfig::default(), assembled, devices).expect("a host")
}

fn image(device: &Device) -> MemberImage {
    let mut meta = vec![0; 3072 * BLOCK_BYTES];
    device.read_at(Pba(0), &mut meta).expect("a read");
    MemberImage {
        label: device.path().display().to_string(),
        blocks: device.blocks(),
        meta,
        unreadable: Vec::new(),
    }
}

#[test]
fn a_calm_client_is_served_while_the_servers_own_thread_does_nothing() {
    let array = Array::new(NbdLimits::default());
    for structured in [true, false] {
        let mut client = array.calm_client(structured);
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

#[test]
fn a_client_that_is_calm_no_more_is_served_as_any_other() {
    let array = Array::new(NbdLimits::default());
    for structured in [true, false] {
        let mut client = array.calm_client(structured);
        array.beside(move || {
            let mut requests = MANY;
            let mut calm_again = |client: &mut Client| {
                requests = (2 * requests).min(MOST);
                calm_down(client, requests);
            };
            let data = pattern(7, 600);
            assert_eq!(client.write(0, 0, &data), 0, "more than it may have there");
            calm_again(&mut client);
            let range = (33 * BLOCK, 8 * 4096);
            let requests = |from: u64| {
                (from..from + 30).flat_map(|name| header(READ, 0, name, range.0, range.1))
            };
            for from in [1000, 2000] {
                let handles: Vec<u64> = (from..from + 30).collect();
                client.send(&requests(from).collect::<Vec<_>>());
                let all = client.outcomes(&handles, range.0, range.1);
                assert!(all.iter().all(|one| one.error == 0 && one.data == pattern(40, 8)));
                calm_again(&mut client);
            }
            assert_eq!(client.read(0, 1, 4096).error, EINVAL, "no block");
            calm_again(&mut client);
            let end = (1 << 40) - BLOCK;
            assert_eq!(client.write(0, end, &pattern(0, 1)), ENOSPC, "past the end");
            calm_again(&mut client);
            assert_eq!(client.command(TRIM, 0, 0, 4096), 0);
            calm_again(&mut client);
            if structured {
                client.request(BLOCK_STATUS, 0, 0, 4096);
                client.chunk();
                calm_again(&mut client);
            }
            assert!(client.read(0, 0, 600 * 4096).data[4096..] == data[4096..]);
            calm_again(&mut client);
            client.send(&header(READ, 0, 1, 0, 0)[..20]);
            client.send(&header(READ, 0, 1, 0, 0)[20..]);
            assert_eq!(client.outcome(1, 0, 0).error, 0, "of no bytes");
            calm_again(&mut client);
            client.request(DISCONNECT, 0, 0, 0);
            assert_eq!(client.rest(), b"");
        });
    }
}

#[test]
fn a_client_that_comes_back_is_calm_after_twice_as_many_requests() {
    let array = Array::new(NbdLimits::default());
    let mut client = array.calm_client(true);
    for requests in [2 * MANY, 4 * MANY, 8 * MANY] {
        client = array.beside(move || {
            assert_eq!(client.write(0, 0, &pattern(7, 600)), 0, "more than it may have there");
            calm_down(&mut client, requests);
            client
        });
        assert_eq!(client.read(0, 0, 4096).error, 0, "the server's own thread does nothing");
    }
}

#[test]
fn a_calm_client_is_left_when_the_server_is_dropped_with_its_runtime() {
    let array = Array::new(NbdLimits::default());
    let mut client = array.calm_client(true);
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
fn all_are_served_however_many_are_calm() {
    let array = Array::new(NbdLimits::default());
    let mut clients: Vec<_> = (0..9).map(|_| array.calm_client(true)).collect();
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
fn a_calm_client_that_makes_the_server_wait_is_cut_off() {
    let patience = Duration::from_millis(50);
    let array = Array::new(NbdLimits { patience, ..NbdLimits::default() });
    let mut idle = array.calm_client(true);
    for sent in [1, 28, 100] {
        let mut client = array.calm_client(true);
        let whole = [header(WRITE, 0, 1, 0, 4096), pattern(0, 1)].concat();
        client.send(&whole[..sent]);
        assert_eq!(array.beside(move || client.rest()), b"");
    }
    assert_eq!(idle.read(0, 0, 4096).error, 0, "it was idle for longer than that");
}

#[test]
fn calm_clients_leave_and_are_left() {
    let mut array = Array::new(NbdLimits::default());
    let mut client = array.calm_client(false);
    client.close_sending();
    assert_eq!(array.beside(move || client.rest()), b"");
    drop(array.calm_client(true));

    let mut client = array.calm_client(true);
    let data = pattern(1, 1);
    assert_eq!(client.write(0, 0, &data), 0);
    array.stop();
    assert_eq!(client.rest(), b"");
    array.host.stop().wait().expect("a clean stop");
}

#[test]
fn a_calm_client_of_an_array_that_ends_is_cut_off() {
    let array = Array::new(NbdLimits::default());
    let mut client = array.calm_client(true);
    array.host.stop().wait().expect("a clean stop");
    assert_eq!(array.beside(move || client.rest()), b"");
}
