//! A write cache in memory: flushed, left and chosen again under load, and killed with writes that it holds.

use steering::hold::CACHES;

use crate::cache::VERIFY;
use crate::kills::{assert_kept, kill_amid_writes, prepare};
use crate::tools::wait_for;
use crate::world::World;

/// So little that it is full most of the time.
const SMALL: &str = "--cache-memory 2M";

fn written(world: &World) -> u64 {
    world.status()["volatile"]["written_bytes"].as_u64().expect("there is a cache")
}

#[test]
fn it_is_left_and_chosen_again_under_load_with_and_without_flushes() {
    let mut world = World::of("--level raid5 --chunk 16K --cache volatile", 4, 40);
    world.start(SMALL);
    for (cache, every) in
        CACHES.iter().filter(|cache| cache.is_volatile()).zip([1, 16, 0].iter().cycle())
    {
        let before = written(&world);
        let load = world.spawn("fio", &format!("{VERIFY} --fsync={every} --uri={}", world.uri()));
        wait_for("writes are held", || (written(&world) > before).then_some(()));
        for cache in ["none", cache.name] {
            let said = world.evenkeel(&format!("cache set tank {cache}"));
            assert!(said.contains(&format!("the cache is {cache} from now on")), "{said}");
        }
        world.evenkeel("cache flush tank");
        assert!(load.wait(), "fio has found something");
        world.assert_no_errors();
    }
    world.evenkeel("cache set tank none");
    assert_eq!(world.status()["volatile"]["dirty_bytes"], 0);
    let writes = &world.examine("m0")["volatile_writes"];
    assert_eq!(writes["held"], false, "nothing can be lost any more");
    world.assert_sound();
    world.stop();
}

#[test]
fn what_was_flushed_survives_a_kill_and_a_loss_is_to_be_accepted() {
    let mut world = World::of("--level raid5 --cache volatile", 4, 96);
    world.start(SMALL);
    let before = prepare(&world);
    kill_amid_writes(&mut world);
    assert_eq!(world.examine("m0")["volatile_writes"]["held"], true);

    let refused = world.try_evenkeel("start --nbd m0 m1 m2 m3");
    refused.refused(&["a client of NBD", "--accept-lost-writes"]);
    // Who uses the file is gone with the process.
    world.evenkeel("start --background --fuse mnt m0 m1 m2 m3");
    let problems = world.status()["problems"].to_string();
    assert!(problems.contains("lost-writes") && problems.contains("NBD is refused"), "{problems}");
    world.evenkeel("stop tank");
    let refused = world.try_evenkeel("start --nbd m0 m1 m2 m3");
    refused.refused(&["--accept-lost-writes"]);

    world.start(&format!("{SMALL} --accept-lost-writes"));
    assert_kept(&world, &before);
    world.assert_no_errors();
    world.assert_sound();
    world.stop();
    world.start(SMALL);
    assert_kept(&world, &before);
    world.stop();
}
