//! What is held: blocks with the numbers of the writes that made them, in groups by stripes.
//!
//! Invariants:
//! - A block's oldest write is that from which on nothing of it is at home: a later write to the block does not
//!   change it, only a trip that ends does.
//! - Blocks that are on their way home stay until the trip has ended.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;

use det::Instant;
use raidcore::engine::{Hold, Ready};
use raidcore::geometry::Role;
use raidcore::units::{Lba, Mem, Stripe};

use super::memory::{Memory, Slot, runs};
use super::past::Past;

/// The number of a write, and when it was acknowledged.
pub(super) type Written = (u64, Instant);

/// A block that is held.
#[derive(Clone, Copy, Debug)]
struct Block {
    slot: Slot,
    /// The last write.
    newest: u64,
    /// The first write since it was at home.
    oldest: Written,
    leaving: Option<Leaving>,
}

/// A block that is on its way home.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    /// The write whose content the trip has.
    newest: u64,
    /// The first write after that.
    after: Option<Written>,
}

/// What becomes of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It can come home.
    Ready,
    /// Some of it is on its way home.
    Leaves,
    /// The last trip has failed, and it is not tried again yet.
    Rests,
}

/// What is held of a stripe.
#[derive(Clone, Copy, Debug)]
struct Group {
    blocks: u32,
    /// The least of its blocks.
    oldest: Written,
    state: State,
    /// The last trip has failed.
    failed: bool,
}

/// How many groups are looked at for one that can come home: others may be what is being discarded, and are
/// looked at again when that has ended.
const LOOKS: usize = 256;

/// See the [module](self).
pub(super) struct Held {
    memory: Memory,
    blocks: BTreeMap<u64, Block>,
    groups: BTreeMap<Stripe, Group>,
    /// The groups of each [`State`].
    by_age: [BTreeSet<(u64, Stripe)>; 3],
    /// Groups of which the last trip has failed.
    failed: usize,
    order: Option<Box<dyn Hold>>,
    /// Blocks of a stripe, and of a chunk.
    shape: (u32, u32),
}

