//! An array whose process is replaced.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::tools::attempt;
use crate::world::{MIB, World};

/// In the background, over NBD and FUSE.
fn tank() -> World {
    let world = World::new("raid5", 3, 40);
    world.evenkeel("start --background --nbd --fuse mnt m0 m1 m2");
    world
}

/// The devices of the array, and their states.
fn paths(world: &World) -> Vec<String> {
    let status = world.status();
    assert_eq!(status["health"], "online", "{status:#}");
    let disks = status["members"].as_array().into_iter().chain(status["spares"].as_array());
    let name = |disk: &serde_json::Value| {
        let path = disk["path"].as_str().expect("a device");
        path.rsplit('/').next().unwrap_or(path).to_owned()
    };
    disks.flatten().map(name).collect()
}

#[test]
fn the_successor_gets_the_devices_of_now() {
    let world = tank();
    world.file("new", 40 * MIB);
    world.file("spare", 40 * MIB);
    world.evenkeel("disk replace tank 1 new --wait");
    world.evenkeel("disk add tank spare");
    fs::remove_file(world.path("m1")).expect("it is free");
    let mut process = world.status()["pid"].clone();
    // The second successor is started as the first was.
    for _ in 0..2 {
        world.evenkeel("restart tank");
        assert_eq!(paths(&world), ["m0", "new", "m2", "spare"]);
        let now = world.status()["pid"].clone();
        assert!(now != process, "it is another process");
        process = now;
    }
    world.evenkeel("stop tank");
}

#[test]
fn an_array_runs_on_if_no_successor_could_start() {
    let world = tank();
    let process = world.status()["pid"].clone();
    let mut nbd = world.nbd();
    assert_eq!(nbd.write(0, &[7; 4096], false), Ok(()));
    fs::rename(world.path("m2"), world.path("aside")).expect("it is renamed");
    let refused = world.try_evenkeel("restart tank");
    refused.refused(&["tank runs on as before", "m2"]);
    assert_eq!(nbd.read(0, 4096), Ok(vec![7; 4096]), "its users notice nothing");
    fs::rename(world.path("aside"), world.path("m2")).expect("it is renamed");
    // Nor if a client would lose its connection.
    let refused = world.try_evenkeel("restart tank");
    refused.refused(&["an NBD client is connected", "evenkeel restart tank --force"]);
    assert_eq!(nbd.read(0, 4096), Ok(vec![7; 4096]));
    assert_eq!(world.status()["pid"], process);
    world.evenkeel("restart tank --force");
    assert!(world.status()["pid"] != process);
    assert_eq!(world.nbd().read(0, 4096), Ok(vec![7; 4096]));
    world.evenkeel("stop tank --force");
}

/// A release that can't mount, and notices that too late.
#[test]
fn the_program_that_ran_before_runs_again_if_its_successor_fails() {
    let world = tank();
    let mut program = fs::read(env!("CARGO_BIN_EXE_evenkeel")).expect("the program");
    let driver = b"/dev/fuse";
    let places = program.windows(driver.len()).enumerate();
    let places = places.filter(|(_, bytes)| bytes == driver).map(|(at, _)| at);
    let places: Vec<usize> = places.collect();
    for at in places {
        program[at..at + driver.len()].copy_from_slice(b"/dev/none");
    }
    let path = world.path("evenkeel");
    fs::write(&path, program).expect("the program");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("its mode");
    let process = world.status()["pid"].clone();
    let run = world.path("run");
    let line = format!("{} --run-dir {} restart tank", path.display(), run.display());
    let words = ["tank is run by the program that ran it before", "successor did not start"];
    attempt("coreutils", &line).refused(&words);
    assert_eq!(paths(&world), ["m0", "m1", "m2"]);
    assert!(world.status()["pid"] != process);
    assert!(world.fuse().exists());
    world.evenkeel("stop tank");
}

#[test]
fn what_the_root_file_system_needs_is_spared_at_shutdown_and_stays_in_memory() {
    let world = World::new("raid5", 3, 40);
    world.evenkeel("start --background --for-root --nbd m0 m1 m2");
    for _ in 0..2 {
        let of_process =
            |file| fs::read_to_string(format!("/proc/{}/{file}", world.status()["pid"]));
        let name = of_process("cmdline").expect("it runs");
        assert!(name.starts_with("@evenkeel\0"), "{name}");
        let status = of_process("status").expect("it runs");
        let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
        let locked = locked.and_then(|line| line.trim().strip_suffix(" kB"));
        let kib: u64 = locked.expect("a size").parse().expect("a number");
        assert!(kib * 1024 > MIB, "{locked:?}");
        world.evenkeel("restart tank");
    }
    world.evenkeel("stop tank");
}
