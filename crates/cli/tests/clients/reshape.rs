//! Arrays that become others while they are used.

use serde_json::Value;

use crate::tools::pattern;
use crate::world::{MIB, World};

/// Waits until nothing is left to be reshaped.
fn wait(world: &World) {
    world.evenkeel("rebuild status tank --wait");
    assert_eq!(world.status()["reshaped_from"], Value::Null);
}

/// The array's bytes, up to its end as far as they are known.
fn compare(world: &World, content: &[u8]) {
    let mut nbd = world.nbd();
    let parts = (0..).step_by(MIB as usize).zip(content.chunks(MIB as usize));
    for (at, part) in parts {
        assert_eq!(nbd.read(at, part.len() as u32).as_deref(), Ok(part), "at {at}");
    }
}

fn fill(world: &World, content: &[u8]) {
    let mut nbd = world.nbd();
    let parts = (0..).step_by(MIB as usize).zip(content.chunks(MIB as usize));
    for (at, part) in parts {
        assert_eq!(nbd.write(at, part, false), Ok(()));
    }
}

#[test]
fn an_array_gets_members_and_another_level_and_keeps_what_it_holds() {
    let mut world = World::new("raid5", 3, 40);
    world.evenkeel("start --background --nbd m0 m1 m2");
    let before = world.status()["capacity_bytes"].as_u64().expect("a number");
    let content = pattern(3, before as usize);
    fill(&world, &content);
    let refused = world.try_evenkeel("reshape tank --members +1");
    refused
        .refused(&["1 spares would become members, and 0 are there", "by the program that ran it"]);
    compare(&world, &content);

    world.file("m3", 40 * MIB);
    world.evenkeel("disk add tank m3");
    world.evenkeel("reshape tank --members +1");
    compare(&world, &content);
    wait(&world);
    compare(&world, &content);
    let after = world.status();
    assert_eq!(after["level"], "raid5");
    let grown = after["capacity_bytes"].as_u64().expect("a number");
    assert_eq!(grown * 2, before * 3, "one member more holds data");
    world.assert_event(&["reshape", "resize2fs", "clients of NBD connect again"]);
    let mut whole = content;
    whole.resize(grown as usize, 0);
    compare(&world, &whole);
    assert_eq!(world.nbd().write(grown - 4096, &[9; 4096], true), Ok(()), "all of it is there");
    whole[grown as usize - 4096..].fill(9);
    world.evenkeel("stop tank");
    world.evenkeel("start --background --nbd m0 m1 m2 m3");
    assert_eq!(world.status()["capacity_bytes"], grown);
    compare(&world, &whole);

    world.file("m4", 40 * MIB);
    world.evenkeel("disk add tank m4");
    world.evenkeel("reshape tank --level raid6 --members 5");
    let mut nbd = world.nbd();
    let end = grown - MIB;
    assert_eq!(nbd.write(end, &[7; 4096], true), Ok(()), "it is used meanwhile");
    whole[end as usize..][..4096].fill(7);
    drop(nbd);
    wait(&world);
    // Two of the five may go.
    world.evenkeel("disk fail tank 0");
    world.evenkeel("disk fail tank 3");
    compare(&world, &whole);
    world.evenkeel("stop tank");
    world.set_members("m1 m2 m4");
}

#[test]
fn a_reshape_goes_on_after_the_process_was_killed() {
    let mut world = World::new("raid5", 3, 40);
    world.file("m3", 40 * MIB);
    world.set_members("m0 m1 m2");
    world.start("");
    let content = pattern(4, world.status()["capacity_bytes"].as_u64().expect("a number") as usize);
    fill(&world, &content);
    world.evenkeel("disk add tank m3");
    world.stop();
    world.set_members("m0 m1 m2 m3");
    // The option that `evenkeel reshape` gives to the process that begins it.
    world.start("--reshape raid6:4::");
    for _ in 0..3 {
        world.kill();
        world.start("");
        compare(&world, &content);
    }
    wait(&world);
    compare(&world, &content);
    world.stop();
    world.start("");
    assert_eq!(world.status()["level"], "raid6");
    compare(&world, &content);
}

#[test]
fn an_array_gets_other_chunks_and_all_of_members_that_have_become_larger() {
    let mut world = World::new("raid5", 3, 40);
    world.set_members("m0 m1 m2");
    world.start("");
    let before = world.status()["capacity_bytes"].as_u64().expect("a number");
    let mut content = pattern(5, before as usize);
    fill(&world, &content);
    for chunk in ["16K", "256K"] {
        world.stop();
        world.start(&format!("--reshape ::{chunk}:"));
        compare(&world, &content);
        world.kill();
        world.start("");
        wait(&world);
        compare(&world, &content);
    }
    world.stop();
    let start = "start --background --nbd m0 m1 m2";
    world.evenkeel(start);
    let refused = world.try_evenkeel("reshape tank --size max");
    refused.refused(&["can't be reshaped: a member has", "replace it by a larger one first"]);
    assert_eq!(world.status()["chunk_bytes"], 256 << 10);

    for member in ["m0", "m1", "m2"] {
        let file = std::fs::File::options().write(true).open(world.path(member));
        file.and_then(|file| file.set_len(70 * MIB)).expect("it becomes larger");
    }
    let said = world.evenkeel("reshape tank --size max");
    assert!(said.contains("xfs_growfs"), "{said}");
    let after = world.status()["capacity_bytes"].as_u64().expect("a number");
    assert_eq!(after - before, 2 * 30 * MIB, "two of three members hold data");
    content.resize(after as usize, 0);
    compare(&world, &content);
    let mut nbd = world.nbd();
    assert_eq!(nbd.write(after - MIB, &[7; 4096], true), Ok(()), "all of it is there");
    content[(after - MIB) as usize..][..4096].fill(7);
    drop(nbd);
    world.evenkeel("stop tank");
    world.start("");
    world.evenkeel("disk fail tank 1");
    compare(&world, &content);
    world.stop();
}
