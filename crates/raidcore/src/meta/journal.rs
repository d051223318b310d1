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

use super::checksum::checksum;
use super::codec::{Field, PREFIX_BYTES, has_magic, open, seal};
use super::record::ArrayId;
use super::shared::{decode_shared, shared_blocks_at};
use crate::units::{BLOCK_BYTES, MEMBERS_MAX, MemberId, Pba, Set, Stripe};

const EPOCH: Field<8> = Field { at: PREFIX_BYTES };
const ENTRY: Field<8> = EPOCH.then();
const TAIL: Field<8> = ENTRY.then();
pub(super) const STRIPE: Field<8> = TAIL.then();
const HOLDERS: Field<8> = STRIPE.then();
const AT: Field<8> = HOLDERS.then();
const MEMBER: Field<4> = AT.then();
pub(super) const RUNS: Field<4> = MEMBER.then();
pub(super) const PAYLOAD: Field<4> = RUNS.then();
const OPEN: Field<4> = PAYLOAD.then();
pub(super) const HEADER_BYTES: usize = OPEN.end();

const RUN_MEMBER: Field<2> = Field { at: 0 };
const RUN_ROW: Field<2> = RUN_MEMBER.then();
const RUN_BLOCKS: Field<2> = RUN_ROW.then();
const RUN_RESERVED: Field<2> = RUN_BLOCKS.then();
pub(super) const RUN_BYTES: usize = RUN_RESERVED.end();
pub(super) const CRC_BYTES: usize = 4;

const _: () = assert!(HEADER_BYTES == 96 && RUN_BYTES == 8);

/// The most payload blocks of an entry: a whole stripe of the largest shape.
pub(super) const PAYLOAD_MAX: u32 = MEMBERS_MAX as u32 * 256;

/// Which of the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Log {
    /// The stripe journal.
    Journal,
    /// The staging log.
    Staging,
}

impl Log {
    fn magic(self) -> [u8; 8] {
        match self {
            Self::Journal => *b"EKjnl\r\n\x1a",
            Self::Staging => *b"EKstg\r\n\x1a",
        }
    }
}

/// The fields of an entry's header, apart from its runs and checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalHeader {
    /// In which ring.
    pub log: Log,
    /// Which array.
    pub array: ArrayId,
    /// In the journal, the run of the array in which it was written; in the staging log, how often
    /// the log had been emptied.
    pub epoch: u64,
    /// Its number; entries of an epoch count up, over all members.
    pub entry: u64,
    /// The oldest entry that a replay had to carry out when this one was written, in this ring (of
    /// the staging log: in all rings); its own number if there was none older.
    pub tail: u64,
    /// In the staging log, how many of the last entries before this one may be missing on some of
    /// their holders. In the journal, 0; or of a [partial entry](Self::left_out), one more than the
    /// member's number.
    pub open: u32,
    /// The member whose ring holds it.
    pub member: MemberId,
    /// At which block of the ring.
    pub at: u64,
    /// The members that got a copy.
    pub holders: Set<MemberId>,
    /// The stripe whose blocks it holds.
    pub stripe: Stripe,
}

impl JournalHeader {
    /// What [`open`](Self::open) is in an entry of the journal, by the member that it leaves out.
    #[must_use]
    pub fn open_of(left_out: Option<MemberId>) -> u32 {
        left_out.map_or(0, |member| u32::from(member.0) + 1)
    }

    /// The member whose blocks a partial entry of the journal leaves out (partial parity, as PPL of
    /// Linux md). Its runs are of the parity members, and its payload is what parity would be if all
    /// blocks of that member's in these rows were zeros. So parity can be made to agree with that
    /// member's blocks, old or new.
    #[must_use]
    pub fn left_out(&self) -> Option<MemberId> {
        let number = self.open.checked_sub(1).filter(|_| self.log == Log::Journal)?;
        // A number that no member has is refused with the entry.
        Some(MemberId(u8::try_from(number).unwrap_or(u8::MAX)))
    }
}

/// Consecutive blocks of one member in an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalRun {
    /// The member that they belong to.
    pub member: MemberId,
    /// The first, counted from the start of the member's chunk.
    pub row: u32,
    /// How many.
    pub blocks: u32,
}

/// An intact entry, as far as it can be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalEntry {
    /// What its header says.
    pub header: JournalHeader,
    /// The blocks in its payload, in order. An entry without runs only records the tail. In the
    /// staging log, runs without payload are of blocks that are at home.
    pub runs: Vec<JournalRun>,
    /// The [`checksum`] of each payload block.
    pub crcs: Vec<u32>,
    /// At which block of the ring its payload begins.
    pub payload_at: u64,
    /// The payload blocks that can't be read. There are none in the journal, where an entry has to
    /// be whole.
    pub unreadable: Vec<u32>,
}

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

/// Writes an entry's header blocks. `crcs` gives the [`checksum`] of each payload block, in order;
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

/// Writes the fields of a header, which has so many runs, and blocks of payload.
pub(super) fn encode_fields(header: &JournalHeader, (runs, payload): (u32, u32), into: &mut [u8]) {
    EPOCH.put(into, header.epoch.to_le_bytes());
    ENTRY.put(into, header.entry.to_le_bytes());
    TAIL.put(into, header.tail.to_le_bytes());
    STRIPE.put(into, header.stripe.0.to_le_bytes());
    HOLDERS.put(into, header.holders.bits().to_le_bytes());
    AT.put(into, header.at.to_le_bytes());
    MEMBER.put(into, u32::from(header.member.0).to_le_bytes());
    RUNS.put(into, runs.to_le_bytes());
    PAYLOAD.put(into, payload.to_le_bytes());
    OPEN.put(into, header.open.to_le_bytes());
}

