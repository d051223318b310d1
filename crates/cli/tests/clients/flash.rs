//! Arrays of modelled SSDs: the effect of garbage collection on clients, and the state after a
//! restart.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use evenkeel_client::{FlashLog, FlashReport};
use flashsim::Ssd;
use serde_json::{Value, json as value};

use crate::tools::{pattern, run, wait_for};
use crate::world::{MIB, World, json};

const MEMBERS: u8 = 3;

/// fio reports the end of a request in milliseconds, from an epoch in milliseconds that it took at
/// its start.
const FIO_PRECISION_NS: u64 = 20_000_000;

/// Writes at random places, and reads all of it back.
const VERIFY: &str = "fio --name=verify --rw=randwrite --bsrange=4k-64k --iodepth=8 --size=24m \
                      --randseed=7 --verify=crc32c --verify_backlog=64 --verify_fatal=1 \
                      --verify_state_save=0 --eta=never --ioengine=nbd";

/// An array of used SSDs that runs.
fn tank() -> World {
    tank_with("")
}

fn tank_with(options: &str) -> World {
    let drives = (0..MEMBERS).map(|number| format!("flash:mqsim+aged+told+obeys:m{number}"));
    let drives = drives.collect::<Vec<_>>().join(" ");
    let options = format!("--level raid5 --file-size 40M {options}");
    let mut world = World::empty().with_array(&options, &drives).started();
    // From now on they are known by the state beside them.
    world.set_members("m0 m1 m2");
    world
}

/// How a member is.
fn report(world: &World, member: u8) -> FlashReport {
    let report = &world.status()["members"][usize::from(member)]["flash"];
    serde_json::from_value(report.clone()).unwrap_or_else(|error| panic!("{error}: {report}"))
}

/// What a member did since the start.
fn log(world: &World, member: u8) -> FlashLog {
    let mut control = UnixStream::connect(world.path("run/tank.sock")).expect("a control socket");
    let request = value!({ "v": 1, "cmd": "flash-log", "disk": member.to_string(), "since": 0 });
    writeln!(control, "{request}").expect("it can be written to");
    let mut answer = String::new();
    BufReader::new(control).read_line(&mut answer).expect("it answers");
    serde_json::from_value(json(&answer)["ok"].take()).expect("a log")
}

/// Writes at random places, so that garbage has to be collected.
fn make_garbage(world: &World, options: &str) {
    let job = "fio --name=garbage --bs=4k --iodepth=4 --number_ios=300 --size=24m --randseed=1";
    let target = format!("--eta=never --ioengine=nbd --uri={}", world.uri());
    run("fio", &format!("{job} --rw=randrw {target} {options}"));
}

/// When a request of fio was under way: from its log of latencies.
fn fio_requests(world: &World) -> Vec<(u64, u64)> {
    let log = fs::read_to_string(world.path("fio_lat.1.log")).expect("fio's log");
    let request = |line: &str| {
        let mut numbers = line.split(", ").map(|number| number.parse::<u64>());
        let (Some(Ok(ms)), Some(Ok(ns))) = (numbers.next(), numbers.next()) else {
            panic!("no line of a log of latencies: {line}");
        };
        (ms * 1_000_000 - ns, ms * 1_000_000)
    };
    log.lines().map(request).collect()
}

#[test]
fn clients_see_the_stalls_that_the_model_tells_of() {
    let mut world = tank();
    let clock = "--log_alternate_epoch=1 --log_alternate_epoch_clock_id=1";
    let log_to = format!("--write_lat_log={}", world.path("fio").display());
    make_garbage(&world, &format!("{clock} {log_to}"));
    let requests = fio_requests(&world);
    assert_eq!(requests.len(), 300);
    let mut seen = 0;
    for member in 0..MEMBERS {
        let (log, report) = (log(&world, member), report(&world, member));
        assert!(!log.gc.is_empty(), "member {member} had no garbage to collect");
        assert!(log.gc.windows(2).all(|pair| pair[0].ended < pair[1].began), "{:?}", log.gc);
        let collected: u64 = log.gc.iter().map(|gc| gc.ended - gc.began).sum();
        assert!(collected <= report.drive.gc_ns, "{collected} ns: {report:?}");
        let counted = report.reads_delayed.count + report.writes_delayed.count;
        assert!(log.delayed.len() as u64 <= counted, "{counted} of {}", log.delayed.len());
        for io in &log.delayed {
            assert!(io.began <= io.modelled && io.modelled <= io.ended, "done too early: {io:?}");
            let met = log.gc.iter().any(|gc| gc.began < io.modelled && io.began < gc.ended);
            assert!(met, "nothing was collected during {io:?}");
            // Nothing is read ahead, so fio waited as well.
            let began = io.began + FIO_PRECISION_NS;
            let waited =
                |&(from, to): &(u64, u64)| from <= began && io.ended <= to + FIO_PRECISION_NS;
            assert!(!io.read || requests.iter().any(waited), "no request of fio waited for {io:?}");
            seen += usize::from(io.read);
        }
    }
    assert!(seen > 0, "no read waited for garbage collection");
    world.assert_sound();
    world.stop();
}

