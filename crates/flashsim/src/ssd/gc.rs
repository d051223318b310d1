//! Garbage collection: when a die collects, its next step, and what may go before it.
//!
//! A die collects one plane at a time, in *units*. A plane is *low* from when its free blocks fall
//! to `start` until they rise above `stop`. While a die is *active*, its domain (itself, its chip,
//! or the drive, as the profile's scope says) doesn't serve the host.
//!
//! Invariants:
//! - A domain's count is the number of its active dies.
//! - Between two pages of one victim, the victim stays with its plane, whatever is served in
//!   between.

use det::Instant;

use super::Ssd;
use super::api::GcState;
use super::die_gc::Boundary;
use super::dispatch::Eligible;
use super::event::Event;
use super::low::Low;
use super::orders::Orders;
use super::work::{NONE, Work};
use crate::ftl::Step;
use crate::geometry::Geometry;
use crate::profile::{CopyPath, Preempt, Profile, Scope, Unit};
use crate::save::RestoreError;
use crate::stats::{Stats, Sum};

#[derive(Clone, Copy, Debug)]
struct Idle {
    start: u32,
    stop: u32,
    gain: u32,
}

/// The collection of the drive.
#[derive(Clone, Debug)]
pub(super) struct Gc {
    scope: Scope,
    unit: Unit,
    host_turns: u32,
    pub(super) preempt: Preempt,
    only_when_waiting: bool,
    start: u32,
    stop: u32,
    pub(super) hard: u32,
    idle: Option<Idle>,
    pub(super) orders: Orders,
    low: Low,
    /// Dies that erase, or have suspended an erase.
    pub(super) erasing: u32,
    /// Per domain: active dies, blocks left of the unit, and when a die was last active.
    active: Vec<u32>,
    quota: Vec<u32>,
    ended: Vec<u64>,
    /// Active dies of the drive, since when, and for how long before that.
    dies: u32,
    since: u64,
    time: u64,
    pub(super) lengths: Sum,
}

impl Gc {
    pub(super) fn new(profile: &Profile, g: &Geometry) -> Self {
        let gc = &profile.gc;
        let domains = match gc.scope {
            Scope::Plane => g.dies,
            Scope::Chip => g.chips,
            Scope::Device => 1,
        } as usize;
        let hard = profile.share(gc.hard).max(1);
        let start = profile.share(gc.start).max(hard);
        Self {
            scope: gc.scope,
            unit: gc.unit,
            host_turns: gc.host_turns,
            preempt: gc.preempt,
            only_when_waiting: gc.only_when_waiting,
            start,
            stop: profile.share(gc.stop.unwrap_or(gc.start)).max(start),
            hard,
            idle: gc.background.filter(|_| !gc.instant).map(|idle| Idle {
                start: profile.share(idle.start).max(start),
                stop: profile.share(idle.stop.unwrap_or(idle.start)).max(start),
                gain: (idle.gain * f64::from(g.data_pages)) as u32,
            }),
            orders: Orders::default(),
            low: Low::none(g),
            erasing: 0,
            active: vec![0; domains],
            quota: vec![0; domains],
            ended: vec![0; domains],
            dies: 0,
            since: 0,
            time: 0,
            lengths: Sum::default(),
        }
    }

    pub(super) fn state(&self) -> GcState {
        GcState { dies: self.dies, since: (self.dies > 0).then_some(Instant(self.since)) }
    }

    /// How long at least one die was active until `now`.
    pub(super) fn time(&self, now: u64) -> u64 {
        self.time + if self.dies > 0 { now - self.since } else { 0 }
    }

    pub(super) fn reset_stats(&mut self, now: u64) {
        self.lengths = Sum::default();
        self.time = 0;
        self.since = now;
    }
}

impl Ssd {
    /// Where the search of a die for a low plane begins.
    pub(super) fn gc_cursor(&self, id: u32) -> u32 {
        self.dies[id as usize].gc.cursor
    }

    /// Whether `plane` has too few free blocks, when the drive decides by itself.
    pub(super) fn is_low(&self, plane: u32) -> bool {
        match self.gc.orders.low() {
            Some(_) => self.ftl.free_blocks(plane) <= self.gc.start,
            None => self.gc.low.has(plane),
        }
    }

