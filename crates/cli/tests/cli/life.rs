//! An array's life, through the command.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::world::{MIB, World};
use raidcore::meta::{Policy, PolicyName};
use raidcore::units::BLOCK_BYTES;
use rustix::process::Signal;
use serde_json::Value;
use ublkd::attach::examine;

fn tank() -> World {
    let world = World::with_members(&[40; 3]);
    let created = world.run("create tank --level raid5 m0 m1 m2 --json");
    assert_eq!(created.json()["needs_resync"], false);
    world
}

#[test]
fn an_array_is_made_broken_mended_and_started_again() {
    let world = tank();
    let ready = world.run("start --background --json m0 m1 m2");
    assert_eq!(ready.json()["array"]["name"], "tank", "{ready:?}");
    assert_eq!(ready.json()["array"]["fronts"][0]["kind"], "nbd");
    let status = world.status("tank");
    assert_eq!((&status["health"], &status["level"]), (&"online".into(), &"raid5".into()));
    assert_eq!(status["problems"], serde_json::json!([]));

    world.run("disk fail tank m1").done();
    let status = world.status("tank");
    assert_eq!(
        (&status["health"], &status["members"][1]["state"]),
        (&"degraded".into(), &"failed".into())
    );
    let ended = world.run("status");
    assert_eq!(ended.code, 4, "degraded");
    let said = ended.stdout;
    let m1 = world.path("m1").display().to_string();
    assert!(said.contains(&format!("member 1 is out of service ({m1})")), "{said}");
    assert!(said.contains(&format!("FAILED     (was {m1})")), "{said}");
    assert!(said.contains("evenkeel disk replace tank 1"), "{said}");

    world.file("new", 40 * MIB);
    let said = world.run("disk replace tank 1 new --wait").done();
    assert!(said.contains("All is well"), "{said}");
    let member = &world.status("tank")["members"][1];
    assert_eq!(member["state"], "up");
    assert!(member["path"].as_str().is_some_and(|path| path.ends_with("/new")), "{member}");

    let said = world.run("scrub start tank --wait").done();
    assert!(said.contains("found 0 mismatches"), "{said}");
    world.run("stop tank").done();
    assert!(world.run("examine m0 new m2").done().contains("cleanly"));

    let said = world.run("assemble --background m0 m1 m2").done();
    assert!(said.contains("m1: the array has gone on without it"), "{said}");
    assert_eq!(world.status("tank")["health"], "online", "it knows where the new one is");
    world.run("stop tank").done();
    world.run("start --background --name tank .").done();
    assert_eq!(world.status("tank")["health"], "online");
}

