//! A member's ring with forged entries.

use raidcore::meta::{
    FORMAT, JournalEntry, JournalHeader, JournalRun, Log, checksum, encode_journal_header,
    journal_header_blocks, scan_journal,
};
use raidcore::units::{BLOCK_BYTES, MemberId, Set, Stripe};

use crate::choices::Choices;
use crate::images::{ARRAY, EPOCH, flip, reseal};

/// Whose ring it is.
const MEMBER: MemberId = MemberId(2);

/// Changes of a ring; more make it slow, not better.
const CHANGES_MAX: u64 = 24;

/// The longest ring, in blocks: long enough for a header of two blocks.
const RING_MAX: u64 = 1200;

/// The bytes choose the ring's length, and what is written into it.
pub fn journal(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let blocks = if choices.rarely(8) { choices.below(RING_MAX) } else { choices.below(16) };
    let mut ring = vec![0; blocks as usize * BLOCK_BYTES];
    for _ in 0..choices.below(CHANGES_MAX) {
        change(&mut ring, &mut choices);
    }
    // The end of the ring may be missing.
    if choices.rarely(8) {
        ring.truncate(choices.index(ring.len() + 1));
    }
    let entries = scan(&ring);
    are_apart(&entries, &ring);
    for entry in &entries {
        comes_back(entry, &ring);
    }
    if let Some(entry) = entries.first() {
        is_void_if_flipped(entry, &mut ring, choices.number());
    }
}

fn scan(ring: &[u8]) -> Vec<JournalEntry> {
    scan_journal(Log::Journal, (ring.len() / BLOCK_BYTES) as u64, ring, ARRAY, EPOCH, MEMBER)
}

/// Writes an entry, forges one, copies blocks, or damages a byte.
fn change(ring: &mut [u8], choices: &mut Choices<'_>) {
    if ring.is_empty() {
        return;
    }
    let blocks = ring.len() / BLOCK_BYTES;
    let block = choices.index(blocks);
    let start = block * BLOCK_BYTES;
    match choices.below(4) {
        0 => {
            let entry = entry(block as u64, choices);
            let length = entry.len().min(ring.len() - start);
            ring[start..start + length].copy_from_slice(&entry[..length]);
        }
        1 => {
            let header = choices.index(3) + 1;
            let end = ring.len().min(start + header * BLOCK_BYTES);
            forge(&mut ring[start..end], choices);
        }
        2 => {
            let from = choices.index(blocks) * BLOCK_BYTES;
            ring.copy_within(from..from + BLOCK_BYTES, start);
        }
        _ => ring[start + choices.index(BLOCK_BYTES)] ^= choices.below(0x100) as u8,
    }
}

/// An entry as the array writes it, for the place where it goes, most likely.
fn entry(at: u64, choices: &mut Choices<'_>) -> Vec<u8> {
    let long = choices.rarely(8);
    let number = choices.below(64);
    let header = JournalHeader {
        log: Log::Journal,
        open: 0,
        array: ARRAY,
        epoch: if choices.rarely(16) { choices.number() } else { EPOCH },
        entry: if choices.rarely(16) { choices.number() } else { number },
        tail: if choices.rarely(16) { choices.number() } else { number / 2 },
        member: if choices.rarely(16) { MemberId(choices.below(40) as u8) } else { MEMBER },
        at: if choices.rarely(16) { choices.below(16) } else { at },
        holders: Set::from_bits(choices.below(64)),
        stripe: Stripe(choices.below(64)),
    };
    let most = if long { 300 } else { 4 };
    let runs: Vec<JournalRun> = (0..choices.below(5))
        .map(|_| JournalRun {
            member: MemberId(choices.below(40) as u8),
            row: choices.below(300) as u32,
            blocks: choices.below(most) as u32,
        })
        .collect();
    let payload = runs.iter().map(|run| run.blocks).sum::<u32>();
    let fill = vec![choices.below(4) as u8; payload as usize * BLOCK_BYTES];
    let header_blocks = journal_header_blocks(payload, runs.len() as u32);
    let mut bytes = vec![0; header_blocks as usize * BLOCK_BYTES];
    let crcs = fill.chunks_exact(BLOCK_BYTES).map(checksum);
    encode_journal_header(&header, runs.iter().copied(), crcs, &mut bytes);
    bytes.extend(fill);
    bytes
}

/// Sets some bytes of a header and makes its checksum right.
fn forge(header: &mut [u8], choices: &mut Choices<'_>) {
    header[..8].copy_from_slice(b"EKjnl\r\n\x1a");
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    for _ in 0..choices.below(8) {
        let at = 16 + choices.index(256);
        header[at] = choices.below(0x100) as u8;
    }
    reseal(header);
}

/// Entries are found once each, by number, each within the ring and none within another.
fn are_apart(entries: &[JournalEntry], ring: &[u8]) {
    assert!(entries.is_sorted_by(|a, b| a.header.entry < b.header.entry));
    let mut places: Vec<_> = entries.iter().map(place).collect();
    places.sort_by_key(|place| place.start);
    assert!(places.windows(2).all(|pair| pair[0].end <= pair[1].start), "{places:?}");
    assert!(places.iter().all(|place| place.end <= ring.len()));
}

/// The bytes of an entry in the ring.
fn place(entry: &JournalEntry) -> std::ops::Range<usize> {
    let payload = entry.crcs.len();
    let header = journal_header_blocks(payload as u32, entry.runs.len() as u32) as usize;
    let start = entry.header.at as usize * BLOCK_BYTES;
    start..start + (header + payload) * BLOCK_BYTES
}

/// An entry that was found is whole, and the same if it is encoded again.
fn comes_back(entry: &JournalEntry, ring: &[u8]) {
    let header = &entry.header;
    assert_eq!((header.array, header.epoch, header.member), (ARRAY, EPOCH, MEMBER));
    assert!(header.tail <= header.entry && header.entry <= 1 << 62);
    let payload: u64 = entry.runs.iter().map(|run| u64::from(run.blocks)).sum();
    assert!(payload == entry.crcs.len() as u64 && entry.runs.iter().all(|run| run.blocks > 0));

    let place = place(entry);
    let mut again = ring[place.clone()].to_vec();
    let header_bytes = again.len() - entry.crcs.len() * BLOCK_BYTES;
    let (head, payload) = again.split_at_mut(header_bytes);
    let crcs = payload.chunks_exact(BLOCK_BYTES).map(checksum);
    assert!(crcs.clone().eq(entry.crcs.iter().copied()));
    // An array never writes beyond a chunk's last block.
    if entry.runs.iter().all(|run| run.row + run.blocks <= u32::from(u16::MAX)) {
        encode_journal_header(header, entry.runs.iter().copied(), crcs, head);
        let mut rewritten = vec![0; place.start];
        rewritten.extend(again);
        assert_eq!(scan(&rewritten), std::slice::from_ref(entry));
    }
}

fn is_void_if_flipped(entry: &JournalEntry, ring: &mut [u8], which: u64) {
    let place = place(entry);
    let bit = place.start * 8 + (which % (place.len() as u64 * 8)) as usize;
    flip(ring, bit);
    let still = scan(ring).iter().any(|found| found.header.at == entry.header.at);
    assert!(!still, "bit {bit}");
    flip(ring, bit);
}
