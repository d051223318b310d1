//! The block device on a kernel that has its driver, in emulated machines: what `tests/vm/run` does.

use std::process::Command;

#[test]
fn scenarios_pass_on_a_kernel_that_has_the_driver() {
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vm/run");
    let arguments = ["--evenkeel", env!("CARGO_BIN_EXE_evenkeel"), "short"];
    let ended = Command::new(run).args(arguments).output().expect("it is run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, complained) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "tests/vm/run: {}\n{told}{complained}", ended.status);
}