#[test]
fn metrics_are_served_where_it_was_asked() {
    let world = tank();
    let ready = world.run("start --background --json --metrics=127.0.0.1:0 m0 m1 m2").json();
    let fronts = ready["array"]["fronts"].as_array().expect("a list");
    assert_eq!(fronts[1]["kind"], "metrics", "{fronts:?}");
    let uri = fronts[1]["address"].as_str().expect("an address");
    let address = uri.trim_start_matches("http://").trim_end_matches("/metrics");
    let page = || {
        let mut stream = TcpStream::connect(address).expect("a server");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it listens");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("it answers");
        page
    };
    let first = page();
    assert!(first.contains("\nevenkeel_info{array=\"tank\",uuid="), "{first}");
    assert!(!first.contains("\nevenkeel_scrub_unrepaired_rows{"), "{first}");
    world.overwrite("m1", world.status("tank")["data_offset_bytes"].as_u64().unwrap_or(0), &[1]);
    for (scrub, rows) in [("scrub start tank", 1), ("scrub start tank --repair", 0)] {
        world.run(&format!("{scrub} --wait"));
        let told = format!("\nevenkeel_scrub_unrepaired_rows{{array=\"tank\"}} {rows}\n");
        // A page is reused for all requests within 200 ms.
        let deadline = Instant::now() + Duration::from_secs(60);
        while !page().contains(&told) {
            assert!(Instant::now() < deadline, "{}", page());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    world.run("stop tank").done();
}

#[test]
fn a_member_in_service_is_replaced_and_a_spare_comes_and_goes() {
    let world = tank();
    world.run("start --background m0 m1 m2").done();
    for name in ["new", "spare"] {
        world.file(name, 40 * MIB);
    }
    world.run("disk replace tank 2 new --wait").done();
    world.run("disk add tank spare").done();
    let status = world.status("tank");
    assert_eq!(status["spares"].as_array().map(Vec::len), Some(1));
    world.run("stop tank").done();
    world.run("start --background m0 m1 new spare").done();
    world.run("disk remove tank spare").done();
    assert_eq!(world.status("tank")["spares"], serde_json::json!([]));
    world.run("disk add tank spare --force").done();
    world.run("disk fail tank 0").done();
    let said = world.run("rebuild status tank --wait").done();
    assert!(said.contains("All is well"), "{said}");
}

#[test]
fn a_device_that_comes_back_brings_nothing_of_an_earlier_staging_log() {
    let world = World::with_members(&[40; 4]);
    let said = world.run("create tank --level raid5 --staging reserved:10% m0 m1 m2").done();
    assert!(said.contains("its staging log has 4 MiB of each member"), "{said}");
    let said = world.run("examine m1").done();
    assert!(said.contains("staging log  4 MiB of each member"), "{said}");
    let record = examine(&world.path("m1")).expect("a file").superblock.expect("a member").record;
    let (start, blocks) = record.areas.staging();
    let range = start.0 as usize * BLOCK_BYTES..(start.0 + blocks) as usize * BLOCK_BYTES;
    world.run("start --background m0 m1 m2").done();
    world.run("disk replace tank 1 m3 --wait").done();
    world.overwrite("m1", range.start as u64, &vec![7; range.len()]);
    world.run("disk add tank m1 --force").done();
    let spare = &world.contents(&["m1"])[0][range];
    assert!(spare.iter().all(|&byte| byte == 0), "what was in its log is there yet");
    world.run("stop tank").done();
}

#[test]
fn a_staging_device_is_lost_replaced_by_a_small_one_and_done_without() {
    let world = World::with_members(&[40, 40, 40, 20, 14]);
    let said = world.run("create tank --level raid5 --staging dedicated:m3 m0 m1 m2").done();
    assert!(said.contains("and 11.0 MiB of a staging device"), "{said}");
    assert!(world.run("examine m3").done().contains("this device  staging device 3"));
    world.run("start --background m0 m1 m2 m3").done();
    let status = world.status("tank");
    assert_eq!((&status["member_count"], &status["staging_devices"]), (&3.into(), &1.into()));

    world.run("disk fail tank 3").done();
    let ended = world.run("status");
    assert_eq!(ended.code, 3, "online, but not well");
    let said = ended.stdout;
    assert!(said.contains("state: online") && said.contains("raid5 of 3 members"), "{said}");
    assert!(said.contains("staging device 3 is out of service"), "{said}");
    let refused = world.run("disk replace tank 3 m4");
    assert!(refused.stderr.contains("give a larger device"), "{refused:?}");
    // It is smaller than a member by far.
    world.file("new", 20 * MIB);
    let said = world.run("disk replace tank 3 new --wait").done();
    assert!(said.contains("All is well"), "{said}");
    world.run("stop tank").done();

    std::fs::remove_file(world.path("new")).expect("it is free");
    let refused = world.run("start --background m0 m1 m2");
    assert!(refused.stderr.contains("missing: staging device 3"), "{refused:?}");
    let said = world.run("start --background --degraded m0 m1 m2").stdout;
    assert!(said.contains("started without staging device 3"), "{said}");
    world.run("stop tank").done();
}

/// Corrupts two blocks of a member of a running array, and scrubs without and with repair. Returns
/// the data area of each member before and after, and the scrubs' output.
fn spoil_and_scrub(world: &World, names: &[&str]) -> ([Vec<Vec<u8>>; 2], [String; 2]) {
    let offset = world.status("tank")["data_offset_bytes"].as_u64().expect("an offset");
    let held = || -> Vec<Vec<u8>> {
        let all = world.contents(names).into_iter();
        all.map(|bytes| bytes[offset as usize..].to_vec()).collect()
    };
    let before = held();
    world.overwrite("m1", offset + 17, b"what nobody wrote");
    world.overwrite("m1", offset + 9 * MIB, &[0xff; 4096]);
    let found = world.run("scrub start tank --wait");
    assert_eq!(found.code, 1, "{found:?}");
    // The findings are on record until they are repaired, across restarts.
    world.run("stop tank").done();
    world.run(&format!("start --background {}", names.join(" "))).done();
    let known = world.run("status");
    assert_eq!(known.code, 3, "{known:?}");
    assert!(known.stdout.contains("did not match in 2 rows of blocks"), "{known:?}");
    let mended = world.run("scrub start tank --repair --wait").done();
    assert!(mended.contains("All is well"), "{mended}");
    let after = held();
    let again = world.run("scrub start tank --wait").done();
    assert!(again.contains("found 0 mismatches"), "{again}");
    ([before, after], [found.stdout, mended])
}

#[test]
fn a_scrub_puts_right_what_two_parities_tell_to_be_wrong() {
    let world = World::with_members(&[40; 4]);
    world.run("create tank --level raid6 m0 m1 m2 m3").done();
    world.run("start --background m0 m1 m2 m3").done();
    let ([before, after], [found, mended]) = spoil_and_scrub(&world, &["m0", "m1", "m2", "m3"]);
    assert!(before == after, "all is as it was");
    assert!(found.contains("found 2 mismatches: redundancy tells what is wrong in 2"), "{found}");
    assert!(found.contains("evenkeel scrub start tank --repair"), "{found}");
    assert!(found.contains("member 1: 1 blocks of stripe 0 are not what was written"), "{found}");
    assert!(mended.contains("2 located and repaired, 0 settled"), "{mended}");
}

#[test]
fn a_scrub_believes_the_data_where_one_parity_does_not_tell() {
    let world = tank();
    world.run("start --background m0 m1 m2").done();
    let ([before, after], [found, mended]) = spoil_and_scrub(&world, &["m0", "m1", "m2"]);
    assert!(before != after, "it can't know what was there");
    assert!(found.contains("found 2 mismatches: redundancy tells what is wrong in 0"), "{found}");
    assert!(found.contains("check the contents"), "{found}");
    assert!(mended.contains("0 located and repaired, 2 settled"), "{mended}");
    world.overwrite("m1", world.status("tank")["data_offset_bytes"].as_u64().unwrap_or(0), &[1]);
    world.run("scrub start tank --repair --wait").done();
    let last = &world.run("scrub status tank --json").json()["array"]["last_scrub"];
    let told = [&last["mismatches"], &last["located"], &last["end"]];
    assert_eq!(serde_json::json!(told), serde_json::json!([1, 0, "repaired"]), "{last:#}");
}

#[test]
fn a_rebuild_is_paced_paused_and_resumed() {
    let world = tank();
    world.run("start --background m0 m1 m2").done();
    world.run("rebuild limit tank --min 4K --max 64K").done();
    assert_eq!(world.status("tank")["pace"]["slowdown_percent"], 200);
    world.run("rebuild limit tank --slowdown 1.5").done();
    assert_eq!(world.status("tank")["pace"]["slowdown_percent"], 150);
    let less = world.run("rebuild limit tank --slowdown 0.5");
    assert!(less.code == 2 && less.stderr.contains("more than 1"), "{less:?}");
    world.run("rebuild limit tank --slowdown 0").done();
    assert_eq!(world.status("tank")["pace"]["slowdown_percent"], Value::Null);
    world.file("new", 40 * MIB);
    world.run("disk fail tank 0").done();
    world.run("disk replace tank 0 new").done();
    world.run("rebuild pause tank").done();
    assert!(world.run("rebuild order tank").done().contains("* demand "));
    let said = world.run("rebuild order tank sequential").done();
    assert!(said.contains("in the order sequential"), "{said}");
    assert_eq!(world.status("tank")["rebuild_order"], "sequential");
    let orders = world.run("rebuild order tank").done();
    assert!(orders.contains("* sequential ") && orders.contains("\n  popular "), "{orders}");
    assert!(world.run("rebuild order").done().starts_with("demand "));
    let pass = &world.status("tank")["pass"];
    assert_eq!((&pass["task"], &pass["paused"]), (&"rebuild".into(), &true.into()));
    let waited = world.run("rebuild status tank --wait");
    assert_eq!(waited.code, 1, "a paused rebuild does not end: {waited:?}");
    assert!(waited.stdout.contains("evenkeel rebuild resume tank"), "{waited:?}");
    world.run("rebuild limit tank --max 0").done();
    world.run("rebuild resume tank").done();
    world.run("rebuild status tank --wait").done();
    assert_eq!(world.status("tank")["health"], "online");
}

#[test]
fn a_member_serves_on_while_it_is_copied_to_its_successor() {
    for level in ["raid0", "raid5"] {
        let world = World::with_members(&[40; 3]);
        world.run(&format!("create tank --level {level} m0 m1 m2")).done();
        world.run("start --background m0 m1 m2").done();
        world.run("rebuild limit tank --min 4K --max 64K").done();
        world.file("new", 40 * MIB);
        let said = world.run("disk replace tank 1 new").done();
        assert!(said.contains("member 1 of tank serves on, and is being copied to new"), "{said}");
        let status = world.status("tank");
        assert_eq!(
            (&status["health"], &status["pass"]["task"]),
            (&"online".into(), &"copy".into())
        );
        assert_eq!(status["spares"][0]["succeeds"], "1", "{status:#}");
        let said = world.run("status").done();
        assert!(
            said.contains("work: copy of member 1, ") && said.contains("spare   for 1 "),
            "{said}"
        );
        world.file("other", 40 * MIB);
        world.run("disk replace tank 0 other").failed(&["one is at a time", "disk remove tank"]);

        // The replacement is called off, and the member is there.
        world.run("disk remove tank new").done();
        let status = world.status("tank");
        assert_eq!(
            (&status["health"], &status["spares"]),
            (&"online".into(), &serde_json::json!([]))
        );
        let path = |status: &Value| status["members"][1]["path"].as_str().map(str::to_owned);
        assert!(path(&status).is_some_and(|path| path.ends_with("/m1")), "{status:#}");

        world.run("rebuild limit tank --max 0").done();
        let said = world.run("disk replace tank 1 new --force --wait").done();
        assert!(said.contains("All is well") && said.contains("its successor"), "{said}");
        let status = world.status("tank");
        assert!(path(&status).is_some_and(|path| path.ends_with("/new")), "{status:#}");
        world.run("stop tank").done();
        world.run("start --background m0 new m2").done();
        assert_eq!(world.status("tank")["health"], "online");
        world.run("stop tank").done();
    }
}

#[test]
fn signals_stop_it_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let world = tank();
        let mut daemon = world.foreground("start m0 m1 m2");
        crate::signal::signal(&daemon, signal);
        assert!(daemon.wait().expect("it ends").success());
        assert!(world.run("examine m0").done().contains("cleanly"));
        assert!(!world.run_dir().join("tank.sock").exists());
    }
}

