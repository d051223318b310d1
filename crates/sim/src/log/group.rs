//! A group of a log volume: a block device with a volatile cache.

use std::rc::Rc;

use raidcore::units::BLOCK_BYTES;

use crate::disk::{Data, KEPT, Media, Meta, mixed};
use crate::source::Source;

/// A block: a user's, of which the first bytes are kept, the rest being zeros; or the volume's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Block {
    Data(Data),
    Meta(Meta),
}

impl Block {
    pub(super) const ZERO: Self = Self::Data([0; KEPT]);

    pub(super) fn bytes(&self) -> [u8; BLOCK_BYTES] {
        match self {
            Self::Data(data) => {
                let mut bytes = [0; BLOCK_BYTES];
                bytes[..KEPT].copy_from_slice(data);
                bytes
            }
            Self::Meta(bytes) => **bytes,
        }
    }

    /// The world's own checksum of it: as good as one over all of its bytes.
    pub(super) fn checksum(&self) -> u32 {
        match self {
            Self::Data(data) => raidlog::codec::checksum(data),
            Self::Meta(bytes) => raidlog::codec::checksum(&**bytes),
        }
    }
}

#[derive(Clone)]
pub(super) struct Group {
    media: Media<Block>,
    size: u64,
    writes: u64,
}

impl Group {
    pub(super) fn new(size: u64, source: &mut Source) -> Self {
        let mut noise = [0; KEPT];
        source.noise(&mut noise);
        Self { media: Media::new(size, Block::Data(noise)), size, writes: 0 }
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

    /// What a flush that begins now will make durable.
    pub(super) fn mark(&self) -> u64 {
        self.writes
    }

    pub(super) fn flushed(&mut self, mark: u64) {
        self.media.flushed(mark);
    }

    /// What a discard leaves behind: noise.
    pub(super) fn discard(&mut self, source: &mut Source, at: u64, blocks: u64) {
        for at in at..at + blocks {
            let mut noise = [0; KEPT];
            source.noise(&mut noise);
            self.write(at, Block::Data(noise), false);
        }
    }

    /// The power fails. With `torn`, a block can be left old in some sectors and new in others.
    pub(super) fn crash(&mut self, source: &mut Source, torn: bool) {
        self.media.crash(source, |source, old, new| {
            if !torn || source.chance(1, 2) {
                return new.clone();
            }
            match (old, new) {
                // Neither what was there nor what was to be.
                (_, Block::Data(_)) => {
                    let mut noise = [0; KEPT];
                    source.noise(&mut noise);
                    Block::Data(noise)
                }
                (old, Block::Meta(new)) => Block::Meta(Rc::new(mixed(source, &old.bytes(), new))),
            }
        });
    }
}
