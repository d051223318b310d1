use rustix::fs::makedev;

use super::controllers::Controller;
use super::*;

fn choose(fake: &Fake, devices: &[Option<u64>]) -> Site {
    Site::choose(None, fake.machine(), devices)
}

fn drive(number: u32) -> Option<u64> {
    Some(Fake::drive(number))
}

fn of_nvme(name: &str, node: Option<u32>) -> Controller {
    Controller { nvme: Some(name.to_owned()), node }
}

/// CPUs that are here, and some that are on no machine of a test.
const HERE: &str = "0-511";
const FAR: &str = "512-1023";

#[test]
fn a_drives_controller_tells_the_node_or_what_it_is_plugged_into() {
    let fake = Fake::new(&[HERE, FAR]);
    fake.nvme(1, "1\n");
    fake.nvme(2, "-1\n");
    fake.nvme(3, "many\n");
    fake.file("devices/pci0000:00/0000:00:01.0/nvme/nvme1/numa_node", "-1\n");
    let of = |number| fake.machine().controllers(Fake::drive(number));
    assert_eq!(of(1), [of_nvme("nvme1", Some(1))]);
    assert_eq!(of(2), [of_nvme("nvme2", None)]);
    assert_eq!(of(3), [of_nvme("nvme3", None)]);
    assert_eq!(of(4), [], "it is not there");
}

#[test]
fn partitions_and_mapped_devices_are_resolved_to_their_drives() {
    let fake = Fake::new(&[HERE, FAR]);
    fake.nvme(1, "0\n");
    fake.nvme(2, "1\n");
    let disk = "devices/pci0000:00/0000:00:01.0/nvme/nvme1/nvme1n1";
    fake.file(&format!("{disk}/nvme1n1p3/partition"), "3\n");
    fake.link(&format!("{disk}/nvme1n1p3"), "dev/block/259:9");
    let other = "devices/pci0000:00/0000:00:02.0/nvme/nvme2/nvme2n1";
    for (minor, lower) in [(0, format!("{disk}/nvme1n1p3")), (1, other.to_owned())] {
        fake.link(&format!("devices/virtual/block/dm-{minor}"), &format!("dev/block/253:{minor}"));
        fake.link(&lower, &format!("devices/virtual/block/dm-{minor}/slaves/lower"));
    }
    // One above both, which names itself, too.
    fake.link("devices/virtual/block/dm-2", "dev/block/253:2");
    for (name, lower) in [("a", "dm-0"), ("b", "dm-1"), ("c", "dm-2")] {
        let at = format!("devices/virtual/block/dm-2/slaves/{name}");
        fake.link(&format!("devices/virtual/block/{lower}"), &at);
    }
    let of = |major, minor| fake.machine().controllers(makedev(major, minor));
    assert_eq!(of(259, 9), [of_nvme("nvme1", Some(0))]);
    assert_eq!(of(253, 1), [of_nvme("nvme2", Some(1))]);
    assert_eq!(of(253, 2), [of_nvme("nvme1", Some(0)), of_nvme("nvme2", Some(1))]);
}

#[test]
fn a_drive_with_several_paths_has_several_controllers() {
    let fake = Fake::new(&[HERE, FAR]);
    fake.nvme(1, "0\n");
    fake.nvme(2, "1\n");
    let joins = "devices/virtual/nvme-subsystem/nvme-subsys0";
    fake.link(joins, &format!("{joins}/nvme0n1/device"));
    fake.link(&format!("{joins}/nvme0n1"), "dev/block/259:7");
    for number in [1, 2] {
        let controller = format!("devices/pci0000:00/0000:00:0{number}.0/nvme/nvme{number}");
        fake.link(&controller, &format!("{joins}/nvme{number}"));
    }
    let both = [of_nvme("nvme1", Some(0)), of_nvme("nvme2", Some(1))];
    assert_eq!(fake.machine().controllers(makedev(259, 7)), both);
    assert_eq!(choose(&fake, &[drive(7)]), Site::default(), "it is on no one node");
}

