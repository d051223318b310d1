//! The entries of a member's two rings. The stripe journal holds all blocks of a write before they
//! are written to their stripe. The staging log holds blocks that were written there instead of at
//! home.
//!
//! Invariants:
//! - An entry is contiguous: header blocks, then payload. One that does not fit before the ring's
//!   end begins at the ring's start.
//! - A header names its own place (member and block of the ring) and run (array and epoch).
//! - An entry's blocks are overwritten, and its stripe is written without the journal, only after a
//!   durable header in the same ring has a greater tail.
//!
//! Payload can't pass for an entry. Users may write a copy of a header of this very array (an image
//! of a member, say). The scan skips the payload of an intact entry. So it sees payload only if the
//! entry's header is gone or damaged, or its write was torn, or it lies under a header that entries share and
//! is not intact: what was written there later is found. A copied header is accepted only at
//! the same place in the same member's ring and in the same epoch as its original. The original has
//! been overwritten, so it was below a durable tail, and its copy is not live. A user who forges a
//! header could at most write blocks of the array, which users can do anyway.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::codec::{has_magic, seal};
use super::headers::{
    CRC_BYTES, Found, HEADER_BYTES, JournalEntry, JournalHeader, JournalRun, Log, PAYLOAD,
    PAYLOAD_MAX, RUN_BYTES, RUNS, Ring, Table, encode_fields, encode_runs, encode_sums,
};
use super::record::ArrayId;
use super::shared::{decode_shared, shared_blocks_at};
use crate::units::{BLOCK_BYTES, MemberId, Pba, Stripe};

/// An entry to be replayed before the array may be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    /// Its number.
    pub entry: u64,
    /// The stripe that is written.
    pub stripe: Stripe,
    /// The members that have it, and where its payload begins on each.
    pub copies: Vec<(MemberId, Pba)>,
    /// The blocks to write: all that no later entry overwrites.
    pub runs: Vec<ReplayRun>,
    /// The member whose blocks a [partial entry](JournalHeader::left_out) leaves out.
    pub left_out: Option<MemberId>,
}

impl Replay {
    /// The number of what is in no entry, but is to be written where it is.
    pub(crate) const IN_PLACE: u64 = u64::MAX;
}

/// Consecutive blocks of an entry that are to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayRun {
    /// Where they belong.
    pub to: JournalRun,
    /// Which block of the payload is the first of them.
    pub from: u32,
}

impl ReplayRun {
    /// Whether a block of the payload belongs to it.
    pub(super) fn reads(&self, index: u32) -> bool {
        (self.from..self.from + self.to.blocks).contains(&index)
    }
}

/// How many header blocks an entry has.
#[must_use]
pub fn header_blocks(payload_blocks: u32, runs: u32) -> u32 {
    let bytes = HEADER_BYTES + runs as usize * RUN_BYTES + payload_blocks as usize * CRC_BYTES;
    bytes.div_ceil(BLOCK_BYTES) as u32
}

/// Writes an entry's header blocks. `crcs` gives the [`checksum`](super::checksum()) of each payload block, in order;
/// it is empty for runs of the staging log that are at home. Does not allocate.
///
/// # Panics
/// If `into` is not [`header_blocks`] blocks long, or a run reaches beyond block 65535 of a chunk.
pub fn encode_header(
    header: &JournalHeader,
    runs: impl Iterator<Item = JournalRun> + Clone,
    crcs: impl Iterator<Item = u32>,
    into: &mut [u8],
) {
    let mut crcs = crcs.peekable();
    let bare = header.log == Log::Staging && crcs.peek().is_none();
    let (count, blocks) = runs.clone().fold((0, 0), |(n, sum), run| (n + 1, sum + run.blocks));
    let payload = if bare { 0 } else { blocks };
    assert_eq!(into.len(), header_blocks(payload, count) as usize * BLOCK_BYTES);
    into.fill(0);
    encode_fields(header, (count, payload), into);
    let sums = encode_runs(runs, count, &mut into[HEADER_BYTES..]);
    encode_sums(crcs, payload, sums);
    seal(into, header.log.magic(), header.array);
}

/// The entries of an epoch in a member's ring of `blocks` blocks whose header and payload are
/// intact, by their number.
#[must_use]
pub fn scan<R: Ring + ?Sized>(
    log: Log,
    blocks: u64,
    ring: &R,
    array: ArrayId,
    epoch: u64,
    member: MemberId,
) -> Vec<JournalEntry> {
    let (mut entries, mut payload) = (Vec::new(), BTreeMap::new());
    let mut at = 0;
    while at < blocks {
        if let Some(intact) = payload.remove(&at) {
            at += intact;
            continue;
        }
        let found = decode(log, at, ring).filter(|found| {
            let JournalHeader { array: of, epoch: run, member: holder, at: place, .. } =
                found.header;
            (of, run, holder, place) == (array, epoch, member, at) && at + found.blocks <= blocks
        });
        let Some(found) = found else {
            at += 1;
            continue;
        };
        let of = |entry: &JournalEntry| (entry.payload_at, entry.crcs.len() as u64);
        payload.extend(found.entries.iter().map(of).filter(|&(_, intact)| intact > 0));
        at += found.headers;
        entries.extend(found.entries);
    }
    entries.sort_by_key(|entry: &JournalEntry| entry.header.entry);
    entries.dedup_by_key(|entry| entry.header.entry);
    entries
}

/// How many header blocks an entry has that begins with `first`, or entries that share them; `None` if none
/// begins with it.
pub(super) fn header_blocks_at(log: Log, first: &[u8]) -> Option<u32> {
    if !has_magic(first, log.magic()) {
        return shared_blocks_at(first).filter(|_| log == Log::Staging);
    }
    let (runs, payload) = (RUNS.u32(first), PAYLOAD.u32(first));
    let runs_max = if is_bare(log, payload) { PAYLOAD_MAX } else { payload };
    (payload <= PAYLOAD_MAX && runs <= runs_max).then(|| header_blocks(payload, runs))
}

/// Whether an entry with this much payload has runs without payload.
fn is_bare(log: Log, payload: u32) -> bool {
    log == Log::Staging && payload == 0
}

/// What begins at a block of a ring, if it is an intact header, with an intact entry or with several that share
/// it.
fn decode<R: Ring + ?Sized>(log: Log, at: u64, ring: &R) -> Option<Found> {
    let first = ring.block(at)?;
    let headers = u64::from(header_blocks_at(log, first)?);
    if !has_magic(first, log.magic()) {
        return decode_shared(at, ring);
    }
    let payload = PAYLOAD.u32(first);
    let table = Table::read((at, headers), log.magic(), log, ring)?;
    let (runs, crcs) = table.runs_and_sums(&table.bytes[HEADER_BYTES..])?;
    let blocks: u64 = runs.iter().map(|run| u64::from(run.blocks)).sum();
    let header = table.header;
    if !is_bare(log, payload) && blocks != u64::from(payload) || header.tail > header.entry {
        return None;
    }
    let entry = JournalEntry::read(header, runs, crcs, at + headers, ring)?;
    let blocks = headers + u64::from(payload);
    Some(Found { header, headers, blocks, entries: [entry].into() })
}
