//! The staging log: writes that would meet busy members are put there instead, on others, and
//! brought home later (GC-Steering, Wu et al., sections III-B to III-E; *reserved* staging space).
//!
//! It lies over the stripes: what is staged is not at home yet, and home is as it was, parity
//! included. So rebuild, resync and scrub know nothing of it, and staging a write changes no stripe.
//! The paper updates parity at once, as a staged block then has one copy; here an entry of the log is
//! on as many members as may be missing and one more, and parity has to be changed once, when the
//! block comes home, however often it was overwritten before.
//!
//! An entry is what one job has written to one stripe, in the journal's form: header, then payload.
//! Entries are numbered; of a block's copies the latest counts. What is *dirty* is not at home; what
//! is *clean* is there too, but its entry would be found after a crash. An entry is *dead* when
//! nothing of it is dirty and what came home is durable there. All before the first that is not dead
//! are void as soon as an entry on as many members says so: that number is the *tail*.
//!
//! Invariants:
//! - A staged write is acknowledged when its entry is durable on all its holders, and what holders
//!   failed meanwhile is on record.
//! - Room in a ring is used anew only when a durable tail is beyond what was there: the paper's
//!   staging space needs no such rule, as its D_Table is in NVRAM.
//! - What is written at home over a staged block is flushed, and then an entry without payload says
//!   that home counts (a *marker*), before it is acknowledged: else a crash would bring the past back.
//! - A block is dirty or clean in at most one entry, the latest that has it.
//! - An entry that is being read from stays, so that nothing reads what took its place.
//! - A member becomes one after a rebuild only when the log was emptied and that is on record anew:
//!   it has none of what the others know.

pub(super) mod copies;
pub(super) mod entry;
pub(super) mod fetch;
pub(super) mod holders;
pub(super) mod reclaim;
pub(super) mod store;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use det::Instant;

pub(in crate::engine) use super::ring::Ring;
use crate::geometry::Layout;
use crate::meta::{ArrayRecord, Replay};
use crate::redirects::{Redirects, Staged};
use crate::units::{Lba, Pba, Set, Stripe};

pub(super) use copies::Copies;
pub(in crate::engine) use entry::{Entry, Kind, Run};
pub(super) use fetch::Fetching;
pub(super) use store::Logged;

const BUCKETS: usize = 4096;

/// The number of an entry, and at which block of a ring it begins.
pub(super) type Placed = (u64, u64);

/// The log, and what is known of it.
#[derive(Debug)]
pub(super) struct Staging {
    pub(in crate::engine) start: Pba,
    /// Blocks of a member's ring; none if there is no log.
    pub(in crate::engine) len: u64,
    /// How many members an entry is on, or staging devices.
    pub(in crate::engine) copies: usize,
    /// Those of the members, and then those of the staging devices.
    pub(in crate::engine) rings: Vec<Ring<Placed>>,
    /// How many of them are members'.
    pub(in crate::engine) members: usize,
    /// Entries before this one may be on fewer.
    pub(in crate::engine) thin_until: u64,
    /// In the order of their numbers, without a gap.
    pub(in crate::engine) entries: VecDeque<Entry>,
    pub(in crate::engine) next: u64,
    /// What entries have told, or are about to tell, of the tail.
    pub(in crate::engine) announced: u64,
    pub(in crate::engine) table: Redirects,
    /// How many blocks are staged in the stripes of a bucket.
    stripes: Vec<u32>,
    pub(in crate::engine) dirty: u64,
    /// When a write was staged last.
    pub(in crate::engine) staged_at: Instant,
    /// Blocks of payload in all entries.
    pub(in crate::engine) payload: usize,
    pub(in crate::engine) homes: u64,
    pub(in crate::engine) durable_homes: u64,
    pub(in crate::engine) flushing: bool,
    /// The entry that tells the tail and is being written.
    pub(in crate::engine) telling: Option<u64>,
    /// A job waits for room.
    pub(in crate::engine) starved: bool,
    /// Markers that will be needed: there is room for them.
    pub(in crate::engine) promised: u64,
    /// All entries before this one are at home.
    first_dirty: u64,
    /// Nothing can be reclaimed because of busy members, as far as was looked.
    pub(super) blocked: bool,
    /// Stripes that are being reclaimed.
    pub(in crate::engine) reclaiming: Vec<Stripe>,
    /// Those of which a part could not be brought home.
    pub(in crate::engine) stuck: Vec<Stripe>,
    /// Blocks that none of those that hold them could read, each with its entry's number; some were
    /// written since.
    pub(in crate::engine) unreadable: BTreeSet<(Lba, u64)>,
    /// The flush after which what was recovered is at home for good.
    pub(in crate::engine) voiding: Option<u64>,
    /// It is to be emptied; nothing is staged meanwhile.
    pub(super) draining: bool,
    /// Since it is, its being empty was told anew.
    pub(in crate::engine) drained: bool,
    /// Lists for the runs of entries to come.
    pub(in crate::engine) spare: Vec<Vec<Run>>,
    /// The member that is asked first to be the next holder.
    pub(in crate::engine) turn: usize,
}

