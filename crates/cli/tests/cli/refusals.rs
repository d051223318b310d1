//! Invalid commands are refused: with a message, an exit code, and without any change.

use crate::world::{MIB, World};
use raidcore::meta::SUPERBLOCKS;
use raidcore::units::BLOCK_BYTES;
use ublkd::attach::examine;

const THREE: &[&str] = &["m0", "m1", "m2"];

/// Runs `line`, which must fail, say `words` and leave `names` as they are.
#[track_caller]
fn refused(world: &World, names: &[&str], line: &str, words: &[&str]) {
    let before = world.contents(names);
    world.run(line).failed(words);
    assert!(world.contents(names) == before, "`{line}` has changed a member");
}

fn three() -> World {
    World::with_members(&[20; 3])
}

fn tank() -> World {
    let world = three();
    world.run("create tank --level raid5 m0 m1 m2").done();
    world
}

fn superblock(copy: usize) -> u64 {
    SUPERBLOCKS[copy].0 * BLOCK_BYTES as u64
}

#[test]
fn a_path_that_can_not_be_examined_hides_no_other() {
    let world = tank();
    let ended = world.run("examine m0 nothere m2 --json");
    assert_eq!(ended.code, 1, "{ended:?}");
    let told = ended.json()["members"].take();
    let has_error = |at: usize| told[at]["error"]["message"].is_string();
    assert_eq!([0, 1, 2].map(has_error), [false, true, false], "{told}");
    let told = world.run("examine nothere m1").stdout;
    assert!(told.contains("tank"), "{told}");
    assert_eq!(told.matches("No such file").count(), 1, "{told}");
}

#[test]
fn paths_are_told_as_a_shell_takes_them() {
    let world = World::new();
    let (blank, escape) = ("a disk", "m\u{1b}[2J");
    world.file(blank, 20 * MIB);
    for (name, shown) in [(blank, "'a disk'"), (escape, r"$'m\x1B[2J'")] {
        let ended = world.run_with("examine", name.as_ref());
        let told = format!("{}{}", ended.stdout, ended.stderr);
        assert!(told.contains(shown) && !told.contains('\u{1b}'), "{told:?}");
    }
    let create = "create tank --level raid1 --file-size 20M m0";
    let ended = world.run_with(create, "b disk".as_ref());
    assert!(ended.done().contains("start --background m0 'b disk'"));
}

#[test]
fn a_time_may_have_a_unit() {
    let world = three();
    for time in ["0", "0s", "1ms"] {
        world.run(&format!("simulate --seeds 1 --time {time}")).done();
    }
}

#[test]
fn wrong_usage_is_told_from_failure() {
    let world = three();
    let before = world.contents(THREE);
    for line in [
        "",
        "destroy tank",
        "create",
        "create tank m0 m1 m2",
        "create tank --level raid5",
        "create tank --level raid7 m0 m1 m2",
        "create tank --level raid5 --chunk big m0 m1 m2",
        "create tank --level raid5 --file-size 8E m0 m1 m2",
        "simulate --time soon",
        "create tank --level raid5 --consistency none m0 m1 m2",
        "create tank --level raid5 --staging 64M m0 m1 m2",
        "create tank --level raid5 --staging dedicated: m0 m1 m2",
        "create tank --level raid5 --cache swan m0 m1 m2",
        "create tank --level raid5 --policy plain/log:swan m0 m1 m2",
        "create tank --layout swan5:2x2 --cache log m0 m1 m2 m3",
        "start",
        "start --nbd-tcp nowhere m0",
        "start --cpus= m0 m1 m2",
        "start --cpus 1- m0 m1 m2",
        "start --cpus 3-1 m0 m1 m2",
        "start --cpus 0-1024 m0 m1 m2",
        "start --nbd-tcp 127.0.0.1:0 --nbd-tls-certificate c m0",
        "start --nbd-tcp 127.0.0.1:0 --nbd-tls-key k m0",
        "start --nbd --nbd-tls-certificate c --nbd-tls-key k m0",
        "start --nbd-tcp 127.0.0.1:0 --nbd-tls-clients a m0",
        "disk replace tank 1",
        "rebuild limit tank",
        "status a b",
        "create tank --level raid5 --chunk -1 m0 m1 m2",
        "create tank --level raid5 --file-size -1 m0 m1 m2",
        "create tank --level raid5 --member-size -1 m0 m1 m2",
        "demo --size -1",
        "simulate --seeds -1",
        "rebuild limit tank --max -1",
    ] {
        let ended = world.run(line);
        assert_eq!(ended.code, 2, "`{line}`: {ended:?}");
        assert!(ended.stderr.contains("--help"), "`{line}`: {ended:?}");
        let wrong = if line.contains(" -1") { "invalid value '-1'" } else { "" };
        assert!(ended.stderr.contains(wrong), "`{line}`: {ended:?}");
    }
    assert!(world.contents(THREE) == before);
}

