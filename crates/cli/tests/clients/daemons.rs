//! Processes: one for each array, and how they end.

use std::fs;

use crate::world::World;

#[test]
fn an_array_is_run_by_one_process() {
    let mut world = World::new("raid5", 3, 40).started();
    let members = "m0 m1 m2";
    let start = |run_dir: &str| {
        world.try_evenkeel(&format!("start --background --nbd --run-dir {run_dir} {members}"))
    };
    start("run").refused(&["in use"]);
    start("other").refused(&["in use"]);
    world
        .try_evenkeel(&format!("create tank --level raid5 --force {members}"))
        .refused(&["in use"]);
    let mut nbd = world.nbd();
    assert_eq!(nbd.write(0, &[7; 4096], true), Ok(()), "the first one has not suffered");
    assert_eq!(nbd.read(0, 4096), Ok(vec![7; 4096]));
    drop(nbd);
    world.assert_sound();
    world.stop();
    world.start("");
    world.stop();
}

#[test]
fn sigterm_stops_cleanly_with_clients_connected() {
    let mut world = World::new("raid6", 4, 40).started();
    let mut nbd = world.nbd();
    assert_eq!(nbd.write(8192, &[7; 8192], false), Ok(()));
    for member in ["m0", "m1", "m2", "m3"] {
        assert_eq!(world.examine(member)["clean"], false, "{member} while it runs");
    }
    world.stop();
    for member in ["m0", "m1", "m2", "m3"] {
        let examined = world.examine(member);
        assert_eq!(examined["clean"], true, "{member}: {examined:#}");
        assert_eq!(examined["intact_superblocks"], 4, "{member}: {examined:#}");
    }
    world.start("");
    assert_eq!(world.status()["pass"], serde_json::Value::Null, "nothing is to be resynced");
    assert_eq!(world.nbd().read(8192, 8192), Ok(vec![7; 8192]));
    world.stop();
}

#[test]
fn what_a_start_carries_out_is_told() {
    let mut world = World::new("raid5", 3, 40).started();
    assert_eq!(world.nbd().write(0, &[7; 4096], true), Ok(()));
    world.kill();
    let ready = world.start("");
    let told = "1 entries of the journal were carried out (1 blocks";
    let said = ready["recovered"][0].as_str().expect("it is told");
    assert!(said.contains(told), "{ready:#}");
    world.assert_event(&[told]);
    assert_eq!(world.nbd().read(0, 4096), Ok(vec![7; 4096]));
    world.stop();
    assert_eq!(world.start("")["recovered"], serde_json::json!([]));
    world.stop();
}

/// The kernel continues to answer `stat` for a dead mount whose attributes it knows.
#[test]
fn the_mount_of_a_killed_process_is_not_in_the_way() {
    let mut world = World::new("raid5", 3, 40).started();
    let dir = world.path("mnt");
    assert!(fs::metadata(&dir).expect("a mount").is_dir());
    world.kill();
    assert!(fs::read_dir(&dir).is_err(), "it is dead");
    world.start("");
    let file = fs::metadata(world.fuse()).expect("the array's file");
    assert_eq!(file.len(), world.status()["capacity_bytes"].as_u64().expect("a size"));
    world.stop();
}
