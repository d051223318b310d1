//! The flash translation layer: where pages are, which blocks are free, which one is collected
//! next. It knows nothing of time: an operation has happened when it returns.
//!
//! Invariants:
//! - A block's count of valid pages is the number of its pages that hold a logical page.
//! - A plane's blocks are free, open (at most one per stream), sealed, or its one victim.
//! - Where the host has several streams, what collection moves has a stream of its own.
//! - Data is only ever written to the next page of an open block.
//! - The host leaves each plane enough room to collect a block, and to finish one that has begun.

mod block;
mod map;
mod precondition;
mod save;
mod victim;

use std::collections::VecDeque;

use block::{Block, NONE, State};
use map::Map;
pub(crate) use map::{Lpn, Place, Ppa};
pub use precondition::Precondition;
pub(crate) use precondition::Writer;
use victim::Victims;

use crate::geometry::Geometry;
use crate::profile::{DieChoice, PlaneChoice, Profile, Victim, WearLeveling};
use crate::stats::FlashStats;

/// The sources of writes: their pages go to different blocks where the profile says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// The host's of this number, which the drive has.
    Host(u16),
    Moved,
}

/// A page that the host writes, and its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) lpn: Lpn,
    pub(crate) stream: u16,
}

#[derive(Clone, Copy, Debug)]
struct OpenBlock {
    id: u32,
    /// Its next page; `data_pages` if it is full.
    next: u32,
}

#[derive(Clone, Debug)]
struct Plane {
    free: VecDeque<u32>,
    /// Those of the host's streams, then that of what is moved.
    open: Box<[OpenBlock]>,
    victim: Option<Moving>,
    /// Erases of its most worn block.
    most_erases: u32,
}

/// A victim, and how far it has been moved.
#[derive(Clone, Copy, Debug)]
struct Moving {
    block: u32,
    next: u32,
}

/// What the programs of a step of garbage collection did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Pages were moved, after reading so many rows; some programs may have filled a block.
    Moved { pages: u32, rows: u32, filled: bool },
    /// Nothing is valid in the victim any more: it is to be erased.
    Erase,
}

/// The flash translation layer of one drive.
#[derive(Clone, Debug)]
pub(crate) struct Ftl {
    geometry: Geometry,
    map: Map,
    blocks: Vec<Block>,
    planes: Vec<Plane>,
    /// Per plane, apart from `planes` because every operation looks at them: free blocks, and valid
    /// pages.
    free: Vec<u32>,
    valid: Vec<u32>,
    victims: Victims,
    die_choice: DieChoice,
    plane_choice: PlaneChoice,
    next_die: u32,
    next_plane: Vec<u32>,
    greedy: bool,
    separate: bool,
    /// Of the host.
    streams: u16,
    wear_leveling: Option<WearLeveling>,
    /// Free blocks of a plane at which it is collected, and above which that ends.
    start: u32,
    stop: u32,
    pub(crate) stats: FlashStats,
}

impl Ftl {
    /// An empty drive after a profile that has been checked. `seed` is for policies that draw.
    pub(crate) fn new(profile: &Profile, seed: u64) -> Self {
        let geometry = profile.sizes();
        let (blocks, planes) = (geometry.blocks(), geometry.planes as usize);
        let full = OpenBlock { id: NONE, next: geometry.data_pages };
        let plane = |plane: u32| Plane {
            free: (0..geometry.blocks_per_plane)
                .map(|block| plane * geometry.blocks_per_plane + block)
                .collect(),
            open: vec![full; usize::from(profile.ftl.streams) + 1].into(),
            victim: None,
            most_erases: 0,
        };
        let start = profile.share(profile.gc.start).max(1);
        Self {
            map: Map::new(
                geometry.logical_pages as usize,
                blocks as usize * geometry.pages_per_block as usize,
            ),
            blocks: vec![Block::FREE; blocks as usize],
            planes: (0..geometry.planes).map(plane).collect(),
            free: vec![geometry.blocks_per_plane; planes],
            valid: vec![0; planes],
            victims: Victims::new(profile.gc.victim, &geometry, seed),
            die_choice: profile.ftl.die,
            plane_choice: profile.ftl.plane,
            next_die: 0,
            next_plane: vec![0; geometry.dies as usize],
            greedy: profile.gc.victim == Victim::Greedy,
            separate: profile.gc.separate || profile.ftl.streams > 1,
            streams: profile.ftl.streams,
            wear_leveling: profile.ftl.wear_leveling,
            start,
            stop: profile.share(profile.gc.stop.unwrap_or(profile.gc.start)).max(start),
            stats: FlashStats::default(),
            geometry,
        }
    }