#[test]
fn a_screen_needs_a_terminal() {
    let world = World::new();
    world.run("top").failed(&["needs a terminal", "evenkeel iostat 1"]);
    assert_eq!(world.run("top 0s").code, 2);
}

#[test]
fn impossible_shapes_are_refused() {
    let world = three();
    let refused = |line: &str, words: &[&str]| refused(&world, THREE, line, words);
    refused("create tank --level raid5 m0 m1", &["takes 3 to 32 members, not 2"]);
    refused("create tank --level raid6 m0 m1 m2", &["takes 4 to 32 members, not 3"]);
    refused("create tank --level raid10 m0 m1 m2", &["takes 4 to 32 members, not 3"]);
    let odd = World::with_members(&[20; 5]);
    let ended = odd.run("create tank --level raid10 m0 m1 m2 m3 m4");
    ended.failed(&["takes an even number of members", "pairs", "not 5"]);
    refused("create a/b --level raid5 m0 m1 m2", &["can't be an array's name"]);
    for chunk in ["3K", "12K", "2M", "0"] {
        for command in ["create tank --level raid5 m0 m1 m2", "reshape tank"] {
            let ended = world.run(&format!("{command} --chunk {chunk}"));
            assert_eq!(ended.code, 2, "{chunk}: {ended:?}");
            assert!(ended.stderr.contains("power of two from 4K to 1M"), "{chunk}: {ended:?}");
        }
    }
    refused("create a/b --level raid5 m0 none", &["can't be an array's name"]);
    refused("create tank --level raid5 m0 m1 ./m1", &["./m1", "same device"]);
    refused("create tank --level raid5 m0 m1 none", &["none does not exist", "--file-size"]);
    refused("create tank --level raid5 m0 m1 /dev/null", &["/dev/null is neither"]);
    refused("create tank --level raid5 --member-size 1M m0 m1 m2", &["needs at least"]);
    refused(
        "create tank --level raid5 --member-size 1G m0 m1 m2",
        &["m0 has 20 MiB, less than the 1024 MiB", "--member-size"],
    );
    refused("create tank --level raid1 --policy evenkeel m0 m1", &["needs parity", "--policy"]);
    refused("create tank --level raid1 --wear balanced m0 m1", &["needs parity", "--wear"]);
    for other in ["--policy hedge", "--cache log"] {
        let line = format!("create tank --level raid5 --wear low {other} m0 m1 m2");
        assert_eq!(world.run(&line).code, 2, "{other}");
    }
    let words = ["\"rotate\" lets members take turns", "flash:PROFILE", "evenkeel"];
    refused("create tank --level raid5 --policy rotate --staging reserved:1M m0 m1 m2", &words);
}

#[test]
fn staging_logs_that_can_not_be_are_refused() {
    let all: Vec<String> = (0..32).map(|member| format!("m{member}")).collect();
    let world = World::with_members(&[4; 32]);
    let refused = |level: &str, members: usize, staging: &str, words: &[&str]| {
        let names: Vec<&str> = all[..members].iter().map(String::as_str).collect();
        let line = format!("create tank --level {level} --staging reserved:{staging}");
        refused(&world, &names, &format!("{line} {}", names.join(" ")), words);
    };
    refused("raid0", 3, "1M", &["needs parity", "raid0 has none", "raid6"]);
    refused("raid1", 2, "1M", &["needs parity", "raid1 has none"]);
    refused("raid5", 32, "1M", &["raid5 takes at most 31 members, not 32"]);
    refused("raid5", 3, "252K", &["252 KiB is too small", "from 256 KiB to 1024 MiB"]);
    refused("raid5", 3, "1%", &["40 KiB is too small", "reserved:SIZE"]);
    refused("raid5", 3, "1025M", &["is too large", "to 1024 MiB"]);
    refused("raid5", 3, "4M", &["needs at least"]);
}

