//! Creating arrays on real files, and attaching them again.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use raidcore::geometry::Level;
use raidcore::meta::{
    ArrayRecord, AssembleError, AssembleOptions, Consistency, SUPERBLOCKS, SlotState, Warning,
};
use raidcore::units::BLOCK_BYTES;
use tempfile::TempDir;
use ublkd::attach::{AttachError, Wanted, attach, examine};
use ublkd::create::{CreateConfig, CreateError, CreateNote, StagingError, StagingSize, create};
use ublkd::members::{Device, OpenError, OpenOptions};
use ublkd::signature::Signature;

const MIB: u64 = 1 << 20;

/// Sparse files, of these sizes in MiB.
fn files(sizes: &[u64]) -> (TempDir, Vec<PathBuf>) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let paths = sizes.iter().enumerate().map(|(index, mib)| {
        let path = dir.path().join(format!("m{index}"));
        let file = File::create(&path).expect("a file");
        file.set_len(mib * MIB).expect("a sparse file");
        path
    });
    let paths = paths.collect();
    (dir, paths)
}

fn raid5(paths: &[PathBuf]) -> CreateConfig {
    CreateConfig::new("tank", Level::Raid5, paths.to_vec())
}

fn strictly(paths: &[PathBuf]) -> Result<ublkd::attach::Attached, AttachError> {
    attach(paths, AssembleOptions::default())
}

fn contents(paths: &[PathBuf]) -> Vec<Vec<u8>> {
    let read = |path: &PathBuf| fs::read(path).expect("it can be read");
    paths.iter().map(read).collect()
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).expect("the file");
    file.write_all_at(bytes, at).expect("it can be written");
}

fn superblock(copy: usize) -> u64 {
    SUPERBLOCKS[copy].0 * BLOCK_BYTES as u64
}

/// Changes the record of a member and writes it to all copies.
fn rewrite(path: &Path, change: impl FnOnce(&mut ArrayRecord)) {
    let superblock_of = examine(path).expect("a file").superblock.expect("a member");
    let (mut record, device) = (superblock_of.record, superblock_of.device);
    change(&mut record);
    let mut block = vec![0; BLOCK_BYTES];
    record.encode(device, &mut block);
    for copy in 0..SUPERBLOCKS.len() {
        overwrite(path, superblock(copy), &block);
    }
}

#[test]
fn what_is_left_to_the_members_is_given_back_to_them() {
    let capacity = |spare| {
        let (_dir, paths) = files(&[64; 3]);
        for path in &paths {
            let file = File::options().write(true).open(path).expect("the file");
            (0..64)
                .for_each(|at| file.write_all_at(&[7; MIB as usize], at * MIB).expect("a write"));
        }
        let config = CreateConfig { spare, force: true, ..raid5(&paths) };
        let record = create(&config).expect("it is created").record;
        let used = record.blocks_of(raidcore::units::MemberId(0)) * BLOCK_BYTES as u64;
        let tail = fs::read(&paths[0]).expect("it can be read").split_off(used as usize);
        assert!(tail.iter().all(|&byte| byte == 0), "{spare}: all of it was discarded");
        assert!(tail.len() as u64 >= 64 * MIB * u64::from(spare) / 1000, "{spare}: {}", tail.len());
        record.geometry.capacity() as f64
    };
    let (all, most) = (capacity(0), capacity(250));
    assert!(
        (0.70..0.75).contains(&(most / all)),
        "{most} of {all}: metadata takes as much of less"
    );
}

#[test]
fn every_level_and_consistency_is_found_again_as_it_was_created() {
    for level in Level::ALL {
        for consistency in [Consistency::Resync, Consistency::Bitmap, Consistency::Journal] {
            let (_dir, paths) = files(&[32; 4]);
            let mut config = CreateConfig::new("a-1.b_2", level, paths.clone());
            config.consistency = consistency;
            let created = create(&config).expect("it is created");
            assert_eq!((created.needs_resync, created.notes.len()), (false, 0));
            let attached = strictly(&paths).expect("it is attached");
            let assembled = &attached.groups[0].assembled;
            assert_eq!(assembled.record, created.record);
            assert_eq!(assembled.warnings, []);
            assert!(assembled.was_clean && assembled.replay.is_empty());
            assert_eq!((assembled.bitmap.count(), assembled.zero_map.count()), (0, 0));
            let found: Vec<_> =
                attached.groups[0].devices.iter().flatten().map(Device::path).collect();
            assert_eq!(found, paths);
        }
    }
}