    /// Sizes of the drive.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Where a logical page is.
    pub(crate) fn place(&self, lpn: Lpn) -> Place {
        self.map.place(lpn)
    }

    /// Free blocks of a plane.
    pub(crate) fn free_blocks(&self, plane: u32) -> u32 {
        self.free[plane as usize]
    }

    /// How many streams the host has.
    pub(crate) fn streams(&self) -> u16 {
        self.streams
    }

    /// Pages of a stream of the host that can be written before something has to be erased.
    pub(crate) fn free_pages(&self, plane: u32, stream: u16) -> u32 {
        let open = self.planes[plane as usize].open[usize::from(stream)];
        let in_open = if open.id == NONE { 0 } else { self.geometry.pages_per_block - open.next };
        self.free[plane as usize] * self.geometry.pages_per_block + in_open
    }

    /// Whether the host can write to `plane` now, in this stream, and leave enough room to move its
    /// victim, or any other block.
    pub(crate) fn has_room(&self, plane: u32, stream: u16) -> bool {
        let free = self.free[plane as usize];
        if free > 2 {
            return true;
        }
        let (g, plane) = (&self.geometry, &self.planes[plane as usize]);
        let left = |open: OpenBlock| g.data_pages - open.next;
        let to_move = plane.victim.map_or(g.data_pages, |moving| {
            let valid = u32::from(self.blocks[moving.block as usize].valid);
            valid.next_multiple_of(g.pages_per_program)
        });
        let own = left(plane.open[usize::from(stream)]);
        if !self.separate {
            return own + free * g.data_pages >= to_move + g.pages_per_program;
        }
        let moved = left(plane.open[self.index(Stream::Moved)]);
        let room_to_move = |free: u32| moved + free * g.data_pages >= to_move;
        own > 0 || (free > 0 && room_to_move(free - 1))
    }

    /// The die for the next write; `waiting` gives the number of operations that wait for a die.
    pub(crate) fn choose_die(&mut self, write: Write, waiting: impl Fn(u32) -> u32) -> u32 {
        let g = self.geometry;
        let best = match self.die_choice {
            DieChoice::Static => return write.lpn % g.dies,
            DieChoice::RoundRobin => self.next_die,
            DieChoice::MostFree => first_best(self.next_die, g.dies, |die| {
                let free = |plane| u64::from(self.free_pages(plane, write.stream));
                g.planes_of(die).map(free).sum::<u64>()
            }),
            DieChoice::ShortestQueue => {
                first_best(self.next_die, g.dies, |die| core::cmp::Reverse(waiting(die)))
            }
        };
        self.next_die = (best + 1) % g.dies;
        best
    }

    /// The plane of `die` that would take `write` now; `None` if no plane that may take it has room.
    pub(crate) fn peek_plane(&self, die: u32, write: Write) -> Option<u32> {
        let g = &self.geometry;
        let from = g.planes_of(die).start;
        let next = self.next_plane[die as usize];
        let has_room = |plane| self.has_room(from + plane, write.stream);
        let best = match self.plane_choice {
            _ if g.planes_per_die == 1 => 0,
            PlaneChoice::Static => (write.lpn / g.dies) % g.planes_per_die,
            PlaneChoice::RoundRobin => first_best(next, g.planes_per_die, has_room),
            PlaneChoice::MostFree => {
                let free = |plane| self.free_pages(from + plane, write.stream);
                // It nearly always has room, and is then the best of those that have.
                let freest = first_best(next, g.planes_per_die, free);
                if has_room(freest) {
                    return Some(from + freest);
                }
                first_best(next, g.planes_per_die, |plane| (has_room(plane), free(plane)))
            }
        };
        has_room(best).then_some(from + best)
    }

