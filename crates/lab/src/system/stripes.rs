//! Where chunks and their parity are, on drives without an engine.

use std::collections::BTreeSet;

/// Where parity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parity {
    /// There is none.
    None,
    /// On the SSD after those of data.
    Last,
    /// On all in turn.
    Rotating,
    /// On several smaller SSDs after those of data, in turn.
    Split,
}

/// Blocks in a row on one SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) drive: usize,
    /// The first block.
    pub(super) at: u64,
    pub(super) blocks: u32,
}

impl Run {
    pub(super) fn end(self) -> u64 {
        self.at + u64::from(self.blocks)
    }

    /// Its blocks on the drive.
    pub(super) fn range(self) -> core::ops::Range<u64> {
        self.at..self.end()
    }
}

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    parity: Parity,
    data: u64,
    parities: u64,
    /// Blocks of a chunk.
    pub(super) chunk: u64,
    stripes: u64,
}

/// Blocks of a stripe's chunk, by their offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) stripe: u64,
    /// Which data chunk of the stripe.
    pub(super) chunk: u64,
    /// The first block within the chunk.
    pub(super) first: u64,
    pub(super) blocks: u64,
}

impl Layout {
    /// On data SSDs with room for `stripes` chunks.
    pub(super) fn new(parity: Parity, data: u8, parities: u8, chunk: u64, stripes: u64) -> Self {
        Self { parity, data: data.into(), parities: parities.into(), chunk, stripes }
    }

    /// The blocks that users have.
    pub(super) fn capacity(&self) -> u64 {
        self.stripes * self.chunk * self.data
    }

    /// The blocks in use on each SSD that has data or parity.
    pub(super) fn blocks_of(&self, drive: usize) -> u64 {
        let split = (drive as u64).checked_sub(self.data);
        let stripes = match split.filter(|_| self.parity == Parity::Split) {
            Some(number) => self.stripes.saturating_sub(number).div_ceil(self.parities),
            None => self.stripes,
        };
        stripes * self.chunk
    }

    /// The chunks of data in a stripe.
    pub(super) fn data(&self) -> u64 {
        self.data
    }

    /// Users' blocks, chunk by chunk.
    pub(super) fn parts(&self, lba: u64, blocks: u32) -> impl Iterator<Item = Part> + use<> {
        let Self { chunk: size, data, .. } = *self;
        let (mut at, end) = (lba, lba + u64::from(blocks));
        core::iter::from_fn(move || {
            let number = at / size;
            let (first, left) = (at % size, end.checked_sub(at).filter(|&left| left > 0)?);
            let blocks = left.min(size - first);
            at += blocks;
            Some(Part { stripe: number / data, chunk: number % data, first, blocks })
        })
    }

    /// Where a part is.
    pub(super) fn data_run(&self, part: Part) -> Run {
        let Part { stripe, chunk, first, blocks } = part;
        let drive = match self.parity {
            Parity::None | Parity::Last | Parity::Split => chunk,
            Parity::Rotating => (self.parity_of(stripe).0 + 1 + chunk) % (self.data + 1),
        };
        Run { drive: drive as usize, at: stripe * self.chunk + first, blocks: blocks as u32 }
    }

    /// Where the parity of a part of a stripe's chunks is, if there is any.
    pub(super) fn parity_run(&self, stripe: u64, first: u64, blocks: u64) -> Option<Run> {
        let (drive, row) = self.parity_of(stripe);
        let run =
            Run { drive: drive as usize, at: row * self.chunk + first, blocks: blocks as u32 };
        (self.parity != Parity::None).then_some(run)
    }

    /// The parity of these blocks of one stripe's data.
    pub(super) fn parity_of_runs(&self, data: &[Run]) -> Vec<Run> {
        let rows: BTreeSet<u64> = data.iter().flat_map(|run| run.range()).collect();
        let stripe = data.first().map_or(0, |run| run.at / self.chunk);
        let parity = |&at: &u64| self.parity_run(stripe, at % self.chunk, 1);
        merged(rows.iter().filter_map(parity).collect())
    }

