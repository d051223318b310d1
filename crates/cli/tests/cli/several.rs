//! Commands for all arrays of a machine at once.

use std::fs;
use std::os::unix::net::UnixListener;

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