/// What the smallest member has no room for, no member has.
#[test]
fn all_members_of_pairs_hold_as_much() {
    let (_dir, paths) = files(&[32, 48, 33, 40]);
    let created = create(&CreateConfig::new("tank", Level::Raid10, paths.clone()));
    let created = created.expect("it is created");
    let geometry = created.record.geometry;
    let blocks: Vec<_> = geometry.member_set().map(|member| geometry.blocks_of(member)).collect();
    assert_eq!(blocks, [blocks[0]; 4]);
    assert_eq!(geometry.capacity(), 2 * blocks[0]);
    let attached = strictly(&paths).expect("it is attached");
    assert_eq!(attached.groups[0].assembled.warnings, []);
}

#[test]
fn members_stay_sparse_unless_their_space_is_reserved() {
    for preallocate in [false, true] {
        let (_dir, paths) = files(&[64; 3]);
        let mut config = raid5(&paths);
        config.preallocate = preallocate;
        create(&config).expect("it is created");
        for path in &paths {
            let used = fs::metadata(path).expect("the file").blocks() * 512;
            assert_eq!(used > 32 * MIB, preallocate, "{used} bytes");
        }
    }
}

#[test]
fn old_content_is_gone_when_it_was_overwritten_by_force() {
    let (_dir, paths) = files(&[32; 3]);
    for path in &paths {
        let noise: Vec<u8> = (0..32 * MIB).map(|i| (i * 7 + i / 251) as u8 | 1).collect();
        fs::write(path, noise).expect("noise");
    }
    overwrite(&paths[0], 0, b"XFSB");
    let before = contents(&paths);
    let refused = create(&raid5(&paths));
    let error = refused.expect_err("one is occupied").to_string();
    assert!(error.contains("carries an XFS filesystem; --force"), "{error}");
    assert!(error.contains("/m0 "), "{error}");
    assert_eq!(contents(&paths), before);

    let mut config = raid5(&paths);
    config.force = true;
    let created = create(&config).expect("by force");
    let note = created.notes.first().map(ToString::to_string);
    assert!(note.is_some_and(|note| note.contains("overwrote an XFS filesystem")));
    let data = created.record.areas.data_start().0 as usize * BLOCK_BYTES;
    for content in contents(&paths) {
        assert!(content[data..].iter().all(|&byte| byte == 0), "zeros are their own parity");
    }
    assert!(!created.needs_resync);
}

#[test]
fn the_smallest_member_rules() {
    let (_dir, paths) = files(&[32, 40, 36]);
    let created = create(&raid5(&paths)).expect("it is created");
    let unused = (8 + 4) * MIB / BLOCK_BYTES as u64;
    let expected = CreateNote::SmallestRules {
        path: paths[0].clone(),
        blocks: 32 * MIB / BLOCK_BYTES as u64,
        unused,
    };
    assert_eq!(created.notes, [expected]);
    assert!(created.record.areas.member_blocks() * BLOCK_BYTES as u64 <= 32 * MIB);
    strictly(&paths).expect("it is attached");
}

/// Its thresholds are a block of each plane, whatever they are, in a file as small as a test's.
const COARSE: &str = r#"
name = "coarse"
[geometry]
channels = 2
chips = 2
dies = 1
planes = 1
blocks = 1024
pages = 64
page_bytes = 4096
[nand]
read_us = 40
program_us = 200
erase_us = 2000
[ftl]
spare = 0.25
[gc]
start = 0.02
hard = 0.01
"#;

#[test]
fn a_modelled_ssd_that_is_too_small_for_its_profile_is_told() {
    let (dir, paths) = files(&[32, 32, 32]);
    let profile = dir.path().join("coarse.toml");
    fs::write(&profile, COARSE).expect("it can be written");
    let name = format!("flash:{}:{}", profile.display(), paths[0].display());
    let members = [name.into(), paths[1].clone(), paths[2].clone()];
    let created = create(&raid5(&members)).expect("it is created");
    let notes: Vec<_> = created.notes.iter().map(ToString::to_string).collect();
    let told = |words: &str| notes.iter().filter(|note| note.contains(words)).count();
    assert_eq!(told("gc.hard and gc.start are the same, 1; a larger file"), 1, "{notes:?}");
}

