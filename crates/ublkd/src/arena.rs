//! Memory that the kernel reads and writes: mapped, zeroed, aligned to blocks, owned by us.
//!
//! It is cut into *pieces*: one for each tag and each scratch buffer, one of zeros, and pages for
//! metadata. Scratch buffers have several sizes: a log volume's segments are among them.
//!
//! A piece takes memory when it is first touched, and is registered with the kernel when its first
//! I/O begins; both are given back when it was unused for a while (`idle`).
//!
//! Invariants:
//! - A piece that an I/O in flight touches is not reused until that I/O has really ended. A piece
//!   whose I/O was given up (an *orphan*) is replaced at once in its tag or scratch buffer, and set
//!   aside until the kernel has ended the I/O.
//! - Memory that I/O in flight may touch is never unmapped, not even in a panic: it is leaked.
//! - A registered buffer is always the memory of its piece: memory is given back only after it is
//!   unregistered.
#![allow(unsafe_code)]

mod idle;

use std::io;
use std::ops::Range;

use raidcore::parity::Kernels;
use raidcore::units::{BLOCK_BYTES, Mem, Tag};
use raidlog::Pool;

use crate::region::{Region, prefer_huge_pages, prefer_node};
use crate::volume::PayloadMemory;
use idle::KEEP;
pub(crate) use idle::{LOOK, LOOK_LATER, Look};

/// Metadata pages that are mapped at once.
const PAGES_AT_ONCE: usize = 64;

/// The most blocks of a journal entry that is written in one piece: a header, and a block of data
/// with its parities.
pub(crate) const ENTRY_BLOCKS: u32 = 4;

/// The most blocks of such entries that go together.
pub(crate) const RUN_BLOCKS: u32 = 32;

/// Pieces for these that are mapped at once.
const RUNS: usize = 64;

/// The front of a piece, which is registered separately: small requests touch only this.
pub(crate) const HEAD_BYTES: usize = 16 * BLOCK_BYTES;

/// Names a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PieceId(u32);

impl PieceId {
    /// The piece of zeros.
    const ZERO: Self = Self(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The list to which a piece returns after use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Zero,
    Payload,
    Scratch,
    /// Metadata: `1 << order` blocks.
    Pages {
        order: u8,
    },
}

#[derive(Clone, Copy)]
struct Piece {
    base: *mut u8,
    bytes: usize,
    class: Class,
    /// The registered buffer that is its front, and the one that is all of it.
    head: Option<u16>,
    whole: Option<u16>,
    /// I/Os that the kernel has not let go of.
    busy: u32,
    /// Set aside until then.
    orphan: bool,
    /// How many more looks it keeps its memory while unused; 0 if it has none.
    keep: u8,
}

/// A part of a piece that can be registered with the kernel.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) base: *mut u8,
    pub(crate) bytes: usize,
}

/// See the [module](self).
pub(crate) struct Arena {
    /// What computes over it.
    pub(crate) kernels: &'static Kernels,
    payload: PayloadMemory,
    pieces: Vec<Piece>,
    tags: Vec<PieceId>,
    scratch: Vec<PieceId>,
    /// Pieces to replace orphans with: former orphans.
    spare_payload: Vec<PieceId>,
    spare_scratch: Vec<PieceId>,
    /// Free metadata pages, by order.
    pages: Vec<Vec<PieceId>>,
    regions: Vec<Region>,
    /// Those of them that scratch buffers were cut from at first.
    scratch_regions: Range<usize>,
    busy: u32,
    /// Bytes that are registered.
    registered: u64,
    /// Whether I/O has begun since the last call.
    stirred: bool,
    /// The NUMA node that memory is taken of, if it has some.
    node: Option<u32>,
}

