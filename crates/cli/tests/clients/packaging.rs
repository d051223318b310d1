//! The files that a package installs besides the program. tests/vm/run boot tests their effect on
//! udev.

use std::fs;
use std::path::Path;

use crate::tools::attempt;

/// The units, and the names under which they are checked.
const UNITS: [(&str, &str); 6] = [
    ("evenkeel@.service", "evenkeel@tank.service"),
    ("evenkeel-takeover@.service", "evenkeel-takeover@tank.service"),
    ("evenkeel-exporter.service", "evenkeel-exporter.service"),
    ("evenkeel-monitor.service", "evenkeel-monitor.service"),
    ("evenkeel-scrub.service", "evenkeel-scrub.service"),
    ("evenkeel-scrub.timer", "evenkeel-scrub.timer"),
];

#[test]
fn systemd_takes_the_units() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let dir = tempfile::tempdir().expect("a temporary directory");
    // The program has to be where the services say.
    let installed = "/usr/bin/evenkeel";
    let mut line = "systemd-analyze verify --man=no".to_owned();
    for (unit, name) in UNITS {
        let text = fs::read_to_string(units.join(unit)).expect("a unit");
        assert_eq!(text.contains(installed), unit.ends_with(".service"), "{unit}");
        let path = dir.path().join(name);
        fs::write(&path, text.replace(installed, env!("CARGO_BIN_EXE_evenkeel"))).expect("a copy");
        line.push_str(&format!(" {}", path.display()));
    }
    assert_eq!(fs::read_dir(&units).expect("the units").count(), UNITS.len());
    let ended = attempt("systemd", &line);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
}