#[test]
fn what_can_not_be_is_refused_and_nothing_changes() {
    let (dir, paths) = files(&[32, 32, 32, 1]);
    let before = contents(&paths);
    let three = &paths[..3];
    let with = |change: fn(&mut CreateConfig)| {
        let mut config = raid5(three);
        change(&mut config);
        create(&config).expect_err("it can't be").to_string()
    };
    assert!(with(|c| c.name = "a/b".into()).contains("can't be an array's name"));
    assert!(with(|c| c.name = "-a".into()).contains("can't be an array's name"));
    assert!(with(|c| c.name = "x".repeat(64)).contains("can't be an array's name"));
    assert!(with(|c| c.chunk = 3).contains("power of two"));
    assert!(with(|c| c.paths.truncate(2)).contains("3 to 32 members, not 2"));
    assert!(with(|c| c.level = Level::Raid6).contains("4 to 32 members, not 3"));
    assert!(with(|c| c.paths[1] = c.paths[0].clone()).contains("are the same device"));
    assert!(with(|c| c.paths[1] = "/dev/null".into()).contains("neither a regular file"));
    assert!(with(|c| c.member_blocks = Some(300)).contains("needs at least"));
    assert!(with(|c| c.spare = 1000).contains("needs at least"));
    let many = raid5(&vec![paths[0].clone(); 33]);
    let error = create(&many).expect_err("too many").to_string();
    assert!(error.contains("not 33"), "{error}");

    let small = create(&raid5(&[&paths[..2], &paths[3..]].concat()));
    assert!(matches!(small, Err(CreateError::Layout(_))), "{small:?}");
    let link = dir.path().join("link");
    fs::hard_link(&paths[0], &link).expect("a link");
    let linked = create(&raid5(&[&paths[..2], &[link]].concat()));
    let refused = matches!(linked, Err(CreateError::Open(OpenError::InUse { .. })));
    assert!(refused, "{linked:?}");
    let absent = create(&raid5(&[&paths[..2], &[dir.path().join("absent")]].concat()));
    assert!(matches!(absent, Err(CreateError::Missing { .. })), "{absent:?}");
    assert_eq!(contents(&paths), before);
}

#[test]
fn files_are_made_if_asked_for_and_only_if_all_is_well() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let paths: Vec<PathBuf> = (0..3).map(|i| dir.path().join(format!("new{i}"))).collect();
    let mut config = raid5(&paths);
    config.file_blocks = Some(10);
    assert!(matches!(create(&config), Err(CreateError::Layout(_))));
    assert!(paths.iter().all(|path| !path.exists()));
    config.file_blocks = Some(32 * MIB / BLOCK_BYTES as u64);
    create(&config).expect("it is created");
    assert_eq!(fs::metadata(&paths[2]).expect("it is there").len(), 32 * MIB);
    strictly(&paths).expect("it is attached");

    let mut config = raid5(&[paths[0].clone(), paths[1].clone(), dir.path().join("no/dir")]);
    config.file_blocks = Some(32 * MIB / BLOCK_BYTES as u64);
    config.force = true;
    let before = contents(&paths);
    assert!(matches!(create(&config), Err(CreateError::Io { .. })));
    assert_eq!(contents(&paths), before);
}

#[test]
fn an_existing_array_is_not_overwritten() {
    let (_dir, paths) = files(&[32; 3]);
    create(&raid5(&paths)).expect("it is created");
    let before = contents(&paths);
    let error = create(&raid5(&paths)).expect_err("they are taken").to_string();
    assert!(error.contains("a member of the Evenkeel array \"tank\""), "{error}");
    let attached = strictly(&paths).expect("it is attached");
    let error = create(&raid5(&paths)).expect_err("they are in use").to_string();
    assert!(error.contains("is in use"), "{error}");
    drop(attached);
    assert_eq!(contents(&paths), before);
}

#[test]
fn an_attached_array_is_attached_once() {
    let (_dir, paths) = files(&[32; 3]);
    create(&raid5(&paths)).expect("it is created");
    let first = strictly(&paths).expect("it is attached");
    let second = strictly(&paths);
    let in_use = matches!(second, Err(AttachError::Open(OpenError::InUse { .. })));
    assert!(in_use, "{second:?}");
    drop(first);
    strictly(&paths).expect("it is free again");
}

