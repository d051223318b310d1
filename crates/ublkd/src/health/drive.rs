//! Which drive a block device is on, and how that is asked.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How a drive is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// By an NVMe command.
    Nvme,
    /// By an ATA command.
    Ata,
    /// By other SCSI commands, which `smartctl` knows.
    Scsi,
}

/// A whole drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Drive {
    pub(super) kind: Kind,
    /// Its device node.
    pub(super) node: PathBuf,
    /// Its device number.
    number: u64,
    /// Its logical blocks, in bytes.
    pub(super) block_bytes: u32,
}

/// Where the system describes its devices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    /// The kernel's block devices by their numbers.
    sys: &'a Path,
    /// Device nodes.
    dev: &'a Path,
}

/// The drive that the block device of this number is, or is a partition of. None if it is anything
/// else than a drive, such as a loop device, or one of the device mapper.
pub(super) fn of_device(number: u64) -> Option<Drive> {
    Places { sys: Path::new("/sys/dev/block"), dev: Path::new("/dev") }.drive(number)
}

impl Places<'_> {
    fn drive(&self, number: u64) -> Option<Drive> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let node = self.sys.join(format!("{major}:{minor}")).canonicalize().ok()?;
        let disk = if node.join("partition").exists() { node.parent()? } else { &node };
        let read = |file| Some(fs::read_to_string(disk.join(file)).ok()?.trim().to_owned());
        let name = disk.file_name()?.to_str()?;
        let kind = if name.starts_with("nvme") {
            Kind::Nvme
        } else if name.starts_with("sd") {
            // What translates between SCSI and ATA says so: libata, or a host adapter.
            if read("device/vendor").as_deref() == Some("ATA") { Kind::Ata } else { Kind::Scsi }
        } else {
            return None;
        };
        let numbers = read("dev")?;
        let (major, minor) = numbers.split_once(':')?;
        Some(Drive {
            kind,
            node: self.dev.join(name),
            number: rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?),
            block_bytes: read("queue/logical_block_size")
                .and_then(|b| b.parse().ok())
                .unwrap_or(512),
        })
    }
}

impl Drive {
    /// Opens it for commands.
    ///
    /// # Errors
    /// As from the kernel, or if the node is another device's by now.
    pub(super) fn open(&self) -> io::Result<File> {
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&self.node)?;
        if file.metadata()?.rdev() != self.number {
            return Err(io::Error::other("the node is another device's"));
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::makedev;

    use super::*;

    /// A system with these disks: number, name, and the vendor that SCSI tells; the first has a partition.
    fn system(disks: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at("block")).expect("a directory");
        for (index, (number, name, vendor)) in disks.iter().enumerate() {
            let disk = format!("devices/{name}");
            for part in ["device", "queue"] {
                fs::create_dir_all(at(&format!("{disk}/{part}"))).expect("a directory");
            }
            fs::write(at(&format!("{disk}/dev")), format!("{number}\n")).expect("a file");
            fs::write(at(&format!("{disk}/device/vendor")), format!("{vendor:8}\n"))
                .expect("a file");
            fs::write(at(&format!("{disk}/queue/logical_block_size")), "4096\n").expect("a file");
            symlink(at(&disk), at(&format!("block/{number}"))).expect("a link");
            if index == 0 {
                fs::create_dir_all(at(&format!("{disk}/part1"))).expect("a directory");
                fs::write(at(&format!("{disk}/part1/partition")), "1\n").expect("a file");
                symlink(at(&format!("{disk}/part1")), at("block/259:9")).expect("a link");
            }
        }
        dir
    }

    fn drive(system: &tempfile::TempDir, number: u64) -> Option<Drive> {
        Places { sys: &system.path().join("block"), dev: Path::new("/dev") }.drive(number)
    }

    #[test]
    fn a_drive_is_asked_by_what_it_is() {
        let system = system(&[
            ("259:0", "nvme0n1", ""),
            ("8:0", "sda", "ATA"),
            ("8:16", "sdb", "SAMSUNG"),
            ("7:0", "loop0", ""),
            ("253:0", "dm-0", ""),
        ]);
        let expected = |kind, name: &str, number| {
            Some(Drive { kind, node: Path::new("/dev").join(name), number, block_bytes: 4096 })
        };
        let nvme = expected(Kind::Nvme, "nvme0n1", makedev(259, 0));
        assert_eq!(drive(&system, makedev(259, 0)), nvme);
        assert_eq!(drive(&system, makedev(259, 9)), nvme, "a partition asks its disk");
        assert_eq!(drive(&system, makedev(8, 0)), expected(Kind::Ata, "sda", makedev(8, 0)));
        assert_eq!(drive(&system, makedev(8, 16)), expected(Kind::Scsi, "sdb", makedev(8, 16)));
        assert_eq!(drive(&system, makedev(7, 0)), None, "a loop device has no health");
        assert_eq!(drive(&system, makedev(253, 0)), None, "nor has the device mapper");
        assert_eq!(drive(&system, makedev(9, 9)), None, "nor a device that is not there");
    }

    #[test]
    fn a_node_of_another_device_is_not_asked() {
        let node = PathBuf::from("/dev/null");
        let drive = Drive { kind: Kind::Scsi, node, number: makedev(1, 5), block_bytes: 512 };
        drive.open().expect_err("it is 1:3");
    }
}
