//! Blocks of stripes that are written again and again, as they are at home: old data and parity that
//! the next write of their rows need not read. (Linux md's stripe cache does this for whole rows.)
//!
//! Invariants:
//! - What is *held* here is what its member has. It is used and changed only by a job with its stripe's
//!   exclusive lock, which takes it out, and puts back what it has written once all of that is at home.
//! - It counts for one version of the array's record. Any change of that, such as a member's failure,
//!   voids all of it.
//! - A slot is free, held, or out with a job. The index has it as long as it belongs to a block, also while
//!   a job has it.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;

use crate::geometry::{Layout, Role};
use crate::redirects::{Redirects, Staged};
use crate::units::{Lba, Mem, Stripe};

/// A multiplier that spreads numbers.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A slot: memory of one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotId(u32);

/// Which block it is, among all of all stripes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place(u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    Free,
    Held {
        place: Place,
        /// It was used since it was last looked at for a victim.
        used: bool,
    },
    Out {
        /// The block by which it is found.
        of: Option<Place>,
    },
}

/// A block that is to be held once the job that has its slot has ended well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Warmed {
    pub(super) place: Place,
    pub(super) slot: SlotId,
    /// Where the job's plan has it.
    pub(super) from: Mem,
    /// It was held, and is not read.
    pub(super) had: bool,
}

/// What a job has of the warm blocks.
#[derive(Debug, Default)]
pub(super) struct Warming {
    pub(super) blocks: Vec<Warmed>,
    /// All that the job writes at home is under way, and what is in the slots is that.
    pub(super) written: bool,
    /// The version of the record for which it was planned.
    pub(super) version: u64,
}

/// See the [module](self).
pub(super) struct Warm {
    /// The slots of what is held.
    index: Redirects,
    slots: Vec<Slot>,
    free: Vec<SlotId>,
    /// The slot that is looked at next for a victim.
    hand: usize,
    /// How many blocks are held of the stripes that share a number.
    stripes: Vec<u32>,
    /// Names of rows that were written lately. There are half as many as slots: a row that is written
    /// again takes two or more.
    names: Vec<u32>,
    version: u64,
    /// When a block was put here last.
    put_at: Option<Instant>,
    width: u64,
    chunk: u64,
    /// The number of the first of its buffers.
    first: u16,
}

impl Warm {
    /// Room for `blocks` blocks of a parity level's stripes, in buffers of one chunk from `first` on.
    pub(super) fn new(layout: &Layout, blocks: u32, first: u16) -> Self {
        let chunk = layout.chunk();
        // The buffers' numbers are as many as fit beside those of jobs.
        let most = u32::from(u16::MAX / 2 - first) * chunk;
        let count =
            if layout.of(Stripe(0)).parities() == 0 { 0 } else { blocks.min(most) as usize };
        Self {
            index: Redirects::new(count),
            slots: vec![Slot::Free; count],
            free: (0..count as u32).rev().map(SlotId).collect(),
            hand: 0,
            stripes: vec![0; count.next_power_of_two()],
            names: vec![0; (count / 2).next_power_of_two()],
            version: 0,
            put_at: None,
            width: layout.width() as u64,
            chunk: u64::from(chunk),
            first,
        }
    }

    /// Whether it never holds anything.
    pub(super) fn is_off(&self) -> bool {
        self.slots.is_empty()
    }

    // Memory.

    /// How many buffers it has.
    pub(super) fn buffers(&self) -> u16 {
        self.slots.len().div_ceil(self.chunk as usize) as u16
    }

    /// The numbers of its buffers, if none of them is in use.
    pub(super) fn free_buffers(&self) -> impl Iterator<Item = u16> + use<> {
        let count = if self.free.len() == self.slots.len() { self.buffers() } else { 0 };
        self.first..self.first + count
    }

    /// The memory of a slot, as a host knows it.
    pub(super) fn memory(&self, SlotId(slot): SlotId) -> Mem {
        let (buffer, at) = (u64::from(slot) / self.chunk, u64::from(slot) % self.chunk);
        Mem::Scratch { buffer: self.first + buffer as u16, at: at as u32 }
    }

    // What is held.

    /// The name of a block.
    pub(super) fn place(&self, stripe: Stripe, role: Role, row: u32) -> Place {
        Place((stripe.0 * self.width + u64::from(role.0)) * self.chunk + u64::from(row))
    }

    fn stripe_of(&self, Place(place): Place) -> Stripe {
        Stripe(place / self.chunk / self.width)
    }

    fn count_of(&mut self, stripe: Stripe) -> &mut u32 {
        let mask = self.stripes.len() - 1;
        &mut self.stripes[(stripe.0.wrapping_mul(SPREAD) >> 32) as usize & mask]
    }