#[test]
fn staging_devices_that_can_not_be_are_refused() {
    let world = World::with_members(&[40, 40, 40, 4]);
    let refused = |line: &str, words: &[&str]| refused(&world, &["m0", "m1", "m2"], line, words);
    let line = "create tank --level raid5 --staging dedicated:m1 m0 m1 m2";
    refused(line, &["m1 and m1 are the same device"]);
    let line = "create tank --level raid5 --staging dedicated:m3 m0 m1 m2";
    refused(line, &["a staging device needs at least", "the smallest has 4096 KiB"]);
    let twice = "create tank --level raid5 --staging reserved:1M --staging reserved:2M m0 m1 m2";
    refused(twice, &["only once"]);
}

#[test]
fn a_cache_needs_parity() {
    let world = three();
    let line = "create tank --level raid1 --cache log m0 m1";
    refused(
        &world,
        THREE,
        line,
        &["needs parity", "raid1 has none", "leave --staging, and a --cache"],
    );
}

#[test]
fn members_of_different_sizes_are_taken_and_it_is_said() {
    let world = World::with_members(&[20, 30, 25]);
    let said = world.run("create tank --level raid5 m0 m1 m2").done();
    assert!(said.contains("m0 is the smallest (20 MiB) and rules"), "{said}");
    assert!(said.contains("15 MiB of the others stay unused"), "{said}");
    world.run("start --background m0 m1 m2").done();
}

#[test]
fn what_members_carry_is_overwritten_only_by_force() {
    let world = three();
    world.overwrite("m1", 1080, &[0x53, 0xef]);
    let line = "create tank --level raid5 m0 m1 m2";
    refused(&world, THREE, line, &["m1 carries an ext2 filesystem", "--force"]);
    let said = world.run(&format!("{line} --force")).done();
    assert!(said.contains("m1: overwrote an ext2 filesystem"), "{said}");
    refused(&world, THREE, line, &["m0 carries a member of the Evenkeel array \"tank\""]);
}

#[test]
fn cpus_that_are_not_there_are_refused_before_anything_is_begun() {
    let world = tank();
    for line in ["start --cpus 1023", "start --background --cpus 0,1022-1023"] {
        let words = &["can't run on CPUs 10", "1023: they are not there", "by --cpus"];
        refused(&world, THREE, &format!("{line} m0 m1 m2"), words);
    }
    world.run("start --background m0 m1 m2").done();
    world.run("stop tank").done();
}

#[test]
fn members_that_do_not_belong_together_are_refused() {
    let world = World::with_members(&[20; 6]);
    world.run("create tank --level raid5 m0 m1 m2").done();
    world.run("create other --level raid5 m3 m4 m5").done();
    let all = &["m0", "m1", "m2", "m3", "m4", "m5"];
    refused(&world, all, "start --background m0 m1 m5", &["/m5 belongs to the array"]);
    refused(&world, all, "start --background m0 m1", &["missing: member 2", "--degraded"]);
    refused(&world, all, "start --background --degraded m0", &["2 members are missing"]);
    refused(&world, all, "start --background --name none .", &["no member of the array \"none\""]);
    let absent = &["/absent", "No such file"];
    refused(&world, all, "start --background --name tank . absent", absent);
    world.file("empty", 20 * MIB);
    refused(&world, all, "start --background m0 m1 empty", &["/empty: it is not a member"]);
    refused(&world, all, "start --background m0 m1 absent", &["/absent", "--degraded"]);
}

