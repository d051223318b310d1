//! Which ranges of an array's stripes are filled on a device that is being filled, whatever order its
//! stripes are taken in.
//!
//! They are in the superblock beside the watermark, below which everything is filled. A release that does
//! not know them goes by the watermark alone, and writes zeros here.

use super::codec::Field;
use super::record::DeviceUuid;
use crate::units::Stripe;

const RANGES: Field<128> = Field { at: 3872 };
const DEVICE: Field<16> = RANGES.then();
const FILLS: Field<1> = DEVICE.then();

/// The first byte after these fields.
pub(super) const END: usize = FILLS.end();

/// The ranges of an array's stripes, and some of them: at most 1024, each of as many stripes as the next,
/// but for the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ranges {
    /// Stripes of a range: two to the power of this.
    log2: u32,
    stripes: u64,
    words: [u64; Self::WORDS],
}

impl Ranges {
    const WORDS: usize = 16;

    /// None of the ranges of so many stripes.
    #[must_use]
    pub fn none(stripes: u64) -> Self {
        let log2 = stripes.div_ceil(64 * Self::WORDS as u64).max(1).next_power_of_two().ilog2();
        Self { log2, stripes, words: [0; Self::WORDS] }
    }

    /// How many ranges there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.stripes.div_ceil(1 << self.log2)
    }

    /// The range of a stripe.
    #[must_use]
    pub fn of(&self, stripe: Stripe) -> u64 {
        stripe.0 >> self.log2
    }

    /// The first stripe of a range, and the one after its last.
    #[must_use]
    pub fn stripes(&self, range: u64) -> (u64, u64) {
        let first = range << self.log2;
        (first, (first + (1 << self.log2)).min(self.stripes))
    }

    /// Whether it is one of these.
    #[must_use]
    pub fn has(&self, range: u64) -> bool {
        range < self.count() && self.words[range as usize / 64] >> (range % 64) & 1 != 0
    }

    /// Adds a range.
    pub fn add(&mut self, range: u64) {
        if range < self.count() {
            self.words[range as usize / 64] |= 1 << (range % 64);
        }
    }

    /// The first range that is none of these.
    #[must_use]
    pub fn first_missing(&self) -> Option<u64> {
        let word = self.words.iter().position(|&word| word != u64::MAX)?;
        let range = 64 * word as u64 + u64::from(self.words[word].trailing_ones());
        Some(range).filter(|&range| range < self.count())
    }

    /// These ranges, in their order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.count()).filter(|&range| self.has(range))
    }
}

/// What is being filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filling {
    /// A device that takes a member's place.
    Device(DeviceUuid),
    /// The distributed spare, for the member that this device was.
    SpareFor(DeviceUuid),
}

/// The ranges that are durable on what is being filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilledRanges {
    /// What is being filled. A device's identity is never used again, so nothing else can be taken for it.
    pub of: Filling,
    /// The ranges of which all stripes are filled.
    pub ranges: Ranges,
}

pub(super) fn encode(filled: &FilledRanges, into: &mut [u8]) {
    let (fills, device) = match filled.of {
        Filling::Device(device) => (1, device),
        Filling::SpareFor(device) => (2, device),
    };
    FILLS.put(into, [fills]);
    DEVICE.put(into, device.0);
    let words = into[RANGES.at..RANGES.end()].chunks_exact_mut(8);
    for (bytes, word) in words.zip(filled.ranges.words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// Decodes them, for an array of so many stripes. If it is not known what they are of, there are none.
pub(super) fn decode(block: &[u8], stripes: u64) -> Option<FilledRanges> {
    let device = DeviceUuid(DEVICE.get(block));
    let of = match FILLS.u8(block) {
        1 => Filling::Device(device),
        2 => Filling::SpareFor(device),
        _ => return None,
    };
    let mut ranges = Ranges::none(stripes);
    let bytes = RANGES.get(block);
    let has = |range: &u64| bytes[*range as usize / 8] >> (range % 8) & 1 != 0;
    (0..ranges.count()).filter(has).for_each(|range| ranges.add(range));
    Some(FilledRanges { of, ranges })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BLOCK_BYTES;

    #[test]
    fn there_are_at_most_1024_ranges_that_have_all_stripes() {
        for stripes in [1, 2, 63, 1024, 1025, 4096, 1 << 42, (1 << 42) - 1] {
            let mut ranges = Ranges::none(stripes);
            let count = ranges.count();
            assert!((1..=1024).contains(&count) && (count > 512 || count == stripes));
            assert_eq!((ranges.stripes(0).0, ranges.stripes(count - 1).1), (0, stripes));
            assert!((1..count).all(|range| ranges.stripes(range - 1).1 == ranges.stripes(range).0));
            assert_eq!(ranges.of(Stripe(stripes - 1)), count - 1);
            let others = (0..count).filter(|&range| range != count / 2);
            others.for_each(|range| ranges.add(range));
            assert_eq!(ranges.first_missing(), Some(count / 2));
            ranges.add(count / 2);
            assert_eq!((ranges.first_missing(), ranges.iter().count() as u64), (None, count));
        }
    }

    #[test]
    fn what_is_decoded_is_what_was_encoded_and_nothing_beyond() {
        let of = Filling::SpareFor(DeviceUuid([3; 16]));
        let mut ranges = Ranges::none(70);
        [0, 9, 63, 64, 69].into_iter().for_each(|range| ranges.add(range));
        let mut block = [0; BLOCK_BYTES];
        assert_eq!(decode(&block, 70), None);
        encode(&FilledRanges { of, ranges }, &mut block);
        assert_eq!(decode(&block, 70), Some(FilledRanges { of, ranges }));
        let fewer = decode(&block, 64).expect("there are some");
        assert!(fewer.ranges.iter().eq([0, 9, 63]) && !fewer.ranges.has(64));
        block[FILLS.at] = 3;
        assert_eq!(decode(&block, 70), None);
    }
}
