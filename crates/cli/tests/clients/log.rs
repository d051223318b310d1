//! Log volumes: their special features, and those of every array.

use serde_json::Value;

use crate::rounds::ledger::Ledger;
use crate::tools::{pattern, run, wait_for};
use crate::world::{MIB, World, json};

fn log(world: &World) -> Value {
    world.status()["log"].take()
}

fn capacity(world: &World) -> u64 {
    world.status()["capacity_bytes"].as_u64().expect("a size")
}

/// fio writes and verifies.
fn fio(world: &World, what: &str) {
    let target = format!("--ioengine=nbd --uri={}", world.uri());
    let verify = "--verify=crc32c --verify_fatal=1 --verify_state_save=0";
    run("fio", &format!("fio --name=log --iodepth=16 --eta=never {verify} {what} {target}"));
}

#[test]
fn members_of_all_groups_fail_and_are_replaced_while_fio_verifies() {
    let mut world = World::of("--layout swan5:3x3 --segment 256K", 9, 48).started();
    fio(&world, "--rw=randwrite --bsrange=4k-128k --size=64M");
    for disk in ["0.0", "1.2", "2.1"] {
        world.evenkeel(&format!("disk fail tank {disk}"));
    }
    let status = world.status();
    assert_eq!(status["health"], "degraded", "{status:#}");
    fio(&world, "--rw=randwrite --bs=4k --size=64M --verify_backlog=128");
    for (number, disk) in ["0.0", "1.2", "2.1"].into_iter().enumerate() {
        let new = world.file(&format!("n{number}"), 48 * MIB);
        world.evenkeel(&format!("disk replace tank {disk} {}", new.display()));
    }
    world.evenkeel("rebuild status tank --wait");
    fio(&world, "--rw=randwrite --bs=4k --size=64M --verify_only --verify_backlog=128");
    world.assert_sound();
    world.stop();
}

#[test]
fn a_full_log_is_overwritten_five_times_and_keeps_everything() {
    for (options, members) in [
        ("--layout log-raid5 --segment 256K", 3),
        ("--layout swan5:3x3 --segment 256K", 9),
        ("--layout swan0:2x2 --segment 256K --over-provisioning 7%", 4),
    ] {
        let mut world = World::of(options, members, 28).started();
        let bytes = capacity(&world);
        let all = pattern(1, bytes as usize);
        let file = world.path("all");
        std::fs::write(&file, all).expect("a file");
        world.copy_in(&file);
        world.compare(&file);
        let size = bytes / 4096 * 4096;
        fio(&world, &format!("--rw=randwrite --bs=4k --size={size} --io_size={}", 5 * size));
        let log = log(&world);
        assert_eq!(log["failed"], false, "{log:#}");
        assert!(log["cleaned"].as_u64() > Some(0), "{log:#}");
        world.stop();
        world.start("");
        fio(
            &world,
            &format!("--rw=randwrite --bs=4k --size={size} --io_size={} --verify_only", 5 * size),
        );
        if options.contains("swan0") {
            world.assert_no_errors();
        } else {
            world.assert_sound();
        }
        world.stop();
    }
}

#[test]
fn what_is_discarded_gives_room_and_reads_as_zeros() {
    let mut world = World::of("--layout swan5:2x3 --segment 256K", 6, 32).started();
    fio(&world, "--rw=write --bs=1M --size=32M");
    let used = |world: &World| log(world)["used_bytes"].as_u64().expect("a number");
    assert!(used(&world) >= 32 * MIB);
    let zeros = |world: &World| {
        let mut nbd = world.nbd();
        (0..32).all(|mib| {
            let found = nbd.read(mib * MIB, MIB as u32).expect("it can be read");
            found.iter().all(|&byte| byte == 0)
        })
    };
    assert!(!zeros(&world));
    assert_eq!(world.nbd().discard(0, 16 << 20), Ok(()));
    assert_eq!(world.nbd().zero(16 * MIB, 16 << 20), Ok(()));
    assert_eq!(used(&world), 0);
    assert!(zeros(&world));
    world.stop();
    world.start("");
    assert!(zeros(&world));
    world.stop();
}