impl Arena {
    /// The memory of all tags, scratch buffers, and zeros, as many as the largest of these has.
    pub(crate) fn new(payload: PayloadMemory, scratch: &[Pool]) -> io::Result<Self> {
        let bytes_of = |blocks: u32| blocks as usize * BLOCK_BYTES;
        let zero_bytes = bytes_of(scratch.iter().map(|of| of.blocks).max().unwrap_or(1));
        let count: usize = scratch.iter().map(|of| usize::from(of.count)).sum();
        if count > usize::from(u16::MAX) {
            return Err(io::Error::other("too many buffers: use fewer groups or members"));
        }
        let (base, bytes) = payload.initial();
        let tags = bytes / payload.slot_bytes();
        let mut arena = Self {
            kernels: Kernels::best(),
            pieces: Vec::with_capacity(tags + count + PAGES_AT_ONCE + 1),
            tags: Vec::with_capacity(tags),
            scratch: Vec::with_capacity(count),
            spare_payload: Vec::new(),
            spare_scratch: Vec::new(),
            pages: Vec::new(),
            regions: Vec::new(),
            scratch_regions: 0..0,
            busy: 0,
            registered: 0,
            stirred: false,
            node: None,
            payload,
        };
        let zero = Region::new(zero_bytes)?;
        arena.cut(zero.at(0), zero_bytes, 1, Class::Zero);
        arena.regions.push(zero);
        arena.tags = arena.cut(base, arena.payload.slot_bytes(), tags, Class::Payload);
        for of in scratch.iter().filter(|of| of.count > 0) {
            let (count, bytes) = (usize::from(of.count), bytes_of(of.blocks));
            let region = Region::new(bytes * count)?;
            let pieces = arena.cut(region.at(0), bytes, count, Class::Scratch);
            arena.scratch.extend(pieces);
            arena.regions.push(region);
        }
        arena.scratch_regions = 1..arena.regions.len();
        arena.add_pages(0, PAGES_AT_ONCE)?;
        arena.add_pages(order(RUN_BLOCKS), RUNS)?;
        Ok(arena)
    }

    /// The same, all of whose memory is taken of this NUMA node, if there is one and it has some, whoever
    /// touches it first. None of it is touched yet.
    pub(crate) fn near(mut self, node: Option<u32>) -> Self {
        let Some(number) = node else { return self };
        let (base, bytes) = self.payload.initial();
        prefer_node(base, bytes, number);
        self.regions.iter().for_each(|region| prefer_node(region.at(0), region.bytes(), number));
        self.node = node;
        self
    }

    /// The same, whose memory of users' data is taken in huge pages where the kernel has some, if it is so
    /// wanted: of tags, and of scratch buffers. None of it is touched yet.
    pub(crate) fn in_huge_pages(self, wanted: bool) -> Self {
        if wanted {
            let (base, bytes) = self.payload.initial();
            prefer_huge_pages(base, bytes);
            let scratch = &self.regions[self.scratch_regions.clone()];
            scratch.iter().for_each(|region| prefer_huge_pages(region.at(0), region.bytes()));
        }
        self
    }

    /// More memory.
    fn map(&self, bytes: usize) -> io::Result<Region> {
        let region = Region::new(bytes)?;
        if let Some(node) = self.node {
            prefer_node(region.at(0), region.bytes(), node);
        }
        Ok(region)
    }

    /// How many buffers can be registered, of all pieces that exist from the start.
    pub(crate) fn registrable(&self) -> usize {
        let buffers = |piece: &Piece| if piece.bytes > HEAD_BYTES { 2 } else { 1 };
        self.pieces.iter().map(buffers).sum()
    }

    /// Where `blocks` blocks at `mem` are now, and in which piece.
    pub(crate) fn resolve(&self, mem: Mem, blocks: u32) -> (*mut u8, PieceId) {
        let (id, at) = match mem {
            Mem::Payload { tag, at } => (self.tags[usize::from(tag.0)], at),
            Mem::Scratch { buffer, at } => (self.scratch[usize::from(buffer)], at),
            Mem::Zero => (PieceId::ZERO, 0),
        };
        let piece = &self.pieces[id.index()];
        let offset = at as usize * BLOCK_BYTES;
        let end = offset + blocks as usize * BLOCK_BYTES;
        assert!(end <= piece.bytes, "{mem:?} of {blocks} blocks in {} bytes", piece.bytes);
        // SAFETY: the offset is inside the piece, or at its end if there are no blocks.
        (unsafe { piece.base.add(offset) }, id)
    }

    /// Blocks to look at. Nothing may write them meanwhile.
    pub(crate) fn blocks(&self, mem: Mem, blocks: u32) -> &[u8] {
        let (base, _) = self.resolve(mem, blocks);
        // SAFETY: `resolve` has checked the range. The engine journals payload only after
        // everything that fills it is done.
        unsafe { std::slice::from_raw_parts(base, blocks as usize * BLOCK_BYTES) }
    }

