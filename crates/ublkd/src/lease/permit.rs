//! What the data path asks, and what is told of a lease.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use det::Instant;
use raidcore::lease::{Gate, Lost};
use raidcore::meta::{Holder, HostName, Term};
use raidcore::units::{MemberId, Set};

use super::clock::boot_time;
use crate::volume::Bell;

/// Why an array may be run here no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LeaseLost {
    /// It could not be renewed.
    #[error(
        "its lease was not renewed on a majority of its members within the term of {} s, so another host may run \
         it", .0.duration().as_secs_f64()
    )]
    Expired(Term),
    /// Another host has taken it.
    #[error("host {0} has taken its lease and runs it")]
    Taken(HostName),
    /// The lease learned too late that other members serve.
    #[error("its lease has learned too late that other members serve: this host was too slow")]
    Slow,
}

/// A lease that is held, as people are told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeaseView {
    /// Who holds it.
    pub(crate) holder: Holder,
    pub(crate) term: Term,
    pub(crate) generation: u64,
    /// When the last renewal was begun that counts.
    pub(crate) renewed: Option<Instant>,
    /// The members that decide.
    pub(crate) voters: Set<MemberId>,
    /// Members that do not answer the agent.
    pub(crate) silent: Set<MemberId>,
    /// The host that had it before, if one had.
    pub(crate) before: Option<HostName>,
}

impl LeaseView {
    /// How long ago the last renewal was begun that counts.
    pub(crate) fn age(&self) -> Option<Duration> {
        let now = boot_time();
        self.renewed.map(|at| now.since(at))
    }
}

/// What the agent shares with all who ask it.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) gate: Gate,
    view: Mutex<Option<LeaseView>>,
    lost: OnceLock<LeaseLost>,
    bell: OnceLock<Arc<Bell>>,
}

impl Shared {
    /// The array may be run no more. Who sleeps is woken.
    pub(super) fn lose(&self, why: LeaseLost) {
        self.gate.close();
        // The first reason counts.
        let _ = self.lost.set(why);
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
    }

    pub(super) fn lost(&self, why: Lost, term: Term) {
        self.lose(match why {
            Lost::Expired => LeaseLost::Expired(term),
            Lost::Taken(by) => LeaseLost::Taken(by.name),
        });
    }

    pub(super) fn show(&self, view: Option<LeaseView>) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }

    fn view(&self) -> Option<LeaseView> {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permission to write to members, for as long as the lease is held.
#[derive(Clone)]
pub(crate) struct Permit(pub(super) Arc<Shared>);

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Permit").field(&self.0.gate).finish()
    }
}

impl Permit {
    /// One that has been taken back.
    #[cfg(test)]
    pub(crate) fn over() -> Self {
        let shared = Shared::default();
        shared.gate.close();
        Self(Arc::new(shared))
    }

    /// Whether a write may be submitted now, and a request answered.
    pub(crate) fn is_given(&self) -> bool {
        self.0.gate.lets_submit(boot_time())
    }

    /// The same, as an error.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn ask(&self) -> io::Result<()> {
        if self.is_given() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "the array's lease is over"))
    }

    /// Why it is given no more, if it was taken back.
    pub(crate) fn lost(&self) -> Option<LeaseLost> {
        self.0.lost.get().copied()
    }

    /// Why it is not given any more. The agent may have yet to notice.
    pub(crate) fn why(&self) -> Option<LeaseLost> {
        let expired = || self.view().map(|view| LeaseLost::Expired(view.term));
        if self.is_given() { None } else { self.lost().or_else(expired) }
    }

    /// The bell is rung when it is taken back.
    pub(crate) fn wakes(&self, bell: &Arc<Bell>) {
        // There is one data thread.
        let _ = self.0.bell.set(Arc::clone(bell));
    }

    /// The lease, unless the array has none any more.
    pub(crate) fn view(&self) -> Option<LeaseView> {
        self.0.view()
    }
}