#[test]
fn members_are_found_by_the_name_of_their_array() {
    let (dir, paths) = files(&[32; 7]);
    create(&raid5(&paths[..3])).expect("it is created");
    let mut other = raid5(&paths[3..6]);
    other.name = "other".into();
    create(&other).expect("it is created");
    let places = [dir.path().to_path_buf()];
    let find = |name: &str, places: &[_]| {
        ublkd::attach::find(&Wanted::named(name), places).map(|found| found.paths)
    };
    assert_eq!(find("tank", &places).expect("it is found"), &paths[..3]);
    assert_eq!(find("other", &paths).expect("it is found"), &paths[3..6]);
    assert!(matches!(find("none", &places), Err(AttachError::NotFound { .. })));
    other.name = "tank".into();
    other.force = true;
    create(&other).expect("it is created");
    assert!(matches!(find("tank", &places), Err(AttachError::Ambiguous { .. })));
    let nowhere = [dir.path().join("absent")];
    assert!(matches!(find("tank", &nowhere), Err(AttachError::NotFound { .. })));
}

#[test]
fn a_member_of_another_array_is_named() {
    let (_dir, paths) = files(&[32; 6]);
    create(&raid5(&paths[..3])).expect("it is created");
    create(&raid5(&paths[3..])).expect("it is created");
    let mixed = [&paths[..2], &paths[5..]].concat();
    let error = strictly(&mixed).expect_err("they don't belong together").to_string();
    assert!(error.contains("/m5 belongs to the array"), "{error}");
}

#[test]
fn a_stale_member_is_left_out() {
    let (_dir, paths) = files(&[32; 3]);
    create(&raid5(&paths)).expect("it is created");
    for path in &paths[..2] {
        rewrite(path, |record| record.events = 9);
    }
    let error = strictly(&paths).expect_err("one is missing").to_string();
    assert!(error.contains("/m2: it missed changes (event 1, the array is at 9)"), "{error}");
    let degraded = AssembleOptions { degraded: true, ..AssembleOptions::default() };
    let attached = attach(&paths, degraded).expect("it is attached without the stale one");
    assert!(attached.groups[0].devices[2].is_none());
    assert_eq!(attached.groups[0].assembled.stale, [2]);
    let open = Device::open(&paths[2], OpenOptions::default());
    open.expect("what is left out is closed");
}

#[test]
fn superblocks_are_believed_by_quorum() {
    let (_dir, paths) = files(&[32; 3]);
    let created = create(&raid5(&paths)).expect("it is created");
    overwrite(&paths[0], superblock(0) + 100, &[0xff; 8]);
    overwrite(&paths[0], superblock(3), &[0; BLOCK_BYTES]);
    let attached = strictly(&paths).expect("two copies are a quorum");
    assert_eq!(attached.groups[0].assembled.record, created.record);
    drop(attached);
    assert_eq!(examine(&paths[0]).expect("a file").intact_copies, 2);
    overwrite(&paths[0], superblock(1) + 4000, &[1]);
    match strictly(&paths) {
        Err(AttachError::Assemble(AssembleError::Incomplete { missing, left_out })) => {
            assert_eq!(missing.len(), 1);
            assert!(matches!(&left_out[..], [Warning::Damaged { valid: 1, .. }]));
        }
        other => panic!("{other:?}"),
    }
    for copy in 0..4 {
        overwrite(&paths[0], superblock(copy), &[0; BLOCK_BYTES]);
    }
    let error = strictly(&paths).expect_err("it is no member").to_string();
    assert!(error.contains("/m0: it is not a member"), "{error}");
}

#[test]
fn a_truncated_member_is_refused_whatever_is_left_of_it() {
    for left in [32 * MIB - 4096, 5 * MIB, 800 << 10, 4096, 100, 0] {
        let (_dir, paths) = files(&[32; 3]);
        create(&raid5(&paths)).expect("it is created");
        let file = File::options().write(true).open(&paths[1]).expect("the file");
        file.set_len(left).expect("it is truncated");
        let error = strictly(&paths).expect_err("it is too short").to_string();
        assert!(error.contains("/m1"), "{left} bytes: {error}");
    }
}

#[test]
fn unknown_features_are_refused() {
    let (_dir, paths) = files(&[32; 3]);
    create(&raid5(&paths)).expect("it is created");
    rewrite(&paths[0], |record| record.features.incompatible = 1 << 40);
    let error = strictly(&paths).expect_err("it is of a later release").to_string();
    assert!(error.contains("/m0") && error.contains("use a later release"), "{error}");
}

