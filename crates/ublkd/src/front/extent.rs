//! A request's blocks, in pieces that fit into buffers of the volume.

use raidcore::units::{BLOCK_BYTES, Lba};

use crate::volume::{Edges, Touched, Volume};

/// A range of blocks in pieces: whole stripes where possible, so that cutting a large write does
/// not make partial ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    lba: u64,
    blocks: u64,
    edges: Edges,
    /// Pieces end at multiples of this.
    unit: u64,
}

impl Extent {
    /// Pieces of at most `most` blocks.
    pub(crate) fn new(of: Touched, most: u32, volume: &Volume) -> Self {
        let Touched { lba, blocks, edges } = of;
        let whole = |size: u32| most.checked_rem(size).map(|rest| most - rest);
        let unit = whole(volume.stripe_blocks()).filter(|unit| *unit > 0).unwrap_or(most);
        let unit = if blocks <= u64::from(most) { u64::MAX } else { u64::from(unit) };
        Self { lba, blocks, edges, unit }
    }

    /// How many pieces; at least one.
    pub(crate) fn pieces(&self) -> u32 {
        let last = self.lba + self.blocks.saturating_sub(1);
        // A request has at most 2^20 blocks.
        (last / self.unit - self.lba / self.unit + 1) as u32
    }

    /// The address and size of a piece, and the bytes at its edges that are not part of the
    /// request.
    pub(crate) fn piece(&self, index: u32) -> (Lba, u32, Edges) {
        let first = (self.lba / self.unit + u64::from(index)).saturating_mul(self.unit);
        let start = first.max(self.lba);
        let end = first.saturating_add(self.unit).min(self.lba + self.blocks);
        let front = if start == self.lba { self.edges.front } else { 0 };
        let back = if end == self.lba + self.blocks { self.edges.back } else { 0 };
        (Lba(start), (end - start) as u32, Edges { front, back })
    }

    /// The address of the first byte.
    pub(crate) fn offset(&self) -> u64 {
        self.lba * BLOCK_BYTES as u64 + u64::from(self.edges.front)
    }

    /// The size in bytes, of what is read or written.
    pub(crate) fn bytes(&self) -> u32 {
        self.edges.within(self.blocks as u32).len() as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::volume::VolumeConfig;

    fn extent(lba: u64, blocks: u64, most: u32, stripe_blocks: u32) -> Extent {
        let (volume, _submissions) = Volume::channel(VolumeConfig {
            name: "tank".to_owned(),
            blocks: 1 << 40,
            chunk_blocks: 1,
            stripe_blocks,
            discard_blocks: stripe_blocks,
            max_request_blocks: 1,
            tags: 1,
        });
        Extent::new(Touched { lba, blocks, edges: Edges { front: 3, back: 5 } }, most, &volume)
    }

    proptest! {
        #[test]
        fn pieces_cover_an_extent_in_order(
            lba in 0u64..1 << 40, blocks in 1u64..5000, most in 1u32..300, stripe in 0u32..100,
        ) {
            let extent = extent(lba, blocks, most, stripe);
            let mut at = lba;
            for piece in 0..extent.pieces() {
                let (start, length, edges) = extent.piece(piece);
                prop_assert_eq!(start, Lba(at));
                let (first, last) = (piece == 0, piece + 1 == extent.pieces());
                prop_assert_eq!((edges.front > 0, edges.back > 0), (first, last));
                prop_assert!(0 < length && length <= most);
                at += u64::from(length);
                let whole = stripe > 0 && stripe <= most && blocks > most.into();
                if whole && at < lba + blocks {
                    prop_assert_eq!(at % u64::from(stripe), 0, "a stripe was cut");
                }
            }
            prop_assert_eq!(at, lba + blocks);
        }
    }

    #[test]
    fn what_fits_a_buffer_is_one_piece() {
        let extent = extent(63, 16, 16, 4);
        let edges = Edges { front: 3, back: 5 };
        assert_eq!((extent.pieces(), extent.piece(0)), (1, (Lba(63), 16, edges)));
        assert_eq!((extent.offset(), extent.bytes()), (63 * 4096 + 3, 16 * 4096 - 8));
    }
}
