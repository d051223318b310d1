//! The thread that writes an array's history.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::flood::Flood;
use super::{What, Writer};
use crate::create::wall_clock;

/// How many entries wait to be written.
const WAITING_MAX: usize = 256;

/// How long the end of an array waits for its last entries.
const PATIENCE: Duration = Duration::from_secs(2);

/// Keeps the history of a running array.
#[derive(Debug)]
pub struct Keeper {
    entries: Mutex<Option<SyncSender<What>>>,
    ended: Mutex<Receiver<()>>,
}

impl Keeper {
    /// Begins to keep the history of the array called `name`.
    ///
    /// # Errors
    /// If there is no thread for it. What can't be written later is logged.
    pub fn start(state_dir: &Path, name: &str) -> io::Result<Self> {
        let (tell, entries) = sync_channel(WAITING_MAX);
        let (end, ended) = sync_channel(1);
        let (state_dir, name) = (state_dir.to_path_buf(), name.to_owned());
        thread::Builder::new().name("history".to_owned()).spawn(move || {
            if let Err(error) = write(&state_dir, &name, &entries) {
                tracing::warn!(%error, "the history of {name} is not kept");
            }
            // It may be heard too late.
            let _ = end.send(());
        })?;
        Ok(Self { entries: Mutex::new(Some(tell)), ended: Mutex::new(ended) })
    }

    /// Adds an entry, without waiting: it is left out if too many are being written.
    pub fn add(&self, what: What) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entries) = &*entries
            && entries.try_send(what).is_err()
        {
            tracing::debug!("an entry of the history is left out");
        }
    }

    /// Waits a moment until all is written; nothing is added after that.
    pub fn end(&self) {
        drop(self.entries.lock().unwrap_or_else(PoisonError::into_inner).take());
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(PATIENCE).is_err() {
            tracing::warn!("the end of the history may not have been written");
        }
    }
}

/// Writes what comes, until none can come.
fn write(state_dir: &Path, name: &str, entries: &Receiver<What>) -> io::Result<()> {
    let mut writer = Writer::open(state_dir, name)?;
    let mut flood = Flood::default();
    for what in entries {
        for what in flood.pass(what, wall_clock()) {
            writer.write(what)?;
        }
    }
    flood.rest().into_iter().try_for_each(|what| writer.write(what))
}
