//! Which controllers the drives of a block device have, and on which NUMA node they are.

use std::fs;
use std::path::{Path, PathBuf};

use super::Machine;

/// The most drives below a block device that are looked at.
const DRIVES: usize = 256;

/// What a drive is reached through.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Controller {
    /// Its name, if it is one of NVMe.
    pub(crate) nvme: Option<String>,
    /// Its NUMA node, if the machine tells.
    pub(crate) node: Option<u32>,
}

impl Machine<'_> {
    /// The controllers of the drives that hold the block device of this number: one for most, several for a
    /// drive with several paths, or a device above several drives. None for what is on no drive.
    pub(crate) fn controllers(&self, number: u64) -> Vec<Controller> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let device = self.sys.join(format!("dev/block/{major}:{minor}"));
        let Some(device) = device.canonicalize().ok() else { return Vec::new() };
        let (mut seen, mut found, mut next) = (vec![device], Vec::new(), 0);
        while let Some(device) = seen.get(next).cloned() {
            next += 1;
            let disk = match device.parent() {
                Some(disk) if device.join("partition").exists() => disk,
                Some(_) | None => &device,
            };
            let below = links(&device.join("slaves"), |_| true);
            if below.is_empty() {
                found.extend(self.controllers_of(disk));
            }
            for lower in below {
                if seen.len() < DRIVES && !seen.contains(&lower) {
                    seen.push(lower);
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// Those of a disk.
    fn controllers_of(&self, disk: &Path) -> Vec<Controller> {
        let Ok(device) = disk.join("device").canonicalize() else { return Vec::new() };
        let mut all = vec![device];
        if name(&all[0]).is_some_and(|name| name.starts_with("nvme-subsys")) {
            // A namespace that may have several paths is below what joins them.
            all = links(&all[0], is_nvme);
        }
        let controller = |device: &PathBuf| Controller {
            nvme: name(device).filter(|name| is_nvme(name)).map(str::to_owned),
            node: self.node_of(device),
        };
        all.iter().map(controller).collect()
    }

    /// The NUMA node of a device, which it or what it is plugged into tells.
    fn node_of(&self, device: &Path) -> Option<u32> {
        let root = self.sys.canonicalize().ok()?;
        let above = device.ancestors().take_while(|above| above.starts_with(&root));
        // -1 is none that is known.
        let told = |above: &Path| fs::read_to_string(above.join("numa_node")).ok();
        above.filter_map(told).find_map(|node| node.trim().parse().ok())
    }
}

/// Where the links of a directory lead that have such names.
fn links(directory: &Path, has: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(&has));
    let mut found: Vec<_> = named.filter_map(|entry| entry.path().canonicalize().ok()).collect();
    found.sort();
    found
}

/// Whether this is what the kernel calls a controller of NVMe.
fn is_nvme(name: &str) -> bool {
    let number = name.strip_prefix("nvme").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}
