//! Cleaning: what lives in a segment moves to the stream of its group's cleaner, so that the segment
//! becomes empty. What has lived for long comes together there, apart from what users write.
//!
//! With one group, cleaning either blocks users when it must begin, or keeps pace with them. With
//! several, all but the one at the front clean as long as there is something to gain; users' reads
//! of a group go before.
//!
//! Invariants:
//! - A block moves only if it is still where it was when its move began.
//! - A segment is read until all that lives in it has moved, and is not emptied before its reads
//!   have ended.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use raidcore::engine::IoError;
use raidcore::units::Lba;

use super::stream::{HOT, cold};
use super::{Action, Cleaning, IoOp, Note, Op, Volume};
use crate::codec::{Entry, Summary};
use crate::segments::SegmentState;
use crate::units::{GroupId, Segment};

/// The most blocks of a read.
const RUN: u32 = 64;

/// Free segments besides the reserve, so few that cleaning can't wait.
const PRESSING: u32 = 2;

/// Reads of a group's cleaner under way at most.
const READS: u32 = 8;

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
    fn freeable(&self, group: GroupId) -> u32 {
        self.segments.free(group) + self.segments.coming(group)
    }

    /// So many free segments that users never wait, if there is as much to gain.
    fn plenty(&self, group: GroupId) -> u32 {
        let slots = u64::from(self.shape.slots());
        let full = self.segments.live(group).div_ceil(slots) as u32;
        let most = self.shape.group_segments().saturating_sub(full + self.shape.reserve());
        match self.shape.groups() {
            1 => self.shape.reserve() + (most / 4).max(PRESSING + 1),
            _ => self.shape.reserve() + most - most / 8,
        }
    }

    /// So few free segments that cleaning can't wait.
    fn is_pressing(&self, group: GroupId) -> bool {
        self.freeable(group) <= self.shape.reserve() + PRESSING
    }

    /// Whether a cleaner may begin with another segment.
    fn may_clean(&self, group: GroupId) -> bool {
        if self.is_winding_up() || self.failed {
            return false;
        }
        if self.shape.groups() > 1 {
            let users = self.shape.group_of(self.streams[HOT].position.segment);
            let back = group != self.front() && group != users;
            return self.stalled || back && self.freeable(group) < self.plenty(group);
        }
        match self.config.cleaning {
            Cleaning::Blocking => {
                self.stalled || self.blocking && self.freeable(group) < self.plenty(group)
            }
            Cleaning::Paced => self.allowance > 0 || self.stalled || self.is_pressing(group),
        }
    }

    /// Whether users' writes wait although there is room.
    pub(super) fn users_wait(&mut self) -> bool {
        if self.shape.groups() > 1 {
            return false;
        }
        let group = GroupId(0);
        let busy = self.cleaners[0].victim.is_some();
        let gains = || self.segments.victim(group, self.config.choice, self.clock).is_some();
        match self.config.cleaning {
            Cleaning::Blocking => {
                let begin = self.is_pressing(group);
                let go_on = self.blocking && self.freeable(group) < self.plenty(group);
                self.blocking = (begin || go_on) && (busy || gains());
                self.blocking
            }
            Cleaning::Paced => {
                let behind = self.allowance > 2 * i64::from(self.shape.slots());
                behind && (busy || gains())
            }
        }
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
        let live = self.cleaners[0].victim.as_ref().map(|victim| victim.segment);
        let live = live.or_else(|| self.segments.victim(group, self.config.choice, self.clock));
        let live = live.map_or(slots / 2, |segment| self.segments.get(segment).live.into());
        // To win slots − live blocks, live ones move; one more makes up for rounding and padding.
        self.allowance += i64::from(blocks) * (live + 1) / (slots - live).max(1) + 1;
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
        self.segments.get_mut(segment).state = SegmentState::Cleaning;
        self.cleaners[group.index()].victim = Some(Victim {
            segment,
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
