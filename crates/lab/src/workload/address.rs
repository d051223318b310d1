//! The addresses of requests.
//!
//! Invariant: a request drawn for a [`Room`] lies in it and, unless it continues another one,
//! begins at a multiple of the alignment from the room's start.

use serde::Deserialize;

use super::random::{Random, Scramble, Zipf};
use super::{WorkloadError, range};
use crate::units::{Bytes, Portion};

/// The distribution of addresses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// Anywhere.
    #[default]
    Uniform,
    /// Each begins where the one before it ended; the last is followed by the first.
    Sequential,
    /// Extents of different popularity.
    Zipf(ZipfExtents),
    /// A small part gets most requests.
    HotCold(HotCold),
    /// Reads and writes have different regions.
    Regions(Regions),
}

/// Extents whose popularity follows Zipf's law. Popular ones are scattered.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZipfExtents {
    /// The exponent: 0 is uniform, 0.99 what YCSB calls zipfian.
    pub theta: f64,
    /// The size of an extent. Requests are uniform within it.
    #[serde(default = "extent")]
    pub extent: Bytes,
}

/// The start of the footprint is hot. Requests are uniform within the hot and the cold part.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotCold {
    /// The share of the footprint that is hot.
    pub space: f64,
    /// The share of requests that go there.
    pub accesses: f64,
}

/// Three regions, one after the other: most reads go to the first, most writes to the second, and
/// some of both to the third. If the footprint is too small, the regions shrink in proportion.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regions {
    /// The region of reads.
    pub read: Bytes,
    /// The region of writes.
    pub write: Bytes,
    /// The region of both.
    pub mixed: Bytes,
    /// The share of requests that go to the mixed region.
    #[serde(default = "mixed_share")]
    pub mixed_share: f64,
    /// Popularity of the extents of each region, as in [`ZipfExtents`].
    pub theta: f64,
    /// As in [`ZipfExtents`].
    #[serde(default = "extent")]
    pub extent: Bytes,
}

fn extent() -> Bytes {
    Bytes(64 << 10)
}

fn mixed_share() -> f64 {
    0.08
}

impl Address {
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        let law = |theta: f64, extent: Bytes| {
            range("theta", theta, (0.0..=10.0).contains(&theta), "between 0 and 10")?;
            range("extent", extent.0 as f64, extent.0 > 0, "at least one byte")
        };
        match self {
            Self::Uniform | Self::Sequential => Ok(()),
            Self::Zipf(ZipfExtents { theta, extent }) => law(*theta, *extent),
            Self::HotCold(HotCold { space, accesses }) => {
                let inside = *space > 0.0 && *space < 1.0;
                range("hot_cold.space", *space, inside, "between 0 and 1")?;
                super::share("hot_cold.accesses", *accesses)
            }
            Self::Regions(regions) => {
                super::share("regions.mixed_share", regions.mixed_share)?;
                let any = regions.mixed_share > 0.0;
                for (key, Bytes(bytes), used) in [
                    ("regions.read", regions.read, true),
                    ("regions.write", regions.write, true),
                    ("regions.mixed", regions.mixed, any),
                ] {
                    range(key, bytes as f64, bytes > 0 || !used, "at least one byte")?;
                }
                law(regions.theta, regions.extent)
            }
        }
    }
}

/// A range of a system that requests stay in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) align: u64,
}

impl Room {
    /// The range from `start` on with the length `footprint`, or up to the end. It has at least
    /// `need` bytes.
    pub(crate) fn new(
        start: Portion,
        footprint: Option<Portion>,
        align: Bytes,
        capacity: u64,
        need: u64,
    ) -> Result<Self, WorkloadError> {
        let align = align.0;
        range("align", align as f64, align > 0, "at least one byte")?;
        let start = start.of(capacity) / align * align;
        let left = capacity.saturating_sub(start);
        let bytes = footprint.map_or(left, |footprint| footprint.of(capacity));
        if bytes > left {
            return Err(WorkloadError::TooSmall { need: start.saturating_add(bytes), capacity });
        }
        if bytes < need {
            return Err(WorkloadError::Footprint { need, footprint: bytes });
        }
        Ok(Self { start, bytes, align })
    }

    /// A part of it, from `offset` on.
    fn part(self, offset: u64, bytes: u64) -> Self {
        let offset = offset.min(self.bytes) / self.align * self.align;
        Self { start: self.start + offset, bytes: bytes.min(self.bytes - offset), ..self }
    }

    fn end(self) -> u64 {
        self.start + self.bytes
    }

