//! Entries of the staging log that share a header, and what lies where some were.

use raidcore::meta::{
    ArrayId, JournalHeader, JournalRun, Log, checksum, encode_journal_header, encode_shared,
    journal_header_blocks, scan_journal, shared_header_blocks,
};
use raidcore::units::{BLOCK_BYTES, MemberId, Set, Stripe};

use crate::world::{ARRAY, EPOCH};

const MEMBER: MemberId = MemberId(0);

/// A ring of 48 blocks.
struct Ring(Vec<u8>);

fn header(array: ArrayId, entry: u64, at: u64) -> JournalHeader {
    JournalHeader {
        log: Log::Staging,
        array,
        epoch: EPOCH,
        entry,
        tail: 1,
        open: 0,
        member: MEMBER,
        at,
        holders: Set::one(MEMBER),
        stripe: Stripe(entry),
    }
}

impl Ring {
    fn new() -> Self {
        Self(vec![0; 48 * BLOCK_BYTES])
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let start = at as usize * BLOCK_BYTES;
        self.0[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// So many entries of a block, from this number on, under one header.
    fn share(&mut self, array: ArrayId, entry: u64, count: u32, at: u64) {
        let payload: Vec<_> = (0..count).map(|block| [block as u8 + 1; BLOCK_BYTES]).collect();
        let parts = (0..count).map(|part| (Stripe(part.into()), 1));
        let runs = (0..count).map(|_| JournalRun { member: MEMBER, row: 0, blocks: 1 });
        let mut bytes = vec![0; shared_header_blocks(count, count, count) as usize * BLOCK_BYTES];
        let sums = payload.iter().map(|block| checksum(block));
        encode_shared(&header(array, entry, at), parts, runs, sums, &mut bytes);
        bytes.extend(payload.concat());
        self.put(at, &bytes);
    }

    /// An entry of a block by itself.
    fn alone(&mut self, entry: u64, at: u64) {
        let payload = [entry as u8; BLOCK_BYTES];
        let run = JournalRun { member: MEMBER, row: 0, blocks: 1 };
        let mut bytes = vec![0; journal_header_blocks(1, 1) as usize * BLOCK_BYTES];
        let sums = [checksum(&payload)].into_iter();
        encode_journal_header(&header(ARRAY, entry, at), [run].into_iter(), sums, &mut bytes);
        bytes.extend(payload);
        self.put(at, &bytes);
    }

    fn found(&self) -> Vec<u64> {
        let found = scan_journal(Log::Staging, 48, &self.0[..], ARRAY, EPOCH, MEMBER);
        found.iter().map(|entry| entry.header.entry).collect()
    }
}

/// They were void, and what took their room came only in part.
#[test]
fn what_was_written_over_some_of_them_is_found() {
    let mut ring = Ring::new();
    ring.share(ARRAY, 3, 5, 8);
    assert_eq!(ring.found(), [3, 4, 5, 6, 7]);
    ring.alone(21, 10);
    assert_eq!(ring.found(), [3, 6, 7, 21]);
    ring.share(ARRAY, 22, 2, 12);
    assert_eq!(ring.found(), [3, 21, 22, 23]);
}

/// A block of a user's looks like a header.
#[test]
fn a_header_of_another_array_or_place_hides_nothing() {
    for (array, at) in [(ArrayId([9; 16]), 4), (ARRAY, 5)] {
        let mut ring = Ring::new();
        let mut other = Ring::new();
        other.share(array, 3, 20, at);
        ring.put(4, &other.0[at as usize * BLOCK_BYTES..][..BLOCK_BYTES]);
        ring.alone(21, 10);
        ring.alone(22, 20);
        assert_eq!(ring.found(), [21, 22]);
    }
}

/// The payload of what is intact may look like anything.
#[test]
fn a_header_within_what_is_intact_is_none() {
    let mut ring = Ring::new();
    let mut inner = Ring::new();
    inner.alone(40, 6);
    let payload = [&inner.0[6 * BLOCK_BYTES..][..2 * BLOCK_BYTES], &[7; BLOCK_BYTES]].concat();
    let parts = [(Stripe(0), 1), (Stripe(1), 1)].into_iter();
    let runs = [2, 1].map(|blocks| JournalRun { member: MEMBER, row: 0, blocks });
    let mut bytes = vec![0; BLOCK_BYTES];
    let sums = payload.chunks_exact(BLOCK_BYTES).map(checksum);
    encode_shared(&header(ARRAY, 30, 5), parts, runs.into_iter(), sums, &mut bytes);
    bytes.extend(&payload);
    ring.put(5, &bytes);
    assert_eq!(ring.found(), [30, 31]);
}
