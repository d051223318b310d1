//! What a process adds to its array's history: that it serves, and how it ends.

use std::path::Path;
use std::sync::Arc;

use super::DaemonError;
use crate::history::{ENDED, Keeper, STARTED, STOPPED, What};

/// The history of an array that runs, if it is kept.
#[derive(Clone, Debug)]
pub(super) struct Story(Option<Arc<Keeper>>);

impl Story {
    /// Begins to keep the history of the array called `name`; nothing depends on it.
    pub(super) fn begin(state_dir: &Path, name: &str) -> Self {
        match Keeper::start(state_dir, name) {
            Ok(keeper) => Self(Some(Arc::new(keeper))),
            Err(error) => {
                tracing::warn!(%error, "the history of {name} is not kept");
                Self(None)
            }
        }
    }

    /// Who writes it.
    pub(super) fn keeper(&self) -> Option<Arc<Keeper>> {
        self.0.clone()
    }

    /// The array serves.
    pub(super) fn serves(&self, pid: u32) {
        let release = env!("CARGO_PKG_VERSION");
        self.add(What::of_array(STARTED, format!("serves, by evenkeel {release} (process {pid})")));
    }

    /// A command stops it.
    pub(super) fn stops_by(&self, command: Option<What>) {
        command.into_iter().for_each(|command| self.add(command));
    }

    /// It has ended, as told by `who`, or by itself. When this returns, that is on record if it can be.
    pub(super) async fn ended(self, how: &Result<(), DaemonError>, who: Option<&str>) {
        let (kind, text) = match (how, who) {
            (Ok(()), Some(who)) => (STOPPED, format!("stopped cleanly, as told by {who}")),
            (Ok(()), None) => (ENDED, "ended by itself".to_owned()),
            (Err(error), _) => (ENDED, format!("ended, and not cleanly: {error}")),
        };
        self.add(What::of_array(kind, text));
        if let Self(Some(keeper)) = self {
            // It fails only if it panics, which is told there.
            let _ = tokio::task::spawn_blocking(move || keeper.end()).await;
        }
    }

    fn add(&self, what: What) {
        if let Self(Some(keeper)) = self {
            keeper.add(what);
        }
    }
}
