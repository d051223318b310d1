//! Arrays on real files, through what front ends and operators use.

mod array;
mod control;
mod metrics;
mod signals;
mod volatile;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use array::{Client, Files, MEMBER_BLOCKS, uuid};
use raidcore::engine::{
    ArrayHealth, Command, CommandError, Config, IoError, Mismatches, Note, Op, PassEnd, PassKind,
    RequestError,
};
use raidcore::geometry::Level;
use raidcore::meta::{Consistency, SlotState};
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba, MemberId};
use ublkd::host::{Happened, HostConfig, HostError, HostHandle, Notes};
use ublkd::members::{Device, OpenError, OpenOptions};
use ublkd::volume::{Buffer, Edges, Port, Submit, Volume};

fn config() -> HostConfig {
    HostConfig {
        engine: Config {
            tags: 32,
            jobs: 64,
            background_jobs: 8,
            scratch_blocks: 1024,
            quiesce_delay: Duration::from_millis(20),
            ..Config::default()
        },
        max_request_blocks: 64,
        ring_entries: 32,
        ..HostConfig::default()
    }
}

fn await_note(notes: &mut Notes, wanted: impl Fn(&Note) -> bool) -> Note {
    loop {
        let event = notes.next_blocking().expect("the array runs");
        if let Happened::Array { note, .. } = event.what
            && wanted(&note)
        {
            return note;
        }
    }
}

/// Scrubs to the end; returns what was found.
fn scrub(handle: &HostHandle, notes: &mut Notes, repair: bool) -> Mismatches {
    handle.command(Command::Scrub { repair }).wait().unwrap();
    let scrub = PassKind::Scrub { repair };
    await_note(notes, |n| *n == Note::PassEnded(scrub, PassEnd::Done));
    let last = handle.status().wait().unwrap().last_scrub.unwrap();
    Mismatches { rows: last.rows, located: last.located }
}

fn open(path: &std::path::Path) -> Device {
    Device::open(path, OpenOptions::default()).unwrap()
}

#[test]
fn what_is_written_is_read_on_every_level() {
    let levels = [
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid4, 4),
        (Level::Raid5, 5),
        (Level::Raid6, 6),
        (Level::Raid10, 6),
    ];
    for (level, members) in levels {
        let files = Files::create(level, members, Consistency::Journal);
        let (volume, handle) = files.start(config(), false);
        let mut client = Client::new(volume, 1);
        client.churn(600);
        client.verify();
        client.churn(20);
        client.settle();
        handle.stop().wait().unwrap();
        let (assembled, _) = files.assemble(false);
        assert!(assembled.was_clean && assembled.bitmap.count() == 0, "{level:?}");

        let (volume, _handle) = files.start(config(), false);
        client = client.moved_to(volume);
        client.verify();
    }
}

#[test]
fn what_was_acknowledged_is_in_the_journal_whether_it_is_small_or_large() {
    let mut config = config();
    // So that the journal keeps its entries.
    config.engine.quiesce_delay = Duration::from_secs(3600);
    for blocks in 1..=5 {
        let files = Files::create(Level::Raid5, 3, Consistency::Journal);
        let (volume, handle) = files.start(config, false);
        let mut buffer = volume.buffer_blocking();
        let (bytes, _) = buffer.as_chunks_mut::<BLOCK_BYTES>();
        (1..).zip(bytes).for_each(|(byte, block)| block.fill(byte));
        let write = Submit { op: Op::Write, lba: Lba(0), blocks, fua: false, edges: Edges::NONE };
        assert_eq!(ended(&volume, write, buffer), Ok(()));
        // The state after a power failure.
        let left = files.copy();
        handle.stop().wait().unwrap();

        let (assembled, devices) = left.assemble(false);
        let [entry] = &assembled.replay[..] else { panic!("{:?}", assembled.replay) };
        let written = entry.runs.iter().map(|run| run.to.blocks).sum::<u32>();
        // Of one chunk's blocks the entry has partial parity: that of the other member's zeros. Of more
        // than one it has data and parity.
        let mut home = match blocks {
            1..=4 => vec![0; blocks as usize],
            _ => vec![1, 2, 3, 4, 5, 1 ^ 5, 2, 3, 4],
        };
        assert_eq!(entry.left_out.is_some(), blocks <= 4, "{blocks} blocks");
        assert_eq!(written as usize, home.len(), "{blocks} blocks");
        for &(member, at) in &entry.copies {
            let device = devices[member.index()].as_ref().unwrap();
            let mut payload = vec![0; written as usize * BLOCK_BYTES];
            device.read_at(at, &mut payload).unwrap();
            let (payload, _) = payload.as_chunks::<BLOCK_BYTES>();
            let mut held: Vec<_> = payload.iter().map(|block| block[0]).collect();
            assert!(payload.iter().all(|block| *block == [block[0]; BLOCK_BYTES]));
            held.sort_unstable();
            home.sort_unstable();
            assert_eq!(held, home);
        }
    }
}

