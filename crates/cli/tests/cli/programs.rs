//! The output of `--json`: one envelope for all commands.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::Value;

use crate::world::World;

/// The envelope's version, as docs/programs.md has it.
const SCHEMA: u64 = 1;

const EXPERIMENT: &str = "
title = 'Two'
[array]
level = 'raid5'
members = 3
[ssd]
profile = 'femu-ioda'
blocks = 64
set.geometry = { channels = 2, chips = 2, pages = 32 }
overwrites = 1.0
[workload.synthetic]
read = 0.5
size = '4K'
pace.closed.depth = 1
[run]
requests = 200
[sweep]
workload.synthetic.pace.closed.depth = [1, 16]
[[expect]]
name = 'some are served'
column = 'requests/s'
class = 'D'
at_least = 1.0
";

/// A line for each command that the help lists, in an order in which they succeed; and whether they do.
const LINES: &[(&str, &str, bool)] = &[
    ("create", "tank --level raid5 m0 m1 m2", true),
    ("examine", "m0 m1 m2", true),
    ("examine", "m0 nothere", true),
    ("import", "--dry-run m0 m1 m2", false),
    ("start", "--background m0 m1 m2", true),
    ("reshape", "tank --members +1", false),
    ("restart", "tank", true),
    ("list", "", true),
    ("iostat", "", true),
    ("monitor", "--once", true),
    ("top", "", false),
    ("exporter", "--listen 192.0.2.1:1", false),
    ("events", "tank", true),
    ("history", "", true),
    ("status", "tank", true),
    ("status", "", true),
    ("status", "tank --why", true),
    ("status", "other", false),
    ("disk add", "tank m3", true),
    ("disk remove", "tank m3", true),
    ("disk fail", "tank 1", true),
    ("rebuild start", "tank m4 --wait", true),
    ("disk replace", "tank 2 m5 --wait", true),
    ("rebuild status", "tank", true),
    ("rebuild limit", "tank --min 1M", true),
    ("rebuild order", "tank", true),
    ("rebuild pause", "tank", false),
    ("rebuild resume", "tank", false),
    ("scrub start", "tank --wait", true),
    ("scrub status", "tank --wait", true),
    ("scrub cancel", "tank", false),
    ("policy list", "tank", true),
    ("policy set", "tank reconstruct", true),
    ("cache list", "tank", true),
    ("cache set", "tank none", true),
    ("cache flush", "tank", true),
    ("stop", "tank", true),
    ("simulate", "--seeds 2", true),
    ("lab run", "two.toml", true),
    ("lab compare", "two.jsonl", true),
    ("lab check", "two.toml", true),
    ("lab report", "two.jsonl", true),
    ("lab merge", "two.jsonl -o all.jsonl", true),
    ("lab ssd", "femu-ioda --blocks 64 --set geometry.pages=32 --requests 100 --fresh", true),
    ("lab fit", "--seconds 1 m5", true),
    (
        "advise",
        "--profile femu-ioda --drives 3 --drive-size 16M --requests 100 --seeds 1 --workload hm_0",
        true,
    ),
    ("lab trace info", "some.spc", true),
    ("lab validate", "--short md1", true),
    ("lab profiles", "", true),
    ("plan swan", "--throughput 100M", true),
    ("plan life", "--draws 10", true),
    ("demo", "--dir nothere", false),
];

/// The last commands of the tree below `words`, as the help lists them.
pub(crate) fn listed(world: &World, words: &str, found: &mut BTreeSet<String>) {
    let help = world.run(&format!("{words} --help")).done();
    let Some((_, commands)) = help.split_once("\nCommands:\n") else {
        found.insert(words.to_owned());
        return;
    };
    let lines = commands.lines().take_while(|line| !line.is_empty());
    let named = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for command in named.filter_map(|line| line.split_whitespace().next()) {
        if command != "help" {
            listed(world, format!("{words} {command}").trim(), found);
        }
    }
}

/// What is in an envelope of this command: the result, or the error.
#[track_caller]
fn opened(line: &str, command: &str) -> Result<Value, Value> {
    let told: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
    let has = told.as_object().map_or(0, serde_json::Map::len);
    assert_eq!((has, told["schema"].as_u64()), (3, Some(SCHEMA)), "{line}");
    assert_eq!(told["command"], command, "{line}");
    match (&told["result"], &told["error"]) {
        (Value::Object(_), Value::Null) => Ok(told["result"].clone()),
        (Value::Null, Value::Object(error)) => {
            assert!(error["code"].is_string() && error["message"].is_string(), "{line}");
            Err(told["error"].clone())
        }
        _ => panic!("neither result nor error: {line}"),
    }
}