    /// A write goes to `plane`: where planes take turns, the next one goes to the next plane.
    pub(crate) fn take_turn(&mut self, die: u32, plane: u32) {
        self.next_plane[die as usize] = (plane + 1) % self.geometry.planes_per_die;
    }

    /// Writes a logical page to `plane`. True if that filled a block.
    ///
    /// # Panics
    /// If the plane has no room.
    pub(crate) fn write(&mut self, lpn: Lpn, plane: u32, stream: Stream) -> bool {
        let (ppa, filled) = self.allocate(plane, stream);
        if let Some(old) = self.map.put(lpn, ppa) {
            self.invalidate(old);
        }
        let block = ppa / self.geometry.pages_per_block;
        self.blocks[block as usize].valid += 1;
        self.valid[plane as usize] += 1;
        if let Some(id) = filled {
            self.seal(id);
        }
        filled.is_some()
    }

    /// Leaves a page of `plane` unused, because a program has to be complete.
    pub(crate) fn pad(&mut self, plane: u32, stream: Stream) -> bool {
        let (_, filled) = self.allocate(plane, stream);
        if let Some(id) = filled {
            self.seal(id);
        }
        self.stats.padded += 1;
        filled.is_some()
    }

    /// Forgets where `lpn` was in flash: it is in this slot of the write buffer now.
    pub(crate) fn put_in_buffer(&mut self, lpn: Lpn, slot: u32) {
        if let Some(old) = self.map.put_in_buffer(lpn, slot) {
            self.invalidate(old);
        }
    }

    /// Forgets `lpn`.
    pub(crate) fn trim(&mut self, lpn: Lpn) {
        if let Some(old) = self.map.take(lpn) {
            self.invalidate(old);
        }
    }

    /// Whether `plane` has a victim, or could choose one with at least `gain` invalid pages. A
    /// plane with less than a block of garbage is not collected, nor a block (by the greedy policy)
    /// whose valid pages take as many programs as it has: that would only move data around for ever.
    pub(crate) fn can_collect(&mut self, plane: u32, gain: u32) -> bool {
        if self.planes[plane as usize].victim.is_some() {
            return true;
        }
        if self.garbage(plane) < self.geometry.data_pages {
            return false;
        }
        let gain = if self.greedy { gain.max(self.geometry.pages_per_program) } else { gain };
        let most = self.geometry.data_pages.saturating_sub(gain);
        self.victims
            .choose(&self.blocks, plane)
            .is_some_and(|id| u32::from(self.blocks[id as usize].valid) <= most)
    }

    /// The invalid pages of the block of `plane` that would be collected next: of its victim if it
    /// has one; `None` if no block is sealed.
    pub(crate) fn dirtiest(&self, plane: u32) -> Option<u32> {
        let victim = self.planes[plane as usize].victim.map(|victim| victim.block);
        let block = victim.or_else(|| self.victims.likely(&self.blocks, plane))?;
        Some(self.geometry.data_pages - u32::from(self.blocks[block as usize].valid))
    }

