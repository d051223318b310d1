//! Reads arrays on a thread of its own.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use evenkeel_client::{ArrayReport, ClientError, WhyReport, running};

use crate::commands::ask;

/// How long an array may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// What one array tells, or why it does not.
pub(super) type Told = (String, Result<(ArrayReport, Option<WhyReport>), ClientError>);

/// A thread that reads again and again.
pub(super) struct Gatherer {
    news: Receiver<io::Result<Vec<Told>>>,
    interval: Sender<Duration>,
}

impl Gatherer {
    /// Reads these arrays, or all that run, at this interval.
    pub(super) fn start(run_dir: &Path, arrays: Vec<String>, mut interval: Duration) -> Self {
        let ((tell, news), (set, changed)) = (channel(), channel());
        let run_dir = run_dir.to_path_buf();
        // It ends with its receiver.
        thread::spawn(move || {
            while tell.send(read(&run_dir, &arrays)).is_ok() {
                match changed.recv_timeout(interval) {
                    Ok(new) => interval = new,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        });
        Self { news, interval: set }
    }

    /// The latest reading, if there is a new one.
    ///
    /// # Errors
    /// If the run directory can't be read.
    pub(super) fn news(&self) -> io::Result<Option<Vec<Told>>> {
        self.news.try_iter().last().transpose()
    }

    /// Reads at another interval from now on, and now.
    pub(super) fn set_interval(&self, interval: Duration) {
        // It has ended if the program does.
        let _ = self.interval.send(interval);
    }
}

fn read(run_dir: &Path, arrays: &[String]) -> io::Result<Vec<Told>> {
    let names = if arrays.is_empty() { running(run_dir)? } else { arrays.to_vec() };
    let told = ask::all(&names, run_dir, ANSWER, |client| {
        let report = client.status()?;
        Ok((report, client.why().ok()))
    });
    Ok(names.into_iter().zip(told).collect())
}