#[test]
fn superblocks_are_needed_by_quorum() {
    let world = tank();
    world.overwrite("m1", superblock(0), &[0; BLOCK_BYTES]);
    world.overwrite("m1", superblock(2) + 300, &[0xff; 9]);
    world.run("start --background m0 m1 m2").done();
    world.run("stop tank").done();
    let said = world.run("examine m1").done();
    assert!(said.contains("4 of 4 intact"), "the start has mended them: {said}");

    for copy in 0..3 {
        world.overwrite("m1", superblock(copy) + 20, &[0xff; 2]);
    }
    let line = "start --background m0 m1 m2";
    refused(&world, THREE, line, &["/m1: only 1 of its 4 superblocks", "member 1", "--degraded"]);
    let examined = world.run("examine m1");
    assert_eq!(examined.code, 1);
    assert!(examined.stdout.contains("1 of 4 intact"), "{examined:?}");
    let before = world.contents(&["m1"]);
    let said = world.run(&format!("{line} --degraded")).done();
    assert!(said.contains("warning: ") && said.contains("/m1: only 1 of its 4"), "{said}");
    world.run("stop tank").done();
    assert!(world.contents(&["m1"]) == before, "what is left out is not touched");
}

#[test]
fn truncated_members_are_refused() {
    for left in [0, 100, 4096, 2 * MIB, 20 * MIB - 4096] {
        let world = tank();
        let file = std::fs::File::options().write(true).open(world.path("m2")).expect("m2");
        file.set_len(left).expect("it is truncated");
        refused(&world, THREE, "start --background m0 m1 m2", &["/m2"]);
    }
}

#[test]
fn features_of_later_releases_are_refused() {
    let world = tank();
    let superblock_of = examine(&world.path("m1")).expect("a file").superblock.expect("a member");
    let (mut record, device) = (superblock_of.record, superblock_of.device);
    record.features.incompatible = 1 << 40;
    let mut block = vec![0; BLOCK_BYTES];
    record.encode(device, &mut block);
    for copy in 0..SUPERBLOCKS.len() {
        world.overwrite("m1", superblock(copy), &block);
    }
    let line = "start --background m0 m1 m2";
    refused(&world, THREE, line, &["/m1", "features that this release does not know"]);
}

#[test]
fn missing_members_are_told_by_number_device_and_time() {
    let world = tank();
    let device = |name: &str| {
        world.run(&format!("examine {name} --json")).json()["members"][0]["device"].clone()
    };
    let member = |number: u8, name: &str| {
        format!("member {number} (device {})", device(name).as_str().expect("an identity"))
    };
    let (one, two) = (member(1, "m1"), member(2, "m2"));
    let line = "start --background m0 m1";
    let missing = format!("missing: {two}; there when the array ran last, so connect them");
    refused(&world, THREE, line, &[&missing, "--degraded"]);
    let said = world.run("start --background --degraded m0 m1").done();
    let told = format!("without {two}, there when the array ran last, and out of service from now");
    assert!(said.contains(&told), "{said}");
    world.run("stop tank").done();
    let said = world.run("start --background m0 m1").done();
    assert!(said.contains(&format!("without {two}, out of service for ")), "{said}");
    world.run("stop tank").done();
    let missing = format!("missing: {one}; out of service before: {two}");
    let hint = "connect member 1; member 2 is out of service for ";
    refused(&world, THREE, "start --background --degraded m0", &[&missing, hint]);
}

#[test]
fn a_front_end_that_can_not_serve_ends_the_start() {
    let world = tank();
    let start = |options: &str| world.run(&format!("start --background {options} m0 m1 m2"));
    start("--fuse nowhere").failed(&["nowhere", "mkdir"]);
    start("--nbd=absent/socket").failed(&["absent/socket"]);
    start("--nbd --nbd-tcp 0.0.0.0:0").failed(&["0.0.0.0:0", "other machines"]);
    let tls = "--nbd-tcp 127.0.0.1:0 --nbd-tls-certificate absent --nbd-tls-key absent";
    start(tls).failed(&["/absent: it can't be read"]);
    assert!(world.run("examine m0").done().contains("cleanly"));
    assert!(world.run("status").done().contains("no array is running"));
    start("--nbd --nbd-tcp 127.0.0.1:0").done();
    let fronts = &world.status("tank")["fronts"];
    assert_eq!(fronts.as_array().map(Vec::len), Some(2), "{fronts}");
}

