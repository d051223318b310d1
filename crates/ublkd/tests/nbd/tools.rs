//! Common NBD clients.

use std::fs;
use std::path::Path;
use std::process::Command;

use raidcore::engine::Op;
use ublkd::front::nbd::NbdLimits;

use crate::run::run;
use crate::world::{World, config, pattern};

/// A file of the volume's size, with data and a hole.
fn image(path: &Path) -> Vec<u8> {
    let mut content = pattern(1, config().blocks);
    let hole = content.len() / 4..content.len() / 2;
    content[hole].fill(0);
    fs::write(path, &content).expect("a file");
    content
}

fn assert_holds(world: &World, content: &[u8]) {
    let memory = world.back_end.memory();
    for (lba, block) in (0..).zip(content.chunks(4096)) {
        let zeros = [0; 4096];
        let held = memory.blocks.get(&lba).map_or(&zeros[..], |held| held);
        assert!(held == block, "block {lba}");
    }
}

#[test]
fn nbdinfo_sees_the_export() {
    for world in [World::new(), World::tcp()] {
        let print =
            run(Command::new("nbdinfo").args(["--json", "--list", world.uri()]), "libnbd-bin");
        let json: serde_json::Value = serde_json::from_str(&print).expect("JSON");
        assert_eq!(json["protocol"], "newstyle-fixed");
        assert_eq!(json["structured"], true);
        let export = &json["exports"][0];
        assert_eq!(export["export-name"], "tank");
        assert_eq!(export["export-size"], config().blocks * 4096);
        assert_eq!(export["contexts"][0], "base:allocation");
        assert_eq!(export["block_size_minimum"], 4096);
        assert_eq!(export["block_size_preferred"], 16 * 4096);
        assert_eq!(export["block_size_maximum"], 32 << 20);
        for able in ["flush", "fua", "multi_conn", "trim", "zero", "fast_zero", "df"] {
            assert_eq!(export[format!("can_{able}")], true, "{able}");
        }
        assert_eq!(export["is_read_only"], false);
        let map =
            run(Command::new("nbdinfo").args(["--map", "--totals", world.uri()]), "libnbd-bin");
        assert!(map.contains("100.0%") && map.contains("data"), "{map}");
    }
}

#[test]
fn nbdcopy_copies_there_and_back() {
    for (world, more) in [
        (World::new(), &["--connections=4", "--flush"][..]),
        (World::tcp(), &["--synchronous", "--flush"]),
        (World::new(), &["--connections=1", "--requests=64", "--request-size=4194304"]),
    ] {
        let content = image(&world.path("there"));
        let nbdcopy = |from: &str, to: &str| {
            run(Command::new("nbdcopy").args(more).args([from, to]), "libnbd-bin");
        };
        let (there, back) = (world.path("there"), world.path("back"));
        let (there, back) = (there.display().to_string(), back.display().to_string());
        nbdcopy(&there, world.uri());
        assert_holds(&world, &content);
        nbdcopy(world.uri(), &back);
        assert!(fs::read(back).expect("the copy") == content, "{more:?}");
    }
}

#[test]
fn qemu_img_converts_there_and_back() {
    let world = World::new();
    let there = world.path("there");
    let content = image(&there);
    let back = world.path("back.qcow2");
    let qemu_img = |args: &[&str]| run(Command::new("qemu-img").args(args), "qemu-utils");
    let (there, back) = (there.display().to_string(), back.display().to_string());
    let raw = ["convert", "-n", "-W", "-f", "raw", "-O", "raw", &there, world.uri()];
    qemu_img(&raw);
    assert_holds(&world, &content);
    qemu_img(&["compare", "-f", "raw", "-F", "raw", &there, world.uri()]);
    qemu_img(&["convert", "-f", "raw", "-O", "qcow2", world.uri(), &back]);
    qemu_img(&["compare", "-f", "raw", "-F", "qcow2", &there, &back]);
    assert!(world.count(Op::Flush) > 0);
}

#[test]
fn qemu_io_does_each_command() {
    let world = World::new();
    let commands = [
        "write -P 0x11 0 1M",
        "write -f -P 0x22 1M 64k",
        "write -z 64k 64k",
        "write -z -u 128k 64k",
        "discard 192k 64k",
        "flush",
        "read -P 0x11 0 64k",
        "read -P 0 64k 192k",
        "read -P 0x11 256k 768k",
        "read -P 0x22 1M 64k",
        // qemu makes these fit the block size by itself.
        "write -P 0x33 512 1000",
        "read -P 0x33 512 1000",
        "read -P 0x11 0 512",
    ];
    let mut qemu_io = Command::new("qemu-io");
    qemu_io.args(["-f", "raw", world.uri()]);
    for command in commands {
        qemu_io.args(["-c", command]);
    }
    let print = run(&mut qemu_io, "qemu-utils");
    assert!(!print.contains("failed") && !print.contains("rror"), "{print}");
    for op in [Op::Discard, Op::WriteZeroes, Op::Flush] {
        assert!(world.count(op) > 0, "{op:?}");
    }
    assert!(world.log().iter().any(|request| request.fua));
}

#[test]
fn fio_reads_what_it_wrote() {
    let limits = NbdLimits { buffers: config().tags / 2, ..NbdLimits::default() };
    for world in [World::with(config(), limits), World::tcp()] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        run(
            Command::new("fio")
                .current_dir(dir.path())
                .args(["--name=verify", "--ioengine=nbd", "--iodepth=32"])
                .args(["--rw=randrw", "--bsrange=4k-512k", "--blockalign=4k", "--fsync=64"])
                .args(["--size=48m", "--verify=crc32c", "--verify_fatal=1"])
                .args(["--randseed=1", "--eta=never"])
                .arg(format!("--uri={}", world.uri())),
            "fio",
        );
        assert!(world.count(Op::Write) > 0 && world.count(Op::Flush) > 0);
    }
}
