//! The on-disk format of a volume, apart from users' data.
//!
//! Three kinds of block: the *header* of a checkpoint, *pages* of a checkpoint (the map, the
//! segments' ages), and *summaries*, one before the blocks of each batch.
//!
//! Invariants:
//! - Each begins with the prefix: magic, format, checksum, volume. Every later format keeps the
//!   prefix and the checksum's rule, so that this release can tell "newer" from "damaged".
//! - The checksum is CRC-32C over all of it, its own four bytes as zeros.
//! - A summary holds its own place, and a page its own number, so none is taken for another.
//! - Numbers are little-endian. Whatever the bytes are, decoding them ends in a value or an error.

use alloc::vec::Vec;

use raidcore::units::{BLOCK_BYTES, Lba};

use crate::shape::Shape;
use crate::sizes::{PAGE_BYTES, PREFIX_BYTES, WIDTH};
use crate::units::{GroupId, Segment};

/// The format that this build writes, and the only one that it reads.
pub const FORMAT: u32 = 2;

const HEADER_MAGIC: [u8; 8] = *b"EKlgh\r\n\x1a";
const PAGE_MAGIC: [u8; 8] = *b"EKlgp\r\n\x1a";
const SUMMARY_MAGIC: [u8; 8] = *b"EKlgs\r\n\x1a";

const CHECKSUM_AT: usize = 12;
const STREAM_BYTES: usize = 12;

/// The greatest plausible counter. Counting on from here does not overflow.
const COUNT_MAX: u64 = 1 << 62;

/// A volume's identity, chosen at random when it is created.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VolumeId(pub [u8; 16]);

/// Why bytes could not be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodecError {
    /// There is no magic number: something else was written here, or nothing.
    #[error("there is no metadata of a log volume here")]
    NoMagic,
    /// The checksum does not match: torn or damaged.
    #[error("the checksum does not match")]
    Checksum,
    /// Written by another release.
    #[error(
        "the volume's format is {found}, this release knows {FORMAT}: use {} release",
        if *found > FORMAT { "a later" } else { "an earlier" }
    )]
    Format {
        /// The format found.
        found: u32,
    },
    /// A field has a value that it can't have.
    #[error("the field `{0}` has an impossible value")]
    Invalid(&'static str),
}

/// The checksum of a block of data in summaries: CRC-32C.
#[must_use]
pub fn checksum(block: &[u8]) -> u32 {
    raidcore::meta::checksum(block)
}

/// Where a stream continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    pub(crate) segment: Segment,
    /// The first block of it that the stream has not written.
    pub(crate) at: u32,
    /// The segment that comes after it.
    pub(crate) next: Segment,
}

/// The header of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) volume: VolumeId,
    pub(crate) shape: Shape,
    /// On which group this copy is.
    pub(crate) group: GroupId,
    /// Which checkpoint: they count up.
    pub(crate) number: u64,
    /// How often the volume was started.
    pub(crate) run: u64,
    /// The last batch of users' blocks that needs no replay.
    pub(crate) sequence: u64,
    /// Blocks that users had written.
    pub(crate) clock: u64,
    /// The users' stream first, then the cleaner's of each group.
    pub(crate) streams: Vec<Position>,
}

/// The fields of a summary, apart from its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Summary {
    pub(crate) volume: VolumeId,
    pub(crate) run: u64,
    /// The number of the batch; those of users' blocks count up by one.
    pub(crate) sequence: u64,
    /// When this was written, all batches of users' blocks up to this one were durable.
    pub(crate) durable: u64,
    /// When the youngest of its blocks was written, in blocks that users had written by then.
    pub(crate) age: u64,
    pub(crate) segment: Segment,
    /// The block of the segment where this summary begins.
    pub(crate) at: u32,
    /// Blocks of the batch: summary, data, padding.
    pub(crate) blocks: u32,
    /// The stream's next segment.
    pub(crate) next: Segment,
    /// Whether a cleaner wrote it.
    pub(crate) cold: bool,
}

/// A change by a batch. Blocks of data follow the summary in the order of their entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// A block of data.
    Data { lba: Lba, checksum: u32 },
    /// Blocks that read as zeros from then on.
    Trim { lba: Lba, blocks: u32 },
}

