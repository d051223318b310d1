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
//! - A staged write is acknowledged when its entry is durable on as many holders as it has to be on, and what
//!   holders failed meanwhile is on record.
//! - Room in a ring is used anew only when a durable tail is beyond what was there: the paper's
//!   staging space needs no such rule, as its D_Table is in NVRAM.
//! - What is written at home over a staged block is flushed, and then an entry without payload says
//!   that home counts (a *marker*), before it is acknowledged: else a crash would bring the past back.
//! - A block is dirty or clean in at most one entry, the latest that has it.
//! - An entry that is being read from stays, so that nothing reads what took its place.
//! - A member becomes one after a rebuild only when the log was emptied and that is on record anew:
//!   it has none of what the others know.
//!
//! [`room`] says where an entry goes and when its room is free again, [`copying`] when it is there, [`reading`] what is read of it,
//! [`reclaim`] what comes home next, [`table`] in which entry a block is, [`memory`] what of it is in memory, too,
//! and [`holders`] what is lost with a device.

mod copying;
mod draining;
mod entry;
mod flushes;
mod holders;
mod memory;
mod rate;
mod reading;
mod reclaim;
mod room;
mod size;
mod table;
mod together;
mod trim;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use det::Instant;

use super::hold::Hold;
use super::ring::Ring;
use crate::geometry::Geometry;
use crate::meta::{ArrayRecord, Features, Replay};
use crate::redirects::Redirects;
use crate::units::{Lba, MemberId, Pba, Set, Stripe};

pub(super) use copying::EXTRA_MAX;
use draining::Draining;
use entry::{Entry, Kind};
pub(super) use entry::{Logged, Run};
use memory::Memory;
pub(super) use memory::{Kept, Slot};
use rate::HomeRate;
pub(super) use reclaim::Haste;
pub(super) use size::Size;
pub(super) use together::Together;
use trim::Trim;

const BUCKETS: usize = 4096;

/// The number of an entry, and at which block of a ring it begins.
type Placed = (u64, u64);

/// The entry that tells the tail and is being written.
#[derive(Clone, Copy, Debug)]
struct Telling {
    number: u64,
    /// How many of its holders have not stored it yet.
    outstanding: usize,
}

/// The log, and what is known of it.
pub(super) struct Staging {
    start: Pba,
    /// Blocks of a member's ring; none if there is no log.
    len: u64,
    /// How many members an entry is on, or staging devices.
    copies: usize,
    /// Those of the members, and then those of the staging devices.
    rings: Vec<Ring<Placed>>,
    /// Whose ring has the greatest part in use.
    fullest: MemberId,
    /// How many of the rings are members'.
    members: usize,
    /// Entries may share a header.
    shares: bool,
    /// What waits for that.
    pub(in crate::engine) together: Together,
    /// Entries before this one may be on fewer.
    thin_until: u64,
    /// In the order of their numbers, without a gap.
    entries: VecDeque<Entry>,
    next: u64,
    /// What entries have told, or are about to tell, of the tail.
    announced: u64,
    table: Redirects,
    /// What of it is in memory.
    memory: Memory,
    /// How many blocks are staged in the stripes of a bucket.
    stripes: Vec<u32>,
    dirty: u64,
    /// When a write was staged last.
    staged_at: Instant,
    /// Blocks of payload in all entries.
    payload: usize,
    homes: u64,
    durable_homes: u64,
    flushing: bool,
    telling: Option<Telling>,
    /// How many copies are under way, or were in the same entries, beyond those that are needed.
    extra: usize,
    /// A job waits for room.
    starved: bool,
    /// Markers that will be needed: there is room for them.
    promised: u64,
    /// All entries before this one are at home.
    first_dirty: u64,
    /// All entries before this one are on their holders.
    first_open: u64,
    /// Nothing can be reclaimed because of busy members, as far as was looked.
    blocked: bool,
    /// In which order it comes home; the oldest entry first if there is none.
    hold: Option<Box<dyn Hold>>,
    /// Stripes that are not brought home while any of these members is busy, by stripe.
    put_off: Vec<(Stripe, Set<MemberId>)>,
    /// All entries before this one come home whatever room there is, and whichever members are busy.
    hurry_until: u64,
    /// Stripes that are being reclaimed.
    reclaiming: Vec<Stripe>,
    /// How fast that goes.
    pub(in crate::engine) rate: HomeRate,
    /// Those of which a part could not be brought home.
    stuck: Vec<Stripe>,
    /// Blocks that none of those that hold them could read, each with its entry's number; some were
    /// written since.
    unreadable: BTreeSet<(Lba, u64)>,
    /// The flush after which what was recovered is at home for good.
    voiding: Option<u64>,
    /// Whether it is being emptied; nothing is staged meanwhile.
    draining: Draining,
    /// Lists for the runs of entries to come.
    spare: Vec<Vec<Run>>,
    /// The member that is asked first to be the next holder.
    turn: usize,
    /// What of the rings goes back to the SSDs.
    trim: Trim,
}