    /// Moves the next pages of the plane's victim, as many as one program takes. Chooses a victim
    /// if there is none; `None` if none is sealed.
    pub(crate) fn collect(&mut self, plane: u32) -> Option<Step> {
        let g = self.geometry;
        let mut moving = match self.planes[plane as usize].victim {
            Some(moving) => moving,
            None => self.choose_victim(plane)?,
        };
        let first = moving.block * g.pages_per_block;
        let (mut pages, mut rows, mut last_row, mut filled) = (0, 0, NONE, false);
        while pages < g.pages_per_program && self.blocks[moving.block as usize].valid > 0 {
            let page = moving.next;
            moving.next += 1;
            let Some(lpn) = self.map.holds(first + page) else { continue };
            filled |= self.write(lpn, plane, Stream::Moved);
            pages += 1;
            if page / g.pages_per_row != last_row {
                last_row = page / g.pages_per_row;
                rows += 1;
            }
        }
        self.planes[plane as usize].victim = Some(moving);
        if pages == 0 {
            return Some(Step::Erase);
        }
        self.stats.moved += u64::from(pages);
        for _ in pages..g.pages_per_program {
            filled |= self.pad(plane, Stream::Moved);
        }
        Some(Step::Moved { pages, rows, filled })
    }

    /// The plane's victim has been erased.
    ///
    /// # Panics
    /// If there is none, or something in it is valid.
    pub(crate) fn erased(&mut self, plane: u32) {
        let moving = self.planes[plane as usize].victim.take().expect("a victim to erase");
        let block = &mut self.blocks[moving.block as usize];
        assert_eq!((block.valid, block.state), (0, State::Victim), "erased block {}", moving.block);
        block.state = State::Free;
        block.erases += 1;
        let erases = block.erases;
        let plane_state = &mut self.planes[plane as usize];
        plane_state.most_erases = plane_state.most_erases.max(erases);
        plane_state.free.push_back(moving.block);
        self.free[plane as usize] += 1;
        self.stats.erases += 1;
    }

    /// The logical pages that are left in the plane's victim.
    fn victim_pages(&self, plane: u32) -> impl Iterator<Item = Lpn> {
        let victim = self.planes[plane as usize].victim;
        let pages = victim.map_or(0..0, |Moving { block, next }| {
            let first = block * self.geometry.pages_per_block;
            first + next..first + self.geometry.pages_per_block
        });
        pages.filter_map(|ppa| self.map.holds(ppa))
    }

    /// Brings into the processor's caches what writes of these pages look up, all at once: nothing of it depends
    /// on what a write before did, and each alone would wait for memory.
    fn fetch(&self, lpns: impl Iterator<Item = Lpn>) {
        let looked_up = lpns.fold(0, |sum, lpn| match self.map.place(lpn) {
            Place::Flash(ppa) => {
                let block = &self.blocks[(ppa / self.geometry.pages_per_block) as usize];
                sum ^ self.map.holds(ppa).unwrap_or(0) ^ u32::from(block.valid)
            }
            Place::Buffer(_) | Place::Unmapped => sum,
        });
        core::hint::black_box(looked_up);
    }

    /// Erases of every block of the drive.
    pub(crate) fn erases(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().map(|block| block.erases)
    }

    /// Written pages of `plane` that are not valid.
    fn garbage(&self, plane: u32) -> u32 {
        let g = &self.geometry;
        let state = &self.planes[plane as usize];
        let unwritten: u32 = state.open.iter().map(|open| g.data_pages - open.next).sum();
        let written = (g.blocks_per_plane - self.free[plane as usize]) * g.data_pages - unwritten;
        written - self.valid[plane as usize]
    }

    fn choose_victim(&mut self, plane: u32) -> Option<Moving> {
        let block = self.worn_out(plane).or_else(|| self.victims.choose(&self.blocks, plane))?;
        self.victims.remove(&mut self.blocks, block);
        self.blocks[block as usize].state = State::Victim;
        Some(Moving { block, next: 0 })
    }

    /// The block that static wear levelling collects, if it is its turn.
    fn worn_out(&self, plane: u32) -> Option<u32> {
        let gap = self.wear_leveling?.static_gap?;
        let most = self.planes[plane as usize].most_erases;
        let from = plane * self.geometry.blocks_per_plane;
        (from..from + self.geometry.blocks_per_plane)
            .filter(|&id| self.blocks[id as usize].state == State::Sealed)
            .min_by_key(|&id| self.blocks[id as usize].erases)
            .filter(|&id| most - self.blocks[id as usize].erases >= gap)
    }

