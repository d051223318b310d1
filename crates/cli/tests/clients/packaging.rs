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

#[test]
fn services_may_do_no_more_than_they_need() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let dir = tempfile::tempdir().expect("a temporary directory");
    // In tenths of systemd's points, of which a service without any limit has 96. docs/operations.md tells
    // what the first three are allowed, and why.
    for (unit, most) in [
        ("evenkeel@.service", 45),
        ("evenkeel-takeover@.service", 45),
        ("evenkeel-monitor.service", 80),
        ("evenkeel-exporter.service", 20),
        ("evenkeel-scrub.service", 10),
    ] {
        let path = dir.path().join(unit.replace('@', "@tank"));
        fs::copy(units.join(unit), &path).expect("a copy");
        let line = format!(
            "systemd-analyze security --no-pager --offline=yes --threshold={most} {}",
            path.display()
        );
        let ended = attempt("systemd", &line);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        println!("{}", ended.stdout.lines().last().unwrap_or_default());
    }
}

#[test]
fn the_takeover_has_the_limits_of_the_service() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let limits = |unit| -> Vec<String> {
        let text = fs::read_to_string(units.join(unit)).expect("a unit");
        let lines = text.lines().skip_while(|line| !line.starts_with("CapabilityBoundingSet="));
        let limits = lines.take_while(|line| !line.starts_with('['));
        let limits = limits.filter(|line| !line.is_empty() && !line.starts_with('#'));
        limits.map(str::to_owned).collect()
    };
    assert_eq!(limits("evenkeel-takeover@.service"), limits("evenkeel@.service"));
}
