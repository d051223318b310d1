//! Which interrupts an NVMe drive has, and which CPUs they go to.

use super::Machine;
use super::cpus::Cpus;

/// All interrupts of a machine, as it told them at one time. That takes a while on a machine with many CPUs.
pub(crate) struct Interrupts(String);

impl Machine<'_> {
    /// All its interrupts; none if the kernel does not tell.
    pub(crate) fn interrupts(&self) -> Interrupts {
        Interrupts(self.read("interrupts"))
    }

    /// The CPUs that those of these NVMe controllers' queues go to; none if the kernel does not tell, or
    /// there are no such controllers.
    pub(crate) fn interrupt_cpus<'a>(
        &self,
        Interrupts(table): &Interrupts,
        controllers: impl Iterator<Item = &'a str>,
    ) -> Cpus {
        let numbers = controllers.flat_map(|name| numbers_of(table, name));
        let cpus = |number: u32| {
            // What was chosen of what is allowed; not every interrupt controller tells that.
            let chosen = self.list(&format!("irq/{number}/effective_affinity_list"));
            if chosen.is_empty() {
                self.list(&format!("irq/{number}/smp_affinity_list"))
            } else {
                chosen
            }
        };
        numbers.map(cpus).fold(Cpus::default(), |all, cpus| all.or(&cpus))
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.proc.join(file)).unwrap_or_default()
    }

    fn list(&self, file: &str) -> Cpus {
        self.read(file).trim().parse().unwrap_or_default()
    }
}

/// The numbers of the interrupts of a controller's queues for I/O, from `/proc/interrupts`; of its admin
/// queue if that has the only one.
fn numbers_of(table: &str, controller: &str) -> Vec<u32> {
    let queue_of = |action: &str| {
        let number = action.strip_prefix(controller)?.strip_prefix('q')?;
        number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse::<u32>().ok())?
    };
    let (mut admin, mut io) = (Vec::new(), Vec::new());
    for line in table.lines() {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let Ok(number) = number.trim().parse() else { continue };
        // Those that share an interrupt are listed with commas.
        let actions = rest.split([' ', '\t', ',']).filter_map(queue_of);
        match actions.max() {
            Some(0) => admin.push(number),
            Some(_) => io.push(number),
            None => {}
        }
    }
    if io.is_empty() { admin } else { io }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Of a machine with two drives, the second of which has one interrupt.
    const TABLE: &str = "\
            CPU0       CPU1       CPU2       CPU3
   0:         34          0          0          0  IR-IO-APIC    2-edge      timer
  41:          0         22          0          0  IR-PCI-MSIX-0000:01:00.0    0-edge      nvme0q0
  42:      10823          0          0          0  IR-PCI-MSIX-0000:01:00.0    1-edge      nvme0q1
  43:          0       9311          0          0  IR-PCI-MSIX-0000:01:00.0    2-edge      nvme0q2
  51:          0          0          7          0  IR-PCI-MSI-0000:02:00.0    0-edge      nvme1q0, nvme1q1
  60:          0          0          0         90  IR-PCI-MSIX-0000:03:00.0    1-edge      nvme10q1
 NMI:          4          3          3          3   Non-maskable interrupts
 ERR:          0
";

    #[test]
    fn a_controllers_interrupts_are_those_of_its_queues_for_io() {
        assert_eq!(numbers_of(TABLE, "nvme0"), [42, 43]);
        assert_eq!(numbers_of(TABLE, "nvme1"), [51], "not those of nvme10");
        assert_eq!(numbers_of(TABLE, "nvme10"), [60]);
        assert!(numbers_of(TABLE, "nvme2").is_empty());
        let admin = TABLE.lines().filter(|line| !line.contains("nvme0q1") && !line.contains("q2"));
        assert_eq!(numbers_of(&admin.collect::<Vec<_>>().join("\n"), "nvme0"), [41]);
    }

    #[test]
    fn nothing_is_made_of_what_the_kernel_does_not_write() {
        for line in [
            "",
            ":",
            "42",
            ": nvme0q1",
            "x: nvme0q1",
            "-1: nvme0q1",
            "99999999999: nvme0q1",
            "42: nvme0q",
            "42: nvme0qx",
            "42: nvme0q-1",
            "42: nvme0q99999999999",
            "42: nvme0\u{fffd}q1",
            "42: xnvme0q1",
        ] {
            assert!(numbers_of(line, "nvme0").is_empty(), "{line}");
        }
    }

    fn machine(dir: &Path, affinities: &[(&str, &str)]) {
        fs::write(dir.join("interrupts"), TABLE).expect("a file");
        for (file, text) in affinities {
            let file = dir.join("irq").join(file);
            fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
            fs::write(file, text).expect("a file");
        }
    }

    #[test]
    fn they_go_to_the_cpus_that_were_chosen_or_else_are_allowed() {
        let dir = tempfile::tempdir().expect("a directory");
        machine(
            dir.path(),
            &[
                ("42/effective_affinity_list", "0\n"),
                ("42/smp_affinity_list", "0-1\n"),
                ("43/effective_affinity_list", "\n"),
                ("43/smp_affinity_list", "2-3\n"),
                ("51/effective_affinity_list", "0-99999999999\n"),
                ("60/effective_affinity_list", "\0\n"),
            ],
        );
        let machine = Machine { sys: dir.path(), proc: dir.path() };
        let all = machine.interrupts();
        let of = |names: &[&'static str]| {
            machine.interrupt_cpus(&all, names.iter().copied()).to_string()
        };
        assert_eq!(of(&["nvme0"]), "0,2-3");
        assert_eq!(of(&["nvme1", "nvme10"]), "", "what can't be read is not guessed");
        assert_eq!(of(&[]), "");
    }
}
