//! Members that were away and come back, on command or by themselves.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::world::{MIB, World};

fn tank() -> World {
    array("raid5", "m0 m1 m2")
}

/// An array that can do without two members.
fn spared() -> World {
    array("raid6", "m0 m1 m2 m3")
}

fn array(level: &str, members: &str) -> World {
    let world = World::with_members(&[40; 4]);
    world.run(&format!("create tank --level {level} {members}")).done();
    // From now on their paths are remembered.
    world.run(&format!("start --background {members}")).done();
    world.run("stop tank").done();
    world
}

/// The state of the array once it is as expected; waits for that.
fn until(world: &World, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let status = world.status("tank");
        if is_so(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "{status:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn until_up(world: &World, member: usize) -> Value {
    until(world, |status| status["members"][member]["state"] == "up")
}

fn events(status: &Value) -> String {
    status["events"].to_string()
}

fn moved(world: &World, from: &str, to: &str) {
    fs::rename(world.path(from), world.path(to)).expect("it is moved");
}

#[test]
fn a_member_that_was_failed_comes_back_on_command_and_catches_up() {
    let world = tank();
    world.run("start --background m0 m1 m2").done();
    world.run("disk fail tank 1").done();
    let said = world.run("disk add tank m1").done();
    assert!(said.contains("m1 is back as member 1 of tank: "), "{said}");
    assert!(said.contains("which it has missed"), "{said}");
    let status = until_up(&world, 1);
    assert!(events(&status).contains("is back, and is filled where"), "{status:#}");
    let said = world.run("scrub start tank --wait").done();
    assert!(said.contains("found 0 mismatches"), "{said}");

    // Into its own place, and no other.
    world.run("disk fail tank 2").done();
    world.run("disk replace tank 1 m2").failed(&["m2 was member 2", "disk add tank"]);
    let json = world.run("disk replace tank 2 m2 --json").json();
    assert_eq!(json["done"]["member"], 2, "{json:#}");
    assert!(json["done"]["missed_bytes"].is_u64(), "{json:#}");
    until_up(&world, 2);

    // A device that went on without the others is not taken for the member that it was.
    world.run("disk fail tank 0").done();
    let said = world.run("status").stdout;
    assert!(said.contains("`evenkeel disk add tank PATH` takes its device back"), "{said}");
    let said = world.run("disk add tank m0 --force").done();
    assert!(said.contains("m0 was added to tank"), "--force makes it a new device: {said}");
    until_up(&world, 0);
    world.run("stop tank").done();
}

#[test]
fn a_member_that_is_not_there_at_the_start_comes_back_by_itself() {
    let world = spared();
    moved(&world, "m1", "shelf");
    moved(&world, "m2", "shelf2");
    world.run("start --background --degraded m0 m3").done();
    for member in [1, 2] {
        let way_back = &world.status("tank")["members"][member]["comes_back"];
        assert_eq!(way_back, "by-itself", "member {member}");
        until(&world, |status| status["members"][member]["missed_bytes"].is_u64());
    }
    let action = world.status("tank")["problems"][0]["action"].to_string();
    assert!(action.contains("it is taken in by itself"), "{action}");
    // Another device in its place is not taken for it. When the member is back, that device has
    // been looked at.
    world.file("m1", 40 * MIB);
    moved(&world, "shelf2", "m2");
    until_up(&world, 2);
    assert_eq!(world.status("tank")["members"][1]["state"], "failed");
    moved(&world, "shelf", "m1");
    let status = until_up(&world, 1);
    assert!(events(&status).contains("is back, and is filled where"), "{status:#}");
    world.run("stop tank").done();
    world.run("start --background m0 m1 m2 m3").done();
    assert_eq!(world.status("tank")["health"], "online");
    world.run("stop tank").done();
}

#[test]
fn a_member_that_is_left_out_on_purpose_stays_out_until_it_is_told_to_come_back() {
    let world = spared();
    moved(&world, "m2", "shelf");
    world.run("start --background --degraded m0 m3").done();
    until(&world, |status| status["members"][1]["comes_back"] == "by-command");
    // It could have come back together with another.
    moved(&world, "shelf", "m2");
    until_up(&world, 2);
    assert_eq!(world.status("tank")["members"][1]["state"], "failed");
    world.run("stop tank").done();

    // Nor does a start take it back if it is given: the reason why it is out of service is not on
    // record.
    let said = world.run("start --background m0 m1 m2 m3").done();
    let told = said.contains("/m1: ") && said.contains("the array has gone on without it");
    assert!(told, "it is stale, and that is told: {said}");
    assert!(said.contains("`evenkeel disk add` takes it back as member 1"), "{said}");
    assert_eq!(world.status("tank")["members"][1]["state"], "failed");
    world.run("disk add tank m1").done();
    until_up(&world, 1);
    world.run("stop tank").done();
}

#[test]
fn a_member_that_another_start_has_used_does_not_come_back() {
    let world = World::with_members(&[40; 2]);
    world.run("create tank --level raid1 m0 m1").done();
    world.run("start --background --degraded m0").done();
    world.run("stop tank").done();
    moved(&world, "m0", "shelf");
    world.run("start --background --degraded m1").done();
    world.run("stop tank").done();
    moved(&world, "shelf", "m0");
    moved(&world, "m1", "other");
    world.run("start --background --degraded m0").done();
    let refused = world.run("disk add tank other");
    refused.failed(&["other was a member, and can't come back", "--force"]);
    world.run("disk add tank other --force").done();
    until_up(&world, 1);
    world.run("stop tank").done();
}