impl Held {
    /// Nothing yet. A stripe has so many blocks, and a chunk.
    pub(super) fn new(memory: Memory, shape: (u32, u32), order: Option<Box<dyn Hold>>) -> Self {
        Self {
            memory,
            blocks: BTreeMap::new(),
            groups: BTreeMap::new(),
            by_age: Default::default(),
            failed: 0,
            order,
            shape,
        }
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// How many blocks are held.
    pub(super) fn len(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// How many blocks are in groups of which the last trip has failed.
    pub(super) fn stuck(&self) -> u32 {
        self.groups.values().filter(|group| group.failed).map(|group| group.blocks).sum()
    }

    /// Whether there are such groups.
    pub(super) fn is_stuck(&self) -> bool {
        self.failed > 0
    }

    /// The oldest write of which something is not at home.
    pub(super) fn oldest(&self) -> Option<Written> {
        let (_, stripe) = self.by_age.iter().filter_map(BTreeSet::first).min()?;
        Some(self.groups[stripe].oldest)
    }

    /// Whether a block of these is held.
    pub(super) fn holds_some(&self, range: Range<u64>) -> bool {
        !self.blocks.is_empty() && self.blocks.range(range).next().is_some()
    }

    /// Whether a block of these is on its way home.
    pub(super) fn some_leave(&self, range: Range<u64>) -> bool {
        self.by_age[State::Leaves as usize].iter().any(|&(_, stripe)| {
            let group = self.range_of(stripe);
            let both = group.start.max(range.start)..group.end.min(range.end);
            !both.is_empty() && self.blocks.range(both).any(|(_, block)| block.leaving.is_some())
        })
    }

    /// Whether there is room for what these blocks need.
    pub(super) fn has_room(&self, range: Range<u64>) -> bool {
        let need = (range.end - range.start) as u32;
        let free = self.memory.free();
        free >= need || free >= need - self.blocks.range(range).count() as u32
    }

    /// Holds what is written; `copy` is told how many blocks of it were before a part, where the part goes,
    /// and how long it is. Returns how many of the blocks were held already.
    ///
    /// # Panics
    /// If there is no room.
    pub(super) fn write(
        &mut self,
        written: Written,
        lba: Lba,
        blocks: u32,
        copy: impl FnMut(u32, Mem, u32),
    ) -> u32 {
        let (mut again, mut places) = (0, Vec::with_capacity(blocks as usize));
        for lba in lba.0..lba.0 + u64::from(blocks) {
            let held = self.write_block(written, lba);
            again += u32::from(held);
            places.push(self.memory.place(self.blocks[&lba].slot));
        }
        runs(places.into_iter(), copy);
        again
    }

    /// Returns whether the block was held already.
    fn write_block(&mut self, written: Written, lba: u64) -> bool {
        let (stripe, role) = self.locate(lba);
        let held = self.blocks.get_mut(&lba);
        let again = held.is_some();
        if let Some(block) = held {
            block.newest = written.0;
            if let Some(leaving) = &mut block.leaving {
                leaving.after.get_or_insert(written);
            }
        } else {
            let slot = self.memory.take();
            let block = Block { slot, newest: written.0, oldest: written, leaving: None };
            self.blocks.insert(lba, block);
            let state = State::Ready;
            let new = Group { blocks: 0, oldest: written, state, failed: false };
            let group = self.groups.entry(stripe).or_insert(new);
            group.blocks += 1;
            self.by_age[group.state as usize].insert((group.oldest.0, stripe));
        }
        if let Some(order) = &mut self.order {
            order.wrote(stripe, role, again);
        }
        again
    }

    fn locate(&self, lba: u64) -> (Stripe, Role) {
        let (stripe, chunk) = self.shape;
        let offset = (lba % u64::from(stripe)) as u32;
        (Stripe(lba / u64::from(stripe)), Role::at((offset / chunk) as usize))
    }

    fn range_of(&self, stripe: Stripe) -> Range<u64> {
        let first = stripe.0 * u64::from(self.shape.0);
        first..first + u64::from(self.shape.0)
    }

    /// Visits these blocks in order, those that are held where they are: how many were before a run, how long
    /// it is, and its memory if it is held.
    pub(super) fn runs(&self, range: Range<u64>, mut visit: impl FnMut(u32, u32, Option<Mem>)) {
        let start = range.start;
        let (mut next, mut places) = (start, Vec::new());
        let ends = core::iter::once((range.end, None));
        let held = self.blocks.range(range).map(|(&lba, block)| (lba, Some(block.slot)));
        for (lba, slot) in held.chain(ends) {
            if lba > next || slot.is_none() {
                let first = next - places.len() as u64;
                runs(places.drain(..), |at, memory, blocks| {
                    visit((first - start) as u32 + at, blocks, Some(memory));
                });
            }
            if lba > next {
                visit((next - start) as u32, (lba - next) as u32, None);
            }
            places.extend(slot.map(|slot| self.memory.place(slot)));
            next = lba + 1;
        }
    }

    /// The group that comes home next when room is wanted.
    pub(super) fn next(&mut self, past: &Past) -> Option<Stripe> {
        let Some(mut order) = self.order.take() else { return self.first_of(past, |_| true) };
        let mut ready = |stripe, _| if self.is_able(stripe, past) { Ready::Yes } else { Ready::No };
        let next = order.next(&mut ready);
        self.order = Some(order);
        next
    }

    /// How many groups come home at once.
    pub(super) fn width(&self) -> usize {
        self.order.as_ref().map_or(usize::MAX, |order| order.width().max(1))
    }

    /// The first group by age that can come home, if its age is `wanted`, as those of all before it are.
    pub(super) fn first_of(
        &self,
        past: &Past,
        mut wanted: impl FnMut(Written) -> bool,
    ) -> Option<Stripe> {
        let ready = self.by_age[State::Ready as usize].iter().map(|&(_, stripe)| stripe);
        let mut old = ready.take(LOOKS).take_while(|stripe| wanted(self.groups[stripe].oldest));
        old.find(|&stripe| self.is_able(stripe, past))
    }

    /// Since when the oldest group that can come home is held.
    pub(super) fn first_able(&self, past: &Past) -> Option<Instant> {
        self.first_of(past, |_| true).map(|stripe| self.groups[&stripe].oldest.1)
    }

    /// Whether something of a group can come home now.
    fn is_able(&self, stripe: Stripe, past: &Past) -> bool {
        let able = self.groups.get(&stripe).is_some_and(|group| group.state == State::Ready);
        able && (past.is_empty()
            || self.blocks.range(self.range_of(stripe)).any(|(&lba, _)| !past.covers(lba)))
    }

    /// So many blocks of a group begin to come home, of more those that were written first: others may be
    /// written again and again. `leaves` is told which, and where they are.
    pub(super) fn leave(
        &mut self,
        stripe: Stripe,
        most: u32,
        past: &Past,
        mut leaves: impl FnMut(u64, Mem),
    ) {
        let blocks = self.blocks.range(self.range_of(stripe));
        let blocks = blocks.filter(|&(&lba, _)| !past.covers(lba));
        let mut blocks: Vec<(u64, u64)> = blocks.map(|(&lba, it)| (it.oldest.0, lba)).collect();
        if blocks.len() > most as usize {
            blocks.sort_unstable();
            blocks.truncate(most as usize);
            blocks.sort_unstable_by_key(|&(_, lba)| lba);
        }
        for (_, lba) in blocks {
            let Some(block) = self.blocks.get_mut(&lba) else { continue };
            block.leaving = Some(Leaving { newest: block.newest, after: None });
            leaves(lba, self.memory.place(block.slot));
        }
        self.enter(stripe, State::Leaves);
    }

    fn enter(&mut self, stripe: Stripe, state: State) {
        let Some(group) = self.groups.get_mut(&stripe) else { return };
        let key = (group.oldest.0, stripe);
        self.by_age[group.state as usize].remove(&key);
        self.by_age[state as usize].insert(key);
        group.state = state;
    }

    /// These blocks of a group are at home: what was not written again meanwhile is dropped.
    pub(super) fn are_home(&mut self, stripe: Stripe, blocks: &[u64]) {
        for lba in blocks {
            let Some(block) = self.blocks.get_mut(lba) else { continue };
            let Some(Leaving { newest, after }) = block.leaving.take() else { continue };
            if block.newest == newest {
                self.drop_block(*lba);
            } else if let Some(after) = after {
                block.oldest = after;
            }
        }
        if self.groups.get(&stripe).is_some_and(|group| group.failed) {
            // What kept it is over.
            self.unstick();
        }
        self.ended(stripe, false);
    }

    /// These blocks of a group could not be brought home. Returns the oldest write of the group.
    pub(super) fn are_stuck(&mut self, stripe: Stripe, blocks: &[u64]) -> Option<u64> {
        for lba in blocks {
            if let Some(block) = self.blocks.get_mut(lba) {
                block.leaving = None;
            }
        }
        self.ended(stripe, true);
        self.groups.get(&stripe).map(|group| group.oldest.0)
    }

    /// A trip of a group has ended.
    fn ended(&mut self, stripe: Stripe, failed: bool) {
        if let Some(group) = self.groups.get_mut(&stripe) {
            self.failed = self.failed + usize::from(failed) - usize::from(group.failed);
            group.failed = failed;
        }
        self.enter(stripe, if failed { State::Rests } else { State::Ready });
        self.age(stripe);
    }

    /// What has failed is tried again.
    pub(super) fn unstick(&mut self) {
        let resting = core::mem::take(&mut self.by_age[State::Rests as usize]);
        for &(_, stripe) in &resting {
            if let Some(group) = self.groups.get_mut(&stripe) {
                group.state = State::Ready;
            }
        }
        self.by_age[State::Ready as usize].extend(resting);
    }

    /// It comes home in another order from now on.
    pub(super) fn set_order(&mut self, order: Option<Box<dyn Hold>>) {
        self.order = order.map(|mut order| {
            for &lba in self.blocks.keys() {
                let (stripe, role) = self.locate(lba);
                order.wrote(stripe, role, false);
            }
            order
        });
    }

    /// Drops what is held of these blocks, except what was written after a write. Returns how many blocks.
    pub(super) fn drop_older(&mut self, range: Range<u64>, writes: u64) -> u64 {
        let old = self.blocks.range(range).filter(|(_, block)| block.newest <= writes);
        let old: Vec<u64> = old.map(|(&lba, _)| lba).collect();
        let mut last = None;
        for &lba in &old {
            let stripe = self.locate(lba).0;
            if let Some(before) = last.replace(stripe).filter(|&before| before != stripe) {
                self.age(before);
            }
            self.drop_block(lba);
        }
        last.into_iter().for_each(|stripe| self.age(stripe));
        old.len() as u64
    }

    fn drop_block(&mut self, lba: u64) {
        let Some(block) = self.blocks.remove(&lba) else { return };
        let stripe = self.locate(lba).0;
        self.memory.give(block.slot);
        if let Some(group) = self.groups.get_mut(&stripe) {
            group.blocks -= 1;
        }
        if let Some(order) = &mut self.order {
            order.left(stripe);
        }
    }

    /// Finds out how old a group is, of which blocks were dropped; one without blocks is none.
    fn age(&mut self, stripe: Stripe) {
        let blocks = self.blocks.range(self.range_of(stripe)).map(|(_, block)| block.oldest);
        let oldest = blocks.min();
        let Some(group) = self.groups.get_mut(&stripe) else { return };
        let by_age = &mut self.by_age[group.state as usize];
        by_age.remove(&(group.oldest.0, stripe));
        if let Some(oldest) = oldest {
            group.oldest = oldest;
            by_age.insert((oldest.0, stripe));
        } else {
            self.failed -= usize::from(group.failed);
            self.groups.remove(&stripe);
        }
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub(super) fn check(&self) {
        let used = self.memory.slots() - self.memory.free();
        assert_eq!(used as usize, self.blocks.len(), "each block has a slot");
        let aged: usize = self.by_age.iter().map(BTreeSet::len).sum();
        assert_eq!(aged, self.groups.len(), "each group has an age");
        let failed = self.groups.values().filter(|group| group.failed).count();
        assert_eq!(failed, self.failed, "groups that have failed");
        for (&stripe, group) in &self.groups {
            let blocks = self.blocks.range(self.range_of(stripe)).map(|(_, block)| block);
            assert_eq!(blocks.clone().count(), group.blocks as usize, "blocks of {stripe:?}");
            let leave = blocks.clone().any(|block| block.leaving.is_some());
            let leaves = group.state == State::Leaves;
            assert_eq!(leave, leaves, "blocks of {stripe:?} are on their way");
            assert!(group.failed || group.state != State::Rests, "{stripe:?} rests");
            let oldest = blocks.map(|block| block.oldest).min();
            assert_eq!(oldest, Some(group.oldest), "the age of {stripe:?}");
            let by_age = &self.by_age[group.state as usize];
            assert!(by_age.contains(&(group.oldest.0, stripe)), "{stripe:?} has its age");
        }
    }
}