    /// Whether a block of the stripe may be held.
    pub(super) fn concerns(&mut self, stripe: Stripe) -> bool {
        !self.is_off() && *self.count_of(stripe) > 0
    }

    /// What is held counts for this version of the record alone.
    pub(super) fn follow(&mut self, version: u64) {
        if self.version != version {
            self.forget_all();
            self.version = version;
        }
    }

    /// A row is being written. Tells whether it was not long ago, either.
    pub(super) fn is_written_again(&mut self, stripe: Stripe, row: u32) -> bool {
        let hash = (stripe.0 * self.chunk + u64::from(row) + 1).wrapping_mul(SPREAD);
        let (at, name) = ((hash >> 40) as usize & (self.names.len() - 1), hash as u32 | 1);
        core::mem::replace(&mut self.names[at], name) == name
    }

    /// Takes out what is held of a block.
    pub(super) fn take(&mut self, place: Place) -> Option<SlotId> {
        let slot = self.index.get(Lba(place.0))?.entry;
        self.slots[slot as usize] = Slot::Out { of: Some(place) };
        Some(SlotId(slot))
    }

    /// A slot for a block that is not held, if there is one that no job has: a free one, or that of a
    /// block that was not used for long.
    pub(super) fn claim(&mut self) -> Option<SlotId> {
        let slot = self.free.pop().or_else(|| self.victim())?;
        self.slots[slot.0 as usize] = Slot::Out { of: None };
        Some(slot)
    }

    fn victim(&mut self) -> Option<SlotId> {
        for _ in 0..2 * self.slots.len() {
            let at = self.hand;
            self.hand = if at + 1 == self.slots.len() { 0 } else { at + 1 };
            match &mut self.slots[at] {
                Slot::Held { used, .. } if *used => *used = false,
                Slot::Held { place, .. } => {
                    let place = *place;
                    self.lose(place);
                    return Some(SlotId(at as u32));
                }
                Slot::Free | Slot::Out { .. } => {}
            }
        }
        None
    }

    /// A block is not found any more.
    fn lose(&mut self, place: Place) {
        self.index.remove(Lba(place.0));
        *self.count_of(self.stripe_of(place)) -= 1;
    }

    /// A job's slot holds this block from now on.
    pub(super) fn put(&mut self, place: Place, slot: SlotId, now: Instant) {
        let SlotId(number) = slot;
        self.put_at = Some(now);
        if self.slots[number as usize] == (Slot::Out { of: None }) {
            self.index.set(Lba(place.0), Staged { entry: number, at: 0, clean: true });
            *self.count_of(self.stripe_of(place)) += 1;
        }
        self.slots[number as usize] = Slot::Held { place, used: true };
    }

    /// A slot holds nothing any more.
    pub(super) fn release(&mut self, slot: SlotId) {
        if let Slot::Out { of: Some(place) } | Slot::Held { place, .. } =
            self.slots[slot.0 as usize]
        {
            self.lose(place);
        }
        self.slots[slot.0 as usize] = Slot::Free;
        self.free.push(slot);
    }

    /// What is held of a stripe is no longer what home has.
    pub(super) fn forget(&mut self, stripe: Stripe) {
        if !self.concerns(stripe) {
            return;
        }
        let first = self.place(stripe, Role(0), 0).0;
        for place in first..first + self.width * self.chunk {
            if !self.concerns(stripe) {
                return;
            }
            if let Some(slot) = self.take(Place(place)) {
                self.release(slot);
            }
        }
    }

    /// Nothing is held any more.
    pub(super) fn forget_all(&mut self) {
        if self.index.is_empty() {
            return;
        }
        self.index.clear();
        self.put_at = None;
        self.stripes.fill(0);
        for (number, slot) in self.slots.iter_mut().enumerate() {
            match slot {
                Slot::Free => {}
                Slot::Out { of } => *of = None,
                Slot::Held { .. } => {
                    *slot = Slot::Free;
                    self.free.push(SlotId(number as u32));
                }
            }
        }
    }

    /// When what is held was not written again for so long.
    pub(super) fn deadline(&self, delay: Duration) -> Option<Instant> {
        Some(self.put_at? + delay)
    }

    /// What is held, if this is the version of the record: a stripe's role and row, and where its
    /// content is.
    pub(super) fn held(&self, version: u64) -> impl Iterator<Item = (Stripe, Role, u32, Mem)> {
        let slots = self.slots.iter().filter(move |_| self.version == version);
        (0..).map(SlotId).zip(slots).filter_map(|(number, slot)| {
            let Slot::Held { place: Place(place), .. } = *slot else { return None };
            let role = Role::at((place / self.chunk % self.width) as usize);
            let stripe = self.stripe_of(Place(place));
            Some((stripe, role, (place % self.chunk) as u32, self.memory(number)))
        })
    }