    /// A uniform address.
    pub(crate) fn anywhere(self, bytes: u64, random: &mut Random) -> u64 {
        match self.bytes.saturating_sub(bytes) / self.align {
            0 => self.start,
            last => self.start + random.below(last + 1) * self.align,
        }
    }

    /// `offset`, or the nearest address before it with room for `bytes`.
    pub(crate) fn fit(self, offset: u64, bytes: u64) -> u64 {
        let last = self.bytes.saturating_sub(bytes) / self.align * self.align;
        offset.clamp(self.start, self.start + last)
    }

    /// Whether `bytes` from `offset` on are in it.
    pub(crate) fn holds(self, offset: u64, bytes: u64) -> bool {
        offset >= self.start && offset.checked_add(bytes).is_some_and(|end| end <= self.end())
    }
}

/// Draws addresses.
#[derive(Debug)]
pub(crate) struct AddressLaw {
    room: Room,
    law: Law,
}

#[derive(Debug)]
enum Law {
    Uniform,
    Sequential { next: u64 },
    Zipf(Popular),
    HotCold { hot: Room, cold: Room, accesses: f64 },
    Regions { parts: Box<[Popular; 3]>, mixed_share: f64 },
}

impl AddressLaw {
    /// `address` has been checked.
    pub(crate) fn new(address: &Address, room: Room, random: &mut Random) -> Self {
        let law = match address {
            Address::Uniform => Law::Uniform,
            Address::Sequential => Law::Sequential { next: room.start },
            Address::Zipf(ZipfExtents { theta, extent }) => {
                Law::Zipf(Popular::new(room, *theta, *extent, random))
            }
            Address::HotCold(HotCold { space, accesses }) => {
                let cut = (room.bytes as f64 * space) as u64;
                let cold = room.part(cut.max(room.align), u64::MAX);
                let hot = room.part(0, cold.start - room.start);
                Law::HotCold { hot, cold, accesses: *accesses }
            }
            Address::Regions(regions) => Law::regions(regions, room, random),
        };
        Self { room, law }
    }

    /// The address of a request of `bytes`.
    pub(crate) fn draw(&mut self, read: bool, bytes: u32, random: &mut Random) -> u64 {
        let (room, bytes) = (self.room, u64::from(bytes));
        let offset = match &mut self.law {
            Law::Uniform => return room.anywhere(bytes, random),
            Law::Sequential { next } => {
                let offset = if room.holds(*next, bytes) { *next } else { room.start };
                *next = offset + bytes;
                return offset;
            }
            Law::Zipf(popular) => popular.draw(bytes, random),
            Law::HotCold { hot, cold, accesses } => {
                let part = if random.chance(*accesses) { hot } else { cold };
                part.anywhere(bytes, random)
            }
            Law::Regions { parts, mixed_share } => {
                let part = if random.chance(*mixed_share) { 2 } else { usize::from(!read) };
                parts[part].draw(bytes, random)
            }
        };
        room.fit(offset, bytes)
    }

    /// Whether a request may continue at `offset`.
    pub(crate) fn continues(&self, offset: u64, bytes: u32) -> bool {
        self.room.holds(offset, u64::from(bytes))
    }
}

impl Law {
    fn regions(regions: &Regions, room: Room, random: &mut Random) -> Self {
        let sizes = [regions.read.0, regions.write.0, regions.mixed.0];
        let whole: f64 = sizes.iter().map(|&bytes| bytes as f64).sum();
        let scale = (room.bytes as f64 / whole).min(1.0);
        let mut start = 0;
        let parts = sizes.map(|bytes| {
            let bytes = (bytes as f64 * scale) as u64;
            let part = room.part(start, bytes);
            start += bytes;
            Popular::new(part, regions.theta, regions.extent, random)
        });
        Self::Regions { parts: Box::new(parts), mixed_share: regions.mixed_share }
    }
}

/// Extents of a room by popularity.
#[derive(Debug)]
struct Popular {
    room: Room,
    extent: u64,
    zipf: Zipf,
    scramble: Scramble,
}

impl Popular {
    fn new(room: Room, theta: f64, extent: Bytes, random: &mut Random) -> Self {
        let extent = extent.0.checked_next_multiple_of(room.align).unwrap_or(u64::MAX);
        let count = (room.bytes / extent).max(1);
        let scramble = Scramble::new(count, random);
        Self { room, extent, zipf: Zipf::new(count, theta), scramble }
    }

    fn draw(&self, bytes: u64, random: &mut Random) -> u64 {
        let extent = self.scramble.of(self.zipf.rank(random));
        self.room.part(extent * self.extent, self.extent).anywhere(bytes, random)
    }
}