/// Writes so many runs, and gives back what is behind them.
pub(super) fn encode_runs(
    runs: impl Iterator<Item = JournalRun>,
    count: u32,
    into: &mut [u8],
) -> &mut [u8] {
    let (table, behind) = into.split_at_mut(count as usize * RUN_BYTES);
    for (bytes, run) in table.chunks_exact_mut(RUN_BYTES).zip(runs) {
        assert!(run.row + run.blocks <= u32::from(u16::MAX));
        RUN_MEMBER.put(bytes, u16::from(run.member.0).to_le_bytes());
        RUN_ROW.put(bytes, (run.row as u16).to_le_bytes());
        RUN_BLOCKS.put(bytes, (run.blocks as u16).to_le_bytes());
    }
    behind
}

/// Writes the checksums of so many blocks.
pub(super) fn encode_sums(crcs: impl Iterator<Item = u32>, payload: u32, into: &mut [u8]) {
    for (bytes, crc) in into.chunks_exact_mut(CRC_BYTES).zip(crcs.take(payload as usize)) {
        bytes.copy_from_slice(&crc.to_le_bytes());
    }
}

/// A member's ring, block by block.
pub trait Ring {
    /// A block; `None` if it can't be read. A block that can't belong to a header may be left out,
    /// too.
    fn block(&self, at: u64) -> Option<&[u8]>;

    /// The [`checksum`] of any block; nothing if it can't be read.
    fn sum(&self, at: u64) -> Option<u32> {
        self.block(at).map(checksum)
    }
}

/// Read whole; blocks beyond the end can't be read.
impl Ring for [u8] {
    fn block(&self, at: u64) -> Option<&[u8]> {
        self.chunks_exact(BLOCK_BYTES).nth(usize::try_from(at).ok()?)
    }
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

/// What a header holds, and its bytes.
pub(super) struct Table {
    pub(super) header: JournalHeader,
    pub(super) bytes: Vec<u8>,
}

impl Table {
    /// So many header blocks from a block of a ring on, if they are intact.
    pub(super) fn read<R: Ring + ?Sized>(
        (at, blocks): (u64, u64),
        magic: [u8; 8],
        log: Log,
        ring: &R,
    ) -> Option<Self> {
        let mut bytes = Vec::with_capacity(blocks as usize * BLOCK_BYTES);
        for at in at..at + blocks {
            bytes.extend_from_slice(ring.block(at)?);
        }
        let array = open(&bytes, magic).ok()?;
        let header = JournalHeader {
            log,
            array,
            epoch: EPOCH.u64(&bytes),
            entry: ENTRY.count(&bytes, "entry").ok()?,
            tail: TAIL.u64(&bytes),
            open: OPEN.u32(&bytes),
            member: MemberId(u8::try_from(MEMBER.u32(&bytes)).ok()?),
            at: AT.u64(&bytes),
            holders: Set::from_bits(HOLDERS.u64(&bytes)),
            stripe: Stripe(STRIPE.u64(&bytes)),
        };
        Some(Self { header, bytes })
    }

    /// The runs, which are the first of these bytes, and the checksums behind them.
    pub(super) fn runs_and_sums(&self, tables: &[u8]) -> Option<(Vec<JournalRun>, Vec<u32>)> {
        let (runs, payload) = (RUNS.u32(&self.bytes) as usize, PAYLOAD.u32(&self.bytes) as usize);
        let (table, sums) = tables.split_at_checked(runs * RUN_BYTES)?;
        let runs = table.chunks_exact(RUN_BYTES).map(decode_run).collect::<Option<_>>()?;
        let crc_of = |raw| Field::<CRC_BYTES> { at: 0 }.u32(raw);
        Some((runs, sums.chunks_exact(CRC_BYTES).take(payload).map(crc_of).collect()))
    }
}

/// An intact header, and the entries whose header it is, as far as they are intact.
pub(super) struct Found {
    /// The header of the first.
    pub(super) header: JournalHeader,
    /// Its blocks.
    pub(super) headers: u64,
    /// Those, and the blocks of the payload of all.
    pub(super) blocks: u64,
    pub(super) entries: Vec<JournalEntry>,
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

impl JournalEntry {
    /// An entry of this header, if its payload is intact, which begins at a block of the ring.
    pub(super) fn read<R: Ring + ?Sized>(
        header: JournalHeader,
        runs: Vec<JournalRun>,
        crcs: Vec<u32>,
        payload_at: u64,
        ring: &R,
    ) -> Option<Self> {
        let mut unreadable = Vec::new();
        for ((index, at), &crc) in (0..).zip(payload_at..).zip(&crcs) {
            match ring.sum(at) {
                Some(sum) if sum == crc => {}
                None if header.log == Log::Staging => unreadable.push(index),
                Some(_) | None => return None,
            }
        }
        Some(Self { header, runs, crcs, payload_at, unreadable })
    }
}

fn decode_run(bytes: &[u8]) -> Option<JournalRun> {
    let member = MemberId(u8::try_from(RUN_MEMBER.u16(bytes)).ok()?);
    let blocks = u32::from(RUN_BLOCKS.u16(bytes));
    (blocks > 0).then(|| JournalRun { member, row: u32::from(RUN_ROW.u16(bytes)), blocks })
}
