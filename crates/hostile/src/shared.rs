//! A member's part of the staging log with entries that share a header, some of them forged.

use raidcore::meta::{
    FORMAT, JournalEntry, JournalHeader, JournalRun, Log, SHARED_MAX, checksum, encode_shared,
    scan_journal, shared_header_blocks,
};
use raidcore::units::{BLOCK_BYTES, MemberId, Set, Stripe};

use crate::choices::Choices;
use crate::images::{ARRAY, EPOCH, reseal};

/// Whose log it is.
const MEMBER: MemberId = MemberId(2);

/// Blocks of it.
const RING: usize = 48;

/// The bytes choose what is written into it.
pub fn shared(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut ring = vec![0; RING * BLOCK_BYTES];
    for _ in 0..choices.below(6) {
        change(&mut ring, &mut choices);
    }
    let found = scan(&ring);
    are_apart(&found);
    comes_back(&mut choices);
}

fn scan(ring: &[u8]) -> Vec<JournalEntry> {
    let blocks = (ring.len() / BLOCK_BYTES) as u64;
    scan_journal(Log::Staging, blocks, ring, ARRAY, EPOCH, MEMBER)
}

/// Writes entries that share a header, forges one, or damages a byte.
fn change(ring: &mut [u8], choices: &mut Choices<'_>) {
    let block = choices.index(RING);
    let start = block * BLOCK_BYTES;
    match choices.below(3) {
        0 => {
            let (bytes, _) = entries(block as u64, choices);
            let length = bytes.len().min(ring.len() - start);
            ring[start..start + length].copy_from_slice(&bytes[..length]);
        }
        1 => {
            let header = &mut ring[start..start + BLOCK_BYTES];
            header[..8].copy_from_slice(b"EKshr\r\n\x1a");
            header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
            for _ in 0..choices.below(8) {
                header[16 + choices.index(256)] = choices.below(0x100) as u8;
            }
            reseal(header);
        }
        _ => ring[start + choices.index(BLOCK_BYTES)] ^= choices.below(0x100) as u8,
    }
}

/// Entries with a header at a block, and of each its stripe and its runs.
fn entries(at: u64, choices: &mut Choices<'_>) -> (Vec<u8>, Vec<(Stripe, Vec<JournalRun>)>) {
    let header = JournalHeader {
        log: Log::Staging,
        array: ARRAY,
        epoch: EPOCH,
        entry: 8 + choices.below(64),
        tail: choices.below(9),
        open: choices.below(4) as u32,
        member: MEMBER,
        at,
        holders: Set::from_bits(choices.below(64)),
        stripe: Stripe(0),
    };
    let parts: Vec<(Stripe, Vec<JournalRun>)> = (0..2 + choices.below(4))
        .map(|_| {
            let stripe = Stripe(choices.below(64));
            let runs = (0..1 + choices.below(3)).map(|_| JournalRun {
                member: MemberId(choices.below(40) as u8),
                row: choices.below(300) as u32,
                blocks: 1 + choices.below(3) as u32,
            });
            (stripe, runs.collect())
        })
        .collect();
    let runs = parts.iter().flat_map(|(_, runs)| runs).copied();
    let payload: u32 = runs.clone().map(|run| run.blocks).sum();
    let blocks = shared_header_blocks(payload, runs.clone().count() as u32, parts.len() as u32);
    let mut bytes = vec![0; blocks as usize * BLOCK_BYTES];
    let fill: Vec<u8> = (0..payload)
        .flat_map(|block| [block as u8 ^ choices.below(4) as u8; BLOCK_BYTES])
        .collect();
    let of_part = parts.iter().map(|(stripe, runs)| (*stripe, runs.len() as u32));
    encode_shared(&header, of_part, runs, fill.chunks_exact(BLOCK_BYTES).map(checksum), &mut bytes);
    bytes.extend(fill);
    (bytes, parts)
}

/// Entries are found once each, by number, each within the log, and no two have a block of payload in common.
fn are_apart(entries: &[JournalEntry]) {
    assert!(entries.is_sorted_by(|a, b| a.header.entry < b.header.entry));
    let place = |entry: &JournalEntry| {
        assert!(entry.header.at < entry.payload_at && entry.header.tail <= entry.header.entry);
        (entry.payload_at, entry.payload_at + entry.crcs.len() as u64)
    };
    let mut places: Vec<_> = entries.iter().map(place).collect();
    places.sort_unstable();
    assert!(places.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{places:?}");
    assert!(places.iter().all(|&(_, end)| end <= RING as u64));
}

/// Each is found as it was written. If a block of its payload is damaged, it is not, and the others are.
fn comes_back(choices: &mut Choices<'_>) {
    let (bytes, parts) = entries(0, choices);
    assert!(parts.len() <= SHARED_MAX);
    let mut ring = bytes;
    let found = scan(&ring);
    assert_eq!(found.len(), parts.len());
    let first = found[0].header;
    for ((number, entry), (stripe, runs)) in (0..).zip(&found).zip(&parts) {
        assert_eq!((entry.header.stripe, &entry.runs), (*stripe, runs));
        assert_eq!(entry.header.entry, first.entry + number);
        assert_eq!(entry.header.open, first.open + number as u32);
        let payload = &ring[entry.payload_at as usize * BLOCK_BYTES..];
        let sums = payload.chunks_exact(BLOCK_BYTES).take(entry.crcs.len()).map(checksum);
        assert!(sums.eq(entry.crcs.iter().copied()));
    }
    let hurt = choices.index(found.len());
    let byte = found[hurt].payload_at as usize * BLOCK_BYTES + choices.index(BLOCK_BYTES);
    ring[byte] ^= 1;
    let mut left = found;
    left.remove(hurt);
    assert_eq!(scan(&ring), left);
}
