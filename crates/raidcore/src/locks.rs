//! Stripe locks: shared or exclusive, granted first come, first served.
//!
//! Invariants: a stripe has an entry exactly while a job holds or awaits it. No job waits for a
//! stripe that no job holds. Only jobs that [join](Locks::join) hold a stripe beside its exclusive
//! holder. A job holds or awaits one stripe at a time. All memory is allocated at the start: an
//! entry and a place in a queue for every job.

use alloc::vec;
use alloc::vec::Vec;

use crate::units::Stripe;

const NONE: u32 = u32::MAX;

/// A job, by its index in the table of jobs.
pub type Holder = u32;

/// The locks of all stripes.
pub struct Locks {
    buckets: Vec<u32>,
    entries: Vec<Entry>,
    free: u32,
    waiters: Vec<Waiter>,
}

#[derive(Clone, Copy)]
struct Entry {
    stripe: Stripe,
    shared: u32,
    /// The job that holds it alone.
    exclusive: u32,
    first: u32,
    last: u32,
    next: u32,
}

#[derive(Clone, Copy)]
struct Waiter {
    exclusive: bool,
    next: u32,
}

impl Locks {
    /// Locks for holders numbered below `holders`.
    #[must_use]
    pub fn new(holders: usize) -> Self {
        let count = u32::try_from(holders).unwrap_or(NONE);
        let blank = Entry {
            stripe: Stripe(0),
            shared: 0,
            exclusive: NONE,
            first: NONE,
            last: NONE,
            next: NONE,
        };
        let mut entries = vec![blank; holders];
        for (entry, next) in entries.iter_mut().zip(1..) {
            entry.next = if next < count { next } else { NONE };
        }
        Self {
            buckets: vec![NONE; (holders * 2).next_power_of_two()],
            entries,
            free: if count > 0 { 0 } else { NONE },
            waiters: vec![Waiter { exclusive: false, next: NONE }; holders],
        }
    }

    /// Takes the lock, or joins the queue for it; returns whether it was taken.
    pub fn acquire(&mut self, holder: Holder, stripe: Stripe, exclusive: bool) -> bool {
        if !exclusive && self.share(stripe) {
            return true;
        }
        let Some(index) = self.find(stripe) else {
            self.insert(stripe, holder);
            return true;
        };
        let entry = &mut self.entries[index as usize];
        self.waiters[holder as usize] = Waiter { exclusive, next: NONE };
        let last = core::mem::replace(&mut entry.last, holder);
        if last == NONE {
            entry.first = holder;
        } else {
            self.waiters[last as usize].next = holder;
        }
        false
    }

    /// Takes the lock shared, unless another has it alone or waits for it; returns whether it was taken.
    pub fn share(&mut self, stripe: Stripe) -> bool {
        let Some(index) = self.find(stripe) else {
            self.insert(stripe, NONE);
            return true;
        };
        let entry = &mut self.entries[index as usize];
        let free = entry.exclusive == NONE && entry.first == NONE;
        entry.shared += u32::from(free);
        free
    }

    /// Takes the lock shared beside its present holders, ahead of all waiters.
    ///
    /// # Panics
    /// If it is not held.
    pub fn join(&mut self, stripe: Stripe) {
        let index = self.find(stripe).expect("a lock is joined that somebody has");
        self.entries[index as usize].shared += 1;
    }

    /// The job that holds the stripe exclusively.
    #[must_use]
    pub fn exclusive_holder(&self, stripe: Stripe) -> Option<Holder> {
        let holder = self.entries[self.find(stripe)? as usize].exclusive;
        (holder != NONE).then_some(holder)
    }

    /// Whether any job holds the stripe shared.
    #[must_use]
    pub fn is_shared(&self, stripe: Stripe) -> bool {
        self.find(stripe).is_some_and(|index| self.entries[index as usize].shared > 0)
    }

    /// Releases the lock; calls `granted` with each job that holds it now.
    ///
    /// # Panics
    /// If it is not held in this mode.
    pub fn release(&mut self, stripe: Stripe, exclusive: bool, mut granted: impl FnMut(Holder)) {
        let index = self.find(stripe).expect("a lock is released by its holder");
        let entry = &mut self.entries[index as usize];
        if exclusive {
            assert!(entry.exclusive != NONE, "somebody holds it alone");
            entry.exclusive = NONE;
        } else {
            entry.shared = entry.shared.checked_sub(1).expect("somebody shares it");
        }
        while entry.first != NONE && entry.exclusive == NONE {
            let first = entry.first;
            let waiter = self.waiters[first as usize];
            if waiter.exclusive && entry.shared > 0 {
                break;
            }
            match waiter.exclusive {
                true => entry.exclusive = first,
                false => entry.shared += 1,
            }
            entry.pop_first(waiter.next);
            granted(first);
        }
        if entry.exclusive == NONE && entry.shared == 0 {
            self.remove(stripe, index);
        }
    }

    /// The first waiter for the stripe.
    #[must_use]
    pub fn first_waiter(&self, stripe: Stripe) -> Option<Holder> {
        let first = self.entries[self.find(stripe)? as usize].first;
        (first != NONE).then_some(first)
    }

    /// Removes the first waiter from the queue, as another job does its work.
    ///
    /// # Panics
    /// If there is no waiter.
    pub fn remove_first_waiter(&mut self, stripe: Stripe) {
        let index = self.find(stripe).expect("somebody waits") as usize;
        let first = self.entries[index].first;
        let next = self.waiters[first as usize].next;
        self.entries[index].pop_first(next);
    }

    /// Whether no stripe is held.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.buckets.iter().all(|&b| b == NONE)
    }

    fn bucket(&self, stripe: Stripe) -> usize {
        (stripe.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.buckets.len() - 1)
    }

    fn find(&self, stripe: Stripe) -> Option<u32> {
        let mut index = self.buckets[self.bucket(stripe)];
        while index != NONE {
            let entry = &self.entries[index as usize];
            if entry.stripe == stripe {
                return Some(index);
            }
            index = entry.next;
        }
        None
    }

    fn insert(&mut self, stripe: Stripe, exclusive: u32) {
        let bucket = self.bucket(stripe);
        let index = self.free;
        assert!(index != NONE, "there is an entry for every job");
        self.free = self.entries[index as usize].next;
        self.entries[index as usize] = Entry {
            stripe,
            shared: u32::from(exclusive == NONE),
            exclusive,
            first: NONE,
            last: NONE,
            next: self.buckets[bucket],
        };
        self.buckets[bucket] = index;
    }

    fn remove(&mut self, stripe: Stripe, index: u32) {
        let bucket = self.bucket(stripe);
        let after = self.entries[index as usize].next;
        if self.buckets[bucket] == index {
            self.buckets[bucket] = after;
        } else {
            let mut before = self.buckets[bucket];
            while self.entries[before as usize].next != index {
                before = self.entries[before as usize].next;
            }
            self.entries[before as usize].next = after;
        }
        self.entries[index as usize].next = self.free;
        self.free = index;
    }
}

impl Entry {
    fn pop_first(&mut self, next: u32) {
        self.first = next;
        if next == NONE {
            self.last = NONE;
        }
    }
}
