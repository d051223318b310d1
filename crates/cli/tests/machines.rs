//! The block device on a kernel that has its driver, in emulated machines: what `tests/vm/run` does.

use std::process::Command;

#[test]
fn scenarios_pass_on_a_kernel_that_has_the_driver() {
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vm/run");
    // Whether a machine hangs, not how fast it is.
    let binary = env!("CARGO_BIN_EXE_evenkeel");
    let arguments = ["--limit", "1500", "--jobs", "2", "--evenkeel", binary, "short"];
    let ended = Command::new(run).args(arguments).output().expect("it is run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, complained) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "tests/vm/run: {}\n{told}{complained}", ended.status);
}
