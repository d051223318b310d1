//! A disk with a volatile cache. A written block is read at once, but survives a crash for sure
//! only after a flush or with FUA; until then it survives in any of its versions. Of a data block
//! only the first bytes are kept, as the engine never looks at data and parity is computed byte by
//! byte; the rest is zeros. Metadata has checksums, so it is kept whole.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use raidcore::engine::{IoError, IoOp};
use raidcore::meta::{Image, MetaPage, Unreadable};
use raidcore::units::{BLOCK_BYTES, Pba};

use crate::source::Source;
use crate::torn::mixed;

/// How many bytes of a data block are kept.
pub(crate) const KEPT: usize = 32;

/// A block of data.
pub(crate) type Data = [u8; KEPT];

/// A block of metadata.
pub(crate) type Meta = Rc<[u8; BLOCK_BYTES]>;

/// The part of a data block that a disk keeps.
pub(crate) trait Kept: Clone + PartialEq {
    /// Zeros.
    const ZERO: Self;

    fn noise(source: &mut Source) -> Self;

    /// Of a whole block.
    fn of(bytes: &[u8; BLOCK_BYTES]) -> Self;

    /// The whole block.
    fn whole(&self) -> [u8; BLOCK_BYTES];

    /// What parity is made of: of all blocks as many bytes.
    fn kept(&self) -> impl Iterator<Item = u8>;

    /// The world's own checksum of it: as good as one over all of its bytes.
    fn checksum(&self) -> u32;

    /// Of what parity is made of.
    fn of_kept(bytes: &[u8]) -> Self;

    /// What a power failure makes of it that may leave it old in some sectors and new in others.
    fn torn(source: &mut Source, old: &Self, new: &Self) -> Self;
}

impl Kept for Data {
    const ZERO: Self = [0; KEPT];

    fn noise(source: &mut Source) -> Self {
        let mut noise = [0; KEPT];
        source.noise(&mut noise);
        noise
    }

    fn of(bytes: &[u8; BLOCK_BYTES]) -> Self {
        let (data, rest) = bytes.split_first_chunk().expect("a block is longer");
        assert!(rest.iter().all(|&byte| byte == 0), "data is read, not metadata");
        *data
    }

    fn whole(&self) -> [u8; BLOCK_BYTES] {
        let mut block = [0; BLOCK_BYTES];
        block[..KEPT].copy_from_slice(self);
        block
    }

    fn kept(&self) -> impl Iterator<Item = u8> {
        self.iter().copied()
    }

    fn checksum(&self) -> u32 {
        raidlog::codec::checksum(self)
    }

    fn of_kept(bytes: &[u8]) -> Self {
        bytes.try_into().expect("it is as long")
    }

    /// Arrays promise nothing of such a block, and their users expect nothing.
    fn torn(_: &mut Source, _: &Self, new: &Self) -> Self {
        *new
    }
}

/// A block of a log volume: a user's, of which the first bytes are kept and the rest is zeros; or
/// any other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Block {
    Data(Data),
    Meta(Meta),
}

impl Block {
    /// What a user reads of it. What is not a user's is seen to be wrong.
    pub(crate) fn user(&self) -> Data {
        match self {
            Self::Data(data) => *data,
            Self::Meta(_) => [0xdd; _],
        }
    }
}

impl Kept for Block {
    const ZERO: Self = Self::Data(Data::ZERO);

    fn noise(source: &mut Source) -> Self {
        Self::Data(Data::noise(source))
    }

    fn of(bytes: &[u8; BLOCK_BYTES]) -> Self {
        match bytes.split_first_chunk() {
            Some((data, rest)) if rest.iter().all(|&byte| byte == 0) => Self::Data(*data),
            _ => Self::Meta(Rc::new(*bytes)),
        }
    }

    fn whole(&self) -> [u8; BLOCK_BYTES] {
        match self {
            Self::Data(data) => data.whole(),
            Self::Meta(bytes) => **bytes,
        }
    }

    fn kept(&self) -> impl Iterator<Item = u8> {
        self.whole().into_iter()
    }

