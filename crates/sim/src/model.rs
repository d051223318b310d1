//! The content that users may see: for each block the writes that may be its content, now and after
//! a crash.
//!
//! Version 0 is a block of zeros; every write has another number.

use crate::disk::{Data, KEPT};

#[derive(Clone, Copy, Debug)]
struct Write {
    version: u64,
    begun: u64,
    /// When it was acknowledged, or failed.
    ended: Option<u64>,
    acknowledged: bool,
    durable: bool,
    origin: Origin,
}

/// Where a version of a block comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    /// It was written since the last crash, or was the only one that could survive that crash.
    Written,
    /// A crash may have left this one or others; no read has shown yet which one.
    Left,
    /// A user has seen that a crash has left this one, at this time.
    Seen(u64),
}

/// Content that is no version of the block: it was never written, or the array promises nothing for
/// it (see the consistency policies).
pub(crate) const GARBAGE: u64 = u64::MAX;

/// The array as its users know it.
pub(crate) struct Model {
    clock: u64,
    /// For each block the writes that may be its content, the oldest first; never empty.
    blocks: Vec<Vec<Write>>,
}

/// The content of a version of a block.
pub(crate) fn content(lba: u64, version: u64) -> Data {
    let mut block = [0; KEPT];
    if version != 0 {
        let mut word = version.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ lba.rotate_left(32);
        for (i, bytes) in block.chunks_exact_mut(8).enumerate() {
            let value = if i == 0 { version } else { word };
            bytes.copy_from_slice(&value.to_le_bytes());
            word = word.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        }
    }
    block
}

/// The version that a block's content names.
pub(crate) fn version_of(lba: u64, block: &Data) -> u64 {
    let version = block.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if content(lba, version) == *block { version } else { GARBAGE }
}

fn settled(version: u64, at: u64) -> Write {
    Write {
        version,
        begun: at,
        ended: Some(at),
        acknowledged: true,
        durable: true,
        origin: Origin::Written,
    }
}

fn left_by_crash(version: u64, at: u64) -> Write {
    Write { durable: false, origin: Origin::Left, ..settled(version, at) }
}

impl Model {
    /// An array of so many blocks, all of which hold `unwritten`.
    pub(crate) fn new(blocks: u64, unwritten: u64) -> Self {
        Self { clock: 0, blocks: vec![vec![settled(unwritten, 0)]; blocks as usize] }
    }

    /// How many blocks there are.
    pub(crate) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The array has so many blocks now. Those that it did not have are zeros.
    pub(crate) fn grow(&mut self, blocks: u64) {
        let now = self.now();
        self.blocks.resize(blocks as usize, vec![settled(0, now)]);
    }

    /// The time, for [`Model::begin`] and the like.
    pub(crate) fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A write began at `begun`, which is its name.
    pub(crate) fn begin(&mut self, lba: u64, version: u64, begun: u64) {
        let write = Write {
            version,
            begun,
            ended: None,
            acknowledged: false,
            durable: false,
            origin: Origin::Written,
        };
        self.blocks[lba as usize].push(write);
    }

    /// A write has ended. Versions that no request since `oldest` can see are dropped.
    pub(crate) fn end(
        &mut self,
        lba: u64,
        begun: u64,
        acknowledged: bool,
        durable: bool,
        oldest: u64,
    ) {
        let now = self.now();
        let history = &mut self.blocks[lba as usize];
        let write = history.iter_mut().rev().find(|w| w.begun == begun);
        let write = write.expect("a write that was begun and has not ended");
        write.ended = Some(now);
        write.acknowledged = acknowledged;
        write.durable = acknowledged && durable;
        forget(history, oldest);
    }

    /// A flush that began at `at` was acknowledged.
    pub(crate) fn flushed(&mut self, at: u64, oldest: u64) {
        for history in self.blocks.iter_mut().filter(|history| history.len() > 1) {
            for write in &mut *history {
                let known = match write.origin {
                    Origin::Written => write.ended.filter(|_| write.acknowledged),
                    Origin::Left => None,
                    Origin::Seen(seen) => Some(seen),
                };
                write.durable |= known.is_some_and(|known| known < at);
            }
            if history.iter().any(|w| w.durable && w.origin != Origin::Written) {
                history.retain(|w| w.origin != Origin::Left);
            }
            forget(history, oldest);
        }
    }