impl Staging {
    /// The log of an array; `recovered` is what was found in it. So many blocks of what is staged are kept in
    /// memory, in buffers from `first` on.
    pub(super) fn new(
        record: &ArrayRecord,
        recovered: &[Replay],
        (blocks_kept, first): (u32, u16),
    ) -> Self {
        let (start, _) = record.areas.staging();
        let geo = &record.geometry;
        let blocks = |place| record.staging_of(place).1 - record.copies_of(place).1;
        let runs = recovered.iter().flat_map(|entry| &entry.runs);
        let found = runs.map(|run| run.to.blocks as usize).sum();
        let copies = record.greatest_redundancy() + 1;
        let rings = record.places().map(blocks);
        let mut staging = Self::empty((geo.members(), copies), start, rings, found);
        staging.shares = record.features.incompatible & Features::SHARED_HEADERS != 0;
        let most = u32::try_from(staging.table.capacity()).unwrap_or(u32::MAX);
        staging.memory = Memory::new(blocks_kept.min(most), record.layout().chunk(), first);
        for replay in recovered {
            staging.recover(record.layout().of(replay.stripe), replay);
        }
        staging
    }

    /// One with rings of so many blocks, of the members and then of the staging devices, and with
    /// memory for at least `found` blocks. Entries are on `copies` of them.
    fn empty(
        (members, copies): (usize, usize),
        start: Pba,
        rings: impl Iterator<Item = u64>,
        found: usize,
    ) -> Self {
        let rings: Vec<_> = rings.map(Ring::new).collect();
        let len = rings[0].len();
        let all: u64 = rings.iter().map(|ring| ring.len()).sum();
        let trim = Trim::new(&rings);
        let capacity = (all as usize / copies).max(found);
        let mut staging = Self {
            start,
            len,
            copies,
            rings,
            fullest: MemberId(0),
            members,
            shares: false,
            together: Together::default(),
            thin_until: 0,
            entries: VecDeque::new(),
            next: 1,
            announced: 1,
            table: Redirects::new(capacity),
            memory: Memory::new(0, 1, 0),
            stripes: vec![0; if len > 0 { BUCKETS } else { 0 }],
            dirty: 0,
            staged_at: Instant::ORIGIN,
            payload: 0,
            homes: 0,
            durable_homes: 0,
            flushing: false,
            telling: None,
            extra: 0,
            starved: false,
            promised: 0,
            first_dirty: 1,
            first_open: 1,
            blocked: false,
            hold: None,
            put_off: Vec::new(),
            hurry_until: 0,
            rate: HomeRate::default(),
            reclaiming: Vec::new(),
            stuck: Vec::new(),
            unreadable: BTreeSet::new(),
            voiding: None,
            draining: Draining::No,
            spare: Vec::new(),
            turn: 0,
            trim,
        };
        staging.look_at_rings();
        staging
    }

