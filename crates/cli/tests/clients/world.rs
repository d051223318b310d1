//! A directory with an array's member files, and the process that runs the array.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::nbd::Nbd;
use crate::tools::{Ended, HANGS, attempt, command, run, wait_for};

pub(crate) const MIB: u64 = 1 << 20;
const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// Everything that runs in it is ended and unmounted when it is dropped.
pub(crate) struct World {
    dir: TempDir,
    /// The array's members that should be there, as words.
    members: String,
    process: Option<Child>,
}

impl World {
    /// With an array `tank` of members `m0`, `m1`, …, that does not run yet.
    pub(crate) fn new(level: &str, members: u8, mib: u64) -> Self {
        Self::of(&format!("--level {level}"), members, mib)
    }

    /// With an array that these options create.
    pub(crate) fn of(options: &str, members: u8, mib: u64) -> Self {
        let names: Vec<String> = (0..members).map(|number| format!("m{number}")).collect();
        let world = Self::empty();
        for name in &names {
            world.file(name, mib * MIB);
        }
        world.with_array(options, &names.join(" "))
    }

    /// Without an array.
    pub(crate) fn empty() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("mnt")).expect("a directory");
        Self { dir, members: String::new(), process: None }
    }

    /// Makes the array `tank` out of these.
    pub(crate) fn with_array(mut self, options: &str, members: &str) -> Self {
        self.evenkeel(&format!("create tank {options} {members}"));
        members.clone_into(&mut self.members);
        self
    }

    /// That runs.
    pub(crate) fn started(mut self) -> Self {
        self.start("");
        self
    }

    /// A sparse file.
    pub(crate) fn file(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).and_then(|file| file.set_len(bytes)).expect("a sparse file");
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The members to be started with from now on.
    pub(crate) fn set_members(&mut self, members: &str) {
        members.clone_into(&mut self.members);
    }

    /// Starts the array, over NBD and FUSE; when this returns, it serves. Returns its first line of
    /// output.
    pub(crate) fn start(&mut self, options: &str) -> Value {
        self.launch(options);
        let process = self.process.as_mut().expect("it runs");
        let stdout = process.stdout.take().expect("a pipe");
        let ready = first_line(stdout);
        let array = json(&ready)["result"]["array"].take();
        assert!(array.is_object(), "{options}: {ready}\n{}", self.log());
        array
    }

    /// Begins to start the array, and returns at once.
    pub(crate) fn launch(&mut self, options: &str) {
        assert!(self.process.is_none(), "it runs already");
        let log = File::options().create(true).append(true).open(self.path("log"));
        let line = format!("start --json --nbd --fuse mnt {options} {}", self.members);
        let process = Command::new(EVENKEEL)
            .args(line.split_whitespace())
            .current_dir(self.dir.path())
            .env("EVENKEEL_RUN_DIR", self.path("run"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.expect("a log"))
            .spawn();
        self.process = Some(process.expect("it is started"));
    }

    /// Stops the array with SIGTERM; it has to say that this was clean.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        self.wait();
    }

    /// Waits for the end of a process that was told to stop; it has to say that this was clean.
    pub(crate) fn wait(&mut self) {
        let process = self.process.as_mut().expect("it runs");
        let status = wait_for("the array stops", || process.try_wait().expect("a child"));
        self.process = None;
        assert!(status.success(), "it was not stopped cleanly, {status}:\n{}", self.log());
    }

    /// Stops the process (SIGSTOP), until it is killed.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// As [`World::kill`], but does not wait for the end.
    pub(crate) fn begin_kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it runs");
        crate::signal::signal(process, signal);
    }

    /// Whether it has told the kernel to take some of its memory in huge pages.
    pub(crate) fn wants_huge_pages(&self) -> bool {
        let process = self.process.as_ref().expect("it runs");
        let maps = fs::read_to_string(format!("/proc/{}/smaps", process.id()));
        let maps = maps.expect("the mappings of a process");
        let mut flags = maps.lines().filter_map(|line| line.strip_prefix("VmFlags:"));
        flags.any(|flags| flags.split_whitespace().any(|flag| flag == "hg"))
    }

    /// A figure of the process's memory from the kernel, in KiB.
    pub(crate) fn memory(&self, name: &str) -> u64 {
        let process = self.process.as_ref().expect("it runs");
        let status = fs::read_to_string(format!("/proc/{}/status", process.id()));
        let status = status.expect("the state of a process");
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let words = line.and_then(|line| line.split_whitespace().next());
        words.and_then(|kib| kib.parse().ok()).expect("a size")
    }

    /// Ends the process at once.
    pub(crate) fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.kill().expect("it is there");
        process.wait().expect("it ends");
    }

    /// The export, for clients of NBD.
    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///tank?socket={}", self.path("run/tank.nbd").display())
    }

    pub(crate) fn nbd(&self) -> Nbd {
        Nbd::connect(&self.path("run/tank.nbd"), "tank")
    }

    /// The file that FUSE shows.
    pub(crate) fn fuse(&self) -> PathBuf {
        self.path("mnt/tank")
    }

    /// Runs the command, which may fail.
    pub(crate) fn try_evenkeel(&self, line: &str) -> Ended {
        attempt("coreutils", &self.line(line))
    }

    /// Runs the command in the background.
    pub(crate) fn spawn_evenkeel(&self, line: &str) -> Background {
        self.spawn("coreutils", &self.line(line))
    }

    fn line(&self, line: &str) -> String {
        let (dir, run) = (self.dir.path().display(), self.path("run"));
        format!("env -C {dir} {EVENKEEL} --run-dir {} {line}", run.display())
    }

    /// Runs the command, which must not fail; returns what it printed.
    pub(crate) fn evenkeel(&self, line: &str) -> String {
        self.try_evenkeel(line).done()
    }

    /// The output of `status`.
    pub(crate) fn status(&self) -> Value {
        json(&self.try_evenkeel("status tank --json").stdout)["result"]["arrays"][0].take()
    }

    /// A figure of the staging log from `status`.
    pub(crate) fn staging(&self, what: &str) -> u64 {
        let status = self.status();
        status["staging"][what].as_u64().unwrap_or_else(|| panic!("no {what}: {status:#}"))
    }

    /// The output of `examine` for a member.
    pub(crate) fn examine(&self, member: &str) -> Value {
        json(&self.evenkeel(&format!("examine --json {member}")))["result"]["members"][0].take()
    }

    /// Checks that there was such an event.
    pub(crate) fn assert_event(&self, words: &[&str]) {
        let status = self.status();
        let events = status["events"].as_array().expect("events");
        let told = |event: &Value| {
            words.iter().all(|word| event["text"].as_str().is_some_and(|text| text.contains(word)))
        };
        assert!(events.iter().any(told), "no event says {words:?}: {events:#?}");
    }

    /// A scrub's count of stripes that did not match.
    pub(crate) fn scrub(&self) -> u64 {
        // It is refused while a resync runs. The wait fails if a member is missing.
        self.try_evenkeel("rebuild status tank --wait");
        self.try_evenkeel("scrub start tank --wait");
        let found = &self.status()["last_scrub"]["mismatches"];
        found.as_u64().unwrap_or_else(|| panic!("no scrub ended: {:#}", self.status()))
    }

    /// No client has seen an error.
    pub(crate) fn assert_no_errors(&self) {
        let status = self.status();
        assert_eq!(
            status["requests"]["failed"], 0,
            "requests that ended with an error: {status:#}"
        );
    }

    /// All is well, and redundancy matches data.
    pub(crate) fn assert_sound(&self) {
        self.assert_no_errors();
        assert_eq!(self.scrub(), 0, "stripes that did not match");
        let status = self.status();
        assert_eq!(status["health"], "online", "{status:#}");
    }

    /// Copies a file to the array over NBD.
    pub(crate) fn copy_in(&self, file: &Path) {
        run("libnbd-bin", &format!("nbdcopy --flush {} {}", file.display(), self.uri()));
    }

    /// Compares a file with the array over NBD; what is beyond the file has to be zeros.
    pub(crate) fn compare(&self, file: &Path) {
        let compare = "qemu-img compare -f raw -F raw";
        run("qemu-utils", &format!("{compare} {} {}", file.display(), self.uri()));
    }

    /// A program that is run in the background, in the directory.
    pub(crate) fn spawn(&self, package: &str, line: &str) -> Background {
        let mut command = command(package, line);
        command.current_dir(self.dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
        Background(command.spawn().expect("it is run"))
    }

    /// What the array's processes have logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the log:\n{}", self.log());
        }
        if let Some(mut process) = self.process.take() {
            process.kill().ok();
            process.wait().ok();
        }
        if self.path("run/tank.sock").exists() {
            // One in the background, which a test that has failed leaves.
            self.try_evenkeel("stop tank --force");
        }
        // Fails if nothing is mounted there any more.
        let umount = Command::new("umount").arg("-lq").arg(self.path("mnt")).output();
        drop(umount);
    }
}

/// A program that runs; it is ended when this is dropped.
pub(crate) struct Background(Child);

impl Background {
    /// Waits for its end; tells whether it succeeded.
    pub(crate) fn wait(mut self) -> bool {
        self.0.wait().expect("it ends").success()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            // `timeout` passes this on.
            kill_process(Pid::from_child(&self.0), Signal::TERM).ok();
            self.0.wait().ok();
        }
    }
}

/// The first line that a process tells.
pub(crate) fn first_line(stdout: ChildStdout) -> String {
    let (said, hears) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("it tells");
        // The receiver is gone if the test has failed meanwhile.
        said.send(line).ok();
    });
    hears.recv_timeout(HANGS).expect("it does not start, nor says why")
}

/// What a program has printed.
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("no JSON, {error}: {text}"))
}