#[test]
fn what_a_killed_process_leaves_is_cleared_away() {
    let world = tank();
    let mut daemon = world.foreground("start m0 m1 m2");
    daemon.kill().expect("it is killed");
    daemon.wait().expect("it ends");
    assert!(world.run_dir().join("tank.sock").exists());
    let ended = world.run("status");
    assert_eq!(ended.code, 1);
    assert!(ended.stdout.contains("tank\n state: no answer"), "{ended:?}");
    assert!(world.run("examine m0").done().contains("not (yet)"));
    world.run("start --background m0 m1 m2").done();
    assert_eq!(world.status("tank")["health"], "online");
}

#[test]
fn an_array_clears_its_sockets_away_that_were_named_from_where_it_was_started() {
    let world = World::with_members(&[20; 3]);
    world.run("create tank --level raid1 m0 m1").done();
    world.run("start --background --run-dir here --nbd=sock m0 m1").done();
    world.run("disk add tank m2 --run-dir here").done();
    world.run("stop tank --run-dir here").done();
    for left in ["here/tank.sock", "sock"] {
        assert!(!world.path(left).exists(), "{left}");
    }
    assert!(world.run("status --run-dir here").done().contains("no array is running"));
    let known = std::fs::read_to_string(world.path("here/tank.devices")).expect("it is remembered");
    assert!(known.contains("m2"), "{known}");
}

