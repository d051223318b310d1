//! Images are copied to an array and back.

use std::fs;

use serde_json::Value;

use crate::condition::Condition;
use crate::tools::{attempt, pattern, run};
use crate::world::{MIB, World};

/// Copies an image there while `condition` lasts, and back when it is over.
fn there_and_back(condition: Condition, mib: u64) {
    let mut world = World::new("raid5", 4, 96).started();
    let bytes = mib * MIB;
    let image = world.path("image");
    fs::write(&image, pattern(mib, bytes as usize)).expect("a file");
    condition.enter(&world);
    world.copy_in(&image);
    world.compare(&image);
    condition.leave(&world);
    let back = world.path("back");
    run("libnbd-bin", &format!("nbdcopy {} {}", world.uri(), back.display()));
    let cmp = format!("cmp --bytes={bytes} {} {}", image.display(), back.display());
    run("diffutils", &cmp);
    world.compare(&image);
    world.assert_no_errors();
    world.stop();
}

#[test]
fn an_image_while_all_is_well() {
    there_and_back(Condition::Whole, 256);
}

#[test]
fn an_image_while_a_member_is_missing() {
    there_and_back(Condition::Missing, 128);
}

#[test]
fn an_image_while_a_member_is_rebuilt() {
    there_and_back(Condition::Rebuilding, 128);
}

#[test]
fn nbdinfo_tells_what_the_array_is() {
    let mut world = World::new("raid5", 4, 40).started();
    let print = run("libnbd-bin", &format!("nbdinfo --json {}", world.uri()));
    let info: Value = serde_json::from_str(&print).expect("JSON");
    let export = &info["exports"][0];
    assert_eq!(export["export-name"], "tank");
    assert_eq!(export["export-size"], world.status()["capacity_bytes"]);
    assert_eq!(export["block_size_minimum"], 4096);
    for able in ["can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"] {
        assert_eq!(export[able], true, "{able}: {export:#}");
    }
    let unknown = world.uri().replacen("/tank?", "/another?", 1);
    attempt("libnbd-bin", &format!("nbdinfo {unknown}")).refused(&["another"]);
    world.stop();
}