    /// Verifies that each slot is in one state, with `out` of them with jobs.
    ///
    /// # Panics
    /// If it is not: that is a bug in the engine.
    pub(super) fn check(&self, out: usize) {
        let count = |is: fn(&Slot) -> bool| self.slots.iter().filter(|slot| is(slot)).count();
        let found = count(|slot| matches!(slot, Slot::Held { .. } | Slot::Out { of: Some(_) }));
        assert_eq!(found, self.index.len(), "blocks' slots are found");
        assert_eq!(count(|slot| matches!(slot, Slot::Out { .. })), out, "jobs have those");
        assert_eq!(count(|slot| *slot == Slot::Free), self.free.len(), "a slot is lost");
        let counted: u32 = self.stripes.iter().sum();
        assert_eq!(counted as usize, found, "stripes' blocks are counted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Geometry, Level};
    use crate::units::Pba;

    fn warm(blocks: u32) -> Warm {
        let geo = Geometry::new(Level::Raid5, 4, 8, 100).expect("it is possible");
        Warm::new(&Layout::new(geo, Pba(0)), blocks, 10)
    }

    fn hold(warm: &mut Warm, stripe: u64, role: u8, row: u32) -> Place {
        let place = warm.place(Stripe(stripe), Role(role), row);
        let slot = warm.claim().expect("there is one");
        warm.put(place, slot, Instant(7));
        place
    }

    #[test]
    fn what_is_held_is_told_as_it_was_put() {
        let mut warm = warm(20);
        hold(&mut warm, 3, 2, 7);
        let told: Vec<_> = warm.held(0).collect();
        assert_eq!(told, [(Stripe(3), Role(2), 7, Mem::Scratch { buffer: 10, at: 0 })]);
        assert_eq!(warm.held(1).count(), 0, "it is of another record");
        let delay = Duration::from_nanos(3);
        assert_eq!(warm.deadline(delay), Some(Instant(10)));
        assert_eq!((warm.buffers(), warm.free_buffers().count()), (3, 0), "20 blocks, 8 in each");
        warm.follow(1);
        assert_eq!((warm.held(1).count(), warm.deadline(delay)), (0, None));
        assert!(warm.free_buffers().eq(10..13));
        warm.check(0);
    }

    #[test]
    fn the_first_that_was_not_used_again_makes_room() {
        let mut warm = warm(3);
        let places = [0, 1, 2].map(|row| hold(&mut warm, 0, 0, row));
        // All were new: each is passed by once.
        let out = warm.claim().expect("the first gives way");
        assert_eq!(warm.take(places[0]), None);
        warm.release(out);
        let again = warm.take(places[1]).expect("it is held");
        warm.put(places[1], again, Instant(7));
        hold(&mut warm, 1, 0, 0);
        assert!(warm.claim().is_some());
        assert_eq!(warm.take(places[2]), None, "it was not used since");
        assert!(warm.take(places[1]).is_some());
        warm.check(2);
        assert!(warm.claim().is_some() && warm.claim().is_none(), "jobs have the others");
    }

    #[test]
    fn a_stripe_is_forgotten_and_no_other() {
        let mut warm = warm(64);
        for stripe in 0..4 {
            for role in 0..4 {
                hold(&mut warm, stripe, role, 7);
            }
        }
        warm.forget(Stripe(2));
        assert!(!warm.concerns(Stripe(2)) || warm.stripes.iter().any(|&count| count > 4));
        let left: Vec<_> = warm.held(0).map(|(stripe, ..)| stripe.0).collect();
        assert_eq!((left.len(), left.contains(&2)), (12, false));
        warm.check(0);
    }

    #[test]
    fn rows_are_known_when_they_are_written_again() {
        let mut warm = warm(64);
        assert!(!warm.is_written_again(Stripe(5), 1) && !warm.is_written_again(Stripe(5), 2));
        assert!(warm.is_written_again(Stripe(5), 1));
        (6..2000).for_each(|stripe| {
            warm.is_written_again(Stripe(stripe), 0);
        });
        assert!(!warm.is_written_again(Stripe(5), 1), "it was long ago");
    }

    #[test]
    fn a_level_without_parity_holds_nothing() {
        let geo = Geometry::new(Level::Raid1, 2, 8, 100).expect("it is possible");
        let mut warm = Warm::new(&Layout::new(geo, Pba(0)), 64, 10);
        assert!(warm.is_off() && warm.buffers() == 0 && !warm.concerns(Stripe(0)));
    }
}
