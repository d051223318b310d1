//! `evenkeel restart`: replaces the array's process by one of this program, for example of a new
//! release. Users of its block device wait meanwhile.
//!
//! The running process stops only when its successor has found that it can start, with the array's
//! current devices. If the start fails all the same, the previous program is started again: it is
//! kept open, since it may have been replaced on disk.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Error, Result, bail};
use evenkeel_client::paths::shown;
use evenkeel_client::{Client, Launch, Refusal, Request};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Value, json};
use ublkd::daemon::Ready;
use ublkd::thread::keep_program_in_memory;

use super::start::{hear, process_name, serves_root, text};
use crate::output::{Output, refusal_of};

pub(crate) fn restart(name: &str, force: bool, run_dir: &Path, output: Output) -> Result<ExitCode> {
    let ready = replace_process(name, force, &[], run_dir)?;
    output.result(&json!({ "array": ready }), || text(&ready));
    Ok(ExitCode::SUCCESS)
}

/// Replaces an array's process by one of this program, with these arguments besides those that it was
/// started with.
///
/// # Errors
/// If it could not be: the array runs on by the program that ran it before, as far as that is possible.
pub(super) fn replace_process(
    name: &str,
    force: bool,
    more: &[OsString],
    run_dir: &Path,
) -> Result<Ready> {
    let run_dir = &std::path::absolute(run_dir)?;
    let mut client = Client::connect(run_dir, name)?;
    let launch: Launch = serde_json::from_value(client.call(&Request::Launch)?)?;
    if serves_root(&launch.arguments) {
        // Nothing can be read of the root file system between the two processes.
        keep_program_in_memory().context("the program can't be kept in memory")?;
    }
    let this = std::env::current_exe()?;
    let before = PathBuf::from(format!("/proc/{}/exe", launch.pid));
    let before = File::open(&before).with_context(|| shown(&before).to_string())?;
    let mut checked = successor(&this, &launch, more);
    checked.arg("--check");
    let refused =
        |error| told(&error, &format!("{name} runs on as before, as a successor could not"));
    hear(checked, run_dir, name).map_err(refused)?;

    let launch: Launch = serde_json::from_value(client.call(&Request::Leave { force })?)?;
    wait_for_end(launch.pid)?;
    match begin(&this, (&launch, more), run_dir, name) {
        Ok(ready) => Ok(ready),
        Err(error) => {
            let path = PathBuf::from(format!("/proc/self/fd/{}", before.as_raw_fd()));
            let what = match begin(&path, (&launch, &[]), run_dir, name) {
                Ok(_) => format!(
                    "{name} is run by the program that ran it before, as its successor did not start"
                ),
                Err(again) => format!(
                    "{name} is stopped: the program that ran it before could not start it again \
                     ({again:#}), nor could its successor"
                ),
            };
            Err(told(&error, &what))
        }
    }
}

/// An error with its consequence.
fn told(error: &Error, what: &str) -> Error {
    let refusal = refusal_of(error);
    Refusal { message: format!("{what}: {}", refusal.message), ..refusal }.into()
}

/// A program that is to run an array as before, with the array's current devices and `more` arguments.
fn successor(program: &Path, launch: &Launch, more: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.arg0(process_name(&launch.arguments));
    command.args(&launch.arguments).current_dir(&launch.directory);
    let devices = launch.devices.iter();
    let devices = devices.flat_map(|device| [OsString::from("--device"), device.into()]);
    command.args(devices).args(more);
    command
}

fn begin(
    program: &Path,
    (launch, more): (&Launch, &[OsString]),
    run_dir: &Path,
    name: &str,
) -> Result<Ready> {
    let said: Value = hear(successor(program, launch, more), run_dir, name)?["ready"].take();
    serde_json::from_value(said).context("the array's process is of another release")
}

/// Waits for the end of a process that is about to end.
fn wait_for_end(pid: u32) -> Result<()> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        bail!("{pid} is not the number of a process");
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        // It has ended.
        Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(process) => {
            poll(&mut [PollFd::new(&process, PollFlags::IN)], None)?;
            Ok(())
        }
    }
}
