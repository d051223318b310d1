//! A bitmap in memory, and its pages on disk.
//!
//! Invariants:
//! - `count` is the number of set bits; bits from `len` on are clear.
//! - Nothing is allocated after construction.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::codec::{CodecError, Field, PREFIX_BYTES, open, seal};
use super::record::ArrayId;
use crate::units::BLOCK_BYTES;

const MAGIC: [u8; 8] = *b"EKmap\r\n\x1a";

const KIND: Field<4> = Field { at: PREFIX_BYTES };
const INDEX: Field<4> = KIND.then();
const VERSION: Field<8> = INDEX.then();
const LENGTH: Field<8> = VERSION.then();
const RESERVED: Field<8> = LENGTH.then();
const HEADER_BYTES: usize = RESERVED.end();

/// The most bits of a map's page, which is also the default.
pub const BITS_PER_PAGE: u64 = (BLOCK_BYTES - HEADER_BYTES) as u64 * 8;

const _: () = assert!(HEADER_BYTES == 64 && BITS_PER_PAGE == 32256);
const _: () = assert!(is_page_size(BITS_PER_PAGE));

/// Whether pages can have this many bits: a multiple of 64, or a divisor of it.
pub(super) const fn is_page_size(bits: u64) -> bool {
    bits <= BITS_PER_PAGE && (bits > 0 && bits.is_multiple_of(64) || bits.is_power_of_two())
}

/// Which map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapKind {
    /// The write-intent bitmap: a bit for a region that may be out of step.
    Bitmap,
    /// The zero map: a bit for a stripe that was discarded and reads as zeros.
    ZeroMap,
    /// The map of missed regions: a bit for a region that may have changed since a member is away.
    Missed,
}

/// The versions of a page that a start has found.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PageVersions {
    /// The newest, which counts.
    pub newest: u64,
    /// The newest that is on more members than may still fail. Its place is not written over until a newer
    /// one is.
    pub durable: u64,
}

impl MapKind {
    fn number(self) -> u32 {
        match self {
            Self::Bitmap => 1,
            Self::ZeroMap => 2,
            Self::Missed => 3,
        }
    }
}

/// A bitmap whose pages go to disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BitMap {
    kind: MapKind,
    len: u64,
    count: u64,
    words: Vec<u64>,
    /// Of a page.
    page_bits: u64,
}

/// A page that came from a disk and is valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    pub(super) version: u64,
    bits: &'a [u8],
}

impl BitMap {
    /// A bitmap of `bits` clear bits, in pages of [`BITS_PER_PAGE`].
    #[must_use]
    pub fn new(kind: MapKind, bits: u64) -> Self {
        Self::with_pages_of(BITS_PER_PAGE, kind, bits)
    }

    /// A bitmap of `bits` clear bits, in pages of `page_bits`.
    pub(super) fn with_pages_of(page_bits: u64, kind: MapKind, bits: u64) -> Self {
        debug_assert!(is_page_size(page_bits));
        let words = vec![0; bits.div_ceil(64) as usize];
        Self { kind, len: bits, count: 0, words, page_bits }
    }

    /// Which map it is.
    #[must_use]
    pub fn kind(&self) -> MapKind {
        self.kind
    }

