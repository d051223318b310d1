//! Outputs of `smartctl --json`, as version 7 prints them, and programs in its place.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags};
use tempfile::TempDir;
use ublkd::health::smartctl::{self, ANSWER_BYTES_MAX, SmartctlError};
use ublkd::health::{DriveHealth, Source};

pub(crate) const NVME: &str = r#"{
  "json_format_version": [1, 0],
  "smartctl": { "version": [7, 4], "argv": ["smartctl", "--json=c", "-a", "/dev/nvme0n1"], "exit_status": 0 },
  "device": { "name": "/dev/nvme0n1", "info_name": "/dev/nvme0n1", "type": "nvme", "protocol": "NVMe" },
  "model_name": "Example 2TB",
  "logical_block_size": 512,
  "smart_status": { "passed": true, "nvme": { "value": 0 } },
  "nvme_smart_health_information_log": {
    "critical_warning": 0,
    "temperature": 41,
    "available_spare": 100,
    "available_spare_threshold": 10,
    "percentage_used": 83,
    "data_units_read": 1234567,
    "data_units_written": 885000000,
    "host_reads": 9000000,
    "host_writes": 8000000,
    "controller_busy_time": 4321,
    "power_cycles": 17,
    "power_on_hours": 21000,
    "unsafe_shutdowns": 5,
    "media_errors": 3,
    "num_err_log_entries": 99
  },
  "temperature": { "current": 41 },
  "power_cycle_count": 17,
  "power_on_time": { "hours": 21000 }
}
"#;

pub(crate) const ATA: &str = r#"{
  "json_format_version": [1, 0],
  "smartctl": { "version": [7, 4], "exit_status": 64 },
  "device": { "name": "/dev/sda", "info_name": "/dev/sda [SAT]", "type": "sat", "protocol": "ATA" },
  "logical_block_size": 512,
  "physical_block_size": 4096,
  "ata_smart_attributes": { "revision": 1, "table": [
    { "id": 9, "name": "Power_On_Hours", "value": 95, "raw": { "value": 21000, "string": "21000" } }
  ] },
  "power_on_time": {
    "hours": 21000
  },
  "temperature": { "current": 36 },
  "endurance_used": { "current_percent": 12 },
  "ata_device_statistics": { "pages": [
    { "number": 1, "name": "General Statistics", "revision": 1, "table": [
      { "offset": 16, "name": "Power-on Hours", "size": 4, "value": 21001,
        "flags": { "value": 192, "string": "V---", "valid": true, "normalized": false } },
      { "offset": 24, "name": "Logical Sectors Written", "size": 6, "value": 800000000000,
        "flags": { "value": 192, "string": "V---", "valid": true, "normalized": false } }
    ] },
    { "number": 4, "name": "General Errors Statistics", "revision": 1, "table": [
      { "offset": 8, "name": "Number of Reported Uncorrectable Errors", "size": 4, "value": 2,
        "flags": { "value": 192, "string": "V---", "valid": true, "normalized": false } }
    ] },
    { "number": 7, "name": "Solid State Device Statistics", "revision": 1, "table": [
      { "offset": 8, "name": "Percentage Used Endurance Indicator", "size": 1, "value": 13,
        "flags": { "value": 224, "string": "VN--", "valid": true, "normalized": true } }
    ] }
  ] }
}
"#;

pub(crate) const SCSI: &str = r#"{
  "json_format_version": [1, 0],
  "device": { "name": "/dev/sdb", "type": "scsi", "protocol": "SCSI" },
  "smart_status": { "passed": true },
  "scsi_percentage_used_endurance_indicator": 11,
  "temperature": { "current": 21, "drive_trip": 70 },
  "power_on_time": { "hours": 26195, "minutes": 0 },
  "scsi_error_counter_log": {
    "read": { "gigabytes_processed": "120000.000", "total_uncorrected_errors": 4 },
    "write": { "gigabytes_processed": "98765.500", "total_uncorrected_errors": 1 }
  }
}
"#;

fn health(used: u8, written: u64, celsius: i32, errors: u64, hours: u64) -> DriveHealth {
    DriveHealth {
        used_percent: Some(used),
        written_bytes: Some(written),
        temperature_celsius: Some(celsius),
        media_errors: Some(errors),
        power_on_hours: Some(hours),
        source: Source::Smartctl,
    }
}

