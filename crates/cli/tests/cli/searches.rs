//! Which devices a start takes for an array's: given or found, with copies and arrays of the same
//! name among them.

use std::fs;
use std::os::unix::fs::symlink;

use crate::world::{MIB, World};

fn tank() -> World {
    let world = World::with_members(&[20; 3]);
    world.run("create tank --level raid5 m0 m1 m2").done();
    world
}

/// Starts, expects `words` in the output, and returns the members' paths in order.
#[track_caller]
fn members(world: &World, line: &str, words: &[&str]) -> Vec<String> {
    let said = world.run(&format!("start --background {line}")).done();
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
    let status = world.status("tank");
    let name = |member: &serde_json::Value| {
        let path = member["path"].as_str().unwrap_or("none");
        path.rsplit('/').next().unwrap_or(path).to_owned()
    };
    let members = status["members"].as_array().into_iter().chain(status["spares"].as_array());
    members.flatten().map(name).collect()
}

/// Forgets where the devices were, as after a boot.
fn boot(world: &World) {
    fs::remove_file(world.run_dir().join("tank.devices")).expect("it is remembered");
}

#[test]
fn links_to_one_device_are_one_member() {
    let world = tank();
    fs::create_dir(world.path("by-id")).expect("a directory");
    for (link, member) in [("ata-0", "m0"), ("wwn-0", "m0"), ("ata-1", "m1"), ("wwn-2", "m2")] {
        symlink(world.path(member), world.path("by-id").join(link)).expect("a link");
    }
    assert_eq!(members(&world, "--name tank by-id", &[]), ["ata-0", "ata-1", "wwn-2"]);
    world.run("stop tank").done();
    let again = members(&world, "m0 m1 by-id/ata-1 m2", &["by-id/ata-1 is the same device as "]);
    assert_eq!(again, ["m0", "m1", "m2"]);
}

#[test]
fn of_a_member_and_its_copies_the_newest_is_taken() {
    let world = tank();
    fs::copy(world.path("m1"), world.path("a-copy")).expect("a copy");
    // Only its age tells it from the member.
    let told = "a-copy is left out: it is a copy of ";
    assert_eq!(members(&world, "--name tank .", &[told]), ["m0", "m1", "m2"]);
    world.run("stop tank").done();
    // The member is newer.
    assert_eq!(members(&world, "m0 a-copy m1 m2", &[told]), ["m0", "m1", "m2"]);
    world.run("stop tank").done();
    // The copy is: the member was put back from a backup.
    fs::rename(world.path("a-copy"), world.path("backup")).expect("it is renamed");
    fs::rename(world.path("m1"), world.path("newer")).expect("it is renamed");
    fs::rename(world.path("backup"), world.path("m1")).expect("it is renamed");
    let told = "m1 is left out: it is a copy of ";
    assert_eq!(members(&world, "--name tank .", &[told]), ["m0", "newer", "m2"]);
    world.run("stop tank").done();
    // An unfinished copy, and no member: the array can be started without it.
    fs::remove_file(world.path("newer")).expect("it goes");
    let file = fs::File::options().write(true).open(world.path("m1")).expect("the file");
    file.set_len(15 * MIB).expect("it is cut");
    world.run("start --background --name tank .").failed(&["missing: member 1", "--degraded"]);
    let told = ["m1: ", "it is left out", "started without member 1"];
    assert_eq!(members(&world, "--degraded --name tank .", &told), ["m0", "none", "m2"]);
}

#[test]
fn a_namesake_keeps_no_array_from_starting() {
    let world = tank();
    for name in ["n0", "n1", "n2"] {
        world.file(name, 20 * MIB);
    }
    world.run("create tank --level raid5 n0 n1 n2").done();
    let both = world.run("start --background --name tank .");
    both.failed(&["there are two arrays named \"tank\"", "--uuid"]);
    let uuid = |member: &str| {
        let examined = world.run(&format!("examine {member} --json")).json()["members"].take();
        examined[0]["array"]["uuid"].as_str().expect("an identity").to_owned()
    };
    let (mine, other) = (uuid("m0"), uuid("n0"));
    let names = ["n0", "n1", "n2"];
    assert_eq!(members(&world, &format!("--name tank --uuid {other} ."), &[]), names);
    world.run("stop tank").done();
    let told = [&format!("belongs to another array of this name, {mine}; this is {other}")[..]];
    assert_eq!(members(&world, "--name tank .", &told), names, "the last one");
    world.run("stop tank").done();
    boot(&world);
    fs::remove_file(world.path("n2")).expect("it goes");
    let told = [&format!("belongs to another array of this name, {other}; this is {mine}")[..]];
    assert_eq!(members(&world, "--name tank .", &told), ["m0", "m1", "m2"], "the whole one");
}

#[test]
fn a_start_knows_where_devices_are_that_came_while_the_array_ran() {
    let world = tank();
    world.run("start --background m0 m1 m2").done();
    fs::create_dir(world.path("far")).expect("a directory");
    for name in ["far/new", "far/spare"] {
        world.file(name, 20 * MIB);
    }
    world.run("disk replace tank 1 far/new --wait").done();
    world.run("disk add tank far/spare").done();
    world.run("stop tank").done();
    let all = ["m0", "new", "m2", "spare"];
    assert_eq!(members(&world, "m0 m1 m2", &["m1: the array has gone on without it"]), all);
    world.run("stop tank").done();
    assert_eq!(members(&world, "--name tank .", &[]), all);
    world.run("stop tank").done();
    boot(&world);
    world.run("start --background m0 m1 m2").failed(&["missing: member 1", "a spare (device "]);
    assert_eq!(members(&world, "--name tank . far", &[]), all);
}

#[test]
fn who_leaves_a_member_out_on_purpose_does_without_it() {
    let world = tank();
    world.run("start --background m0 m1 m2").done();
    world.run("stop tank").done();
    let told = ["started without member 2"];
    assert_eq!(members(&world, "--degraded m0 m1", &told), ["m0", "m1", "none"]);
}

#[test]
fn a_spare_that_is_not_there_is_told_brought_back_or_forgotten() {
    let world = tank();
    for name in ["one", "two"] {
        world.file(name, 20 * MIB);
    }
    world.run("start --background m0 m1 m2").done();
    world.run("disk add tank one").done();
    world.run("disk add tank two").done();
    let absent = |world: &World| {
        let status = world.status("tank");
        let absent = status["absent_spares"].as_array().expect("a list").clone();
        let problems = status["problems"].to_string();
        assert_eq!(problems.contains("a spare (device "), !absent.is_empty(), "{problems}");
        absent
    };
    assert_eq!(absent(&world).len(), 0);
    world.run("stop tank").done();
    boot(&world);
    let told = ["warning: a spare (device "];
    assert_eq!(members(&world, "m0 m1 m2", &told), ["m0", "m1", "m2"]);
    assert_eq!(absent(&world).len(), 2);
    // Its superblock says that it belongs to this array.
    world.run("disk add tank two").done();
    let left = absent(&world);
    let [left] = &left[..] else { panic!("one: {left:?}") };
    let left = left.as_str().expect("an identity");
    let hint = format!("evenkeel disk remove tank {left}");
    assert!(world.run("status").stdout.contains(&hint));
    world.run(&format!("disk remove tank {left}")).done();
    assert_eq!(absent(&world).len(), 0);
    world.run(&format!("disk remove tank {left}")).failed(&["has no spare"]);
    world.run("stop tank").done();
    let said = world.run("start --background m0 m1 m2").done();
    assert!(!said.contains("warning: a spare"), "{said}");
    assert_eq!(absent(&world).len(), 0);
}
