//! Cleaning: what lives in a segment moves to the stream of its group's cleaner, so that the segment
//! becomes empty. What has lived for long comes together there, apart from what users write.
//!
//! With one group, cleaning either blocks users when it must begin, or keeps pace with them. With
//! several, the one that comes to the front next is cleaned as far as it is worth it, and those after
//! it only if that falls behind the front: what is cleaned late has less in it that lives. Users'
//! reads of a group go before.
//!
//! Invariants:
//! - A block moves only if it is still where it was when its move began.
//! - A segment is read until all that lives in it has moved, and is not emptied before its reads
//!   have ended.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;
use raidcore::engine::IoError;
use raidcore::units::Lba;

use super::stream::{HOT, cold};
use super::{Action, Cleaning, IoOp, Note, Op, Volume};
use crate::codec::{Entry, Summary};
use crate::units::{GroupId, Segment};

/// The most blocks of a read.
const RUN: u32 = 64;

/// Free segments besides the reserve, so few that cleaning can't wait.
const PRESSING: u32 = 2;

/// Reads of a group's cleaner under way at most: what lives in a segment lies scattered, and all of
/// a group's members are to have something to do.
pub(super) const READS: u32 = 16;

/// What a cleaner is about.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    victim: Option<Victim>,
}

impl Cleaner {
    pub(super) fn is_busy(&self) -> bool {
        self.victim.is_some()
    }
}

#[derive(Debug)]
struct Victim {
    segment: Segment,
    /// Blocks that lived in it when it was chosen, and when that was.
    found: u32,
    since: Instant,
    /// Where its next summary is.
    at: u32,
    /// A summary is being read.
    loading: bool,
    /// Blocks that live in it, by the summaries so far: where, and which.
    live: VecDeque<(u32, Lba)>,
    /// Reads under way.
    reads: u32,
    /// Something of it can't be read.
    stuck: bool,
}

/// Blocks on their way from a victim to the open batch of the cleaner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    group: GroupId,
    from: (Segment, u32),
    to: (Segment, u32),
    blocks: u32,
    /// The first one's entry in the open batch.
    entry: u32,
}

impl Volume {
    /// Moves all cleaners on.
    pub(super) fn clean(&mut self, out: &mut Vec<Action>) {
        if !self.checkpointer.is_serving() {
            return;
        }
        for group in self.groups() {
            loop {
                if self.cleaners[group.index()].victim.is_none() && !self.choose(group) {
                    break;
                }
                self.move_on(group, out);
                if self.cleaners[group.index()].victim.is_some() {
                    break;
                }
            }
        }
    }

    /// Free segments of a group, and those that a checkpoint will free.
    pub(super) fn freeable(&self, group: GroupId) -> u32 {
        self.segments.free(group) + self.segments.coming(group)
    }

    /// So many free segments that it is enough: a part of what can be gained. The less of the log is
    /// free, the longer blocks have to be overwritten before they would have to be moved.
    fn plenty(&self, group: GroupId) -> u32 {
        let slots = u64::from(self.shape.slots());
        let full = self.segments.live(group).div_ceil(slots) as u32;
        let most = self.shape.group_segments().saturating_sub(full + self.shape.reserve());
        // With several groups, a checkpoint has to end while one of them fills up.
        let part = if self.shape.groups() > 1 { 2 } else { 4 };
        self.shape.reserve() + (most / part).max(PRESSING + 1)
    }

    /// So few free segments that cleaning can't wait.
    fn is_pressing(&self, group: GroupId) -> bool {
        self.freeable(group) <= self.shape.reserve() + PRESSING
    }

    /// Whether a cleaner may begin with another segment.
    fn may_clean(&mut self, group: GroupId) -> bool {
        // Cleaning on could use up what a checkpoint is to give back to users.
        let is_coming = self.is_enough(group) && self.segments.coming(group) > 0;
        if self.is_winding_up() || self.failed || self.is_starved(group) && is_coming {
            return false;
        }
        if self.shape.groups() > 1 {
            return self.is_in_line(group) || self.stalled && self.is_last_resort(group);
        }
        match self.config.cleaning {
            Cleaning::Blocking => {
                self.stalled || self.blocking && self.freeable(group) < self.plenty(group)
            }
            Cleaning::Paced => self.allowance > 0 || self.stalled || self.is_pressing(group),
        }
    }