impl Staging {
    /// The log of an array; `recovered` is what was found in it.
    pub(super) fn new(record: &ArrayRecord, recovered: &[Replay]) -> Self {
        let (start, _) = record.areas.staging();
        let geo = &record.geometry;
        let ring = |place| Ring::new(record.staging_of(place).1 - record.copies_of(place).1);
        let rings: Vec<_> = record.places().map(ring).collect();
        let len = rings[0].len();
        let all: u64 = rings.iter().map(|ring| ring.len()).sum();
        let copies = geo.redundancy() + 1;
        let runs = recovered.iter().flat_map(|entry| &entry.runs);
        let found: usize = runs.map(|run| run.to.blocks as usize).sum();
        let capacity = (all as usize / copies).max(found);
        let mut staging = Self {
            start,
            len,
            copies,
            rings,
            members: geo.members(),
            thin_until: 0,
            entries: VecDeque::new(),
            next: 1,
            announced: 1,
            table: Redirects::new(capacity),
            stripes: vec![0; if len > 0 { BUCKETS } else { 0 }],
            dirty: 0,
            staged_at: Instant::ORIGIN,
            payload: 0,
            homes: 0,
            durable_homes: 0,
            flushing: false,
            telling: None,
            starved: false,
            promised: 0,
            first_dirty: 1,
            blocked: false,
            reclaiming: Vec::new(),
            stuck: Vec::new(),
            unreadable: BTreeSet::new(),
            voiding: None,
            draining: false,
            drained: false,
            spare: Vec::new(),
            turn: 0,
        };
        for replay in recovered {
            staging.recover(record, replay);
        }
        staging
    }

    /// Takes over an entry that was found. Its number is a new one: it never gets room in a ring.
    fn recover(&mut self, record: &ArrayRecord, replay: &Replay) {
        let layout = record.layout();
        let geo = layout.of(replay.stripe);
        let number = self.next;
        self.next += 1;
        let mut entry = Entry::new(number, Kind::Data, replay.stripe, Set::EMPTY, Vec::new());
        entry.done = true;
        for (to, &(member, at)) in entry.payload.iter_mut().zip(&replay.copies) {
            *to = (member, at);
            entry.holders = entry.holders.with(member);
        }
        self.entries.push_back(entry);
        for run in &replay.runs {
            let role = geo.role(replay.stripe, run.to.member);
            let Some(role) = role.filter(|role| role.index() < geo.data()) else { continue };
            let lbas = geo.lbas(replay.stripe, role, run.to.row, run.to.blocks);
            for (lba, at) in lbas.zip(run.from..) {
                self.stage(replay.stripe, lba, number, at);
            }
        }
    }

    /// Whether there is a log.
    pub(super) fn exists(&self) -> bool {
        self.len > 0
    }

    /// Whether anything is staged in a stripe, or in one that shares its bucket.
    pub(in crate::engine) fn concerns(&self, stripe: Stripe) -> bool {
        self.len > 0 && self.stripes[bucket(stripe)] > 0
    }

    /// Whether a block is staged, and not at home.
    pub(super) fn is_dirty(&self, lba: Lba) -> bool {
        self.table.get(lba).is_some_and(|staged| !staged.clean)
    }

    /// Whether a block is staged.
    pub(super) fn is_staged(&self, lba: Lba) -> bool {
        self.table.get(lba).is_some()
    }

    /// Blocks that are not at home.
    pub(super) fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Blocks that are staged, whether home has them too or not.
    pub(super) fn staged(&self) -> u64 {
        self.table.len() as u64
    }

