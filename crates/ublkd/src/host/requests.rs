//! Users' requests: how many of which kind and size, and how long they took. Counting one takes a few
//! additions.

use det::Instant;
use raidcore::engine::Op;
use raidcore::units::{BLOCK_BYTES, Tag};

use crate::ring::Transfers;

/// The upper bounds of the sizes by which reads and writes are told apart, in blocks: each four times the
/// one before. A last size is for larger ones.
const SIZE_BOUNDS: [u32; 4] = [1, 4, 16, 64];

/// How many sizes there are.
const SIZES: usize = SIZE_BOUNDS.len() + 1;

/// Requests that have succeeded since the start. Their latencies are from when the array's thread takes
/// one up until it answers it, and the bytes are those of the blocks that they touch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestStats {
    /// When counting began.
    pub since: Instant,
    /// When this was the state of it.
    pub at: Instant,
    reads: [Transfers; SIZES],
    writes: [Transfers; SIZES],
    flushes: Transfers,
    discards: Transfers,
    zeroes: Transfers,
}

/// Requests of a kind and size.
#[derive(Clone, Copy, Debug)]
pub struct KindStats<'a> {
    /// "read", "write", "flush", "discard" or "write-zeroes".
    pub op: &'static str,
    /// How large they are.
    pub size: RequestSize,
    /// What they were.
    pub stats: &'a Transfers,
}

/// The size of requests that are counted together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestSize {
    /// Whatever size.
    Any,
    /// At most so many bytes, and more than the next smaller size.
    UpTo(u64),
    /// More than all others.
    Larger,
}

impl RequestStats {
    /// All kinds, reads and writes by their size: those without requests, too.
    pub fn kinds(&self) -> impl Iterator<Item = KindStats<'_>> {
        let others =
            [("flush", &self.flushes), ("discard", &self.discards), ("write-zeroes", &self.zeroes)];
        let others = others.map(|(op, stats)| KindStats { op, size: RequestSize::Any, stats });
        by_size("read", &self.reads).chain(by_size("write", &self.writes)).chain(others)
    }

    fn add(&mut self, op: Op, blocks: u32, nanos: u64) {
        let kind = match op {
            Op::Read => &mut self.reads[size(blocks)],
            Op::Write => &mut self.writes[size(blocks)],
            Op::Flush => return self.flushes.add(0, nanos),
            Op::Discard => &mut self.discards,
            Op::WriteZeroes => &mut self.zeroes,
        };
        kind.add(bytes(blocks), nanos);
    }
}

/// Requests of a kind, by their size.
fn by_size<'a>(
    op: &'static str,
    all: &'a [Transfers; SIZES],
) -> impl Iterator<Item = KindStats<'a>> + use<'a> {
    let bounds = SIZE_BOUNDS.map(|blocks| RequestSize::UpTo(bytes(blocks)));
    let sizes = bounds.into_iter().chain([RequestSize::Larger]);
    sizes.zip(all).map(move |(size, stats)| KindStats { op, size, stats })
}

fn bytes(blocks: u32) -> u64 {
    u64::from(blocks) * BLOCK_BYTES as u64
}

/// The size of a request of so many blocks.
fn size(blocks: u32) -> usize {
    let digits = u32::BITS - blocks.saturating_sub(1).leading_zeros();
    (digits.div_ceil(2) as usize).min(SIZES - 1)
}

/// Counts requests.
#[derive(Debug)]
pub(super) struct RequestCounter {
    stats: RequestStats,
    /// When the request with this tag came.
    came: Vec<Instant>,
}

impl RequestCounter {
    pub(super) fn new(now: Instant, tags: u16) -> Self {
        let none = [Transfers::default(); SIZES];
        let [flushes, discards, zeroes] = [Transfers::default(); 3];
        let (reads, writes) = (none, none);
        let stats = RequestStats { since: now, at: now, reads, writes, flushes, discards, zeroes };
        Self { stats, came: vec![now; usize::from(tags)] }
    }

    /// A request has come.
    pub(super) fn came(&mut self, now: Instant, tag: Tag) {
        self.came[usize::from(tag.0)] = now;
    }

    /// It has succeeded.
    pub(super) fn done(&mut self, now: Instant, tag: Tag, op: Op, blocks: u32) {
        let came = self.came[usize::from(tag.0)];
        self.stats.add(op, blocks, now.0.saturating_sub(came.0));
    }

    /// What has been counted.
    pub(super) fn stats(&self, now: Instant) -> RequestStats {
        RequestStats { at: now, ..self.stats.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_end_at_their_bounds() {
        for (at, &bound) in SIZE_BOUNDS.iter().enumerate() {
            assert_eq!((size(bound), size(bound + 1)), (at, at + 1), "{bound} blocks");
        }
        assert_eq!((size(0), size(u32::MAX)), (0, SIZES - 1));
    }

    #[test]
    fn requests_are_counted_by_kind_and_size() {
        let mut counter = RequestCounter::new(Instant(5), 2);
        let asked =
            [(Op::Read, 1), (Op::Read, 4), (Op::Write, 100), (Op::Discard, 7), (Op::Flush, 9)];
        for (op, blocks) in asked {
            counter.came(Instant(100), Tag(1));
            counter.done(Instant(20_100), Tag(1), op, blocks);
        }
        let stats = counter.stats(Instant(30_000));
        assert_eq!((stats.since, stats.at), (Instant(5), Instant(30_000)));
        let some = stats.kinds().filter(|kind| kind.stats.count() > 0);
        let some: Vec<_> = some.map(|kind| (kind.op, kind.size, kind.stats.bytes)).collect();
        let expected = [
            ("read", RequestSize::UpTo(4096), 4096),
            ("read", RequestSize::UpTo(16_384), 16_384),
            ("write", RequestSize::Larger, 409_600),
            ("flush", RequestSize::Any, 0),
            ("discard", RequestSize::Any, 28_672),
        ];
        assert_eq!(some, expected);
        assert!(stats.kinds().all(|kind| [0, 20_000].contains(&kind.stats.nanos)));
    }
}
