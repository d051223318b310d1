//! The engine's wiring: what happens across its parts.
//!
//! A part owns its state, and knows other parts only where ARCHITECTURE.md draws it; all that concerns
//! more than one is a method of [`Engine`] in one of these modules.

mod align;
mod at_once;
mod background;
mod bytes;
mod closing;
mod copies;
mod distributed;
mod fault;
mod fetch;
mod flush;
mod heal;
mod hedge;
mod intent;
mod io;
mod journal;
mod log_trim;
mod memory;
mod missed;
mod planning;
mod quiesce;
mod reclaim;
mod record;
mod replay;
mod request;
mod reshape;
mod returns;
mod scrub;
mod source;
mod sources;
mod spare_trim;
mod staging;
mod status;
mod steering;
mod store;
mod succession;
mod together;
mod twins;
mod walk;
mod warm;

use alloc::vec::Vec;

use crate::engine::flight::{Flight, Owner};
use crate::engine::{Action, Engine, IoError, IoId, IoOp, Phase};
use crate::geometry::Role;
use crate::meta::Consistency;
use crate::plan::Parity;
use crate::units::{MemberId, Pba, Set, Stripe};

impl Engine {
    /// Does all that can be done now. If what has happened was `of_jobs` alone, that is often nothing
    /// but what jobs do.
    pub(super) fn run(&mut self, of_jobs: bool, out: &mut Vec<Action>) {
        self.hedge(out);
        self.cool_off();
        let worked = self.walk_jobs(out);
        if !of_jobs || !self.nothing_else_goes_on() {
            self.go_round(worked, out);
        }
        self.forget_patience();
    }

    /// Walks all jobs on that can go on; tells whether there were any.
    fn walk_jobs(&mut self, out: &mut Vec<Action>) -> bool {
        let any = self.range.jobs.any_ready();
        while let Some(job) = self.range.jobs.pop_ready() {
            self.advance(job, out);
        }
        any
    }

    /// Does what is to be done for the array as a whole, and what jobs make of that, until nothing is left.
    /// `worked` tells whether jobs have gone on before. It is apart from what most steps need, which
    /// this would take longer.
    #[inline(never)]
    fn go_round(&mut self, mut worked: bool, out: &mut Vec<Action>) {
        let mut rounds = 0_u32;
        loop {
            debug_assert!(rounds < 1 << 20, "a step goes round without end");
            rounds += 1;
            // A stop waits for what is being settled, so that comes first.
            self.quiesce(out);
            self.settle_missed(out);
            let mut moved = self.proceed(out);
            moved |= self.heal(out);
            self.store_spread_pages(out);
            self.cut_waiting(out);
            moved |= self.background(out);
            moved |= self.reshape(out);
            self.trim_spare(out);
            self.reclaim(out);
            self.note_thickness(out);
            self.trim_log(out);
            worked &= !self.serves_users_only() && !self.nothing_else_goes_on();
            if !self.range.jobs.any_ready() && !worked && !moved {
                return;
            }
            worked = self.walk_jobs(out);
        }
    }

    /// Whether nothing is under way but requests. Then what jobs have done matters only to what comes
    /// after them in the same round.
    fn serves_users_only(&self) -> bool {
        self.changes_nothing() && self.range.staging.is_unused()
    }

    /// Whether users are served, and no background work is under way that would change the array or its record.
    fn changes_nothing(&self) -> bool {
        self.phase == Phase::Serving
            && self.array.stop_command.is_none()
            && self.array.background.is_idle()
            && self.array.membership.recorder.is_settled()
    }

    /// Whether nothing is to be done besides what jobs do, where a step has changed nothing but that: in most
    /// steps [`run`](Self::run) would look at everything in vain.
    fn nothing_else_goes_on(&self) -> bool {
        self.changes_nothing()
            && !self.array.membership.impaired
            && self.array.users.are_cut()
            && !self.array.background.may_have_to_look()
            && self.layout.frontier().is_none()
            && !self.range.maps.is_spreading()
            && self.array.healing.is_idle()
            && self.range.distributed.trim().is_none()
            && self.array.membership.record().staging_thin.is_empty()
            && self.stays_staged()
            && !self.trims_log()
            && self.array.quiesce.is_still(self.is_unrested(), self.now)
    }

    /// Moves the array as a whole on: from replaying to starting to serving, and to a stop. Returns
    /// whether it did.
    fn proceed(&mut self, out: &mut Vec<Action>) -> bool {
        let before = (self.phase, self.array.quiesce.stopping());
        match self.phase {
            Phase::Replaying => self.replay(out),
            Phase::Starting
                if self.array.membership.recorder.is_settled() && self.are_maps_spread() =>
            {
                let staged = self.range.staging.dirty() > 0;
                self.phase = if staged { Phase::Reclaiming } else { Phase::Serving };
            }
            Phase::Reclaiming => self.bring_home(out),
            Phase::Serving if self.array.stop_command.is_some() => self.phase = Phase::Stopping,
            Phase::Stopping => self.stop(out),
            Phase::Broken => self.refuse_all(out),
            Phase::Starting | Phase::Serving | Phase::Stopped => {}
        }
        before != (self.phase, self.array.quiesce.stopping())
    }