    /// What a block of an SSD is computed from: one block of each other SSD of its stripe.
    pub(super) fn others(&self, drive: usize, at: u64) -> impl Iterator<Item = Run> + use<> {
        let (row, first) = (at / self.chunk, at % self.chunk);
        let stripe = match self.parity {
            Parity::Split if drive as u64 >= self.data => {
                row * self.parities + drive as u64 - self.data
            }
            Parity::None | Parity::Last | Parity::Rotating | Parity::Split => row,
        };
        let this = *self;
        let data = (0..self.data)
            .map(move |chunk| this.data_run(Part { stripe, chunk, first, blocks: 1 }));
        let all = data.chain(self.parity_run(stripe, first, 1));
        all.filter(move |run| run.drive != drive)
    }

    /// The SSD of a stripe's parity, and the chunk there.
    fn parity_of(&self, stripe: u64) -> (u64, u64) {
        match self.parity {
            Parity::None | Parity::Last => (self.data, stripe),
            Parity::Rotating => (self.data - stripe % (self.data + 1), stripe),
            Parity::Split => (self.data + stripe % self.parities, stripe / self.parities),
        }
    }
}

/// Makes one run of those that follow each other or overlap.
pub(super) fn merged(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_unstable();
    let mut merged: Vec<Run> = Vec::new();
    for run in runs {
        match merged.last_mut() {
            Some(last) if last.drive == run.drive && run.at <= last.end() => {
                last.blocks = (run.end().max(last.end()) - last.at) as u32;
            }
            _ => merged.push(run),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_of_users_and_every_parity_has_a_place_of_its_own() {
        for (parity, parities) in [(Parity::Last, 1), (Parity::Rotating, 1), (Parity::Split, 3)] {
            let layout = Layout::new(parity, 4, parities, 2, 12);
            let mut places = Vec::new();
            for stripe in 0..12 {
                for chunk in 0..4 {
                    places.push(layout.data_run(Part { stripe, chunk, first: 0, blocks: 2 }));
                }
                places.extend(layout.parity_run(stripe, 0, 2));
            }
            let mut blocks: Vec<_> = places
                .iter()
                .flat_map(|run| (0..2).map(|block| (run.drive, run.at + block)))
                .collect();
            blocks.sort_unstable();
            blocks.dedup();
            assert_eq!(blocks.len(), 12 * 5 * 2, "{parity:?}");
            assert!(blocks.iter().all(|&(drive, at)| at < layout.blocks_of(drive)), "{parity:?}");
        }
    }

    #[test]
    fn a_block_is_computed_from_its_stripes_other_blocks() {
        let layout = Layout::new(Parity::Split, 2, 2, 1, 6);
        let run = |drive, at| Run { drive, at, blocks: 1 };
        let others = |drive, at| layout.others(drive, at).collect::<Vec<_>>();
        assert_eq!(others(0, 3), [run(1, 3), run(3, 1)]);
        assert_eq!(others(3, 1), [run(0, 3), run(1, 3)]);
    }

    #[test]
    fn a_request_is_cut_at_chunks() {
        let layout = Layout::new(Parity::Last, 2, 1, 4, 8);
        let parts: Vec<_> = layout.parts(6, 8).collect();
        let part = |stripe, chunk, first, blocks| Part { stripe, chunk, first, blocks };
        assert_eq!(parts, [part(0, 1, 2, 2), part(1, 0, 0, 4), part(1, 1, 0, 2)]);
    }

    #[test]
    fn what_follows_or_overlaps_is_one_run() {
        let run = |drive, at, blocks| Run { drive, at, blocks };
        let runs = vec![run(1, 4, 1), run(0, 2, 1), run(1, 5, 2), run(0, 4, 1), run(1, 4, 2)];
        assert_eq!(merged(runs), [run(0, 2, 1), run(0, 4, 1), run(1, 4, 3)]);
    }
}
