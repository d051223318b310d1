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

/// What is held of a stripe.
#[derive(Clone, Copy, Debug)]
struct Group {
    blocks: u32,
    /// The least of its blocks.
    oldest: Written,
    /// Some of it is on its way home.
    leaves: bool,
    /// The last trip has failed.
    failed: bool,
    /// It is not tried again yet.
    rests: bool,
}

/// See the [module](self).
pub(super) struct Held {
    memory: Memory,
    blocks: BTreeMap<u64, Block>,
    groups: BTreeMap<Stripe, Group>,
    by_age: BTreeSet<(u64, Stripe)>,
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
            by_age: BTreeSet::new(),
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
        let (_, stripe) = self.by_age.first()?;
        Some(self.groups[stripe].oldest)
    }

    /// Whether a block of these is held.
    pub(super) fn holds_some(&self, range: Range<u64>) -> bool {
        !self.blocks.is_empty() && self.blocks.range(range).next().is_some()
    }

    /// Whether a block of these is on its way home.
    pub(super) fn some_leave(&self, range: Range<u64>) -> bool {
        self.blocks.range(range).any(|(_, block)| block.leaving.is_some())
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
            let (leaves, failed, rests) = (false, false, false);
            let new = Group { blocks: 0, oldest: written, leaves, failed, rests };
            self.groups.entry(stripe).or_insert(new).blocks += 1;
            self.by_age.insert((self.groups[&stripe].oldest.0, stripe));
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
        let by_age = self.by_age.iter().map(|&(_, stripe)| stripe);
        let mut old = by_age.take_while(|stripe| wanted(self.groups[stripe].oldest));
        old.find(|&stripe| self.is_able(stripe, past))
    }

    /// Since when the oldest group that can come home is held.
    pub(super) fn first_able(&self, past: &Past) -> Option<Instant> {
        self.first_of(past, |_| true).map(|stripe| self.groups[&stripe].oldest.1)
    }

    /// Whether something of a group can come home now.
    fn is_able(&self, stripe: Stripe, past: &Past) -> bool {
        let able = self.groups.get(&stripe).is_some_and(|group| !group.leaves && !group.rests);
        able && (past.is_empty()
            || self.blocks.range(self.range_of(stripe)).any(|(&lba, _)| !past.covers(lba)))
    }

    /// So many blocks of a group begin to come home; `leaves` is told which, and where they are.
    pub(super) fn leave(
        &mut self,
        stripe: Stripe,
        most: u32,
        past: &Past,
        mut leaves: impl FnMut(u64, Mem),
    ) {
        let range = self.range_of(stripe);
        let blocks = self.blocks.range_mut(range).filter(|&(&lba, _)| !past.covers(lba));
        for (&lba, block) in blocks.take(most as usize) {
            block.leaving = Some(Leaving { newest: block.newest, after: None });
            leaves(lba, self.memory.place(block.slot));
        }
        if let Some(group) = self.groups.get_mut(&stripe) {
            group.leaves = true;
        }
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
            (group.leaves, group.failed, group.rests) = (false, failed, failed);
        }
        self.age(stripe);
    }

    /// What has failed is tried again.
    pub(super) fn unstick(&mut self) {
        if self.failed > 0 {
            self.groups.values_mut().for_each(|group| group.rests = false);
        }
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
        self.by_age.remove(&(group.oldest.0, stripe));
        if let Some(oldest) = oldest {
            group.oldest = oldest;
            self.by_age.insert((oldest.0, stripe));
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
        assert_eq!(self.by_age.len(), self.groups.len(), "each group has an age");
        let failed = self.groups.values().filter(|group| group.failed).count();
        assert_eq!(failed, self.failed, "groups that have failed");
        for (&stripe, group) in &self.groups {
            let blocks = self.blocks.range(self.range_of(stripe)).map(|(_, block)| block);
            assert_eq!(blocks.clone().count(), group.blocks as usize, "blocks of {stripe:?}");
            let leave = blocks.clone().any(|block| block.leaving.is_some());
            assert_eq!(leave, group.leaves, "blocks of {stripe:?} are on their way");
            let oldest = blocks.map(|block| block.oldest).min();
            assert_eq!(oldest, Some(group.oldest), "the age of {stripe:?}");
            assert!(self.by_age.contains(&(group.oldest.0, stripe)), "{stripe:?} has its age");
        }
    }
}