    /// The place of a stream's open block in its plane.
    fn index(&self, stream: Stream) -> usize {
        match stream {
            Stream::Host(number) => number.into(),
            Stream::Moved if self.separate => self.streams.into(),
            Stream::Moved => 0,
        }
    }

    /// The next page of the stream's open block, and the block if this page fills it.
    fn allocate(&mut self, plane: u32, stream: Stream) -> (Ppa, Option<u32>) {
        let index = self.index(stream);
        if self.planes[plane as usize].open[index].next == self.geometry.data_pages {
            let id = self.take_free(plane);
            self.blocks[id as usize].state = State::Open;
            self.planes[plane as usize].open[index] = OpenBlock { id, next: 0 };
        }
        let open = &mut self.planes[plane as usize].open[index];
        let ppa = open.id * self.geometry.pages_per_block + open.next;
        open.next += 1;
        (ppa, (open.next == self.geometry.data_pages).then_some(open.id))
    }

    fn take_free(&mut self, plane: u32) -> u32 {
        let free = &mut self.planes[plane as usize].free;
        let best = if self.wear_leveling.is_some_and(|wear| wear.dynamic) {
            let erases = |&at: &usize| self.blocks[free[at] as usize].erases;
            (0..free.len()).min_by_key(erases).unwrap_or(0)
        } else {
            0
        };
        let id = free.remove(best).expect("a free block in the plane");
        self.free[plane as usize] -= 1;
        id
    }

    fn seal(&mut self, id: u32) {
        self.blocks[id as usize].state = State::Sealed;
        self.victims.add(&mut self.blocks, id);
    }

    fn invalidate(&mut self, ppa: Ppa) {
        let id = ppa / self.geometry.pages_per_block;
        self.valid[self.geometry.plane_of(id) as usize] -= 1;
        if self.blocks[id as usize].state == State::Sealed {
            self.victims.lose_page(&mut self.blocks, id);
        } else {
            self.blocks[id as usize].valid -= 1;
        }
    }

    /// Asserts the invariants.
    pub(crate) fn check(&self) {
        self.map.check();
        let g = &self.geometry;
        for (id, block) in (0u32..).zip(&self.blocks) {
            let first = id * g.pages_per_block;
            let pages = first..first + g.pages_per_block;
            let valid = pages.filter(|&ppa| self.map.holds(ppa).is_some()).count();
            assert_eq!(valid, usize::from(block.valid), "valid pages of block {id}");
        }
        for (id, plane) in (0u32..).zip(&self.planes) {
            let from = (id * g.blocks_per_plane) as usize;
            let blocks = &self.blocks[from..from + g.blocks_per_plane as usize];
            let count = |state| blocks.iter().filter(|block| block.state == state).count();
            assert_eq!(plane.free.len(), count(State::Free));
            assert_eq!(plane.free.len(), self.free[id as usize] as usize);
            assert_eq!(usize::from(plane.victim.is_some()), count(State::Victim));
            assert!(count(State::Open) <= usize::from(self.streams) + 1);
            let valid: u32 = blocks.iter().map(|block| u32::from(block.valid)).sum();
            assert_eq!(valid, self.valid[id as usize]);
        }
    }
}

/// Of `count` items in a ring, the one with the greatest key; of equal ones the first from `from`
/// on.
fn first_best<K: Ord>(from: u32, count: u32, key: impl Fn(u32) -> K) -> u32 {
    let mut best = from;
    let mut best_key = key(from);
    for at in (from + 1..count).chain(0..from) {
        let at_key = key(at);
        if at_key > best_key {
            (best, best_key) = (at, at_key);
        }
    }
    best
}
