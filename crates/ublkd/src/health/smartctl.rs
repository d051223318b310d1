//! `smartctl` of smartmontools: for drives that the kernel passes no commands to, and for those that
//! need commands which are not known here (SAS, bridges to USB).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::{DriveHealth, Source};

/// The program, which is looked for in `PATH`.
pub const PROGRAM: &str = "smartctl";

/// How long it may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The longest answer, in bytes. Usual ones have less than 100 KiB.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// What a gigabyte is to SCSI drives.
const SCSI_GIGABYTE: f64 = 1e9;

/// Why `smartctl` gives no health.
#[derive(Debug, thiserror::Error)]
pub enum SmartctlError {
    /// It can't be run: it is not there, for example.
    #[error("smartctl can't be run: {0}")]
    Run(#[source] io::Error),
    /// Its output can't be read.
    #[error("the output of smartctl can't be read: {0}")]
    Output(#[source] io::Error),
    /// It did not end in time, and was killed.
    #[error("smartctl did not end within {0:?}")]
    TimedOut(Duration),
    /// It has printed more than [`ANSWER_BYTES_MAX`].
    #[error("smartctl printed more than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    /// Nothing in its output is known here.
    #[error("smartctl told nothing of the drive")]
    Silent,
}

/// Asks `program`, which is `smartctl`, for the health of the drive at `drive`. It is killed if it does
/// not end within `limit`.
///
/// # Errors
/// See [`SmartctlError`]. Its exit status is none of these: that tells how the drive is, too.
pub fn ask(program: &Path, drive: &Path, limit: Duration) -> Result<DriveHealth, SmartctlError> {
    let mut child = Command::new(program)
        .args(["--json=c", "-a", "-l", "devstat"])
        .arg(drive)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(SmartctlError::Run)?;
    let answer = read_within(&mut child, limit);
    // It has printed all, or takes too long; what it has started goes with it.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // An error means that none of it is left.
        let _ = kill_process_group(group, Signal::KILL);
    }
    if let Err(error) = child.wait() {
        tracing::debug!(%error, "waiting for smartctl");
    }
    parse(&answer?).ok_or(SmartctlError::Silent)
}

/// What it prints until it closes its output.
fn read_within(child: &mut Child, limit: Duration) -> Result<Vec<u8>, SmartctlError> {
    let deadline = Instant::now() + limit;
    let mut answer = Vec::new();
    let Some(output) = child.stdout.take() else { return Ok(answer) };
    let mut output = File::from(std::os::fd::OwnedFd::from(output));
    let mut part = vec![0; 64 << 10];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| SmartctlError::TimedOut(limit))?;
        let mut waits = [PollFd::new(&output, PollFlags::IN)];
        match poll(&mut waits, Some(&left)) {
            Ok(0) => return Err(SmartctlError::TimedOut(limit)),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(SmartctlError::Output(error.into())),
        }
        match output.read(&mut part).map_err(SmartctlError::Output)? {
            0 => return Ok(answer),
            read if answer.len() + read > ANSWER_BYTES_MAX => return Err(SmartctlError::TooLong),
            read => answer.extend_from_slice(&part[..read]),
        }
    }
}

/// What the output of `smartctl --json -a -l devstat` tells, of version 7; nothing if it tells nothing.
/// Values that are not as expected are left out.
#[must_use]
pub fn parse(output: &[u8]) -> Option<DriveHealth> {
    let report: Value = serde_json::from_slice(output).ok()?;
    let number = |path: &str| report.pointer(path).and_then(Value::as_u64);
    let nvme = |field: &str| number(&format!("/nvme_smart_health_information_log/{field}"));
    let ata = |page, offset| ata_statistic(&report, page, offset).and_then(Value::as_u64);
    let used = number("/endurance_used/current_percent")
        .or_else(|| nvme("percentage_used"))
        .or_else(|| ata(7, 8))
        .or_else(|| number("/scsi_percentage_used_endurance_indicator"));
    let temperature = report
        .pointer("/temperature/current")
        .or_else(|| report.pointer("/nvme_smart_health_information_log/temperature"))
        .and_then(Value::as_i64);
    let hours = number("/power_on_time/hours").or_else(|| nvme("power_on_hours"));
    DriveHealth {
        used_percent: used.map(|percent| u8::try_from(percent).unwrap_or(u8::MAX)),
        written_bytes: nvme("data_units_written")
            .map(|units| units.saturating_mul(512_000))
            .or_else(|| {
                let block_bytes = number("/logical_block_size").unwrap_or(512);
                ata(1, 24).map(|sectors| sectors.saturating_mul(block_bytes))
            })
            .or_else(|| scsi_written(&report)),
        temperature_celsius: temperature.and_then(|celsius| i32::try_from(celsius).ok()),
        media_errors: nvme("media_errors").or_else(|| ata(4, 8)).or_else(|| scsi_errors(&report)),
        power_on_hours: hours.or_else(|| ata(1, 16)),
        source: Source::Smartctl,
    }
    .if_it_tells()
}

/// The value of an ATA drive's statistic at byte `offset` of a page, if it is valid.
fn ata_statistic(report: &Value, page: u64, offset: u64) -> Option<&Value> {
    let is = |value: &Value, field: &str, number: u64| {
        value.get(field).and_then(Value::as_u64) == Some(number)
    };
    let pages = report.pointer("/ata_device_statistics/pages")?.as_array()?;
    let page = pages.iter().find(|each| is(each, "number", page))?;
    let table = page.get("table")?.as_array()?;
    let statistic = table.iter().find(|each| is(each, "offset", offset))?;
    let valid = statistic.pointer("/flags/valid").and_then(Value::as_bool);
    statistic.get("value").filter(|_| valid == Some(true))
}

/// What was written to a SCSI drive: a text of gigabytes.
fn scsi_written(report: &Value) -> Option<u64> {
    let gigabytes = report.pointer("/scsi_error_counter_log/write/gigabytes_processed")?;
    let gigabytes: f64 = gigabytes.as_str()?.parse().ok()?;
    // The conversion saturates; what is no number is left out.
    gigabytes.is_finite().then_some((gigabytes * SCSI_GIGABYTE) as u64)
}

/// The errors of a SCSI drive that it could not correct, in reads and writes.
fn scsi_errors(report: &Value) -> Option<u64> {
    let log = report.get("scsi_error_counter_log")?;
    let of = |op: &str| log.get(op)?.get("total_uncorrected_errors")?.as_u64();
    match (of("read"), of("write")) {
        (None, None) => None,
        (read, write) => Some(read.unwrap_or(0).saturating_add(write.unwrap_or(0))),
    }
}