#[test]
fn mirrored_pairs_go_on_without_one_of_each_and_not_without_a_pair() {
    let world = World::with_members(&[20; 6]);
    let created = world.run("create tank --level raid10 m0 m1 m2 m3 m4 m5").done();
    assert!(created.contains("raid10 of 6 members") && created.contains("one member of each pair"));
    world.run("start --background m0 m1 m2 m3 m4 m5").done();
    for member in ["0", "3", "5"] {
        world.run(&format!("disk fail tank {member}")).done();
    }
    assert_eq!(world.status("tank")["health"], "degraded");
    world.run("disk fail tank 1").failed(&["redundancy"]);
    world.run("stop tank").done();
    // A start would find it where it was.
    std::fs::rename(world.path("m4"), world.path("aside")).expect("it is renamed");
    world.run("start --background m1 m2").failed(&["1 of members 4 and 5"]);
    std::fs::rename(world.path("aside"), world.path("m4")).expect("it is renamed");
    world.run("start --background m1 m2 m4").done();
    assert_eq!(world.status("tank")["health"], "degraded");
}

#[test]
fn a_policy_is_followed_until_another_is_chosen() {
    let world = World::with_members(&[40; 3]);
    let follows = |name: &str| assert_eq!(world.status("tank")["policy"], name);
    world.run("create tank --level raid5 --policy reconstruct m0 m1 m2").done();
    assert!(world.run("examine m1").done().contains("  policy       reconstruct, for "));
    let mut daemon = world.foreground("start m0 m1 m2");
    follows("reconstruct");
    world.run("policy set tank plain").done();
    daemon.kill().expect("it is killed");
    daemon.wait().expect("it ends");
    world.run("start --background m0 m1 m2").done();
    follows("plain");
    world.run("stop tank").done();
    world.run("start --background --policy reconstruct m0 m1 m2").done();
    let since = world.run("examine m0 --json").json()["members"][0]["policy"]["since"].clone();
    world.run("stop tank").done();
    let said = world.run("start --background m0 m1 m2").done();
    assert!(said.contains(", by the policy reconstruct"), "{said}");
    follows("reconstruct");
    world.run("stop tank").done();
    world.run("start --background --policy reconstruct m0 m1 m2").done();
    assert_eq!(world.run("examine m0 --json").json()["members"][0]["policy"]["since"], since);
}

