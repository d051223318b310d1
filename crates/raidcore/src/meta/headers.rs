//! Headers of entries in a member's rings: their fields, and what follows them.

use alloc::vec::Vec;

use super::checksum::checksum;
use super::codec::{Field, PREFIX_BYTES, open};
use super::record::ArrayId;
use crate::units::{BLOCK_BYTES, MEMBERS_MAX, MemberId, Set, Stripe};

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
    pub(super) fn magic(self) -> [u8; 8] {
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
