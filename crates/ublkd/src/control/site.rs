//! Where an array runs, and where its devices' controllers are, in reports. It is told where it means
//! something: on machines with several NUMA nodes, and of arrays that are kept to CPUs.

use evenkeel_client::{ArrayReport, ControllerReport, SiteReport};
use raidcore::engine::Status;

use crate::host::HostHandle;
use crate::topology::{Interrupts, Machine, Node, Site};

/// Adds it to a report.
pub(super) fn add_site(report: &mut ArrayReport, status: &Status, host: &HostHandle) {
    let site = host.site();
    report.site = site.cpus.map(|cpus| SiteReport { cpus: cpus.to_string(), node: site.node });
    let Some(view) = View::of(Machine::here(), site) else { return };
    for (report, member) in report.members.iter_mut().zip(&status.members) {
        let number = member.device.and_then(|device| host.opened(device)?.number);
        report.controller = number.and_then(|number| view.controller_report(number));
    }
}

/// A machine as it is now, of which there is something to tell.
struct View<'a> {
    machine: Machine<'a>,
    nodes: Vec<Node>,
    interrupts: Interrupts,
    /// Of the array.
    site: Site,
}

impl<'a> View<'a> {
    fn of(machine: Machine<'a>, site: Site) -> Option<Self> {
        let nodes = machine.nodes();
        let tells = nodes.len() > 1 || site.cpus.is_some();
        tells.then(|| Self { machine, nodes, interrupts: machine.interrupts(), site })
    }

    /// What is told of the controllers of a block device; nothing if it is on no drive.
    fn controller_report(&self, number: u64) -> Option<ControllerReport> {
        let controllers = self.machine.controllers(number);
        let mut nodes: Vec<u32> = controllers.iter().filter_map(|it| it.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let names = controllers.iter().filter_map(|it| it.nvme.as_deref());
        let cpus = self.machine.interrupt_cpus(&self.interrupts, names);
        let report = ControllerReport {
            nodes: if self.nodes.len() > 1 { nodes } else { Vec::new() },
            interrupt_cpus: (!cpus.is_empty()).then(|| cpus.to_string()),
            warning: self.site.warning(&self.nodes, &cpus),
        };
        let tells = !report.nodes.is_empty() || report.interrupt_cpus.is_some();
        tells.then_some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Fake;

    fn on(cpus: &str) -> Site {
        Site { cpus: Some(cpus.parse().expect("CPUs")), ..Site::default() }
    }

    /// A machine with two drives on its nodes, whose interrupts go to CPUs of those.
    fn machine(nodes: &[&str]) -> Fake {
        let fake = Fake::new(nodes);
        fake.nvme(1, "0\n");
        fake.nvme(2, "1\n");
        fake.file("interrupts", "  41:  7  PCI-MSIX  nvme1q1\n  42:  7  PCI-MSIX  nvme2q1\n");
        fake.file("irq/41/effective_affinity_list", "2\n");
        fake.file("irq/42/effective_affinity_list", "6-7\n");
        fake
    }

    #[test]
    fn a_controllers_node_and_interrupts_are_told_and_when_they_are_far() {
        let fake = machine(&["0-3", "4-7"]);
        let view = View::of(fake.machine(), on("0-3")).expect("something to tell");
        let of = |number| view.controller_report(Fake::drive(number)).expect("a report");
        let report = |node, cpus: &str, warning| ControllerReport {
            nodes: vec![node],
            interrupt_cpus: Some(cpus.to_owned()),
            warning,
        };
        assert_eq!(of(1), report(0, "2", None));
        let far = of(2);
        let warning = far.warning.clone().expect("a warning");
        assert!(warning.contains("--cpus of node 1"), "{warning}");
        assert_eq!(far, report(1, "6-7", Some(warning)));
        let anywhere = View::of(fake.machine(), Site::default()).expect("something to tell");
        assert_eq!(anywhere.controller_report(Fake::drive(2)), Some(report(1, "6-7", None)));
        assert_eq!(view.controller_report(Fake::drive(9)), None);
    }

    #[test]
    fn on_one_node_interrupts_are_told_of_arrays_that_are_kept_to_cpus() {
        let fake = machine(&["0-7"]);
        assert!(View::of(fake.machine(), Site::default()).is_none());
        let view = View::of(fake.machine(), on("0")).expect("something to tell");
        let cpus = Some("6-7".to_owned());
        let told = ControllerReport { nodes: Vec::new(), interrupt_cpus: cpus, warning: None };
        assert_eq!(view.controller_report(Fake::drive(2)), Some(told));
    }
}
