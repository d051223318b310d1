//! Programs that have a limited time.

use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How often it is looked whether one has ended.
const LOOK: Duration = Duration::from_millis(10);

/// How much of its errors is told, in bytes.
const TOLD: u64 = 500;

/// A program that runs.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    errors: Option<std::fs::File>,
    until: Instant,
    limit: Duration,
}

/// Starts a program with `input`, in a process group of its own. Its errors are told when it fails, if
/// they are not `loud`: then they go where this program's go.
///
/// # Errors
/// If it can't be started.
pub(super) fn start(
    mut command: Command,
    input: &str,
    loud: bool,
    limit: Duration,
) -> io::Result<Running> {
    let mut stdin = tempfile::tempfile()?;
    stdin.write_all(input.as_bytes())?;
    stdin.rewind()?;
    let errors = if loud { None } else { Some(tempfile::tempfile()?) };
    // Results of this program are on its standard output, so hooks' outputs go with the errors.
    let (out, err) = match &errors {
        Some(errors) => (Stdio::null(), Stdio::from(errors.try_clone()?)),
        None => (Stdio::from(io::stderr().as_fd().try_clone_to_owned()?), Stdio::inherit()),
    };
    let child = command.stdin(stdin).stdout(out).stderr(err).process_group(0).spawn()?;
    Ok(Running { child, errors, until: Instant::now() + limit, limit })
}

impl Running {
    /// Waits for its end; what takes too long is killed, with the processes that it has started.
    ///
    /// # Errors
    /// In words, if it did not succeed in time.
    pub(super) fn end(mut self) -> Result<(), String> {
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < self.until => sleep(LOOK),
                Ok(None) => {
                    // It may have ended meanwhile.
                    let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
                    let _ = self.child.wait();
                    let limit = humantime::format_duration(self.limit);
                    return Err(format!("it was killed, as it took longer than {limit}"));
                }
                Err(error) => return Err(error.to_string()),
            }
        };
        if status.success() {
            return Ok(());
        }
        let mut told = Vec::new();
        if let Some(errors) = &mut self.errors {
            // What can't be read is not told.
            let _ = errors.rewind().and_then(|()| errors.take(TOLD).read_to_end(&mut told));
        }
        let told = String::from_utf8_lossy(&told).trim().replace('\n', "; ");
        Err(if told.is_empty() { status.to_string() } else { format!("{status}: {told}") })
    }
}
