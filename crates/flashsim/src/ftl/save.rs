//! The flash translation layer as numbers, and back: what is where, and in which order blocks are
//! used next.
//!
//! Invariant: what is restored keeps all invariants of the [module](super) and of its parts,
//! whatever the numbers are: among them that a plane has the room to collect a block.

use super::block::{NONE, State};
use super::{Ftl, Lpn, Moving, OpenBlock, Place, Ppa, Stream};
use crate::profile::Profile;
use crate::save::{Reader, RestoreError, Writer};

/// A block is worn out long before this.
const ERASES_MAX: u32 = 1 << 31;

impl Ftl {
    pub(crate) fn save(&self, out: &mut Writer) {
        out.u32(self.next_die);
        self.next_plane.iter().for_each(|&plane| out.u32(plane));
        out.prng(self.victims.prng());
        for (number, plane) in (0u32..).zip(&self.planes) {
            out.list(plane.free.iter().copied());
            out.list(self.victims.sealed(&self.blocks, number));
            for open in &plane.open {
                out.u32(open.id);
                out.u32(open.next);
            }
            out.u32(plane.victim.map_or(NONE, |moving| moving.block));
            out.u32(plane.victim.map_or(0, |moving| moving.next));
        }
        self.erases().for_each(|erases| out.u32(erases));
        for lpn in 0..self.geometry.logical_pages {
            out.u32(match self.place(lpn) {
                Place::Flash(ppa) => ppa,
                Place::Unmapped | Place::Buffer(_) => NONE,
            });
        }
    }

    /// After a profile that has been checked.
    pub(crate) fn restore(profile: &Profile, input: &mut Reader) -> Result<Self, RestoreError> {
        let g = profile.sizes();
        // Checked before memory is allocated for them.
        if input.left() < 4 * (u64::from(g.blocks()) + u64::from(g.logical_pages)) {
            return Err(RestoreError::Damaged);
        }
        let mut ftl = Self::new(profile, 0);
        ftl.next_die = input.below(g.dies, "a die that it doesn't have")?;
        for next in &mut ftl.next_plane {
            *next = input.below(g.planes_per_die, "a plane that it doesn't have")?;
        }
        ftl.victims.set_prng(input.prng()?);
        let mut placed = Placed(vec![false; g.blocks() as usize]);
        let mut sealed = Vec::new();
        for plane in 0..g.planes {
            ftl.restore_plane(plane, input, &mut placed, &mut sealed)?;
        }
        if !placed.0.iter().all(|&placed| placed) {
            return Err(RestoreError::Impossible("a block is nowhere"));
        }
        for block in &mut ftl.blocks {
            block.erases = input.below(ERASES_MAX, "a block was erased too often")?;
        }
        for lpn in 0..g.logical_pages {
            match input.u32()? {
                NONE => {}
                ppa => ftl.restore_page(lpn, ppa)?,
            }
        }
        for id in sealed {
            ftl.victims.add(&mut ftl.blocks, id);
        }
        for plane in 0..g.planes {
            let blocks = plane * g.blocks_per_plane..(plane + 1) * g.blocks_per_plane;
            let erases = blocks.map(|id| ftl.blocks[id as usize].erases);
            ftl.planes[plane as usize].most_erases = erases.max().unwrap_or(0);
            if !ftl.can_move(plane) {
                return Err(RestoreError::Impossible("a plane has no room to collect a block"));
            }
        }
        Ok(ftl)
    }

    fn restore_plane(
        &mut self,
        plane: u32,
        input: &mut Reader,
        placed: &mut Placed,
        sealed: &mut Vec<u32>,
    ) -> Result<(), RestoreError> {
        let (g, streams) = (self.geometry, usize::from(self.streams));
        let blocks = plane * g.blocks_per_plane..(plane + 1) * g.blocks_per_plane;
        let mut place = |id, input: &mut _| placed.place(id, &blocks, input);
        let state = &mut self.planes[plane as usize];
        state.free.clear();
        for _ in 0..input.length(g.blocks_per_plane)? {
            state.free.push_back(place(None, input)?);
        }
        self.free[plane as usize] = state.free.len() as u32;
        for _ in 0..input.length(g.blocks_per_plane)? {
            let id = place(None, input)?;
            self.blocks[id as usize].state = State::Sealed;
            sealed.push(id);
        }
        for open in 0..state.open.len() {
            let (id, next) = (input.u32()?, input.below(g.data_pages + 1, "a page of no block")?);
            if next < g.data_pages {
                place(Some(id), input)?;
                self.blocks[id as usize].state = State::Open;
            }
            let known = id == NONE || blocks.contains(&id);
            let used = open < streams || self.separate || next == g.data_pages;
            if !known || !used || !next.is_multiple_of(g.pages_per_program) {
                return Err(RestoreError::Impossible("a block that can't be written to"));
            }
            state.open[open] = OpenBlock { id, next };
        }
        let (block, next) = (input.u32()?, input.below(g.data_pages + 1, "a page of no block")?);
        if block != NONE {
            place(Some(block), input)?;
            self.blocks[block as usize].state = State::Victim;
            state.victim = Some(Moving { block, next });
        }
        Ok(())
    }

    fn restore_page(&mut self, lpn: Lpn, ppa: Ppa) -> Result<(), RestoreError> {
        let g = &self.geometry;
        let (id, page) = (ppa / g.pages_per_block, ppa % g.pages_per_block);
        let state = self.blocks.get(id as usize).map(|block| block.state);
        let plane = &self.planes[g.plane_of(id.min(g.blocks() - 1)) as usize];
        let written = match state {
            None | Some(State::Free) => false,
            Some(State::Sealed) => page < g.data_pages,
            Some(State::Open) => plane.open.iter().any(|open| open.id == id && page < open.next),
            // The pages before this one have been moved.
            Some(State::Victim) => {
                page < g.data_pages && plane.victim.is_some_and(|moving| page >= moving.next)
            }
        };
        if !written || self.map.holds(ppa).is_some() {
            return Err(RestoreError::Impossible("a page is where nothing can be"));
        }
        self.map.put(lpn, ppa);
        self.blocks[id as usize].valid += 1;
        let plane = self.geometry.plane_of(id);
        self.valid[plane as usize] += 1;
        Ok(())
    }

    /// Whether all of the plane's victim, or of any block, can be moved.
    fn can_move(&self, plane: u32) -> bool {
        let (g, state) = (&self.geometry, &self.planes[plane as usize]);
        let to_move = state.victim.map_or(g.data_pages, |moving| {
            let valid = u32::from(self.blocks[moving.block as usize].valid);
            valid.next_multiple_of(g.pages_per_program)
        });
        let open = state.open[self.index(Stream::Moved)];
        let left = u64::from(g.data_pages - open.next);
        left + u64::from(self.free[plane as usize]) * u64::from(g.data_pages) >= u64::from(to_move)
    }
}

/// The blocks that have been placed so far.
struct Placed(Vec<bool>);

impl Placed {
    /// Block `id`, or the next one that is read, if it is one of `blocks` and has no place yet.
    fn place(
        &mut self,
        id: Option<u32>,
        blocks: &core::ops::Range<u32>,
        input: &mut Reader,
    ) -> Result<u32, RestoreError> {
        let id = match id {
            Some(id) => id,
            None => input.u32()?,
        };
        if !blocks.contains(&id) || core::mem::replace(&mut self.0[id as usize], true) {
            return Err(RestoreError::Impossible("a block is in two places, or in no plane"));
        }
        Ok(id)
    }
}