#[test]
fn an_array_runs_once() {
    let world = tank();
    world.run("start --background m0 m1 m2").done();
    let it = format!("evenkeel (process {}) has it", world.status("tank")["pid"]);
    world.run("start --background m0 m1 m2").failed(&["/m0 is in use", &it]);
    world.run("create new --level raid5 --force m0 m1 m2").failed(&["m0 is in use"]);
    assert_eq!(world.status("tank")["health"], "online");
    let twin = World::with_members(&[20; 3]);
    twin.run("create tank --level raid5 m0 m1 m2").done();
    let run_dir = world.run_dir();
    let line = format!("start --background m0 m1 m2 --run-dir {}", run_dir.display());
    refused(&twin, THREE, &line, &["an array named \"tank\" is already running"]);
}

#[test]
fn an_array_without_redundancy_spares_no_member() {
    let world = three();
    world.run("create tank --level raid0 m0 m1").done();
    world.run("start --background m0 m1").done();
    let words =
        ["no redundancy left", "this level has none: `evenkeel disk replace tank NUMBER PATH`"];
    world.run("disk fail tank 1").failed(&words);
    world.run("scrub start tank").failed(&["no redundancy"]);
    assert_eq!(world.status("tank")["health"], "online");
}

#[test]
fn a_running_array_refuses_what_would_harm_it() {
    let world = World::with_members(&[20, 20, 20, 20, 16]);
    world.run("create tank --level raid5 m0 m1 m2").done();
    world.run("start --background m0 m1 m2").done();
    world.overwrite("m3", 0, b"XFSB");
    let new = &["m3", "m4"];
    refused(&world, new, "disk add tank m3", &["m3 carries an XFS filesystem", "--force"]);
    refused(&world, new, "disk add tank m4", &["m4", "the array needs"]);
    refused(&world, new, "disk add tank m4 --force", &["m4", "the array needs"]);
    refused(&world, new, "disk replace tank 7 m3 --force", &["has no member 7"]);
    refused(&world, new, "rebuild start tank m3", &["nothing to rebuild"]);
    world.run("disk add tank m0 --force").failed(&["m0 is in use"]);
    world.run("disk remove tank m1").failed(&["in use as member 1", "disk fail tank 1"]);
    world.run("disk remove tank nothing").failed(&["has no spare"]);
    let none = ["no such background work", "evenkeel rebuild status tank"];
    for line in ["rebuild pause tank", "rebuild resume tank", "scrub cancel tank"] {
        world.run(line).failed(&none);
    }
    world.run("rebuild limit tank --min 2M --max 1M").failed(&["minimum"]);
    let none = ["no rebuild order \"backwards\"", "evenkeel rebuild order"];
    world.run("rebuild order tank backwards").failed(&none);
    world.run("disk fail tank 1").done();
    world.run("disk fail tank 1").failed(&["already failed", "evenkeel status tank"]);
    world.run("disk fail tank 2").failed(&["no redundancy left"]);
    assert_eq!(world.status("tank")["health"], "degraded");
}

#[test]
fn what_does_not_run_can_not_be_asked() {
    let world = three();
    for line in ["status tank", "stop tank", "disk fail tank 1", "scrub start tank"] {
        let words = ["\"tank\" is not running", "no array runs here", "evenkeel start"];
        world.run(line).failed(&words);
    }
    world.run("create other --level raid5 m0 m1 m2").done();
    world.run("start --background m0 m1 m2").done();
    // A socket on which nothing answers is no running array.
    std::fs::write(world.run_dir().join("dead.sock"), "").expect("a file");
    world.run("status tank").failed(&["\"tank\" is not running", "these run here: other;"]);
    std::fs::remove_file(world.run_dir().join("dead.sock")).expect("it goes");
    world.run("stop other").done();
    let ended = world.run("stop tank --json");
    assert_eq!((ended.code, &ended.envelope()["error"]["code"]), (1, &"not-running".into()));
    assert!(world.run("status").done().contains("no array is running"));
    assert_eq!(world.run("status --json").json(), serde_json::json!({ "arrays": [] }));
    world.file("plain", 20 * MIB);
    let ended = world.run("examine plain");
    assert_eq!(ended.code, 1);
    assert!(ended.stdout.contains("not a member of an Evenkeel array"), "{ended:?}");
}