    /// Restores the collection's state after a power cut: the total time, each die's search
    /// position, and which planes are low.
    pub(super) fn restore_gc(
        &mut self,
        stats: &Stats,
        cursors: &[u32],
        low: Vec<bool>,
    ) -> Result<(), RestoreError> {
        let time = u64::try_from(stats.gc_time.as_nanos()).ok().filter(|&time| time <= self.now);
        self.gc.time = time.ok_or(RestoreError::Impossible("it collected before it was made"))?;
        self.gc.lengths = stats.gc;
        for (plane, low) in (0..).zip(low) {
            // One at the hard limit is low, whatever was saved.
            self.set_low(plane, low || self.ftl.free_blocks(plane) <= self.gc.hard);
        }
        for (die, &cursor) in self.dies.iter_mut().zip(cursors) {
            die.gc.cursor = cursor;
        }
        Ok(())
    }

    /// The number of free blocks of `plane` has changed.
    pub(super) fn note_free(&mut self, plane: u32) {
        let start = self.gc.orders.low().unwrap_or(self.gc.start);
        if self.profile.gc.instant && self.ftl.free_blocks(plane) <= start {
            self.ftl.collect_now(plane);
        }
        let free = self.ftl.free_blocks(plane);
        let own = if self.gc.low.has(plane) { self.gc.stop } else { self.gc.start };
        self.set_low(plane, free <= self.gc.orders.low().unwrap_or(own));
    }

    fn set_low(&mut self, plane: u32, is_low: bool) {
        self.gc.low.set(plane, self.ftl.geometry().die_of(plane), is_low);
    }

    /// Whether `plane` is low by other thresholds than before.
    pub(super) fn forget_low(&mut self, plane: u32) {
        let start = self.gc.orders.low().unwrap_or(self.gc.start);
        self.set_low(plane, self.ftl.free_blocks(plane) <= start);
    }

    /// Whether the collection of other dies keeps this one from serving the host.
    pub(super) fn gc_blocks(&self, id: u32) -> bool {
        self.gc.scope != Scope::Plane && self.gc.active[self.domain(id)] > 0
    }

    /// Whether what comes to this die now has to wait for an erase.
    pub(super) fn waits_for_erase(&self, id: u32) -> bool {
        let beside = |other: u32| self.domain(other) == self.domain(id);
        self.is_erasing()
            && (self.dies[id as usize].erases() || self.gc_blocks(id) && self.erasing().any(beside))
    }

    /// Whether collection that keeps this die from serving the host was active at any time since
    /// `since`.
    pub(super) fn gc_since(&self, id: u32, since: u64) -> bool {
        let domain = self.domain(id);
        self.gc.active[domain] > 0 || self.gc.ended[domain] > since
    }

    /// Begins the next step of collection, or lets a host operation go before it. False if the
    /// die has nothing to collect.
    pub(super) fn collect_next(&mut self, id: u32) -> bool {
        if self.dies[id as usize].gc.plane == NONE && !self.begin_collecting(id) {
            return false;
        }
        if self.let_host_go(id) {
            return true;
        }
        let plane = self.dies[id as usize].gc.plane;
        if plane == NONE {
            return false;
        }
        self.set_active(id, true);
        self.dies[id as usize].gc.host_next = true;
        let Some(step) = self.ftl.collect(plane) else {
            self.end_collecting(id);
            return false;
        };
        self.note_free(plane);
        match step {
            Step::Erase => {
                self.gc.erasing += 1;
                let begins = self.command(id, self.timing.erase_command);
                self.run(id, Work::Erase, begins + self.timing.erase, begins);
            }
            Step::Moved { pages, rows, filled } => {
                let rows = u64::from(rows);
                let reads = rows * self.timing.read_command;
                match self.timing.copy {
                    CopyPath::CopyBack => {
                        let begins = self.command(id, reads + self.timing.program_command);
                        let read = begins + rows * self.timing.read;
                        let summary = u64::from(filled) * self.timing.summary;
                        let ends = read + self.timing.program + summary;
                        self.run(id, Work::Move, ends, read);
                    }
                    CopyPath::Controller => {
                        let read = self.command(id, reads) + rows * self.timing.read;
                        self.run(id, Work::MoveRead { pages, filled }, read, u64::MAX);
                    }
                }
            }
        }
        true
    }

