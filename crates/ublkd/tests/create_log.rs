//! Creating log volumes on real files, and attaching them again.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use raidcore::engine::{Op, RequestError};
use raidcore::meta::{AssembleError, AssembleOptions, SUPERBLOCKS, VolumePart};
use raidcore::units::{BLOCK_BYTES, Lba};
use raidlog::RecoveryError;
use tempfile::TempDir;
use ublkd::attach::{AttachError, Attached, Wanted, attach, examine, find};
use ublkd::create::{
    CreateConfig, CreateError, CreatedLog, LogConfig, VOLUME_MEMBERS_MAX, create, create_log,
};
use ublkd::host::{Begin, Host, HostConfig, HostError, HostHandle};
use ublkd::volume::{Buffer, Edges, Port, Submit, Volume};

const MIB: u64 = 1 << 20;

/// Sparse files of so many MiB.
fn files(count: usize, mib: u64) -> (TempDir, Vec<PathBuf>) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let paths = (0..count).map(|index| {
        let path = dir.path().join(format!("m{index:02}"));
        let file = File::create(&path).expect("a file");
        file.set_len(mib * MIB).expect("a sparse file");
        path
    });
    let paths = paths.collect();
    (dir, paths)
}

/// With segments of 64 KiB.
fn config(layout: &str, paths: &[PathBuf]) -> LogConfig {
    let layout = layout.parse().expect("a layout");
    LogConfig { segment: 16, ..LogConfig::new("log", layout, paths.to_vec()) }
}

fn created(layout: &str, paths: &[PathBuf]) -> CreatedLog {
    create_log(&config(layout, paths)).expect("it is created")
}

fn strictly(paths: &[PathBuf]) -> Result<Attached, AttachError> {
    attach(paths, AssembleOptions::default())
}

fn open(paths: &[PathBuf]) -> (Volume, HostHandle) {
    let attached = strictly(paths).expect("it is attached");
    let host = HostConfig { register_memory: false, ..HostConfig::default() };
    Host::spawn_log(host, attached.groups, Begin::Open).expect("it is started")
}

/// How a request ended, and its buffer.
type Ended = (Result<(), RequestError>, Vec<u8>);

/// Asks, and waits for the end.
fn ask(volume: &Volume, op: Op, (lba, blocks): (u64, u32), fill: u8) -> Ended {
    struct Waiter(Mutex<Sender<Ended>>);
    impl Port for Waiter {
        fn completed(&self, _: u64, buffer: Buffer, result: Result<(), RequestError>) {
            let sender = self.0.lock().expect("no panic");
            sender.send((result, buffer.to_vec())).expect("somebody waits");
        }
    }
    let (sender, ended) = channel();
    let port: Arc<dyn Port> = Arc::new(Waiter(Mutex::new(sender)));
    let mut buffer = volume.buffer_blocking();
    buffer.fill(fill);
    let request = Submit { op, lba: Lba(lba), blocks, fua: op == Op::Write, edges: Edges::NONE };
    volume.submit(&port, 0, request, buffer);
    ended.recv().expect("it ends")
}

/// The first bytes of all blocks.
fn contents(volume: &Volume) -> Vec<u8> {
    let blocks = |lba: u64| (volume.blocks() - lba).min(64) as u32;
    let firsts = (0..volume.blocks()).step_by(64).flat_map(|lba| {
        let (result, bytes) = ask(volume, Op::Read, (lba, blocks(lba)), 0xff);
        assert_eq!(result, Ok(()));
        let bytes = bytes.into_iter().step_by(BLOCK_BYTES).take(blocks(lba) as usize);
        bytes.collect::<Vec<u8>>()
    });
    firsts.collect()
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).expect("the file");
    file.write_all_at(bytes, at).expect("it can be written");
}

#[test]
fn every_layout_is_found_again_as_it_was_created() {
    for (layout, members) in [
        ("log-raid0", 3),
        ("log-raid4", 3),
        ("log-raid5", 3),
        ("log-raid6", 4),
        ("swan0:3x2", 6),
        ("swan4:2x3", 6),
        ("swan5:3x3", 9),
        ("swan6:2x4", 8),
    ] {
        let (_dir, mut paths) = files(members, 20);
        let created = created(layout, &paths);
        assert!(!created.needs_resync && created.notes.is_empty(), "{layout}");
        // In whatever order they are given.
        paths.reverse();
        let attached = strictly(&paths).expect(layout);
        assert!(attached.is_log());
        let groups = attached.groups.iter().zip(&created.records);
        for (group, record) in groups {
            assert_eq!(group.assembled.record.array, record.array, "{layout}");
            assert_eq!(group.assembled.record.volume, record.volume, "{layout}");
            assert!(group.assembled.was_clean && group.assembled.warnings.is_empty(), "{layout}");
            assert!(group.devices.iter().all(Option::is_some), "{layout}");
        }
        drop(attached);
        let (volume, host) = open(&paths);
        assert_eq!(volume.blocks(), created.shape.capacity(), "{layout}");
        assert!(contents(&volume).iter().all(|&byte| byte == 0), "{layout}");
        let blocks = volume.blocks();
        for (lba, byte) in [(0, 1), (blocks / 2, 2), (blocks - 1, 3)] {
            assert_eq!(ask(&volume, Op::Write, (lba, 1), byte).0, Ok(()), "{layout}");
        }
        let before = contents(&volume);
        host.stop().wait().expect(layout);
        let (volume, host) = open(&paths);
        assert_eq!(contents(&volume), before, "{layout}");
        assert_eq!((before[0], before[blocks as usize - 1]), (1, 3), "{layout}");
        host.stop().wait().expect(layout);
    }
}

