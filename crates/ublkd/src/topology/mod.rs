//! The machine below an array: its NUMA nodes, which of them drives are on, where interrupts go, and where
//! the array's threads run.
//!
//! Invariant: what the system does not tell, or not in a form that is known, is not guessed: then threads
//! run anywhere, and nothing is told.

mod controllers;
mod cpus;
#[cfg(test)]
mod fake;
mod interrupts;
mod site;

use std::fs;
use std::path::Path;

pub(crate) use cpus::of_this_thread;
pub use cpus::{Cpus, CpusError, CpusMissing};
#[cfg(test)]
pub(crate) use fake::Fake;
pub(crate) use interrupts::Interrupts;
pub(crate) use site::Site;

/// Where the system describes itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine<'a> {
    /// Devices, as in `/sys`.
    sys: &'a Path,
    /// Interrupts, as in `/proc`.
    proc: &'a Path,
}

/// A NUMA node that has CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    /// Its number.
    pub(crate) number: u32,
    /// Its CPUs.
    pub(crate) cpus: Cpus,
}

impl Machine<'static> {
    /// The one that this runs on.
    pub(crate) fn here() -> Self {
        Self { sys: Path::new("/sys"), proc: Path::new("/proc") }
    }
}

impl Machine<'_> {
    /// Its nodes that have CPUs, in order; none if it does not tell.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        let entries = fs::read_dir(self.sys.join("devices/system/node")).into_iter().flatten();
        let node = |entry: fs::DirEntry| {
            let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
            let cpus = fs::read_to_string(entry.path().join("cpulist")).ok()?;
            Some(Node { number, cpus: cpus.trim().parse().ok()? })
        };
        let mut nodes: Vec<_> = entries.flatten().filter_map(node).collect();
        nodes.sort_by_key(|node| node.number);
        nodes
    }
}

/// The numbers of the nodes that have some of these CPUs.
pub(crate) fn nodes_of(nodes: &[Node], cpus: &Cpus) -> Vec<u32> {
    let some = nodes.iter().filter(|node| !node.cpus.and(cpus).is_empty());
    some.map(|node| node.number).collect()
}

#[cfg(test)]
mod tests;
