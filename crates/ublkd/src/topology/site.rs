//! Where in a machine an array runs.

use std::io;

use super::cpus::{Cpus, of_this_thread};
use super::{Machine, Node, nodes_of};

/// The CPUs of an array's threads, and the NUMA node of its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Site {
    /// Those that its threads are kept to, if they don't run anywhere.
    pub(crate) cpus: Option<Cpus>,
    /// The node that all of these are of, if the machine has several.
    pub(crate) node: Option<u32>,
    /// Whether the operator has chosen them.
    pub(crate) is_asked: bool,
}

impl Site {
    /// The CPUs that the operator has chosen, or else those of the only node that the controllers of the
    /// array's devices are on, if the machine has several. `devices` has the number of each that is a block
    /// device.
    pub(crate) fn choose(
        asked: Option<Cpus>,
        machine: Machine<'_>,
        devices: &[Option<u64>],
    ) -> Self {
        let nodes = machine.nodes();
        let several = nodes.len() > 1;
        if let Some(cpus) = asked {
            let node = nodes.iter().find(|node| several && cpus.without(&node.cpus).is_empty());
            return Self { cpus: asked, node: node.map(|node| node.number), is_asked: true };
        }
        if !several {
            return Self::default();
        }
        let Some(number) = node_of_all(machine, devices) else { return Self::default() };
        let node = nodes.iter().find(|node| node.number == number);
        // This process may have been begun with fewer.
        let here = of_this_thread();
        let cpus = node.map(|node| here.map_or(node.cpus, |here| node.cpus.and(&here)));
        match cpus.filter(|cpus| !cpus.is_empty()) {
            Some(cpus) => Self { cpus: Some(cpus), node: Some(number), is_asked: false },
            None => Self::default(),
        }
    }

    /// Keeps the calling thread, and those that it begins from now on, to these CPUs.
    ///
    /// # Errors
    /// If the kernel refuses what the operator has chosen. A default that it refuses is logged.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let Some(cpus) = &self.cpus else { return Ok(()) };
        match cpus.keep_thread() {
            Err(error) if self.is_asked => Err(error),
            Err(error) => {
                tracing::warn!(%error, "the array's threads can't be kept to CPUs {cpus}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Tells, if it was not asked for.
    pub(crate) fn tell(&self) {
        if let (Some(cpus), Some(node), false) = (&self.cpus, self.node, self.is_asked) {
            tracing::info!(
                "the array's threads run on CPUs {cpus}, those of NUMA node {node}, as the controllers of all \
                 its devices are there; `start --cpus` chooses others"
            );
        }
    }

    /// What the operator should know if all the interrupts of a member go to these CPUs.
    pub(crate) fn warning(&self, nodes: &[Node], interrupts: &Cpus) -> Option<String> {
        let cpus = self.cpus?;
        let (theirs, ours) = (nodes_of(nodes, interrupts), nodes_of(nodes, &cpus));
        let apart = !theirs.is_empty() && !ours.is_empty();
        let apart = apart && theirs.iter().all(|node| !ours.contains(node));
        apart.then(|| {
            format!(
                "all its interrupts go to CPUs {interrupts}, on NUMA {}, and the array's threads run on CPUs \
                 {cpus}, on {}: each I/O crosses between them; start the array with --cpus of {}, or let \
                 the interrupts go elsewhere (/proc/irq, irqbalance)",
                named(&theirs),
                named(&ours),
                named(&theirs)
            )
        })
    }
}

/// The node of all controllers of all devices.
fn node_of_all(machine: Machine<'_>, devices: &[Option<u64>]) -> Option<u32> {
    let mut common = None;
    for device in devices {
        let controllers = machine.controllers((*device)?);
        // What is on no drive has no place.
        common = common.or(controllers.first()?.node);
        if controllers.iter().any(|controller| controller.node.is_none_or(|n| Some(n) != common)) {
            return None;
        }
    }
    common
}

/// Nodes in words.
fn named(nodes: &[u32]) -> String {
    let numbers: Vec<_> = nodes.iter().map(u32::to_string).collect();
    match nodes {
        [one] => format!("node {one}"),
        _ => format!("nodes {}", numbers.join(", ")),
    }
}
