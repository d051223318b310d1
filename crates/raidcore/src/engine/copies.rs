//! Copies of what is read often: each is made while it is read, and lies on another member, where it
//! is read when home is busy (GC-Steering, Wu et al., sections III-B and III-C: popular read data,
//! stored RAID0-style).
//!
//! Unlike what is staged, a copy is nothing but a help: home has the same. So it is on one member
//! and on record nowhere, and after a start there is none. They lie in a part of each
//! member's staging space, where the oldest make room for new ones.
//!
//! Invariants:
//! - Home has what a copy has: a job that writes to blocks forgets their copies first, with the stripe's
//!   lock held alone; they are made with it held.
//! - Room is not used anew while it is being read or written.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::ring::Ring;
use crate::meta::ArrayRecord;
use crate::redirects::{Redirects, Staged};
use crate::units::{Lba, MemberId, Pba, Set};

/// Consecutive blocks that are on a member, too.
#[derive(Debug)]
struct Extent {
    first: Lba,
    blocks: u32,
    /// The member that has them; none once it was taken out of service.
    member: Option<MemberId>,
    at: Pba,
    pins: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Copies {
    /// Where each ring begins.
    starts: Vec<Pba>,
    /// Those of the members, and then those of the staging devices: of each copy its number, and at which
    /// block it begins.
    rings: Vec<Ring<(u64, u64)>>,
    /// How many of them are members'.
    members: usize,
    /// In the order of their numbers, without a gap.
    extents: VecDeque<Extent>,
    next: u64,
    table: Redirects,
    /// The member that gets the next one.
    turn: usize,
}

impl Copies {
    /// Of an array that has none yet.
    pub(super) fn new(record: &ArrayRecord) -> Self {
        let areas = record.places().map(|place| record.copies_of(place));
        Self::in_areas(record.geometry.members(), areas)
    }

    /// In these areas, each by where it begins and its blocks: those of so many members, and then
    /// those of the staging devices.
    fn in_areas(members: usize, areas: impl Iterator<Item = (Pba, u64)> + Clone) -> Self {
        let rings: Vec<_> = areas.clone().map(|(_, len)| Ring::new(len)).collect();
        let all: u64 = rings.iter().map(|ring| ring.len()).sum();
        Self {
            starts: areas.map(|(start, _)| start).collect(),
            rings,
            members,
            extents: VecDeque::new(),
            next: 0,
            table: Redirects::new(all as usize),
            turn: 0,
        }
    }

    /// How many blocks have one.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no block has one.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Whether there is room for any.
    pub(super) fn exist(&self) -> bool {
        self.rings[0].len() > 0
    }

    /// Whether a copy of so many blocks leaves room for others.
    pub(super) fn fits(&self, blocks: u32) -> bool {
        2 * u64::from(blocks) <= self.rings[0].len()
    }

    /// Memory of the table, in bytes.
    pub(super) fn table_bytes(&self) -> usize {
        self.table.bytes()
    }

    /// A job reads from a copy: it stays until unpinned.
    pub(super) fn pin(&mut self, number: u64) {
        self.extent(number).pins += 1;
    }

    pub(super) fn unpin(&mut self, number: u64) {
        self.extent(number).pins -= 1;
    }

    /// Whether a block has one.
    pub(super) fn has(&self, lba: Lba) -> bool {
        self.table.get(lba).is_some()
    }

    /// The copy of a block, if there is one: its number, which block of it, and the member that has it.
    #[inline]
    pub(super) fn find(&self, lba: Lba) -> Option<(u64, u32, MemberId)> {
        let copy = self.table.get(lba)?;
        let index = self.index(copy.entry);
        Some((self.front() + index as u64, copy.at, self.extents[index].member?))
    }

    /// Where a copy is, if it still is.
    pub(super) fn place(&self, number: u64) -> Option<(MemberId, Pba)> {
        let extent = &self.extents[self.index(number as u32)];
        extent.member.map(|member| (member, extent.at))
    }

    /// The number of the oldest copy.
    fn front(&self) -> u64 {
        self.next - self.extents.len() as u64
    }

    fn index(&self, number: u32) -> usize {
        number.wrapping_sub(self.front() as u32) as usize
    }

    fn extent(&mut self, number: u64) -> &mut Extent {
        let index = self.index(number as u32);
        &mut self.extents[index]
    }

    /// Room for a copy on one of these, a staging device if there is one, else members in turn; the
    /// oldest are forgotten for it. It is being written from now on. Gives its number, and where it goes.
    pub(super) fn begin(
        &mut self,
        first: Lba,
        blocks: u32,
        able: Set<MemberId>,
    ) -> Option<(u64, MemberId, Pba)> {
        let n = self.members;
        let in_turn = (0..n).map(|i| (self.turn + i) % n);
        let member =
            (n..self.rings.len()).chain(in_turn).find(|&place| able.has(MemberId::at(place)))?;
        let new = self.next;
        let at = loop {
            let ring = &mut self.rings[member];
            if let Some(at) = ring.append(u64::from(blocks), 0, |at| (new, at)) {
                break at;
            }
            let oldest = self.extents.front().filter(|oldest| oldest.pins == 0)?;
            let (first, blocks) = (oldest.first, oldest.blocks);
            let number = self.front();
            self.forget_those_of(number, first, blocks);
            self.extents.pop_front();
            for ring in &mut self.rings {
                ring.pop_if(|&(entry, _)| entry == number);
            }
        };
        self.next += 1;
        self.turn = (member + 1) % n;
        let at = Pba(self.starts[member].0 + at);
        let member = MemberId::at(member);
        self.extents.push_back(Extent { first, blocks, member: Some(member), at, pins: 1 });
        Some((new, member, at))
    }

