//! A group of a log volume: a block device with a volatile cache.

use crate::disk::{Block, Kept, Media, tear};
use crate::source::Source;

#[derive(Clone)]
pub(super) struct Group {
    media: Media<Block>,
    size: u64,
    writes: u64,
}

impl Group {
    pub(super) fn new(size: u64, source: &mut Source) -> Self {
        Self { media: Media::new(size, Block::noise(source)), size, writes: 0 }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn read(&self, at: u64) -> &Block {
        self.media.read(at as usize)
    }

    pub(super) fn write(&mut self, at: u64, block: Block, fua: bool) {
        self.writes += 1;
        self.media.write(at as usize, block, self.writes, fua);
    }

    /// The last write that a flush that begins now will make durable.
    pub(super) fn mark(&self) -> u64 {
        self.writes
    }

    pub(super) fn flushed(&mut self, mark: u64) {
        self.media.flushed(mark);
    }

    /// The content after a discard: noise.
    pub(super) fn discard(&mut self, source: &mut Source, at: u64, blocks: u64) {
        for at in at..at + blocks {
            self.write(at, Block::noise(source), false);
        }
    }

    /// The power fails. With `torn`, some sectors of a block can stay old and others be new.
    pub(super) fn crash(&mut self, source: &mut Source, torn: bool) {
        self.media.crash(source, |source, old, new| tear(source, torn, old, new));
    }
}
