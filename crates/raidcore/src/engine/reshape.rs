//! A reshape under way: the array's stripes become those of another geometry, a window of them after the
//! other, while users are served.
//!
//! A window goes one of three ways:
//! - *Direct*: the places of its new stripes are vacant. They are written, all of that is made durable, and
//!   then the record says that they are new.
//! - *Saved*: their places are those of old stripes that are still needed. They are written to an area of
//!   their own first, the record says that they are there, and then they are brought home and the record
//!   says so. A start in between finds them saved, and brings them home.
//! - *Zeros*: they hold nothing but zeros. Their bits of the zero map are set.
//!
//! Invariants:
//! - As long as a window is under way users' requests for its blocks wait, and no other job is on its
//!   stripes, old or new, from the time on when it reads.
//! - A journal entry of an old stripe is void, on disk, before the stripe is moved: a stripe's number has one
//!   geometry for every entry that a replay would carry out.
//! - Until the record says otherwise, old stripes of the window are as they were, or vacant.

use core::ops::Range;

use crate::geometry::{Frontier, Layout};
use crate::meta::{ArrayRecord, Reshape, SAVED_MAX};
use crate::units::{Lba, Mem, Stripe};

/// How many blocks of each member a window of zeros has at most.
const ZERO_BLOCKS: u64 = 1 << 13;

/// Which way a window goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Route {
    Direct,
    Saved,
    Zeros,
}

/// What a window does, or waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// For other jobs on its stripes to end.
    Drain,
    /// For journal entries of its old stripes to be void: for a flush, if one was asked for.
    Void(Option<u64>),
    /// It reads what its new stripes are to hold.
    Read,
    /// It writes them where they are saved.
    Save,
    /// For what is saved to be durable.
    SavedFlush(u64),
    /// For this version of the record, by which they are there.
    SavedRecord(u64),
    /// It writes them to their places.
    Write,
    /// It tells members that they need not keep what is in their places.
    Discard,
    /// For a page of the zero map with their bits to be durable.
    Zero { page: u32, version: u64 },
    /// For what is in their places to be durable.
    Flush(u64),
    /// For this version of the record, by which they are new ones.
    Record(u64),
}

/// Stripes that become new ones together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Window {
    /// The new stripes.
    pub(super) stripes: Range<u64>,
    pub(super) route: Route,
    pub(super) step: Step,
    /// What of the step is begun: how many blocks are read, stripes are written, or members discard.
    pub(super) begun: u64,
    /// Jobs and discards under way.
    pub(super) under_way: u32,
    /// Something of it could not be done.
    pub(super) failed: bool,
    /// The record says that its stripes are saved.
    pub(super) committed: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Reshaping {
    window: Option<Window>,
    /// How many stripes a window has at most that is not of zeros.
    most: u64,
    /// How many stripes can be saved.
    room: u64,
    /// How many stripes the last window had.
    last: u64,
    /// A window that is saved can't be brought home: a start has to try again.
    stuck: bool,
    /// The first of the buffers for what a window holds, and how many there are.
    first: u16,
    buffers: u16,
    /// Blocks of a new chunk, and of a buffer.
    chunk: u64,
    buffer: u64,
    /// How many new stripes share the place of an old one.
    share: u64,
    /// Stripes to a page of the zero map.
    page_bits: u64,
}

