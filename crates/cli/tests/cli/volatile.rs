//! A write cache in memory: how it is chosen and left, and what becomes of front ends after a crash.

use serde_json::json;

use crate::world::World;

const MEMBERS: &str = "m0 m1 m2";

fn tank() -> World {
    let world = World::with_members(&[40; 3]);
    world.run(&format!("create tank --level raid5 --cache volatile {MEMBERS}")).done();
    world
}

#[test]
fn it_is_chosen_at_the_start_and_left_under_load() {
    let world = tank();
    let said = world.run(&format!("start --background --cache-memory 8M {MEMBERS}")).done();
    assert!(said.contains("by the policy plain/volatile"), "{said}");
    let volatile = &world.status("tank")["volatile"];
    assert_eq!((&volatile["holds"], &volatile["dirty_bytes"]), (&json!(true), &json!(0)));
    assert!(volatile["capacity_bytes"].as_u64() >= Some(6 << 20), "{volatile}");
    let said = world.run("cache list tank").done();
    assert!(said.contains("* volatile "), "{said}");
    assert!(world.run("status tank").done().contains("memory: all is at home"));
    let said = world.run("cache flush tank").done();
    assert!(said.contains("0 B were held, and are at home"), "{said}");

    let said = world.run("cache set tank none").done();
    assert!(said.contains("the cache is none from now on (policy plain)"), "{said}");
    assert_eq!(world.status("tank")["volatile"]["holds"], json!(false));
    let said = world.run("cache set tank vol:lrw").done();
    assert!(said.contains("from now on (policy plain/vol:lrw)"), "{said}");
    assert_eq!(world.status("tank")["volatile"]["holds"], json!(true));
    world.run("restart tank").done();
    assert_eq!(world.status("tank")["policy"], json!("plain/vol:lrw"));
    world.run("stop tank").done();

    world.run(&format!("start --background --policy plain {MEMBERS}")).done();
    assert_eq!(world.status("tank")["volatile"], json!(null));
    let said = world.run("cache set tank volatile").done();
    assert!(said.contains("from the next start on: `evenkeel restart tank`"), "{said}");
    world.run("restart tank").done();
    assert_eq!(world.status("tank")["volatile"]["holds"], json!(true));
    world.run("stop tank").done();
}

#[test]
fn after_a_crash_no_client_goes_on_by_itself() {
    let world = tank();
    let mut daemon = world.foreground(&format!("start {MEMBERS}"));
    daemon.kill().expect("it is killed");
    daemon.wait().expect("it has ended");
    let refused = world.run(&format!("start --background {MEMBERS}"));
    refused.failed(&["was not stopped cleanly", "a client of NBD", "--accept-lost-writes"]);
    // Another policy does not bring back what is lost.
    world.run(&format!("start --background --policy plain {MEMBERS}")).failed(&["is lost"]);
    // Nor does a start that fails, and stops it cleanly.
    world.run(&format!("start --background --fuse nowhere/m0 {MEMBERS}")).failed(&["nowhere"]);
    world.run(&format!("start --background {MEMBERS}")).failed(&["is lost"]);
    let said = world.run(&format!("examine {MEMBERS}")).done();
    assert!(said.contains("lost writes"), "{said}");
    world.run(&format!("start --background --accept-lost-writes {MEMBERS}")).done();
    world.run("restart tank").done();
    world.run("stop tank").done();
    world.run(&format!("start --background {MEMBERS}")).done();
    world.run("stop tank").done();
}

#[test]
fn virtual_machines_and_log_volumes_do_without() {
    let world = tank();
    let refused = world.run(&format!("start --background --vhost {MEMBERS}"));
    refused.failed(&["a virtual machine would go on without them"]);
    world.run(&format!("start --background --vhost --policy plain {MEMBERS}")).done();
    for chosen in ["cache set tank volatile", "policy set tank plain/volatile"] {
        world.run(chosen).failed(&["it serves virtual machines", "--vhost"]);
    }
    world.run("stop tank").done();
    world.run(&format!("start --background {MEMBERS}")).done();
    world.run("stop tank").done();
    let world = World::with_members(&[40; 6]);
    let members = "m0 m1 m2 m3 m4 m5";
    let refused =
        world.run(&format!("create log --layout swan5:2x3 --policy plain/volatile {members}"));
    refused.failed(&["this is a log volume"]);
}
