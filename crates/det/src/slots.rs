//! Invariants: an entry is either on the free list or occupied, never both; the generation of a
//! slot changes when it is occupied and when it is vacated, so it is odd exactly while there is an occupant,
//! and an id of a former occupant finds nothing.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

/// Names an occupant of a [`Slots`] table: an index and the generation of its occupancy.
pub struct Id<T> {
    index: u32,
    generation: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// The slot's index, below the table's capacity.
    #[must_use]
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// The id as one number, to travel through a kernel's `user_data`.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.index)
    }

    /// The id that [`Id::to_bits`] gave.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        // An occupied slot's generation is odd, and so is that of every id.
        Self { index: bits as u32, generation: (bits >> 32) as u32 | 1, of: PhantomData }
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.generation == other.generation
    }
}

impl<T> Eq for Id<T> {}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index, self.generation)
    }
}

struct Slot<T> {
    generation: u32,
    value: T,
}

impl<T> Slot<T> {
    const fn is_occupied(&self) -> bool {
        self.generation & 1 == 1
    }
}

/// A table of fixed size whose values are made once and reused, so that what they have allocated
/// stays with them.
pub struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    /// A table of `capacity` vacant slots, each holding a value made by `make`.
    ///
    /// # Panics
    /// If `capacity` exceeds `u32::MAX`.
    pub fn new(capacity: usize, mut make: impl FnMut() -> T) -> Self {
        let count = u32::try_from(capacity).expect("a slot table has at most u32::MAX slots");
        let slots = (0..count).map(|_| Slot { generation: 0, value: make() }).collect();
        Self { slots, free: (0..count).rev().collect() }
    }

    /// Occupies a vacant slot, or returns `None` if there is none. The value is as its last
    /// occupant left it.
    pub fn occupy(&mut self) -> Option<Id<T>> {
        let index = self.free.pop()?;
        let slot = &mut self.slots[index as usize];
        assert!(!slot.is_occupied(), "the free list held an occupied slot");
        slot.generation = slot.generation.wrapping_add(1);
        Some(Id { index, generation: slot.generation, of: PhantomData })
    }

    /// Vacates the slot of `id`.
    ///
    /// # Panics
    /// If `id` is not an occupant's.
    pub fn vacate(&mut self, id: Id<T>) {
        assert!(self.get(id).is_some(), "vacated twice: {id:?}");
        let slot = &mut self.slots[id.index()];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.index);
    }

    /// The occupant named by `id`, unless it has left.
    #[must_use]
    pub fn get(&self, id: Id<T>) -> Option<&T> {
        let slot = self.slots.get(id.index())?;
        (slot.generation == id.generation).then_some(&slot.value)
    }

    /// The occupant named by `id`, unless it has left.
    pub fn get_mut(&mut self, id: Id<T>) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index())?;
        (slot.generation == id.generation).then_some(&mut slot.value)
    }

    /// The id of the occupant at `index`, if there is one.
    #[must_use]
    pub fn id_at(&self, index: u32) -> Option<Id<T>> {
        let slot = self.slots.get(index as usize)?;
        slot.is_occupied().then_some(Id { index, generation: slot.generation, of: PhantomData })
    }

    /// All occupants, by index.
    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        self.slots.iter().zip(0u32..).filter(|(slot, _)| slot.is_occupied()).map(|(slot, index)| {
            (Id { index, generation: slot.generation, of: PhantomData }, &slot.value)
        })
    }

    /// How many slots are occupied.
    #[must_use]
    pub fn occupied(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many slots there are.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
}

impl<T> core::ops::Index<Id<T>> for Slots<T> {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        self.get(id).expect("a stale slot id")
    }
}

impl<T> core::ops::IndexMut<Id<T>> for Slots<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        self.get_mut(id).expect("a stale slot id")
    }
}
