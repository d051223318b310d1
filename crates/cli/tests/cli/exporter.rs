//! `exporter`, and what is made for its metrics: the dashboard and the alerts in packaging/.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::signal::signal;
use crate::world::World;

/// An exporter, which ends when it is dropped.
struct Exporter {
    child: Child,
    address: String,
}

impl Exporter {
    fn start(world: &World) -> Self {
        let mut command = world.command("exporter --listen 127.0.0.1:0 --json");
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it tells");
        let told: Value = serde_json::from_str(&line).expect("JSON");
        let uri = told["result"]["uri"].as_str().expect("a URI");
        let address = uri.trim_start_matches("http://").trim_end_matches("/metrics").to_owned();
        Self { child, address }
    }

    fn page(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it is asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, page) = answer.split_once("\r\n\r\n").expect("a page");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        page.to_owned()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        signal(&self.child, Signal::TERM);
        let ended = self.child.wait().expect("it was ours");
        assert!(ended.success() || std::thread::panicking(), "{ended}");
    }
}

/// An array and a log volume.
fn two() -> World {
    let world = World::with_members(&[40; 7]);
    world.run("create tank --level raid5 --staging reserved:2M m0 m1 m2").done();
    world.run("start --background m0 m1 m2").done();
    world.run("create log --layout log-raid5 --segment 1M m3 m4 m5").done();
    world.run("start --background m3 m4 m5").done();
    world
}

fn packaged(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(path)
}

#[test]
fn one_port_has_the_metrics_of_all_arrays() {
    let world = two();
    let exporter = Exporter::start(&world);
    let page = exporter.page();
    for sample in [
        "evenkeel_up{array=\"log\"} 1\n",
        "evenkeel_up{array=\"tank\"} 1\n",
        "evenkeel_health{array=\"tank\",state=\"online\"} 1\n",
        "evenkeel_health{array=\"log/0\",state=\"online\"} 1\n",
        "evenkeel_log_failed{array=\"log\"} 0\n",
    ] {
        assert!(page.contains(sample), "{sample}: {page}");
    }
    // Prometheus refuses a page that has a family twice.
    let families: Vec<_> = page.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    assert_eq!(families.iter().collect::<BTreeSet<_>>().len(), families.len(), "{families:?}");
    // Arrays come and go, and die.
    world.run("stop log").done();
    world.run("stop tank").done();
    let mut child = world.foreground("start m0 m1 m2");
    signal(&child, Signal::KILL);
    child.wait().expect("it was ours");
    let page = exporter.page();
    assert!(page.contains("evenkeel_up{array=\"tank\"} 0\n"), "{page}");
    assert!(!page.contains("log"), "{page}");
    world.run("start --background m0 m1 m2").done();
    let taken = world.run(&format!("exporter --listen {}", exporter.address));
    taken.failed(&["can't be served", "--listen"]);
}

#[test]
fn what_scrubs_find_and_how_far_a_rebuild_is_are_metrics() {
    let members = "m0 m1 m2 m3";
    let world = World::with_members(&[40; 5]);
    world.run(&format!("create tank --level raid6 {members}")).done();
    world.run(&format!("start --background {members}")).done();
    let exporter = Exporter::start(&world);
    let offset = world.status("tank")["data_offset_bytes"].as_u64().expect("an offset");
    world.overwrite("m1", offset + 17, b"what nobody wrote");
    for (scrub, repaired) in [("scrub start tank", 0), ("scrub start tank --repair", 1)] {
        world.run(&format!("{scrub} --wait"));
        // An array makes its page anew only after a while, but has none when it has just started.
        world.run("stop tank").done();
        world.run(&format!("start --background {members}")).done();
        let page = exporter.page();
        for (name, rows) in [
            ("mismatched", 1),
            ("located", 1),
            ("repaired", repaired),
            ("unrepaired", 1 - repaired),
        ] {
            let sample = format!("evenkeel_scrub_{name}_rows{{array=\"tank\"}} {rows}\n");
            assert!(page.contains(&sample), "{scrub}: {sample}: {page}");
        }
    }
    world.run("stop tank").done();
    world.run(&format!("start --background {members}")).done();
    world.run("rebuild limit tank --min 4K --max 64K").done();
    world.run("disk fail tank 1").done();
    world.run("disk replace tank 1 m4").done();
    world.run("rebuild pause tank").done();
    let pass = world.status("tank")["pass"].take();
    let page = exporter.page();
    let labels = "{array=\"tank\",task=\"rebuild\"}";
    for sample in [
        format!("evenkeel_background_paused{labels} 1\n"),
        format!("evenkeel_background_total_bytes{labels} {}\n", pass["total_bytes"]),
        format!("evenkeel_background_done_bytes{labels} "),
        format!("evenkeel_background_left_behind_stripes{labels} 0\n"),
    ] {
        assert!(page.contains(&sample), "{sample}: {page}");
    }
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !is_part(c)).filter(|word| word.starts_with("evenkeel_"));
    words.map(str::to_owned).collect()
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_there_are() {
    let world = two();
    let page = Exporter::start(&world).page();
    let mut there = BTreeSet::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').expect("a kind");
        there.insert(name.to_owned());
        if kind == "histogram" {
            there.extend(["_bucket", "_sum", "_count"].map(|suffix| format!("{name}{suffix}")));
        }
    }
    let dashboard = fs::read_to_string(packaged("grafana/evenkeel.json")).expect("a dashboard");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries: Vec<&str> = targets.filter_map(|target| target["expr"].as_str()).collect();
    assert!(queries.len() > 20, "{queries:?}");
    let alerts = fs::read_to_string(packaged("prometheus/evenkeel.yml")).expect("alerts");
    for (what, text) in [("dashboard", queries.join("\n")), ("alerts", alerts)] {
        let asked = names(&text);
        let wrong: Vec<_> = asked.difference(&there).collect();
        assert!(!asked.is_empty() && wrong.is_empty(), "the {what} asks for {wrong:?}");
    }
}

#[test]
fn prometheus_takes_pages_and_alerts() {
    let promtool = || Command::new("promtool");
    let Ok(_) = promtool().arg("--version").output() else {
        // scripts/test installs it.
        return;
    };
    let rules =
        promtool().args(["check", "rules"]).arg(packaged("prometheus/evenkeel.yml")).output();
    let rules = rules.expect("it runs");
    assert!(rules.status.success(), "{rules:?}");
    let world = two();
    let page = Exporter::start(&world).page();
    let mut check = promtool()
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    check.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("it reads");
    let said = check.wait_with_output().expect("it ends");
    // Its advice on names (status 3) is no error.
    assert!(said.status.success() || said.status.code() == Some(3), "{said:?}");
}