    /// Puts blocks where nothing reads or writes meanwhile.
    pub(crate) fn put(&mut self, mem: Mem, bytes: &[u8]) {
        let (base, _) = self.resolve(mem, (bytes.len() / BLOCK_BYTES) as u32);
        assert!(mem != Mem::Zero, "zeros can't be written");
        // SAFETY: `resolve` has checked the range, and `bytes` is not the arena's, which is borrowed.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), base, bytes.len()) };
    }

    /// Copies blocks from one place to another that does not overlap it; zeros are as many as are
    /// wanted.
    pub(crate) fn copy(&mut self, from: Mem, to: Mem, blocks: u32) {
        let (target, piece) = self.resolve(to, blocks);
        let bytes = blocks as usize * BLOCK_BYTES;
        assert!(to != Mem::Zero, "zeros can't be written");
        if from == Mem::Zero {
            // SAFETY: `resolve` has checked the range.
            return unsafe { target.write_bytes(0, bytes) };
        }
        let (source, other) = self.resolve(from, blocks);
        assert!(piece != other || target.addr().abs_diff(source.addr()) >= bytes, "they overlap");
        // SAFETY: `resolve` has checked both ranges, and they don't overlap.
        unsafe { std::ptr::copy_nonoverlapping(source, target, bytes) };
    }

    /// Pages for metadata, at least `blocks` of them. They belong to the caller until its I/O ends.
    pub(crate) fn take_pages(&mut self, blocks: u32) -> PieceId {
        let order = order(blocks);
        let free = |arena: &mut Self| arena.pages.get_mut(usize::from(order))?.pop();
        if let Some(piece) = free(self) {
            return piece;
        }
        self.add_pages(order, (PAGES_AT_ONCE >> order).max(1)).expect("memory for metadata pages");
        free(self).expect("pages were just added")
    }

    /// Lets `fill` write some blocks of pages that the caller has taken and not yet used.
    pub(crate) fn fill_pages(
        &mut self,
        id: PieceId,
        blocks: Range<u32>,
        fill: impl FnOnce(&Self, &mut [u8]),
    ) {
        let piece = &self.pieces[id.index()];
        let ours = matches!(piece.class, Class::Pages { .. }) && piece.busy == 0;
        let fits = blocks.start <= blocks.end && blocks.end as usize * BLOCK_BYTES <= piece.bytes;
        assert!(ours && fits, "{blocks:?} of pages that are not ours");
        let start = blocks.start as usize * BLOCK_BYTES;
        let bytes = blocks.len() * BLOCK_BYTES;
        // SAFETY: the range is inside the piece, which was taken off the free list and has no I/O;
        // nothing that `fill` can do with the arena reaches pages.
        let pages = unsafe { std::slice::from_raw_parts_mut(piece.base.add(start), bytes) };
        fill(self, pages);
    }

    /// Pages that the caller has taken and will not use.
    pub(crate) fn give_back(&mut self, id: PieceId) {
        self.begin(id);
        self.end(id);
    }

    /// Where a piece begins.
    pub(crate) fn base(&self, id: PieceId) -> *mut u8 {
        self.pieces[id.index()].base
    }

    /// The registered buffer that `bytes` bytes at `base` of a piece lie in, if there is one.
    pub(crate) fn registered(&self, id: PieceId, base: *mut u8, bytes: usize) -> Option<u16> {
        let piece = &self.pieces[id.index()];
        if piece.whole.is_some() {
            return piece.whole;
        }
        piece.head.filter(|_| base.addr() - piece.base.addr() + bytes <= HEAD_BYTES)
    }

    /// An I/O that touches the piece begins.
    pub(crate) fn begin(&mut self, id: PieceId) {
        let piece = &mut self.pieces[id.index()];
        piece.busy += 1;
        piece.keep = KEEP;
        self.busy += 1;
        self.stirred = true;
    }

    /// The kernel has ended an I/O.
    pub(crate) fn end(&mut self, id: PieceId) {
        self.busy -= 1;
        let piece = &mut self.pieces[id.index()];
        piece.busy -= 1;
        if piece.busy > 0 {
            return;
        }
        let was_orphan = std::mem::take(&mut piece.orphan);
        match piece.class {
            Class::Pages { order } => self.pages[usize::from(order)].push(id),
            Class::Payload if was_orphan => self.spare_payload.push(id),
            Class::Scratch if was_orphan => self.spare_scratch.push(id),
            Class::Zero | Class::Payload | Class::Scratch => {}
        }
    }

