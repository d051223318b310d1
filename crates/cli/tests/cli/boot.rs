//! Starts at boot: members appear one by one.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::world::World;

fn tank() -> World {
    let world = World::with_members(&[20; 3]);
    world.run("create tank --level raid5 m0 m1 m2").done();
    world
}

fn set_aside(world: &World, member: &str) {
    fs::rename(world.path(member), world.path("aside")).expect("it is renamed");
}

#[test]
fn a_start_waits_for_members() {
    let world = tank();
    set_aside(&world, "m1");
    let mut starting = world.command("start --wait 1h --degraded m0 m1 m2");
    let mut child =
        starting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is started");
    let lines = |line: Result<String, _>| line.expect("it tells");
    let told = BufReader::new(child.stderr.take().expect("a pipe")).lines().map(lines);
    let mut told = told.skip_while(|line| !line.contains("waiting up to 3600 s: "));
    assert!(told.next().is_some(), "it does not wait");
    fs::rename(world.path("aside"), world.path("m1")).expect("it is renamed");
    let mut ready = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut ready).expect("it tells");
    assert!(ready.contains("is running"), "{ready}");
    assert_eq!(world.status("tank")["health"], "online");
    // It must not end when its log is no longer read.
    drop(told);
    world.run("stop tank").done();
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn members_are_done_without_only_after_the_wait_and_if_that_is_accepted() {
    let world = tank();
    set_aside(&world, "m1");
    world.run("start --wait 1ms --background m0 m2").failed(&["missing: member 1", "--degraded"]);
    world.run("start --wait 1ms --background --degraded m0 m2").done();
    assert_eq!(world.status("tank")["health"], "degraded");
}

#[test]
fn udev_is_told_what_a_member_is() {
    let world = tank();
    let told = world.run("examine --udev m2").done();
    let examined = world.run("examine m2 --json").json()["members"].take();
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    for (property, value) in [
        ("ID_FS_TYPE", "evenkeel_member".to_owned()),
        ("ID_FS_UUID", text(&examined[0]["array"]["uuid"])),
        ("ID_FS_UUID_SUB", text(&examined[0]["device"])),
        ("EVENKEEL_ARRAY", "tank".to_owned()),
    ] {
        let line = format!("{property}={value}");
        assert!(told.lines().any(|told| told == line), "{line} in\n{told}");
    }
    world.file("other", 20 << 20);
    let other = world.run("examine --udev other");
    assert_eq!((other.code, other.stdout.as_str()), (1, ""), "it is no member");
}
