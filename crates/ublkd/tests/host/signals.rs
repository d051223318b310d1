//! Members that stall, and don't report it.

use std::fs;
use std::time::{Duration, Instant};

use evenkeel_client::{Known, MemberWhy, Mood};
use raidcore::geometry::Level;
use raidcore::meta::Consistency;
use steering::scheme::Scheme;
use ublkd::flash::Named;
use ublkd::host::{HostConfig, HostHandle};

use crate::array::{Client, Files};
use crate::{config, open};

/// A drive that does nothing else while it collects, for tens of milliseconds.
const PROFILE: &str = r#"
name = "stalls"
[geometry]
channels = 2
chips = 2
dies = 1
planes = 1
blocks = 32
pages = 64
page_bytes = 4096
[nand]
read_us = 40
program_us = 200
erase_us = 2000
[ftl]
spare = 0.25
die = "round-robin"
plane = "static"
[gc]
victim = "greedy"
scope = "device"
unit = { burst = 8 }
start = 0.10
hard = 0.05
copy = "controller"
"#;

/// The longest time without a noticeable stall: far longer than it takes to fill a drive twice.
const PATIENCE: Duration = Duration::from_secs(100);

/// An array of drives that have been used.
fn used() -> Files {
    let files = Files::create(Level::Raid5, 4, Consistency::Resync);
    let profile = files.dir.path().join("stalls.toml");
    fs::write(&profile, PROFILE).unwrap();
    for path in &files.members {
        let name = format!("flash:{}+aged:{}", profile.display(), path.display());
        let flash = Named::parse(name.as_ref()).unwrap().flash.unwrap();
        open(path).make_flash(&flash).unwrap();
    }
    files
}

fn with(scheme: &str) -> HostConfig {
    HostConfig { scheme: Scheme::named(scheme).unwrap(), ..config() }
}

fn detours(handle: &HostHandle) -> u64 {
    handle.status().wait().unwrap().counters.detours
}

#[test]
fn reads_go_around_members_that_are_slow_though_they_say_nothing() {
    let files = used();
    let (volume, handle) = files.start(with("reconstruct"), false);
    let mut client = Client::new(volume, 8);
    let begin = Instant::now();
    while detours(&handle) == 0 {
        assert!(begin.elapsed() < PATIENCE, "no member was found to be slow");
        client.churn(100);
    }
    client.verify();
    let why = handle.why().wait().unwrap();
    assert_eq!((&*why.policy, why.members.len()), ("reconstruct", 4));
    let known = why.members.iter().map(|member| match &member.known {
        Known::Detected(known) => known,
        other @ (Known::Nothing | Known::Told { .. }) => panic!("{other:?}"),
    });
    let (judged, settled) = known.fold((0, 0), |(judged, settled), known| {
        assert!(known.late <= known.judged);
        (judged + known.judged, settled + known.right + known.wrong)
    });
    let around: u64 = why.members.iter().map(|member| member.detours).sum();
    assert!(around >= why.detours.reads, "each has gone around somebody: {why:?}");
    let busy =
        |member: &MemberWhy| matches!(&member.known, Known::Detected(d) if d.mood == Mood::Busy);
    assert!(why.members.iter().all(|m| m.busy_us.is_none() || busy(m)), "{why:?}");
    assert!(judged > 0 && why.detours.reads > 0 && !why.verdicts.is_empty(), "{why:?}");
    assert!(settled >= why.verdicts.iter().filter(|v| v.text.contains("over")).count() as u64);
    // Once reads go home, they go home for all members.
    handle.set_scheme(Scheme::named("plain").unwrap()).wait().unwrap();
    client.settle();
    let before = detours(&handle);
    client.churn(300);
    client.verify();
    assert_eq!(detours(&handle), before);
    let why = handle.why().wait().unwrap();
    assert!(why.members.iter().all(|member| member.known == Known::Nothing), "{why:?}");
    assert!(why.verdicts.is_empty());
    handle.stop().wait().unwrap();
}
