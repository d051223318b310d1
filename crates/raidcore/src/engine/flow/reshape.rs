//! A reshape: its windows are begun, and carried through step by step.
//!
//! Invariant: a window is given up only as long as no version of the record tells of it that is being
//! written or may be on a member; from then on it is carried through, whatever members fail.

use alloc::vec::Vec;

use crate::engine::flight::{Flight, Owner};
use crate::engine::flow::background::note_end;
use crate::engine::job::Job;
use crate::engine::reshape::{Route, Step, Window};
use crate::engine::work::Work;
use crate::engine::{Action, Engine, IoOp, JobId, PassEnd, PassKind, Phase};
use crate::geometry::Frontier;
use crate::meta::{MapKind, Reshape};
use crate::plan::Piece;
use crate::units::{Lba, Mem, Pba, Stripe};

const WORK: Work = Work::Sync(PassKind::Reshape);

impl Engine {
    /// Whether stripes are left that a reshape has to move, and all members are there for it.
    pub(super) fn may_reshape(&self) -> bool {
        let frontier = self.layout.frontier();
        frontier.is_some_and(|frontier| frontier.next < self.layout.new_stripes())
            && !self.range.reshape.is_stuck()
            && self.is_undisturbed()
    }

    /// Whether nothing has to come before a reshape goes on: no redundancy is to be brought back, and no
    /// member to be copied.
    fn is_undisturbed(&self) -> bool {
        let membership = &self.array.membership;
        !membership.impaired
            && membership.spared().is_none()
            && membership.succession().is_none()
            && !self.range.regions.any_unsynced()
            && self.range.alignment.torn().next().is_none()
    }

    /// Whether a reshape is under way that has to wait for something else.
    pub(super) fn reshape_gives_way(&self) -> bool {
        let kind = self.array.background.pass().map(|pass| (pass.kind(), pass.is_cancelled()));
        kind == Some((PassKind::Reshape, false))
            && !self.range.reshape.is_moving()
            && !self.is_undisturbed()
    }

    /// Carries the reshape on as far as it can go now; returns whether it has come further.
    pub(super) fn reshape(&mut self, out: &mut Vec<Action>) -> bool {
        let mut moved = false;
        if self.layout.frontier().is_none()
            || !matches!(self.phase, Phase::Serving | Phase::Stopping)
        {
            return moved;
        }
        while self.begins_window(out) || self.carry_on(out) {
            moved = true;
        }
        moved
    }

    /// Begins a window if none is under way, and one may begin.
    fn begins_window(&mut self, out: &mut Vec<Action>) -> bool {
        if self.range.reshape.is_stuck() {
            // What is saved is the only copy.
            return false;
        }
        if let Some(pass) = self.array.background.pass_mut(PassKind::Reshape) {
            pass.try_changed();
        }
        let pass = self.array.background.pass().filter(|pass| pass.kind() == PassKind::Reshape);
        let Some(pass) = pass.filter(|_| !self.range.reshape.is_moving()) else { return false };
        if pass.is_held() {
            // It may be for long, and the log has stripes where they are.
            self.range.staging.end_drain();
            return false;
        }
        if pass.is_whole()
            || self.phase != Phase::Serving
            || self.is_stopping()
            || !self.may_move()
            || self.next_at().is_some_and(|at| at > self.now)
        {
            return false;
        }
        if self.range.staging.exists() {
            // Entries of the log tell of stripes by their numbers.
            self.drain_log(out);
            if !self.range.staging.is_drained() {
                return false;
            }
        }
        let Some(window) = self.next_window() else { return false };
        self.array.background.begin_stripe(Stripe(window.stripes.start), self.now);
        self.range.reshape.begin(window);
        true
    }

    fn next_window(&self) -> Option<Window> {
        let zero = &self.range.maps.zero;
        self.range.reshape.next(&self.layout, |stripe| zero.map.get(stripe.0))
    }

    /// Whether a window may begin, or go on that can be given up.
    fn may_move(&self) -> bool {
        let membership = &self.array.membership;
        self.is_undisturbed()
            && membership.is_plain()
            && membership.takes_writes()
            && !membership.has_unkept()
    }

