//! The process is killed during writes, and the array is started again.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use serde_json::Value;

use crate::tools::{pattern, run, wait_for};
use crate::world::{Background, MIB, World};

/// Data that was acknowledged and flushed before the kill, from block 0 on.
const KEPT: usize = 8 * MIB as usize;
/// Where fio writes; only to every other block.
const BUSY: (u64, u64) = (16 * MIB, 16 * MIB);

/// Fills the first part durably, some of it by FUA and some by a flush, and the part where fio will
/// write.
pub(crate) fn prepare(world: &World) -> (Vec<u8>, Vec<u8>) {
    let (kept, busy) = (pattern(1, KEPT), pattern(2, BUSY.1 as usize));
    let piece = 256 << 10;
    let mut nbd = world.nbd();
    let pieces = |start: u64| (0u64..).map(move |i| start + i * piece as u64);
    for (at, piece) in pieces(BUSY.0).zip(busy.chunks(piece)) {
        assert_eq!(nbd.write(at, piece, false), Ok(()));
    }
    for (at, piece) in pieces(0).zip(kept.chunks(piece)) {
        let flushed = at < KEPT as u64 / 2;
        assert_eq!(nbd.write(at, piece, !flushed), Ok(()));
        if at + piece.len() as u64 == KEPT as u64 / 2 {
            assert_eq!(nbd.flush(), Ok(()));
        }
    }
    assert_eq!(nbd.flush(), Ok(()));
    (kept, busy)
}

fn requests(world: &World) -> u64 {
    world.status()["requests"]["completed"].as_u64().expect("a number")
}

/// Writes until it is ended.
fn fio(world: &World) -> Background {
    let place = format!("--offset={} --size={}", BUSY.0, BUSY.1);
    let what = "--rw=randwrite --bs=4k --blockalign=8k --iodepth=16 --norandommap";
    let end = "--time_based --runtime=600 --eta=never";
    let target = format!("--ioengine=nbd --uri={}", world.uri());
    world.spawn("fio", &format!("fio --name=writes {what} {place} {end} {target}"))
}

/// Kills the process when fio has written for a while.
pub(crate) fn kill_amid_writes(world: &mut World) {
    let before = requests(world);
    let fio = fio(world);
    wait_for("fio writes", || (requests(world) > before + 500).then_some(()));
    world.kill();
    assert!(!fio.wait(), "fio must have been in the middle of it");
}

/// All durable data is there, and no block that was not written has changed.
pub(crate) fn assert_kept(world: &World, (kept, busy): &(Vec<u8>, Vec<u8>)) {
    let back = world.path("back");
    run("libnbd-bin", &format!("nbdcopy {} {}", world.uri(), back.display()));
    let back = fs::read(back).expect("the copy");
    let (offset, length) = (BUSY.0 as usize, BUSY.1 as usize);
    let lost = |found: &[u8], wanted: &[u8], step: usize| {
        let blocks = found.chunks(4096).zip(wanted.chunks(4096)).enumerate();
        let lost =
            blocks.filter(|(block, (found, wanted))| block % step == step - 1 && found != wanted);
        lost.map(|(block, _)| block).collect::<Vec<_>>()
    };
    let none: Vec<usize> = Vec::new();
    assert_eq!(lost(&back[..KEPT], kept, 1), none, "blocks that had been flushed are lost");
    let found = &back[offset..offset + length];
    assert_eq!(lost(found, busy, 2), none, "neighbours of what was being written are damaged");
    let written = found.chunks(8192).zip(busy.chunks(8192));
    let written = written.filter(|(found, before)| found[..4096] != before[..4096]).count();
    assert!(written > 0, "fio has written something");
    let zeros = |range: &[u8]| range.iter().all(|&byte| byte == 0);
    assert!(zeros(&back[KEPT..offset]), "what nobody wrote has changed, before fio's place");
    assert!(zeros(&back[offset + length..]), "what nobody wrote has changed, after fio's place");
}

fn assert_only_dirty_regions(world: &World) {
    let status = world.status();
    let regions = |which: &str| status["dirty_regions"][which].as_u64().expect("a number");
    // A region is a stripe here, 192 KiB of users' data; some 24 MiB were written.
    let written = (KEPT as u64 + BUSY.1).div_ceil(192 << 10) + 2;
    assert!(regions("marked") <= written, "{written} regions were written: {status:#}");
    assert!(regions("total") > 4 * written, "{status:#}");
    world.assert_event(&["after an unclean stop", "journal"]);
}

#[test]
fn an_array_that_is_whole_resyncs_what_was_being_written() {
    let mut world = World::new("raid5", 4, 96).started();
    let before = prepare(&world);
    kill_amid_writes(&mut world);

    // A stripe that was not written is corrupted: a resync of everything would repair it.
    let examined = world.examine("m3");
    assert_eq!(examined["clean"], false, "{examined:#}");
    let last = examined["array"]["member_bytes"].as_u64().expect("a size") - 4096;
    let member = File::options().write(true).open(world.path("m3")).expect("the member");
    member.write_all_at(&[1], last).expect("it is spoilt");
    world.start("");
    world.assert_event(&["resync started"]);
    assert_only_dirty_regions(&world);
    world.evenkeel("rebuild status tank --wait");
    world.assert_event(&["resync finished"]);
    assert_eq!(world.scrub(), 1, "the resync has to leave clean regions alone");
    member.write_all_at(&[0], last).expect("it is mended");
    assert_kept(&world, &before);
    world.assert_sound();
    world.stop();
    assert_eq!(world.examine("m0")["clean"], true);
}

#[test]
fn an_array_without_a_member_loses_nothing_that_was_flushed() {
    let mut world = World::new("raid5", 4, 96).started();
    world.evenkeel("disk fail tank 2");
    let before = prepare(&world);
    kill_amid_writes(&mut world);

    world.set_members("m0 m1 m3");
    world.start("");
    assert_eq!(world.status()["health"], "degraded");
    assert_kept(&world, &before);
    world.evenkeel(&format!("disk replace tank 2 {}", world.file("new", 96 * MIB).display()));
    world.evenkeel("rebuild status tank --wait");
    assert_kept(&world, &before);
    world.assert_sound();
    world.stop();
}

#[test]
fn a_raid6_without_two_members_loses_nothing_that_was_flushed() {
    let mut world = World::new("raid6", 6, 96).started();
    world.evenkeel("disk fail tank 0");
    world.evenkeel("disk fail tank 3");
    let before = prepare(&world);
    kill_amid_writes(&mut world);

    world.set_members("m1 m2 m4 m5");
    world.start("");
    assert_kept(&world, &before);
    world.assert_no_errors();
    world.stop();
}

#[test]
fn a_rebuild_goes_on_where_it_was() {
    let mut world = World::new("raid5", 4, 96).started();
    let before = prepare(&world);
    world.file("new", 96 * MIB);
    world.evenkeel("rebuild limit tank --min 32M --max 32M");
    world.evenkeel("disk fail tank 1");
    world.evenkeel("disk replace tank 1 new");
    let pass = |world: &World| world.status()["pass"].take();
    let done = |pass: &Value| pass["done_bytes"].as_u64();
    wait_for("half of the rebuild is done", || {
        (done(&pass(&world)) > Some(40 << 20)).then_some(())
    });
    kill_amid_writes(&mut world);

    world.set_members("m0 new m2 m3");
    world.start("");
    world.evenkeel("rebuild status tank --wait");
    assert_kept(&world, &before);
    world.assert_sound();
    world.stop();
}