    /// How many bits there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no bit at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bits are set.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many pages it has.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.len.div_ceil(self.page_bits) as u32
    }

    /// The page that a bit is in.
    #[must_use]
    pub fn page_of(&self, bit: u64) -> u32 {
        (bit / self.page_bits) as u32
    }

    /// Whether a bit is set.
    ///
    /// # Panics
    /// If there is no such bit.
    #[must_use]
    pub fn get(&self, bit: u64) -> bool {
        let (word, mask) = self.find(bit);
        self.words[word] & mask != 0
    }

    /// Sets a bit; tells whether it was clear.
    ///
    /// # Panics
    /// If there is no such bit.
    pub fn set(&mut self, bit: u64) -> bool {
        let (word, mask) = self.find(bit);
        let changes = self.words[word] & mask == 0;
        self.words[word] |= mask;
        self.count += u64::from(changes);
        changes
    }

    /// Clears a bit; tells whether it was set.
    ///
    /// # Panics
    /// If there is no such bit.
    pub fn clear(&mut self, bit: u64) -> bool {
        let (word, mask) = self.find(bit);
        let changes = self.words[word] & mask != 0;
        self.words[word] &= !mask;
        self.count -= u64::from(changes);
        changes
    }

    /// Sets every bit.
    pub fn set_all(&mut self) {
        for page in 0..self.pages() {
            self.set_page(page);
        }
    }

    /// Sets every bit that is set in another map of the same length.
    pub(crate) fn set_those_of(&mut self, other: &Self) {
        for (word, bits) in self.words.iter_mut().zip(&other.words) {
            self.count += u64::from((bits & !*word).count_ones());
            *word |= bits;
        }
    }

    /// Clears every bit.
    pub(crate) fn clear_all(&mut self) {
        self.words.fill(0);
        self.count = 0;
    }

    /// Clears every bit from `from` on.
    pub(crate) fn clear_from(&mut self, from: u64) {
        while let Some(bit) = self.next_set(from) {
            self.clear(bit);
        }
    }

    /// The first set bit from `from` on.
    #[must_use]
    pub fn next_set(&self, from: u64) -> Option<u64> {
        if from >= self.len || self.count == 0 {
            return None;
        }
        let first = (from / 64) as usize;
        let head = self.words[first] & (u64::MAX << (from % 64));
        if head != 0 {
            return Some(first as u64 * 64 + u64::from(head.trailing_zeros()));
        }
        let (word, bits) =
            (first + 1..).zip(&self.words[first + 1..]).find(|(_, bits)| **bits != 0)?;
        Some(word as u64 * 64 + u64::from(bits.trailing_zeros()))
    }

    /// Writes a page as it goes to disk. Versions of a page count up from one store to the next.
    ///
    /// # Panics
    /// If there is no such page, or `into` is not one block.
    pub fn encode_page(&self, array: ArrayId, index: u32, version: u64, into: &mut [u8]) {
        assert!(index < self.pages() && into.len() == BLOCK_BYTES);
        into.fill(0);
        KIND.put(into, self.kind.number().to_le_bytes());
        INDEX.put(into, index.to_le_bytes());
        VERSION.put(into, version.to_le_bytes());
        LENGTH.put(into, self.len.to_le_bytes());
        let Span { words, shift, mask } = self.span(index);
        for (to, word) in into[HEADER_BYTES..].chunks_exact_mut(8).zip(&self.words[words]) {
            to.copy_from_slice(&(word >> shift & mask).to_le_bytes());
        }
        seal(into, MAGIC, array);
    }

    /// Checks that `block` is page `index` of this map of `array`.
    pub(super) fn decode_page<'a>(
        &self,
        array: ArrayId,
        index: u32,
        block: &'a [u8],
    ) -> Result<Page<'a>, CodecError> {
        if block.len() != BLOCK_BYTES {
            return Err(CodecError::Length { have: block.len() });
        }
        let found = open(block, MAGIC)?;
        if found != array {
            return Err(CodecError::OtherArray(found));
        }
        if KIND.u32(block) != self.kind.number() || INDEX.u32(block) != index {
            return Err(CodecError::Misplaced);
        }
        if LENGTH.u64(block) != self.len {
            return Err(CodecError::Invalid("length"));
        }
        Ok(Page { version: VERSION.count(block, "version")?, bits: &block[HEADER_BYTES..] })
    }

    /// Takes over the bits of a page.
    pub(super) fn load_page(&mut self, index: u32, page: &Page<'_>) {
        let mut bits = page.bits.chunks_exact(8);
        self.replace_page(index, || {
            let mut raw = [0; 8];
            raw.copy_from_slice(bits.next().unwrap_or(&[0; 8]));
            u64::from_le_bytes(raw)
        });
    }

    /// Sets every bit of a page.
    pub(super) fn set_page(&mut self, index: u32) {
        self.replace_page(index, || u64::MAX);
    }

    fn replace_page(&mut self, index: u32, mut next: impl FnMut() -> u64) {
        let Span { words, shift, mask } = self.span(index);
        for word in words {
            let mask = mask << shift & low_bits(self.len - word as u64 * 64);
            let bits = next() << shift & mask;
            self.count -= u64::from((self.words[word] & mask).count_ones());
            self.count += u64::from(bits.count_ones());
            self.words[word] = self.words[word] & !mask | bits;
        }
    }

    fn span(&self, index: u32) -> Span {
        let start = u64::from(index) * self.page_bits;
        let end = self.len.min(start + self.page_bits);
        let words = (start / 64) as usize..end.div_ceil(64) as usize;
        Span { words, shift: start % 64, mask: low_bits(self.page_bits) }
    }

    fn find(&self, bit: u64) -> (usize, u64) {
        assert!(bit < self.len, "bit {bit} of {}", self.len);
        ((bit / 64) as usize, 1 << (bit % 64))
    }
}