#[test]
fn an_ssd_outlives_the_process() {
    let mut world = tank();
    make_garbage(&world, "");
    let before = report(&world, 0).drive;
    world.stop();
    let stored = || Ssd::restore(&fs::read(world.path("m0.flash")).expect("a state"));
    let stored = stored().expect("a drive").stats();
    world.start("");
    let after = report(&world, 0).drive;
    assert!(before.erases > 0 && before.waf > 1.0, "{before:?}");
    // Stopping and starting write a little.
    assert!(before.pages_written < stored.pages_written, "{before:?}, {stored:?}");
    assert!(stored.pages_written < after.pages_written, "{stored:?}, {after:?}");
    assert!(before.erases <= stored.flash.erases, "{before:?}, {stored:?}");
    assert!(stored.flash.erases <= after.erases, "{stored:?}, {after:?}");
    assert!(after.pages_written < before.pages_written + 200, "{before:?}, {after:?}");
    world.assert_sound();

    let content = pattern(7, MIB as usize);
    assert_eq!(world.nbd().write(0, &content, true), Ok(()));
    world.kill();
    world.start("");
    assert!(report(&world, 0).drive.erases >= stored.flash.erases, "an older state, but a state");
    assert_eq!(world.nbd().read(0, content.len() as u32), Ok(content));
    world.evenkeel("rebuild status tank --wait");
    world.assert_sound();
    world.stop();
}

#[test]
fn a_state_that_is_none_stops_the_start_and_says_so() {
    let mut world = tank();
    world.stop();
    let state = fs::read(world.path("m1.flash")).expect("a state");
    fs::write(world.path("m1.flash"), &state[..state.len() / 2]).expect("it can be written");
    let start = |members: &str| world.try_evenkeel(&format!("start --background --nbd {members}"));
    start("m0 m1 m2").refused(&["m1.flash can't be used", "damaged", "Delete it"]);
    fs::remove_file(world.path("m1.flash")).expect("it is there");
    start("m0 m1 flash:sata-mlc:m2").refused(&["m2.flash", "\"mqsim+told+obeys\"", "\"sata-mlc\""]);
    start("m0 flash:floppy:m1 m2").refused(&["there is no profile \"floppy\""]);
    start("m0 flash:mqsim m2").refused(&["flash:mqsim+aged:PATH"]);
    world.start("");
    assert_eq!(world.status()["members"][1]["flash"], Value::Null, "a plain file");
    world.assert_sound();
    world.stop();
    world.set_members("m0 flash:mqsim:m1 m2");
    world.start("");
    assert_eq!(report(&world, 1).drive.erases, 0, "a new SSD");
    world.assert_sound();
    world.stop();
}

#[test]
fn members_are_replaced_by_modelled_ssds() {
    let mut world = tank();
    for name in ["new", "spare"] {
        world.file(name, 40 * MIB);
    }
    world.evenkeel("disk replace tank 1 flash:mqsim+filled:new --wait");
    assert!(report(&world, 1).drive.pages_written > 0);
    // The device that it replaces is free again, with its state.
    world.evenkeel("disk add tank m1 --force");
    world.evenkeel("disk remove tank m1");
    world.try_evenkeel("disk add tank flash:msr2008:m1 --force").refused(&["m1.flash"]);
    world.evenkeel("disk add tank flash:mqsim:spare");
    world.evenkeel("disk fail tank 0");
    world.evenkeel("rebuild status tank --wait");
    let status = world.status();
    let path = status["members"][0]["path"].as_str().map(str::to_owned);
    assert!(path.is_some_and(|path| path.ends_with("/spare")), "{status:#}");
    world.assert_sound();
    world.stop();
    let found = world.examine("spare");
    assert_eq!(found["flash"], "mqsim", "{found:#}");
}

#[test]
fn policies_change_under_load_and_no_byte_with_them() {
    let mut world = tank();
    assert_eq!(world.status()["policy"], "plain");
    let load = world.spawn("fio", &format!("{VERIFY} --uri={}", world.uri()));
    for policy in ["rotate+reconstruct", "reconstruct", "ggc", "rotate", "plain", "reconstruct"] {
        world.evenkeel(&format!("policy set tank {policy}"));
        assert_eq!(world.status()["policy"], policy);
    }
    world.evenkeel("policy set tank rotate+reconstruct");
    assert!(load.wait(), "fio has found something");
    assert!(world.try_evenkeel("status").stdout.contains("rotate+reconstruct"));
    world.assert_sound();
    world.evenkeel("policy set tank plain");
    assert_eq!(report(&world, 0).threshold, None, "it is left alone");
    world.evenkeel("policy set tank preempt");
    let threshold = report(&world, 0).threshold.expect("it collects by one");
    assert!(threshold > 0.0 && threshold < 1.0, "{threshold}");
    world.evenkeel("policy set tank rotate+reconstruct");
    let refused = world.try_evenkeel("policy set tank magic");
    refused.refused(&["magic", "rotate+reconstruct"]);
    assert_eq!(world.status()["policy"], "rotate+reconstruct");
    world.stop();
    world.start("--policy rotate");
    assert_eq!(world.status()["policy"], "rotate");
    world.stop();
}

