//! Arrays with a write cache in memory.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use raidcore::engine::{Command, Op, RequestError};
use raidcore::geometry::Level;
use raidcore::meta::Consistency;
use raidcore::units::Lba;
use steering::scheme::Scheme;
use ublkd::host::{HostConfig, HostHandle};
use ublkd::volume::{Buffer, Edges, Port, Submit, Volume};

use super::array::{Client, Files};
use super::config;

/// Blocks of the cache: few, so that it is full most of the time.
const BLOCKS: u32 = 256;

fn cached(scheme: &str) -> HostConfig {
    let scheme = Scheme::named(scheme).expect("a scheme");
    // Nothing goes home by itself while there is room.
    let cache_linger = Duration::from_secs(3600);
    HostConfig { scheme, cache_blocks: BLOCKS, cache_linger, ..config() }
}

/// Starts it and waits until it serves: what is written before that goes past the cache.
fn serving(files: &Files) -> (Volume, HostHandle) {
    let (volume, handle) = files.start(cached("plain/volatile"), false);
    ask(&volume, Op::Flush, 0);
    (volume, handle)
}

fn held(handle: &HostHandle) -> u32 {
    handle.cache().wait().unwrap().expect("there is a cache").status.held
}

struct Gets(Mutex<Sender<(Buffer, Result<(), RequestError>)>>);

impl Port for Gets {
    fn completed(&self, _: u64, buffer: Buffer, result: Result<(), RequestError>) {
        self.0.lock().unwrap().send((buffer, result)).unwrap();
    }
}

/// Asks for something of block 5; returns the first byte of it afterwards.
fn ask(volume: &Volume, op: Op, byte: u8) -> u8 {
    let (sender, inbox) = channel();
    let port: Arc<dyn Port> = Arc::new(Gets(Mutex::new(sender)));
    let mut buffer = volume.buffer_blocking();
    buffer.fill(byte);
    let blocks = u32::from(op != Op::Flush);
    let request = Submit { op, lba: Lba(5), blocks, fua: false, edges: Edges::NONE };
    volume.submit(&port, 0, request, buffer);
    let (buffer, result) = inbox.recv().unwrap();
    assert_eq!(result, Ok(()), "{op:?}");
    buffer[0]
}

#[test]
fn what_is_in_memory_is_read_and_on_the_members_after_a_flush_or_a_stop() {
    let files = Files::create(Level::Raid5, 3, Consistency::Journal);
    let (volume, handle) = serving(&files);
    ask(&volume, Op::Write, 7);
    assert_eq!((ask(&volume, Op::Read, 0), held(&handle)), (7, 1));
    // What a process leaves behind that is killed now, and then.
    let killed = files.copy();
    ask(&volume, Op::Flush, 0);
    assert_eq!((ask(&volume, Op::Read, 0), held(&handle)), (7, 0));
    let killed_later = files.copy();
    ask(&volume, Op::Write, 8);
    assert_eq!(held(&handle), 1);
    handle.stop().wait().unwrap();
    for (files, clean, found) in [(killed, false, 0), (killed_later, false, 7), (files, true, 8)] {
        assert_eq!(files.assemble(false).0.was_clean, clean);
        let (volume, handle) = files.start(config(), false);
        assert_eq!(handle.cache().wait().unwrap(), None);
        assert_eq!(ask(&volume, Op::Read, 0), found);
        handle.stop().wait().unwrap();
    }
}

#[test]
fn what_is_written_is_read_whatever_the_order_in_which_it_goes_home() {
    for scheme in ["plain/volatile", "plain/vol:lrw", "plain/vol:wow-4"] {
        let files = Files::create(Level::Raid6, 5, Consistency::Journal);
        let (volume, handle) = files.start(cached(scheme), false);
        let mut client = Client::new(volume, 1);
        client.churn(1500);
        client.verify();
        client.churn(20);
        client.settle();
        let counters = handle.cache().wait().unwrap().expect("a cache").status.counters;
        assert!(counters.held_blocks > 0 && counters.home_blocks > 0, "{counters:?}");
        handle.stop().wait().unwrap();
        let (assembled, _) = files.assemble(false);
        assert!(assembled.was_clean && assembled.bitmap.count() == 0, "{scheme}");
        let (volume, _handle) = files.start(config(), false);
        client = client.moved_to(volume);
        client.verify();
    }
}

#[test]
fn a_cache_that_is_left_lets_writes_go_past() {
    let files = Files::create(Level::Raid5, 3, Consistency::Journal);
    let (volume, handle) = serving(&files);
    ask(&volume, Op::Write, 7);
    assert_eq!(held(&handle), 1);
    let holds = |holds| handle.command(Command::SetVolatile(holds)).wait().unwrap();
    holds(false);
    assert_eq!((ask(&volume, Op::Read, 0), held(&handle)), (7, 0));
    ask(&volume, Op::Write, 8);
    assert_eq!((ask(&volume, Op::Read, 0), held(&handle)), (8, 0));
    holds(true);
    ask(&volume, Op::Write, 9);
    assert_eq!((ask(&volume, Op::Read, 0), held(&handle)), (9, 1));
    assert!(files.copy().assemble(false).0.record.has_lost_writes(), "if it were killed now");
    handle.stop().wait().unwrap();
    assert!(!files.assemble(false).0.record.has_lost_writes());
}