    /// Takes the window under way to its next step; returns whether there was one to take.
    fn carry_on(&mut self, out: &mut Vec<Action>) -> bool {
        let Some(window) = self.range.reshape.window() else { return false };
        let (step, route) = (window.step, window.route);
        let gives_up = !window.committed && !matches!(step, Step::SavedRecord(_) | Step::Record(_));
        if window.under_way == 0 && (window.failed || gives_up && !self.may_move()) {
            return self.give_up();
        }
        match step {
            Step::Drain if self.is_window_alone() => self.enter(Step::Void(None)),
            Step::Void(ticket) => return self.void_entries(ticket, out),
            Step::Read if self.begin_reads() && self.is_window_alone() => match route {
                Route::Saved if !self.is_saved() => self.enter(Step::Save),
                Route::Saved | Route::Direct | Route::Zeros => self.enter(Step::Write),
            },
            Step::Save if self.begin_writes() && self.is_window_idle() => {
                let ticket = self.flush(out);
                self.enter(Step::SavedFlush(ticket))
            }
            Step::Write if self.begin_writes() && self.is_window_idle() => {
                let ticket = self.flush(out);
                self.enter(Step::Flush(ticket))
            }
            Step::SavedFlush(ticket) | Step::Flush(ticket)
                if self.array.flusher.is_over(ticket) =>
            {
                self.flushed_window(step, out)
            }
            Step::SavedRecord(version) if self.is_recorded(version) => {
                if let Some(window) = self.range.reshape.window_mut() {
                    window.committed = true;
                }
                self.enter(Step::Write)
            }
            Step::Record(version) if self.is_recorded(version) => self.end_window(),
            Step::Discard if self.begin_discards(out) && self.is_window_idle() => {
                self.set_zeros(out)
            }
            Step::Zero { page, version } if self.range.maps.zero.durable(page) >= version => {
                self.record_window(out)
            }
            Step::Drain
            | Step::Read
            | Step::Save
            | Step::Write
            | Step::Discard
            | Step::Zero { .. }
            | Step::SavedFlush(_)
            | Step::Flush(_)
            | Step::SavedRecord(_)
            | Step::Record(_) => return false,
        }
        true
    }

    /// The window takes a step, of which nothing is begun. What counts as new from then on, and where it is,
    /// goes by that.
    fn enter(&mut self, step: Step) {
        let Some(window) = self.range.reshape.window_mut() else { return };
        (window.step, window.begun) = (step, 0);
        let count = window.count();
        match step {
            Step::Save => self.place_window(count, true),
            Step::Write => self.place_window(count, false),
            Step::Drain
            | Step::Void(_)
            | Step::Read
            | Step::SavedFlush(_)
            | Step::SavedRecord(_)
            | Step::Discard
            | Step::Zero { .. }
            | Step::Flush(_)
            | Step::Record(_) => {}
        }
    }

    /// So many stripes after those that are new count as new, too, and are `saved` or at home.
    fn place_window(&mut self, count: u64, saved: bool) {
        let Some(&frontier) = self.layout.frontier() else { return };
        let area = self.array.membership.record().saved_area().0;
        let saved_at = (saved && count > 0).then_some(area);
        self.layout = self.layout.reshaped(Frontier { window: count, saved_at, ..frontier });
    }

    /// Whether the window's stripes are where they are saved.
    fn is_saved(&self) -> bool {
        self.layout.frontier().is_some_and(|frontier| frontier.saved_at.is_some())
    }

    /// Whether nothing that the window has begun is under way.
    fn is_window_idle(&self) -> bool {
        self.range.reshape.window().is_none_or(|window| window.under_way == 0)
    }

    /// Whether no job is on stripes that the window reads or writes.
    fn is_window_alone(&self) -> bool {
        let Some(window) = self.range.reshape.window() else { return false };
        !self.range.jobs.iter().any(|job| window.touches_stripe(&self.layout, job.stripe))
    }

    /// Sees to it that a replay would carry out nothing of the window's old stripes.
    fn void_entries(&mut self, ticket: Option<u64>, out: &mut Vec<Action>) -> bool {
        let Some(window) = self.range.reshape.window() else { return false };
        if ticket.is_some_and(|ticket| !self.array.flusher.is_over(ticket)) {
            return false;
        }
        let mut touches = window.touches(&self.layout);
        if touches.any(|stripe| self.range.journal.would_replay(Stripe(stripe))) {
            self.write_tails(out);
            // Entries that came before may be of writes under way, whose ends are waited for.
            if !self.range.journal.is_telling() && self.range.journal.would_retire() {
                let ticket = self.flush(out);
                self.enter(Step::Void(Some(ticket)));
            }
            return false;
        }
        match window.route {
            // What was to be zeros may have been written meanwhile.
            Route::Zeros => {
                let zeros = self.next_window().filter(|next| next.route == Route::Zeros);
                let Some(zeros) = zeros else { return self.give_up() };
                if let Some(window) = self.range.reshape.window_mut() {
                    window.stripes.end = window.stripes.end.min(zeros.stripes.end);
                }
                self.enter(Step::Discard);
            }
            Route::Direct | Route::Saved => self.enter(Step::Read),
        }
        true
    }