impl Header {
    pub(crate) fn encode(&self, into: &mut [u8]) {
        let mut to = Writer::new(into);
        let shape = &self.shape;
        for number in [
            self.number,
            self.run,
            self.sequence,
            self.clock,
            shape.capacity(),
            shape.area_blocks(),
        ] {
            to.put(&number.to_le_bytes());
        }
        for number in [
            shape.groups() as u32,
            self.group.0.into(),
            shape.unit(),
            shape.segment_blocks(),
            shape.group_segments(),
            shape.reserve(),
        ] {
            to.put(&number.to_le_bytes());
        }
        for stream in &self.streams {
            for number in [stream.segment.0, stream.at, stream.next.0] {
                to.put(&number.to_le_bytes());
            }
        }
        to.seal(HEADER_MAGIC, self.volume);
    }

    pub(crate) fn decode(block: &[u8]) -> Result<Self, CodecError> {
        let (volume, mut from) = open(block, HEADER_MAGIC)?;
        let number = from.count("number")?;
        let run = from.count("run")?;
        let sequence = from.count("sequence")?;
        let clock = from.count("clock")?;
        let (capacity, area) = (from.u64(), from.u64());
        let groups = u8::try_from(from.u32()).map_err(|_| CodecError::Invalid("groups"))?;
        let group = u8::try_from(from.u32()).map_err(|_| CodecError::Invalid("group"))?;
        let (unit, segment, segments, reserve) = (from.u32(), from.u32(), from.u32(), from.u32());
        let shape = Shape::from_parts(groups, unit, segment, segments, reserve, capacity, area);
        let shape = shape.ok_or(CodecError::Invalid("shape"))?;
        if usize::from(group) >= shape.groups() {
            return Err(CodecError::Invalid("group"));
        }
        let streams = (0..=shape.groups()).map(|stream| from.position(&shape, stream));
        let streams = streams.collect::<Option<Vec<_>>>().ok_or(CodecError::Invalid("streams"))?;
        let group = GroupId(group);
        Ok(Self { volume, shape, group, number, run, sequence, clock, streams })
    }
}

const _: () = assert!(
    PREFIX_BYTES + 6 * 8 + 6 * 4 + (1 + crate::shape::GROUPS_MAX) * STREAM_BYTES <= BLOCK_BYTES
);

/// Encodes a page of a checkpoint: its number, its checkpoint, and its content.
pub(crate) fn encode_page(
    volume: VolumeId,
    page: u32,
    number: u64,
    bytes: impl Iterator<Item = u8>,
    into: &mut [u8],
) {
    let mut to = Writer::new(into);
    to.put(&u64::from(page).to_le_bytes());
    to.put(&number.to_le_bytes());
    for byte in bytes {
        to.put(&[byte]);
    }
    to.seal(PAGE_MAGIC, volume);
}

/// Decodes a page: the content, if it is this page of this volume, of this checkpoint or an earlier
/// one.
pub(crate) fn decode_page(
    block: &[u8],
    volume: VolumeId,
    page: u32,
    number: u64,
) -> Result<&[u8], CodecError> {
    let (found, mut from) = open(block, PAGE_MAGIC)?;
    if found != volume || from.u64() != u64::from(page) {
        return Err(CodecError::Invalid("page"));
    }
    if from.u64() > number {
        return Err(CodecError::Invalid("checkpoint"));
    }
    Ok(&block[PAGE_BYTES..BLOCK_BYTES])
}

impl Summary {
    pub(crate) fn encode(&self, entries: &[Entry], into: &mut [u8]) {
        let mut to = Writer::new(into);
        for number in [self.run, self.sequence, self.durable, self.age] {
            to.put(&number.to_le_bytes());
        }
        let cold = u32::from(self.cold) << 31;
        let count = entries.len() as u32 | cold;
        for number in [self.segment.0, self.at, self.blocks, self.next.0, count, 0] {
            to.put(&number.to_le_bytes());
        }
        for entry in entries {
            let (kind, lba, word) = match *entry {
                Entry::Data { lba, checksum } => (0, lba, checksum),
                Entry::Trim { lba, blocks } => (1, lba, blocks),
            };
            to.put(&[kind]);
            to.put(&lba.0.to_le_bytes()[..WIDTH]);
            to.put(&word.to_le_bytes());
        }
        to.seal(SUMMARY_MAGIC, self.volume);
    }

