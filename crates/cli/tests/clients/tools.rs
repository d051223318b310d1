//! Programs of the tests; their effects are undone however the test ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time after which a program counts as hanging.
pub(crate) const HANGS: Duration = Duration::from_secs(150);

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) line: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// It has done what it was told to; returns what it printed.
    pub(crate) fn done(self) -> String {
        let Self { line, code, stdout, stderr } = self;
        assert_eq!(code, Some(0), "`{line}` failed:\n{stdout}{stderr}");
        stdout
    }

    /// It has failed, and said each of `words`.
    pub(crate) fn refused(&self, words: &[&str]) {
        let Self { line, code, stdout, stderr } = self;
        assert!(*code != Some(0), "`{line}` should have failed:\n{stdout}{stderr}");
        for word in words {
            let said = stdout.contains(word) || stderr.contains(word);
            assert!(said, "`{line}` should have said \"{word}\":\n{stdout}{stderr}");
        }
    }
}

/// Runs a program to its end, its words separated by blanks. `package` is what has it in Debian.
pub(crate) fn attempt(package: &str, line: &str) -> Ended {
    let Output { status, stdout, stderr } = command(package, line).output().expect("it is run");
    let code = status.code();
    assert!(code != Some(124), "`{line}` hangs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { line: line.to_owned(), code, stdout: text(&stdout), stderr: text(&stderr) }
}

/// Runs a program that must not fail; returns what it printed.
pub(crate) fn run(package: &str, line: &str) -> String {
    attempt(package, line).done()
}

/// A program that is ended if it hangs.
pub(crate) fn command(package: &str, line: &str) -> Command {
    let program = line.split_whitespace().next().expect("a program");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).any(|dir| dir.join(program).exists());
    assert!(installed, "`{program}` is missing: apt install {package}");
    let mut command = Command::new("timeout");
    command.arg("--kill-after=10").arg(HANGS.as_secs().to_string());
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command
}

/// Waits for something to happen.
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < HANGS, "waited in vain for this: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// Blocks that differ from each other and from those of other seeds.
pub(crate) fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mut content = vec![0; bytes];
    for word in content.chunks_mut(8) {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes()[..word.len()]);
    }
    content
}

/// The first byte that differs.
pub(crate) fn assert_same(found: &[u8], wanted: &[u8], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}: the length");
    let differs = found.iter().zip(wanted).position(|(found, wanted)| found != wanted);
    assert_eq!(differs, None, "{what}: the first byte that differs");
}

/// A loop device.
pub(crate) struct Loop {
    pub(crate) device: String,
}

impl Loop {
    /// With direct I/O to the file, and blocks like an array's.
    pub(crate) fn new(file: &Path) -> Self {
        let control = Path::new("/dev/loop-control").exists();
        assert!(control, "no /dev/loop-control: `modprobe loop` (CONFIG_BLK_DEV_LOOP)");
        let options = "--direct-io=on --sector-size=4096 --find --show";
        let device = run("mount", &format!("losetup {options} {}", file.display()));
        let device = device.trim().to_owned();
        let query = run("mount", &format!("losetup -n --raw -O DIO,LOG-SEC {device}"));
        let new = Self { device };
        assert_eq!(query.trim(), "1 4096", "direct I/O and the block size of {}", new.device);
        new
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Command::new("losetup").args(["-d", &self.device]).status().ok();
    }
}

/// A mounted file system.
pub(crate) struct Mount {
    dir: PathBuf,
    mounted: bool,
}

impl Mount {
    /// Mounts with `options` (those of `mount`, and the device) on a directory, which is made.
    pub(crate) fn new(options: &str, dir: &Path) -> Self {
        fs::create_dir_all(dir).expect("a directory");
        run("mount", &format!("mount {options} {}", dir.display()));
        Self { dir: dir.to_owned(), mounted: true }
    }

    pub(crate) fn unmount(mut self) {
        // Looking for the users of a file, as arrays of other tests do, keeps it busy for a moment.
        let umount = format!("umount {}", self.dir.display());
        wait_for(&umount, || {
            let ended = attempt("mount", &umount);
            let busy = ended.code == Some(32) && ended.stderr.contains("busy");
            (!busy).then(|| ended.done())
        });
        self.mounted = false;
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.mounted {
            Command::new("umount").arg("-l").arg(&self.dir).status().ok();
        }
    }
}