#[test]
fn a_restart_follows_the_policy_that_was_chosen_last() {
    let world = World::with_members(&[40; 3]);
    world.run("create tank --level raid5 m0 m1 m2").done();
    world.run("start --background --policy reconstruct m0 m1 m2").done();
    world.run("policy set tank plain").done();
    world.run("restart tank").done();
    assert_eq!(world.status("tank")["policy"], "plain");
}

/// A policy on record from a later release, or an invalid one.
#[test]
fn a_policy_that_can_not_be_followed_keeps_nothing_from_starting() {
    let world = tank();
    for (name, why) in [("swan", "is none that this release knows"), ("evenkeel", "staging log")] {
        for member in ["m0", "m1", "m2"] {
            let found = examine(&world.path(member)).expect("a file").superblock.expect("a member");
            let (mut record, device) = (found.record, found.device);
            let policy = PolicyName::new(name).expect("it could be one");
            record.policy = Some(Policy { name: policy, since: 1 });
            for (at, block) in record.superblocks(device) {
                world.overwrite(member, at.0 * BLOCK_BYTES as u64, &block);
            }
        }
        let said = world.run("start --background m0 m1 m2").done();
        let told = said.contains(name) && said.contains(why) && said.contains("policy set tank");
        assert!(told, "{said}");
        assert_eq!(world.status("tank")["policy"], "plain");
        let examined = world.run("examine m0").done();
        assert!(examined.contains(&format!("policy       {name}, for ")), "{examined}");
        world.run("stop tank").done();
    }
    world.run("start --background --policy plain m0 m1 m2").done();
    assert!(world.run("examine m0").done().contains("policy       plain, for "));
}