    fn checksum(&self) -> u32 {
        match self {
            Self::Data(data) => data.checksum(),
            Self::Meta(bytes) => raidlog::codec::checksum(&**bytes),
        }
    }

    fn of_kept(bytes: &[u8]) -> Self {
        Self::of(bytes.try_into().expect("a block"))
    }

    fn torn(source: &mut Source, old: &Self, new: &Self) -> Self {
        if source.chance(1, 2) || old == new {
            return new.clone();
        }
        match (old, new) {
            // Neither the old content nor the new one.
            (_, Self::Data(_)) => Self::noise(source),
            (old, Self::Meta(new)) => Self::Meta(Rc::new(mixed(source, &old.whole(), new))),
        }
    }
}

static BLANK: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Blocks in their versions: what is durable, and what came after it.
#[derive(Clone)]
pub(crate) struct Media<B> {
    durable: Vec<B>,
    /// Versions that are not durable yet, oldest first.
    cached: BTreeMap<usize, Vec<Version<B>>>,
}

/// What was written to a block.
#[derive(Clone)]
struct Version<B> {
    /// The write's number.
    number: u64,
    block: B,
    /// A flush of it has failed, and the next one does not make it durable.
    lost: bool,
}

impl<B: Clone> Media<B> {
    pub(crate) fn new(blocks: u64, blank: B) -> Self {
        Self { durable: vec![blank; blocks as usize], cached: BTreeMap::new() }
    }

    pub(crate) fn read(&self, at: usize) -> &B {
        let cached = self.cached.get(&at).and_then(|versions| versions.last());
        cached.map_or(&self.durable[at], |version| &version.block)
    }

    pub(crate) fn write(&mut self, at: usize, block: B, number: u64, fua: bool) {
        if fua {
            self.cached.remove(&at);
            self.durable[at] = block;
        } else {
            self.cached.entry(at).or_default().push(Version { number, block, lost: false });
        }
    }

    pub(crate) fn flushed(&mut self, mark: u64) {
        let durable = &mut self.durable;
        self.cached.retain(|&at, versions| {
            let count = versions.partition_point(|version| version.number <= mark);
            let mut flushed: Vec<_> = versions.drain(..count).collect();
            if let Some(kept) = flushed.iter().rfind(|version| !version.lost) {
                durable[at] = kept.block.clone();
            }
            // Reads see it until the power fails.
            let read = flushed.pop().filter(|last| last.lost && versions.is_empty());
            versions.extend(read);
            !versions.is_empty()
        });
    }

    /// A flush fails: some of the writes that it should have made durable never will be.
    pub(crate) fn flush_failed(&mut self, source: &mut Source, mark: u64) {
        for version in self.cached.values_mut().flatten() {
            version.lost |= version.number <= mark && source.chance(1, 2);
        }
    }

    /// Each block that is not durable survives in any of its versions; `mix` may mix two of them.
    pub(crate) fn crash(&mut self, source: &mut Source, mix: impl Fn(&mut Source, &B, &B) -> B) {
        for (at, mut versions) in std::mem::take(&mut self.cached) {
            versions.retain(|version| !version.lost);
            let choice = source.below(versions.len() as u64 + 1) as usize;
            if choice > 0 {
                let new = mix(source, &self.durable[at], &versions[choice - 1].block);
                self.durable[at] = new;
            }
        }
    }
}

#[derive(Clone)]
pub(crate) struct Disk<D = Data> {
    label: String,
    meta: Media<Option<Meta>>,
    data: Media<D>,
    writes: u64,
    /// Blocks that can't be read until they are written, or until this many attempts.
    pub(crate) bad: BTreeMap<u64, u32>,
    /// It does not answer any more.
    pub(crate) gone: bool,
    /// It answers, but can't be read.
    pub(crate) unreadable: bool,
    /// Blocks that can't be written.
    pub(crate) unwritable: BTreeSet<u64>,
    /// Blocks that there is no room for.
    pub(crate) full: BTreeSet<u64>,
    /// How a write or flush to come fails.
    pub(crate) sick: Option<Sick>,
    /// It has not answered for so long that it counts as hanging.
    pub(crate) hangs: bool,
    /// It does nothing until this many events have passed.
    pub(crate) stalled_until: u64,
}

