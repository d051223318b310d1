//! Faults of members while the array serves; users must not notice.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::nbd::Nbd;
use crate::tools::{Mount, pattern, run, wait_for};
use crate::world::{MIB, World};

const IMAGE: usize = 100 * MIB as usize;

fn image(world: &World, seed: u64) -> PathBuf {
    let path = world.path(&format!("image{seed}"));
    fs::write(&path, pattern(seed, IMAGE)).expect("a file");
    path
}

fn truncate(path: &Path, bytes: u64) {
    let file = File::options().write(true).open(path).expect("the file");
    file.set_len(bytes).expect("it is truncated");
}

/// It goes on without the member, reports that and what to do, and is whole again with a new one.
fn goes_on_without(world: &mut World, member: usize, path: &str, why: &str) {
    let status = world.status();
    assert_eq!(status["health"], "degraded", "{status:#}");
    assert_eq!(status["members"][member]["state"], "failed", "{status:#}");
    let problem = &status["problems"][0];
    let what = problem["what"].as_str().expect("words");
    assert!(what.starts_with(&format!("member {member} is out of service (")), "{what}");
    let action = problem["action"].as_str().expect("words");
    assert!(action.contains(&format!("evenkeel disk replace tank {member}")), "{action}");
    world.assert_event(&[&format!("member {member}"), path, "out of service", why]);
    world.assert_no_errors();

    let image = image(world, 2);
    world.copy_in(&image);
    world.compare(&image);
    world.file("new", 96 * MIB);
    world.evenkeel(&format!("disk replace tank {member} new --wait"));
    world.compare(&image);
    world.assert_sound();
    world.stop();
}

#[test]
fn a_member_file_that_is_truncated() {
    let mut world = World::new("raid5", 4, 96).started();
    let image = image(&world, 1);
    world.copy_in(&image);
    truncate(&world.path("m1"), 12 * MIB);
    world.compare(&image);
    goes_on_without(&mut world, 1, "/m1", "smaller than it was");
}

#[test]
fn a_file_system_that_is_full() {
    let mut world = World::empty();
    let dir = world.path("small");
    let _small = Mount::new("-t tmpfs -o size=24m none", &dir);
    world = world.with_array("--level raid5 --file-size 96M", "m0 m1 small/m2 m3").started();
    let image = image(&world, 1);
    world.copy_in(&image);
    world.compare(&image);
    goes_on_without(&mut world, 2, "/small/m2", "space");
}

/// One of them can be missing; then the other can't.
#[test]
fn a_file_system_that_is_full_under_two_members() {
    let mut world = World::empty();
    let dir = world.path("small");
    let _small = Mount::new("-t tmpfs -o size=24m none", &dir);
    let members = "m0 m1 small/m2 small/m3";
    world = world.with_array("--level raid5 --file-size 48M", members);
    world.evenkeel(&format!("start --background {members}"));
    let mut nbd = world.nbd();
    let chunk = vec![7; MIB as usize];
    let refused = (0..100).find(|at| nbd.write(at * MIB, &chunk, false).is_err());
    let kept = refused.expect("it is full") * MIB;
    let ended = world.try_evenkeel("status tank");
    assert_eq!(ended.code, Some(5), "{}", ended.stdout);
    assert!(!ended.stdout.contains("cables"), "{}", ended.stdout);
    let status = world.status();
    assert_eq!(status["health"], "failed", "{status:#}");
    let action = status["problems"][0]["action"].as_str().expect("words");
    assert!(action.starts_with("make room"), "{action}");
    assert!(action.ends_with("by itself then"), "{action}");

    run("mount", &format!("mount -o remount,size=300m {}", dir.display()));
    wait_for("the array takes writes", || (world.status()["health"] == "degraded").then_some(()));
    world.assert_event(&["writes are taken again"]);
    let holds = |nbd: &mut Nbd, end: u64| {
        for at in (0..end).step_by(MIB as usize) {
            assert!(nbd.read(at, MIB as u32).expect("it is read") == chunk, "at {at}");
        }
    };
    holds(&mut nbd, kept);
    (0..100).for_each(|at| nbd.write(at * MIB, &chunk, false).expect("there is room"));
    assert_eq!(world.status()["torn_stripes"], 0, "what was refused is written");
    drop(nbd);
    world.evenkeel("restart tank");
    holds(&mut world.nbd(), 100 * MIB);
    world.evenkeel("stop tank");
}

/// The member is the file of another array, which fails.
#[test]
fn a_member_that_refuses_everything() {
    let mut inner = World::new("raid5", 3, 64).started();
    let mut world = World::empty();
    let member = inner.fuse().display().to_string();
    let members = format!("m0 m1 m2 {member}");
    for name in ["m0", "m1", "m2"] {
        world.file(name, 96 * MIB);
    }
    world = world.with_array("--level raid5", &members).started();
    let image = image(&world, 1);
    world.copy_in(&image);
    for name in ["m0", "m1"] {
        truncate(&inner.path(name), 0);
    }
    world.compare(&image);
    world.copy_in(&image);
    assert_eq!(inner.status()["health"], "failed");
    goes_on_without(&mut world, 3, &member, "failed to read or write");
    inner.kill();
}

/// A file system that is frozen until this is dropped.
struct Frozen<'a>(&'a Path);

impl<'a> Frozen<'a> {
    fn new(dir: &'a Path) -> Self {
        run("util-linux", &format!("fsfreeze --freeze {}", dir.display()));
        Self(dir)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        Command::new("fsfreeze").arg("--unfreeze").arg(self.0).status().ok();
    }
}

