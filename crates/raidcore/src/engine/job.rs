//! A job: what one stripe's walk through the stages carries with it.

use alloc::vec::Vec;

use det::Instant;

use super::RequestError;
use super::fetching::Fetching;
use super::form::Form;
use super::hedge::Hedge;
use super::retries::Retries;
use super::scrub::Scrub;
use super::stage::{Stage, Turn};
use super::staging::Logged;
use super::steering::Way;
use super::work::Work;
use crate::geometry::{Geometry, Role};
use crate::plan::{Bad, Base, Piece, Plan, SubIo, WriteKind};
use crate::units::{Mem, MemberId, Set, Stripe, Tag};

/// As many pieces as are carried out together.
pub(super) const PIECES_MAX: usize = 64;

/// The most scratch buffers of a job: as many as a [`Set`] can name.
const BUFFERS_MAX: usize = 64;

/// The scratch buffers of a job, by what they are to its plan.
#[derive(Debug)]
pub(super) struct Buffers {
    numbers: [u16; BUFFERS_MAX],
    /// Whether it has those of its plan.
    pub(super) held: bool,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { numbers: [0; BUFFERS_MAX], held: false }
    }
}

impl Buffers {
    /// Takes one buffer after the other for the roles of a plan.
    pub(super) fn fill(&mut self, mut roles: Set<Role>) -> impl FnMut(u16) + '_ {
        move |buffer| {
            if let Some(role) = roles.next() {
                self.numbers[role.index()] = buffer;
            }
        }
    }

    /// The buffer of a role of the plan.
    pub(super) fn of(&self, role: Role) -> u16 {
        self.numbers[role.index()]
    }
}

/// One stripe's walk through the stages: from its lock and a plan to reads, arithmetic and writes.
pub struct Job {
    pub(super) work: Work,
    pub(super) stage: Stage,
    pub(super) stripe: Stripe,
    pub(super) pieces: Vec<Piece>,
    pub(super) tags: Vec<Tag>,
    pub(super) plan: Plan,
    pub(super) bad: Vec<Bad>,
    pub(super) retries: Retries,
    pub(super) base: Base,
    pub(super) kind: WriteKind,
    pub(super) fua: bool,
    pub(super) outstanding: u32,
    pub(super) queued: bool,
    pub(super) replan: bool,
    pub(super) scrub: Scrub,
    pub(super) marked: bool,
    pub(super) error: Option<RequestError>,
    /// What its journal entry is to hold, besides also what is `kept` as it is.
    pub(super) form: Form,
    pub(super) kept: Vec<SubIo>,
    /// The entry's number, and the members that hold it.
    pub(super) entry: Option<(u64, Set<MemberId>)>,
    pub(super) log: Logged,
    pub(super) fetching: Fetching,
    pub(super) turn: Turn,
    pub(super) hedge: Hedge,
    /// A copy is made of what it reads.
    pub(super) is_copied: bool,
    /// Which way a user's read or write goes, how many blocks it has, and when it began.
    pub(super) way: Way,
    pub(super) blocks: u32,
    pub(super) begun: Instant,
    pub(super) buffers: Buffers,
}

impl Job {
    pub(super) fn new(geo: &Geometry) -> Self {
        Self {
            work: Work::Read,
            stage: Stage::Plan,
            stripe: Stripe(0),
            pieces: Vec::with_capacity(PIECES_MAX),
            tags: Vec::with_capacity(PIECES_MAX),
            plan: Plan::with_room_for(geo),
            bad: Vec::new(),
            retries: Retries::default(),
            base: Base::Stored,
            kind: WriteKind::Full,
            fua: false,
            outstanding: 0,
            queued: false,
            replan: false,
            scrub: Scrub::default(),
            marked: false,
            error: None,
            form: Form::Whole,
            kept: Vec::with_capacity(geo.width()),
            entry: None,
            log: Logged::default(),
            fetching: Fetching::default(),
            turn: Turn::Any,
            hedge: Hedge::default(),
            is_copied: false,
            way: Way::Calm,
            blocks: 0,
            begun: Instant::ORIGIN,
            buffers: Buffers::default(),
        }
    }

    /// Makes a slot's last occupant into a new job.
    pub(super) fn renew(&mut self, work: Work, stripe: Stripe, now: Instant) {
        self.work = work;
        self.begun = now;
        self.stage = Stage::Plan;
        self.stripe = stripe;
        self.pieces.clear();
        self.tags.clear();
        self.plan.clear();
        self.bad.clear();
        self.retries.clear();
        self.base = Base::Stored;
        self.kind = WriteKind::Full;
        self.fua = false;
        self.queued = false;
        self.replan = false;
        self.scrub.clear();
        self.error = None;
        self.form = Form::Whole;
        self.kept.clear();
        self.entry = None;
        self.log.covers = false;
        self.turn = Turn::Any;
        self.hedge = Hedge::default();
        self.is_copied = false;
        self.way = Way::Calm;
        self.blocks = 0;
        assert!(self.outstanding == 0 && !self.marked && !self.buffers.held);
        assert!(self.log.staged.is_none() && !self.log.promised && self.fetching.is_empty());
    }

    /// The host's memory for the plan's.
    pub(super) fn bind(&self, mem: Mem) -> Mem {
        match mem {
            Mem::Scratch { buffer, at } => {
                Mem::Scratch { buffer: self.buffers.of(Role::at(usize::from(buffer))), at }
            }
            Mem::Payload { .. } | Mem::Zero => mem,
        }
    }

    /// Whether it changes what users see at home, or brings it there.
    pub(super) fn writes_home(&self) -> bool {
        self.work.is_users() || self.work == Work::Reclaim
    }

    /// How many blocks its pieces have; those of merged writes may overlap.
    pub(super) fn piece_blocks(&self) -> u32 {
        self.pieces.iter().map(|piece| piece.blocks).sum()
    }

    /// Whether it writes to a stripe that was discarded.
    pub(super) fn makes_real(&self) -> bool {
        matches!(self.work, Work::Write | Work::Reclaim) && self.base == Base::Zeros
    }

    pub(super) fn is_exclusive(&self) -> bool {
        self.work != Work::Read
    }
}
