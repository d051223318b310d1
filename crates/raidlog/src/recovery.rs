//! Finds a volume in its groups: reads the last durable checkpoint, then replays the chain of
//! users' batches since.
//!
//! It is a state machine of its own: it asks for blocks and gets them, until it has found the
//! volume or the reason why there is none. It writes nothing. The volume writes a checkpoint before
//! it serves users, so a recovery that is interrupted has no effect.
//!
//! Invariants:
//! - The newest header counts. It is durable only when everything that it refers to is.
//! - A batch is replayed only if it is the next one of the chain: it has the expected place, number
//!   and run. So batches of an earlier run, or of an earlier use of the segment, never come back.
//! - A batch that is not known to have been flushed is replayed only if all its data is there. The
//!   chain ends at the first incomplete one.
//! - It ends without a panic, whatever bytes are read.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use raidcore::engine::IoError;
use raidcore::units::{BLOCK_BYTES, Lba};

use crate::codec::{CodecError, Entry, Header, Position, Summary, VolumeId, decode_page};
use crate::map::Map;
use crate::shape::Shape;
use crate::sizes::{AGES_PER_PAGE, ENTRIES_PER_PAGE, WIDTH};
use crate::units::{GroupId, Pba, Segment};
use crate::volume::{Config, LogVolume, Origin};

/// The most pages that are asked for at once.
const RUN: u32 = 64;

/// What a recovery wants to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Of which group.
    pub group: GroupId,
    /// From which block of it on.
    pub at: u64,
    /// How many blocks.
    pub blocks: u32,
    /// Whether only [checksums](crate::codec::checksum) of the blocks are wanted.
    pub checksums: bool,
}

/// What was read.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// The bytes of all blocks.
    Bytes(&'a [u8]),
    /// The checksum of each block.
    Checksums(&'a [u32]),
    /// They can't be read.
    Failed(IoError),
}

/// The result of a step of the recovery.
pub enum Found {
    /// Something else has to be read first.
    Wanted(Wanted),
    /// The volume.
    Volume(alloc::boxed::Box<LogVolume>),
}

/// Why there is no volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecoveryError {
    /// No group holds a header.
    #[error("these groups hold no log volume")]
    NoVolume,
    /// Written by another release.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// Groups are missing, or in the wrong order.
    #[error("group {given:?} is not where the volume has it: give all its groups in their order")]
    WrongGroup {
        /// The place at which it was given.
        given: GroupId,
    },
    /// A group is smaller than it was.
    #[error("group {group:?} has {have} blocks of 4 KiB, the volume needs {need}")]
    TooSmall {
        /// Which.
        group: GroupId,
        /// Its blocks.
        have: u64,
        /// The blocks needed.
        need: u64,
    },
    /// Blocks that are needed can't be read.
    #[error("block {at} of group {group:?} can't be read, and the volume can't do without")]
    Unreadable {
        /// Of which group.
        group: GroupId,
        /// From which block on.
        at: u64,
    },
    /// A page of the last checkpoint is damaged in all copies.
    #[error("page {0} of the map is damaged in all its copies")]
    Page(u32),
}

/// A batch that may be incomplete.
#[derive(Debug)]
struct Unproven {
    summary: Summary,
    entries: Vec<Entry>,
}

#[derive(Debug)]
enum RecoveryStage {
    /// Headers are read: of this group and area next.
    Headers(usize, u64),
    /// Pages are read: from this one on, of this copy.
    Pages(u32, usize),
    /// The chain is followed.
    Chain,
    /// The batches at its end are checked for completeness.
    Proof,
    Done,
}

/// Finds the volume in its groups: asks for blocks until it has all that it needs.
#[derive(Debug)]
pub struct Recovery {
    config: Config,
    volume: VolumeId,
    /// Blocks of each group.
    groups: Vec<u64>,
    unit: u64,
    stage: RecoveryStage,
    /// The newest header of each group.
    headers: Vec<Option<Header>>,
    /// The newest of all.
    header: Option<Header>,
    map: Map,
    ages: Vec<u64>,
    position: Position,
    /// Whether it is known which segment comes after this one.
    next_known: bool,
    /// The last batch that was replayed or is unproven.
    sequence: u64,
    clock: u64,
    unproven: VecDeque<Unproven>,
}

