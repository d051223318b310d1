//! The distributed spare's room goes back to the SSDs when nothing is on it any more: until they are
//! told so, they keep what was copied back, and collect garbage in that much less room.
//!
//! Invariants:
//! - Nothing is discarded before it is on record that the spare is free: until then a crash leaves
//!   an array that reads what is there.
//! - Discards and what the spare is used for never meet: each waits for what is under way of the
//!   other, and a new use ends what is left to be discarded: when that is over, all of it is.
//!
//! A stop or a crash ends it, too. What is left then costs room, and nothing else.

use det::Instant;

/// How many chunks of each member are discarded at a time.
const PART: u64 = 8;

/// What is left to be discarded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpareTrim {
    /// How many blocks of each member were discarded, or are being.
    done: u64,
    /// When the last part was begun, and how large it was.
    last: Option<(Instant, u64)>,
}

impl SpareTrim {
    /// The next part, of so many blocks in all: from which block on, and how many.
    pub(super) fn next_part(&self, chunk: u32, blocks: u64) -> (u64, u64) {
        (self.done, (PART * u64::from(chunk)).min(blocks - self.done))
    }

    /// What is left after this part, which is begun now.
    pub(super) fn after(&self, part: u64, now: Instant, blocks: u64) -> Option<Self> {
        let done = self.done + part;
        (done < blocks).then_some(Self { done, last: Some((now, part)) })
    }

    /// When the last part was begun, and how many blocks it had.
    pub(super) fn last(&self) -> Option<(Instant, u64)> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_discarded_a_part_after_the_other() {
        let (mut left, mut parts) = (Some(SpareTrim::default()), alloc::vec::Vec::new());
        while let Some(trim) = left {
            let (from, part) = trim.next_part(4, 70);
            parts.push((from, part));
            left = trim.after(part, Instant::ORIGIN, 70);
        }
        assert_eq!(parts, [(0, 32), (32, 32), (64, 6)]);
    }
}
