//! Simulated worlds, as a user plays them.

use crate::world::World;

#[test]
fn each_world_is_played_and_told() {
    let world = World::new();
    for (kind, words) in [
        ("array", "simulated hours"),
        ("log", "batches were replayed"),
        ("stack", "disks came back stale"),
    ] {
        let text = world.run(&format!("simulate --world {kind} --seeds 20")).done();
        for words in ["20 seeds", words, "No acknowledged write was lost"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let json = world.run(&format!("--json simulate --world {kind} --seeds 3")).json();
        assert_eq!((json["seeds"].as_u64(), &json["failure"]), (Some(3), &serde_json::Value::Null));
        assert!(json["requests"].as_u64() > Some(0) && json["faults"].is_object(), "{json}");
    }
    let trace = world.run("simulate --world stack --seed 2 --trace").done();
    assert!(trace.contains("Request") && trace.contains("Checkpoint"), "{}", trace.len());
    assert_eq!(world.run("simulate --world moon").code, 2);
}

/// A volume whose groups are too small: it is no valid world.
const IMPOSSIBLE: &str = r#"{"wish":{"groups":1,"group_blocks":100,"stripe":4,"segment":16,"spare":200},"tags":8,"buffers":6,"choice":"cost-benefit","cleaning":"blocking","checkpoint":200,"checkpoint_share":1,"forget":3,"requests":300,"lives":3,"blocks":20,"hot":10,"read":20,"write":50,"flush":5,"discard":2,"fua":3,"bad_reads":30,"bad_writes":0,"torn":true,"pace":50}"#;

#[test]
fn what_fails_is_made_smaller_and_can_be_seen_again() {
    let world = World::new();
    let ended =
        world.run(&format!("--json simulate --world log --seeds 5 --scenario {IMPOSSIBLE}"));
    assert_ne!(ended.code, 0, "{ended:?}");
    let json = ended.json();
    assert_eq!(json["failure"]["scenario"]["lives"], 3);
    let shrunk = &json["shrunk"]["scenario"];
    assert_eq!((&shrunk["lives"], &shrunk["choice"]), (&1.into(), &"greedy".into()), "{shrunk}");
    let again = format!("simulate --world log --trace --seed 0 --scenario {shrunk}");
    world.run(&again).failed(&["log seed 0", "use larger groups"]);
    let text = world.run(&format!("simulate --world log --seeds 1 --scenario {IMPOSSIBLE}"));
    assert!(text.stdout.contains("evenkeel simulate --world log --trace --seed"), "{text:?}");
    // A scenario of one kind of world is invalid for another.
    let other = format!("simulate --world stack --seeds 1 --scenario {IMPOSSIBLE}");
    world.run(&other).failed(&["--scenario", "same --world"]);
    let ended = world.run("simulate --scenario nothere");
    ended.failed(&[
        "--scenario takes the JSON",
        "this is no JSON",
        "what to do: scenarios have no names",
    ]);
}