    /// Lets a host operation go before the next step of collection, if it may.
    fn let_host_go(&mut self, id: u32) -> bool {
        if self.dies[id as usize].waiting == 0 {
            return false;
        }
        if self.suspend.is_some() && self.serve(id, Eligible::Reads) {
            return true;
        }
        let gc = self.dies[id as usize].gc;
        let by_turn = gc.boundary == Boundary::Unit && (gc.turns > 0 || gc.background);
        let by_preemption = match gc.boundary {
            Boundary::Begin => false,
            Boundary::Page => self.preempt(gc.plane) == Preempt::Page,
            Boundary::Block | Boundary::Unit => self.preempt(gc.plane) != Preempt::Never,
        };
        let may_wait = self.ftl.free_blocks(gc.plane) > self.gc.hard;
        let others = self.gc.active[self.domain(id)] - u32::from(gc.active);
        let blocked = self.gc.scope != Scope::Plane && others > 0;
        if may_wait && !blocked && (by_turn || by_preemption) && self.serve(id, Eligible::All) {
            self.set_active(id, false);
            self.dies[id as usize].gc.turns = gc.turns.saturating_sub(1);
            if gc.background {
                self.end_collecting(id);
            }
            return true;
        }
        if self.gc.scope == Scope::Plane && gc.host_next {
            self.dies[id as usize].gc.host_next = false;
            return self.serve(id, Eligible::Beside(gc.plane));
        }
        false
    }

    /// One program of moved pages has ended.
    pub(super) fn page_moved(&mut self, id: u32) {
        let plane = self.dies[id as usize].gc.plane;
        self.dies[id as usize].gc.boundary = Boundary::Page;
        if self.gc.unit == Unit::Page || !self.permitted(plane) {
            self.unit_done(id);
        }
    }

    /// The victim has been erased.
    pub(super) fn block_erased(&mut self, id: u32) {
        let plane = self.dies[id as usize].gc.plane;
        self.gc.erasing -= 1;
        self.ftl.erased(plane);
        self.note_free(plane);
        let domain = self.domain(id);
        let quota = &mut self.gc.quota[domain];
        *quota = quota.saturating_sub(1);
        self.dies[id as usize].gc.boundary = Boundary::Block;
        let was_ordered = self.gc.orders.erased(plane);
        self.stats.forced += u64::from(was_ordered);
        if was_ordered || *quota == 0 || !self.permitted(plane) || !self.pick_fewest(id) {
            self.unit_done(id);
        }
    }

    /// A burst goes on in the plane of the die that needs it most.
    fn pick_fewest(&mut self, id: u32) -> bool {
        let mut fewest = None;
        for plane in self.geometry().planes_of(id) {
            let free = self.ftl.free_blocks(plane);
            if fewest.is_none_or(|(least, _)| free < least) && self.ftl.can_collect(plane, 0) {
                fewest = Some((free, plane));
            }
        }
        if let Some((_, plane)) = fewest {
            self.dies[id as usize].gc.plane = plane;
        }
        fewest.is_some()
    }

    /// A unit has ended: decides whether another one follows.
    fn unit_done(&mut self, id: u32) {
        let background = self.dies[id as usize].gc.background;
        match self.next_plane(id, background) {
            Some(plane) => {
                let turns = self.gc.host_turns;
                let gc = &mut self.dies[id as usize].gc;
                (gc.plane, gc.boundary, gc.turns) = (plane, Boundary::Unit, turns);
                self.refill_quota(id);
            }
            None => self.end_collecting(id),
        }
    }

    fn begin_collecting(&mut self, id: u32) -> bool {
        let Some(plane) = self.next_plane(id, false) else { return false };
        self.begin(id, plane, false);
        true
    }

    fn begin(&mut self, id: u32, plane: u32, background: bool) {
        let gc = &mut self.dies[id as usize].gc;
        (gc.plane, gc.boundary, gc.background) = (plane, Boundary::Begin, background);
        (gc.turns, gc.host_next) = (0, false);
        self.refill_quota(id);
    }

    fn refill_quota(&mut self, id: u32) {
        let domain = self.domain(id);
        let others = self.gc.active[domain] - u32::from(self.dies[id as usize].gc.active);
        if others == 0 || self.gc.quota[domain] == 0 {
            self.gc.quota[domain] = match self.gc.unit {
                // The host's thresholds are looked at block by block.
                _ if self.gc.orders.low().is_some() => 1,
                Unit::Page | Unit::Block => 1,
                Unit::Burst(blocks) => blocks,
            };
        }
    }

    /// The next plane of a die that is to be collected.
    fn next_plane(&mut self, id: u32, background: bool) -> Option<u32> {
        if !background && self.wants_none(id) {
            return None;
        }
        let planes = self.geometry().planes_of(id);
        let count = planes.end - planes.start;
        let cursor = self.dies[id as usize].gc.cursor;
        let gain = match (background, self.gc.idle) {
            (true, Some(idle)) => idle.gain,
            (true, None) | (false, _) => 0,
        };
        for step in 0..count {
            let at = (cursor + step) % count;
            let plane = planes.start + at;
            let free = self.ftl.free_blocks(plane);
            // At the hard limit any block has to do.
            let ordered = if free > self.gc.hard { self.gc.orders.gain(plane, free) } else { 0 };
            if self.wanted(id, plane, background) && self.ftl.can_collect(plane, gain.max(ordered))
            {
                self.dies[id as usize].gc.cursor = (at + 1) % count;
                return Some(plane);
            }
        }
        None
    }