/// Whether there are lists in lists, whose elements have no names. Series over time may be.
fn has_unnamed(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().any(|one| one.is_array() || has_unnamed(one)),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name != "timeline" && has_unnamed(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[test]
fn every_command_has_a_line_here() {
    let mut found = BTreeSet::new();
    listed(&World::new(), "", &mut found);
    let lines: BTreeSet<String> = LINES.iter().map(|(words, ..)| (*words).to_owned()).collect();
    assert_eq!(lines, found);
}

#[test]
fn every_command_tells_programs_one_envelope() {
    let world = World::with_members(&[20; 6]);
    std::fs::write(world.path("two.toml"), EXPERIMENT).expect("a file");
    std::fs::write(world.path("some.spc"), "0,3072,4096,r,1.5\n").expect("a file");
    for (words, arguments, succeeds) in LINES {
        let ended = world.run(&format!("{words} {arguments} --json"));
        assert_eq!(ended.stdout.lines().count(), 1, "{words} {arguments}: {ended:?}");
        match opened(ended.stdout.trim_end(), words) {
            Ok(result) => {
                assert!(*succeeds, "{words} {arguments}: {ended:?}");
                assert!(!has_unnamed(&result), "{words} {arguments}: {result}");
            }
            Err(_) => assert!(!succeeds && ended.code == 1, "{words} {arguments}: {ended:?}"),
        }
    }
}

#[test]
fn wrong_usage_is_told_to_programs_in_the_same_way() {
    let world = World::new();
    for (words, ..) in LINES {
        let ended = world.run(&format!("{words} --nothing-of-the-kind --json"));
        let error = opened(ended.stdout.trim_end(), words).expect_err("it is refused");
        assert_eq!((ended.code, &error["code"]), (2, &"usage".into()), "{words}: {ended:?}");
        assert_eq!(ended.stderr, "");
        let (message, hint) = (error["message"].as_str(), error["hint"].as_str());
        assert!(message.is_some_and(|told| told.contains("--nothing-of-the-kind")), "{error}");
        assert!(hint.is_some_and(|hint| hint.contains(&format!("{words} --help"))), "{error}");
    }
    for (line, command) in [("--json", ""), ("--json destroy tank", ""), ("disk --json", "disk")] {
        let ended = world.run(line);
        let error = opened(ended.stdout.trim_end(), command).expect_err("it is refused");
        assert_eq!((ended.code, &error["code"]), (2, &"usage".into()), "{line}: {ended:?}");
    }
    // An argument after `--` is not taken for an option.
    assert!(world.run("status -- --json x").stderr.contains("--help"));
}

#[test]
fn what_goes_on_is_told_line_by_line() {
    let world = World::new();
    let ended = world.run("simulate --trace --seed 2 --json");
    assert!(ended.stdout.lines().count() > 1, "{ended:?}");
    for line in ended.stdout.lines() {
        assert!(opened(line, "simulate").expect("a result")["line"].is_string(), "{line}");
    }
}

#[test]
fn a_demonstration_that_is_kept_is_told_in_one_envelope() {
    let world = World::new();
    std::fs::create_dir(world.path("demo")).expect("a directory");
    let ended = world.run("demo --dir demo --size 24M --seconds 1 --keep --json");
    let told = opened(ended.stdout.trim_end(), "demo").expect("a result");
    let kept = |what: &str| told["kept"][what].as_str().expect("it is told").to_owned();
    let stop = format!("stop {} --run-dir {}", kept("name"), kept("run_directory"));
    world.run(&stop).done();
    assert!(told["phases"].is_array(), "{told}");
    assert!(world.path("demo").join(kept("directory")).is_dir());
}

#[test]
fn members_may_be_called_anything() {
    let world = World::with_members(&[20; 3]);
    let names = [OsStr::from_bytes(b"m\xff 2"), OsStr::from_bytes(b"n\xc3'\"")];
    for (member, name) in ["m1", "m2"].iter().zip(names) {
        let to = world.path("").join(name);
        std::fs::rename(world.path(member), to).expect("a new name");
    }
    let path = |world: &World| world.status("tank")["members"][1]["path"].clone();
    let ends = |path: Value, with: &str| path.as_str().is_some_and(|path| path.ends_with(with));
    world.run_with("create tank --level raid1 m0", names[0]).done();
    let examined = world.run_with("examine --json", names[0]).json();
    assert_eq!(examined["members"][0]["path"], "m\0ff 2");
    world.run_with("start --background m0", names[0]).done();
    assert!(ends(path(&world), "/m\0ff 2"), "{}", path(&world));
    assert!(world.run("status tank").done().contains("online"));
    // The control socket takes them, too.
    world.run_with("disk replace tank 1 --wait", names[1]).done();
    assert!(ends(path(&world), "/n\0c3'\""), "{}", path(&world));
    world.run("stop tank").done();
    world.run("start --background m0").done();
    assert!(ends(path(&world), "/n\0c3'\""), "it is remembered: {}", path(&world));
}