    // What the window reads and writes.

    /// Begins reads of what the window's stripes are to hold; returns whether all are begun.
    fn begin_reads(&mut self) -> bool {
        loop {
            let Some(window) = self.range.reshape.window() else { return true };
            let blocks = window.blocks(&self.layout);
            let (start, end) = (blocks.start, blocks.end.min(self.layout.capacity()));
            let at = start + window.begun;
            if at >= end {
                return true;
            }
            let (stripe, offset) = self.layout.locate(Lba(at));
            let geo = *self.layout.of(stripe);
            let count = u64::from(geo.stripe_blocks() - offset).min(end - at) as u32;
            let Some(id) = self.new_job(WORK, stripe) else { return false };
            let mut done = 0;
            while done < count {
                let (role, row) = geo.chunk_at(offset + done);
                let rows = (geo.chunk() - row).min(count - done);
                let mem = self.range.reshape.memory(at + u64::from(done) - start);
                let piece = Piece { role, row, blocks: rows, mem: Job::in_plan(mem) };
                self.range.jobs[id].pieces.push(piece);
                done += rows;
            }
            self.begin_of_window(id, count.into());
        }
    }

    /// Begins writes of the window's stripes; returns whether all are begun.
    fn begin_writes(&mut self) -> bool {
        loop {
            let Some(window) = self.range.reshape.window() else { return true };
            let stripe = Stripe(window.stripes.start + window.begun);
            if stripe.0 >= window.stripes.end {
                return true;
            }
            let geo = *self.layout.of(stripe);
            let (first, capacity) = (window.blocks(&self.layout).start, self.layout.capacity());
            let Some(id) = self.new_job(WORK, stripe) else { return false };
            for role in geo.data_roles() {
                let Lba(at) = geo.lba(stripe, role, 0);
                // What is behind the end reads as zeros when the array has grown.
                let had = capacity.saturating_sub(at).min(geo.chunk().into()) as u32;
                let parts = [(0, had, Some(at - first)), (had, geo.chunk() - had, None)];
                for (row, blocks, from) in parts.into_iter().filter(|&(_, blocks, _)| blocks > 0) {
                    let memory = |offset| Job::in_plan(self.range.reshape.memory(offset));
                    let mem = from.map_or(Mem::Zero, memory);
                    self.range.jobs[id].pieces.push(Piece { role, row, blocks, mem });
                }
            }
            self.begin_of_window(id, 1);
        }
    }

    /// A job of the window begins, with which so much more of its step is begun.
    fn begin_of_window(&mut self, id: JobId, begun: u64) {
        if let Some(window) = self.range.reshape.window_mut() {
            window.begun += begun;
            window.under_way += 1;
        }
        self.start_job(id);
    }

    /// A job of the window has ended.
    pub(super) fn moved(&mut self, id: JobId, out: &mut Vec<Action>) {
        let left = self.range.jobs[id].error.map(|_| self.left_stripe(id));
        let reads = self.range.reshape.reads();
        let Some(window) = self.range.reshape.window_mut() else { return };
        window.under_way -= 1;
        let Some(left) = left else { return };
        window.failed = true;
        let stripe = left.stripe;
        // That members don't take writes is told elsewhere.
        let unreadable = reads.then(|| self.array.background.pass_mut(PassKind::Reshape)).flatten();
        if unreadable.is_some_and(|pass| pass.fail(left)) {
            note_end(PassKind::Reshape, PassEnd::Stuck(stripe), out);
        }
    }

    /// Tells members that they need not keep what is in the window's places; returns whether all are told.
    fn begin_discards(&mut self, out: &mut Vec<Action>) -> bool {
        let Some(window) = self.range.reshape.window() else { return true };
        let (stripes, begun) = (window.stripes.clone(), window.begun);
        let zero = &self.range.maps.zero.map;
        if begun > 0 || stripes.clone().all(|stripe| zero.get(stripe)) {
            return true;
        }
        let chunk = u64::from(self.layout.new_chunk());
        let blocks = (window.count() * chunk) as u32;
        let mut under_way = 0;
        for member in self.layout.member_set() {
            let Some(device) = self.array.membership.device(member) else { continue };
            let (Pba(start), _) = self.layout.data_of(member);
            let op = Flight::new(Owner::Vacate, Some(member), device);
            self.issue(op, IoOp::Discard, Pba(start + stripes.start * chunk), blocks, out);
            under_way += 1;
        }
        if let Some(window) = self.range.reshape.window_mut() {
            (window.begun, window.under_way) = (1, under_way);
        }
        true
    }

