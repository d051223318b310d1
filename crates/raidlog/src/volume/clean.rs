//! Cleaning: the live blocks of a segment move to the stream of its group's cleaner, so that the
//! segment becomes empty. Long-lived blocks come together there, apart from users' writes.
//!
//! With one group, cleaning either blocks users when it must begin, or keeps pace with them. With
//! several, the group that comes to the front next is cleaned as long as that gains enough. The
//! groups after it are cleaned only if they would otherwise not be ready in time: the later a
//! segment is cleaned, the fewer live blocks it has. Users' reads of a group have priority.
//!
//! Invariants:
//! - A block moves only if it is still where it was when its move began.
//! - A segment is read until all its live blocks have moved, and is not emptied before its reads
//!   have ended.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use det::Instant;
use raidcore::engine::IoError;
use raidcore::units::Lba;

use super::policy::{self, InLine, Room};
use super::stream::{HOT, cold};
use super::{Action, Cleaning, IoOp, LogVolume, Note, Purpose};
use crate::codec::{Entry, Summary};
use crate::units::{GroupId, Segment};

/// The most blocks of a read.
const RUN: u32 = 64;

/// The most reads of a group's cleaner under way: live blocks are scattered over a segment, and all
/// of a group's members are to be used.
pub(super) const READS: u32 = 16;

/// The state of a cleaner.
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
    /// Live blocks when it was chosen, and when that was.
    found: u32,
    since: Instant,
    /// Where its next summary is.
    at: u32,
    /// A summary is being read.
    loading: bool,
    /// Its live blocks by the summaries so far: their places and addresses.
    live: VecDeque<(u32, Lba)>,
    /// Reads under way.
    reads: u32,
    /// A block or summary of it can't be read.
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

impl LogVolume {
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

    /// A group's segments, for the rules in [`policy`](super::policy).
    pub(super) fn room_of(&self, group: GroupId) -> Room {
        Room {
            groups: self.shape.groups(),
            segments: self.shape.group_segments(),
            reserve: self.shape.reserve(),
            slots: self.shape.slots(),
            checkpoint: self.checkpoint_cost(self.shape.pages()),
            free: self.segments.free(group),
            coming: self.segments.coming(group),
            emptied: self.segments.emptied(group),
            live: self.segments.live(group),
        }
    }

    /// Whether a cleaner may begin with another segment.
    fn may_clean(&mut self, group: GroupId) -> bool {
        let room = self.room_of(group);
        // If cleaning went on, it could use up what a checkpoint is to give back to users.
        let is_given_back = self.stalled && room.is_short() && room.is_enough() && room.coming > 0;
        if self.is_winding_up() || self.failed || is_given_back {
            return false;
        }
        if self.shape.groups() > 1 {
            return self.is_in_line(group) || self.stalled && self.is_last_resort(group);
        }
        match self.config.cleaning {
            Cleaning::Blocking => self.stalled || self.blocking && !room.has_plenty(),
            Cleaning::Paced => self.allowance > 0 || self.stalled || room.is_pressing(),
        }
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

    /// Whether a group has to be cleaned as users wait: any at the back, or the front itself if
    /// nothing can be gained at the back.
    fn is_last_resort(&mut self, group: GroupId) -> bool {
        self.is_back(group)
            || !self.groups().any(|other| self.is_back(other) && self.will_free(other))
    }

    /// Whether a group is to be cleaned as it soon comes to the front: always for the next one, for
    /// later ones only if they would not be ready in time otherwise.
    fn is_in_line(&mut self, group: GroupId) -> bool {
        let room = self.room_of(group);
        if !self.is_back(group) || room.has_plenty() {
            return false;
        }
        let groups = self.shape.groups();
        let in_line = |group: GroupId| InLine {
            room: self.room_of(group),
            turn: (group.index() + groups - self.front().index()) % groups,
        };
        let back = self.groups().filter(|&other| self.is_back(other)).map(in_line);
        let left = policy::left_before(&in_line(group), &self.room_of(self.front()), back);
        let Some(left) = left else { return true };
        let victim = self.segments.victim(group, self.config.choice, self.clock);
        let live = victim.map(|victim| self.segments.get(victim).live);
        room.takes(live, self.paces.clean) > self.paces.fill * left
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
                let room = self.room_of(group);
                let begin = room.is_pressing() || room.spare() == 0 && self.lacks_segment(HOT);
                let goes_on = (begin || self.blocking) && !room.has_plenty();
                self.blocking = goes_on && (busy || self.gains(group));
                self.blocking
            }
            Cleaning::Paced => {
                let behind = self.allowance > 2 * i64::from(self.shape.slots());
                behind && (busy || self.gains(group))
            }
        }
    }

    /// Whether cleaning a group gains enough.
    fn gains(&mut self, group: GroupId) -> bool {
        self.segments.victim(group, self.config.choice, self.clock).is_some()
    }

    /// Users have written `blocks` blocks: notes how many blocks have to move to keep pace.
    pub(super) fn owe(&mut self, blocks: u32) {
        let group = GroupId(0);
        if self.shape.groups() > 1 || self.config.cleaning != Cleaning::Paced {
            return;
        }
        if self.room_of(group).has_plenty() {
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
        self.allowance += policy::owed(blocks, live, slots);
    }

    /// The size of a checkpoint of this many pages: the pages, its headers, and the rest of the
    /// batches that it closes.
    pub(super) fn checkpoint_cost(&self, pages: u32) -> u64 {
        let (groups, copies) = (self.shape.groups() as u64, self.shape.page_copies() as u64);
        let rest = u64::from(self.shape.unit() + self.shape.summary());
        u64::from(pages) * copies + groups + (1 + groups) * rest
    }

    /// Takes the next victim of a group, if it is to be cleaned.
    fn choose(&mut self, group: GroupId) -> bool {
        if !self.may_clean(group) {
            return false;
        }
        let best = self.segments.victim(group, self.config.choice, self.clock);
        // A segment that could not be read is tried again when there are no others.
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

    /// Continues with a group's victim.
    fn move_on(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let held = self.group_reads[group.index()] > 0
            && !self.stalled
            && !self.blocking
            && !self.room_of(group).is_pressing();
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

    /// Finishes a victim: it is empty, or can't be emptied.
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
        self.issue(Purpose::Load(group), group, IoOp::Load, (at, self.shape.summary()), out);
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
            self.issue(Purpose::Fill(fill), group, IoOp::Read(to), place, out);
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