    /// Takes over an entry that was found. Its number is a new one: it never gets room in a ring.
    fn recover(&mut self, geo: &Geometry, replay: &Replay) {
        let number = self.next;
        self.next += 1;
        let mut entry = Entry::new(number, Kind::Data, replay.stripe, Set::EMPTY, Vec::new());
        entry.done = true;
        for &(member, at) in replay.copies.iter().take(entry.payload.len()) {
            entry.add_copy(member, at);
            entry.holders = entry.holders.with(member);
        }
        self.entries.push_back(entry);
        for run in &replay.runs {
            let role = geo.role(replay.stripe, run.to.member);
            let Some(role) = role.filter(|role| role.index() < geo.data()) else { continue };
            let lbas = geo.lbas(replay.stripe, role, run.to.row, run.to.blocks);
            for (lba, at) in lbas.zip(run.from..) {
                self.stage((replay.stripe, role), lba, (number, at), None);
            }
        }
    }

    /// Whether there is a log.
    pub(super) fn exists(&self) -> bool {
        self.len > 0
    }

    /// Whether writes may be staged: there is a log, and it is not being emptied.
    pub(super) fn is_open(&self) -> bool {
        self.exists() && self.draining == Draining::No
    }

    /// Whether entries may share a header.
    pub(super) fn shares(&self) -> bool {
        self.shares
    }

    /// Whether there are places for staging devices.
    fn has_devices(&self) -> bool {
        self.rings.len() > self.members
    }

