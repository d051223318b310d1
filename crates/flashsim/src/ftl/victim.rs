//! Which block of a plane is collected next.
//!
//! Invariant: sealed blocks, and only they, are on a list: for greedy that of their number of valid
//! pages, else that of their plane, in the order in which they were sealed.

use det::Prng;

use super::block::{Block, List, State};
use crate::geometry::Geometry;
use crate::profile::Victim;

#[derive(Clone, Debug)]
pub(crate) struct Victims {
    policy: Victim,
    lists: Vec<List>,
    lists_per_plane: u32,
    /// Per plane: no list below it holds a block.
    fewest: Vec<u32>,
    blocks_per_plane: u32,
    prng: Prng,
}

impl Victims {
    pub(crate) fn new(policy: Victim, g: &Geometry, seed: u64) -> Self {
        let lists_per_plane = if policy == Victim::Greedy { g.data_pages + 1 } else { 1 };
        Self {
            policy,
            lists: vec![List::EMPTY; g.planes as usize * lists_per_plane as usize],
            lists_per_plane,
            fewest: vec![lists_per_plane; g.planes as usize],
            blocks_per_plane: g.blocks_per_plane,
            prng: Prng::new(seed),
        }
    }

    /// The sealed blocks of `plane`, list by list.
    pub(crate) fn sealed(&self, blocks: &[Block], plane: u32) -> impl Iterator<Item = u32> {
        let from = (plane * self.lists_per_plane) as usize;
        let lists = &self.lists[from..from + self.lists_per_plane as usize];
        lists.iter().flat_map(|list| list.iter(blocks))
    }

    pub(crate) fn prng(&self) -> &Prng {
        &self.prng
    }

    pub(crate) fn set_prng(&mut self, prng: Prng) {
        self.prng = prng;
    }

    /// A block was sealed.
    pub(crate) fn add(&mut self, blocks: &mut [Block], id: u32) {
        let list = self.list(blocks, id);
        self.lists[list].push(blocks, id);
        self.note(blocks, id);
    }

    /// A block is sealed no longer.
    pub(crate) fn remove(&mut self, blocks: &mut [Block], id: u32) {
        let list = self.list(blocks, id);
        self.lists[list].remove(blocks, id);
    }

    /// A page of a sealed block becomes invalid.
    pub(crate) fn lose_page(&mut self, blocks: &mut [Block], id: u32) {
        if self.policy != Victim::Greedy {
            blocks[id as usize].valid -= 1;
            return;
        }
        self.remove(blocks, id);
        blocks[id as usize].valid -= 1;
        self.add(blocks, id);
    }

    /// The next block of `plane` to collect, if one is sealed.
    pub(crate) fn choose(&mut self, blocks: &[Block], plane: u32) -> Option<u32> {
        match self.policy {
            Victim::Greedy => {
                let fewest = &mut self.fewest[plane as usize];
                let from = plane * self.lists_per_plane;
                while *fewest < self.lists_per_plane {
                    if let Some(id) = self.lists[(from + *fewest) as usize].first() {
                        return Some(id);
                    }
                    *fewest += 1;
                }
                None
            }
            Victim::Fifo => self.lists[plane as usize].first(),
            Victim::WindowedGreedy(window) => self.lists[plane as usize]
                .iter(blocks)
                .take(window as usize)
                .min_by_key(|&id| blocks[id as usize].valid),
            Victim::DChoices(d) => self.draw(blocks, plane, d),
        }
    }

    /// The block that [`Victims::choose`] would choose. Nothing is drawn for it: where blocks are
    /// drawn at random, it is the best of as many that were sealed first.
    pub(crate) fn likely(&self, blocks: &[Block], plane: u32) -> Option<u32> {
        let among = match self.policy {
            Victim::Greedy => {
                let from = plane * self.lists_per_plane;
                let mut lists = self.fewest[plane as usize]..self.lists_per_plane;
                return lists.find_map(|list| self.lists[(from + list) as usize].first());
            }
            Victim::Fifo => 1,
            Victim::WindowedGreedy(window) => window,
            Victim::DChoices(d) => d,
        };
        let sealed = self.lists[plane as usize].iter(blocks).take(among as usize);
        sealed.min_by_key(|&id| blocks[id as usize].valid)
    }

    /// The best of `d` sealed blocks, drawn with replacement.
    fn draw(&mut self, blocks: &[Block], plane: u32, d: u32) -> Option<u32> {
        self.lists[plane as usize].first()?;
        let from = plane * self.blocks_per_plane;
        let mut best: Option<u32> = None;
        let mut drawn = 0;
        while drawn < d {
            let id = from + self.prng.below(self.blocks_per_plane.into()) as u32;
            let block = &blocks[id as usize];
            if block.state != State::Sealed {
                continue;
            }
            drawn += 1;
            if best.is_none_or(|best| block.valid < blocks[best as usize].valid) {
                best = Some(id);
            }
        }
        best
    }

    fn list(&self, blocks: &[Block], id: u32) -> usize {
        let plane = id / self.blocks_per_plane;
        let valid =
            if self.policy == Victim::Greedy { blocks[id as usize].valid.into() } else { 0 };
        (plane * self.lists_per_plane + valid) as usize
    }

    fn note(&mut self, blocks: &[Block], id: u32) {
        if self.policy == Victim::Greedy {
            let fewest = &mut self.fewest[(id / self.blocks_per_plane) as usize];
            *fewest = (*fewest).min(blocks[id as usize].valid.into());
        }
    }
}