    /// Whether a read that began at `since` and ends now may return this version.
    pub(crate) fn is_readable(&self, lba: u64, version: u64, since: u64) -> bool {
        let history = &self.blocks[lba as usize];
        let overwritten = |w: &Write| {
            let later = |by: &Write| by.acknowledged && w.ended.is_some_and(|e| e < by.begun);
            let before = |by: &Write| by.ended.is_some_and(|e| e < since);
            history.iter().any(|by| later(by) && before(by))
        };
        let seen = history.iter().any(|w| matches!(w.origin, Origin::Seen(_)));
        let other = |w: &Write| seen && w.origin == Origin::Left;
        history.iter().any(|w| w.version == version && !overwritten(w) && !other(w))
    }

    /// The writes that the block may hold after a crash.
    fn survivors(&self, lba: u64) -> impl Iterator<Item = &Write> {
        let history = &self.blocks[lba as usize];
        let overwritten = |w: &Write| {
            history.iter().any(|by| by.durable && w.ended.is_some_and(|ended| ended < by.begun))
        };
        history.iter().filter(move |w| !overwritten(w))
    }

    /// Whether a crash may change the block: its last write is not durable for sure.
    pub(crate) fn is_unsettled(&self, lba: u64) -> bool {
        self.survivors(lba).any(|w| !w.durable)
    }

    /// Whether that is so for a write that began at `at` or before.
    pub(crate) fn is_unsettled_since(&self, lba: u64, at: u64) -> bool {
        self.survivors(lba).any(|w| !w.durable && w.begun <= at)
    }

    /// Whether the block may have been written after a request that began at `begun`: a write began
    /// later, or had not ended then.
    pub(crate) fn is_rewritten(&self, lba: u64, begun: u64) -> bool {
        let mut others = self.blocks[lba as usize].iter().filter(|w| w.begun != begun);
        others.any(|w| w.ended.is_none_or(|ended| ended > begun))
    }

    /// Whether the block's content is certainly a user's write.
    pub(crate) fn is_written(&self, lba: u64) -> bool {
        let history = &self.blocks[lba as usize];
        history.iter().all(|w| w.version != 0 && w.version != GARBAGE)
    }

    /// After a crash: whether the block may hold this version.
    pub(crate) fn may_have_survived(&self, lba: u64, version: u64) -> bool {
        self.survivors(lba).any(|w| w.version == version)
    }

    /// The power has failed: each block holds a version that may have survived.
    pub(crate) fn crashed(&mut self) {
        let now = self.now();
        for lba in 0..self.blocks.len() as u64 {
            let left: Vec<Write> = self.survivors(lba).copied().collect();
            let first = left[0].version;
            self.blocks[lba as usize] = match left.iter().all(|w| w.version == first) {
                true => vec![settled(first, now)],
                false => left.into_iter().map(|w| left_by_crash(w.version, now)).collect(),
            };
        }
    }

    /// A read has returned this version. If a crash may have left others, it has left this one, and
    /// the others are never seen. A flush that begins later makes it durable.
    pub(crate) fn shown(&mut self, lba: u64, version: u64) {
        let now = self.now();
        let history = &mut self.blocks[lba as usize];
        if history.iter().any(|w| w.version == version && w.origin != Origin::Left) {
            return;
        }
        if let Some(write) = history.iter_mut().find(|w| w.version == version) {
            write.origin = Origin::Seen(now);
        }
    }

    /// From now on the block certainly holds this version.
    pub(crate) fn adopt(&mut self, lba: u64, version: u64) {
        let now = self.now();
        self.blocks[lba as usize] = vec![settled(version, now)];
    }

    /// All possible versions, for a message.
    pub(crate) fn describe(&self, lba: u64) -> String {
        format!("{:?}", self.blocks[lba as usize])
    }
}

/// Drops versions that are overwritten for good, unless a request from before may still see them.
fn forget(history: &mut Vec<Write>, oldest: u64) {
    let durable = history.iter().filter(|w| w.durable && w.ended.is_some_and(|e| e < oldest));
    let Some(last) = durable.map(|w| w.begun).max() else { return };
    history.retain(|w| w.ended.is_none_or(|ended| ended > last) || w.begun == last);
}