#[test]
fn what_can_not_be_a_log_volume_changes_nothing() {
    let (_dir, paths) = files(9, 20);
    let refused = |config: LogConfig| create_log(&config).expect_err("it can't be");
    let wrong = refused(config("swan5:3x4", &paths)).to_string();
    assert_eq!(wrong, "swan5:3x4 takes 12 members, not 9");
    let wrong = refused(config("swan5:9x1", &paths));
    assert!(matches!(wrong, CreateError::Layout(_)), "{wrong}");
    let spare = LogConfig { spare: 10, ..config("swan5:3x3", &paths) };
    assert!(matches!(refused(spare), CreateError::Volume(_)));
    let small =
        LogConfig { segment: 1024, member_blocks: Some(3200), ..config("swan5:3x3", &paths) };
    let wrong = refused(small).to_string();
    assert!(wrong.contains("use larger groups"), "{wrong}");
    let segment = LogConfig { segment: 1 << 20, ..config("swan5:3x3", &paths) };
    assert!(matches!(refused(segment), CreateError::Volume(_)));
    let many: Vec<PathBuf> = (0..=VOLUME_MEMBERS_MAX).map(|n| format!("/n/{n}").into()).collect();
    let wrong = refused(config("log-raid5", &many)).to_string();
    assert!(wrong.contains(&format!("at most {VOLUME_MEMBERS_MAX} members, not")), "{wrong}");
    let zeros = |path: &PathBuf| fs::read(path).expect("the file").iter().all(|&byte| byte == 0);
    assert!(paths.iter().all(zeros));
}

#[test]
fn a_group_can_do_without_members_but_the_volume_without_no_group() {
    let (_dir, paths) = files(6, 20);
    created("swan5:2x3", &paths);
    let one_of_each: Vec<PathBuf> =
        paths.iter().enumerate().filter(|(at, _)| at % 3 != 1).map(|(_, p)| p.clone()).collect();
    let strict = strictly(&one_of_each).expect_err("two are missing");
    assert!(matches!(strict, AttachError::Assemble(AssembleError::Incomplete { .. })), "{strict}");
    let degraded = AssembleOptions { degraded: true, force: false };
    let attached = attach(&one_of_each, degraded).expect("each group can do without one");
    let gaps = |group: usize| attached.groups[group].devices.iter().filter(|d| d.is_none()).count();
    assert_eq!((gaps(0), gaps(1)), (1, 1));
    drop(attached);
    for missing in [0..3, 3..6] {
        let group = missing.start as u8 / 3;
        let rest = paths.iter().enumerate().filter(|(at, _)| !missing.contains(at));
        let rest: Vec<PathBuf> = rest.map(|(_, path)| path.clone()).collect();
        let error = attach(&rest, degraded).expect_err("a group is missing");
        assert!(
            matches!(error, AttachError::GroupMissing { group: g, groups: 2, .. } if g == group),
            "{error}"
        );
    }
}

#[test]
fn what_is_no_part_of_the_volume_is_refused() {
    let (dir, paths) = files(6, 20);
    created("swan5:2x3", &paths);
    let (other_dir, others) = files(6, 20);
    created("swan5:2x3", &others);
    let mixed: Vec<PathBuf> = paths[..3].iter().chain(&others[3..]).cloned().collect();
    let error = strictly(&mixed).expect_err("two volumes");
    assert!(
        matches!(&error, AttachError::OtherVolume { path, .. } if *path == others[3]),
        "{error}"
    );

    let (array_dir, array) = files(3, 20);
    create(&CreateConfig::new("log", raidcore::geometry::Level::Raid5, array.clone()))
        .expect("an array of the same name");
    let mixed: Vec<PathBuf> = paths.iter().chain(&array[..1]).cloned().collect();
    let error = strictly(&mixed).expect_err("an array's member");
    assert!(matches!(error, AttachError::OtherVolume { .. }), "{error}");

    let all = |name: &str, dirs: &[&TempDir]| {
        let dirs: Vec<PathBuf> = dirs.iter().map(|dir| dir.path().to_path_buf()).collect();
        find(&Wanted::named(name), &dirs).map(|found| found.paths)
    };
    let found = all("log", &[&dir]).expect("its members");
    assert_eq!(found, paths);
    for others in [&other_dir, &array_dir] {
        let error = all("log", &[&dir, others]).expect_err("two of that name");
        assert!(matches!(error, AttachError::Ambiguous { .. }), "{error}");
    }
}

