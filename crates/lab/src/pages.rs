//! Which pages are read and written, and how often.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;

/// Pages that are counted together.
const GROUP: u64 = 64;

/// Groups in a row that are found by one table.
const TABLE: u64 = 64;

/// No group.
const NONE: u32 = u32::MAX;

/// A page is intensive if more than this share of its accesses is of one kind.
const INTENSIVE: f64 = 0.9;

/// Accesses per page, in groups of 64 pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    /// The tables, by device and what they are of. Few enough that they and most tables are in the processor's cache.
    index: HashMap<(u32, u64), u32, BuildHasherDefault<Mixer>>,
    /// The groups of so many in a row, or `NONE`.
    tables: Vec<[u32; TABLE as usize]>,
    groups: Vec<Group>,
    /// Accesses that are to be counted.
    soon: Vec<(u32, Range<u64>, bool)>,
    runs: Vec<Run>,
}

/// Accesses to pages of a group, of which it is known where they are counted.
#[derive(Clone, Debug)]
struct Run {
    group: u32,
    /// Within the group.
    pages: Range<u8>,
    read: bool,
}

/// Accesses that are counted at once.
const AT_ONCE: usize = 64;

/// A hash of numbers that costs little: one is looked up for each request.
#[derive(Clone, Copy, Debug, Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Clone, Debug)]
struct Group {
    reads: [u32; GROUP as usize],
    writes: [u32; GROUP as usize],
}

/// A summary of all accesses.
pub(crate) struct Summary {
    /// Pages that were read or written.
    pub(crate) touched: u64,
    /// Pages that were read.
    pub(crate) read: u64,
    /// Pages that were written.
    pub(crate) written: u64,
    /// The share of reads that go to read-intensive pages.
    pub(crate) top_fifth_share: f64,
    /// The share of writes that go to write-intensive pages.
    pub(crate) read_intensive_share: f64,
    /// The share of writes of pages that are hardly read.
    pub(crate) write_intensive_share: f64,
}

impl Pages {
    /// Some 9 GB of groups, and at most half as much of tables.
    const MAX: usize = 1 << 24;

    /// Pages of a device are read or written. False if it is too much.
    pub(crate) fn touch(&mut self, device: u32, pages: Range<u64>, read: bool) -> bool {
        let fits = self.find(device, pages, read);
        self.count();
        fits
    }

    /// The same, but it is counted with others, at the latest by [`Pages::catch_up`]: whatever it looks up is rarely
    /// in the processor's cache, and is so read from memory for several at a time. What is too much is not counted.
    pub(crate) fn touch_soon(&mut self, device: u32, pages: Range<u64>, read: bool) {
        self.soon.push((device, pages, read));
        if self.soon.len() == AT_ONCE {
            self.catch_up();
        }
    }

    /// Counts what is to be counted.
    pub(crate) fn catch_up(&mut self) {
        let mut soon = std::mem::take(&mut self.soon);
        for (device, pages, read) in soon.drain(..) {
            self.find(device, pages, read);
        }
        self.soon = soon;
        self.count();
    }

    /// Finds out where accesses are counted. False if it is too much.
    fn find(&mut self, device: u32, pages: Range<u64>, read: bool) -> bool {
        let mut page = pages.start;
        while page < pages.end {
            let (number, first) = (page / GROUP, page % GROUP);
            let next = self.tables.len() as u32;
            let table = *self.index.entry((device, number / TABLE)).or_insert(next);
            if table == next {
                if self.groups.len() == Self::MAX {
                    return false;
                }
                self.tables.push([NONE; TABLE as usize]);
            }
            let known = &mut self.tables[table as usize][(number % TABLE) as usize];
            if *known == NONE {
                if self.groups.len() == Self::MAX {
                    return false;
                }
                *known = self.groups.len() as u32;
                self.groups.push(Group { reads: [0; GROUP as usize], writes: [0; GROUP as usize] });
            }
            let (group, count) = (*known, (pages.end - page).min(GROUP - first));
            self.runs.push(Run { group, pages: first as u8..(first + count) as u8, read });
            page += count;
        }
        true
    }

    /// Counts the accesses of which it is known where.
    fn count(&mut self) {
        for Run { group, pages, read } in self.runs.drain(..) {
            let group = &mut self.groups[group as usize];
            let counts = if read { &mut group.reads } else { &mut group.writes };
            for accesses in &mut counts[usize::from(pages.start)..usize::from(pages.end)] {
                *accesses = accesses.saturating_add(1);
            }
        }
    }

    /// What has been counted.
    pub(crate) fn summary(&self) -> Summary {
        debug_assert!(self.soon.is_empty(), "all is counted by then");
        let pairs = self.groups.iter().flat_map(|group| group.reads.iter().zip(&group.writes));
        let (mut all, mut read, mut written) = (Vec::new(), 0, 0);
        let (mut reads, mut writes) = (Intensity::default(), Intensity::default());
        for (&r, &w) in pairs.filter(|&(&r, &w)| r > 0 || w > 0) {
            all.push(r.saturating_add(w));
            read += u64::from(r > 0);
            written += u64::from(w > 0);
            reads.add(r, w);
            writes.add(w, r);
        }
        all.sort_unstable_by(|a, b| b.cmp(a));
        let sum = |accesses: &[u32]| accesses.iter().map(|&n| f64::from(n)).sum::<f64>();
        let top = sum(&all[..all.len().div_ceil(5)]);
        Summary {
            touched: all.len() as u64,
            read,
            written,
            top_fifth_share: part(top, sum(&all)),
            read_intensive_share: reads.share(),
            write_intensive_share: writes.share(),
        }
    }
}

/// Accesses of one kind, and those of them that go to pages intensive in that kind.
#[derive(Default)]
struct Intensity {
    all: f64,
    intensive: f64,
}

impl Intensity {
    fn add(&mut self, of_kind: u32, others: u32) {
        let (of_kind, others) = (f64::from(of_kind), f64::from(others));
        self.all += of_kind;
        if of_kind > INTENSIVE * (of_kind + others) {
            self.intensive += of_kind;
        }
    }

    fn share(&self) -> f64 {
        part(self.intensive, self.all)
    }
}

fn part(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}