    /// Whether it has entries: there is something that a start would find.
    pub(super) fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Whether nothing is staged, nor anything to be done about that.
    pub(super) fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.draining == Draining::No
    }

    /// Whether anything is staged in a stripe, or in one that shares its bucket.
    #[inline]
    pub(super) fn concerns(&self, stripe: Stripe) -> bool {
        self.len > 0 && self.stripes[stripe.bucket(BUCKETS)] > 0
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
        let ring = &self.rings[self.fullest.index()];
        (ring.used(), ring.len())
    }

    /// Memory of the table, in bytes.
    pub(super) fn table_bytes(&self) -> usize {
        self.table.bytes()
    }

    /// The log is void as a whole: it begins anew.
    pub(super) fn reset(&mut self) {
        self.entries.clear();
        self.unreadable.clear();
        self.rings.iter_mut().for_each(Ring::clear);
        self.look_at_rings();
        self.thin_until = 0;
        self.table.clear();
        self.stripes.fill(0);
        (self.next, self.announced, self.first_dirty, self.first_open) = (1, 1, 1, 1);
        self.payload = 0;
        self.hurry_until = 0;
        assert!(self.dirty == 0 && self.telling.is_none(), "nothing is lost with it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Layout, Level, Role};
    use crate::plan::Piece;
    use crate::units::{Mem, MemberId};

    /// A log of its own, of four members that can spare one, and of staging devices.
    pub(super) struct Log {
        pub(super) layout: Layout,
        pub(super) staging: Staging,
    }

    /// Blocks of each ring.
    pub(super) const RING: u64 = 64;

    impl Log {
        pub(super) fn new(devices: usize) -> Self {
            let geo = Geometry::new(Level::Raid5, 4, 8, 64).expect("it is possible");
            let rings = core::iter::repeat_n(RING, 4 + devices);
            let staging = Staging::empty((4, 2), Pba(100), rings, 0);
            Self { layout: Layout::new(geo, Pba(1000)), staging }
        }

        /// All that may hold entries.
        pub(super) fn able(&self) -> Set<MemberId> {
            Set::first(self.staging.rings.len())
        }

        /// How large the entry of a write of so many blocks is.
        pub(super) fn size(blocks: u32) -> Size {
            let mem = Mem::Zero;
            Size::of(&[Piece { role: Role(0), row: 0, blocks, mem }])
        }

        /// Begins to stage the first blocks of a stripe, where any may hold them but those that are busy.
        pub(super) fn begin(&mut self, stripe: u64, blocks: u32, busy: Set<MemberId>) -> u64 {
            let calm = self.able().minus(busy);
            let holders = self.staging.holders_for(Self::size(blocks), calm, |_| 0);
            let run = Run { role: Role(0), row: 0, blocks, mem: Mem::Zero };
            let holders = holders.expect("there is room");
            self.staging.begin_data(Instant(7), 1, holders, |_, runs| {
                runs.push(run);
                Stripe(stripe)
            })
        }

        /// Stages them.
        pub(super) fn stage(&mut self, stripe: u64, blocks: u32) -> u64 {
            let number = self.begin(stripe, blocks, Set::EMPTY);
            assert_eq!(self.staging.stored(number, &[], &self.layout).0, blocks);
            number
        }

        /// A block of a stripe.
        pub(super) fn lba(&self, stripe: u64, row: u32) -> Lba {
            self.layout.of(Stripe(stripe)).lba(Stripe(stripe), Role(0), row)
        }

        /// Brings the first blocks of a stripe home.
        pub(super) fn bring_home(&mut self, stripe: u64, blocks: u32) {
            let lbas = self.layout.of(Stripe(stripe)).lbas(Stripe(stripe), Role(0), 0, blocks);
            self.staging.begin_reclaim(Stripe(stripe));
            let of = (Stripe(stripe), self.staging.next());
            assert_eq!(self.staging.reclaimed(of, lbas), u64::from(blocks));
        }

        /// A stripe that is being brought home can't be.
        pub(super) fn fails(&mut self, stripe: u64) {
            let next = self.staging.next();
            self.staging.reclaim_failed(Stripe(stripe), next);
        }

        /// Makes what has come home durable there.
        pub(super) fn flush(&mut self) {
            assert!(self.staging.begins_flush());
            let mark = self.staging.mark();
            self.staging.flushed(mark, true);
        }

        /// Tells the tail, if it is to be told.
        pub(super) fn tell(&mut self) -> bool {
            if !self.staging.has_tail_to_tell() {
                return false;
            }
            let begun = self.staging.begin_tail([self.able(), Set::EMPTY, Set::EMPTY], false);
            let number = begun.expect("there are enough");
            let others = self.staging.places(number).0.count() - 1;
            assert!((0..others).all(|_| self.staging.tail_stored().is_none()));
            assert_eq!(self.staging.tail_stored(), Some(number));
            self.staging.advance(number, None, &self.layout);
            self.staging.check(0);
            true
        }
    }

    #[test]
    fn the_latest_entry_of_a_block_counts_and_a_marker_ends_it() {
        let mut log = Log::new(0);
        log.stage(3, 4);
        let later = log.stage(3, 2);
        assert_eq!((log.staging.dirty(), log.staging.staged()), (4, 4));
        assert_eq!(log.staging.find_dirty(log.lba(3, 1)), Some((later, 1)));
        assert_eq!(log.staging.find_dirty(log.lba(3, 2)), Some((later - 1, 2)));
        let run = Run { role: Role(0), row: 1, blocks: 3, mem: Mem::Zero };
        let holders = log.staging.holders_for_note([log.able(), Set::EMPTY, Set::EMPTY], false);
        let marker = log.staging.begin_marker(holders, |runs| {
            runs.push(run);
            Stripe(3)
        });
        assert_eq!(log.staging.dirty(), 4, "it says nothing before it is durable");
        assert_eq!(log.staging.stored(marker, &[], &log.layout), (0, 0), "it stages nothing");
        assert_eq!((log.staging.dirty(), log.staging.concerns(Stripe(3))), (1, true));
        assert!(log.staging.is_dirty(log.lba(3, 0)) && !log.staging.is_staged(log.lba(3, 1)));
        log.staging.check(0);
    }
}
