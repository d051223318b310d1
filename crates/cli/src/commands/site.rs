//! Where an array runs, and where its members' controllers are, for people.

use evenkeel_client::{ControllerReport, SiteReport};

/// Where an array's threads run.
pub(super) fn runs(site: &SiteReport) -> String {
    let node = site.node.map(|node| format!(", of NUMA node {node}")).unwrap_or_default();
    format!("the array's threads run on {}{node}", site.cpus)
}

/// Where a member's controllers are.
pub(super) fn controller(report: &ControllerReport) -> String {
    let numbers: Vec<_> = report.nodes.iter().map(u32::to_string).collect();
    let nodes = (!numbers.is_empty()).then(|| format!("on NUMA node {}", numbers.join(" and ")));
    let cpus = report.interrupt_cpus.as_ref().map(|cpus| format!("interrupts on CPUs {cpus}"));
    let told: Vec<_> = nodes.into_iter().chain(cpus).collect();
    let told = format!("controller: {}", told.join(", "));
    match &report.warning {
        Some(warning) => format!("{told}\n               -> {warning}"),
        None => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_controller_is_told() {
        let report = |nodes: &[u32], cpus: Option<&str>, warning: Option<&str>| ControllerReport {
            nodes: nodes.to_vec(),
            interrupt_cpus: cpus.map(str::to_owned),
            warning: warning.map(str::to_owned),
        };
        for (report, told) in [
            (report(&[1], None, None), "controller: on NUMA node 1"),
            (report(&[], Some("0-3"), None), "controller: interrupts on CPUs 0-3"),
            (
                report(&[0, 1], Some("4"), Some("they are far")),
                "controller: on NUMA node 0 and 1, interrupts on CPUs 4\n               -> they are far",
            ),
        ] {
            assert_eq!(controller(&report), told);
        }
        let site = |node| SiteReport { cpus: "0-3,8".to_owned(), node };
        assert_eq!(runs(&site(None)), "the array's threads run on 0-3,8");
        assert_eq!(runs(&site(Some(1))), "the array's threads run on 0-3,8, of NUMA node 1");
    }
}