#[test]
fn the_groups_of_a_log_volume_follow_policies_too() {
    let drives = (0..6).map(|number| format!("flash:mqsim+aged+told+obeys:m{number}"));
    let drives = drives.collect::<Vec<_>>().join(" ");
    let options = "--layout swan5:2x3 --segment 256K --file-size 40M --policy rotate+reconstruct";
    let mut world = World::empty().with_array(options, &drives).started();
    world.set_members("m0 m1 m2 m3 m4 m5");
    assert_eq!(world.status()["policy"], "rotate+reconstruct");
    let load = world.spawn("fio", &format!("{VERIFY} --uri={}", world.uri()));
    for policy in ["reconstruct", "hedge", "window", "plain", "rotate+reconstruct"] {
        world.evenkeel(&format!("policy set tank {policy}"));
        assert_eq!(world.status()["policy"], policy);
    }
    assert!(load.wait(), "fio has found something");
    let why = json(&world.evenkeel("status tank --why --json"))["result"].take();
    let members = why["members"].as_array().expect("members");
    let names = members.iter().map(|member| (member["group"].as_u64(), member["member"].as_u64()));
    let all = (0..6).map(|number| (Some(number / 3), Some(number % 3)));
    assert!(names.eq(all), "{why:#}");
    assert!(members.iter().all(|member| member["from"] == "told"), "{why:#}");
    assert!(world.evenkeel("status tank --why").contains("member 1.2"));
    world.stop();
    for member in ["m0", "m5"] {
        assert_eq!(world.examine(member)["policy"]["name"], "rotate+reconstruct");
    }
    world.start("");
    assert_eq!(world.status()["policy"], "rotate+reconstruct");
    world.stop();
}

#[test]
fn what_is_staged_comes_home_when_the_policy_stages_no_more() {
    let mut world = tank_with("--staging reserved:4M");
    let pairs = [("evenkeel", "plain"), ("gc-steering", "rotate"), ("evenkeel", "reconstruct")];
    for (stages, stages_not) in pairs {
        let before = world.staging("writes");
        world.evenkeel(&format!("policy set tank {stages}"));
        let listed = world.evenkeel("policy list tank");
        assert!(listed.contains(&format!("* {stages} ")), "{listed}");
        let load = world.spawn("fio", &format!("{VERIFY} --uri={}", world.uri()));
        wait_for("writes are staged", || (world.staging("writes") > before).then_some(()));
        world.evenkeel(&format!("policy set tank {stages_not}"));
        wait_for("all is at home", || (world.staging("dirty_bytes") == 0).then_some(()));
        assert!(load.wait(), "fio has found something");
        assert_eq!(world.staging("dirty_bytes"), 0, "nothing is staged any more");
    }
    assert!(world.staging("reclaimed_bytes") > 0);
    world.assert_sound();
    world.stop();
    world.start("--policy evenkeel");
    assert!(world.try_evenkeel("status").stdout.contains("staged: all is at home; "));
    world.stop();
}

#[test]
fn a_policy_that_nobody_can_follow_is_refused() {
    let mut world = World::new("raid5", 3, 40).started();
    world.try_evenkeel("policy set tank rotate").refused(&["be told", "flash:PROFILE"]);
    world.evenkeel("policy set tank plain");
    // A drive that does not report collection is watched.
    world.evenkeel("policy set tank reconstruct");
    let why = json(&world.evenkeel("status tank --why --json"))["result"].take();
    assert_eq!(why["members"][2]["from"], "detected", "{why:#}");
    assert_eq!(why["members"][2]["mood"], "free", "{why:#}");
    world.evenkeel("policy set tank plain");
    let why = world.evenkeel("status tank --why");
    assert!(why.contains("policy: plain") && why.contains("not asked"), "{why}");
    let words = ["\"gc-steering\" stages writes", "create --cache log", "can follow are plain"];
    world.try_evenkeel("policy set tank gc-steering").refused(&words);
    assert_eq!(world.status()["policy"], "plain");
    world.stop();
    world.try_evenkeel("start --nbd --policy gc-steering m0 m1 m2").refused(&words);
    assert_eq!(world.examine("m0")["clean"], true);
}
