//! An array's memory follows its use.

use std::path::Path;

use crate::tools::{pattern, run, wait_for};
use crate::world::World;

/// The most memory of an array that does little, or nothing any more, in KiB.
const MODEST: u64 = 32 << 10;

/// What this client asks for at most before it ends.
fn fio(world: &World, options: &str) {
    let line = format!("fio --name=load --ioengine=nbd --uri={} --eta=never", world.uri());
    run("fio", &format!("{line} --randseed=1 {options}"));
}

/// Memory that only this process has, in KiB; or the memory that the kernel keeps in RAM for it if
/// that is more, as with freed pages that are still registered.
fn own(world: &World) -> u64 {
    let mapped = world.memory("RssAnon") + world.memory("RssShmem");
    mapped.max(world.memory("VmPin"))
}

#[test]
fn an_array_takes_memory_while_it_is_used() {
    let mut world = World::new("raid5", 3, 192).started();
    assert!(own(&world) < MODEST, "{} KiB when nobody has used it", own(&world));
    let file = world.path("content");
    std::fs::write(&file, pattern(3, 8 << 20)).expect("a file");
    world.copy_in(&file);
    // Memory is given back step by step, and the rest must not count later.
    wait_for("what copying took is given back", || (own(&world) < MODEST / 2).then_some(()));

    fio(&world, "--rw=randrw --bs=4k --iodepth=4 --offset=64m --size=8m");
    assert!(own(&world) < MODEST, "{} KiB after small requests", own(&world));

    // So few of each client that none changes threads, which waits for replies to be taken.
    let clients = (0..8).map(|_| {
        let mut nbd = world.nbd();
        nbd.ask(12, 1 << 20).expect("the server stays");
        nbd
    });
    let clients: Vec<_> = clients.collect();
    wait_for("large requests take memory", || (own(&world) > 2 * MODEST).then_some(()));
    drop(clients);
    wait_for("what large requests took is given back", || (own(&world) < MODEST).then_some(()));

    // Memory that was given back is available again, and its content is right.
    let read = world.path("read");
    let fetch = format!("nbdcopy {} {}", world.uri(), read.display());
    run("libnbd-bin", &fetch);
    assert_content(&read, &pattern(3, 8 << 20));
    fio(
        &world,
        "--rw=randwrite --bsrange=4k-1m --iodepth=16 --size=24m --verify=crc32c --verify_state_save=0",
    );
    world.assert_sound();
    world.stop();
}

#[test]
fn memory_in_huge_pages_follows_its_use_too() {
    if !Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        eprintln!("skipped: this kernel has no huge pages");
        return;
    }
    let mut world = World::new("raid5", 3, 192);
    world.start("");
    assert!(!world.wants_huge_pages(), "they are asked for");
    world.stop();
    world.start("--huge-pages");
    assert!(world.wants_huge_pages());
    let file = world.path("content");
    std::fs::write(&file, pattern(3, 32 << 20)).expect("a file");
    world.copy_in(&file);
    wait_for("what copying took is given back", || (own(&world) < MODEST).then_some(()));
    world.compare(&file);
    world.assert_sound();
    world.stop();
}

fn assert_content(file: &Path, wanted: &[u8]) {
    let found = std::fs::read(file).expect("a file");
    crate::tools::assert_same(&found[..wanted.len()], wanted, "what was copied in");
}