    /// A copy has been written, well or not. What `is_old` is not at home any more.
    pub(super) fn written(&mut self, number: u64, well: bool, is_old: impl Fn(Lba) -> bool) {
        let extent = self.extent(number);
        extent.pins -= 1;
        let (first, blocks) = (extent.first, extent.blocks);
        if well && extent.member.is_some() {
            for at in 0..blocks {
                let lba = Lba(first.0 + u64::from(at));
                if !is_old(lba) {
                    self.table.set(lba, Staged { entry: number as u32, at, clean: true });
                }
            }
        }
    }

    /// Forgets a copy that there may be of a block.
    pub(super) fn forget(&mut self, lba: Lba) {
        self.table.remove(lba);
    }

    fn forget_those_of(&mut self, number: u64, first: Lba, blocks: u32) {
        for lba in (first.0..first.0 + u64::from(blocks)).map(Lba) {
            if self.table.get(lba).is_some_and(|copy| copy.entry == number as u32) {
                self.table.remove(lba);
            }
        }
    }

    /// A member is out of service, and what it had with it.
    pub(super) fn drop_member(&mut self, member: MemberId) {
        self.rings[member.index()].clear();
        let front = self.front();
        for index in 0..self.extents.len() {
            let extent = &mut self.extents[index];
            if extent.member == Some(member) {
                extent.member = None;
                let (first, blocks) = (extent.first, extent.blocks);
                self.forget_those_of(front + index as u64, first, blocks);
            }
        }
    }

    /// Verifies the invariants; `is_dirty` tells what is not at home, `is_up` which members are in service.
    pub(super) fn check(&self, is_dirty: impl Fn(Lba) -> bool, is_up: impl Fn(MemberId) -> bool) {
        let mut count = 0;
        for (extent, number) in self.extents.iter().rev().zip((0..self.next).rev()) {
            for at in 0..extent.blocks {
                let lba = Lba(extent.first.0 + u64::from(at));
                let copy = Staged { entry: number as u32, at, clean: true };
                if self.table.get(lba) == Some(copy) {
                    assert!(
                        extent.member.is_some_and(&is_up),
                        "who is out of service has no copies"
                    );
                    assert!(!is_dirty(lba), "what is not at home has no copy");
                    count += 1;
                }
            }
        }
        assert_eq!(count, self.table.len(), "each copy is somewhere");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two members, with room for eight blocks on each.
    fn copies() -> Copies {
        Copies::in_areas(2, [(Pba(100), 8), (Pba(200), 8)].into_iter())
    }

    /// Makes a copy on one of these.
    fn make(copies: &mut Copies, first: u64, blocks: u32, able: Set<MemberId>) -> Option<u64> {
        let (number, ..) = copies.begin(Lba(first), blocks, able)?;
        copies.written(number, true, |_| false);
        Some(number)
    }

    #[test]
    fn a_copy_counts_once_it_is_written_well() {
        let (mut copies, able) = (copies(), Set::first(2));
        let (first, member, at) = copies.begin(Lba(10), 2, able).expect("there is room");
        assert_eq!((copies.find(Lba(10)), member, at), (None, MemberId(0), Pba(100)));
        copies.written(first, true, |_| false);
        assert_eq!(copies.find(Lba(11)), Some((first, 1, member)));
        let (second, member, at) = copies.begin(Lba(20), 2, able).expect("there is room");
        assert_eq!((member, at), (MemberId(1), Pba(200)), "members take turns");
        copies.written(second, false, |_| false);
        assert!(!copies.has(Lba(20)));
        copies.forget(Lba(10));
        assert!(!copies.has(Lba(10)) && copies.has(Lba(11)));
        copies.check(|_| false, |_| true);
    }

    #[test]
    fn the_oldest_makes_room_unless_it_is_in_use() {
        let (mut copies, able) = (copies(), Set::one(MemberId(0)));
        let first = make(&mut copies, 0, 4, able).expect("there is room");
        make(&mut copies, 10, 4, able).expect("there is room");
        copies.pin(first);
        assert_eq!(copies.begin(Lba(20), 4, able), None, "it is being read");
        assert!(copies.has(Lba(0)));
        copies.unpin(first);
        make(&mut copies, 20, 4, able).expect("the oldest made room");
        assert!(!copies.has(Lba(0)) && copies.has(Lba(10)) && copies.has(Lba(20)));
        assert_eq!(copies.len(), 8);
        assert!(copies.fits(4) && !copies.fits(5), "half of all at most");
        copies.check(|_| false, |_| true);
    }

    #[test]
    fn what_a_member_had_is_gone_with_it() {
        let (mut copies, [one, other]) = (copies(), [0, 1].map(MemberId));
        make(&mut copies, 0, 2, Set::one(one)).expect("there is room");
        make(&mut copies, 10, 2, Set::one(other)).expect("there is room");
        let (late, ..) = copies.begin(Lba(20), 2, Set::one(one)).expect("there is room");
        copies.drop_member(one);
        copies.written(late, true, |_| false);
        assert!(!copies.has(Lba(0)) && !copies.has(Lba(20)) && copies.has(Lba(10)));
        assert_eq!(copies.place(late), None);
        copies.check(|_| false, |member| member != one);
    }
}