impl Reshaping {
    /// By the record; its buffers are numbered from `first` on. A window has so many blocks of each member,
    /// if it is not of zeros.
    pub(super) fn new(record: &ArrayRecord, blocks: u32, first: u16) -> Self {
        let chunk = u64::from(record.geometry.chunk());
        let (layout, (_, room)) = (record.layout(), record.saved_area());
        let share = layout.share();
        let most = (u64::from(blocks) / chunk).clamp(1, SAVED_MAX.into()).next_multiple_of(share);
        let data = record.geometry.data() as u64;
        let saved = |reshape: Reshape| u64::from(reshape.saved);
        let buffer = u64::from(layout.chunk());
        let held = |reshape| (most.max(saved(reshape)) * data * chunk).div_ceil(buffer);
        let buffers = record.reshape.map_or(0, held);
        let saved = record.reshape.filter(|reshape| reshape.saved > 0);
        let window = saved.map(|reshape| {
            let stripes = reshape.next..reshape.next + u64::from(reshape.saved);
            Window { committed: true, ..Window::new(stripes, Route::Saved) }
        });
        Self {
            window,
            most,
            room: room.min(most),
            last: 0,
            stuck: false,
            first,
            buffers: buffers as u16,
            chunk,
            buffer,
            share,
            page_bits: record.areas.page_bits(),
        }
    }

    /// How many buffers it has, each for the largest chunk.
    pub(super) fn buffers(&self) -> u16 {
        self.buffers
    }

    /// The numbers of its buffers, if they are not in use.
    pub(super) fn free_buffers(&self) -> impl Iterator<Item = u16> + use<> {
        let count = if self.window.is_none() { self.buffers } else { 0 };
        self.first..self.first + count
    }

    /// Where in memory a block of the window is that is so many blocks after its first.
    pub(super) fn memory(&self, offset: u64) -> Mem {
        let buffer = self.first + (offset / self.buffer) as u16;
        Mem::Scratch { buffer, at: (offset % self.buffer) as u32 }
    }

    /// The window under way.
    pub(super) fn window(&self) -> Option<&Window> {
        self.window.as_ref()
    }

    pub(super) fn window_mut(&mut self) -> Option<&mut Window> {
        self.window.as_mut()
    }

    /// Whether stripes are being moved, for which users' requests may wait.
    pub(super) fn is_moving(&self) -> bool {
        self.window.is_some()
    }

    /// Whether what was saved before the start has to be brought home first of all.
    pub(super) fn recovers(&self) -> bool {
        self.window.as_ref().is_some_and(|window| window.committed)
    }

    /// Whether its jobs read now.
    pub(super) fn reads(&self) -> bool {
        self.window.as_ref().is_some_and(|window| window.step == Step::Read)
    }

    /// Whether what is saved can't be brought home.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// How many stripes the last window had, or one.
    pub(super) fn last(&self) -> u64 {
        self.last.max(1)
    }

    /// A window begins.
    pub(super) fn begin(&mut self, window: Window) {
        self.last = window.count();
        self.window = Some(window);
    }

    /// The window is over.
    pub(super) fn end(&mut self) -> Option<Window> {
        self.window.take()
    }

    /// The window can't be ended: its stripes stay where they are saved.
    pub(super) fn stick(&mut self) {
        self.stuck = true;
        self.window = None;
    }

    /// Whether a request for these blocks has to wait for the window.
    #[inline]
    pub(super) fn holds(&self, layout: &Layout, at: Lba, blocks: u32) -> bool {
        self.window.as_ref().is_some_and(|window| {
            let held = window.holds(layout);
            at.0 < held.end && held.start < at.0 + u64::from(blocks)
        })
    }

