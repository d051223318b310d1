//! What users asked for is counted, and told.

use serde_json::Value;

use crate::world::{MIB, World};

/// What is told of the only array.
fn array(told: &str) -> Value {
    let told: Value = serde_json::from_str(told).expect("one document");
    told["result"]["arrays"][0].clone()
}

/// What is told of a kind, in this list.
fn of(list: &Value, op: &str, up_to_bytes: Option<u64>) -> Value {
    let kinds = list.as_array().expect("a list");
    let found =
        kinds.iter().find(|one| one["op"] == op && one["up_to_bytes"].as_u64() == up_to_bytes);
    found.unwrap_or_else(|| panic!("no {op}: {list:#}")).clone()
}

#[test]
fn requests_are_told_by_kind_and_size() {
    let mut world = World::new("raid5", 3, 40).started();
    let mut nbd = world.nbd();
    for at in 0..7 {
        nbd.write(at * 4096, &[1; 4096], false).expect("a write");
    }
    nbd.write(MIB, &[2; 20 << 10], false).expect("a write");
    nbd.read(0, 16 << 10).expect("a read");
    nbd.read(0, 16 << 10).expect("a read");
    nbd.flush().expect("a flush");
    let told = array(&world.evenkeel("iostat --json"));
    assert_eq!(told["name"], "tank");
    let requests = &told["requests"];
    let small = of(requests, "write", Some(4096));
    assert_eq!(small["count"], 7, "{requests:#}");
    assert!(small["mean_us"].as_f64() > Some(0.0), "{small:#}");
    assert!(small["p50_us"].as_f64() <= small["p99_us"].as_f64(), "{small:#}");
    assert_eq!(of(requests, "write", Some(64 << 10))["count"], 1, "{requests:#}");
    assert_eq!(of(requests, "read", Some(4096))["count"], 0, "{requests:#}");
    assert!(of(requests, "read", Some(4096))["p99_us"].is_null(), "{requests:#}");
    assert_eq!(of(&told["totals"], "write", None)["count"], 8);
    assert!(of(&told["totals"], "flush", None)["count"].as_u64() >= Some(1));
    let reads = of(requests, "read", Some(16 << 10))["count"].as_u64();
    assert_eq!(
        of(&told["totals"], "read", None)["count"].as_u64(),
        reads.filter(|&reads| reads >= 2)
    );
    // Of a small write two members' blocks are written, and of a row all.
    let members = told["members"].as_array().expect("a list");
    let written =
        members.iter().filter_map(|member| of(&member["io"], "write", None)["count"].as_u64());
    assert!(members.len() == 3 && written.sum::<u64>() >= 16, "{members:#?}");
    // Nothing happens any more.
    let told = world.evenkeel("iostat 10ms 2 --json");
    let told: Vec<Value> = told.lines().map(array).collect();
    let counts = told.iter().map(|told| of(&told["totals"], "write", None)["count"].clone());
    assert_eq!(counts.collect::<Vec<_>>(), [0, 0]);
    assert!(told[1]["seconds"].as_f64() > Some(0.0), "{told:#?}");
    let text = world.evenkeel("iostat -w");
    for line in ["array, member", "tank", "  0 ", "tank: requests", "write ≤4 KiB", "0 write"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    world.stop();
}

#[test]
fn what_is_not_known_is_told_beside_the_others() {
    let world = World::new("raid5", 3, 40).started();
    let ended = world.try_evenkeel("iostat -a tank -a other --json");
    let told: Value = serde_json::from_str(&ended.stdout).expect("one document");
    assert_eq!(ended.code, Some(1));
    assert_eq!(told["result"]["arrays"][0]["name"], "tank");
    assert_eq!(told["result"]["arrays"][1]["error"]["code"], "not-running");
    for (line, why) in [("iostat 0", "at least 1ms"), ("iostat 1 0", "1..")] {
        world.try_evenkeel(line).refused(&[why]);
    }
}
