//! The distributed spare: a member fails, is rebuilt onto the others, and is copied back from
//! there.

use crate::tools::{pattern, run};
use crate::world::{MIB, World};

fn state(world: &World) -> serde_json::Value {
    world.status()["distributed_spare"].take()
}

#[test]
fn a_raid5_loses_two_members_in_turn_before_there_is_a_device() {
    let mut world = World::of("--level raid5 --distributed-spare", 5, 64).started();
    assert_eq!(state(&world), "free");
    let bytes = world.status()["capacity_bytes"].as_u64().expect("a size");
    let file = world.path("all");
    std::fs::write(&file, pattern(1, bytes as usize)).expect("a file");
    world.copy_in(&file);
    world.evenkeel("disk fail tank 1");
    world.try_evenkeel("rebuild status tank --wait").refused(&["stands in for member 1"]);
    let status = world.status();
    assert_eq!(status["health"], "online", "{status:#}");
    assert_eq!(status["distributed_spare"]["stands-in-for"], 1);
    world.assert_event(&["rebuild of member 1 onto the distributed spare finished"]);
    world.compare(&file);

    assert_eq!(world.scrub(), 0, "copies are compared, too");
    world.stop();
    let member = world.path("m0");
    let told = world.evenkeel(&format!("examine {}", member.display()));
    assert!(told.contains("spare: ") && told.contains("stands in for member 1"), "{told}");
    world.start("");
    world.evenkeel("disk fail tank 3");
    assert_eq!(world.status()["health"], "degraded");
    world.compare(&file);
    run(
        "fio",
        &format!(
            "fio --name=two-missing --ioengine=nbd --uri={} --rw=randwrite --bsrange=4k-256k \
             --size=32M --iodepth=16 --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
             --eta=never",
            world.uri()
        ),
    );

    let new = ["x", "y"].map(|name| world.file(name, 64 * MIB).display().to_string());
    let one = world.try_evenkeel(&format!("disk replace tank 3 {} --wait", new[0]));
    one.refused(&["the distributed spare stands in for it"]);
    world.evenkeel(&format!("disk replace tank 1 {} --wait", new[1]));
    assert_eq!(state(&world), "free");
    world.assert_sound();
    world.stop();
}
