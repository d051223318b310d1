//! Connects the client that asks for a stop and the thread that carries it out.

use tokio::sync::watch;

/// What happens to the users of an array that is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// It is stopped only if it has none.
    IfUnused,
    /// Users of a block device wait for the next start. It is not stopped while others use it.
    Leave,
    /// Users of a block device wait for the next start, others get errors.
    Force,
}

/// Asks for a stop, and tells when the array has stopped.
#[derive(Clone, Debug)]
pub struct Stopper {
    phase: watch::Sender<Phase>,
}

/// Why an array is not stopped, or not cleanly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum StopError {
    /// It is in use by these users and was not stopped.
    InUse(Vec<String>),
    /// It has stopped, but not cleanly.
    Unclean(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    Running,
    Stopping(Manner),
    Ended(Result<(), StopError>),
}

impl Default for Stopper {
    fn default() -> Self {
        Self { phase: watch::Sender::new(Phase::Running) }
    }
}

impl Phase {
    fn can_stop(&self) -> bool {
        matches!(self, Self::Running | Self::Ended(Err(StopError::InUse(_))))
    }
}

impl Stopper {
    /// Asks for a stop.
    pub fn stop(&self, manner: Manner) {
        self.phase.send_if_modified(|phase| {
            let can_stop = phase.can_stop();
            if can_stop {
                *phase = Phase::Stopping(manner);
            }
            can_stop
        });
    }

    /// Waits until a stop is requested; returns its manner.
    pub async fn asked(&self) -> Manner {
        let mut phase = self.phase.subscribe();
        // The sender is `self`, which outlives this.
        match phase.wait_for(|phase| !phase.can_stop()).await.as_deref() {
            Ok(Phase::Stopping(manner)) => *manner,
            Ok(Phase::Running | Phase::Ended(_)) | Err(_) => Manner::IfUnused,
        }
    }

    /// Reports that the array was not stopped, and its users.
    pub fn refuse(&self, users: Vec<String>) {
        self.phase.send_replace(Phase::Ended(Err(StopError::InUse(users))));
    }

    /// Reports how the stop ended.
    pub fn stopped(&self, how: Result<(), String>) {
        self.phase.send_replace(Phase::Ended(how.map_err(StopError::Unclean)));
    }

    /// Waits until a stop has ended, or is refused.
    pub(super) async fn wait(&self) -> Result<(), StopError> {
        let mut phase = self.phase.subscribe();
        let ended = phase.wait_for(|phase| matches!(phase, Phase::Ended(_))).await;
        match ended.as_deref() {
            Ok(Phase::Ended(how)) => how.clone(),
            Ok(Phase::Running | Phase::Stopping(_)) | Err(_) => Ok(()),
        }
    }
}