/// Changes the volume in a member's superblocks.
fn rewrite(path: &Path, change: impl FnOnce(&mut VolumePart)) {
    let superblock = examine(path).expect("a file").superblock.expect("a member");
    let (mut record, device) = (superblock.record, superblock.device);
    change(record.volume.as_mut().expect("a part of a volume"));
    let mut block = vec![0; BLOCK_BYTES];
    record.encode(device, &mut block);
    SUPERBLOCKS.iter().for_each(|at| overwrite(path, at.0 * BLOCK_BYTES as u64, &block));
}

#[test]
fn superblocks_that_contradict_each_other_or_the_volume_are_refused() {
    let (_dir, paths) = files(6, 20);
    created("swan5:2x3", &paths);
    paths[3..].iter().for_each(|path| rewrite(path, |part| part.blocks -= 1));
    let error = strictly(&paths).expect_err("they disagree");
    assert!(matches!(error, AttachError::Disagree { group: 1, .. }), "{error}");
    // All agree, but on another volume.
    paths[..3].iter().for_each(|path| rewrite(path, |part| part.blocks -= 1));
    let (volume, host) = open(&paths);
    // Requests from before its end fail with another error than later ones.
    let result = ask(&volume, Op::Read, (0, 1), 0).0;
    assert!(matches!(result, Err(RequestError::Io | RequestError::Stopping)), "{result:?}");
    assert!(matches!(host.join().wait(), Err(HostError::Died)));
    assert_eq!(ask(&volume, Op::Read, (0, 1), 0).0, Err(RequestError::Stopping));
    assert!(matches!(host.stop().wait(), Err(HostError::Died)));
}

/// The state after a crash during creation: the arrays are there, the volume is not.
#[test]
fn groups_without_a_volume_are_told_and_nobody_is_served() {
    let (_dir, paths) = files(6, 20);
    let created = created("swan5:2x3", &paths);
    let start = created.records[0].areas.data_start().0 * BLOCK_BYTES as u64;
    let zeros = vec![0; 4 << 20];
    paths.iter().for_each(|path| overwrite(path, start, &zeros));
    let (volume, host) = open(&paths);
    let (result, _) = ask(&volume, Op::Read, (0, 1), 0);
    assert_eq!(result, Err(RequestError::Io));
    assert_eq!(host.lost(), Some(RecoveryError::NoVolume));
    host.stop().wait().expect("its arrays stop");
}

/// An older volume's blocks on devices that can't zero themselves are never taken for the new
/// volume's, however often they were written.
#[test]
fn an_older_volume_on_the_same_devices_does_not_come_back() {
    let (_dir, paths) = files(6, 20);
    let created_first = created("swan5:2x3", &paths);
    for _ in 0..3 {
        let (volume, host) = open(&paths);
        assert_eq!(ask(&volume, Op::Write, (7, 1), 0xaa).0, Ok(()));
        host.stop().wait().expect("it stops");
    }
    // Creating punches holes into files, which devices may not support: the old content is put
    // back.
    let start = created_first.records[0].areas.data_start().0 as usize * BLOCK_BYTES;
    let left = paths.iter().map(|path| fs::read(path).expect("the file")).collect::<Vec<_>>();
    let forced = LogConfig { force: true, ..config("swan5:2x3", &paths) };
    create_log(&forced).expect("it is created anew");
    let zeros = vec![0; left[0].len() - start];
    for (path, left) in paths.iter().zip(&left) {
        // The new volume is removed, as after a crash before it was created.
        overwrite(path, start as u64, &zeros);
        overwrite(path, start as u64, &left[start..]);
    }
    let (volume, host) = open(&paths);
    assert_eq!(ask(&volume, Op::Read, (7, 1), 0).0, Err(RequestError::Io));
    assert_eq!(host.lost(), Some(RecoveryError::NoVolume));
    host.stop().wait().expect("its arrays stop");
}

#[test]
fn a_member_says_of_which_volume_it_is() {
    let (_dir, paths) = files(6, 20);
    let created = created("swan5:2x3", &paths);
    for (at, path) in paths.iter().enumerate() {
        let record = examine(path).expect("a file").superblock.expect("a member").record;
        let part = record.volume.expect("a part of a volume");
        assert_eq!((usize::from(part.group), part.groups), (at / 3, 2));
        assert_eq!(part.blocks, created.shape.capacity());
        assert_eq!(record.name, "log");
    }
    // A quorum of its superblocks has to agree.
    let zeros = vec![0; BLOCK_BYTES];
    SUPERBLOCKS[..3].iter().for_each(|at| overwrite(&paths[0], at.0 * BLOCK_BYTES as u64, &zeros));
    assert!(examine(&paths[0]).expect("a file").superblock.is_err());
    let error = strictly(&paths).expect_err("it counts as missing").to_string();
    assert!(error.contains("m00"), "{error}");
}