    /// So many free segments besides the reserve that a group comes to the front: a quarter of what its
    /// cleaner gets free. With fewer, it would soon have to go again, and all groups would be written and
    /// cleaned at a time; with more, users would wait although there is room. Where a checkpoint takes
    /// more than that, up to half: there is one at each turn.
    pub(super) fn turn(&self, group: GroupId) -> u32 {
        let span = self.plenty(group).saturating_sub(self.shape.reserve());
        (span / 4).max(self.checkpoint_segments().min(span / 2)).max(1)
    }

    /// Free segments of a group that users may have.
    pub(super) fn spare(&self, group: GroupId) -> u32 {
        self.segments.free(group).saturating_sub(self.stock(group))
    }

    /// Free segments that users leave to a group's cleaner: its reserve, or, where a checkpoint takes more
    /// than that, what it is to begin with when users have gone on to another group. It can fill no more
    /// than these until a checkpoint gives back what that has emptied.
    pub(super) fn stock(&self, group: GroupId) -> u32 {
        let reserve = self.shape.reserve();
        if self.shape.groups() == 1 {
            return reserve;
        }
        let span = self.plenty(group).saturating_sub(reserve);
        reserve.max((2 * self.checkpoint_segments()).min(span / 4))
    }

    /// Segments that a checkpoint of all pages takes.
    fn checkpoint_segments(&self) -> u32 {
        let all = self.checkpoint_cost(self.shape.pages()).div_ceil(self.shape.slots().into());
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// Whether users wait for a segment, and can't have one of this group yet.
    pub(super) fn is_starved(&self, group: GroupId) -> bool {
        self.stalled && self.spare(group) < self.needed(group)
    }

    /// Free segments besides what is left to its cleaner with which users go on with a group.
    pub(super) fn needed(&self, group: GroupId) -> u32 {
        if self.shape.groups() > 1 { self.turn(group) } else { 1 }
    }

    /// Whether users can go on with a group as soon as a checkpoint has freed what is empty.
    pub(super) fn is_enough(&self, group: GroupId) -> bool {
        self.freeable(group) >= self.stock(group) + self.turn(group)
    }

    /// Whether cleaners or a checkpoint will free segments.
    pub(super) fn is_freeing(&mut self) -> bool {
        self.groups().any(|group| self.will_free(group))
    }

    fn will_free(&mut self, group: GroupId) -> bool {
        let comes = self.cleaners[group.index()].is_busy() || self.segments.coming(group) > 0;
        comes || self.gains(group)
    }

    /// Whether a group is at the back: users do not write to it.
    pub(super) fn is_back(&self, group: GroupId) -> bool {
        group != self.front() && group != self.shape.group_of(self.streams[HOT].position.segment)
    }

    /// Whether a group is to be cleaned as users wait: any at the back, or, if there is nothing to gain
    /// at the back, the front itself.
    fn is_last_resort(&mut self, group: GroupId) -> bool {
        self.is_back(group)
            || !self.groups().any(|other| self.is_back(other) && self.will_free(other))
    }

    /// Whether a group is to be cleaned since it soon comes to the front: the next one always, those
    /// after it when else they would not be ready in time.
    fn is_in_line(&mut self, group: GroupId) -> bool {
        if !self.is_back(group) || self.freeable(group) >= self.plenty(group) {
            return false;
        }
        // The one that has the most comes next; else they come in turn.
        let groups = self.shape.groups();
        let turn = |other: GroupId| (other.index() + groups - self.front().index()) % groups;
        let place = |other| (core::cmp::Reverse(self.freeable(other)), turn(other));
        let is_before = |&other: &GroupId| self.is_back(other) && place(other) < place(group);
        let usable = |other| self.freeable(other).saturating_sub(self.stock(other));
        let (mut is_next, mut left) = (true, self.spare(self.front()));
        for other in self.groups().filter(is_before) {
            is_next = false;
            left += usable(other);
        }
        is_next || self.takes(group) > self.paces.fill * left
    }

    /// How long it takes until a group has gained what it is to, and as long again for half of that: for
    /// a checkpoint.
    fn takes(&mut self, group: GroupId) -> Duration {
        let missing = self.plenty(group).saturating_sub(self.freeable(group));
        let slots = self.shape.slots();
        let victim = self.segments.victim(group, self.config.choice, self.clock);
        let live = victim.map_or(slots / 2, |victim| self.segments.get(victim).live);
        let gain = slots - live.min(slots - 1);
        let victims = 3 * u64::from(missing) * u64::from(slots) / (2 * u64::from(gain));
        self.paces.clean * u32::try_from(victims).unwrap_or(u32::MAX)
    }

    /// Whether users' writes wait although there is room.
    pub(super) fn users_wait(&mut self) -> bool {
        if self.shape.groups() > 1 {
            return false;
        }
        let group = GroupId(0);
        let busy = self.cleaners[0].victim.is_some();
        match self.config.cleaning {
            Cleaning::Blocking => {
                let lacks = self.spare(group) == 0 && self.lacks_segment(HOT);
                let begin = self.is_pressing(group) || lacks;
                let enough = self.freeable(group) >= self.plenty(group);
                self.blocking = (begin || self.blocking) && !enough && (busy || self.gains(group));
                self.blocking
            }
            Cleaning::Paced => {
                let behind = self.allowance > 2 * i64::from(self.shape.slots());
                behind && (busy || self.gains(group))
            }
        }
    }

    /// Whether cleaning a group is worth it.
    fn gains(&mut self, group: GroupId) -> bool {
        self.segments.victim(group, self.config.choice, self.clock).is_some()
    }

    /// Users have written so many blocks: what has to move so that cleaning keeps pace.
    pub(super) fn owe(&mut self, blocks: u32) {
        let group = GroupId(0);
        if self.shape.groups() > 1 || self.config.cleaning != Cleaning::Paced {
            return;
        }
        if self.freeable(group) >= self.plenty(group) {
            self.allowance = 0;
            return;
        }
        let slots = i64::from(self.shape.slots());
        let live = match &self.cleaners[0].victim {
            Some(victim) => Some(victim.found),
            None => {
                let next = self.segments.victim(group, self.config.choice, self.clock);
                next.map(|segment| self.segments.get(segment).live)
            }
        };
        let live = live.map_or(slots / 2, i64::from);
        // To win slots − live blocks, live ones move; one more makes up for rounding and padding.
        self.allowance += i64::from(blocks) * (live + 1) / (slots - live).max(1) + 1;
    }

    /// Blocks that a checkpoint of so many pages takes: these, its headers, and the rest of the batches
    /// that it closes.
    pub(super) fn checkpoint_cost(&self, pages: u32) -> u64 {
        let (groups, copies) = (self.shape.groups() as u64, self.shape.page_copies() as u64);
        let rest = u64::from(self.shape.unit() + self.shape.summary());
        u64::from(pages) * copies + groups + (1 + groups) * rest
    }

    /// Whether a checkpoint gives back more than so many times what it costs: the blocks of the segments
    /// that it frees, less those that cleaners have moved for it, against what it takes itself. If it is
    /// not even once that, it would be what the next one is written for.
    pub(super) fn is_won(&self, times: u64) -> bool {
        let freed = u64::from(self.segments.all_emptied()) * u64::from(self.shape.slots());
        let moved = self.counters.moved - self.checkpointer.moved();
        freed > moved + times * self.checkpoint_cost(self.map.dirty(self.area()))
    }

    /// Takes the next victim of a group, if it is to be cleaned.
    fn choose(&mut self, group: GroupId) -> bool {
        if !self.may_clean(group) {
            return false;
        }
        let best = self.segments.victim(group, self.config.choice, self.clock);
        // What could not be read once is tried again when there is nothing else.
        let again = || self.segments.stuck(group).filter(|_| self.stalled);
        let Some(segment) = best.or_else(again) else { return false };
        self.segments.take(segment);
        let found = self.segments.get(segment).live;
        self.counters.victims += 1;
        self.counters.victims_live += u64::from(found);
        self.cleaners[group.index()].victim = Some(Victim {
            segment,
            found,
            since: self.now,
            at: 0,
            loading: false,
            live: VecDeque::new(),
            reads: 0,
            stuck: false,
        });
        true
    }

    /// Moves on with a group's victim.
    fn move_on(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let held = self.group_reads[group.index()] > 0
            && !self.stalled
            && !self.blocking
            && !self.is_pressing(group);
        if !held {
            self.fill(group, out);
        }
        let Some(victim) = self.cleaners[group.index()].victim.as_ref() else { return };
        if victim.loading || victim.reads > 0 {
            return;
        }
        let segment = victim.segment;
        let over = self.segments.get(segment).live == 0 || self.is_winding_up();
        if !over && !victim.stuck && !victim.live.is_empty() {
            return;
        }
        if over || victim.stuck || victim.at == self.shape.segment_blocks() {
            self.let_go(group, out);
        } else if !held {
            self.load(group, out);
        }
    }

    /// Has done with a victim: it is empty, or can't be emptied.
    fn let_go(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let Some(victim) = self.cleaners[group.index()].victim.take() else { return };
        self.turns += 1;
        let empty = self.segments.get(victim.segment).live == 0;
        if empty {
            self.counters.cleaned += 1;
            self.paces.cleaned(self.now - victim.since);
        } else if !self.is_winding_up() {
            self.segments.get_mut(victim.segment).stuck = true;
            out.push(Action::Note(Note::Stuck(victim.segment)));
        }
        self.segments.close(victim.segment);
    }

    fn load(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let Some(victim) = self.cleaners[group.index()].victim.as_mut() else { return };
        victim.loading = true;
        let at = self.shape.start_of(victim.segment) + u64::from(victim.at);
        self.issue(Op::Load(group), group, IoOp::Load, (at, self.shape.summary()), out);
    }

    pub(super) fn summary_loaded(&mut self, group: GroupId, bytes: &[u8], out: &mut Vec<Action>) {
        let Some(victim) = self.cleaners[group.index()].victim.as_mut() else { return };
        victim.loading = false;
        let (segment, begin) = (victim.segment, victim.at);
        let decoded = Summary::decode(bytes, &self.shape).ok();
        let ours = |s: &Summary| (s.volume, s.segment, s.at) == (self.id, segment, begin);
        let Some((summary, entries)) = decoded.filter(|(summary, _)| ours(summary)) else {
            victim.stuck = true;
            return self.clean(out);
        };
        victim.at += summary.blocks;
        let data = entries.iter().filter_map(|entry| match entry {
            Entry::Data { lba, .. } => Some(*lba),
            Entry::Trim { .. } => None,
        });
        for (lba, at) in data.zip(begin + self.shape.summary()..) {
            if self.map.get(lba) == Some(self.shape.pba(segment, at)) {
                victim.live.push_back((at, lba));
            }
        }
    }

    pub(super) fn load_failed(&mut self, group: GroupId, _: &mut Vec<Action>) {
        if let Some(victim) = self.cleaners[group.index()].victim.as_mut() {
            (victim.loading, victim.stuck) = (false, true);
        }
    }

    /// Begins to move blocks while there is room for them.
    fn fill(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let stream = cold(group);
        while let Some(victim) = self.cleaners[group.index()].victim.as_ref() {
            let from = victim.segment;
            let stops = self.is_winding_up() || victim.stuck || victim.reads == READS;
            let Some(&(first, _)) = victim.live.front().filter(|_| !stops) else { return };
            let Some(room) = self.room(stream) else { return };
            if room == 0 {
                self.seal(stream, out);
                return;
            }
            let age = self.segments.get(from).age;
            let victim = self.cleaners[group.index()].victim.as_mut();
            let Some(victim) = victim else { return };
            let side_by_side = victim.live.iter().zip(first..).take(room.min(RUN) as usize);
            let blocks = side_by_side.take_while(|((at, _), expected)| at == expected).count();
            let lbas: Vec<Lba> = victim.live.drain(..blocks).map(|(_, lba)| lba).collect();
            victim.reads += 1;
            let blocks = blocks as u32;
            let (to, segment, at) = self.append(stream, lbas.into_iter(), age);
            let entry = self.filling(stream, blocks) as u32;
            let fill = Fill { group, from: (from, first), to: (segment, at), blocks, entry };
            let place = (self.shape.start_of(from) + u64::from(first), blocks);
            self.issue(Op::Fill(fill), group, IoOp::Read(to), place, out);
            self.allowance = (self.allowance - i64::from(blocks)).max(0);
        }
    }

    pub(super) fn filled(
        &mut self,
        fill: Fill,
        result: Result<(), IoError>,
        out: &mut Vec<Action>,
    ) {
        let Fill { group, from, to, blocks, entry } = fill;
        let stream = cold(group);
        for n in 0..blocks {
            let lba = self.streams[stream].lba_of((entry + n) as usize);
            let old = self.shape.pba(from.0, from.1 + n);
            let here = |lba: &Lba| result.is_ok() && self.map.get(*lba) == Some(old);
            if let Some(lba) = lba.filter(here) {
                self.remap(lba, Some(self.shape.pba(to.0, to.1 + n)));
                self.counters.moved += 1;
            }
        }
        self.filled_in(stream, blocks);
        if let Some(victim) = self.cleaners[group.index()].victim.as_mut() {
            victim.reads -= 1;
            victim.stuck |= result.is_err();
        }
        self.write_sealed(stream, out);
        self.close_full(stream, out);
    }
}
