//! The advice of `status` works.

use crate::world::{MIB, World};

/// The actions that `status` advises for problems that begin with these words.
fn advised(world: &World, what: &str) -> Vec<String> {
    let status = world.status("tank");
    let problems = status["problems"].as_array().expect("a list");
    let wanted =
        problems.iter().filter(|p| p["what"].as_str().is_some_and(|w| w.starts_with(what)));
    wanted.map(|p| p["action"].as_str().expect("words").to_owned()).collect()
}

/// The command in an action, with a path for PATH.
fn command(action: &str, path: &str) -> String {
    let command = action.rsplit('`').nth(1).expect("a command");
    command.strip_prefix("evenkeel ").expect("one of ours").replace("PATH", path)
}

#[test]
fn two_lost_members_are_replaced_in_the_order_that_is_advised() {
    let world = World::with_members(&[40; 5]);
    world.run("create tank --level raid6 --distributed-spare m0 m1 m2 m3 m4").done();
    world.run("start --background m0 m1 m2 m3 m4").done();
    world.run("disk fail tank 0").done();
    let spared = world.run("rebuild status tank --wait");
    assert!(spared.stdout.contains("stands in for member 0"), "{spared:?}");
    world.run("disk fail tank 1").done();
    assert_eq!(world.run("status").code, 4);

    // The member that the distributed spare replaces comes last.
    let [last] = &advised(&world, "member 0 is out of service")[..] else { panic!("an action") };
    assert!(last.contains("replace member 1 first, then this one: "), "{last}");
    let [first] = &advised(&world, "member 1 is out of service")[..] else { panic!("an action") };
    for (action, name) in [(first, "n1"), (last, "n0")] {
        world.file(name, 40 * MIB);
        world.run(&command(action, name)).done();
        world.run("rebuild status tank --wait");
    }
    assert_eq!(world.run("status").code, 0, "all is well");
    world.run("stop tank").done();
}
