//! The log is discarded behind itself: blocks of a ring that are void go back to the SSD, which else
//! keeps them as valid data until the ring has come round, and collects garbage in that much less room.
//!
//! Blocks are void when their room may be used anew, so it does not matter what a crash leaves of a
//! discard. It is advice: what is not discarded, since users wrote faster or a member was busy,
//! costs room on the SSD until the ring has come round.
//!
//! Invariants:
//! - What is discarded is void, and no entry gets room there before that has ended.
//! - At most one discard is under way, so that two members never stall at once.
//! - A discard begins at least a [share](AHEAD) of the ring ahead of the next entry: what is written again
//!   sooner is not worth the command, and a log that is nearly full waits for none. What markers were
//!   promised is left free, too.

use alloc::vec::Vec;
use core::ops::Range;

use det::Instant;

use super::Staging;
use super::room::RESERVE;
use crate::engine::ring::{Entry, Ring};
use crate::units::{MemberId, Pba, Set};

/// The blocks of a piece, which begins at a multiple of them: 1 MiB, for few commands beside the writes that
/// made it void, each of which is short.
const PIECE: u64 = 256;

/// In a small ring a piece is about this part of it.
const PIECES: u64 = 16;

/// How far ahead of the next entry a discard begins at least, as a part of the ring.
const AHEAD: u64 = 4;

/// What of each ring is to be discarded.
#[derive(Debug)]
pub(super) struct Trim {
    /// How many blocks before the oldest entry of each ring are void, and not discarded.
    left: Vec<u64>,
    /// Whose rings have a piece to be discarded.
    to_do: Set<MemberId>,
    /// Whose ring is being discarded.
    under_way: Option<MemberId>,
    /// The place that is asked first for the next piece.
    turn: usize,
    /// When the last piece was begun, and how many blocks that is of each ring, as these take turns.
    last: Option<(Instant, u64)>,
}

impl Trim {
    /// Of rings of which nothing is known: what they hold is void.
    pub(super) fn new<E: Entry>(rings: &[Ring<E>]) -> Self {
        let left = rings.iter().map(Ring::len).collect();
        Self { left, to_do: Set::EMPTY, under_way: None, turn: 0, last: None }
    }

    /// An entry has taken room in a ring: nothing of that is to be discarded now.
    pub(super) fn appended<E: Entry>(&mut self, place: MemberId, ring: &Ring<E>) {
        let left = &mut self.left[place.index()];
        *left = (*left).min(ring.len() - ring.used());
    }

    /// A device takes a place of which nothing is known: what its ring holds is void.
    pub(super) fn begin_anew<E: Entry>(&mut self, place: MemberId, ring: &Ring<E>) {
        self.left[place.index()] = ring.len();
    }

    /// So many blocks of a ring are void.
    pub(super) fn freed(&mut self, place: usize, blocks: u64) {
        self.left[place] += blocks;
    }

    /// Whose rings are known to have a piece to be discarded.
    pub(super) fn found(&self) -> Set<MemberId> {
        self.to_do
    }

    /// Whether one is under way that will end before long: not of a member that is `hung`.
    pub(super) fn is_going_on(&self, hung: Set<MemberId>) -> bool {
        self.under_way.is_some_and(|place| !hung.has(place))
    }
}

/// How many blocks a piece of a ring has.
fn piece_of<E: Entry>(ring: &Ring<E>) -> u64 {
    let part = ring.len() / PIECES;
    part.checked_ilog2().map_or(0, |log| PIECE.min(1 << log))
}

/// The piece of a ring of `len` blocks that is discarded next, and how many are left to be discarded behind
/// it: `used` blocks from the `oldest` entry on are in use, the `left` ones before it are to be discarded,
/// and `ahead` ones behind the latest entry stay room.
fn next_piece(
    (len, oldest, used): (u64, u64, u64),
    piece: u64,
    (left, ahead): (u64, u64),
) -> Option<(Range<u64>, u64)> {
    let left = left.min((len - used).saturating_sub(ahead));
    if left == 0 || piece == 0 {
        return None;
    }
    let start = (oldest + len - left) % len;
    let next = start.next_multiple_of(piece);
    let (from, passed) = if next < len { (next, next - start) } else { (0, len - start) };
    // What is left behind the last whole piece belongs to it.
    let to = if len - from < 2 * piece { len } else { from + piece };
    let left = left.checked_sub(passed + (to - from))?;
    Some((from..to, left))
}

impl Staging {
    /// The piece of a ring that can be discarded, if there is one, and what is left behind it.
    pub(super) fn piece(&self, place: MemberId) -> Option<(Range<u64>, u64)> {
        let (ring, left) = (&self.rings[place.index()], self.trim.left[place.index()]);
        let taken = (ring.len(), ring.oldest(), ring.used());
        let ahead = (ring.len() / AHEAD).max(self.promised + RESERVE);
        next_piece(taken, piece_of(ring), (left, ahead))
    }

    /// Takes note of whether a ring has a piece now, of which something has changed that this depends on.
    pub(super) fn look_for_piece(&mut self, place: MemberId) {
        let to_do = self.trim.to_do.without(place);
        self.trim.to_do = if self.piece(place).is_some() { to_do.with(place) } else { to_do };
    }

    /// The same of all rings.
    pub(super) fn look_for_pieces(&mut self) {
        Set::first(self.rings.len()).for_each(|place| self.look_for_piece(place));
    }

