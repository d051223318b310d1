//! Profiles fitted to files, and advice by them, as a user types the commands.

use crate::world::{MIB, World};

/// What is asked of an array in these tests, without blanks.
const WORKLOAD: &str = "synthetic={read=0.5,size='4K',pace.open.rate=300}";

/// A round of advice that takes moments.
const BRIEF: &str = "--requests 200 --seeds 1";

#[test]
fn a_file_is_fitted_and_advice_follows_from_the_profile() {
    let world = World::with_members(&[16]);
    let text = world.run("lab fit --write --seconds 1 -o mine.toml m0").done();
    for words in ["under sustained writes", "the drive", "the profile", "unsure:", "./mine.toml"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let left = std::fs::read(world.path("m0")).expect("the file");
    assert!(left.iter().all(|&byte| byte == 0), "what was written is given back");
    // By reading only, any drive is taken for a generic one.
    let json = world.run("--json lab fit --seconds 1 -o read.toml m0").json();
    assert_eq!(json["fit"]["unsure"][0], "read_only");
    assert_eq!(json["profile"], "read.toml");

    let line = format!(
        "advise --profile ./mine.toml --drives 3 --workload {WORKLOAD} {BRIEF} --page advice.html"
    );
    let text = world.run(&line).done();
    for words in ["raid5, plain", "log-raid5", "recommended: ", "evenkeel create NAME", "unsure:"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let page = std::fs::read_to_string(world.path("advice.html")).expect("a page");
    assert!(page.contains("Advice") && page.contains("What is unsure") && page.contains("<svg"));
}

#[test]
fn members_are_read_for_advice_and_stay_as_they_are() {
    let world = World::with_members(&[16; 3]);
    world.overwrite("m1", MIB, b"precious");
    std::fs::write(world.path("some.spc"), "0,3072,4096,r,1.5\n0,9000,4096,w,1.6\n")
        .expect("a file");
    let before = world.contents(&["m0", "m1", "m2"]);
    let line =
        format!("--json advise --trace some.spc --seconds 1 --drive-size 16M {BRIEF} m0 m1 m2");
    let told = world.run(&line).json();
    assert_eq!(told["fits"].as_array().map(Vec::len), Some(3));
    let command = told["command"].as_str().expect("a command");
    assert!(command.starts_with("evenkeel create NAME --l"), "{command}");
    assert!(command.ends_with(" m0 m1 m2"), "{command}");
    assert!(world.contents(&["m0", "m1", "m2"]) == before, "nothing was written");
}

#[test]
fn what_carries_something_is_not_written() {
    let world = World::with_members(&[16; 3]);
    world.overwrite("m1", MIB, b"precious");
    let before = world.contents(&["m0", "m1", "m2"]);
    let words = ["m1 carries", "--write would destroy", "--force"];
    world.run("lab fit --write --seconds 1 m1").failed(&words);
    let line = format!("advise --write --seconds 1 --workload {WORKLOAD} m0 m1 m2");
    world.run(&line).failed(&words);
    assert!(world.contents(&["m0", "m1", "m2"]) == before, "not even the empty ones were written");
}

#[test]
fn impossible_drives_and_times_are_refused() {
    let world = World::with_members(&[16, 1]);
    world.run("lab fit nothere").failed(&["nothere"]);
    world.run("lab fit m1").failed(&["m1", "at least 16 MiB"]);
    for seconds in ["0", "1e9", "nan", "inf"] {
        world.run(&format!("lab fit --seconds {seconds} m0")).failed(&["--seconds", "86400"]);
    }
    assert_eq!(world.run("lab fit --seconds soon m0").code, 2);
    assert_eq!(world.run("lab fit --force m0").code, 2, "there is nothing to force");
    world.run("lab fit flash:mqsim:m0").failed(&["no modelled SSD yet", "--write"]);
    world
        .run(&format!("advise --seconds 1 --workload {WORKLOAD} m0"))
        .failed(&["at least two drives", "lab fit"]);
}

#[test]
fn hostile_profiles_are_refused() {
    let world = World::new();
    let advise = |profile: &str| world.run(&format!("advise --profile {profile} --workload hm_0"));
    advise("./nothere.toml").failed(&["nothere.toml"]);
    advise("no-such-drive").failed(&["no-such-drive"]);
    let femu = include_str!("../../../flashsim/profiles/femu-ioda.toml");
    let hostile = [
        "name = 5".to_owned(),
        "\u{0}\u{1}".to_owned(),
        femu.replace("blocks = ", "blocks = 4000000000 # "),
        femu.replace("channels = ", "channels = 0 # "),
        femu.replace("program_us = ", "program_us = -1 # "),
        femu.replace("read_us = ", "read_us = inf # "),
        femu.replace("spare = ", "spare = nan # "),
    ];
    for text in hostile {
        std::fs::write(world.path("bad.toml"), &text).expect("a file");
        advise("./bad.toml").failed(&["bad.toml"]);
    }
}

#[test]
fn hostile_workloads_are_refused() {
    let world = World::new();
    let advise = |what: &str| world.run(&format!("advise --profile femu-ioda {what}"));
    assert_eq!(advise("").code, 2, "there is no workload");
    assert_eq!(advise("--workload hm_0 --trace some.spc").code, 2, "there are two");
    assert_eq!(world.run("advise --workload hm_0").code, 2, "there are no drives");
    advise("--workload none").failed(&["--workload", "none"]);
    advise("--workload a=").failed(&["--workload"]);
    advise("--workload synthetic={read=7,size='4K',pace.open.rate=1}").failed(&["--workload"]);
    advise("--workload hm_0 --speed 0").failed(&["--speed"]);
    advise("--workload hm_0 --speed nan").failed(&["--speed"]);
    advise("--workload hm_0 --drives 1").failed(&["2 to 32 members, not 1"]);
    advise("--workload hm_0 --requests 0").failed(&["100 requests"]);
    advise("--trace nothere.csv").failed(&["nothere.csv"]);
    std::fs::write(world.path("bad.spc"), "0,3072,4096,r,1.5\n0,-1,9e99,w\n").expect("a file");
    advise("--trace bad.spc").failed(&["bad.spc"]);
    std::fs::write(world.path("empty.spc"), "").expect("a file");
    advise("--trace empty.spc").failed(&["empty.spc"]);
}
