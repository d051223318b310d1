//! The files that a package installs besides the program. tests/vm/run boot tests their effect on
//! udev.

use std::fs;
use std::path::Path;

use crate::tools::attempt;

#[test]
fn systemd_takes_the_service() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let unit = root.join("packaging/systemd/evenkeel@.service");
    let text = fs::read_to_string(unit).expect("the service");
    // The program has to be where the service says.
    let installed = "/usr/bin/evenkeel";
    assert!(text.contains(installed), "it starts something else");
    let path = dir.path().join("evenkeel@tank.service");
    fs::write(&path, text.replace(installed, env!("CARGO_BIN_EXE_evenkeel"))).expect("a copy");
    let line = format!("systemd-analyze verify --man=no {}", path.display());
    let ended = attempt("systemd", &line);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
}