    /// An I/O that touches the piece was given up: sets it aside, and puts another with the same
    /// content in its place.
    pub(crate) fn orphan(&mut self, id: PieceId) {
        let Piece { class, orphan, .. } = self.pieces[id.index()];
        if orphan {
            return;
        }
        let place = match class {
            // The zeros are never written, and pages return to their list when the kernel lets go anyway.
            Class::Zero | Class::Pages { .. } => return,
            Class::Payload => self.tags.iter().position(|&p| p == id),
            Class::Scratch => self.scratch.iter().position(|&p| p == id),
        };
        let place = place.expect("a piece with I/O that is no orphan is in its place");
        let bytes = self.pieces[id.index()].bytes;
        let fresh =
            self.spare(class, bytes).expect("memory to replace what a device may still touch");
        self.pieces[id.index()].orphan = true;
        self.pieces[fresh.index()].keep = KEEP;
        let (old, new) = (self.pieces[id.index()], self.pieces[fresh.index()]);
        // SAFETY: both are pieces of one class, hence of one size, and don't overlap. The kernel may
        // be writing to the old one: what it writes there is settled when that I/O ends, or void.
        unsafe { std::ptr::copy_nonoverlapping(old.base, new.base, old.bytes) };
        if class == Class::Payload {
            self.tags[place] = fresh;
            self.payload.exchange(Tag(place as u16), new.base);
        } else {
            self.scratch[place] = fresh;
        }
    }

    /// A request has ended. If I/O still reads its memory (a copy that came too late), the next request with its
    /// tag gets other memory: a front end may have it before that I/O has ended or is given up.
    pub(crate) fn let_go(&mut self, tag: Tag) {
        let piece = self.tags[usize::from(tag.0)];
        if self.pieces[piece.index()].busy > 0 {
            self.orphan(piece);
        }
    }

    /// A read into `mem` has put `bytes` bytes at `base`. If the memory of `mem` was exchanged
    /// meanwhile, they are copied to it.
    pub(crate) fn settle(&self, mem: Mem, base: *mut u8, bytes: usize) {
        let (now, _) = self.resolve(mem, (bytes / BLOCK_BYTES) as u32);
        if now != base {
            // SAFETY: both ranges are inside pieces, which are different and so don't overlap.
            unsafe { std::ptr::copy_nonoverlapping(base, now, bytes) };
        }
    }

    /// A free piece of so many bytes.
    fn spare(&mut self, class: Class, bytes: usize) -> io::Result<PieceId> {
        let payload = class == Class::Payload;
        let spares = if payload { &mut self.spare_payload } else { &mut self.spare_scratch };
        let pieces = &self.pieces;
        if let Some(at) = spares.iter().position(|spare| pieces[spare.index()].bytes == bytes) {
            return Ok(spares.swap_remove(at));
        }
        let region = self.map(bytes)?;
        let piece = self.cut(region.at(0), bytes, 1, class)[0];
        if payload {
            self.payload.keep(region);
        } else {
            self.regions.push(region);
        }
        Ok(piece)
    }

    fn add_pages(&mut self, order: u8, count: usize) -> io::Result<()> {
        let bytes = BLOCK_BYTES << order;
        let region = self.map(bytes * count)?;
        let pieces = self.cut(region.at(0), bytes, count, Class::Pages { order });
        self.regions.push(region);
        let lists = self.pages.len().max(usize::from(order) + 1);
        self.pages.resize_with(lists, Vec::new);
        self.pages[usize::from(order)].extend(pieces);
        Ok(())
    }

    /// Cuts `count` pieces of `bytes` bytes from memory at `base`.
    fn cut(&mut self, base: *mut u8, bytes: usize, count: usize, class: Class) -> Vec<PieceId> {
        let mut ids = Vec::with_capacity(count);
        for i in 0..count {
            // SAFETY: the caller's memory holds `count` pieces.
            let base = unsafe { base.add(i * bytes) };
            ids.push(PieceId(self.pieces.len() as u32));
            let (head, whole, busy, orphan, keep) = (None, None, 0, false, 0);
            self.pieces.push(Piece { base, bytes, class, head, whole, busy, orphan, keep });
        }
        ids
    }
}

/// The order of so many blocks.
fn order(blocks: u32) -> u8 {
    blocks.max(1).next_power_of_two().trailing_zeros() as u8
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.busy > 0 {
            std::mem::take(&mut self.regions).into_iter().for_each(std::mem::forget);
            self.payload.leak();
        }
    }
}

#[cfg(test)]
mod tests;