/// The purpose of writes and flushes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Any purpose.
    Any,
    /// Making earlier writes durable.
    Flush,
    /// The array's record.
    Record,
    /// A page of a map.
    Page,
    /// An entry of the journal, or of the staging log.
    Entry,
    /// Data and parity.
    Home,
}

impl Phase {
    pub(crate) const EACH: [Self; 5] =
        [Self::Flush, Self::Record, Self::Page, Self::Entry, Self::Home];

    /// Whether an I/O changes a disk, and has this purpose.
    pub(crate) fn has(self, op: &IoOp) -> bool {
        let of_op = match op {
            IoOp::Read(_) | IoOp::Discard => return false,
            IoOp::Flush => Self::Flush,
            IoOp::Store(MetaPage::Superblock { .. }) => Self::Record,
            IoOp::Store(_) => Self::Page,
            IoOp::Journal => Self::Entry,
            IoOp::Write { .. } => Self::Home,
        };
        self == Self::Any || self == of_op
    }
}

/// The next write or flush of a phase fails, and may be carried out in part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sick {
    pub(crate) phase: Phase,
    pub(crate) error: IoError,
    /// Whether it was no member in service yet, so redundancy does not make up for it as one.
    pub(crate) early: bool,
}

impl Sick {
    /// The very next one fails.
    pub(crate) fn next(error: IoError) -> Self {
        Self { phase: Phase::Any, error, early: false }
    }
}

/// For a block that can't be read, however often it is tried.
pub(crate) const FOR_GOOD: u32 = u32::MAX;

impl<D: Kept> Disk<D> {
    pub(crate) fn new(index: usize, meta_blocks: u64, blocks: u64) -> Self {
        Self {
            label: format!("disk {index}"),
            meta: Media::new(meta_blocks, None),
            data: Media::new(blocks - meta_blocks, D::ZERO),
            writes: 0,
            bad: BTreeMap::new(),
            gone: false,
            unreadable: false,
            unwritable: BTreeSet::new(),
            full: BTreeSet::new(),
            sick: None,
            hangs: false,
            stalled_until: 0,
        }
    }

    /// Another disk with the same data, and zeros for metadata: a used disk whose old metadata has
    /// been wiped.
    pub(crate) fn wiped(&self, index: usize) -> Self {
        let fresh = Self::new(index, self.meta_blocks(), self.size());
        Self { data: self.data.clone(), writes: self.writes, ..fresh }
    }

    /// The same disk under another name; under the old name there is now an empty disk that is
    /// gone.
    pub(crate) fn moved(&mut self, index: usize) -> Self {
        let empty = Self::new(index, self.meta_blocks(), self.size());
        let old = std::mem::replace(
            self,
            Self { gone: true, label: self.label.clone(), ..empty.clone() },
        );
        Self { meta: old.meta, data: old.data, writes: old.writes, ..empty }
    }

    /// Blocks of metadata become zeros, durably.
    pub(crate) fn wipe(&mut self, ranges: &[std::ops::Range<u64>]) {
        for at in ranges.iter().cloned().flatten() {
            self.writes += 1;
            self.meta.write(at as usize, None, self.writes, true);
        }
    }

    pub(crate) fn meta_blocks(&self) -> u64 {
        self.meta.durable.len() as u64
    }

    pub(crate) fn size(&self) -> u64 {
        self.meta_blocks() + self.data.durable.len() as u64
    }

    /// Fills the data with noise: what a used disk holds.
    pub(crate) fn soil(&mut self, source: &mut Source) {
        self.data.durable.iter_mut().for_each(|block| *block = D::noise(source));
    }

    fn index(&self, at: u64) -> usize {
        let index = at.checked_sub(self.meta_blocks()).expect("data is not in metadata's place");
        assert!(at < self.size(), "an I/O beyond the end");
        index as usize
    }

    pub(crate) fn data(&self, at: u64) -> &D {
        self.data.read(self.index(at))
    }