    /// The window that comes next. `is_zero` tells of a stripe whether it reads as zeros.
    pub(super) fn next(&self, layout: &Layout, is_zero: impl Fn(Stripe) -> bool) -> Option<Window> {
        let end = layout.new_stripes();
        let frontier = *layout.frontier().filter(|frontier| frontier.next < end)?;
        let from = frontier.next;
        // Old stripes that hold something and lie in its place, or have its number, are among these.
        let holds_zeros = |stripe: &u64| {
            let mut sources = sources(layout, &frontier, *stripe..*stripe + 1);
            sources.all(|source| is_zero(Stripe(source)))
        };
        let whole = |stripes: u64| stripes - stripes % self.share;
        let zeros_from = |stripe: u64| {
            let page = (stripe + 1).next_multiple_of(self.page_bits);
            let most = end.min(page).min(stripe + (ZERO_BLOCKS / self.chunk).max(self.share));
            whole((stripe..most).take_while(holds_zeros).count() as u64)
        };
        // Few zeros are written as what they are: a window each would take longer.
        let is_many =
            |stripe: u64, zeros: u64| zeros > 0 && (zeros >= self.most || stripe + zeros == end);
        let zeros = zeros_from(from);
        if is_many(from, zeros) {
            return Some(Window::new(from..from + zeros, Route::Zeros));
        }
        let of_zeros = |stripe: u64| is_many(stripe, zeros_from(stripe));
        // Its bit of the zero map is written with the stripe, and must not be an old one's.
        let is_free = |stripe: &u64| {
            let mut there = layout.in_place_of(Stripe(*stripe)).chain([*stripe]);
            there.all(|stripe| layout.is_vacant(Stripe(stripe)))
        };
        let free = whole((from..end.min(from + self.most)).take_while(is_free).count() as u64);
        let (route, most) = match free {
            // A few free places are not worth a window of their own.
            few if few < self.room.min(self.most.div_ceil(2)) => (Route::Saved, self.room),
            many => (Route::Direct, many),
        };
        let until = end.min(from + most);
        let wanted = (from..until).step_by(self.share as usize).skip(1).find(|&at| of_zeros(at));
        let stripes = from..wanted.unwrap_or(until);
        Some(Window::new(stripes, route)).filter(|window| !window.stripes.is_empty())
    }
}

impl Window {
    fn new(stripes: Range<u64>, route: Route) -> Self {
        Self {
            stripes,
            route,
            step: Step::Drain,
            begun: 0,
            under_way: 0,
            failed: false,
            committed: false,
        }
    }

    /// How many new stripes it has.
    pub(super) fn count(&self) -> u64 {
        self.stripes.end - self.stripes.start
    }

    /// The array's blocks that its new stripes are to hold.
    pub(super) fn blocks(&self, layout: &Layout) -> Range<u64> {
        let width = layout.stripe_blocks();
        self.stripes.start * width..self.stripes.end * width
    }

    /// The array's blocks that requests can't have meanwhile: those, and the rest of the last old stripe that it
    /// reads. So no request comes between.
    fn holds(&self, layout: &Layout) -> Range<u64> {
        let Range { start, end } = self.blocks(layout);
        let Some(frontier) = layout.frontier() else { return start..end };
        let last = sources(layout, frontier, self.stripes.clone()).last();
        start..end.max(last.map_or(0, |stripe| frontier.from.end_of(Stripe(stripe)).0))
    }

    /// The numbers of all stripes, old and new, that it reads or writes.
    pub(super) fn touches(&self, layout: &Layout) -> impl Iterator<Item = u64> + use<> {
        self.stripes.clone().chain(self.reads(layout))
    }

    /// Whether it reads or writes a stripe.
    pub(super) fn touches_stripe(&self, layout: &Layout, stripe: Stripe) -> bool {
        self.stripes.contains(&stripe.0) || self.reads(layout).contains(&stripe.0)
    }

    /// The numbers of old stripes that it reads.
    fn reads(&self, layout: &Layout) -> Range<u64> {
        layout.frontier().map_or(0..0, |frontier| sources(layout, frontier, self.stripes.clone()))
    }
}

/// The old stripes that hold what these new ones are to hold.
fn sources(layout: &Layout, frontier: &Frontier, stripes: Range<u64>) -> Range<u64> {
    let (new, old) = (layout.stripe_blocks(), u64::from(frontier.from.stripe_blocks()));
    let capacity = frontier.from.capacity();
    let end = (stripes.end * new).min(capacity);
    let start = (stripes.start * new).min(end);
    let first = frontier.from.numbers().start;
    first + start / old..first + end.div_ceil(old)
}
