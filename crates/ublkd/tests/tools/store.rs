//! Blocks in memory, as a volume's back end.

use std::collections::BTreeMap;

use raidcore::engine::Op;
use raidcore::units::{BLOCK_BYTES, Lba};
use ublkd::volume::Submit;

/// Carries out a request; a block that is not there reads as zeros.
pub(crate) fn serve(content: &mut BTreeMap<u64, Vec<u8>>, request: Submit, buffer: &mut [u8]) {
    let Submit { op, lba: Lba(first), blocks, edges, .. } = request;
    let end = first + u64::from(blocks);
    let pieces = buffer.chunks_exact_mut(BLOCK_BYTES);
    match op {
        Op::Flush => {}
        Op::Read => {
            for (lba, piece) in (first..end).zip(pieces) {
                match content.get(&lba) {
                    Some(block) => piece.copy_from_slice(block),
                    None => piece.fill(0),
                }
            }
        }
        Op::Write => {
            for (lba, piece) in (first..end).zip(pieces) {
                let block = content.entry(lba).or_insert_with(|| vec![0; BLOCK_BYTES]);
                let from = if lba == first { edges.front.into() } else { 0 };
                let to = if lba + 1 == end {
                    BLOCK_BYTES - usize::from(edges.back)
                } else {
                    BLOCK_BYTES
                };
                block[from..to].copy_from_slice(&piece[from..to]);
            }
        }
        Op::Discard | Op::WriteZeroes => {
            let kept = |lba: u64, bytes: std::ops::Range<usize>| {
                content.get(&lba).map(|block| (lba, bytes.clone(), block[bytes].to_vec()))
            };
            let front = kept(first, 0..edges.front.into());
            let back = kept(end - 1, BLOCK_BYTES - usize::from(edges.back)..BLOCK_BYTES);
            let mut behind = content.split_off(&first);
            content.append(&mut behind.split_off(&end));
            for (lba, range, bytes) in front.into_iter().chain(back) {
                if !range.is_empty() {
                    let block = content.entry(lba).or_insert_with(|| vec![0; BLOCK_BYTES]);
                    block[range].copy_from_slice(&bytes);
                }
            }
        }
    }
}
