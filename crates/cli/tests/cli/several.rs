//! Commands for all arrays of a machine at once.

use std::fs;
use std::os::unix::net::UnixListener;

use rustix::process::Signal;
use serde_json::Value;

use crate::signal::signal;
use crate::world::World;

/// With a `tank` of two members, and a `fast` without redundancy, which both run.
fn two_arrays() -> World {
    let world = World::with_members(&[20; 4]);
    world.run("create tank --level raid1 m0 m1").done();
    world.run("create fast --level raid0 m2 m3").done();
    world.run("start --background m0 m1").done();
    world.run("start --background m2 m3").done();
    world
}

#[test]
fn all_arrays_that_have_redundancy_are_scrubbed() {
    let world = two_arrays();
    let ended = world.run("scrub start --all --wait --json");
    assert_eq!(ended.code, 0, "{ended:?}");
    let told = ended.json();
    let [fast, tank] = &told["arrays"].as_array().expect("a list")[..] else { panic!("{told}") };
    assert_eq!(
        (&fast["name"], &fast["left_out"]["code"]),
        (&"fast".into(), &"not-redundant".into())
    );
    assert_eq!((&tank["name"], &tank["last_scrub"]["mismatches"]), (&"tank".into(), &0.into()));
    let told = world.run("scrub start --all --wait").done();
    assert!(told.contains("fast: left out") && told.contains("found 0 mismatches"), "{told}");
    // One that is gone does not keep the others from it.
    let gone = world.run_dir().join("gone.sock");
    drop(UnixListener::bind(&gone).expect("a socket"));
    let ended = world.run("scrub start --all --json");
    let told = ended.json();
    assert_eq!((ended.code, &told["arrays"][1]["error"]["code"]), (1, &"not-running".into()));
    assert_eq!(
        (&told["arrays"][2]["name"], &told["arrays"][2]["error"]),
        (&"tank".into(), &().into())
    );
    fs::remove_file(gone).expect("the socket");
}

#[test]
fn one_array_or_all_are_scrubbed() {
    let world = World::new();
    assert_eq!(world.run("scrub start").code, 2);
    assert_eq!(world.run("scrub start tank --all").code, 2);
    assert_eq!(world.run("scrub start --all").done(), "no array is running\n");
}

/// The line of an array in the list, in words.
fn line(told: &str, name: &str) -> Vec<String> {
    let mut lines = told.lines().map(|line| line.split_whitespace().map(str::to_owned).collect());
    let found = lines.find(|words: &Vec<String>| words.first().is_some_and(|word| word == name));
    found.unwrap_or_else(|| panic!("no line of {name}: {told}"))
}

#[test]
fn arrays_that_run_have_a_line_each() {
    let world = two_arrays();
    let told = world.run("list").done();
    let words = ["2", "MiB", "healthy", "nbd", "plain"];
    assert_eq!(line(&told, "fast")[1..3], ["raid0", "2"], "{told}");
    for word in words {
        assert!(line(&told, "tank").contains(&word.to_owned()), "{word}: {told}");
    }
    world.run("disk fail tank 1").done();
    let told = world.run("list").done();
    assert!(line(&told, "tank").join(" ").contains("raid1 1 of 2"), "{told}");
    assert!(line(&told, "tank").contains(&"degraded".to_owned()), "{told}");
    let told = world.run("list --json").json();
    let tank = &told["arrays"][1];
    let facts = [&tank["name"], &tank["level"], &tank["health"], &tank["policy"]];
    assert_eq!(facts, ["tank", "raid1", "degraded", "plain"]);
    assert_eq!((&tank["members"], &tank["members_up"]), (&2.into(), &1.into()));
    assert_eq!(tank["fronts"][0]["kind"], "nbd");
    assert!(told.get("found").is_none(), "{told}");
}

#[test]
fn an_array_that_hangs_does_not_hold_up_the_list() {
    let world = two_arrays();
    world.run("stop tank").done();
    let mut hangs = world.foreground("start m0 m1");
    signal(&hangs, Signal::STOP);
    let ended = world.run("list --timeout 10s --json");
    let text = world.run("list --timeout 100ms");
    signal(&hangs, Signal::CONT);
    let told = ended.json();
    assert_eq!((ended.code, text.code), (1, 1), "{told}");
    assert_eq!(told["arrays"][0]["health"], "online");
    assert_eq!(told["arrays"][1]["name"], "tank");
    assert_eq!(told["arrays"][1]["error"]["code"], "failed");
    assert!(line(&text.stdout, "tank").join(" ").contains("no answer"), "{text:?}");
    world.run("stop tank").done();
    hangs.wait().expect("it has ended");
}

#[test]
fn what_could_be_started_is_listed_if_asked_for() {
    let world = two_arrays();
    world.run("stop tank").done();
    world.run("create gone --level raid0 m4 m5 --file-size 20M").done();
    let all = "list --all m0 m1 m2 m3 m4 --json";
    let told = world.run(all).json();
    let names = |told: &Value| -> Vec<String> {
        let found = told["found"].as_array().expect("a list");
        found.iter().map(|one| format!("{} {}", one["name"], one["start"])).collect()
    };
    assert_eq!(names(&told), [r#""gone" "no""#, r#""tank" "whole""#], "{told}");
    assert_eq!(
        (&told["arrays"][0]["name"], told["arrays"].as_array().map(Vec::len)),
        (&"fast".into(), Some(1))
    );
    assert!(told["found"][0]["why"].as_str().is_some_and(|why| why.contains("missing")), "{told}");
    let told = world.run("list --all m1 --json").json();
    assert_eq!(names(&told), [r#""tank" "degraded""#], "{told}");
    let text = world.run("list --all m0 m1").done();
    assert!(
        line(&text, "tank").join(" ").contains("raid1 2") && text.contains("not running"),
        "{text}"
    );
}