    /// Whether a stop was asked for.
    fn is_stopping(&self) -> bool {
        self.array.stop_command.is_some() || self.phase == Phase::Stopped
    }

    /// The member and the place of rows of a role.
    fn place(&self, stripe: Stripe, role: Role, row: u32) -> (MemberId, Pba) {
        let (member, start) = self.layout.place(stripe, role);
        (member, Pba(start.0 + u64::from(row)))
    }

    /// What can be read and what must be written in a stripe, by role.
    fn health(&self, stripe: Stripe) -> (Set<Role>, Set<Role>) {
        let all = self.layout.of(stripe).roles();
        if !self.array.membership.impaired {
            return (all, all);
        }
        let (mut readable, mut writable) = (all, all);
        for id in self.array.membership.unsound() {
            let Some(role) = self.layout.role(stripe, id) else { continue };
            let current = self.is_current_in(id, stripe);
            if !current || self.array.membership.is_unreadable(id) {
                readable = readable.without(role);
            }
            if !current || self.array.membership.is_unwritable(id) {
                writable = writable.without(role);
            }
        }
        if let Some((role, has_copy, keeps_copy)) = self.spared_role(stripe) {
            readable = if has_copy { readable.with(role) } else { readable };
            writable = if keeps_copy { writable.with(role) } else { writable };
        }
        (readable.minus(self.range.alignment.behind(stripe)), writable)
    }

    /// How far a stripe's parity can be built upon. In a region that is not synced, the journal has
    /// seen to all writes but those of whole stripes; without one, only a member's loss leaves no
    /// choice.
    fn parity(&self, stripe: Stripe, readable: Set<Role>) -> Parity {
        let journaled = self.array.membership.record().consistency == Consistency::Journal;
        if self.is_in_step(stripe) {
            Parity::InStep
        } else if self.range.alignment.is_torn(stripe) {
            Parity::OutOfStep
        } else if journaled || readable != self.layout.of(stripe).roles() {
            Parity::Unproven
        } else {
            Parity::OutOfStep
        }
    }

    fn seconds(&self) -> u64 {
        self.epoch_seconds + self.now.0 / 1_000_000_000
    }

    /// Begins an I/O of a member or spare.
    fn issue(&mut self, flight: Flight, what: IoOp, at: Pba, blocks: u32, out: &mut Vec<Action>) {
        let of_stripes = flight.member.filter(|m| m.index() < self.layout.members());
        let on_spare = of_stripes.is_some_and(|member| self.is_on_spare(member, at));
        self.array.flights.issue(Flight { on_spare, ..flight }, what, at, blocks, out);
    }

    /// An I/O has ended. Returns whether that changes nothing but what there is for jobs to do.
    pub(super) fn io_done(
        &mut self,
        id: IoId,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) -> bool {
        let op = self.array.flights.end(id);
        if op.on_spare && self.array.flights.on_spare() == 0 {
            self.array.background.look();
        }
        if let Err(why) = result {
            self.successor_missed(&op, why, out);
        }
        match op.owner {
            Owner::Read { job, index } => self.read_done(job, index, op, result, out),
            Owner::ReadAtOnce { job } => self.read_at_once_done(job, op, result, out),
            Owner::Write { job, index } => self.write_done(job, index, op, result, out),
            Owner::Discard { job } => self.range.jobs.one_done(job),
            // It is advice: a member that can't have it serves as well.
            Owner::TrimSpare | Owner::Popularity => {}
            Owner::TrimLog => self.log_trimmed(),
            Owner::Clear => self.array.background.cleared(self.now),
            Owner::Vacate => self.vacated(),
            Owner::Entry { job } => self.entry_done(job, op, result, out),
            Owner::Tail { .. } => self.tail_done(op, result, out),
            Owner::Staged { job, number } => self.staged_done((job, number), op, result, out),
            Owner::StagedTail => self.staged_tail_done(op, result, out),
            Owner::Fetch { job, index } => self.fetch_done(job, index, op, result, out),
            Owner::Copy { job, number } => self.copy_done(job, number, op, result, out),
            Owner::Page { kind, index } => self.page_done((kind, index), op, result, out),
            Owner::Superblock => self.superblock_done(op, result, out),
            Owner::Flush => self.flush_done(op, result, out),
        }
        result.is_ok()
            && !op.on_spare
            && matches!(
                op.owner,
                Owner::Read { .. }
                    | Owner::ReadAtOnce { .. }
                    | Owner::Write { .. }
                    | Owner::Entry { .. }
                    | Owner::Staged { .. }
                    | Owner::Fetch { .. }
                    | Owner::Copy { .. }
            )
    }
}
