//! Asks many arrays at once, so that one that hangs does not hold up the others.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_client::{ArrayReport, Client, ClientError};

/// The reports of these arrays, in their order. One that has not answered within `patience` is an error.
pub(super) fn reports(
    names: &[String],
    run_dir: &Path,
    patience: Duration,
) -> Vec<Result<ArrayReport, ClientError>> {
    all(names, run_dir, patience, Client::status)
}

/// What these arrays tell, in their order. One that has not answered within `patience` is an error.
pub(crate) fn all<T: Send + 'static>(
    names: &[String],
    run_dir: &Path,
    patience: Duration,
    ask: impl Fn(&mut Client) -> Result<T, ClientError> + Copy + Send + 'static,
) -> Vec<Result<T, ClientError>> {
    let deadline = Instant::now() + patience;
    let asked = names.iter().map(|name| {
        let (tell, told) = mpsc::channel();
        let (name, run_dir) = (name.clone(), run_dir.to_path_buf());
        // A thread whose array hangs ends with the process.
        thread::spawn(move || {
            let told = Client::connect_for(&run_dir, &name, patience)
                .and_then(|mut client| ask(&mut client));
            // It may come too late to be heard.
            let _ = tell.send(told);
        });
        told
    });
    let asked: Vec<mpsc::Receiver<Result<T, _>>> = asked.collect();
    let answered = names.iter().zip(asked).map(|(name, told)| {
        let left = deadline.saturating_duration_since(Instant::now());
        told.recv_timeout(left).unwrap_or_else(|_| {
            let source = ErrorKind::TimedOut.into();
            Err(ClientError::Broken { name: name.clone(), source })
        })
    });
    answered.collect()
}
