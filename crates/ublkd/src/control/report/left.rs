//! What work in the background could not do.

use evenkeel_client::{ByteRange, LeftReport, Unreadable};
use raidcore::engine::LeftStripe;
use raidcore::units::BLOCK_BYTES;

/// The most ranges that a report has of a stripe, of each kind.
const RANGES_MAX: usize = 64;

pub(super) fn left_report(left: &LeftStripe) -> LeftReport {
    let range = |at: u64, blocks: u64| {
        let [offset, bytes] = [at, blocks].map(|blocks| blocks * BLOCK_BYTES as u64);
        ByteRange::from((offset, bytes))
    };
    let lost = left.lost.iter().map(|&(at, blocks)| range(at.0, blocks));
    let unreadable = left
        .unreadable
        .iter()
        .map(|&(member, at, blocks)| Unreadable { member: member.0, range: range(at.0, blocks) });
    LeftReport {
        stripe: left.stripe.0,
        range: range(left.at.0, left.blocks),
        lost: lost.take(RANGES_MAX).collect(),
        unreadable: unreadable.take(RANGES_MAX).collect(),
    }
}