impl Recovery {
    /// A recovery of a volume from groups with these numbers of blocks, in order, whose stripes
    /// hold `stripe` blocks of data. Blocks of other volumes are ignored.
    #[must_use]
    pub fn new(config: Config, volume: VolumeId, groups: &[u64], stripe: u32) -> Self {
        let nowhere = Position { segment: Segment(0), at: 0, next: Segment(0) };
        Self {
            config,
            volume,
            groups: groups.into(),
            unit: Shape::unit_of(stripe),
            stage: RecoveryStage::Headers(0, 0),
            headers: alloc::vec![None; groups.len()],
            header: None,
            map: Map::new(0, 0),
            ages: Vec::new(),
            position: nowhere,
            next_known: true,
            sequence: 0,
            clock: 0,
            unproven: VecDeque::new(),
        }
    }

    /// Continues with the answer to the last request; without one at first.
    ///
    /// # Errors
    /// If there is no volume.
    pub fn step(&mut self, answer: Option<Answer<'_>>) -> Result<Found, RecoveryError> {
        if let Some(answer) = answer {
            match self.stage {
                RecoveryStage::Headers(group, area) => self.header_read(group, area, answer)?,
                RecoveryStage::Pages(from, copy) => self.pages_read(from, copy, answer)?,
                RecoveryStage::Chain => self.batch_read(answer)?,
                RecoveryStage::Proof => self.proof_read(answer)?,
                RecoveryStage::Done => {}
            }
        }
        if matches!(self.stage, RecoveryStage::Proof) && self.unproven.is_empty() {
            self.stage = RecoveryStage::Done;
        }
        match self.wanted() {
            Some(wanted) => Ok(Found::Wanted(wanted)),
            None => self.volume().map(|volume| Found::Volume(volume.into())),
        }
    }

    fn wanted(&self) -> Option<Wanted> {
        let header = self.header.as_ref();
        match self.stage {
            RecoveryStage::Headers(group, area) => {
                let group = GroupId::at(group);
                Some(Wanted { group, at: area * self.unit, blocks: 1, checksums: false })
            }
            RecoveryStage::Pages(from, copy) => {
                let header = header?;
                let shape = &header.shape;
                let (group, at) = shape.page_place(header.number % 2, from, copy);
                // A copy that failed is followed by the next copy, page by page.
                let most = if copy == 0 { RUN } else { 1 };
                let run = shape.page_run();
                let blocks = most.min(shape.pages() - from).min(run - from % run);
                Some(Wanted { group, at, blocks, checksums: false })
            }
            RecoveryStage::Chain => {
                let shape = &header?.shape;
                let (group, at) = place(shape, self.position.segment, self.position.at);
                Some(Wanted { group, at, blocks: shape.summary(), checksums: false })
            }
            RecoveryStage::Proof => {
                let shape = &header?.shape;
                let summary = &self.unproven.front()?.summary;
                let skip = shape.summary();
                let (group, at) = place(shape, summary.segment, summary.at + skip);
                Some(Wanted { group, at, blocks: summary.blocks - skip, checksums: true })
            }
            RecoveryStage::Done => None,
        }
    }

    fn header_read(
        &mut self,
        group: usize,
        area: u64,
        answer: Answer<'_>,
    ) -> Result<(), RecoveryError> {
        // An unreadable header matters only if no other copy is as new.
        if let Answer::Bytes(bytes) = answer {
            match Header::decode(bytes) {
                Ok(header) if header.volume == self.volume => {
                    let newest = &mut self.headers[group];
                    if newest.as_ref().is_none_or(|newest| newest.number < header.number) {
                        *newest = Some(header);
                    }
                }
                Err(error @ CodecError::Format { .. }) => return Err(error.into()),
                Ok(_) | Err(_) => {}
            }
        }
        self.stage = match (group + 1, area) {
            (_, 0) => RecoveryStage::Headers(group, 1),
            (next, _) if next < self.groups.len() => RecoveryStage::Headers(next, 0),
            _ => return self.choose(),
        };
        Ok(())
    }