#[test]
fn a_member_fails_and_a_spare_takes_its_place() {
    for (level, consistency) in [
        (Level::Raid5, Consistency::Journal),
        (Level::Raid6, Consistency::Bitmap),
        (Level::Raid1, Consistency::Resync),
    ] {
        let mut files = Files::create(level, 5, consistency);
        let (volume, handle) = files.start(config(), false);
        let mut notes = handle.notes();
        let mut client = Client::new(volume, 2);
        client.churn(300);
        let failed = handle.command(Command::Fail(MemberId(2)));
        client.churn(300);
        failed.wait().unwrap();
        let lost = await_note(&mut notes, |n| matches!(n, Note::MemberFailed { .. }));
        let (member, device) = (MemberId(2), DeviceId(2));
        let why = None;
        assert_eq!(lost, Note::MemberFailed { member, device, why });
        assert_eq!(handle.device_path(device).as_deref(), Some(&*files.members[2]));
        client.verify();
        let status = handle.status().wait().unwrap();
        assert_eq!(status.health, ArrayHealth::Degraded);
        assert_eq!(status.members[2].state, SlotState::Failed);

        let path = files.spare("spare");
        client.churn(20);
        let spare = handle.add_device(open(&path), uuid(9)).wait().unwrap();
        client.churn(300);
        let rebuild = PassKind::Rebuild(member);
        await_note(&mut notes, |n| *n == Note::PassEnded(rebuild, PassEnd::Done));
        client.churn(100);
        client.verify();
        let status = handle.status().wait().unwrap();
        assert_eq!(status.health, ArrayHealth::Online);
        assert_eq!(status.members[2].device, Some(spare));
        handle.stop().wait().unwrap();

        // The former member was released, so it can be opened, but not as part of this array.
        drop(open(&files.members[2]));
        files.members[2] = path;
        let (volume, handle) = files.start(config(), false);
        client = client.moved_to(volume);
        // It serves from now on.
        client.flush();
        let found = scrub(&handle, &mut handle.notes(), false);
        assert_eq!(found, Mismatches::default(), "{level:?}");
        handle.command(Command::Fail(MemberId(0))).wait().unwrap();
        client.verify();
    }
}

#[test]
fn a_member_that_serves_is_copied_to_its_successor_under_load() {
    for (level, consistency) in [
        (Level::Raid0, Consistency::Resync),
        (Level::Raid1, Consistency::Bitmap),
        (Level::Raid5, Consistency::Journal),
    ] {
        let mut files = Files::create(level, 4, consistency);
        let (volume, handle) = files.start(config(), false);
        let mut notes = handle.notes();
        let mut client = Client::new(volume, 2);
        client.churn(300);
        let path = files.spare("spare");
        let spare = handle.add_device(open(&path), uuid(9)).wait().unwrap();
        let member = MemberId(2);
        let replaced = handle.command(Command::Replace { member, spare });
        client.churn(300);
        replaced.wait().unwrap();
        let note = await_note(&mut notes, |n| matches!(n, Note::MemberReplaced { .. }));
        assert_eq!(note, Note::MemberReplaced { member, device: spare, old: DeviceId(2) });
        client.churn(100);
        client.verify();
        let status = handle.status().wait().unwrap();
        assert_eq!((status.health, status.successor), (ArrayHealth::Online, None));
        handle.stop().wait().unwrap();

        files.members[2] = path;
        let (volume, handle) = files.start(config(), false);
        client = client.moved_to(volume);
        client.verify();
        handle.stop().wait().unwrap();
    }
}

#[test]
fn what_a_member_makes_up_is_put_right_where_redundancy_tells() {
    for (level, members) in [(Level::Raid6, 5), (Level::Raid1, 3)] {
        let files = Files::create(level, members, Consistency::Journal);
        let start = files.assemble(false).0.record.areas.data_start().0;
        let (volume, handle) = files.start(config(), false);
        let mut client = Client::new(volume, 6);
        client.churn(600);
        client.verify();
        client.flush();
        // Single bytes, and all the rest of one member.
        let spoil = |member: usize, from: u64, to: u64, byte: u8| {
            let file = File::options().write(true).open(&files.members[member]).unwrap();
            for block in start + from..start + to {
                file.write_all_at(&[byte], block * BLOCK_BYTES as u64 + block % 4000).unwrap();
            }
        };
        spoil(0, 0, 30, 0x11);
        spoil(2, 30, 31, 0x22);
        spoil(1, 40, MEMBER_BLOCKS - start, 0x33);
        let mut notes = handle.notes();
        let found = scrub(&handle, &mut notes, true);
        assert!(found.rows > 200 && found.located == found.rows, "{level:?}: {found:?}");
        assert_eq!(scrub(&handle, &mut notes, false), Mismatches::default(), "{level:?}");
        client.verify();
        handle.command(Command::Fail(MemberId(0))).wait().unwrap();
        client.verify();
    }
}