#[test]
fn killed_again_and_again_it_loses_nothing_that_was_flushed() {
    const BYTES: u64 = 24 * MIB;
    for (seed, (options, members)) in (1..).zip([
        ("--layout swan5:2x3 --segment 256K", 6),
        ("--layout swan4:3x3 --segment 256K --chunk 16K", 9),
    ]) {
        let mut world = World::of(options, members, 32).started();
        let mut ledger = Ledger::new(seed, BYTES / 4096).flushing();
        for round in 0..4 {
            let before = log(&world)["written_bytes"].as_u64().expect("a number");
            let working = ledger.work(&world.path("run/tank.nbd"));
            wait_for("the ledger is written", || {
                let now = log(&world)["written_bytes"].as_u64();
                (now > Some(before + 2 * MIB)).then_some(())
            });
            // A member of each group is lost during writes, and the next time with the process.
            if round == 1 {
                world.evenkeel("disk fail tank 0.1");
                world.evenkeel("disk fail tank 1.0");
            }
            world.kill();
            ledger.rest(working);
            world.start(if round == 0 { "" } else { "--degraded" });
            ledger.check(&mut world.nbd(), false);
            ledger.mend(&mut world.nbd(), true);
        }
        world.assert_no_errors();
        world.stop();
    }
}

#[test]
fn it_says_how_it_is_and_what_can_not_be() {
    let mut world = World::of("--layout swan5:2x3 --segment 256K", 6, 32);
    world.set_members("m0 m1 m2");
    let refused = world.try_evenkeel("start m0 m1 m2");
    refused.refused(&["of group 1 of the log volume \"tank\" no member is there"]);
    world.set_members("m0 m1 m3 m4");
    world.try_evenkeel("start m0 m1 m3 m4").refused(&["missing: member 2", "--degraded"]);
    let stages = ["stages writes", "log takes all writes", "reconstruct, hedge"];
    world.try_evenkeel("start --policy evenkeel m0 m1 m2 m3 m4 m5").refused(&stages);
    let ready = world.start("--degraded");
    assert_eq!(ready["missing"][0]["group"], 0, "{ready:#}");
    assert_eq!(ready["missing"][1]["group"], 1, "{ready:#}");
    world.try_evenkeel("policy set tank plain/log").refused(&stages);
    world.try_evenkeel("cache set tank log").refused(&stages);
    world.try_evenkeel("policy set tank rotate").refused(&["told when to collect"]);
    world.try_evenkeel("disk fail tank 1").refused(&["no member 1", "member 2 of group 1 is 1.2"]);
    world.try_evenkeel("disk fail tank 0.0").refused(&["member"]);
    // A new disk goes where one is missing; the next one, too.
    for name in ["n0", "n1"] {
        let new = world.file(name, 32 * MIB);
        world.evenkeel(&format!("disk add tank {}", new.display()));
    }
    world.evenkeel("rebuild status tank --wait");
    let status = world.status();
    assert_eq!(status["health"], "online", "{status:#}");
    assert_eq!(status["level"], "swan5:2x3");
    let text = world.evenkeel("status tank");
    for words in ["group: 0: front", "group: 1: back", "member 0.2", "member 1.2", "All is well."] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    world.stop();
    let examined = world.examine("m4");
    assert_eq!(examined["log_volume"]["group"], 1, "{examined:#}");
    let create = "create other --layout swan5:2x3 --level raid5 x y z";
    world.try_evenkeel(create).refused(&["cannot be used with"]);
    let few = world.try_evenkeel("create other --json --layout swan5:4x3 --force m0 m1 m2");
    let code = json(&few.stdout)["error"]["code"].take();
    assert_eq!(code, "bad-shape");
}
