//! Bands: runs of rows in which the request covers every role wholly or not at all.

use alloc::vec::Vec;

use super::{Health, Piece, Plan};
use crate::geometry::Role;
use crate::units::{Mem, Set};

/// A band, with the properties that its rows share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    /// The first row.
    pub(super) row: u32,
    /// How many rows.
    pub(super) blocks: u32,
    /// The data chunks that the request covers.
    pub(super) covered: Set<Role>,
    /// The roles that can be read.
    pub(super) readable: Set<Role>,
}

/// The bands into which `pieces` and bad rows cut the rows `from..to`, in order. The list of cuts
/// is taken from `plan`, and the caller has to give it back through [`restore`].
pub(super) fn cut(
    plan: &mut Plan,
    pieces: &[Piece],
    health: &Health<'_>,
    whole: Option<(u32, u32)>,
) -> Vec<u32> {
    let mut cuts = core::mem::take(&mut plan.cuts);
    cuts.clear();
    let ends = pieces.iter().flat_map(|p| [p.row, p.row + p.blocks]);
    cuts.extend(ends.chain(whole.into_iter().flat_map(|(from, to)| [from, to])));
    let (low, high) =
        (cuts.iter().copied().min().unwrap_or(0), cuts.iter().copied().max().unwrap_or(0));
    let bad = health.bad.iter().flat_map(|b| [b.row, b.row + b.blocks]);
    cuts.extend(bad.filter(|&row| low < row && row < high));
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Gives the list of cuts back.
pub(super) fn restore(plan: &mut Plan, cuts: Vec<u32>) {
    plan.cuts = cuts;
}

/// The bands between cuts.
pub(super) fn bands<'a>(
    cuts: &'a [u32],
    pieces: &'a [Piece],
    health: &'a Health<'_>,
) -> impl Iterator<Item = Band> + 'a {
    cuts.windows(2).map(|ends| {
        let (row, end) = (ends[0], ends[1]);
        let covered = pieces
            .iter()
            .filter(|p| p.row <= row && row < p.row + p.blocks)
            .fold(Set::EMPTY, |set, p| set.with(p.role));
        let readable = health
            .bad
            .iter()
            .filter(|b| b.row < end && row < b.row + b.blocks)
            .fold(health.readable, |set, b| set.without(b.role));
        Band { row, blocks: end - row, covered, readable }
    })
}

/// The user's memory for the rows of a covered role.
pub(super) fn payload(pieces: &[Piece], band: &Band, role: Role) -> Option<Mem> {
    pieces
        .iter()
        .find(|p| p.role == role && p.row <= band.row && band.row < p.row + p.blocks)
        .map(|p| p.mem.plus(band.row - p.row))
}