#[test]
fn drives_of_all_kinds_are_told() {
    let parse = |output: &str| smartctl::parse(output.as_bytes());
    assert_eq!(parse(NVME), Some(health(83, 885_000_000 * 512_000, 41, 3, 21_000)));
    assert_eq!(parse(ATA), Some(health(12, 800_000_000_000 * 512, 36, 2, 21_000)));
    assert_eq!(parse(SCSI), Some(health(11, 98_765_500_000_000, 21, 5, 26_195)));
}

#[test]
fn statistics_stand_in_for_what_older_versions_do_not_print() {
    let older = ATA.replace("endurance_used", "unknown");
    let told = smartctl::parse(older.as_bytes()).expect("it tells");
    assert_eq!(told.used_percent, Some(13));
    let invalid = older.replace("\"valid\": true", "\"valid\": false");
    let told = smartctl::parse(invalid.as_bytes()).expect("it tells");
    assert_eq!((told.used_percent, told.written_bytes, told.media_errors), (None, None, None));
    assert_eq!(told.power_on_hours, Some(21_000));
}

#[test]
fn what_smartctl_can_not_read_tells_nothing() {
    let refused = r#"{ "smartctl": { "exit_status": 2, "messages": [
        { "string": "Smartctl open device: /dev/sda failed: Permission denied", "severity": "error" } ] } }"#;
    assert_eq!(smartctl::parse(refused.as_bytes()), None);
    assert_eq!(smartctl::parse(b""), None);
    assert_eq!(smartctl::parse(b"smartctl 7.4\n"), None);
    assert_eq!(smartctl::parse("[".repeat(100_000).as_bytes()), None);
}

/// A program in the place of `smartctl`.
fn program(script: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("smartctl");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("it is ours");
    (dir, path)
}

/// Asks it. Another test that starts a program at this moment may hold the script open for writing.
fn ask(path: &Path, limit: Duration) -> Result<DriveHealth, SmartctlError> {
    loop {
        match smartctl::ask(path, "/dev/sdz".as_ref(), limit) {
            Err(SmartctlError::Run(error)) if error.raw_os_error() == Some(libc::ETXTBSY) => {}
            told => return told,
        }
    }
}

const LONG: Duration = Duration::from_secs(100);

#[test]
fn smartctl_is_asked_about_the_drive() {
    let wanted = "test \"$*\" = '--json=c -a -l devstat /dev/sdz' || exit 1";
    // The exit status is about the drive.
    let (_dir, path) = program(&format!("{wanted}\ncat <<'END'\n{NVME}END\nexit 64"));
    let told = ask(&path, LONG).expect("it is asked as it wants to be");
    assert_eq!(told, health(83, 885_000_000 * 512_000, 41, 3, 21_000));
}

#[test]
fn smartctl_is_not_waited_for_beyond_the_limit() {
    let limit = Duration::from_millis(1);
    for script in ["exec sleep 1000", "sleep 1000", "while :; do echo '{'; sleep 0.01; done"] {
        let (_dir, path) = program(script);
        let told = ask(&path, limit);
        assert!(matches!(told, Err(SmartctlError::TimedOut(_))), "{script}: {told:?}");
    }
}

#[test]
fn what_smartctl_has_started_ends_with_it() {
    let script = "exec 3>\"$0.pipe\"\n(sleep 60; echo alive >&3) >/dev/null &\necho '{}'";
    let (dir, path) = program(script);
    let pipe = dir.path().join("smartctl.pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    // So that the script finds a reader.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let pipe = rustix::fs::open(&pipe, flags, Mode::empty()).expect("the pipe opens");
    let told = ask(&path, LONG);
    assert!(matches!(told, Err(SmartctlError::Silent)), "{told:?}");
    rustix::fs::fcntl_setfl(&pipe, OFlags::RDONLY).expect("it can wait");
    let mut said = String::new();
    fs::File::from(pipe).read_to_string(&mut said).expect("it ends with those who have it");
    assert_eq!(said, "", "what was started is killed before it says anything");
}

#[test]
fn an_answer_without_end_is_cut() {
    let (_dir, path) = program("yes");
    let told = ask(&path, LONG);
    assert!(matches!(told, Err(SmartctlError::TooLong)), "{told:?}, of {ANSWER_BYTES_MAX}");
}

#[test]
fn a_machine_may_have_no_smartctl() {
    let missing = PathBuf::from("/nonexistent/smartctl");
    assert!(matches!(ask(&missing, LONG), Err(SmartctlError::Run(_))));
    let (_dir, silent) = program("exit 2");
    assert!(matches!(ask(&silent, LONG), Err(SmartctlError::Silent)));
}
