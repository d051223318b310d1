//! What is read of the log, and what none of its holders can read.

use alloc::vec::Vec;

use super::{Entry, Run, Staging};
use crate::geometry::Layout;
use crate::redirects::Staged;
use crate::units::{Lba, MemberId, Pba, Set};

impl Staging {
    /// Where a block is to be read in the log, if at all: the number of an entry, and which block of it.
    /// What is only there is, and what is at home, too, if home is `busy`.
    pub(in crate::engine) fn find(
        &self,
        lba: Lba,
        busy: Set<MemberId>,
        home: impl FnOnce() -> MemberId,
    ) -> Option<(u64, u32)> {
        let staged = self.table.get(lba)?;
        let entry = &self.entries[self.index(staged.entry)];
        let serves = !staged.clean || {
            let stays = entry.number >= self.announced;
            busy.has(home()) && stays && !entry.holders.minus(busy).is_empty()
        };
        serves.then_some((entry.number, staged.at))
    }

    /// Where a block is that is not at home: the number of an entry, and which block of it.
    pub(in crate::engine) fn find_dirty(&self, lba: Lba) -> Option<(u64, u32)> {
        let staged = self.table.get(lba).filter(|staged| !staged.clean)?;
        Some((self.entries[self.index(staged.entry)].number, staged.at))
    }

    /// An entry is to be read from so many times: it stays until unpinned as often.
    pub(in crate::engine) fn pin(&mut self, number: u64, times: u32) {
        self.entry_mut(number).pins += times;
    }

    pub(in crate::engine) fn unpin(&mut self, number: u64) {
        self.entry_mut(number).pins -= 1;
    }

    /// The holder of an entry to read it from, the least by `rank` but for those that were tried, and
    /// where its payload begins there.
    pub(in crate::engine) fn best_holder<K: Ord>(
        &self,
        number: u64,
        tried: Set<MemberId>,
        rank: impl Fn(MemberId) -> K,
    ) -> Option<(MemberId, Pba)> {
        let entry = self.entry(number);
        let holders = entry.holders.minus(tried);
        let places = entry.places().iter().filter(|&&(member, _)| holders.has(member));
        places.min_by_key(|&&(member, _)| rank(member)).copied()
    }

    /// None of its holders could read these blocks of an entry.
    pub(in crate::engine) fn note_unreadable(
        &mut self,
        number: u64,
        lbas: impl Iterator<Item = Lba>,
    ) {
        self.unreadable.extend(lbas.map(|lba| (lba, number)));
    }

    /// Blocks that are staged and not at home, can't be read from any of those that held them, and are not in
    /// memory: where each range of them begins, and how many.
    pub(in crate::engine) fn lost(&self, geo: &Layout) -> Vec<(Lba, u64)> {
        let mut lbas = Vec::new();
        let nobody = |entry: &&Entry| entry.done && entry.dirty > 0 && entry.holders.is_empty();
        for entry in self.entries.iter().filter(nobody) {
            let latest = |staged: Staged| staged.entry == entry.number as u32 && !staged.clean;
            let is_latest = |&lba: &Lba| {
                self.table.get(lba).is_some_and(latest) && self.memory.find(lba).is_none()
            };
            let blocks =
                |run: &Run| geo.of(entry.stripe).lbas(entry.stripe, run.role, run.row, run.blocks);
            lbas.extend(entry.runs.iter().flat_map(blocks).filter(is_latest));
        }
        let unreadable = |&&(lba, number): &&(Lba, u64)| {
            let staged = self.table.get(lba);
            staged.is_some_and(|staged| !staged.clean && staged.entry == number as u32)
                && self.memory.find(lba).is_none()
        };
        lbas.extend(self.unreadable.iter().filter(unreadable).map(|&(lba, _)| lba));
        lbas.sort_unstable();
        lbas.dedup();
        Lba::ranges(&lbas)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::super::tests::Log;
    use super::*;
    use crate::geometry::Role;
    use crate::units::Stripe;

    #[test]
    fn what_is_at_home_is_read_in_the_log_only_if_home_is_busy_and_the_entry_stays() {
        let mut log = Log::new(0);
        let home = log.layout.member(Stripe(0), Role(0));
        let number = log.begin(0, 4, Set::one(home));
        log.staging.stored(number, &[], &log.layout);
        let (lba, busy) = (log.lba(0, 3), Set::one(home));
        let find = |log: &Log, busy| log.staging.find(lba, busy, || home);
        assert_eq!(find(&log, Set::EMPTY), Some((number, 3)), "it is nowhere else");
        log.bring_home(0, 4);
        assert_eq!(find(&log, Set::EMPTY), None);
        assert_eq!(find(&log, busy), Some((number, 3)));
        assert_eq!(find(&log, log.able()), None, "its holders are busy, too");
        assert_eq!(log.staging.find_dirty(lba), None);
        log.flush();
        let tiers = [log.able(), Set::EMPTY, Set::EMPTY];
        log.staging.begin_tail(tiers, false).expect("there are enough");
        assert_eq!(find(&log, busy), None, "it is about to be void");
    }

    #[test]
    fn the_best_holder_is_none_that_was_tried() {
        let mut log = Log::new(0);
        let number = log.stage(0, 1);
        let rank = |member: MemberId| core::cmp::Reverse(member);
        let best = |tried| log.staging.best_holder(number, tried, rank).map(|(member, _)| member);
        assert_eq!(best(Set::EMPTY), Some(MemberId(1)));
        assert_eq!(best(Set::one(MemberId(1))), Some(MemberId(0)));
        assert_eq!(best(log.able()), None);
    }

    #[test]
    fn blocks_that_nobody_can_read_are_lost_until_they_are_written_again() {
        let mut log = Log::new(0);
        let number = log.stage(0, 4);
        let lbas = [0, 1, 3].map(|row| log.lba(0, row));
        log.staging.note_unreadable(number, lbas.into_iter());
        assert_eq!(log.staging.lost(&log.layout), [(lbas[0], 2), (lbas[2], 1)]);
        log.stage(0, 1);
        assert_eq!(log.staging.lost(&log.layout), [(lbas[1], 1), (lbas[2], 1)]);
        log.bring_home(0, 4);
        assert_eq!(log.staging.lost(&log.layout), vec![]);
        let number = log.begin(1, 2, Set::EMPTY);
        for member in log.able() {
            assert!(!log.staging.drop_member(member));
        }
        assert_eq!(log.staging.lost(&log.layout), vec![], "it was never acknowledged");
        log.staging.stored(number, &[], &log.layout);
        assert_eq!(log.staging.lost(&log.layout), [(log.lba(1, 0), 2)]);
    }
}