#[test]
fn what_is_on_no_drive_has_no_controller() {
    let fake = Fake::new(&[HERE, FAR]);
    fake.file("devices/virtual/block/loop0/dev", "7:0\n");
    fake.link("devices/virtual/block/loop0", "dev/block/7:0");
    assert_eq!(fake.machine().controllers(makedev(7, 0)), []);
    fake.nvme(1, "0\n");
    for other in [Some(makedev(7, 0)), None] {
        assert_eq!(choose(&fake, &[drive(1), other]), Site::default());
    }
}

#[test]
fn an_array_runs_where_all_its_controllers_are_if_the_machine_has_several_nodes() {
    let fake = Fake::new(&[HERE, FAR]);
    (1..=2).for_each(|number| fake.nvme(number, "0\n"));
    fake.nvme(3, "1\n");
    fake.nvme(4, "-1\n");
    let site = choose(&fake, &[drive(1), drive(2)]);
    assert_eq!((site.node, site.is_asked), (Some(0), false));
    site.cpus.expect("some").check().expect("they are here");
    assert_eq!(choose(&fake, &[drive(1), drive(3)]), Site::default(), "they are on two");
    assert_eq!(choose(&fake, &[drive(1), drive(4)]), Site::default(), "one does not tell");
    assert_eq!(choose(&fake, &[drive(3)]), Site::default(), "this process can't run there");
    assert_eq!(choose(&fake, &[]), Site::default());
    let single = Fake::new(&[HERE]);
    single.nvme(1, "0\n");
    assert_eq!(choose(&single, &[drive(1)]), Site::default());
    let memory_only = Fake::new(&[HERE, ""]);
    memory_only.nvme(1, "0\n");
    assert_eq!(choose(&memory_only, &[drive(1)]), Site::default(), "threads run on one node only");
}

#[test]
fn cpus_that_are_chosen_are_the_arrays_and_their_node_if_they_are_of_one() {
    let of = |nodes: &[&str], text: &str| {
        let (fake, cpus) = (Fake::new(nodes), text.parse().expect("CPUs"));
        let site = Site::choose(Some(cpus), fake.machine(), &[None]);
        assert_eq!((site.cpus, site.is_asked), (Some(cpus), true));
        site.node
    };
    assert_eq!(of(&["0-3", "4-7"], "4,6"), Some(1));
    assert_eq!(of(&["0-3", "4-7"], "3-4"), None);
    assert_eq!(of(&["0-7"], "3-4"), None, "there is no other");
    assert_eq!(of(&[], "3-4"), None);
}

#[test]
fn interrupts_on_another_node_than_all_threads_are_warned_of() {
    let fake = Fake::new(&["0-3", "4-7"]);
    let warning = |threads: Option<&str>, interrupts: &str| {
        let cpus = threads.map(|list| list.parse().expect("CPUs"));
        let interrupts = interrupts.parse().unwrap_or_default();
        Site { cpus, ..Site::default() }.warning(&fake.machine().nodes(), &interrupts)
    };
    let told = warning(Some("0-1"), "4,6").expect("a warning");
    for words in ["CPUs 4,6, on NUMA node 1", "CPUs 0-1, on node 0", "--cpus of node 1"] {
        assert!(told.contains(words), "{told}");
    }
    for (threads, interrupts) in
        [(Some("0-1"), "3,5"), (Some("3-4"), "7"), (None, "7"), (Some("0"), ""), (Some("0"), "99")]
    {
        assert_eq!(warning(threads, interrupts), None, "{threads:?} {interrupts}");
    }
}

#[test]
fn nodes_that_can_not_be_read_are_none() {
    let fake = Fake::new(&["0-3", "4-x", "5000", ""]);
    fake.file("devices/system/node/nodex/cpulist", "0\n");
    fake.file("devices/system/node/possible", "0-3\n");
    let numbers: Vec<_> = fake.machine().nodes().iter().map(|node| node.number).collect();
    assert_eq!(numbers, [0]);
}

#[test]
fn this_machine_tells_of_itself() {
    let nodes = Machine::here().nodes();
    nodes.iter().for_each(|node| assert!(!node.cpus.is_empty()));
}
