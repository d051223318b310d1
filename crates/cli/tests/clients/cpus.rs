//! An array's threads run on the CPUs that they are told.

use std::fs;

use crate::tools::{pattern, wait_for};
use crate::world::World;

/// The CPUs that this process may run on, each by itself.
fn here() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").expect("the state of a process");
    let mut all = Vec::new();
    for range in allowed(&status).split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u32>().expect("a number");
        all.extend((number(first)..=number(last)).map(|cpu| cpu.to_string()));
    }
    all
}

fn allowed(status: &str) -> &str {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list").trim()
}

/// The names of a process's threads, with the CPUs that they may run on.
fn threads(pid: u64) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the threads of a process");
    let thread = |task: fs::DirEntry| {
        // It may end meanwhile.
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        Some((name.trim().to_owned(), allowed(&status).to_owned()))
    };
    tasks.flatten().filter_map(thread).collect()
}

#[test]
fn an_arrays_threads_run_where_they_are_told_and_no_others_have_to() {
    let all = here();
    let last = all.last().expect("one at least");
    let mut world = World::new("raid5", 3, 64);
    let ready = world.start(&format!("--threads 3 --cpus {last}"));
    let file = world.path("content");
    fs::write(&file, pattern(3, 4 << 20)).expect("a file");
    world.copy_in(&file);
    world.compare(&file);
    let threads = threads(ready["pid"].as_u64().expect("a number"));
    // The kernel's workers have names of their own.
    let of_array =
        |name: &str| ["array ", "io-", "iou-wrk"].iter().any(|begins| name.starts_with(begins));
    let count =
        threads.iter().filter(|(name, _)| name.starts_with("array ") || name.starts_with("io-"));
    assert_eq!(count.count(), 3, "{threads:?}");
    for (name, cpus) in &threads {
        if of_array(name) {
            assert_eq!(cpus, last, "{threads:?}");
        } else if all.len() > 1 {
            assert_ne!(cpus, last, "{name} runs anywhere: {threads:?}");
        }
    }
    assert_eq!(world.status()["site"]["cpus"], **last);
    let told = world.evenkeel("status tank");
    assert!(told.contains(&format!("threads run on {last}")), "{told}");
    world.assert_sound();
    world.stop();

    // Without being told they run anywhere, on a machine with one node.
    world.start("--threads 2");
    if !fs::exists("/sys/devices/system/node/node1").expect("an answer") {
        assert!(world.status()["site"].is_null());
    }
    world.stop();
}

#[test]
fn a_restart_keeps_the_cpus() {
    let all = here();
    let last = all.last().expect("one at least");
    let world = World::new("raid5", 3, 64);
    world.evenkeel(&format!("start --background --nbd --cpus {last} m0 m1 m2"));
    world.evenkeel("restart tank");
    let site = wait_for("it serves again", || {
        let status = world.status();
        (!status.is_null()).then(|| status["site"]["cpus"].clone())
    });
    assert_eq!(site, **last);
    world.evenkeel("stop tank");
}
