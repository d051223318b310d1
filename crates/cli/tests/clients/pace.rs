//! Users and background work share an array.

use crate::tools::wait_for;
use crate::world::{MIB, World};

#[test]
fn a_rebuild_gives_way_to_users_and_hurries_when_they_are_gone() {
    let mut world = World::new("raid5", 4, 40).started();
    world.file("new", 40 * MIB);
    // Less than two stripes in a day, while users are busy, whatever they feel of it.
    world.evenkeel("rebuild limit tank --min 1 --max 0 --slowdown 0");
    let requests = || world.status()["requests"]["completed"].as_u64();
    let done = || world.status()["pass"]["done_bytes"].as_u64();
    // So many that one of them always wants something, even if the machine has no processor for the others.
    let reads =
        "fio --name=reads --rw=randread --bs=4k --thread --numjobs=4 --iodepth=32 --size=16m";
    let target = format!("--time_based --runtime=600 --ioengine=nbd --uri={}", world.uri());
    let users = world.spawn("fio", &format!("{reads} {target}"));
    wait_for("users are busy", || (requests() > Some(100)).then_some(()));
    world.evenkeel("disk fail tank 1");
    world.evenkeel("disk replace tank 1 new");
    wait_for("the first stripe is rebuilt", || (done() >= Some(65_536)).then_some(()));
    assert!(done() < Some(4 * MIB), "it does not give way: {:#}", world.status());
    drop(users);
    world.evenkeel("rebuild status tank --wait");
    world.assert_sound();
    world.stop();
}
