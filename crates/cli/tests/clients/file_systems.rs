//! File systems on a loop device on the file that FUSE shows.

use std::fs;
use std::path::Path;

use crate::condition::Condition;
use crate::tools::{Loop, Mount, assert_same, pattern, run};
use crate::world::World;

/// How a file system is made and checked.
struct FileSystem {
    package: &'static str,
    make: &'static str,
    check: &'static str,
    /// Runs while it is mounted.
    scrub: Option<&'static str>,
}

const EXT4: FileSystem = FileSystem {
    package: "e2fsprogs",
    make: "mkfs.ext4 -q -F",
    check: "fsck.ext4 -f -n",
    scrub: None,
};
const XFS: FileSystem =
    FileSystem { package: "xfsprogs", make: "mkfs.xfs -q -f", check: "xfs_repair -n", scrub: None };
const BTRFS: FileSystem = FileSystem {
    package: "btrfs-progs",
    make: "mkfs.btrfs -q -f",
    check: "btrfs check --readonly",
    scrub: Some("btrfs scrub start -B -R"),
};

impl FileSystem {
    /// Files are made before and while `condition` lasts, and are read back then and after it.
    fn lives_through(&self, condition: Condition) {
        self.lives_on(World::new("raid5", 4, 128), condition);
    }

    /// A log volume, with a member missing.
    fn lives_on_a_log(&self) {
        self.lives_on(World::of("--layout log-raid5 --segment 256K", 4, 160), Condition::Missing);
    }

    fn lives_on(&self, world: World, condition: Condition) {
        let mut world = world.started();
        let device = Loop::new(&world.fuse());
        let dir = world.path("files");
        let mount = || Mount::new(&device.device, &dir);
        run(self.package, &format!("{} {}", self.make, device.device));

        let mounted = mount();
        make(&dir, 0..30);
        condition.enter(&world);
        make(&dir, 30..60);
        for file in 0..10 {
            fs::remove_file(dir.join(file.to_string())).expect("the file goes");
        }
        mounted.unmount();
        self.check(&device.device);

        let mounted = mount();
        compare(&dir, 10..60);
        self.scrub(&dir);
        mounted.unmount();
        condition.leave(&world);

        self.check(&device.device);
        let mounted = mount();
        compare(&dir, 10..60);
        self.scrub(&dir);
        mounted.unmount();
        world.assert_no_errors();
        drop(device);
        world.stop();
    }

    fn check(&self, device: &str) {
        run(self.package, &format!("{} {device}", self.check));
    }

    fn scrub(&self, dir: &Path) {
        if let Some(scrub) = self.scrub {
            let print = run(self.package, &format!("{scrub} {}", dir.display()));
            for kind in ["csum_errors: 0", "read_errors: 0", "verify_errors: 0"] {
                assert!(print.contains(kind), "no `{kind}` in this: {print}");
            }
        }
    }
}

fn content(file: u64) -> Vec<u8> {
    let bytes = 1 + file * file * 300;
    pattern(file, bytes as usize)
}

fn make(dir: &Path, files: std::ops::Range<u64>) {
    for file in files {
        fs::write(dir.join(file.to_string()), content(file)).expect("the file is written");
    }
}

fn compare(dir: &Path, files: std::ops::Range<u64>) {
    for file in files {
        let found = fs::read(dir.join(file.to_string())).expect("the file is read");
        assert_same(&found, &content(file), &format!("file {file}"));
    }
}

#[test]
fn ext4_while_all_is_well() {
    EXT4.lives_through(Condition::Whole);
}

#[test]
fn ext4_while_a_member_is_missing() {
    EXT4.lives_through(Condition::Missing);
}

#[test]
fn ext4_while_a_member_is_rebuilt() {
    EXT4.lives_through(Condition::Rebuilding);
}

#[test]
fn xfs_while_all_is_well() {
    XFS.lives_through(Condition::Whole);
}

#[test]
fn xfs_while_a_member_is_missing() {
    XFS.lives_through(Condition::Missing);
}

#[test]
fn xfs_while_a_member_is_rebuilt() {
    XFS.lives_through(Condition::Rebuilding);
}

#[test]
fn btrfs_while_all_is_well() {
    BTRFS.lives_through(Condition::Whole);
}

#[test]
fn btrfs_while_a_member_is_missing() {
    BTRFS.lives_through(Condition::Missing);
}

#[test]
fn btrfs_while_a_member_is_rebuilt() {
    BTRFS.lives_through(Condition::Rebuilding);
}

#[test]
fn ext4_on_a_log_while_a_member_is_missing() {
    EXT4.lives_on_a_log();
}

#[test]
fn xfs_on_a_log_while_a_member_is_missing() {
    XFS.lives_on_a_log();
}

#[test]
fn btrfs_on_a_log_while_a_member_is_missing() {
    BTRFS.lives_on_a_log();
}
