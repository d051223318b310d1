//! The conditions of an array while clients use it.

use serde_json::Value;

use crate::tools::wait_for;
use crate::world::World;

/// The condition of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    Whole,
    /// As many members are missing as may be.
    Missing,
    /// As many are missing as may be, and one of them is being rebuilt.
    Rebuilding,
}

impl Condition {
    /// Brings an array that is whole into this condition.
    pub(crate) fn enter(self, world: &World) {
        if self == Self::Whole {
            return;
        }
        for member in 1..=redundancy(world) {
            world.evenkeel(&format!("disk fail tank {member}"));
        }
        if self == Self::Rebuilding {
            // So slow that it is never finished while the test runs.
            world.evenkeel("rebuild limit tank --min 32M --max 32M");
            replace(world, 1, "");
            let eighth = |pass: &Value| pass["done_bytes"].as_u64() > Some(8 << 20);
            wait_for("a part of the rebuild is done", || eighth(&pass(world)).then_some(()));
            world.evenkeel("rebuild limit tank --min 512K --max 512K");
        }
    }

    /// Checks that the condition has lasted until now, and that no client saw an error; then ends
    /// it.
    pub(crate) fn leave(self, world: &World) {
        let status = world.status();
        match self {
            Self::Whole => assert_eq!(status["health"], "online", "{status:#}"),
            Self::Missing => assert_eq!(status["health"], "degraded", "{status:#}"),
            Self::Rebuilding => {
                let pass = pass(world);
                assert_eq!(pass["task"], "rebuild", "it should have lasted: {status:#}");
                assert_eq!(pass["stuck_at_stripe"], Value::Null, "{pass:#}");
                world.evenkeel("rebuild limit tank --max 0");
                // Fails if other members are missing.
                world.try_evenkeel("rebuild status tank --wait");
            }
        }
        world.assert_no_errors();
        for member in 1..=redundancy(world) {
            if world.status()["members"][member]["state"] == "failed" {
                replace(world, member, "--wait");
            }
        }
        world.assert_sound();
    }
}

fn redundancy(world: &World) -> usize {
    let redundancy = world.status()["redundancy"].as_u64().expect("a number");
    redundancy.try_into().expect("a few")
}

fn pass(world: &World) -> Value {
    world.status()["pass"].take()
}

fn replace(world: &World, member: usize, options: &str) {
    let bytes = world.status()["member_bytes"].as_u64().expect("a size");
    world.file(&format!("new{member}"), bytes);
    world.try_evenkeel(&format!("disk fail tank {member}"));
    // Fails with --wait if yet another member is missing.
    world.try_evenkeel(&format!("disk replace tank {member} new{member} {options}"));
    let state = world.status()["members"][member]["state"].clone();
    assert!(state != "failed", "member {member} was not replaced: {:#}", world.status());
}
