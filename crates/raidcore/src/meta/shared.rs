//! Entries of the staging log that several writes share: one header, and then the payload of each.
//!
//! The entries have numbers that follow each other, and are told apart by these as if each had a header of its
//! own. What is not intact of one says nothing of the others, and may be what was written there later.

use alloc::vec::Vec;

use super::codec::{Field, has_magic, seal};
use super::headers::{
    CRC_BYTES, Found, HEADER_BYTES, JournalEntry, JournalHeader, JournalRun, Log, PAYLOAD,
    PAYLOAD_MAX, RUN_BYTES, RUNS, Ring, Table, encode_fields, encode_runs, encode_sums,
};
use crate::units::{BLOCK_BYTES, Stripe};

/// How many entries there are.
const PARTS: Field<8> = super::headers::STRIPE;

const PART_STRIPE: Field<8> = Field { at: 0 };
const PART_RUNS: Field<4> = PART_STRIPE.then();
const PART_RESERVED: Field<4> = PART_RUNS.then();
const PART_BYTES: usize = PART_RESERVED.end();

const MAGIC: [u8; 8] = *b"EKshr\r\n\x1a";

/// The most entries that share a header.
pub const SHARED_MAX: usize = 32;

/// How many header blocks so many entries share that have so many blocks of payload and runs in all.
#[must_use]
pub fn shared_header_blocks(payload_blocks: u32, runs: u32, entries: u32) -> u32 {
    let tables = entries as usize * PART_BYTES + runs as usize * RUN_BYTES;
    let bytes = HEADER_BYTES + tables + payload_blocks as usize * CRC_BYTES;
    bytes.div_ceil(BLOCK_BYTES) as u32
}

/// Writes the header blocks that entries share. `header` is that of the first; `parts` gives of each its stripe
/// and how many runs it has, `runs` the runs of all, and `crcs` the [`checksum`](super::checksum()) of each
/// block of their payload, in order. Does not allocate.
///
/// # Panics
/// If `into` is not [`shared_header_blocks`] blocks long, or a run reaches beyond block 65535 of a chunk.
pub fn encode_shared(
    header: &JournalHeader,
    parts: impl Iterator<Item = (Stripe, u32)> + Clone,
    runs: impl Iterator<Item = JournalRun> + Clone,
    crcs: impl Iterator<Item = u32>,
    into: &mut [u8],
) {
    let entries = parts.clone().count() as u32;
    let (count, payload) = runs.clone().fold((0, 0), |(n, sum), run| (n + 1, sum + run.blocks));
    let blocks = shared_header_blocks(payload, count, entries) as usize;
    assert_eq!(into.len(), blocks * BLOCK_BYTES);
    into.fill(0);
    encode_fields(header, (count, payload), into);
    PARTS.put(into, u64::from(entries).to_le_bytes());
    let (table, rest) = into[HEADER_BYTES..].split_at_mut(entries as usize * PART_BYTES);
    for (bytes, (stripe, runs)) in table.chunks_exact_mut(PART_BYTES).zip(parts) {
        PART_STRIPE.put(bytes, stripe.0.to_le_bytes());
        PART_RUNS.put(bytes, runs.to_le_bytes());
    }
    let sums = encode_runs(runs, count, rest);
    encode_sums(crcs, payload, sums);
    seal(into, MAGIC, header.array);
}

/// How many header blocks there are that begin with `first`; `None` if entries don't share it.
pub(super) fn shared_blocks_at(first: &[u8]) -> Option<u32> {
    if !has_magic(first, MAGIC) {
        return None;
    }
    let (entries, runs, payload) = (PARTS.u64(first), RUNS.u32(first), PAYLOAD.u32(first));
    let possible = (2..=SHARED_MAX as u64).contains(&entries)
        && payload <= PAYLOAD_MAX
        && (entries..=u64::from(payload)).contains(&u64::from(runs));
    possible.then(|| shared_header_blocks(payload, runs, entries as u32))
}

/// What begins at a block of a ring, if it is an intact header that entries share.
pub(super) fn decode_shared<R: Ring + ?Sized>(at: u64, ring: &R) -> Option<Found> {
    let first = ring.block(at)?;
    let headers = u64::from(shared_blocks_at(first)?);
    let (count, payload) = (PARTS.u64(first) as usize, u64::from(PAYLOAD.u32(first)));
    let table = Table::read((at, headers), MAGIC, Log::Staging, ring)?;
    let (parts, rest) = table.bytes[HEADER_BYTES..].split_at_checked(count * PART_BYTES)?;
    let (mut runs, mut crcs) = table.runs_and_sums(rest)?;
    let blocks: u64 = runs.iter().map(|run| u64::from(run.blocks)).sum();
    if blocks != payload || table.header.tail > table.header.entry {
        return None;
    }
    let mut entries = Vec::with_capacity(count);
    let mut payload_at = at + headers;
    for (index, part) in parts.chunks_exact(PART_BYTES).enumerate() {
        let own = PART_RUNS.u32(part) as usize;
        if own == 0 || own > runs.len() {
            return None;
        }
        let later = runs.split_off(own);
        let own = core::mem::replace(&mut runs, later);
        let blocks: usize = own.iter().map(|run| run.blocks as usize).sum();
        let later = crcs.split_off(blocks);
        let sums = core::mem::replace(&mut crcs, later);
        let header = JournalHeader {
            entry: table.header.entry + index as u64,
            open: table.header.open.saturating_add(index as u32),
            stripe: Stripe(PART_STRIPE.u64(part)),
            ..table.header
        };
        entries.extend(JournalEntry::read(header, own, sums, payload_at, ring));
        payload_at += blocks as u64;
    }
    let found = Found { header: table.header, headers, blocks: headers + payload, entries };
    runs.is_empty().then_some(found)
}
