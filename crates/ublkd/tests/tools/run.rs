//! Programs that tests run.

use std::process::Command;

/// The output of the command. `package` is its Debian package.
pub(crate) fn run(command: &mut Command, package: &str) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; `apt install {package}`"));
    let print = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {print}{error}");
    print.into_owned()
}