/// Where a page's bits are in a word: a mask, and by how much it is shifted.
struct Span {
    words: Range<usize>,
    shift: u64,
    mask: u64,
}

/// A word with the lowest `count` bits set.
fn low_bits(count: u64) -> u64 {
    if count < 64 { (1 << count) - 1 } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_comes_back_and_its_neighbours_stay() {
        let array = ArrayId([3; 16]);
        let mut map = BitMap::new(MapKind::Bitmap, BITS_PER_PAGE + 100);
        for bit in [0, 63, 64, BITS_PER_PAGE - 1, BITS_PER_PAGE, BITS_PER_PAGE + 99] {
            assert!(map.set(bit) && !map.set(bit));
        }
        let mut block = [0; BLOCK_BYTES];
        map.encode_page(array, 1, 9, &mut block);
        let mut other = BitMap::new(MapKind::Bitmap, BITS_PER_PAGE + 100);
        other.set(5);
        let page = other.decode_page(array, 1, &block).expect("it is valid");
        assert_eq!(page.version, 9);
        other.load_page(1, &page);
        assert_eq!(other.count(), 3);
        assert_eq!(other.next_set(6), Some(BITS_PER_PAGE));
        assert_eq!(other.next_set(BITS_PER_PAGE + 1), Some(BITS_PER_PAGE + 99));
        assert_eq!(other.decode_page(array, 0, &block).err(), Some(CodecError::Misplaced));
        let zero = BitMap::new(MapKind::ZeroMap, BITS_PER_PAGE + 100);
        assert_eq!(zero.decode_page(array, 1, &block).err(), Some(CodecError::Misplaced));
    }

    /// Pages that share a word are loaded alone, whatever the others hold.
    #[test]
    fn small_pages_come_back_alone() {
        let array = ArrayId([3; 16]);
        for (page_bits, bits) in [(1, 70), (2, 7), (4, 70), (32, 100), (64, 130), (128, 300)] {
            let mut map = BitMap::with_pages_of(page_bits, MapKind::Bitmap, bits);
            for bit in (0..bits).filter(|bit| bit % 3 == 0) {
                map.set(bit);
            }
            assert_eq!(u64::from(map.pages()), bits.div_ceil(page_bits));
            for index in 0..map.pages() {
                let mut block = [0; BLOCK_BYTES];
                map.encode_page(array, index, 9, &mut block);
                for start in [false, true] {
                    let mut other = BitMap::with_pages_of(page_bits, MapKind::Bitmap, bits);
                    if start {
                        other.set_all();
                    }
                    let page = other.decode_page(array, index, &block).expect("it is valid");
                    other.load_page(index, &page);
                    let is = |bit| if map.page_of(bit) == index { bit % 3 == 0 } else { start };
                    let set: Vec<_> = (0..bits).filter(|&bit| other.get(bit)).collect();
                    assert_eq!(set, (0..bits).filter(|&bit| is(bit)).collect::<Vec<_>>());
                    assert_eq!(other.count(), set.len() as u64);
                }
            }
        }
    }

    #[test]
    fn every_bit_flip_of_a_page_is_noticed() {
        let array = ArrayId([3; 16]);
        let mut map = BitMap::new(MapKind::ZeroMap, 1000);
        map.set(999);
        let mut block = [0; BLOCK_BYTES];
        map.encode_page(array, 0, 1, &mut block);
        assert!(map.decode_page(array, 0, &block).is_ok());
        for bit in 0..BLOCK_BYTES * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(map.decode_page(array, 0, &block).is_err(), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn bits_beyond_the_end_stay_clear() {
        let mut map = BitMap::new(MapKind::Bitmap, 70);
        map.set_all();
        assert_eq!(map.count(), 70);
        assert_eq!(map.next_set(70), None);
        assert!(map.clear(69) && !map.clear(69));
        assert_eq!((map.count(), map.next_set(69)), (69, None));
    }
}