#[test]
fn a_member_comes_back_only_when_all_that_it_was_asked_has_ended() {
    let mut world = World::empty();
    let behind = world.file("behind", 300 * MIB);
    run("e2fsprogs", &format!("mkfs.ext4 -q {}", behind.display()));
    let dir = world.path("slow");
    let mounted = Mount::new(&format!("-o loop {}", behind.display()), &dir);
    world = world.with_array("--level raid5 --file-size 96M", "m0 m1 m2 slow/m3");
    world.start("--io-timeout 5s");
    let frozen = Frozen::new(&dir);
    let image = image(&world, 1);
    world.copy_in(&image);
    world.assert_event(&["member 3", "out of service", "does not answer"]);
    let add = "disk add tank slow/m3";
    world.try_evenkeel(add).refused(&["slow/m3", "has not ended all", "when that has ended"]);
    drop(frozen);
    let back = wait_for("it has ended", || {
        let ended = world.try_evenkeel(add);
        (ended.code == Some(0)).then_some(ended.stdout)
    });
    assert!(back.contains("slow/m3 is back as member 3 of tank"), "{back}");
    world.evenkeel("rebuild status tank --wait");
    world.compare(&image);
    world.assert_sound();
    world.stop();
    mounted.unmount();
}

/// The new disk is the file of another array, which is frozen.
#[test]
fn a_new_disk_that_does_not_answer_is_waited_for_by_nobody_else() {
    let inner = World::new("raid5", 3, 96).started();
    let silent = inner.fuse().display().to_string();
    let mut world = World::new("raid6", 5, 96);
    world.start("--io-timeout 1h");
    inner.freeze();
    let adding = world.spawn_evenkeel(&format!("disk add tank {silent}"));
    let opened = |world: &World| world.log().contains(&format!("{silent} is opened"));
    wait_for("the new disk is opened", || opened(&world).then_some(()));
    for name in ["new0", "new1"] {
        world.file(name, 96 * MIB);
    }
    world.evenkeel("disk replace tank 1 new0 --wait");
    world.evenkeel("disk add tank new1");
    world.evenkeel("disk remove tank new1");
    assert_eq!(world.status()["spares"].as_array().map(Vec::len), Some(0));
    inner.thaw();
    assert!(adding.wait(), "it answers: it is a spare");
    world.evenkeel(&format!("disk remove tank {silent}"));
    world.stop();

    world.set_members("m0 new0 m2 m3 m4");
    world.start("--io-timeout 5s");
    inner.freeze();
    let replace = format!("disk replace tank 0 {silent} --force --wait");
    world.try_evenkeel(&replace).refused(&[&silent, "does not answer", "in 5 s", "check"]);
    assert_eq!(world.status()["health"], "online");
    inner.thaw();
    wait_for("the disk is let go, and can be had", || {
        (world.try_evenkeel(&replace).code == Some(0)).then_some(())
    });
    world.assert_sound();
    world.stop();
}

/// The member is on a file system that knows by its checksums which blocks have gone bad.
#[test]
fn a_member_with_unreadable_blocks() {
    let mut world = World::empty();
    let behind = world.file("behind", 300 * MIB);
    run("btrfs-progs", &format!("mkfs.btrfs -q {}", behind.display()));
    let dir = world.path("btrfs");
    let mounted = Mount::new(&format!("-o loop {}", behind.display()), &dir);
    world = world.with_array("--level raid5 --file-size 96M", "m0 btrfs/m1 m2 m3").started();
    let image = image(&world, 1);
    world.copy_in(&image);
    spoil(&world, &dir, &behind, &[0, 17, 18, 19, 1000, 2345, 8000]);
    world.compare(&image);
    world.assert_event(&["member 1", "unreadable blocks", "rewritten from redundancy"]);
    let status = world.status();
    assert_eq!(status["health"], "online", "what can be rewritten is no failure: {status:#}");
    let problem = &status["problems"][0];
    let what = problem["what"].as_str().expect("words");
    assert!(what.contains("btrfs/m1) had ") && what.contains("read and 0 write errors"), "{what}");
    assert!(problem["action"].as_str().expect("words").starts_with("check the device"));

    // This rewrites the redundancy, too. After it, everything can be read.
    world.assert_sound();
    let errors = |world: &World| world.status()["members"][1]["read_errors"].as_u64();
    let before = errors(&world);
    world.assert_sound();
    assert_eq!(errors(&world), before, "blocks that a scrub has not rewritten");
    world.compare(&image);
    world.stop();
    mounted.unmount();
}

/// Makes blocks of the member's data unreadable.
fn spoil(world: &World, dir: &Path, behind: &Path, blocks: &[usize]) {
    run("coreutils", &format!("sync --file-system {}", dir.display()));
    let examined = world.examine("btrfs/m1");
    let offset = examined["array"]["data_offset_bytes"].as_u64().expect("an offset") as usize;
    let member = fs::read(dir.join("m1")).expect("the member");
    let disk = fs::read(behind).expect("the disk");
    let file = File::options().write(true).open(behind).expect("the disk");
    for block in blocks {
        let content = &member[offset + block * 4096..][..4096];
        let place = disk.chunks(4096).position(|found| found == content);
        let place = place.unwrap_or_else(|| panic!("block {block} is not on the disk"));
        file.write_all_at(&[content[0] ^ 1], place as u64 * 4096).expect("it is spoilt");
    }
}