#[test]
fn a_failed_member_is_not_taken_back() {
    let (_dir, paths) = files(&[32; 3]);
    create(&raid5(&paths)).expect("it is created");
    for path in &paths[..2] {
        rewrite(path, |record| {
            record.events += 1;
            record.slots[2].state = SlotState::Failed;
        });
    }
    let attached = strictly(&paths).expect("one failed member is within the redundancy");
    assert!(attached.groups[0].devices[2].is_none());
    let warning = attached.groups[0].assembled.warnings.first().map(ToString::to_string);
    assert!(warning.is_some_and(|warning| warning.contains("gone on without it")));
}

#[test]
fn what_other_tools_have_made_is_recognised() {
    let tools: [(&str, &[&str], &str); 7] = [
        ("mkfs.ext2", &["-F", "-q"], "an ext2 filesystem"),
        ("mkfs.ext3", &["-F", "-q"], "an ext3 filesystem"),
        ("mkfs.ext4", &["-F", "-q"], "an ext4 filesystem"),
        ("mkfs.xfs", &["-f", "-q"], "an XFS filesystem"),
        ("mkfs.btrfs", &["-f", "-q"], "a btrfs filesystem"),
        ("mkfs.vfat", &[], "a FAT filesystem"),
        ("mkswap", &["-q"], "swap space"),
    ];
    for (tool, arguments, expected) in tools {
        let (_dir, paths) = files(&[320]);
        let made = Command::new(tool).args(arguments).arg(&paths[0]).output();
        if !made.is_ok_and(|output| output.status.success()) {
            eprintln!("not checked: {tool} is not here");
            continue;
        }
        let device = Device::open(&paths[0], OpenOptions::default()).expect("it is opened");
        let found = Signature::find(&device).expect("it is read");
        assert_eq!(found.map(|s| s.to_string()).as_deref(), Some(expected));
    }
}

/// The result of creating an array on one changed member, without and with force.
fn over(change: impl FnOnce(&File)) -> (Result<(), String>, Vec<String>) {
    let (_dir, paths) = files(&[32, 32, 32]);
    change(&File::options().write(true).open(&paths[1]).expect("it is there"));
    let mut config = raid5(&paths);
    let plain = create(&config).map(drop).map_err(|error| error.to_string());
    config.force = true;
    let forced = create(&config).expect("force overwrites anything");
    (plain, forced.notes.iter().map(ToString::to_string).collect())
}

#[test]
fn what_only_blkid_knows_is_not_overwritten() {
    let intel = b"Intel Raid ISM Cfg Sig. 1.1.00";
    let (plain, notes) = over(|file| file.write_all_at(intel, (32 << 20) - 1024).unwrap());
    let refused = plain.expect_err("it is a member of an Intel RST array");
    assert!(refused.contains("carries content of the format \"isw_raid_member\""), "{refused}");
    assert!(notes.iter().any(|note| note.contains("overwrote content")), "{notes:?}");
}

#[test]
fn a_file_with_data_is_not_overwritten_and_one_of_zeros_is() {
    let (plain, _) = over(|file| file.write_all_at(&[0; 5000], 7 << 20).unwrap());
    plain.expect("zeros are nothing");
    let (plain, _) = over(|file| file.write_all_at(&[0, 1], 7 << 20).unwrap());
    let refused = plain.expect_err("a byte that is not zero");
    assert!(
        refused.contains("carries data of no known format; --force overwrites it"),
        "{refused}"
    );
}

#[test]
fn a_staging_log_has_what_is_asked_for() {
    let blocks = |size, member_blocks| {
        let (_dir, paths) = files(&[32, 40, 40, 40]);
        let mut config = raid5(&paths);
        (config.staging, config.member_blocks) = (Some(size), member_blocks);
        let created = create(&config)?;
        assert_eq!(strictly(&paths).expect("it is attached").record().clone(), created.record);
        Ok::<u64, CreateError>(created.record.areas.staging().1)
    };
    assert_eq!(blocks(StagingSize::Blocks(100), None).ok(), Some(100));
    assert_eq!(blocks(StagingSize::Percent(25), None).ok(), Some(2048), "of the smallest");
    assert_eq!(blocks(StagingSize::Percent(25), Some(6000)).ok(), Some(1500), "of what is used");
    let refused = blocks(StagingSize::Blocks(63), None);
    assert!(matches!(refused, Err(CreateError::Staging(StagingError::Size(63)))), "{refused:?}");
}
