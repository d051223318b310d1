//! Ranges of bytes as blocks.

use raidcore::units::{BLOCK_BYTES, Lba};

/// The bytes of a request's first and last block that are not part of it; each number is less than
/// a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Edges {
    /// At the beginning of the first block.
    pub front: u16,
    /// At the end of the last block.
    pub back: u16,
}

impl Edges {
    /// Whole blocks.
    pub const NONE: Self = Self { front: 0, back: 0 };

    /// Whether the blocks are whole.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// The range of the request's bytes in a buffer that begins with `blocks` blocks.
    #[must_use]
    pub fn within(self, blocks: u32) -> std::ops::Range<usize> {
        usize::from(self.front)..blocks as usize * BLOCK_BYTES - usize::from(self.back)
    }
}

/// The blocks that a range of bytes touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Touched {
    pub(crate) lba: u64,
    pub(crate) blocks: u64,
    pub(crate) edges: Edges,
}

impl Touched {
    /// The blocks of `length` bytes from `offset` on; none if the end overflows.
    pub(crate) fn by(offset: u64, length: u64) -> Option<Self> {
        const BLOCK: u64 = BLOCK_BYTES as u64;
        let end = offset.checked_add(length)?;
        let (lba, last) = (offset / BLOCK, end.div_ceil(BLOCK));
        if length == 0 {
            return Some(Self { lba, blocks: 0, edges: Edges::NONE });
        }
        let (front, back) = (offset % BLOCK, (BLOCK - end % BLOCK) % BLOCK);
        // Less than a block each.
        let edges = Edges { front: front as u16, back: back as u16 };
        Some(Self { lba, blocks: last - lba, edges })
    }
}

impl Touched {
    /// Takes at most so many blocks off the front.
    pub(crate) fn cut(&mut self, most: u32) -> (Lba, u32, Edges) {
        let lba = Lba(self.lba);
        let blocks = u32::try_from(self.blocks).unwrap_or(u32::MAX).min(most);
        self.lba += u64::from(blocks);
        self.blocks -= u64::from(blocks);
        let back = if self.blocks == 0 { self.edges.back } else { 0 };
        let front = std::mem::take(&mut self.edges.front);
        (lba, blocks, Edges { front, back })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_edges_of_the_whole() {
        let mut touched = Touched::by(100, 5 * 4096).expect("a range");
        let edges = |front, back| Edges { front, back };
        assert_eq!(touched.cut(2), (Lba(0), 2, edges(100, 0)));
        assert_eq!(touched.cut(3), (Lba(2), 3, edges(0, 0)));
        assert_eq!(touched.cut(3), (Lba(5), 1, edges(0, 3996)));
        assert_eq!(touched.blocks, 0);
    }

    #[test]
    fn each_byte_is_in_its_block() {
        for offset in [0, 1, 511, 4095, 4096, 4097, 8191, 12_288] {
            for length in [0, 1, 2, 512, 4095, 4096, 4097, 8192, 9000] {
                let touched = Touched::by(offset, length).expect("a range");
                let bytes = touched.blocks * 4096;
                let left = u64::from(touched.edges.front) + u64::from(touched.edges.back);
                assert_eq!(bytes - left, length, "{offset} {length}");
                if length > 0 {
                    assert_eq!(touched.lba * 4096 + u64::from(touched.edges.front), offset);
                    assert!(touched.edges.front < 4096 && touched.edges.back < 4096);
                    let meant = touched.edges.within(touched.blocks as u32);
                    assert_eq!(meant.len() as u64, length);
                }
                let aligned = offset % 4096 == 0 && length % 4096 == 0;
                assert!(!aligned || touched.edges.is_none());
            }
        }
        assert_eq!(Touched::by(u64::MAX, 2), None);
        assert!(Touched::by(u64::MAX - 1, 1).is_some());
    }
}
