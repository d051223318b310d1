//! What happened to an array, and who changed it: a file of JSON lines for each array, which outlives its
//! process and the machine's boot.
//!
//! It is in the state directory and not on the members: what took an array down is read when it can't be
//! started, and a write on members for each event would wear them and wait for those that hang.
//!
//! Invariants:
//! - An array's history takes at most two files of [`FILE_BYTES_MAX`]: the older one is replaced by the
//!   newer when that is full.
//! - No array waits for its history. Entries are written by a [thread of its own](Keeper); those that it
//!   can't take are left out.
//! - Numbers grow from entry to entry, across starts.

mod flood;
mod follower;
mod keeper;

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use follower::Follower;
pub use keeper::Keeper;

use crate::create::wall_clock;
use crate::run_dir::private;

/// How long a file of a history grows, in bytes.
pub const FILE_BYTES_MAX: u64 = 512 << 10;

/// The kind of a command that changed an array.
pub const COMMAND: &str = "command";

/// The kind of a start: the array serves.
pub const STARTED: &str = "started";

/// The kind of a clean stop.
pub const STOPPED: &str = "stopped";

/// The kind of an end that is no clean stop.
pub const ENDED: &str = "ended";

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, greater than those of all before.
    pub number: u64,
    /// When, in seconds since 1970.
    pub at: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct What {
    /// Its kind: hyphenated words that don't change between releases.
    pub kind: String,
    /// In words; of a command, the command.
    pub text: String,
    /// The member that it is about, as commands name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Of a command, who gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
}

impl What {
    /// What concerns the whole array.
    #[must_use]
    pub fn of_array(kind: &str, text: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), text: text.into(), disk: None, by: None }
    }

    /// A command.
    #[must_use]
    pub fn command(text: impl Into<String>, by: Option<By>) -> Self {
        Self { by, ..Self::of_array(COMMAND, text) }
    }
}

/// Who gave a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct By {
    /// The user whose process it was.
    pub uid: u32,
    /// The user who logged in, before `sudo` and the like; none if the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<u32>,
    /// The process; 0 if it is not known.
    pub pid: u32,
}

impl By {
    /// The user of a process.
    #[must_use]
    pub fn process(uid: u32, pid: u32) -> Self {
        let login = fs::read_to_string(format!("/proc/{pid}/loginuid"));
        let login = login.ok().and_then(|login| login.trim().parse().ok());
        Self { uid, login: login.filter(|&login| login != u32::MAX), pid }
    }

    /// The user of this process.
    #[must_use]
    pub fn this_process() -> Self {
        Self::process(rustix::process::geteuid().as_raw(), std::process::id())
    }
}

/// The history of the array called `name`, the oldest first: entries with greater numbers than `after`.
/// There are none if there is no file.
///
/// # Errors
/// If there is one that can't be read.
pub fn read(state_dir: &Path, name: &str, after: u64) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for path in files(state_dir, name) {
        let file = match private().read(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        // A crash may have torn a line.
        let lines = BufReader::new(file.take(2 * FILE_BYTES_MAX)).split(b'\n');
        for line in lines {
            entries.extend(serde_json::from_slice::<Entry>(&line?));
        }
    }
    entries.retain(|entry| entry.number > after);
    // The older file may have been read before the newer took its place.
    entries.sort_by_key(|entry| entry.number);
    entries.dedup_by_key(|entry| entry.number);
    Ok(entries)
}

/// The names of the arrays that have a history, sorted.
///
/// # Errors
/// If the directory is there and can't be read.
pub fn kept(state_dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(state_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        names.extend(
            name.to_str().and_then(|name| name.strip_suffix(".history")).map(str::to_owned),
        );
    }
    names.sort();
    Ok(names)
}

/// Adds one entry, for who runs no array.
///
/// # Errors
/// If it can't be written.
pub fn append(state_dir: &Path, name: &str, what: What) -> io::Result<()> {
    Writer::open(state_dir, name)?.write(what)
}

/// The older file and the newer one.
fn files(state_dir: &Path, name: &str) -> [PathBuf; 2] {
    ["history.old", "history"].map(|suffix| state_dir.join(format!("{name}.{suffix}")))
}

/// Writes a history.
struct Writer {
    files: [PathBuf; 2],
    file: File,
    bytes: u64,
    next: u64,
}

impl Writer {
    fn open(state_dir: &Path, name: &str) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o755).create(state_dir)?;
        let next = read(state_dir, name, 0)?.last().map_or(1, |entry| entry.number + 1);
        let files = files(state_dir, name);
        let mut file = private().read(true).append(true).create(true).open(&files[1])?;
        let bytes = file.seek(SeekFrom::End(0))?;
        let mut last = [b'\n'];
        if bytes > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        // What comes next is not to be part of a torn line.
        if last != [b'\n'] {
            file.write_all(b"\n")?;
        }
        Ok(Self { files, file, bytes, next })
    }

    fn write(&mut self, what: What) -> io::Result<()> {
        let entry = Entry { number: self.next, at: wall_clock(), what };
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        if self.bytes > 0 && self.bytes + line.len() as u64 > FILE_BYTES_MAX {
            fs::rename(&self.files[1], &self.files[0])?;
            self.file = private().append(true).create(true).open(&self.files[1])?;
            self.bytes = 0;
        }
        self.file.write_all(&line)?;
        self.file.sync_data()?;
        self.bytes += line.len() as u64;
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(dir: &Path, after: u64) -> Vec<u64> {
        let entries = read(dir, "tank", after).expect("it can be read");
        entries.iter().map(|entry| entry.number).collect()
    }

    #[test]
    fn numbers_go_on_and_a_torn_line_costs_itself_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        assert!(numbers(dir, 0).is_empty());
        append(dir, "tank", What::of_array(STARTED, "one")).expect("it is written");
        append(dir, "tank", What::command("two", Some(By::this_process()))).expect("it is written");
        let file = dir.join("tank.history");
        let mut torn = File::options().append(true).open(&file).expect("the file");
        torn.write_all(b"{\"number\":3,\"at\":1").expect("it is written");
        append(dir, "tank", What::of_array(STOPPED, "three")).expect("it is written");
        assert_eq!(numbers(dir, 0), [1, 2, 3]);
        assert_eq!(numbers(dir, 2), [3]);
        let entries = read(dir, "tank", 1).expect("it can be read");
        assert_eq!(entries[0].what.by, Some(By::this_process()));
        assert_eq!(kept(dir).expect("it can be read"), ["tank"]);
    }

    #[test]
    fn it_is_bounded() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        let mut writer = Writer::open(dir, "tank").expect("it is made");
        let long = "x".repeat(64 << 10);
        for _ in 0..40 {
            writer.write(What::of_array("something", &*long)).expect("it is written");
        }
        let bytes = files(dir, "tank").map(|path| fs::metadata(path).expect("it is there").len());
        assert!(bytes.iter().all(|&bytes| bytes <= FILE_BYTES_MAX), "{bytes:?}");
        let left = numbers(dir, 0);
        assert_eq!(left.last(), Some(&40));
        assert!(left.len() >= 7 && left.is_sorted(), "{left:?}");
    }
}