    /// Whether the content that is read now survives a crash for sure.
    pub(crate) fn is_durable(&self, at: u64) -> bool {
        let index = self.index(at);
        let mut versions = self.data.cached.get(&index).into_iter().flatten();
        versions.all(|version| version.block == self.data.durable[index])
    }

    pub(crate) fn meta(&self, at: u64) -> &[u8; BLOCK_BYTES] {
        self.meta.read(at as usize).as_deref().unwrap_or(&BLANK)
    }

    pub(crate) fn read(&self, at: u64) -> D {
        if at < self.meta_blocks() { D::of(self.meta(at)) } else { self.data(at).clone() }
    }

    pub(crate) fn write_data(&mut self, at: u64, block: D, fua: bool) {
        let index = self.index(at);
        self.bad.remove(&at);
        self.writes += 1;
        self.data.write(index, block, self.writes, fua);
    }

    pub(crate) fn write_meta(&mut self, at: u64, block: Meta, fua: bool) {
        self.bad.remove(&at);
        self.writes += 1;
        self.meta.write(at as usize, Some(block), self.writes, fua);
    }

    /// How an I/O fails, if it does.
    pub(crate) fn fails(&mut self, op: &IoOp) -> Option<IoError> {
        self.sick.take_if(|sick| sick.phase.has(op)).map(|sick| sick.error)
    }

    /// What a flush that begins now will make durable.
    pub(crate) fn flush_mark(&self) -> u64 {
        self.writes
    }

    pub(crate) fn flushed(&mut self, mark: u64) {
        self.data.flushed(mark);
        self.meta.flushed(mark);
    }

    pub(crate) fn flush_failed(&mut self, source: &mut Source, mark: u64) {
        self.data.flush_failed(source, mark);
        self.meta.flush_failed(source, mark);
    }

    /// The content after a discard: noise. Of metadata, which begins with a magic, what it was, zeros, or some
    /// sectors of each.
    pub(crate) fn discard(&mut self, source: &mut Source, at: u64, blocks: u64) {
        for at in at..at + blocks {
            if at >= self.meta_blocks() {
                self.write_data(at, D::noise(source), false);
                continue;
            }
            let old = self.meta(at);
            let block = match source.below(3) {
                0 => *old,
                1 => BLANK,
                _ => mixed(source, old, &BLANK),
            };
            self.write_meta(at, Rc::new(block), false);
        }
    }

    /// The power fails. With `torn`, some sectors of a block can stay old and others be new.
    pub(crate) fn crash(&mut self, source: &mut Source, torn: bool) {
        self.data.crash(source, |source, old, new| tear(source, torn, old, new));
        self.meta.crash(source, |source, old, new| {
            if !torn || source.chance(1, 2) {
                return new.clone();
            }
            let old = old.as_deref().unwrap_or(&BLANK);
            let new = new.as_deref().unwrap_or(&BLANK);
            Some(Rc::new(mixed(source, old, new)))
        });
    }
}

impl Disk {
    /// Corrupts a block silently.
    pub(crate) fn corrupt(&mut self, source: &mut Source, at: u64) {
        let index = self.index(at);
        let mut noise = [0; KEPT];
        source.noise(&mut noise);
        // A single byte or all of them.
        let count = if source.chance(1, 2) { 1 } else { KEPT };
        let mut block = *self.data.read(index);
        for (byte, noise) in block.iter_mut().zip(noise).take(count) {
            *byte ^= noise | 1;
        }
        self.data.cached.remove(&index);
        self.data.durable[index] = block;
    }
}

/// The content of a block that was being written; with `torn`, a mix of old and new.
pub(crate) fn tear<D: Kept>(source: &mut Source, torn: bool, old: &D, new: &D) -> D {
    if torn { D::torn(source, old, new) } else { new.clone() }
}

impl<D: Kept> Image for Disk<D> {
    fn label(&self) -> &str {
        &self.label
    }

    fn blocks(&self) -> u64 {
        self.size()
    }

    fn block(&self, at: Pba) -> Result<&[u8], Unreadable> {
        if self.bad.contains_key(&at.0) {
            return Err(Unreadable);
        }
        Ok(if at.0 < self.meta_blocks() { self.meta(at.0) } else { &[] })
    }
}
