//! The block device on a kernel with its driver, in emulated machines, by `tests/vm/run`.

use std::process::Command;

#[test]
fn scenarios_pass_on_a_kernel_that_has_the_driver() {
    run(&["--jobs", "2", "--rounds", "1", "--evenkeel", env!("CARGO_BIN_EXE_evenkeel"), "short"]);
}

#[test]
#[ignore = "a long run: docs/testing.md"]
fn so_do_those_that_are_left_to_long_runs() {
    // With a release build, as users have: one of them counts instructions.
    run(&["--jobs", "2", "long"]);
}

fn run(arguments: &[&str]) {
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vm/run");
    // The limit detects a machine that hangs, not a slow one.
    let ended = Command::new(run).args(["--limit", "1500"]).args(arguments).output();
    let ended = ended.expect("it is run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, complained) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "tests/vm/run: {}\n{told}{complained}", ended.status);
}