    /// Whether a die of a drive that decides by itself is to collect no plane now, as far as that is known
    /// without a look at them.
    fn wants_none(&self, id: u32) -> bool {
        let gc = &self.gc;
        let waits_in_vain = gc.only_when_waiting && self.dies[id as usize].waiting == 0;
        let joins = gc.scope == Scope::Device && gc.active[0] > 0;
        gc.orders.are_none() && (waits_in_vain || !joins && !gc.low.any_of(id))
    }

    /// Whether `plane` is to be collected now.
    fn wanted(&self, id: u32, plane: u32, background: bool) -> bool {
        let free = self.ftl.free_blocks(plane);
        let gc = &self.gc;
        if gc.orders.want(plane, free) {
            return true;
        }
        if gc.only_when_waiting && !background && self.dies[id as usize].waiting == 0 {
            return false;
        }
        if free <= gc.hard {
            return true;
        }
        if gc.orders.low().is_some() {
            return gc.low.has(plane);
        }
        if !gc.orders.allow(self.now) {
            return false;
        }
        let joins = gc.scope == Scope::Device && gc.active[0] > 0 && free <= gc.stop;
        let already = self.dies[id as usize].gc.plane != NONE;
        let idle = background
            && gc.idle.is_some_and(|idle| free <= if already { idle.stop } else { idle.start });
        gc.low.has(plane) || joins || idle
    }

    /// Whether collection of `plane` that has begun may go on in the middle of a unit.
    fn permitted(&self, plane: u32) -> bool {
        let free = self.ftl.free_blocks(plane);
        let orders = &self.gc.orders;
        orders.allow(self.now) || free <= self.gc.hard || orders.let_go_on(plane, free)
    }

    /// The die has nothing more to collect.
    fn end_collecting(&mut self, id: u32) {
        self.set_active(id, false);
        self.dies[id as usize].gc.plane = NONE;
        self.dies[id as usize].gc.background = false;
    }

    fn set_active(&mut self, id: u32, active: bool) {
        if self.dies[id as usize].gc.active == active {
            return;
        }
        let (now, domain) = (self.now, self.domain(id));
        let gc = &mut self.dies[id as usize].gc;
        gc.active = active;
        if active {
            gc.since = now;
            if self.gc.dies == 0 {
                self.gc.since = now;
            }
            self.gc.dies += 1;
            self.gc.active[domain] += 1;
            return;
        }
        self.gc.lengths.add(now - gc.since);
        self.gc.time += if self.gc.dies == 1 { now - self.gc.since } else { 0 };
        self.gc.dies -= 1;
        self.gc.active[domain] -= 1;
        self.gc.ended[domain] = now;
        if self.gc.active[domain] == 0 {
            self.wake_domain(id);
        }
    }

    /// Dies that waited for the domain to become passive look again.
    fn wake_domain(&mut self, id: u32) {
        let g = *self.geometry();
        match self.gc.scope {
            Scope::Plane => {}
            Scope::Device => self.wake.extend(0..g.dies),
            Scope::Chip => {
                let dies = (g.chip_of(id)..g.dies).step_by(g.chips as usize);
                self.wake.extend(dies.filter(|&die| die != id));
            }
        }
    }

    fn domain(&self, id: u32) -> usize {
        match self.gc.scope {
            Scope::Plane => id as usize,
            Scope::Chip => self.geometry().chip_of(id) as usize,
            Scope::Device => 0,
        }
    }

    /// The die is idle: it may collect in the background after a while.
    pub(super) fn await_idleness(&mut self, id: u32) {
        let Some(idle) = self.gc.idle else { return };
        let mut planes = self.geometry().planes_of(id);
        if self.gc.orders.allow(self.now)
            && planes.any(|plane| self.ftl.free_blocks(plane) <= idle.start)
        {
            let begun = self.dies[id as usize].begun;
            self.events.at(self.now + self.timing.idle, Event::Idle { die: id, begun });
        }
    }

    /// The die has been idle for long enough, if it is idle still.
    pub(super) fn die_idle(&mut self, id: u32, begun: u32) {
        let die = &self.dies[id as usize];
        if die.begun != begun || die.running.is_some() || die.gc.plane != NONE {
            return;
        }
        if let Some(plane) = self.next_plane(id, true) {
            self.begin(id, plane, true);
            self.kick(id);
        }
    }
}