    /// A summary of a volume of this shape.
    pub(crate) fn decode(blocks: &[u8], shape: &Shape) -> Result<(Self, Vec<Entry>), CodecError> {
        let (volume, mut from) = open(blocks, SUMMARY_MAGIC)?;
        let run = from.count("run")?;
        let sequence = from.count("sequence")?;
        let durable = from.count("durable")?;
        let age = from.count("age")?;
        let (segment, at, length, next) =
            (Segment(from.u32()), from.u32(), from.u32(), Segment(from.u32()));
        let count = from.u32();
        from.u32();
        let (cold, count) = (count >> 31 == 1, (count & !(1 << 31)) as usize);
        let fits = segment.0.max(next.0) < shape.segment_count()
            && length >= shape.unit()
            && at.checked_add(length).is_some_and(|end| end <= shape.segment_blocks())
            && length.is_multiple_of(shape.unit());
        if !fits || count > shape.entries() {
            return Err(CodecError::Invalid("length"));
        }
        let entries = (0..count).map(|_| from.entry(shape));
        let entries = entries.collect::<Option<Vec<_>>>().ok_or(CodecError::Invalid("entries"))?;
        let data = entries.iter().filter(|entry| matches!(entry, Entry::Data { .. })).count();
        if data > (length - shape.summary()) as usize {
            return Err(CodecError::Invalid("entries"));
        }
        let summary =
            Self { volume, run, sequence, durable, age, segment, at, blocks: length, next, cold };
        Ok((summary, entries))
    }
}

