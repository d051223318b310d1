//! The laboratory's commands, as a user types them.

use crate::world::World;

const EXPERIMENT: &str = "
title = 'Depth'
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
requests = 500
warmup = 100
seeds = 2
[sweep]
workload.synthetic.pace.closed.depth = [1, 16]
";

fn with_experiment() -> World {
    let world = World::new();
    std::fs::write(world.path("depth.toml"), EXPERIMENT).expect("a file");
    world
}

#[test]
fn an_experiment_is_run_compared_and_reported() {
    let world = with_experiment();
    let text = world.run("lab run depth.toml").done();
    for words in ["Depth", "depth=1", "depth=16", "requests/s", "write p99", "depth.jsonl"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let first = std::fs::read(world.path("depth.jsonl")).expect("results");
    let again = world.run("lab run depth.toml").done();
    assert!(again.contains("nothing was left to run"), "{again}");
    assert!(std::fs::read(world.path("depth.jsonl")).expect("results") == first);
    world.run("lab run --fresh --threads 1 depth.toml").done();
    assert!(std::fs::read(world.path("depth.jsonl")).expect("results") == first);

    let compared = world.run("lab compare depth.jsonl").done();
    assert!(compared.contains("ratio") && compared.contains("requests/s"), "{compared}");
    let json = world.run("--json lab compare depth.jsonl --base depth=16").json()["pairs"].take();
    assert_eq!(json[0]["base"], "depth=16");
    assert_eq!(json[0]["other"], "depth=1");

    world.run("lab report depth.jsonl -o depth.html").done();
    let page = std::fs::read_to_string(world.path("depth.html")).expect("a page");
    assert!(page.contains("Depth") && page.contains("<svg"), "{}", page.len());
}

#[test]
fn results_are_judged_by_what_is_expected() {
    let world = with_experiment();
    let expect = |name: &str, gate: &str| {
        format!("[[expect]]\nname = '{name}'\ncolumn = 'requests/s'\nclass = 'D'\n{gate}\n")
    };
    let right = format!("{EXPERIMENT}{}", expect("some are served", "at_least = 1.0"));
    std::fs::write(world.path("depth.toml"), &right).expect("a file");
    let text = world.run("lab run --check depth.toml").done();
    for words in ["some are served", "least of 2", "≥ 1.00", "pass", "1 of 1 gates"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    world.run("lab check depth.toml").done();
    // Expectations can be changed afterwards: nothing is run again.
    let why = "at_most = 2.0\nwhy = 'they are faster'";
    let wrong = format!("{right}{}", expect("hardly any", why));
    std::fs::write(world.path("depth.toml"), wrong).expect("a file");
    let text = world.run("lab run depth.toml").done();
    for words in ["nothing was left", "hardly any", "MISS", "1 of 2 gates", "they are faster"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_ne!(world.run("lab run --check depth.toml").code, 0);
    assert_ne!(world.run("lab check depth.toml depth.jsonl").code, 0);
    let json = world.run("--json lab run depth.toml").json();
    assert_eq!(json["expectations"][1]["verdict"], "miss");
    world.run("lab report depth.toml -o judged.html").done();
    let page = std::fs::read_to_string(world.path("judged.html")).expect("a page");
    assert!(page.contains("hardly any") && page.contains("MISS"));
    // Results of an experiment that has changed are of no use.
    let other = right.replace("requests = 500", "requests = 600");
    std::fs::write(world.path("depth.toml"), other).expect("a file");
    world.run("lab check depth.toml").failed(&["run it again"]);
    world.run("lab check depth.jsonl").failed(&["[[expect]]"]);
}

#[test]
fn parts_of_a_sweep_are_merged() {
    let world = with_experiment();
    world.run("lab run depth.toml").done();
    world.run("lab run depth.toml --shard 1/3").done();
    world.run("lab run depth.toml --shard 3/3").done();
    let partly = world.run("lab merge depth.1-of-3.jsonl depth.3-of-3.jsonl -o some.jsonl").done();
    assert!(partly.contains("lacks 1 of its 4 shards: 2"), "{partly}");
    world.run("lab run depth.toml --shard 2/3").done();
    let files = "depth.1-of-3.jsonl depth.2-of-3.jsonl depth.3-of-3.jsonl";
    let json = world.run(&format!("--json lab merge {files} -o all.jsonl")).json();
    assert_eq!(
        (json["shards"].as_u64(), json["missing"].as_array().map(Vec::len)),
        (Some(4), Some(0))
    );
    let read = |name| std::fs::read(world.path(name)).expect("results");
    assert!(read("all.jsonl") == read("depth.jsonl"));
}

#[test]
fn an_ssd_is_measured_by_itself() {
    let world = World::new();
    let text =
        world.run("lab ssd femu-ioda --blocks 64 --set geometry.pages=32 --requests 1000 --set gc.scope=device").done();
    for words in ["femu-ioda", "over-provisioned", "p99.99", "device WAF", "a second"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let line = "--json lab ssd femu-ioda --blocks 64 --set geometry.pages=32 --requests 1000 --fresh --seed 7 --workload \
                synthetic={read=1.0,size=4096}";
    let json = world.run(line).json();
    assert_eq!(json["figures"]["reads"]["count"], 1000);
    assert_eq!(json["point"]["ssd"]["use"], "fresh");
    let list = world.run("lab profiles").done();
    assert!(list.contains("msr2008") && list.contains("nvme-tlc"), "{list}");
}

#[test]
fn the_model_is_compared_with_what_others_found() {
    let world = World::new();
    let text = world.run("lab validate --short md1 mqsim").done();
    assert!(text.contains("M/D/1") && text.contains("0 off"), "{text}");
    std::fs::write(
        world.path("some.toml"),
        "title = 'some'\n[validate]\nshort = true\nsections = ['md1']\n",
    )
    .expect("a file");
    let json = world.run("--json lab run some.toml").json();
    assert_eq!(json["off"], 0);
    world.run("lab validate nothing").failed(&["nothing", "uniform", "pts"]);
}

#[test]
fn traces_are_described() {
    let world = World::new();
    let trace = "0,20941264,8192,W,0.551706\n0,20939840,8192,R,0.554041\n1,3072,4096,r,1.5\n";
    std::fs::write(world.path("some.spc"), trace).expect("a file");
    let text = world.run("lab trace info some.spc").done();
    assert!(text.contains("requests") && text.contains('3'), "{text}");
    std::fs::write(world.path("torn.spc"), format!("{trace}0,1,4096")).expect("a file");
    world.run("lab trace info torn.spc").failed(&["torn.spc", "line 4"]);
    world.run("lab trace info none.spc").failed(&["none.spc"]);
}

#[test]
fn mistakes_are_told() {
    let world = with_experiment();
    let spoil = |from: &str, to: &str| {
        let text = EXPERIMENT.replacen(from, to, 1);
        std::fs::write(world.path("bad.toml"), text).expect("a file");
        world.run("lab run bad.toml")
    };
    spoil("blocks", "bloks").failed(&["bad.toml", "line 8", "bloks", "expected"]);
    spoil("64", "2").failed(&["bad.toml", "line 8", "geometry.blocks", "at least 8"]);
    spoil("'raid5'", "'raid5").failed(&["bad.toml", "line 4"]);
    assert!(!world.path("bad.jsonl").exists());
    world.run("lab run none.toml").failed(&["none.toml"]);
    world.run("lab compare none.jsonl").failed(&["none.jsonl"]);
    std::fs::write(world.path("x.jsonl"), "{}\n").expect("a file");
    world.run("lab report x.jsonl").failed(&["x.jsonl", "line 1"]);
    world.run("lab ssd best-ssd").failed(&["best-ssd", "msr2008"]);
    world.run("lab ssd msr2008 --set gc.start=0.99").failed(&["gc.start"]);
    world.run("lab ssd msr2008 --set nothing").failed(&["--set", "gc.start=0.1"]);
    world.run("lab ssd msr2008 --workload read=1").failed(&["workload", "read"]);
    for line in ["lab", "lab run", "lab run x.toml --shard 0/4", "lab run x.toml --shard 5/4"] {
        assert_eq!(world.run(line).code, 2, "{line}");
    }
}

#[test]
fn a_swan_is_planned_as_in_the_paper() {
    let world = World::new();
    let text = world.run("plan swan --throughput 100M --measured 4000,19.5,15.6").done();
    let create = "create NAME --layout swan5:4x3 --segment 2MiB --over-provisioning 40.0%";
    for words in ["4 groups of 3 members", create, "Eq 1", "3.05", "1.86"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    world.run("plan swan --throughput 100M --measured 4000,19.5").failed(&["three times"]);
    world.run("plan swan --throughput 100M --profile nothing").failed(&["nothing"]);
    // It is printed, however large it is.
    let text = world.run("plan swan --throughput 9P --parity 2").done();
    assert!(text.contains("at most 96"), "{text}");
}

/// What the results show is what the command prints.
#[test]
fn lives_are_planned_as_documented() {
    let world = World::new();
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/ages.md");
    let results = std::fs::read_to_string(results).expect("the results");
    let text = world.run("plan life").done();
    assert!(results.contains(&format!("$ evenkeel plan life\n{}\n```", text.trim_end())), "{text}");
    let planned = |line: &str| {
        let told = world.run(&format!("--json plan life --draws 100 {line}")).json();
        let strategies = told["strategies"].as_array().expect("strategies").iter();
        strategies.map(|one| (one["strategy"].to_string(), one.clone())).collect::<Vec<_>>()
    };
    let figure = |line: &str, strategy: usize, name: &str| {
        planned(line)[strategy].1[name].as_f64().expect("a number")
    };
    let names: Vec<_> = planned("").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["\"even\"", "\"fixed\"", "\"diff-raid\"", "\"staggered\""]);
    // The text has these, too.
    let near = |found: f64, expected: f64| (found - expected).abs() < 0.0006;
    assert!(near(figure("--per-day 1T", 3, "small_write_speed"), 0.964));
    assert!(near(figure("--replace-at 100%", 3, "least_left"), 0.140));
    let six = "--members 6 --small 0.8";
    assert!(near(figure(six, 3, "small_write_speed"), 0.943));
    assert!(near(figure(six, 3, "least_small_write_speed"), 0.579));
    // The journal's entries are where parity is, so it takes less uneven shares.
    let shares = |line: &str| planned(line)[3].1["parity_shares"].clone();
    assert_eq!(shares("--consistency journal"), serde_json::json!([0.38, 0.29, 0.21, 0.12]));
    assert_eq!(shares(""), shares("--consistency journal"));
    for bare in ["--consistency resync", "--consistency bitmap"] {
        assert_eq!(shares(bare), serde_json::json!([0.5, 0.33, 0.17, 0.0]));
        assert!(near(figure(bare, 3, "small_write_speed"), 0.965));
    }
    let given = planned("--shares 40,30,20,10 --level 5");
    assert_eq!(given[1].1["parity_shares"], serde_json::json!([0.4, 0.3, 0.2, 0.1]));
    assert_eq!(given[1].1["calendar"][0]["member"], 0);
}

#[test]
fn lives_that_can_not_be_are_refused() {
    let world = World::new();
    for (line, words) in [
        ("--members 0", "3 to 32 members, not 0"),
        ("--level raid4", "RAID5 and RAID6 only"),
        ("--shares 20,20,20,20,20", "5 parity shares for 4 members"),
        ("--gap 30%", "22% apart at most"),
        ("--per-day 0", "what users write a day"),
        ("--per-day 8000P", "look less far ahead"),
        ("--small 1.5", "not 150%"),
        ("--years 0", "look ahead"),
        ("--capacity 61T", "less than 10 times"),
        ("--spread 60%", "0 to 50%"),
        ("--draws 0", "not 0"),
    ] {
        world.run(&format!("plan life {line}")).failed(&[words]);
    }
    for (line, words) in [
        ("--shares 5,10,15,71", "101%"),
        ("--shares 5,x", "whole percent for each member"),
        ("--gap 1.5%", "whole percent"),
        ("--spread wide", "is not a part"),
    ] {
        let ended = world.run(&format!("plan life {line}"));
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(words), "{ended:?}");
    }
}

/// An SSD of 64 MiB that erases 128 KiB at once and writes 39 MiB a second.
const TINY: &str = "
name = 'tiny'
geometry = { channels = 2, chips = 1, dies = 1, planes = 1, blocks = 512, pages = 16, page_bytes = 4096 }
nand = { read_us = 25, program_us = 200, erase_us = 750 }
ftl = { spare = 0.1 }
gc = { start = 0.03 }
";

#[test]
fn a_plan_is_played() {
    let world = World::new();
    std::fs::write(world.path("tiny.toml"), TINY).expect("a file");
    let plan = "plan swan --profile ./tiny.toml --segment 64K --ssd-size 60M --verify";
    let text = world.run(&format!("{plan} --throughput 10M --used 0.4")).done();
    for words in ["swan5:2x3", "of 512 blocks a plane", "stalls", "keeps up", "nobody waits"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Too few groups: larger arrays are tried.
    let plan = plan.replace("64K", "256K");
    let ended = world.run(&format!("--json {plan} --throughput 50M --used 0.8"));
    assert_ne!(ended.code, 0, "{ended:?}");
    let played = &ended.json()["played"];
    assert_eq!((&played["confirmed"], &played["erased_at_once"]), (&false.into(), &131_072.into()));
    let arrays = played["arrays"].as_array().expect("arrays");
    let groups = |at: usize| arrays[at]["groups"].as_u64().expect("groups");
    assert_eq!((groups(0), groups(2)), (1 + groups(1), 2 + groups(1)));
    assert!(arrays[0]["figures"]["log"]["stalls"].as_u64() > Some(0), "{played}");
    let last = arrays.last().expect("the largest");
    assert_eq!((&last["verdict"], &last["groups"]), (&"keeps up".into(), &played["enough"]));
    assert_eq!((&played["segment"], &played["larger_segment"]), (&262_144.into(), &().into()));
    // Segments so small that SSDs have to collect (and no whole chunk): a suitable one is
    // simulated, too.
    let plan = plan.replace("256K", "60K");
    let ended = world.run(&format!("{plan} --throughput 50M --used 0.8"));
    assert_eq!(ended.code, 1, "{ended:?}");
    for words in ["64KiB", "they erase 128 KiB at once: with --segment 128KiB"] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
}

#[test]
fn what_can_not_be_played_is_refused() {
    let world = World::new();
    std::fs::write(world.path("tiny.toml"), TINY).expect("a file");
    for line in [
        "plan swan --throughput 100M --measured 4000,19.5,15.6 --verify",
        "plan swan --throughput 100M --seconds 3",
    ] {
        let ended = world.run(line);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains("--verify"), "{ended:?}");
    }
    let plan = "plan swan --profile ./tiny.toml --verify";
    world.run(&format!("{plan} --throughput 2G")).failed(&["at most 32 of 32"]);
    world.run(&format!("{plan} --throughput 10M --seconds 0")).failed(&["--seconds is 0"]);
    world.run(&format!("{plan} --throughput 10M --segment 64M")).failed(&["log.segment", "64 MiB"]);
    world.run(&format!("{plan} --throughput 10M --ssd-size 1M")).failed(&["use larger groups"]);
}
