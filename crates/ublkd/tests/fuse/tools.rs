//! Common uses of the file: file systems on a loop device, fio.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use raidcore::engine::Op;
use tempfile::TempDir;
use ublkd::front::fuse::Unmounted;

use crate::run::run;
use crate::world::{World, config, pattern};

/// A loop device and a mount of it, undone at the end, however the test ends.
struct Loop {
    device: String,
    mounted: Option<PathBuf>,
}

impl Loop {
    fn new(file: &Path) -> Self {
        let control = Path::new("/dev/loop-control").exists();
        assert!(control, "no /dev/loop-control: `modprobe loop` (CONFIG_BLK_DEV_LOOP)");
        let options = ["--direct-io=on", "--sector-size=4096", "--find", "--show"];
        let device = run(Command::new("losetup").args(options).arg(file), "util-linux");
        Self { device: device.trim().to_owned(), mounted: None }
    }

    /// Whether the kernel took direct I/O, and the logical block size.
    fn properties(&self) -> String {
        let query = ["-n", "-O", "DIO,LOG-SEC", "--raw", &self.device];
        run(Command::new("losetup").args(query), "util-linux")
    }

    fn mount(&mut self, dir: &Path) {
        run(Command::new("mount").arg(&self.device).arg(dir), "mount");
        self.mounted = Some(dir.to_owned());
    }

    fn unmount(&mut self) {
        if let Some(dir) = self.mounted.take() {
            run(Command::new("umount").arg(dir), "mount");
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Some(dir) = self.mounted.take() {
            Command::new("umount").arg(dir).status().ok();
        }
        Command::new("losetup").args(["-d", &self.device]).status().ok();
    }
}

/// Makes a file system on a loop device, fills it, and checks it after it was unmounted.
fn file_system(package: &str, make: &[&str], check: &[&str]) {
    let mut world = World::new(config(90_000));
    let mut device = Loop::new(&world.path());
    assert_eq!(device.properties().trim(), "1 4096");
    run(Command::new(make[0]).args(&make[1..]).arg(&device.device), package);
    let dir: TempDir = tempfile::tempdir().expect("a temporary directory");
    device.mount(dir.path());
    let content = |file: u64| pattern(file, 1 + file * file);
    for file in 0..40 {
        fs::write(dir.path().join(file.to_string()), content(file)).expect("a file");
    }
    for file in 0..10 {
        fs::remove_file(dir.path().join(file.to_string())).expect("the file goes");
    }
    let before = world.count(Op::Discard);
    run(Command::new("fstrim").arg(dir.path()), "util-linux");
    assert!(world.count(Op::Discard) > before, "what is free is discarded");
    device.unmount();
    assert!(world.count(Op::Flush) > 0, "an unmount flushes");
    run(Command::new(check[0]).args(&check[1..]).arg(&device.device), package);
    device.mount(dir.path());
    for file in 10..40 {
        let back = fs::read(dir.path().join(file.to_string())).expect("the file");
        assert!(back == content(file), "file {file}");
    }
    device.unmount();
    drop(device);
    assert_eq!(world.unmount(), Unmounted::Clean);
}

#[test]
fn ext4_lives_on_a_loop_device() {
    file_system("e2fsprogs", &["mkfs.ext4", "-q", "-F"], &["fsck.ext4", "-f", "-n"]);
}

#[test]
fn xfs_lives_on_a_loop_device() {
    file_system("xfsprogs", &["mkfs.xfs", "-q", "-f"], &["xfs_repair", "-n"]);
}

fn fio(file: &Path) {
    run(
        Command::new("fio")
            .args(["--name=verify", "--direct=1", "--ioengine=libaio", "--iodepth=32"])
            .args(["--rw=randrw", "--bsrange=4k-128k", "--size=48m", "--fsync=64"])
            .args([
                "--verify=crc32c",
                "--verify_fatal=1",
                "--randseed=1",
                "--eta=never",
                "--verify_state_save=0",
            ])
            .arg(format!("--filename={}", file.display())),
        "fio",
    );
}

#[test]
fn fio_reads_from_the_file_what_it_wrote() {
    let world = World::new(config(48 << 8));
    fio(&world.path());
    assert!(world.count(Op::Flush) > 0);
}

#[test]
fn fio_reads_from_a_loop_device_what_it_wrote() {
    let world = World::new(config(48 << 8));
    let device = Loop::new(&world.path());
    fio(Path::new(&device.device));
    assert!(world.count(Op::Write) > 0);
}
