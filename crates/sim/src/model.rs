//! What a user may see: for each block the writes that may be its content, now and after a crash.
//!
//! Version 0 is a block of zeros; every other version is a number that no other write has.

use std::collections::BTreeMap;

use raidcore::units::BLOCK_BYTES;

#[derive(Clone, Copy, Debug)]
struct Write {
    version: u64,
    begun: u64,
    /// When it was acknowledged, or had failed.
    ended: Option<u64>,
    acknowledged: bool,
    durable: bool,
}

/// What a block holds that is no version of it: nobody has ever written it, or a whole stripe was
/// being overwritten when the power and a member failed together.
pub(crate) const GARBAGE: u64 = u64::MAX;

/// The array as its users know it.
pub(crate) struct Model {
    /// What blocks hold that nobody has written.
    unwritten: u64,
    clock: u64,
    blocks: BTreeMap<u64, Vec<Write>>,
}

/// The content of a version of a block.
pub(crate) fn content(lba: u64, version: u64) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
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

/// The version that a block's content says it is.
pub(crate) fn version_of(lba: u64, block: &[u8]) -> u64 {
    let version = block.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    if content(lba, version)[..] == *block { version } else { GARBAGE }
}

impl Model {
    pub(crate) fn new(unwritten: u64) -> Self {
        Self { unwritten, clock: 0, blocks: BTreeMap::new() }
    }

    /// The time, for [`Model::acknowledge`] and the like.
    pub(crate) fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// The writes that the block may hold, the oldest first.
    fn history(&mut self, lba: u64) -> &mut Vec<Write> {
        let version = self.unwritten;
        let ended = Some(0);
        let first = Write { version, begun: 0, ended, acknowledged: true, durable: true };
        self.blocks.entry(lba).or_insert_with(|| vec![first])
    }

    /// A write began at `begun`, which is its name.
    pub(crate) fn begin(&mut self, lba: u64, version: u64, begun: u64) {
        self.history(lba).push(Write {
            version,
            begun,
            ended: None,
            acknowledged: false,
            durable: false,
        });
    }

    pub(crate) fn end(&mut self, lba: u64, begun: u64, acknowledged: bool, durable: bool) {
        let now = self.now();
        let write = self.history(lba).iter_mut().find(|w| w.begun == begun);
        let write = write.expect("a write that was begun and has not ended");
        write.ended = Some(now);
        write.acknowledged = acknowledged;
        write.durable = acknowledged && durable;
        self.forget(lba);
    }

    /// A flush that began at `at` was acknowledged.
    pub(crate) fn flushed(&mut self, at: u64) {
        let lbas: Vec<u64> = self.blocks.keys().copied().collect();
        for lba in lbas {
            for write in self.history(lba) {
                write.durable |= write.acknowledged && write.ended.is_some_and(|ended| ended < at);
            }
            self.forget(lba);
        }
    }

    /// Forgets what is overwritten for good.
    fn forget(&mut self, lba: u64) {
        let history = self.history(lba);
        let last = history.iter().filter(|w| w.durable).map(|w| w.begun).max();
        history.retain(|w| match (w.ended, last) {
            (Some(ended), Some(last)) => ended > last || w.begun == last,
            _ => true,
        });
    }

    /// The versions that a read that began at `since` and ends now may return.
    pub(crate) fn readable(&mut self, lba: u64, since: u64) -> Vec<u64> {
        let history = &*self.history(lba);
        let overwritten = |w: &&Write| {
            let later = |by: &Write| by.acknowledged && w.ended.is_some_and(|e| e < by.begun);
            let before = |by: &Write| by.ended.is_some_and(|e| e < since);
            history.iter().any(|by| later(by) && before(by))
        };
        let current = history.iter().filter(|w| !overwritten(w));
        current.map(|w| w.version).collect()
    }

    /// After a crash: whether the block may be this version; from now on it is.
    pub(crate) fn survived(&mut self, lba: u64, version: u64, garbage: bool) -> bool {
        let now = self.now();
        let history = self.history(lba);
        let known = history.iter().any(|w| w.version == version);
        let torn = garbage && version == GARBAGE && history.iter().any(|w| !w.durable);
        *history = vec![Write {
            version,
            begun: now,
            ended: Some(now),
            acknowledged: true,
            durable: true,
        }];
        known || torn
    }

    /// All that may be there, for a message.
    pub(crate) fn describe(&mut self, lba: u64) -> String {
        format!("{:?}", self.history(lba))
    }
}
