//! A directory with member files, and the command.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const MIB: u64 = 1 << 20;

/// All its processes are stopped when it is dropped.
pub(crate) struct World {
    dir: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// It has failed, with exit code 1, and said each of `words`.
    pub(crate) fn failed(&self, words: &[&str]) {
        assert_eq!(self.code, 1, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word}: {self:?}");
        }
    }

    /// It has done it; tells what it printed.
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// The one document that it printed.
    pub(crate) fn envelope(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The result that it printed.
    pub(crate) fn json(&self) -> Value {
        let result = self.envelope()["result"].take();
        assert!(result.is_object(), "no result: {self:?}");
        result
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    /// With members `m0`, `m1`, … of these sizes.
    pub(crate) fn with_members(mib: &[u64]) -> Self {
        let world = Self::new();
        for (index, mib) in mib.iter().enumerate() {
            world.file(&format!("m{index}"), mib * MIB);
        }
        world
    }

    /// A sparse file.
    pub(crate) fn file(&self, name: &str, bytes: u64) {
        let file = File::create(self.path(name)).expect("a file");
        file.set_len(bytes).expect("a sparse file");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.path("run")
    }

    /// Runs the command in the directory, its words separated by blanks.
    pub(crate) fn run(&self, line: &str) -> Ended {
        Self::ended(&mut self.command(line))
    }

    /// The same, with one more argument.
    pub(crate) fn run_with(&self, line: &str, last: &OsStr) -> Ended {
        Self::ended(self.command(line).arg(last))
    }

    /// Runs a command to its end.
    pub(crate) fn ended(command: &mut Command) -> Ended {
        let output = command.output().expect("the command runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Ended {
            code: output.status.code().expect("it was not killed"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Starts an array in the foreground; when this returns, it serves.
    pub(crate) fn foreground(&self, line: &str) -> Child {
        let mut command = self.command(line);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it is started");
        let mut ready = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut ready).expect("it tells");
        assert!(ready.contains("is running"), "{ready}");
        child
    }

    /// What is on these files.
    pub(crate) fn contents(&self, names: &[&str]) -> Vec<Vec<u8>> {
        let read = |name: &&str| fs::read(self.path(name)).expect("it can be read");
        names.iter().map(read).collect()
    }

    pub(crate) fn overwrite(&self, name: &str, at: u64, bytes: &[u8]) {
        let file = File::options().write(true).open(self.path(name)).expect("the file");
        file.write_all_at(bytes, at).expect("it can be written");
    }

    pub(crate) fn status(&self, name: &str) -> Value {
        self.run(&format!("status {name} --json")).json()["arrays"][0].take()
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command
            .args(line.split_whitespace())
            .current_dir(self.dir.path())
            .env("EVENKEEL_RUN_DIR", self.run_dir())
            .stdin(Stdio::null());
        command
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let Ok(arrays) = fs::read_dir(self.run_dir()) else {
            return;
        };
        for path in arrays.filter_map(|entry| Some(entry.ok()?.path())) {
            if let Some(name) = name_of(&path) {
                let ended = self.run(&format!("stop {name} --force"));
                if ended.code != 0 && !std::thread::panicking() {
                    panic!("{name} can't be stopped: {ended:?}");
                }
            }
        }
    }
}

fn name_of(socket: &Path) -> Option<&str> {
    let is_socket = socket.extension().is_some_and(|extension| extension == "sock");
    socket.file_stem()?.to_str().filter(|_| is_socket)
}
