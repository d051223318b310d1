//! Two hosts that reach the same members, played on one machine: one runs the array, the other takes over.
//!
//! Terms are long enough for a busy machine to renew a lease, and nothing is said of how long things take.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::nbd::Nbd;
use crate::tools::{pattern, wait_for};
use crate::world::{MIB, first_line, json};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// Members that both hosts reach.
struct Members(TempDir);

impl Members {
    /// With an array `tank` that these options create.
    fn new(options: &str) -> Self {
        let members = Self(tempfile::tempdir().expect("a temporary directory"));
        for name in ["m0", "m1", "m2"] {
            let file = File::create(members.0.path().join(name)).expect("a file");
            file.set_len(32 * MIB).expect("a sparse file");
        }
        let line = format!("create tank --level raid5 {options} m0 m1 m2");
        members.host("one").done(&line);
        members
    }

    fn host(&self, name: &'static str) -> Host<'_> {
        Host { dir: self.0.path(), name, process: None }
    }
}

/// A host; its process is ended when it is dropped.
struct Host<'a> {
    dir: &'a Path,
    name: &'static str,
    process: Option<Child>,
}

impl Host<'_> {
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(EVENKEEL);
        command
            .args(line.split_whitespace())
            .current_dir(self.dir)
            .env("EVENKEEL_RUN_DIR", self.run_dir())
            .env("EVENKEEL_PLAYED_HOST", self.name)
            .stdin(Stdio::null());
        command
    }

    fn run_dir(&self) -> PathBuf {
        self.dir.join(format!("run-{}", self.name))
    }

    /// Runs a command to its end: whether it has succeeded, and what it said.
    fn run(&self, line: &str) -> (bool, String) {
        let output = self.command(line).output().expect("it is run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }

    fn done(&self, line: &str) -> String {
        let (done, said) = self.run(line);
        assert!(done, "{line}: {said}");
        said
    }

    /// It fails, and says each of `words`.
    fn refused(&self, line: &str, words: &[&str]) {
        let (done, said) = self.run(line);
        assert!(!done, "{line} should have failed: {said}");
        for word in words {
            assert!(said.contains(word), "{line} should have said {word:?}: {said}");
        }
    }

    /// Starts the array; when this returns, it serves.
    fn start(&mut self, options: &str) {
        assert!(self.process.is_none(), "it runs already");
        let log = File::options().create(true).append(true).open(self.log_path());
        let line = format!("start --json {options} m0 m1 m2");
        let mut process = self
            .command(&line)
            .stdout(Stdio::piped())
            .stderr(log.expect("a log"))
            .spawn()
            .expect("it is started");
        let stdout = process.stdout.take().expect("a pipe");
        self.process = Some(process);
        let ready = first_line(stdout);
        assert!(json(&ready)["result"]["array"].is_object(), "{ready}\n{}", self.log());
    }

    fn nbd(&self) -> Nbd {
        Nbd::connect(&self.run_dir().join("tank.nbd"), "tank")
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it runs");
        crate::signal::signal(process, signal);
    }

    /// Waits for the end of its process.
    fn ended(&mut self) -> ExitStatus {
        let process = self.process.as_mut().expect("it runs");
        let status = wait_for("the process ends", || process.try_wait().expect("a child"));
        self.process = None;
        status
    }

    fn stop(&mut self) {
        self.signal(Signal::TERM);
        assert!(self.ended().success(), "{}", self.log());
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.ended();
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join(format!("log-{}", self.name))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// The lease, as `status` tells it.
    fn lease(&self) -> Value {
        // It fails while the array is degraded.
        let (_, status) = self.run("status tank --json");
        json(&status)["result"]["arrays"][0]["lease"].take()
    }

    /// All stripes match.
    fn scrub(&self) {
        // Not while the resync after a crash is under way.
        wait_for("a scrub", || self.run("scrub start tank --wait").0.then_some(()));
        let status = json(&self.done("status tank --json"));
        let scrub = &status["result"]["arrays"][0]["last_scrub"];
        assert_eq!(scrub["mismatches"], 0, "{status:#}");
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the log of host {}:\n{}", self.name, self.log());
        }
        if let Some(mut process) = self.process.take() {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

const WAITS: &str = "counts as dead";
const CLAIMS: &str = "the lease is claimed";

#[test]
fn a_host_is_refused_while_another_runs_the_array_and_its_clients_notice_nothing() {
    let members = Members::new("--lease 5s");
    let (mut one, two) = (members.host("one"), members.host("two"));
    one.start("");
    let mut nbd = one.nbd();
    let data = pattern(1, 64 << 10);
    assert_eq!(nbd.write(0, &data, true), Ok(()));
    let refusal = ["host one runs the array", "--fenced"];
    two.refused("start m0 m1 m2", &refusal);
    two.refused("start --background m0 m1 m2", &[WAITS, refusal[0]]);
    let create = "create other --force --level raid5 m0 m1 m2";
    two.refused(create, &["which host one runs"]);
    assert_eq!(nbd.read(0, 64 << 10), Ok(data));
    assert_eq!(nbd.write(0, &pattern(2, 4096), true), Ok(()));
    one.stop();
}

#[test]
fn a_host_that_was_paused_past_its_term_writes_and_answers_nothing_once_another_runs_the_array() {
    let members = Members::new("--lease 5s");
    let (mut one, mut two) = (members.host("one"), members.host("two"));
    one.start("");
    let mut old = one.nbd();
    let (before, after) = (pattern(1, 1 << 20), pattern(2, 1 << 20));
    assert_eq!(old.write(0, &before, true), Ok(()));
    one.signal(Signal::STOP);
    // It has this in hand when it goes on.
    let late = thread::spawn(move || (old.write(0, &pattern(3, 64 << 10), true), old));
    two.start("");
    assert!(two.log().contains(WAITS), "{}", two.log());
    let mut new = two.nbd();
    assert_eq!(new.read(0, 1 << 20), Ok(before));
    assert_eq!(new.write(0, &after, true), Ok(()));
    one.signal(Signal::CONT);
    assert!(!one.ended().success());
    let (answer, mut old) = late.join().expect("it is answered or closed");
    assert!(answer.is_err() && old.read(0, 4096).is_err());
    assert!(one.log().contains("runs here no more"), "{}", one.log());
    assert_eq!(new.read(0, 1 << 20), Ok(after));
    two.scrub();
    two.stop();
    one.start("");
    assert_eq!(one.nbd().read(0, 1 << 20), Ok(pattern(2, 1 << 20)));
    one.stop();
}

#[test]
fn a_host_that_has_died_is_waited_for_and_nothing_that_was_acknowledged_is_lost() {
    let members = Members::new("--lease 5s");
    let (mut one, mut two) = (members.host("one"), members.host("two"));
    one.start("");
    let data = pattern(1, 1 << 20);
    assert_eq!(one.nbd().write(0, &data, true), Ok(()));
    let lease = one.lease();
    assert_eq!((&lease["holder"], &lease["term_ms"]), (&"one".into(), &5000.into()));
    one.kill();
    two.start("");
    assert!(two.log().contains(WAITS) && two.log().contains(CLAIMS), "{}", two.log());
    assert_eq!(two.nbd().read(0, 1 << 20), Ok(data));
    assert_eq!(two.lease()["before"], "one");
    two.scrub();
    two.stop();
}

#[test]
fn a_clean_stop_hands_the_array_over_without_a_wait_for_the_term() {
    let members = Members::new("--lease 5s");
    let (mut one, mut two) = (members.host("one"), members.host("two"));
    one.start("");
    assert_eq!(one.nbd().write(0, &pattern(1, 4096), true), Ok(()));
    one.stop();
    let examined = json(&one.done("examine --json m0"));
    let lease = &examined["result"]["members"][0]["lease"];
    assert_eq!((&lease["holder"], &lease["held"]), (&"one".into(), &false.into()), "{examined:#}");
    two.start("");
    assert!(!two.log().contains(WAITS), "{}", two.log());
    assert_eq!(two.nbd().read(0, 4096), Ok(pattern(1, 4096)));
    two.stop();
}

#[test]
fn nothing_is_waited_for_where_the_operator_says_that_the_other_host_is_fenced() {
    // The test would not wait for such a term.
    let members = Members::new("--lease 1h");
    let (mut one, mut two) = (members.host("one"), members.host("two"));
    one.start("--fenced");
    assert_eq!(one.nbd().write(0, &pattern(1, 4096), true), Ok(()));
    one.kill();
    two.start("--fenced");
    assert_eq!(two.nbd().read(0, 4096), Ok(pattern(1, 4096)));
    two.stop();
}

#[test]
fn the_next_process_of_a_host_goes_on_with_its_lease_at_once() {
    // The test would not wait for such a term, nor for three quarters of it.
    let members = Members::new("--lease 1h");
    let mut one = members.host("one");
    one.start("--fenced");
    assert_eq!(one.nbd().write(0, &pattern(1, 4096), true), Ok(()));
    let generation = one.lease()["generation"].clone();
    one.kill();
    one.start("");
    assert_eq!(one.nbd().read(0, 4096), Ok(pattern(1, 4096)));
    assert_eq!(one.lease()["generation"], generation);
    one.kill();
    one.done("start --background m0 m1 m2");
    one.done("restart tank");
    assert_eq!(one.lease()["generation"], generation);
    one.done("stop tank");
}

#[test]
fn a_lease_is_given_to_an_array_and_taken_away_by_a_start() {
    let members = Members::new("");
    let (mut one, mut two) = (members.host("one"), members.host("two"));
    one.start("--lease 5s");
    two.refused("start m0 m1 m2", &["host one runs the array"]);
    one.stop();
    let term = |host: &Host<'_>| {
        let examined = json(&host.done("examine --json m0"));
        examined["result"]["members"][0]["lease"]["term_ms"].clone()
    };
    assert_eq!(term(&one), 5000);
    two.start("--lease none");
    assert_eq!(two.lease(), Value::Null);
    assert_eq!(term(&two), Value::Null);
    two.stop();
    one.start("");
    assert_eq!(one.lease(), Value::Null);
    one.stop();
}

#[test]
fn a_member_that_fails_and_one_that_joins_are_known_to_the_lease() {
    let members = Members::new("--lease 5s");
    let (mut one, mut two) = (members.host("one"), members.host("two"));
    one.start("");
    let data = pattern(1, 1 << 20);
    assert_eq!(one.nbd().write(0, &data, true), Ok(()));
    one.done("disk fail tank 1");
    wait_for("two members decide", || (one.lease()["voters"] == 2).then_some(()));
    File::create(members.0.path().join("m3")).and_then(|f| f.set_len(32 * MIB)).expect("a file");
    one.done("disk add tank m3");
    one.done("rebuild status tank --wait");
    wait_for("three members decide", || (one.lease()["voters"] == 3).then_some(()));
    one.kill();
    two.refused("start m0 m2", &["--degraded"]);
    fs::remove_file(members.0.path().join("m1")).expect("it was there");
    fs::rename(members.0.path().join("m3"), members.0.path().join("m1")).expect("it was there");
    two.start("");
    assert_eq!(two.nbd().read(0, 1 << 20), Ok(data));
    two.scrub();
    two.stop();
}