    /// The members and staging devices of whose rings a piece can be discarded; none while that of one is being
    /// discarded.
    #[inline]
    pub(in crate::engine) fn to_be_trimmed(&self) -> Set<MemberId> {
        if self.trim.under_way.is_some() { Set::EMPTY } else { self.trim.to_do }
    }

    /// A discard begins of the next piece, on one of those [that have one](Self::to_be_trimmed) and are `calm`:
    /// which, from where on, and how many blocks.
    pub(in crate::engine) fn begin_trim(
        &mut self,
        calm: Set<MemberId>,
        now: Instant,
    ) -> Option<(MemberId, Pba, u32)> {
        let (n, turn) = (self.rings.len(), self.trim.turn);
        let calm = calm.and(self.to_be_trimmed());
        let place = calm.min_by_key(|place| (place.index() + n - turn) % n)?;
        let (piece, left) = self.piece(place)?;
        let take_turns = calm.len() as u64;
        self.trim.left[place.index()] = left;
        self.trim.under_way = Some(place);
        self.trim.last = Some((now, (piece.end - piece.start).div_ceil(take_turns)));
        self.trim.turn = (place.index() + 1) % self.rings.len();
        let (from, blocks) = (Pba(self.start.0 + piece.start), (piece.end - piece.start) as u32);
        self.rings[place.index()].begin_discard(piece);
        self.look_for_piece(place);
        Some((place, from, blocks))
    }

    /// When the last discard began, and how many blocks of each ring it comes to, as these take turns.
    pub(in crate::engine) fn last_trim(&self) -> Option<(Instant, u64)> {
        self.trim.last
    }

    /// The discard has ended: its blocks are room again.
    pub(in crate::engine) fn end_trim(&mut self) {
        if let Some(place) = self.trim.under_way.take() {
            self.rings[place.index()].end_discard();
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::tests::{Log, RING};
    use super::*;

    const PIECE_HERE: u64 = RING / PIECES;

    /// Discards a piece after the other of the first member's ring, and tells from where to where.
    fn trimmed(log: &mut Log) -> Vec<(u64, u64)> {
        let first = Set::one(MemberId(0));
        let mut pieces = Vec::new();
        while let Some((_, Pba(at), blocks)) = log.staging.begin_trim(first, Instant(7)) {
            assert!(log.staging.to_be_trimmed().is_empty(), "one is under way at a time");
            log.staging.check(0);
            let from = at - log.staging.start.0;
            pieces.push((from, from + u64::from(blocks)));
            log.staging.end_trim();
        }
        pieces
    }

    /// Fills so much of the first member's ring with what is at home, and void if the tail is told.
    fn fill(log: &mut Log, until: u64) {
        let mut stripe = 0;
        while log.staging.rings[0].used() < until {
            log.stage(stripe, 7);
            log.bring_home(stripe, 7);
            stripe += 1;
        }
        log.flush();
    }

    #[test]
    fn what_is_far_ahead_of_the_next_entry_is_discarded_once() {
        let mut log = Log::new(0);
        let pieces = trimmed(&mut log);
        assert_eq!(pieces.first(), Some(&(RING / AHEAD, RING / AHEAD + PIECE_HERE)));
        assert_eq!(pieces.last().map(|&(_, to)| to), Some(RING));
        assert!(pieces.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert!(trimmed(&mut log).is_empty());
    }

    #[test]
    fn what_an_entry_was_in_is_discarded_when_a_durable_tail_has_passed_it() {
        let mut log = Log::new(0);
        trimmed(&mut log);
        fill(&mut log, RING / 2);
        assert!(trimmed(&mut log).is_empty(), "the tail was not told");
        assert!(log.tell());
        let pieces = trimmed(&mut log);
        assert_eq!(pieces.first().map(|&(from, _)| from), Some(0));
        let end = pieces.last().map_or(0, |&(_, to)| to);
        let oldest = log.staging.rings[0].oldest();
        assert!((end..end + PIECE_HERE).contains(&oldest), "up to the oldest entry: {oldest}");
    }

    #[test]
    fn a_log_that_is_nearly_full_is_not_discarded() {
        let mut log = Log::new(0);
        fill(&mut log, RING * 3 / 4);
        assert!(trimmed(&mut log).is_empty());
    }

    #[test]
    fn what_markers_were_promised_stays_room() {
        let mut log = Log::new(0);
        let all = log.able();
        let promised = (0..).take_while(|_| log.staging.promise_marker(all)).count();
        assert!(promised > 0);
        let first = Set::one(MemberId(0));
        assert_eq!(log.staging.begin_trim(first, Instant(7)), None);
        (0..promised / 2).for_each(|_| log.staging.redeem_marker());
        assert!(log.staging.begin_trim(first, Instant(7)).is_some());
        let again = (0..).take_while(|_| log.staging.promise_marker(all)).count();
        assert!(again < promised - promised / 2, "the piece is no room meanwhile: {again}");
    }

    #[test]
    fn members_take_turns_and_busy_ones_are_passed_by() {
        let mut log = Log::new(1);
        let mut next = |calm| {
            let (member, ..) = log.staging.begin_trim(calm, Instant(7)).expect("there is some");
            log.staging.end_trim();
            member.index()
        };
        let all = Set::first(5);
        assert_eq!([next(all), next(all), next(all.without(MemberId(2)))], [0, 1, 3]);
        assert_eq!([next(all), next(all), next(all)], [4, 0, 1]);
    }
}
