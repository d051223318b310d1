//! Background passes: resync, rebuild and scrub walk over the stripes as jobs like any other.
//!
//! Invariants: one pass at a time, resync before rebuild before scrub; a stripe of a member being
//! rebuilt counts as current exactly when its job has succeeded, and is told so before its lock is
//! free; at most 64 stripes lie between the first that is not done and the last that was begun.

use alloc::vec::Vec;

use det::Instant;

pub(super) use super::pass::{Closing, Pass};
pub(super) use super::progress::Progress;
use super::{CommandError, Pace, PassKind};
use crate::units::{MemberId, Stripe};

/// All background work.
#[derive(Debug)]
pub(super) struct Background {
    pub(super) pace: Pace,
    pub(super) pass: Option<Pass>,
    /// For each member, how far it is rebuilt.
    pub(super) rebuilt: Vec<Progress>,
    pub(super) scrub_wanted: Option<bool>,
    pub(super) quiesce_at: Option<Instant>,
    pub(super) quiescing: Option<u64>,
    pub(super) stopping: Stopping,
    /// Something has changed that may call for a pass.
    pub(super) look: bool,
}

/// How far a stop has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stopping {
    Draining,
    Flushing(u64),
    Storing,
}

impl Background {
    /// `watermarks` tells how far each member is known to be rebuilt.
    pub(super) fn new(pace: Pace, watermarks: impl Iterator<Item = u64>) -> Self {
        Self {
            pace,
            pass: None,
            rebuilt: watermarks.map(Progress::from).collect(),
            scrub_wanted: None,
            quiesce_at: None,
            quiescing: None,
            stopping: Stopping::Draining,
            look: true,
        }
    }

    /// How far the end of the pass under way has come.
    pub(super) fn closing(&self) -> Option<Closing> {
        self.pass.as_ref().map(|pass| pass.closing)
    }

    /// Whether no pass is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.pass.is_none()
    }

    /// Whether a member is being rebuilt, and that is not to wait.
    pub(super) fn rebuilds(&self) -> bool {
        let rebuilds = |pass: &Pass| {
            pass.kind.fills()
                && pass.total > 0
                && !pass.paused
                && !pass.cancelled
                && pass.closing == Closing::No
        };
        self.pass.as_ref().is_some_and(rebuilds)
    }

    /// Whether a member being rebuilt is current in a stripe.
    pub(super) fn is_rebuilt(&self, member: MemberId, stripe: Stripe) -> bool {
        match &self.pass {
            Some(pass) if pass.fills(member) => pass.progress.has(stripe.0),
            Some(_) | None => self.rebuilt[member.index()].has(stripe.0),
        }
    }

    /// Up to which stripe each member is rebuilt without a gap.
    pub(super) fn rebuilt_to(&self) -> impl Iterator<Item = u64> + '_ {
        (0u8..).zip(&self.rebuilt).map(|(member, progress)| match &self.pass {
            Some(pass) if pass.fills(MemberId(member)) => pass.progress.base,
            Some(_) | None => progress.base,
        })
    }

    /// Another device takes a member's place, with nothing on it.
    pub(super) fn restart(&mut self, member: MemberId) {
        self.rebuilt[member.index()] = Progress::default();
    }

    /// The device that takes a member's place has something on it.
    pub(super) fn inherit(&mut self, member: MemberId, progress: Progress) {
        self.rebuilt[member.index()] = progress;
    }

    /// A member left the service, or a staging device: what fills it is pointless.
    pub(super) fn member_failed(&mut self, member: MemberId, stages: bool) {
        self.restart(member);
        if let Some(pass) = &mut self.pass {
            pass.cancelled |= pass.kind.filled() == Some(member)
                || matches!(pass.kind, PassKind::Scrub { .. }) && !stages;
        }
    }

    pub(super) fn pause(&mut self, paused: bool) -> Result<(), CommandError> {
        let pass = self.pass.as_mut().ok_or(CommandError::NothingToDo)?;
        pass.paused = paused;
        if !paused && pass.stuck.take().is_some() {
            // It tries again, from the first stripe that is not done.
            pass.next = pass.progress.base;
        }
        Ok(())
    }

    pub(super) fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
        if let Some(pass) = &mut self.pass {
            pass.begun_at = None;
        }
    }

    pub(super) fn want_scrub(&mut self, repair: bool) -> Result<(), CommandError> {
        if self.pass.is_some() || self.scrub_wanted.is_some() {
            return Err(CommandError::Busy);
        }
        self.scrub_wanted = Some(repair);
        Ok(())
    }

    /// Ends the copying of a member, if that is under way.
    pub(super) fn cancel_copy(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.cancelled |= matches!(pass.kind, PassKind::Copy(_));
        }
    }

    /// Ends the pass under way before it is done.
    pub(super) fn cancel(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.cancelled = true;
        }
    }

    pub(super) fn cancel_scrub(&mut self) -> Result<(), CommandError> {
        match &mut self.pass {
            Some(pass) if matches!(pass.kind, PassKind::Scrub { .. }) => pass.cancelled = true,
            Some(_) | None => {
                self.scrub_wanted.take().ok_or(CommandError::NothingToDo)?;
            }
        }
        Ok(())
    }
}
