//! Creates a member from its log, as a power failure at a point may leave it.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Result, bail};
use det::Prng;
use raidcore::units::BLOCK_BYTES;

use crate::log::{Entry, Log};

/// The result of a replay, in blocks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    durable: u64,
    kept: u64,
    lost: u64,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { durable, kept, lost } = self;
        write!(f, "{durable} durable blocks; of what was not flushed, {kept} kept and {lost} lost")
    }
}

/// Writes to `to`, a sparse file, the writes that were durable at the point, and some of the
/// others.
pub(crate) fn run(log: &Path, to: &Path, point: u32, seed: u64) -> Result<Done> {
    replay(Log::open(File::open(log)?)?, &File::options().write(true).open(to)?, point, seed)
}

fn replay(
    log: impl Iterator<Item = io::Result<Entry>>,
    to: &File,
    point: u32,
    seed: u64,
) -> Result<Done> {
    let (before, at) = (format!("before-{point}"), format!("at-{point}"));
    let mut rng = Prng::new(seed);
    // From nothing at all to everything.
    let chance = rng.below(5);
    let mut settled = true;
    let mut done = Done::default();
    for entry in log {
        let (start, data) = match entry? {
            Entry::Mark(mark) if mark == at => return Ok(done),
            Entry::Mark(mark) => {
                settled &= mark != before;
                continue;
            }
            Entry::Flush => continue,
            // Discarded blocks read as anything.
            Entry::Discard { at, bytes } => (at, vec![rng.below(256) as u8; bytes as usize]),
            Entry::Write { at, data } => (at, data),
        };
        for (at, block) in (start..).step_by(BLOCK_BYTES).zip(data.chunks(BLOCK_BYTES)) {
            let kept = settled || rng.chance(chance, 4);
            if kept {
                to.write_all_at(block, at)?;
            }
            let counted = match (settled, kept) {
                (true, _) => &mut done.durable,
                (false, true) => &mut done.kept,
                (false, false) => &mut done.lost,
            };
            *counted += 1;
        }
    }
    bail!("point {point} is not marked in the log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_flushed_is_kept_and_what_comes_later_is_not() {
        let entries = || {
            let write = |at: u64, byte| Entry::Write { at: at << 12, data: vec![byte; 8192] };
            let mark = |text: &str| Entry::Mark(text.to_owned());
            let before = [mark("before-1"), write(0, 1), Entry::Flush, mark("at-1")];
            let at = [write(1, 2), Entry::Flush, mark("before-2"), write(3, 3), mark("at-2")];
            before.into_iter().chain(at).map(Ok)
        };
        let mut seen = [false; 3];
        for seed in 0..40 {
            let file = tempfile::tempfile().unwrap();
            let done = replay(entries(), &file, 2, seed).unwrap();
            assert_eq!((done.durable, done.kept + done.lost), (4, 2));
            seen[done.kept as usize] = true;
            let mut held = [9; 5 * BLOCK_BYTES];
            file.set_len(held.len() as u64).unwrap();
            file.read_exact_at(&mut held, 0).unwrap();
            let first: Vec<_> = held.iter().step_by(BLOCK_BYTES).copied().collect();
            assert_eq!(first[..3], [1, 2, 2]);
            assert_eq!(first[3..].iter().filter(|&&byte| byte == 3).count() as u64, done.kept);
        }
        assert_eq!(seen, [true; 3], "all, some, and none");
        assert!(replay(entries(), &tempfile::tempfile().unwrap(), 3, 0).is_err());
    }
}