#[test]
fn impossible_parity_shares_are_refused() {
    let world = three();
    world.file("m3", 20 * MIB);
    let refused = |code: i32, options: &str, words: &[&str]| {
        let names = &["m0", "m1", "m2", "m3"][..if options.contains("raid6") { 4 } else { 3 }];
        let before = world.contents(names);
        let ended = world.run(&format!("create tank {options} {}", names.join(" ")));
        assert_eq!(ended.code, code, "{options}: {ended:?}");
        for word in words {
            assert!(ended.stderr.contains(word), "{word}: {ended:?}");
        }
        assert!(world.contents(names) == before, "`{options}` has changed a member");
    };
    refused(2, "--level raid5 --parity-shares 20,30", &["add up to 50%", "100%"]);
    refused(2, "--level raid5 --parity-shares 20,30,fifty", &["whole percent", "5,10,15,70"]);
    let both = "--level raid5 --placement parity-last --parity-shares 20,30,50";
    refused(2, both, &["cannot be used with"]);
    refused(1, "--level raid5 --parity-shares 50,50", &["2 parity shares for 3 members"]);
    refused(1, "--level raid4 --parity-shares 20,30,50", &["raid4 has no placement uneven"]);
    refused(1, "--level raid0 --parity-shares 20,30,50", &["raid0 has no placement uneven"]);
    let most = ["51%", "no member can have more than 50%"];
    refused(1, "--level raid6 --parity-shares 51,9,20,20", &most);
    refused(1, "--level raid4 --parity-shares auto", &["raid4 has no placement uneven"]);
}

#[test]
fn members_that_do_not_tell_their_age_are_named() {
    let world = three();
    let before = world.contents(&["m1"]);
    let line = "create tank --level raid5 --file-size 20M --parity-shares auto flash:mqsim:s m1 m2";
    let ended = world.run(&format!("{line} --json"));
    let error = &ended.envelope()["error"];
    assert_eq!((ended.code, &error["code"]), (1, &"no-age".into()), "{ended:?}");
    world.run(line).failed(&["m1, m2 do not tell how worn they are", "5,10,15,70"]);
    assert!(world.contents(&["m1"]) == before && !world.path("s").exists());
}

#[test]
fn parity_shares_follow_from_ages() {
    let world = three();
    let created = |name: &str, more: &str| {
        let members = format!("flash:mqsim:{name}a flash:mqsim:{name}b flash:mqsim+aged:{name}c");
        let line = "--level raid5 --file-size 20M --parity-shares auto";
        let told = world.run(&format!("create {name} {line} {more} {members}")).done();
        for words in
            ["have used 0, 0, 0% of their lives", "15% apart", "times as fast as with even shares"]
        {
            assert!(told.contains(words), "{words}: {told}");
        }
        let examined = format!("examine {name}a --json");
        let array = world.run(&examined).json()["members"][0]["array"].take();
        let shares = array["parity_shares"].as_array().expect("they are uneven").clone();
        let shares: Vec<u64> = shares.iter().filter_map(serde_json::Value::as_u64).collect();
        assert!(shares.iter().sum::<u64>() == 100, "{shares:?}");
        assert!(shares.is_sorted_by(|a, b| a > b), "{shares:?}");
        shares
    };
    // The journal, too, is written where parity is.
    assert!(created("tank", "")[0] < created("bare", "--consistency resync")[0]);
}

#[test]
fn parity_shares_are_shown() {
    let world = three();
    world.run("create tank --level raid5 --parity-shares 20,30,50 m0 m1 m2").done();
    let told = world.run("examine m1").done();
    assert!(told.contains("raid5 (parity 20, 30, 50%) of 3 members"), "{told}");
    assert!(told.contains("md has no such layout"), "{told}");
    let array = world.run("examine m1 --json").json()["members"][0]["array"].take();
    assert_eq!(array["placement"], "uneven", "{array}");
    assert_eq!(array["parity_shares"], serde_json::json!([20, 30, 50]), "{array}");
}