#[test]
fn the_control_socket_is_for_its_owner_and_survives_nonsense() {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    let world = tank();
    world.run("start --background m0 m1 m2").done();
    let path = world.run_dir().join("tank.sock");
    let mode = std::fs::metadata(&path).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let ask = |lines: &[u8]| {
        let mut stream = UnixStream::connect(&path).expect("it answers");
        // The server may hang up before it has read everything.
        let _ = stream.write_all(lines);
        let mut answers = Vec::new();
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { break };
            let answer: Value = serde_json::from_str(&line).expect("JSON");
            answers.push(answer["error"]["code"].as_str().unwrap_or("ok").to_owned());
            if answers.len() == lines.iter().filter(|byte| **byte == b'\n').count() {
                break;
            }
        }
        answers
    };
    assert_eq!(ask(b"\n"), ["bad-request"]);
    assert_eq!(ask(b"{\"v\":2}\n"), ["unsupported-version"]);
    let two = b"nonsense\n{\"v\":1,\"cmd\":\"status\"}\n";
    assert_eq!(ask(two), ["bad-request", "ok"]);
    let mut long = vec![b' '; 1 << 20];
    long.push(b'\n');
    assert!(ask(&long).len() <= 1);
    assert_eq!(world.status("tank")["health"], "online");
}

#[test]
fn the_demonstration_succeeds_and_leaves_nothing() {
    let world = World::new();
    let dir = world.path("demo");
    std::fs::create_dir(&dir).expect("a directory");
    let ended = world.run("demo --dir demo --size 24M --seconds 1 --json");
    assert_eq!(ended.code, 0, "{ended:?}");
    let told = ended.json();
    let tail = |of: usize| told["tails"][of]["quantiles_ns"]["p99.9"].as_u64().expect("a latency");
    let (ideal, plain, evenkeel) = (tail(0), tail(1), tail(2));
    assert!(plain > 50 * evenkeel && evenkeel < 2 * ideal, "{}", told["tails"]);
    let phases = told["phases"].as_array().expect("phases");
    assert!(phases.iter().any(|phase| phase["name"] == "degraded"), "{phases:?}");
    assert!(phases.iter().all(|phase| phase["read_ns"]["count"].as_u64() > Some(0)));
    assert_eq!(std::fs::read_dir(&dir).expect("it is there").count(), 0);
}

#[test]
fn policies_are_compared_under_the_same_load() {
    let world = World::new();
    std::fs::create_dir(world.path("demo")).expect("a directory");
    let line = "demo --dir demo --size 24M --seconds 2 --policy plain,steering+reconstruct";
    let compared = world.run(&format!("{line} --json")).json()["policies"].clone();
    let count = |policy: usize, kind: &str| compared[policy][kind]["count"].as_u64();
    for kind in ["read_ns", "write_ns"] {
        assert!(count(0, kind) > Some(0), "{compared:#}");
        assert_eq!(count(0, kind), count(1, kind), "the same load: {compared:#}");
    }
    assert_eq!(compared[0]["report"]["staging"]["writes"], 0, "{compared:#}");
    assert_eq!(compared[1]["report"]["policy"], "steering+reconstruct", "{compared:#}");
    assert_eq!(std::fs::read_dir(world.path("demo")).expect("it is there").count(), 0);
    world.run(&format!("{line} --keep")).failed(&["one policy"]);
}