    /// Chooses the newest header, and begins with its checkpoint.
    fn choose(&mut self) -> Result<(), RecoveryError> {
        let newest = self.headers.iter().flatten().max_by_key(|header| header.number);
        let header = newest.cloned().ok_or(RecoveryError::NoVolume)?;
        let shape = header.shape;
        let given = (0..).map(GroupId).zip(&self.headers).zip(&self.groups);
        for ((given, found), &have) in given {
            let ours = |h: &Header| (h.volume, h.group, h.shape) == (header.volume, given, shape);
            if self.groups.len() != shape.groups() || !found.as_ref().is_some_and(ours) {
                return Err(RecoveryError::WrongGroup { given });
            }
            let need = shape.group_blocks();
            if have < need {
                return Err(RecoveryError::TooSmall { group: given, have, need });
            }
        }
        self.map = Map::new(shape.capacity(), shape.pages());
        self.ages = alloc::vec![0; shape.segment_count() as usize];
        self.position = header.streams[0];
        (self.sequence, self.clock) = (header.sequence, header.clock);
        self.header = Some(header);
        self.stage = RecoveryStage::Pages(0, 0);
        Ok(())
    }

    fn pages_read(
        &mut self,
        from: u32,
        copy: usize,
        answer: Answer<'_>,
    ) -> Result<(), RecoveryError> {
        let header = self.header.as_ref().ok_or(RecoveryError::NoVolume)?;
        let shape = header.shape;
        let blocks = match answer {
            Answer::Bytes(bytes) => bytes,
            Answer::Checksums(_) | Answer::Failed(_) => &[],
        };
        let mut page = from;
        for block in blocks.chunks_exact(BLOCK_BYTES) {
            let decoded = decode_page(block, header.volume, page, header.number);
            let Some(told) = decoded.ok().filter(|told| is_sound(&shape, page, told)) else {
                break;
            };
            match page.checked_sub(shape.map_pages()) {
                None => self.map.load(page, told),
                Some(ages) => load_ages(&mut self.ages, ages, told),
            }
            page += 1;
        }
        self.stage = if page == shape.pages() {
            self.seek();
            RecoveryStage::Chain
        } else if page > from {
            RecoveryStage::Pages(page, 0)
        } else if copy + 1 < shape.page_copies() {
            RecoveryStage::Pages(page, copy + 1)
        } else {
            return Err(RecoveryError::Page(page));
        };
        Ok(())
    }

    /// At the end of a segment, the chain continues in the next one, if that is known.
    fn seek(&mut self) {
        let full = self.header.as_ref().map(|header| header.shape.segment_blocks());
        if Some(self.position.at) == full && self.next_known {
            self.position.segment = self.position.next;
            self.position.at = 0;
            self.next_known = false;
        }
    }

    fn batch_read(&mut self, answer: Answer<'_>) -> Result<(), RecoveryError> {
        let header = self.header.as_ref().ok_or(RecoveryError::NoVolume)?;
        let shape = header.shape;
        let Answer::Bytes(bytes) = answer else {
            let (group, at) = place(&shape, self.position.segment, self.position.at);
            return Err(RecoveryError::Unreadable { group, at });
        };
        let decoded = match Summary::decode(bytes, &shape) {
            Err(error @ CodecError::Format { .. }) => return Err(error.into()),
            decoded => decoded.ok(),
        };
        let expected = |summary: &Summary| {
            summary.volume == header.volume
                && summary.run == header.run
                && summary.sequence == self.sequence + 1
                && (summary.segment, summary.at) == (self.position.segment, self.position.at)
                && !summary.cold
        };
        let Some((summary, entries)) = decoded.filter(|(summary, _)| expected(summary)) else {
            self.stage = RecoveryStage::Proof;
            return Ok(());
        };
        self.sequence += 1;
        self.position.at += summary.blocks;
        (self.position.next, self.next_known) = (summary.next, true);
        self.unproven.push_back(Unproven { summary, entries });
        while self.unproven.front().is_some_and(|b| b.summary.sequence <= summary.durable) {
            self.replay_one();
        }
        self.seek();
        Ok(())
    }