    /// A member was told. It is advice: one that can't have it serves as well.
    pub(super) fn vacated(&mut self) {
        if let Some(window) = self.range.reshape.window_mut() {
            window.under_way -= 1;
        }
    }

    /// Sets the window's bits of the zero map, which are all in one page.
    fn set_zeros(&mut self, out: &mut Vec<Action>) {
        let Some(window) = self.range.reshape.window() else { return };
        let page = self.range.maps.zero.map.page_of(window.stripes.start);
        for stripe in window.stripes.clone() {
            self.range.maps.zero.map.set(stripe);
        }
        let version = self.store_page(MapKind::ZeroMap, page, out);
        self.enter(Step::Zero { page, version });
    }

    // What the record says.

    /// A flush for the window is over.
    fn flushed_window(&mut self, step: Step, out: &mut Vec<Action>) {
        if !self.flushed_for_good() {
            if self.array.flusher.has_failed() || self.array.membership.recorder.is_broken() {
                if let Some(window) = self.range.reshape.window_mut() {
                    window.failed = true;
                }
                return;
            }
            // A member has failed meanwhile, and that is being recorded.
            let ticket = self.flush(out);
            let saves = matches!(step, Step::SavedFlush(_));
            return self.enter(if saves { Step::SavedFlush(ticket) } else { Step::Flush(ticket) });
        }
        let Step::SavedFlush(_) = step else { return self.record_window(out) };
        let Some(window) = self.range.reshape.window() else { return };
        let saved = window.count() as u32;
        let version = self.record_reshape(|reshape| Reshape { saved, ..reshape }, out);
        self.enter(Step::SavedRecord(version));
    }

    /// All of the window is in its place, durably: that is put on record.
    fn record_window(&mut self, out: &mut Vec<Action>) {
        let Some(window) = self.range.reshape.window() else { return };
        let next = window.stripes.end;
        let version = self.record_reshape(|reshape| Reshape { next, saved: 0, ..reshape }, out);
        self.enter(Step::Record(version));
    }

    fn record_reshape(
        &mut self,
        change: impl FnOnce(Reshape) -> Reshape,
        out: &mut Vec<Action>,
    ) -> u64 {
        self.array.membership.reshape(change);
        self.record_change(out)
    }

    /// Whether a version of the record is durable, or none will be any more.
    fn is_recorded(&self, version: u64) -> bool {
        self.array.membership.recorder.over() >= version
    }

    /// The window's stripes are new ones.
    fn end_window(&mut self) {
        let Some(window) = self.range.reshape.end() else { return };
        let stripes = window.stripes;
        let Some(&frontier) = self.layout.frontier() else { return };
        self.layout = if self.array.membership.recorder.is_broken() {
            // A start may find the window as it was. It holds the same where it was.
            self.layout.reshaped(Frontier {
                next: stripes.end,
                window: 0,
                saved_at: None,
                ..frontier
            })
        } else {
            self.array.membership.record().layout()
        };
        if self.layout.frontier().is_none() {
            self.forget_numbers();
        }
        if let Some(pass) = self.array.background.pass_mut(PassKind::Reshape) {
            pass.end_range(stripes.start, stripes.end);
        }
        self.release_held();
    }

    /// The reshape is over. If there are fewer stripes now, nothing is known of the numbers behind the last.
    fn forget_numbers(&mut self) {
        let stripes = self.layout.stripes();
        self.range.maps.zero.map.clear_from(stripes);
        self.array.background.forget_from(stripes);
        let mut from = self.areas.regions_of(stripes);
        while let Some(region) = self.range.regions.unsynced().next_set(from) {
            self.range.regions.synced(region);
            from = region + 1;
        }
    }

    /// The window is given up: its stripes are what they were. If they are saved, they stay so.
    fn give_up(&mut self) -> bool {
        let Some(window) = self.range.reshape.window() else { return false };
        let (start, count, committed) = (window.stripes.start, window.count(), window.committed);
        if committed {
            self.place_window(count, true);
            self.range.reshape.stick();
        } else {
            self.place_window(0, false);
            self.range.reshape.end();
        }
        if let Some(pass) = self.array.background.pass_mut(PassKind::Reshape) {
            pass.abandon(start);
        }
        self.release_held();
        true
    }

    /// Requests that had to wait for the window go on.
    fn release_held(&mut self) {
        self.array.users.release();
        self.array.background.look();
    }
}
