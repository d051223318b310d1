//! The processes that have locked a file, as far as the kernel tells.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{major, minor};

/// Where the kernel lists locks (proc_locks(5)).
const LOCKS: &str = "/proc/locks";

/// The process that has locked a file. None if there is none, or if the kernel does not tell: the
/// list has other identifiers for files of some file systems, and none for processes of other
/// containers.
pub(crate) fn holder(file: &Metadata) -> Option<u32> {
    let locks = std::fs::read_to_string(LOCKS).ok()?;
    locks.lines().find_map(|line| holder_in(line, file.dev(), file.ino()))
}

/// The process in a line of the list, if it has locked this file.
fn holder_in(line: &str, dev: u64, ino: u64) -> Option<u32> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (kind, _advisory, access) = (words.next()?, words.next()?, words.next()?);
    let (process, file) = (words.next()?, words.next()?);
    let file_wanted = format!("{:02x}:{:02x}:{ino}", major(dev), minor(dev));
    // A process that waits for a lock has an arrow before its kind.
    let locked = kind == "FLOCK" && access == "WRITE" && file == file_wanted;
    process.parse().ok().filter(|&process| locked && process > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_has_locked_a_file_is_found() {
        let file = tempfile::tempfile_in("/dev/shm").expect("a file in memory");
        let meta = file.metadata().expect("it is there");
        assert_eq!(holder(&meta), None);
        file.lock().expect("nobody else has it");
        assert_eq!(holder(&meta), Some(std::process::id()));
    }

    #[test]
    fn a_lock_is_known_by_its_file() {
        let dev = rustix::fs::makedev(0xfe, 0);
        let held = |line| holder_in(line, dev, 123);
        assert_eq!(held("7: FLOCK  ADVISORY  WRITE 1709 fe:00:123 0 EOF"), Some(1709));
        assert_eq!(held("7: FLOCK  ADVISORY  WRITE 1709 fe:00:124 0 EOF"), None);
        assert_eq!(held("7: FLOCK  ADVISORY  WRITE 1709 fe:01:123 0 EOF"), None);
        assert_eq!(held("7: FLOCK  ADVISORY  READ 1709 fe:00:123 0 EOF"), None);
        assert_eq!(held("7: -> FLOCK  ADVISORY  WRITE 1709 fe:00:123 0 EOF"), None);
        assert_eq!(held("7: FLOCK  ADVISORY  WRITE -1 fe:00:123 0 EOF"), None);
        assert_eq!(held("7: FLOCK"), None);
    }
}
