//! A disk with a volatile cache: what was written is seen at once, but survives a crash for sure
//! only after a flush or with FUA; until then each block survives in any of its versions.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use det::Prng;
use raidcore::engine::IoError;
use raidcore::meta::MemberImage;
use raidcore::units::{BLOCK_BYTES, Pba};

pub(crate) type Block = Rc<[u8]>;

#[derive(Clone, Default)]
pub(crate) struct Disk {
    pub(crate) blocks: u64,
    durable: BTreeMap<u64, Block>,
    /// Versions that are not durable yet, oldest first, each with the write's number.
    cached: BTreeMap<u64, Vec<(u64, Block)>>,
    writes: u64,
    /// Blocks that can't be read until they are written.
    pub(crate) bad: BTreeSet<u64>,
    /// It answers no more.
    pub(crate) gone: bool,
    /// It answers, but nothing can be read.
    pub(crate) unreadable: bool,
    /// Blocks that can't be written.
    pub(crate) unwritable: BTreeSet<u64>,
    /// How its next write or flush fails.
    pub(crate) sick: Option<IoError>,
}

impl Disk {
    pub(crate) fn new(blocks: u64) -> Self {
        Self { blocks, ..Self::default() }
    }

    /// Fills everything from `from` on with noise: what a used disk holds.
    pub(crate) fn soil(&mut self, prng: &mut Prng, from: u64) {
        for at in from..self.blocks {
            let mut noise = vec![0; BLOCK_BYTES];
            prng.fill(&mut noise);
            self.durable.insert(at, noise.into());
        }
    }

    pub(crate) fn read(&self, at: u64) -> Option<&Block> {
        assert!(at < self.blocks, "a read beyond the end");
        let cached = self.cached.get(&at).and_then(|versions| versions.last());
        cached.map(|(_, b)| b).or_else(|| self.durable.get(&at))
    }

    pub(crate) fn write(&mut self, at: u64, block: Block, fua: bool) {
        assert!(at < self.blocks, "a write beyond the end");
        self.bad.remove(&at);
        if fua {
            self.cached.remove(&at);
            self.durable.insert(at, block);
        } else {
            self.writes += 1;
            let version = (self.writes, block);
            self.cached.entry(at).or_default().push(version);
        }
    }

    /// What a flush that begins now will make durable.
    pub(crate) fn flush_mark(&self) -> u64 {
        self.writes
    }

    pub(crate) fn flushed(&mut self, mark: u64) {
        let durable = &mut self.durable;
        self.cached.retain(|&at, versions| {
            let count = versions.partition_point(|(number, _)| *number <= mark);
            if let Some((_, block)) = versions.drain(..count).next_back() {
                durable.insert(at, block);
            }
            !versions.is_empty()
        });
    }

    /// What a discard leaves behind: noise.
    pub(crate) fn discard(&mut self, prng: &mut Prng, at: u64, blocks: u64) {
        for at in at..at + blocks {
            let mut noise = vec![0; BLOCK_BYTES];
            prng.fill(&mut noise);
            self.write(at, noise.into(), false);
        }
    }

    /// The power fails; `in_flight` are the blocks of writes that had not completed.
    pub(crate) fn crash(&mut self, prng: &mut Prng, in_flight: Vec<(u64, Block)>) {
        let mut versions = std::mem::take(&mut self.cached);
        for (at, block) in in_flight {
            versions.entry(at).or_default().push((0, block));
        }
        for (at, versions) in versions {
            let choice = prng.below(versions.len() as u64 + 1) as usize;
            if choice > 0 {
                self.durable.insert(at, versions[choice - 1].1.clone());
            }
        }
    }

    /// What assembly reads of it.
    pub(crate) fn image(&self, label: String, meta_blocks: u64) -> MemberImage {
        let mut meta = vec![0; meta_blocks as usize * BLOCK_BYTES];
        for (&at, block) in self.durable.range(..meta_blocks) {
            let start = at as usize * BLOCK_BYTES;
            meta[start..start + BLOCK_BYTES].copy_from_slice(block);
        }
        MemberImage {
            label,
            blocks: self.blocks,
            meta,
            unreadable: self.bad.iter().map(|&at| Pba(at)).collect(),
        }
    }
}