#[test]
fn a_file_that_shrinks_is_a_lost_member() {
    let files = Files::create(Level::Raid5, 3, Consistency::Journal);
    let (volume, handle) = files.start(config(), false);
    let mut notes = handle.notes();
    let mut client = Client::new(volume, 3);
    client.churn(300);
    client.flush();
    let file = File::options().write(true).open(&files.members[1]).unwrap();
    file.set_len(MEMBER_BLOCKS / 2 * BLOCK_BYTES as u64).unwrap();
    client.verify();
    let lost = await_note(&mut notes, |n| matches!(n, Note::MemberFailed { .. }));
    let (member, device) = (MemberId(1), DeviceId(1));
    let why = Some(IoError::Shrunk);
    assert_eq!(lost, Note::MemberFailed { member, device, why });
    client.churn(300);
    client.verify();
}

#[test]
fn a_device_that_is_refused_is_closed() {
    let files = Files::create(Level::Raid5, 3, Consistency::Bitmap);
    let (volume, handle) = files.start(config(), false);
    // It serves from now on.
    Client::new(volume, 5).flush();
    let path = files.dir.path().join("small");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let refused = handle.add_device(open(&path), uuid(9)).wait();
    let small =
        matches!(refused, Err(HostError::Refused(CommandError::TooSmall { have: 256, .. })));
    assert!(small, "{refused:?}");
    drop(open(&path));

    let path = files.spare("spare");
    let spare = handle.add_device(open(&path), uuid(9)).wait().unwrap();
    let again = Device::open(&path, OpenOptions::default());
    assert!(matches!(again, Err(OpenError::InUse { .. })));
    handle.command(Command::Remove(spare)).wait().unwrap();
    drop(open(&path));
    handle.report_gone(DeviceId(0));
    let status = handle.status().wait().unwrap();
    assert_eq!(status.members[0].state, SlotState::Failed);
}

#[test]
fn a_stop_is_told_to_everybody_and_ends_service() {
    let files = Files::create(Level::Raid5, 3, Consistency::Journal);
    let (volume, handle) = files.start(config(), false);
    let mut notes = handle.notes();
    let join = handle.join();
    let stops = [handle.stop(), handle.clone().stop()];
    for stop in stops {
        stop.wait().unwrap();
    }
    join.wait().unwrap();
    handle.stop().wait().unwrap();
    assert!(matches!(handle.status().wait(), Err(HostError::Ended)));
    assert_eq!(outcome(&volume), Err(RequestError::Stopping));
    assert_eq!(notes.next_blocking(), None);
}

#[test]
fn an_array_without_a_handle_stops() {
    let files = Files::create(Level::Raid5, 3, Consistency::Journal);
    let (volume, handle) = files.start(config(), false);
    let mut notes = handle.notes();
    let mut client = Client::new(volume, 4);
    client.churn(100);
    client.settle();
    drop(handle);
    while notes.next_blocking().is_some() {}
    let (assembled, devices) = files.assemble(false);
    assert!(assembled.was_clean && devices.iter().all(Option::is_some));
}

#[test]
fn a_front_end_that_panics_takes_the_array_down_and_nobody_waits_for_ever() {
    struct Panics;
    impl Port for Panics {
        fn completed(&self, _: u64, _: Buffer, _: Result<(), RequestError>) {
            panic!("a front end panics, as this test wants");
        }
    }
    let files = Files::create(Level::Raid5, 3, Consistency::Journal);
    let (volume, handle) = files.start(config(), false);
    let panics: Arc<dyn Port> = Arc::new(Panics);
    let join = handle.join();
    let (sender, inbox) = channel();
    let port: Arc<dyn Port> = Arc::new(Tells(Mutex::new(sender)));
    let requests = 20;
    for cookie in 0..requests {
        let port = if cookie == 5 { &panics } else { &port };
        volume.submit(port, cookie, read(cookie), volume.buffer_blocking());
    }
    assert_eq!(inbox.iter().take(requests as usize - 1).count(), 19);
    assert!(matches!(join.wait(), Err(HostError::Died)));
    assert!(matches!(handle.stop().wait(), Err(HostError::Died)));
    assert_eq!(outcome(&volume), Err(RequestError::Stopping));
}

struct Tells(Mutex<Sender<Result<(), RequestError>>>);

impl Port for Tells {
    fn completed(&self, _: u64, _: Buffer, result: Result<(), RequestError>) {
        // The receiver may be gone.
        let _ = self.0.lock().unwrap().send(result);
    }
}

fn read(lba: u64) -> Submit {
    Submit { op: Op::Read, lba: Lba(lba), blocks: 1, fua: false, edges: Edges::NONE }
}

/// How a read ends.
fn outcome(volume: &Volume) -> Result<(), RequestError> {
    ended(volume, read(0), volume.buffer_blocking())
}

/// How a request ends.
fn ended(volume: &Volume, request: Submit, buffer: Buffer) -> Result<(), RequestError> {
    let (sender, inbox) = channel();
    let port: Arc<dyn Port> = Arc::new(Tells(Mutex::new(sender)));
    volume.submit(&port, 0, request, buffer);
    inbox.recv().unwrap()
}
