//! A machine for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::fs::makedev;
use tempfile::TempDir;

use super::Machine;

/// A machine whose `/sys` and `/proc` are directories.
pub(crate) struct Fake(TempDir);

impl Fake {
    /// With nodes that have these CPUs.
    pub(crate) fn new(nodes: &[&str]) -> Self {
        let fake = Self(tempfile::tempdir().expect("a directory"));
        for (number, cpus) in nodes.iter().enumerate() {
            fake.file(&format!("devices/system/node/node{number}/cpulist"), &format!("{cpus}\n"));
        }
        fs::create_dir_all(fake.path("dev/block")).expect("a directory");
        fake
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(crate) fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    pub(crate) fn link(&self, to: &str, at: &str) {
        let at = self.path(at);
        fs::create_dir_all(at.parent().expect("a directory")).expect("a directory");
        symlink(self.path(to), at).expect("a link");
    }

    /// A drive of NVMe with this number, below a slot on this node.
    pub(crate) fn nvme(&self, number: u32, node: &str) {
        let slot = format!("devices/pci0000:00/0000:00:{number:02x}.0");
        let controller = format!("{slot}/nvme/nvme{number}");
        self.file(&format!("{slot}/numa_node"), node);
        self.file(&format!("{controller}/nvme{number}n1/dev"), &format!("259:{number}\n"));
        self.link(&controller, &format!("{controller}/nvme{number}n1/device"));
        self.link(&format!("{controller}/nvme{number}n1"), &format!("dev/block/259:{number}"));
    }

    pub(crate) fn machine(&self) -> Machine<'_> {
        Machine { sys: self.0.path(), proc: self.0.path() }
    }

    /// The number of that drive's block device.
    pub(crate) fn drive(number: u32) -> u64 {
        makedev(259, number)
    }
}
