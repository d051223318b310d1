//! `history` and `events`: who did what, and what happened, across processes.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::signal::signal;
use crate::world::World;

/// The kinds in the history of `tank`, or the commands where they are those.
fn told(world: &World, line: &str) -> Vec<String> {
    let value = world.run(&format!("{line} --json")).json();
    let entries = value["arrays"][0]["entries"].as_array().expect("a list").clone();
    let words = |entry: &Value| {
        let field = if entry["kind"] == "command" { "text" } else { "kind" };
        entry[field].as_str().expect("a text").to_owned()
    };
    entries.iter().map(words).collect()
}

#[test]
fn commands_and_events_are_on_record_after_a_stop() {
    let world = World::with_members(&[20; 4]);
    world.run("create tank --level raid5 m0 m1 m2").done();
    world.run("start --background m0 m1 m2").done();
    world.run("disk fail tank 1").done();
    world.run("disk replace tank 1 m3 --wait").done();
    world.run("disk fail tank 7").failed(&["no member 7"]);
    world.run("stop tank").done();

    let commands = told(&world, "history tank --commands");
    assert!(commands[0].starts_with("create tank (raid5, identity "), "{commands:?}");
    assert_eq!(commands[1], "disk fail tank 1");
    assert!(commands[2].starts_with("disk replace tank 1 /"), "{commands:?}");
    assert_eq!(commands[3..], ["stop tank"]);
    let events = told(&world, "events tank");
    let expected =
        ["started", "member-failed", "spare-activated", "pass-started", "rebuilt", "stopped"];
    assert_eq!(events, expected);
    assert_eq!(told(&world, "history tank -n 2"), ["stop tank", "stopped"]);

    let value = world.run("history tank --json").json();
    let entries = value["arrays"][0]["entries"].as_array().expect("a list").clone();
    let numbers: Vec<_> = entries.iter().map(|entry| entry["number"].as_u64()).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    let uid = rustix::process::geteuid().as_raw();
    let by = entries.iter().find(|entry| entry["text"] == "disk fail tank 1").expect("it is there");
    assert_eq!(by["by"]["uid"], uid);
    let failed = entries.iter().find(|entry| entry["kind"] == "member-failed").expect("it failed");
    assert_eq!(failed["disk"], "1");

    // Another process goes on with it.
    world.run("start --background --degraded m0 m2 m3").done();
    world.run("stop tank").done();
    assert_eq!(told(&world, "events tank -n 3"), ["stopped", "started", "stopped"]);
}

#[test]
fn what_is_killed_has_no_stop_on_record() {
    let world = World::with_members(&[20; 2]);
    world.run("create tank --level raid1 m0 m1").done();
    let mut child = world.foreground("start m0 m1");
    // It is written beside what is served.
    let mut follower =
        world.command("events --follow").stdout(Stdio::piped()).spawn().expect("it runs");
    let mut line = String::new();
    let stdout = follower.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    follower.kill().expect("it is ours");
    follower.wait().expect("it was ours");
    signal(&child, Signal::KILL);
    child.wait().expect("it was ours");
    assert_eq!(told(&world, "events"), ["started"]);
    world.run("start --background m0 m1").done();
}

#[test]
fn events_are_followed_until_it_is_interrupted() {
    let world = World::with_members(&[20; 2]);
    let mut follower =
        world.command("events --follow --json").stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    world.run("create tank --level raid1 m0 m1").done();
    world.run("start --background m0 m1").done();
    world.run("disk fail tank 0").done();
    for kind in ["started", "member-failed"] {
        let line = lines.next().expect("a line").expect("text");
        let told: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            (&told["result"]["name"], &told["result"]["event"]["kind"]),
            (&"tank".into(), &kind.into())
        );
    }
    follower.kill().expect("it is ours");
    follower.wait().expect("it was ours");
}

#[test]
fn what_has_no_history_is_told() {
    let world = World::with_members(&[20; 2]);
    assert_eq!(world.run("history").done(), "nothing is on record\n");
    for command in ["history tank", "events tank", "events tank --follow"] {
        world.run(command).failed(&["no history of an array \"tank\"", "begun by"]);
    }
    world.run("create tank --level raid1 m0 m1").done();
    world.run("history other").failed(&["these have one: tank"]);
    std::fs::write(world.path("file"), "").expect("a file");
    world.run("history --state-dir file").failed(&["file"]);
}