/// Fills a block from its prefix on.
struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: PREFIX_BYTES }
    }

    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    fn seal(self, magic: [u8; 8], volume: VolumeId) {
        let Self { bytes, at } = self;
        bytes[at..].fill(0);
        bytes[..8].copy_from_slice(&magic);
        bytes[8..CHECKSUM_AT].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[CHECKSUM_AT..16].fill(0);
        bytes[16..PREFIX_BYTES].copy_from_slice(&volume.0);
        let sum = raidcore::meta::checksum(bytes);
        bytes[CHECKSUM_AT..16].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Checks the prefix of blocks; returns the volume that they belong to, and the rest.
fn open(blocks: &[u8], magic: [u8; 8]) -> Result<(VolumeId, Reader<'_>), CodecError> {
    if blocks.len() < BLOCK_BYTES || !blocks.starts_with(&magic) {
        return Err(CodecError::NoMagic);
    }
    let word = |at: usize| blocks[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    let mut copy = Vec::from(blocks);
    copy[CHECKSUM_AT..16].fill(0);
    if raidcore::meta::checksum(&copy) != word(CHECKSUM_AT) {
        return Err(CodecError::Checksum);
    }
    match word(8) {
        FORMAT => {}
        found => return Err(CodecError::Format { found }),
    }
    let mut volume = [0; 16];
    volume.copy_from_slice(&blocks[16..PREFIX_BYTES]);
    Ok((VolumeId(volume), Reader { bytes: &blocks[PREFIX_BYTES..] }))
}

/// Reads fields one after the other; zeros after the end.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((field, rest)) = self.bytes.split_first_chunk() else { return [0; N] };
        self.bytes = rest;
        *field
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn count(&mut self, name: &'static str) -> Result<u64, CodecError> {
        let count = self.u64();
        if count > COUNT_MAX { Err(CodecError::Invalid(name)) } else { Ok(count) }
    }

    /// The position of a stream; a cleaner's has to be in its group.
    fn position(&mut self, shape: &Shape, stream: usize) -> Option<Position> {
        let (segment, at, next) = (Segment(self.u32()), self.u32(), Segment(self.u32()));
        let exist = segment != next
            && segment.0.max(next.0) < shape.segment_count()
            && at <= shape.segment_blocks()
            && at.is_multiple_of(shape.unit());
        let group = stream.checked_sub(1).map(GroupId::at);
        let home = |s| exist && group.is_none_or(|group| shape.group_of(s) == group);
        (home(segment) && home(next)).then_some(Position { segment, at, next })
    }

    fn entry(&mut self, shape: &Shape) -> Option<Entry> {
        let [kind] = self.take();
        let mut lba = [0; 8];
        lba[..WIDTH].copy_from_slice(&self.take::<WIDTH>());
        let (lba, word) = (Lba(u64::from_le_bytes(lba)), self.u32());
        match kind {
            0 if shape.contains(lba, 1) => Some(Entry::Data { lba, checksum: word }),
            1 if shape.contains(lba, word) => Some(Entry::Trim { lba, blocks: word }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use proptest::prelude::*;

    use super::*;
    use crate::shape::Wish;

    const VOLUME: VolumeId = VolumeId([7; 16]);

    fn shape() -> Shape {
        let wish = Wish { groups: 3, group_blocks: 20_000, stripe: 12, segment: 48, spare: 200 };
        Shape::new(wish).unwrap()
    }

    fn header() -> Header {
        let at =
            |segment| Position { segment: Segment(segment), at: 12, next: Segment(segment + 1) };
        let of = |group| at(group * shape().group_segments());
        Header {
            volume: VOLUME,
            shape: shape(),
            group: GroupId(1),
            number: 5,
            run: 2,
            sequence: 77,
            clock: 1234,
            streams: [at(3), of(0), of(1), of(2)].into(),
        }
    }

    fn summary() -> Summary {
        Summary {
            volume: VOLUME,
            run: 2,
            sequence: 78,
            durable: 70,
            age: 1300,
            segment: Segment(5),
            at: 12,
            blocks: 24,
            next: Segment(6),
            cold: true,
        }
    }

    fn entry() -> impl Strategy<Value = Entry> {
        prop_oneof![
            (0u64..1000, any::<u32>())
                .prop_map(|(lba, checksum)| Entry::Data { lba: Lba(lba), checksum }),
            (0u64..1000, 1u32..1000)
                .prop_map(|(lba, blocks)| Entry::Trim { lba: Lba(lba), blocks }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(entries in proptest::collection::vec(entry(), 0..20)) {
            let mut block = [0xaa; BLOCK_BYTES];
            summary().encode(&entries, &mut block);
            prop_assert_eq!(Summary::decode(&block, &shape()), Ok((summary(), entries)));
            header().encode(&mut block);
            prop_assert_eq!(Header::decode(&block), Ok(header()));
        }

        #[test]
        fn no_flipped_bit_goes_unnoticed(bit in 0..BLOCK_BYTES * 8) {
            let mut block = [0; BLOCK_BYTES];
            let mut flipped = |encode: &dyn Fn(&mut [u8])| {
                encode(&mut block);
                block[bit / 8] ^= 1 << (bit % 8);
                block
            };
            let bad = flipped(&|into| header().encode(into));
            prop_assert!(Header::decode(&bad).is_err());
            let bad = flipped(&|into| summary().encode(&[], into));
            prop_assert!(Summary::decode(&bad, &shape()).is_err());
            let bad = flipped(&|into| encode_page(VOLUME, 3, 9, 0..100, into));
            prop_assert!(decode_page(&bad, VOLUME, 3, 9).is_err());
        }

        #[test]
        fn sealed_noise_is_told_from_metadata(
            noise in proptest::collection::vec(any::<u8>(), 200),
            magic in prop_oneof![Just(HEADER_MAGIC), Just(SUMMARY_MAGIC)],
        ) {
            let mut block = [0; BLOCK_BYTES];
            let mut to = Writer::new(&mut block);
            to.put(&noise);
            to.seal(magic, VOLUME);
            // Must not panic, whatever the result.
            let _ = Header::decode(&block);
            let _ = Summary::decode(&block, &shape());
        }
    }

    #[test]
    fn a_page_is_what_it_says() {
        let mut block = [0; BLOCK_BYTES];
        encode_page(VOLUME, 3, 9, 0..100, &mut block);
        assert_eq!(decode_page(&block, VOLUME, 3, 9).map(|bytes| bytes[99]), Ok(99));
        assert_eq!(decode_page(&block, VOLUME, 4, 9), Err(CodecError::Invalid("page")));
        assert_eq!(decode_page(&block, VOLUME, 3, 8), Err(CodecError::Invalid("checkpoint")));
        let other = VolumeId([8; 16]);
        assert_eq!(decode_page(&block, other, 3, 9), Err(CodecError::Invalid("page")));
    }

    #[test]
    fn another_format_is_told_from_damage() {
        for (found, release) in
            [(FORMAT - 1, "an earlier release"), (FORMAT + 1, "a later release")]
        {
            let mut block = [0; BLOCK_BYTES];
            header().encode(&mut block);
            block[8] = found as u8;
            assert_eq!(Header::decode(&block), Err(CodecError::Checksum));
            block[CHECKSUM_AT..16].fill(0);
            let sum = checksum(&block);
            block[CHECKSUM_AT..16].copy_from_slice(&sum.to_le_bytes());
            let error = CodecError::Format { found };
            assert_eq!(Header::decode(&block), Err(error));
            assert!(error.to_string().ends_with(release), "{error}");
        }
    }
}
