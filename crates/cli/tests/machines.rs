//! The block device on a kernel that has its driver, in emulated machines: what `tests/vm/run` does.

use std::process::Command;

#[test]
fn scenarios_pass_on_a_kernel_that_has_the_driver() {
    run(&["--jobs", "2", "--evenkeel", env!("CARGO_BIN_EXE_evenkeel"), "short"]);
}

#[test]
fn an_io_takes_no_more_instructions_than_it_may() {
    // Of what users get: a release, which is built for that.
    run(&["budget"]);
}

fn run(arguments: &[&str]) {
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vm/run");
    // Whether a machine hangs, not how fast it is.
    let ended = Command::new(run).args(["--limit", "1500"]).args(arguments).output();
    let ended = ended.expect("it is run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, complained) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "tests/vm/run: {}\n{told}{complained}", ended.status);
}
