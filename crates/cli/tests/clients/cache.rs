//! The staging log as a write cache: small writes are acknowledged in it, come home under load in any
//! order, and the cache is changed and flushed meanwhile.

use steering::hold::CACHES;

use crate::tools::wait_for;
use crate::world::{World, json};

/// Small writes at random places over and over; it reads all of it back.
pub(crate) const VERIFY: &str = "fio --name=verify --rw=randwrite --bsrange=4k-16k --iodepth=8 --size=12m --loops=2 \
                      --randseed=3 --verify=crc32c --verify_backlog=64 --verify_fatal=1 \
                      --verify_state_save=0 --eta=never --ioengine=nbd";

#[test]
fn a_cache_is_changed_and_flushed_under_load() {
    let mut world = World::of("--level raid5 --chunk 16K --cache log", 4, 40).started();
    assert_eq!(world.status()["policy"], "plain/log");
    let mut again = 0;
    for cache in CACHES.iter().filter(|cache| !cache.is_volatile()) {
        let said = world.evenkeel(&format!("cache set tank {}", cache.name));
        assert!(said.contains(&format!("the cache is {} from now on", cache.name)), "{said}");
        let listed = world.evenkeel("cache list tank");
        assert!(listed.contains(&format!("* {} ", cache.name)), "{listed}");
        world.evenkeel("cache flush tank");
        let before = world.staging("writes");
        let load = world.spawn("fio", &format!("{VERIFY} --uri={}", world.uri()));
        if cache.name == "none" {
            assert!(load.wait(), "fio has found something");
            assert_eq!(world.staging("writes"), before);
            continue;
        }
        wait_for("writes are staged", || (world.staging("writes") > before).then_some(()));
        let flushed = json(&world.evenkeel("cache flush tank --json"))["result"].take();
        assert_eq!(flushed["staging"]["flushing"], false, "{flushed:#}");
        assert!(load.wait(), "fio has found something");
        again = world.staging("again_bytes");
        world.assert_no_errors();
    }
    assert!(again > 0, "blocks are overwritten in the log");
    world.evenkeel("cache flush tank --no-wait");
    wait_for("all is at home", || (world.staging("dirty_bytes") == 0).then_some(()));
    world.assert_sound();
    world.evenkeel("cache set tank log:wow-4");
    world.evenkeel("policy set tank reconstruct");
    assert_eq!(
        world.status()["policy"],
        "reconstruct/log:wow-4",
        "a policy leaves the cache alone"
    );
    world.stop();
    assert_eq!(world.examine("m3")["policy"]["name"], "reconstruct/log:wow-4");
    world.start("");
    assert_eq!(world.status()["staging"]["cache"], "log:wow-4");
    world.evenkeel("cache set tank none");
    assert_eq!(world.status()["policy"], "reconstruct");
    world.stop();
}

#[test]
fn a_cache_that_can_not_be_is_refused() {
    let mut world = World::of("--level raid5", 3, 40).started();
    let all = "none, log, log:most";
    world.try_evenkeel("cache set tank swan").refused(&["there is no cache \"swan\"", all]);
    world.try_evenkeel("cache set tank log").refused(&["no staging log", "create --cache log"]);
    assert!(world.evenkeel("cache flush tank").contains("neither a staging log nor"));
    assert_eq!(world.status()["policy"], "plain");
    world.stop();
    let start = "start --nbd --policy plain/log:swan m0 m1 m2";
    world.try_evenkeel(start).refused(&["plain/log:swan", "there is no such cache", all]);
    assert_eq!(world.examine("m0")["clean"], true);
}
