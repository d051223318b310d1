//! Requests of the cache's own to the array: their tags, and those that wait for one.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use raidcore::engine::{Op, Request};
use raidcore::units::{Lba, Mem, Tag};

use super::api::Action;

/// What a request is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Carried {
    /// A part of a user's read.
    Read {
        /// Whose.
        tag: Tag,
        /// Where it goes.
        memory: Mem,
    },
    /// A part of a trip.
    Trip {
        /// Which.
        trip: usize,
        /// Where its content is.
        memory: Mem,
    },
}

impl Carried {
    fn memory(self) -> Mem {
        match self {
            Self::Read { memory, .. } | Self::Trip { memory, .. } => memory,
        }
    }
}

/// What is asked, where, and for how many blocks.
type Asked = (Op, u64, u32);

/// See the [module](self).
pub(super) struct Own {
    /// The first of its tags.
    first: u16,
    free: Vec<Tag>,
    carried: Vec<Option<Carried>>,
    waiting: VecDeque<(Carried, Asked)>,
}

impl Own {
    pub(super) fn new(first: u16, count: u16) -> Self {
        Self {
            first,
            free: (first..first + count).rev().map(Tag).collect(),
            carried: alloc::vec![None; count.into()],
            waiting: VecDeque::new(),
        }
    }

    /// Asks, or waits for a tag.
    pub(super) fn ask(&mut self, carried: Carried, asked: Asked, out: &mut Vec<Action>) {
        match self.free.pop() {
            Some(tag) => self.ask_as(tag, carried, asked, out),
            None => self.waiting.push_back((carried, asked)),
        }
    }

    fn ask_as(&mut self, tag: Tag, carried: Carried, asked: Asked, out: &mut Vec<Action>) {
        let (op, at, blocks) = asked;
        self.carried[usize::from(tag.0 - self.first)] = Some(carried);
        let request = Request { tag, op, lba: Lba(at), blocks, fua: false };
        out.push(Action::Ask(request));
    }

    /// A request has ended: what it was for, if it is one of these.
    pub(super) fn ended(&mut self, tag: Tag, out: &mut Vec<Action>) -> Option<Carried> {
        let carried = self.carried[usize::from(tag.0.checked_sub(self.first)?)].take();
        match self.waiting.pop_front() {
            Some((next, asked)) => self.ask_as(tag, next, asked, out),
            None => self.free.push(tag),
        }
        carried
    }

    /// What a request is for, if it is one of these.
    pub(super) fn carried(&self, tag: Tag) -> Option<Carried> {
        self.carried[usize::from(tag.0.checked_sub(self.first)?)]
    }

    /// Whether none is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.carried.len()
    }

    /// Where the memory is that the array names.
    ///
    /// # Panics
    /// If it is none of a request that is under way.
    pub(super) fn place(&self, mem: Mem) -> Mem {
        match mem {
            Mem::Payload { tag, at } if tag.0 >= self.first => {
                let carried = self.carried(tag).expect("memory is that of something under way");
                carried.memory().plus(at)
            }
            Mem::Payload { .. } | Mem::Scratch { .. } | Mem::Zero => mem,
        }
    }
}
