//! What latency may cost, at creation.

use serde_json::json;

use crate::world::World;

const MEMBERS: &str = "m0 m1 m2";

#[test]
fn policy_and_cache_are_chosen_by_it_and_followed_on_drives_that_obey_nothing() {
    for (wear, policy, stages) in
        [("low", "hedge", false), ("balanced", "evenkeel", true), ("latency", "evenkeel/log", true)]
    {
        let world = World::with_members(&[40; 3]);
        world.run(&format!("create tank --level raid5 --wear {wear} {MEMBERS}")).done();
        let said = world.run(&format!("start --background {MEMBERS}")).done();
        assert!(!said.contains("warning"), "{said}");
        let status = world.status("tank");
        assert_eq!(status["policy"], json!(policy));
        // A twentieth of what is used of a member.
        let log = &status["staging"]["capacity_bytes"];
        assert_eq!(log.as_u64().is_some_and(|bytes| bytes > 1 << 20), stages, "{log}");
        world.run("stop tank").done();
    }
}