    fn proof_read(&mut self, answer: Answer<'_>) -> Result<(), RecoveryError> {
        let header = self.header.as_ref().ok_or(RecoveryError::NoVolume)?;
        let Some(batch) = self.unproven.front() else { return Ok(()) };
        let summary = batch.summary;
        let Answer::Checksums(found) = answer else {
            let (group, at) = place(&header.shape, summary.segment, summary.at);
            return Err(RecoveryError::Unreadable { group, at });
        };
        let expected = batch.entries.iter().filter_map(|entry| match entry {
            Entry::Data { checksum, .. } => Some(checksum),
            Entry::Trim { .. } => None,
        });
        let count = expected.clone().count();
        if found.len() >= count && expected.eq(&found[..count]) {
            self.replay_one();
            return Ok(());
        }
        // The chain ends before this batch.
        let Summary { sequence, segment, at, .. } = summary;
        self.sequence = sequence - 1;
        // Any free segment can come next.
        self.position = Position { segment, at, next: segment };
        self.next_known = false;
        self.unproven.clear();
        Ok(())
    }

    /// Replays the oldest batch that was held back.
    fn replay_one(&mut self) {
        let (Some(batch), Some(header)) = (self.unproven.pop_front(), &self.header) else { return };
        let Unproven { summary, entries } = batch;
        self.clock = self.clock.max(summary.age);
        if let Some(age) = self.ages.get_mut(summary.segment.index()) {
            *age = (*age).max(summary.age);
        }
        let mut at = summary.at + header.shape.summary();
        for entry in entries {
            match entry {
                Entry::Data { lba, .. } => {
                    self.map.set(lba, Some(header.shape.pba(summary.segment, at)));
                    at += 1;
                }
                Entry::Trim { lba, blocks } => {
                    for lba in lba.0..lba.0 + u64::from(blocks) {
                        self.map.set(Lba(lba), None);
                    }
                }
            }
        }
    }

    /// The volume that was found. It continues in a new run.
    fn volume(&mut self) -> Result<LogVolume, RecoveryError> {
        let header = self.header.take().ok_or(RecoveryError::NoVolume)?;
        let mut streams: Vec<(Position, bool)> =
            header.streams.iter().map(|&position| (position, true)).collect();
        streams[0] = (self.position, self.next_known);
        let origin = Origin {
            id: header.volume,
            shape: header.shape,
            run: header.run + 1,
            number: header.number,
            sequence: self.sequence,
            clock: self.clock,
            map: core::mem::replace(&mut self.map, Map::new(0, 0)),
            ages: core::mem::take(&mut self.ages),
            streams,
        };
        Ok(LogVolume::begin(self.config, origin))
    }
}

/// Where a block of a segment is.
fn place(shape: &Shape, segment: Segment, at: u32) -> (GroupId, u64) {
    (shape.group_of(segment), shape.start_of(segment) + u64::from(at))
}

/// Whether a page has only possible values.
fn is_sound(shape: &Shape, page: u32, told: &[u8]) -> bool {
    if page >= shape.map_pages() {
        return true;
    }
    let in_log = |entry: &[u8]| {
        let mut word = [0; 8];
        word[..WIDTH].copy_from_slice(entry);
        let pba = Pba(u64::from_le_bytes(word));
        entry == [0xff; WIDTH] || pba.0 < shape.log_blocks()
    };
    told.chunks_exact(WIDTH).take(ENTRIES_PER_PAGE as usize).all(in_log)
}

fn load_ages(ages: &mut [u64], page: u32, told: &[u8]) {
    let first = (u64::from(page) * AGES_PER_PAGE) as usize;
    let ages = ages.iter_mut().skip(first).take(AGES_PER_PAGE as usize);
    for (age, bytes) in ages.zip(told.chunks_exact(8)) {
        *age = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    }
}
