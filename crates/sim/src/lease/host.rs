//! A host: its clock, and its process, which takes the lease and runs the array.

use raidcore::lease::{Candidate, Gate, Keeper, Taker};
use raidcore::meta::{Holder, HostName, Term};
use raidcore::units::{MemberId, Set};

use det::Instant;

use super::array::Array;
use super::fabric::Record;

/// A host.
#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) number: usize,
    /// By how much its clock goes too fast, in thousandths.
    pub(super) drift: i64,
    /// The true time of its boot.
    pub(super) booted: u64,
    pub(super) boot: u8,
    pub(super) paused: bool,
    /// All that it submits arrives late.
    pub(super) slow: bool,
    /// The members that it does not reach.
    pub(super) cut: Set<MemberId>,
    /// What it has not heard while it was paused.
    pub(super) inbox: Vec<u64>,
    pub(super) process: Option<Process>,
    /// When the processes so far have ended, with all that they had begun.
    pub(super) free_at: u64,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) instance: u64,
    /// When it is woken next.
    pub(super) wakes: u64,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    Takes { taker: Box<Taker>, record: Record },
    Holds(Box<Holding>),
}

/// The array that it runs.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) keeper: Keeper,
    pub(super) gate: Gate,
    pub(super) array: Array,
    /// Counts the holdings of both hosts.
    pub(super) period: u64,
    pub(super) stops: bool,
    /// When the keeper is to learn which members serve, and which are new, if it does not know it.
    pub(super) learns: Option<(Instant, Set<MemberId>)>,
}

impl Holding {
    /// The record may tell of others that serve, which the keeper learns until then.
    pub(super) fn changed(&mut self, until: Instant, fresh: Set<MemberId>) {
        let knows = self.array.record.serve == self.keeper.voters() && fresh.is_empty();
        match &mut self.learns {
            Some((_, new)) => *new = new.or(fresh),
            None if !knows && self.array.has_begun() => self.learns = Some((until, fresh)),
            None => {}
        }
    }

    /// When the keeper is to learn something: when all is on record.
    pub(super) fn learns_at(&self) -> Option<Instant> {
        self.learns.map(|of| of.0).filter(|_| self.array.serves())
    }

    /// The keeper learns it, if the time has come.
    pub(super) fn learn(&mut self, now: Instant) {
        if let Some((_, fresh)) = self.learns
            && self.learns_at().is_some_and(|at| at <= now)
        {
            self.learns = None;
            let Record { serve, events, .. } = self.array.record;
            self.keeper.set_members(now, serve, fresh, events);
        }
    }
}

impl Host {
    /// What its clock shows.
    pub(super) fn local(&self, now: u64) -> Instant {
        let since = i128::from(now.saturating_sub(self.booted));
        Instant((since * (1000 + i128::from(self.drift)) / 1000) as u64)
    }

    /// The true time at which its clock shows this.
    pub(super) fn true_time(&self, at: Instant) -> u64 {
        let since = (i128::from(at.0) * 1000 / (1000 + i128::from(self.drift))) as u64 + 1;
        self.booted.saturating_add(since)
    }

    /// Who the process is.
    pub(super) fn holder(&self, instance: u64) -> Holder {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&instance.to_le_bytes());
        Holder {
            host: [self.number as u8; 16],
            boot: [self.boot; 16],
            instance: bytes,
            name: HostName::new(["one", "two"][self.number]),
        }
    }

    /// A process begins to take the lease.
    pub(super) fn start(
        &mut self,
        now: u64,
        instance: u64,
        record: Record,
        term: Term,
        least: usize,
    ) {
        let candidate = Candidate {
            me: self.holder(instance),
            term,
            members: record.serve.minus(self.cut),
            voters: record.serve,
            events: record.events,
            least,
            fenced: false,
        };
        let taker = Box::new(Taker::new(self.local(now), candidate));
        let stage = Stage::Takes { taker, record };
        self.process = Some(Process { instance, wakes: u64::MAX, stage });
    }

    /// The lease that its process holds.
    pub(super) fn holding(&mut self) -> Option<&mut Holding> {
        match &mut self.process.as_mut()?.stage {
            Stage::Holds(holding) => Some(holding),
            Stage::Takes { .. } => None,
        }
    }
}
