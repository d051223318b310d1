//! A device's label: its lasting name below `/dev/disk/by-id`, and the serial number that is
//! printed on it. It is looked up while the device answers, since it is needed when the device does
//! not.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use raidcore::meta::DeviceLabel;

/// How much is read of a file that holds a serial number.
const SERIAL_BYTES: usize = 256;

/// Where the system describes its devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    /// Links to devices by what they are.
    by_id: &'a Path,
    /// The kernel's block devices by their numbers.
    sys: &'a Path,
    /// udev's.
    udev: &'a Path,
}

/// The label of the device or file at `path`; for a file, only its path.
pub(crate) fn label(path: &Path) -> DeviceLabel {
    let places = Places {
        by_id: Path::new("/dev/disk/by-id"),
        sys: Path::new("/sys/dev/block"),
        udev: Path::new("/run/udev/data"),
    };
    let device = fs::metadata(path).ok().filter(|meta| meta.file_type().is_block_device());
    places.label(path, device.map(|meta| meta.rdev()))
}

impl Places<'_> {
    fn label(&self, path: &Path, number: Option<u64>) -> DeviceLabel {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let Some(number) = number else {
            return DeviceLabel::new(&absolute.to_string_lossy(), "");
        };
        let lasting = self.lasting_name(&absolute).unwrap_or(absolute);
        let serial = self.serial(number).unwrap_or_default();
        DeviceLabel::new(&lasting.to_string_lossy(), &serial)
    }

    /// The name of a device that does not depend on where it is plugged in; preferably one with
    /// model and serial number.
    fn lasting_name(&self, path: &Path) -> Option<PathBuf> {
        let device = path.canonicalize().ok()?;
        let names = fs::read_dir(self.by_id).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let same = names.filter(|name| name.canonicalize().is_ok_and(|other| other == device));
        same.min_by_key(|name| {
            let shown = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let numeric = ["wwn-", "nvme-eui.", "nvme-uuid.", "scsi-3", "lvm-pv-uuid-", "dm-uuid-"];
            (numeric.iter().any(|prefix| shown.starts_with(prefix)), shown)
        })
    }

    /// The serial number of the disk that a partition is on, from udev, else from the kernel.
    fn serial(&self, number: u64) -> Option<String> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let node = self.sys.join(format!("{major}:{minor}"));
        let disk = match node.canonicalize() {
            Ok(part) if part.join("partition").exists() => part.parent()?.to_path_buf(),
            Ok(disk) => disk,
            Err(_) => node,
        };
        let number = fs::read_to_string(disk.join("dev")).ok();
        let number = number.map_or_else(|| format!("{major}:{minor}"), |dev| dev.trim().to_owned());
        let known = fs::read_to_string(self.udev.join(format!("b{number}"))).unwrap_or_default();
        let property = |name: &str| known.lines().find_map(|line| line.strip_prefix(name));
        let udev = property("E:ID_SERIAL_SHORT=").map(str::to_owned);
        let files = ["device/serial", "serial", "device/vpd_pg80"];
        let kernel = || files.iter().find_map(|file| read_serial(&disk.join(file)));
        udev.filter(|serial| !serial.is_empty()).or_else(kernel)
    }
}

/// A serial number in a file of the kernel's: the printable part, which SCSI has after a header.
fn read_serial(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let shown = bytes.iter().take(SERIAL_BYTES).filter(|byte| matches!(byte, b' '..=b'~'));
    let serial: String = shown.map(|&byte| char::from(byte)).collect();
    let serial = serial.trim();
    (!serial.is_empty()).then(|| serial.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A system with one disk, 8:0, and a partition of it, 8:1, whose nodes are files.
    struct System(tempfile::TempDir);

    impl System {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let at = |path: &str| dir.path().join(path);
            for path in ["by-id", "block", "udev", "devices/sda/device", "devices/sda/sda1"] {
                fs::create_dir_all(at(path)).expect("a directory");
            }
            for (path, text) in [
                ("sda", ""),
                ("sda1", ""),
                ("devices/sda/dev", "8:0\n"),
                ("devices/sda/sda1/dev", "8:1\n"),
                ("devices/sda/sda1/partition", "1\n"),
            ] {
                fs::write(at(path), text).expect("a file");
            }
            symlink(at("devices/sda"), at("block/8:0")).expect("a link");
            symlink(at("devices/sda/sda1"), at("block/8:1")).expect("a link");
            Self(dir)
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn label(&self, node: &str, minor: u32) -> DeviceLabel {
            let places =
                Places { by_id: &self.at("by-id"), sys: &self.at("block"), udev: &self.at("udev") };
            places.label(&self.at(node), Some(rustix::fs::makedev(8, minor)))
        }
    }

    #[test]
    fn a_disk_is_called_what_is_printed_on_it() {
        let system = System::new();
        let plain = system.label("sda", 0);
        assert_eq!((plain.path(), plain.serial()), (&*system.at("sda").to_string_lossy(), ""));
        for name in ["wwn-0x5002538e", "ata-Samsung_SSD_S5GX", "zz-other"] {
            symlink(system.at("sda"), system.at("by-id").join(name)).expect("a link");
        }
        symlink(system.at("gone"), system.at("by-id/ata-A")).expect("a link to nothing");
        fs::write(system.at("devices/sda/device/vpd_pg80"), b"\0\x80\0\x08  S5GX  ")
            .expect("a file");
        let label = system.label("sda", 0);
        assert!(label.path().ends_with("/by-id/ata-Samsung_SSD_S5GX"), "{label:?}");
        assert_eq!(label.serial(), "S5GX");
    }

    #[test]
    fn a_partition_has_the_serial_number_of_its_disk_as_udev_tells_it() {
        let system = System::new();
        fs::write(system.at("devices/sda/device/serial"), "KERNEL\n").expect("a file");
        assert_eq!(system.label("sda1", 1).serial(), "KERNEL");
        fs::write(system.at("udev/b8:0"), "E:ID_SERIAL=long\nE:ID_SERIAL_SHORT=SHORT\n")
            .expect("a file");
        assert_eq!(system.label("sda1", 1).serial(), "SHORT");
    }

    #[test]
    fn a_file_is_called_by_its_whole_path() {
        let label = label(Path::new("Cargo.toml"));
        assert!(label.path().starts_with('/') && label.path().ends_with("/Cargo.toml"));
        assert_eq!(label.serial(), "");
    }
}