    /// Blocks of the fullest ring that are in use, and how many it has.
    pub(super) fn used(&self) -> (u64, u64) {
        let used = self.rings.iter().map(|ring| (ring.used(), ring.len()));
        used.max_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1))).unwrap_or((0, 0))
    }

    /// Memory of the table, in bytes.
    pub(super) fn table_bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Nothing is staged, and no entry would be found after a crash.
    pub(super) fn is_drained(&self) -> bool {
        self.dirty == 0 && self.table.is_empty() && self.drained
    }

    /// Whether something can't be brought home.
    pub(super) fn is_stuck(&self) -> bool {
        !self.stuck.is_empty()
    }

    /// It is to be emptied before a new member may count on it, or users may again.
    pub(super) fn drain(&mut self) {
        if !self.draining {
            self.draining = true;
            self.drained = false;
        }
    }

    /// What was stuck may not be any more.
    pub(super) fn try_again(&mut self) {
        self.stuck.clear();
    }

    /// The same, in a stripe.
    pub(in crate::engine) fn try_stripe_again(&mut self, stripe: Stripe) {
        self.stuck.retain(|&other| other != stripe);
    }

    /// Blocks that are staged and not at home, and can't be read from any of those that held them:
    /// where each range of them begins, and how many.
    pub(super) fn lost(&self, geo: &Layout) -> Vec<(Lba, u64)> {
        let mut lbas = Vec::new();
        let nobody = |entry: &&Entry| entry.done && entry.dirty > 0 && entry.holders.is_empty();
        for entry in self.entries.iter().filter(nobody) {
            let latest = |staged: Staged| staged.entry == entry.number as u32 && !staged.clean;
            let is_latest = |&lba: &Lba| self.table.get(lba).is_some_and(latest);
            let blocks =
                |run: &Run| geo.of(entry.stripe).lbas(entry.stripe, run.role, run.row, run.blocks);
            lbas.extend(entry.runs.iter().flat_map(blocks).filter(is_latest));
        }
        let unreadable = |&&(lba, number): &&(Lba, u64)| {
            let staged = self.table.get(lba);
            staged.is_some_and(|staged| !staged.clean && staged.entry == number as u32)
        };
        lbas.extend(self.unreadable.iter().filter(unreadable).map(|&(lba, _)| lba));
        lbas.sort_unstable();
        lbas.dedup();
        let ranges = lbas.chunk_by(|a, b| a.0 + 1 == b.0);
        ranges.map(|range| (range[0], range.len() as u64)).collect()
    }

    /// The log is void as a whole: it begins anew.
    pub(super) fn reset(&mut self) {
        self.entries.clear();
        self.unreadable.clear();
        self.rings.iter_mut().for_each(Ring::clear);
        self.thin_until = 0;
        self.table.clear();
        self.stripes.fill(0);
        (self.next, self.announced, self.first_dirty, self.payload) = (1, 1, 1, 0);
        assert!(self.dirty == 0 && self.telling.is_none(), "nothing is lost with it");
    }

    /// Whether nothing is staged, nor anything to be done about that.
    pub(super) fn is_unused(&self) -> bool {
        self.entries.is_empty() && !self.draining
    }

    /// How many homecomings a flush that begins now makes durable.
    pub(super) fn mark(&self) -> u64 {
        self.homes
    }

    /// A flush has ended that began at a mark.
    pub(super) fn flushed(&mut self, mark: u64, good: bool) {
        self.flushing = false;
        if good {
            self.durable_homes = self.durable_homes.max(mark);
        }
    }

    /// The number of the first entry that there is, or of the next to be made.
    fn front(&self) -> u64 {
        self.entries.front().map_or(self.next, |entry| entry.number)
    }

    pub(in crate::engine) fn index(&self, number: u32) -> usize {
        number.wrapping_sub(self.front() as u32) as usize
    }

    pub(in crate::engine) fn entry(&self, number: u64) -> &Entry {
        &self.entries[self.index(number as u32)]
    }

    pub(in crate::engine) fn entry_mut(&mut self, number: u64) -> &mut Entry {
        let index = self.index(number as u32);
        &mut self.entries[index]
    }

    /// A block is staged in an entry, and no longer where it was before.
    pub(in crate::engine) fn stage(&mut self, stripe: Stripe, lba: Lba, number: u64, at: u32) {
        let to = Staged { entry: number as u32, at, clean: false };
        match self.table.set(lba, to) {
            Some(before) => self.left(before),
            None => self.stripes[bucket(stripe)] += 1,
        }
        self.dirty += 1;
        self.entry_mut(number).dirty += 1;
    }

    /// A block is no longer staged.
    pub(in crate::engine) fn unstage(&mut self, stripe: Stripe, lba: Lba) {
        if let Some(before) = self.table.remove(lba) {
            self.left(before);
            self.stripes[bucket(stripe)] -= 1;
        }
    }

    /// A block is at home as it is staged.
    pub(in crate::engine) fn clean(&mut self, lba: Lba) {
        if let Some(staged) = self.table.get(lba) {
            self.left(staged);
            self.table.set(lba, Staged { clean: true, ..staged });
            let (index, home) = (self.index(staged.entry), self.homes);
            self.entries[index].home = home;
        }
    }

    /// A block of an entry is dirty no more, if it was.
    fn left(&mut self, staged: Staged) {
        if !staged.clean {
            let index = self.index(staged.entry);
            self.entries[index].dirty -= 1;
            self.dirty -= 1;
        }
    }

    fn is_dead(&self, entry: &Entry) -> bool {
        let at_home = entry.dirty == 0 && entry.home <= self.durable_homes;
        entry.done && at_home && entry.pins == 0
    }

    /// Passes by what is at home, which stays so.
    pub(in crate::engine) fn skip_clean(&mut self) {
        let clean = self.undone().take_while(|entry| entry.done && entry.dirty == 0).count();
        self.first_dirty = self.first_dirty.max(self.front()) + clean as u64;
    }

    /// The entries from the first on that may not be at home.
    pub(in crate::engine) fn undone(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().skip(self.first_dirty.saturating_sub(self.front()) as usize)
    }

    /// The first entry that is not dead, or the next to be made.
    pub(in crate::engine) fn tail_now(&self) -> u64 {
        // What was told to be void is not read any more, so it stays dead.
        let known = self.announced.saturating_sub(self.front()) as usize;
        let first = self.entries.iter().skip(known).find(|entry| !self.is_dead(entry));
        first.map_or(self.next, |entry| entry.number)
    }

    /// Whether nothing is under way that makes room, and the oldest entry can't be brought home.
    pub(in crate::engine) fn gets_no_room(&self) -> bool {
        let is_quiet = self.reclaiming.is_empty() && !self.flushing && self.telling.is_none();
        let oldest = self.entries.iter().find(|entry| !self.is_dead(entry));
        is_quiet
            && oldest.is_some_and(|entry| entry.dirty > 0 && self.stuck.contains(&entry.stripe))
    }

    /// An entry is durable that tells the tail: what is before it is void.
    pub(in crate::engine) fn advance(&mut self, tail: u64, geo: &Layout) {
        self.unreadable.retain(|&(_, number)| number >= tail);
        while self.entries.front().is_some_and(|entry| entry.number < tail) {
            let Some(front) = self.entries.front_mut() else { return };
            let (number, stripe) = (front.number as u32, front.stripe);
            let mut runs = core::mem::take(&mut front.runs);
            self.payload -= front.blocks as usize;
            for run in &runs {
                for lba in geo.of(stripe).lbas(stripe, run.role, run.row, run.blocks) {
                    if self.table.get(lba).is_some_and(|staged| staged.entry == number) {
                        self.unstage(stripe, lba);
                    }
                }
            }
            runs.clear();
            self.spare.push(runs);
            self.entries.pop_front();
        }
        for ring in &mut self.rings {
            while ring.pop_if(|&(number, _)| number < tail).is_some() {}
        }
    }

    /// Verifies the invariants.
    pub(super) fn check(&self) {
        let dirty: u64 = self.entries.iter().map(|entry| u64::from(entry.dirty)).sum();
        assert_eq!(dirty, self.dirty, "dirty blocks are counted");
        let staged: u64 = self.stripes.iter().map(|&count| u64::from(count)).sum();
        assert_eq!(staged, self.table.len() as u64, "staged blocks are counted");
        let numbers = self.entries.iter().map(|entry| entry.number);
        assert!(numbers.eq(self.front()..self.next), "no number is missing");
    }
}

fn bucket(stripe: Stripe) -> usize {
    (stripe.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}
