//! Brings a drive into a used state, in no simulated time.
//!
//! What aging does to blocks depends only on the order of writes, not on their times. Each plane is
//! collected as soon as it has to be, so the result is the state that the same writes would lead to
//! one by one.

use det::Prng;

use super::{Ftl, Lpn, Step, Stream, Write};

/// The stream of writes that name none: a drive was used by a host that knows of none.
const DEFAULT: Stream = Stream::Host(0);

/// Random writes that are drawn before they are done.
const TOGETHER: usize = 32;

/// How a drive was used before the simulation starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Precondition {
    /// Nothing: it is erased.
    Fresh,
    /// Its whole logical space was written once, in order.
    Filled,
    /// After that, its logical space was overwritten this many times by random page writes. About
    /// five times reach the steady state.
    Aged(f64),
}

impl Ftl {
    /// Puts the drive into a state of use.
    pub(crate) fn precondition(&mut self, state: Precondition, prng: &mut Prng) {
        let pages = self.geometry.logical_pages;
        let writes = match state {
            Precondition::Fresh => return,
            Precondition::Filled => 0,
            Precondition::Aged(times) => (f64::from(pages) * times) as u64,
        };
        let mut writer = Writer::default();
        for lpn in 0..pages {
            self.write_now(lpn, &mut writer);
        }
        let mut left = writes;
        while left > 0 {
            let mut drawn = [0; TOGETHER];
            let drawn = &mut drawn[..left.min(TOGETHER as u64) as usize];
            drawn.fill_with(|| prng.below(pages.into()) as Lpn);
            self.fetch(drawn.iter().copied());
            drawn.iter().for_each(|&lpn| self.write_now(lpn, &mut writer));
            left -= drawn.len() as u64;
        }
        while writer.left > 0 {
            self.pad(writer.plane, DEFAULT);
            writer.left -= 1;
        }
    }

    /// Writes a page, and collects its plane if that has to be.
    ///
    /// # Panics
    /// If no plane of the die that the page belongs to has room.
    pub(crate) fn write_now(&mut self, lpn: Lpn, writer: &mut Writer) {
        if writer.left == 0 {
            let write = Write { lpn, stream: 0 };
            let die = self.choose_die(write, |_| 0);
            writer.plane = self.peek_plane(die, write).expect("room for a write");
            self.take_turn(die, writer.plane);
            writer.left = self.geometry.pages_per_program;
        }
        self.write(lpn, writer.plane, DEFAULT);
        self.stats.programmed += 1;
        writer.left -= 1;
        if writer.left == 0 && self.free_blocks(writer.plane) <= self.start {
            self.collect_now(writer.plane);
        }
    }

    /// Collects `plane` until enough of it is free, or no block of it has garbage.
    pub(crate) fn collect_now(&mut self, plane: u32) {
        while self.free_blocks(plane) <= self.stop && self.can_collect(plane, 0) {
            let mut step = self.collect(plane);
            self.fetch(self.victim_pages(plane));
            while let Some(Step::Moved { .. }) = step {
                step = self.collect(plane);
            }
            self.erased(plane);
        }
    }
}

/// The program that pages are being gathered for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writer {
    plane: u32,
    left: u32,
}
