//! Where the areas of a member are, in blocks of 4096 bytes.
//!
//! Invariants:
//! - The map of missed regions is between the first two superblocks.
//! - The other areas follow one another: superblocks, write-intent bitmap, zero map, journal,
//!   staging log, data, distributed spare. None overlaps the next, and all are within the member.
//! - The data begins at a multiple of 256 blocks (1 MiB).
//! - A map has exactly the pages that its bits need, each with two slots. Version `v` of a page
//!   goes to slot `v % 2`, so a torn write never destroys the version before it.
//! - [`Areas`] that came from a disk have passed [`Areas::check`].

use super::layout_error::LayoutError;
use super::map_shape::{BITMAP_PAGES_MAX, MapShape};
use super::page::{BitMap, MapKind};
use super::record::Consistency;
use super::shapes::{
    can_distribute, can_stage, data_blocks, journal_least, spare_blocks, spare_copies,
};
use crate::geometry::{Geometry, Layout};
use crate::units::{MemberId, Pba, Stripe};

/// How many copies of the superblock a member holds.
pub const SUPERBLOCK_COPIES: usize = 4;

/// Where the copies of the superblock are on every member, whatever its layout. They are far apart,
/// so that local corruption leaves a quorum.
pub const SUPERBLOCKS: [Pba; SUPERBLOCK_COPIES] = [Pba(0), Pba(64), Pba(128), Pba(192)];

/// Where the maps begin.
const MAPS_START: u64 = 256;
const _: () = assert!(MAPS_START > SUPERBLOCKS[SUPERBLOCK_COPIES - 1].0);

/// Where the map of missed regions begins on every member: between the first two superblocks, which
/// arrays of all releases leave free.
const MISSED_START: u64 = 1;
const _: () = assert!(MISSED_START + 2 * BITMAP_PAGES_MAX as u64 <= SUPERBLOCKS[1].0);

/// Where what users asked for is on every member: behind the second superblock, which arrays of all
/// releases leave free.
pub(super) const POPULARITY: Pba = Pba(SUPERBLOCKS[1].0 + 1);
const _: () = assert!(POPULARITY.0 < SUPERBLOCKS[2].0);

/// Where the superblock of md is kept that a device had, while it is to become a member: behind what
/// users asked for, which arrays of all releases leave free.
pub const FORMER_SUPERBLOCK: Pba = Pba(POPULARITY.0 + 1);
const _: () = assert!(FORMER_SUPERBLOCK.0 < SUPERBLOCKS[2].0);

/// Where the lease block is on every member: behind what md had, which arrays of all releases leave free.
pub const LEASE_BLOCK: Pba = Pba(FORMER_SUPERBLOCK.0 + 1);
const _: () = assert!(LEASE_BLOCK.0 < SUPERBLOCKS[2].0);

/// What the data's start is a multiple of.
pub(super) const ALIGNMENT: u64 = 256;

/// The journal's size by default (8 MiB).
pub const JOURNAL_BLOCKS: u64 = 2048;

/// The most blocks of a journal that are plausible (1 GiB).
const JOURNAL_MAX: u64 = 1 << 18;

/// The most blocks of a staging log (1 GiB).
pub const STAGING_MAX: u64 = 1 << 18;

/// The least blocks of a staging log, where there is one.
pub const STAGING_MIN: u64 = 64;

/// Room is left for the zero map of an array that becomes so many times as large with its members.
const GROWTH: u64 = 4;

/// The most blocks of that room.
const GROWTH_MAX: u64 = SLACK_MAX - 2 * ALIGNMENT;

/// The most blocks that may lie unused between all areas together.
pub(super) const SLACK_MAX: u64 = 1 << 12;

/// The most bits of a map that no chunk size of the array needs.
const SPARE_BITS: u64 = 1 << 16;

/// The most stripes, as [`Geometry::new`] has it.
pub(super) const STRIPES_MAX: u64 = 1 << 42;

/// Where things are on each member of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Areas {
    /// For how many stripes the maps have bits: those that there are, or more.
    pub(super) stripes: u64,
    pub(super) region_stripes: u64,
    /// Bits of a page of a map.
    pub(super) page_bits: u64,
    pub(super) bitmap_start: u64,
    pub(super) bitmap_pages: u32,
    pub(super) zero_map_start: u64,
    pub(super) zero_map_pages: u32,
    pub(super) journal_start: u64,
    pub(super) journal_blocks: u64,
    pub(super) staging_start: u64,
    pub(super) staging_blocks: u64,
    /// Blocks of the staging log on a staging device, if there are any; it begins at the same block
    /// as on members.
    pub(super) device_ring: u64,
    pub(super) data_start: u64,
    /// Blocks of the distributed spare on each member, if there is one; it follows the data.
    pub(super) spare_blocks: u64,
    pub(super) member_blocks: u64,
    /// Whether more than [`SLACK_MAX`] blocks may lie unused right before the data.
    pub(super) far: bool,
}

impl Areas {
    /// Lays out an array and tells how many stripes fit. `shape` gives everything but the stripes,
    /// `member_blocks` the size of each member (0 if it is missing). A journal has
    /// `journal_blocks`, or more if the largest entries need it; a staging log has
    /// `staging_blocks`; a distributed spare follows the data.
    ///
    /// # Errors
    /// If the shape can't have a staging log ([`can_stage`]) or a distributed spare
    /// ([`can_distribute`]), if the log is too small or too large, or if not a single stripe fits.
    pub fn plan(
        shape: &Geometry,
        consistency: Consistency,
        journal_blocks: u64,
        staging_blocks: u64,
        distributed_spare: bool,
        member_blocks: &[u64],
    ) -> Result<(Self, u64), LayoutError> {
        check_staging(shape, staging_blocks)?;
        if distributed_spare && !can_distribute(shape) {
            return Err(LayoutError::NoDistributedSpare);
        }
        let spare = |stripes| if distributed_spare { spare_blocks(shape, stripes) } else { 0 };
        let journal = match journal_least(shape, consistency) {
            0 => 0,
            least => least.max(journal_blocks).min(JOURNAL_MAX),
        };
        let areas = |stripes| {
            let maps = MapShape::of(stripes);
            Self::of(shape, journal, staging_blocks, stripes, spare(stripes), maps)
        };
        // Whether members have room for the stripes and the areas before and behind them.
        let have = |member: MemberId| member_blocks.get(member.index()).copied().unwrap_or(0);
        let need = |member, stripes, before: u64, behind: u64| {
            before + shape.blocks_before(Stripe(stripes), member) + behind
        };
        let fit = |stripes, before, behind| {
            shape.member_set().all(|member| need(member, stripes, before, behind) <= have(member))
        };
        // All members have as many chunks.
        let row = shape.stripes_of_a_row();
        let whole = |stripes| stripes - stripes % row;
        let mut stripes = whole(most(STRIPES_MAX, |stripes| fit(stripes, 0, 0)));
        loop {
            if stripes == 0 {
                let (before, behind) = (areas(row).data_start, spare(row));
                let sizes = shape.member_set().map(|m| (have(m), need(m, row, before, behind)));
                let least = sizes.min_by_key(|&(have, need)| i128::from(have) - i128::from(need));
                let (have, need) = least.unwrap_or_default();
                return Err(LayoutError::TooSmall { have, need });
            }
            let candidate = areas(stripes);
            let found = whole(most(stripes, |n| fit(n, candidate.data_start, spare(n))));
            if found == stripes {
                return Ok((candidate, stripes));
            }
            stripes = found;
        }
    }

    /// The same, with this many blocks of the staging log on each staging device.
    ///
    /// # Errors
    /// If these are too few or too many, or the members have no staging log.
    pub fn with_staging_devices(self, blocks: u64) -> Result<Self, LayoutError> {
        if self.staging_blocks > 0 && is_ring(blocks) {
            Ok(Self { device_ring: blocks, ..self })
        } else {
            Err(LayoutError::Area("staging log"))
        }
    }

    /// The same for an array of that geometry, with maps that differ from the default: a bit of the
    /// write-intent bitmap for every `region_stripes` stripes, and `page_bits` bits in a page.
    /// Members may then need more blocks.
    ///
    /// # Errors
    /// If `region_stripes` is no power of two, `page_bits` neither a multiple of 64 nor a power of
    /// two or more than [`BITS_PER_PAGE`](super::BITS_PER_PAGE), or there would be too many regions
    /// or pages.
    pub(super) fn with_maps_of(
        self,
        geometry: &Geometry,
        region_stripes: u64,
        page_bits: u64,
    ) -> Result<Self, LayoutError> {
        let (stripes, maps) = (geometry.stripes(), MapShape { region_stripes, page_bits });
        maps.check(stripes)?;
        let areas = Self::of(
            geometry,
            self.journal_blocks,
            self.staging_blocks,
            stripes,
            self.spare_blocks,
            maps,
        );
        Ok(Self { device_ring: self.device_ring, ..areas })
    }

    /// The layout for a shape (whose stripes don't matter), a given number of stripes, blocks of
    /// a distributed spare, and shape of the maps.
    pub(super) fn of(
        shape: &Geometry,
        journal_blocks: u64,
        staging_blocks: u64,
        stripes: u64,
        spare_blocks: u64,
        maps: MapShape,
    ) -> Self {
        let MapShape { region_stripes, page_bits } = maps;
        let bitmap_pages = maps.pages(stripes.div_ceil(region_stripes));
        let zero_map_pages = maps.pages(stripes);
        let zero_map_start = MAPS_START + 2 * u64::from(bitmap_pages);
        let growth = (2 * (GROWTH - 1) * u64::from(zero_map_pages)).min(GROWTH_MAX);
        let journal_start = zero_map_start + 2 * u64::from(zero_map_pages) + growth;
        let staging_start = journal_start + journal_blocks;
        let data_start = (staging_start + staging_blocks).next_multiple_of(ALIGNMENT);
        Self {
            stripes,
            region_stripes,
            page_bits,
            bitmap_start: MAPS_START,
            bitmap_pages,
            zero_map_start,
            zero_map_pages,
            journal_start,
            journal_blocks,
            staging_start,
            staging_blocks,
            device_ring: 0,
            data_start,
            spare_blocks,
            member_blocks: data_start + data_blocks(shape, stripes) + spare_blocks,
            far: false,
        }
    }

    /// Blocks before the data that are in use, if the journal has so many.
    pub(super) fn used(&self, journal_blocks: u64) -> u64 {
        let maps = 2 * (u64::from(self.bitmap_pages) + u64::from(self.zero_map_pages));
        MAPS_START + maps + journal_blocks + self.staging_blocks
    }

    /// Checks areas that came from a disk against the shape that came with them.
    pub(super) fn check(
        &self,
        geometry: &Geometry,
        consistency: Consistency,
    ) -> Result<(), LayoutError> {
        let stripes = self.stripes;
        let ensure = |holds: bool, area| {
            if holds { Ok(()) } else { Err(LayoutError::Area(area)) }
        };
        let end = |start: u64, blocks: u64| start.checked_add(blocks);
        let fits = |end: Option<u64>, next: u64| end.is_some_and(|end| end <= next);

        let maps = MapShape { region_stripes: self.region_stripes, page_bits: self.page_bits };
        // A stripe has a block of each member at least, and other numbers are few.
        let most = geometry.stripes() * u64::from(geometry.chunk()) + SPARE_BITS;
        ensure((geometry.stripes()..=most.min(STRIPES_MAX)).contains(&stripes), "zero map")?;
        maps.check(stripes)?;
        let regions = stripes.div_ceil(self.region_stripes);
        ensure(self.bitmap_start >= MAPS_START, "write-intent bitmap")?;
        ensure(self.bitmap_pages == maps.pages(regions), "write-intent bitmap")?;
        let bitmap_end = end(self.bitmap_start, 2 * u64::from(self.bitmap_pages));
        ensure(fits(bitmap_end, self.zero_map_start), "zero map")?;
        ensure(self.zero_map_pages == maps.pages(stripes), "zero map")?;
        let zero_map_end = end(self.zero_map_start, 2 * u64::from(self.zero_map_pages));
        ensure(fits(zero_map_end, self.journal_start), "journal")?;
        let least = journal_least(geometry, consistency);
        let journal = least..=JOURNAL_MAX;
        ensure(journal.contains(&self.journal_blocks), "journal")?;
        let journal_end = end(self.journal_start, self.journal_blocks);
        ensure(fits(journal_end, self.staging_start), "staging log")?;
        check_staging(geometry, self.staging_blocks)?;
        ensure(self.device_ring == 0 || self.staging_blocks > 0, "staging log")?;
        ensure(self.device_ring == 0 || is_ring(self.device_ring), "staging log")?;
        let staging_end = end(self.staging_start, self.staging_blocks);
        ensure(fits(staging_end, self.data_start), "data area")?;
        ensure(self.data_start.is_multiple_of(ALIGNMENT), "data area")?;
        // Reading the metadata takes memory for everything up to the staging log's end.
        let read =
            if self.far { self.staging_start + self.staging_blocks } else { self.data_start };
        ensure(read - self.used(self.journal_blocks) <= SLACK_MAX, "data area")?;
        let distributes = self.spare_blocks == 0
            || can_distribute(geometry)
                && self.spare_blocks == spare_blocks(geometry, geometry.stripes());
        ensure(distributes, "distributed spare")?;
        let data_end = end(self.data_start, data_blocks(geometry, geometry.stripes()));
        let whole = data_end.and_then(|data_end| end(data_end, self.spare_blocks));
        ensure(whole == Some(self.member_blocks), "data area")
    }

    /// Where a copy of the superblock is; the same as [`SUPERBLOCKS`].
    ///
    /// # Panics
    /// If `copy` is not below [`SUPERBLOCK_COPIES`].
    #[must_use]
    pub fn superblock(&self, copy: u8) -> Pba {
        SUPERBLOCKS[usize::from(copy)]
    }

    /// A map with all bits clear.
    #[must_use]
    pub fn map(&self, kind: MapKind) -> BitMap {
        let bits = match kind {
            MapKind::Bitmap | MapKind::Missed => self.regions(),
            MapKind::ZeroMap => self.stripes,
        };
        BitMap::with_pages_of(self.page_bits, kind, bits)
    }

    /// Where a version of a map's page goes.
    #[must_use]
    pub fn map_page(&self, kind: MapKind, index: u32, version: u64) -> Pba {
        let start = match kind {
            MapKind::Bitmap => self.bitmap_start,
            MapKind::ZeroMap => self.zero_map_start,
            MapKind::Missed => MISSED_START,
        };
        Pba(start + 2 * u64::from(index) + version % 2)
    }

    /// Where what users asked for is.
    #[must_use]
    pub fn popularity(&self) -> Pba {
        POPULARITY
    }

    /// Where the journal's ring is, and how many blocks it has; none if there is no journal.
    #[must_use]
    pub fn journal(&self) -> (Pba, u64) {
        (Pba(self.journal_start), self.journal_blocks)
    }

    /// Where the staging log's ring is, and how many blocks it has; none if there is none.
    #[must_use]
    pub fn staging(&self) -> (Pba, u64) {
        (Pba(self.staging_start), self.staging_blocks)
    }

    /// The same on a staging device.
    #[must_use]
    pub fn staging_on_device(&self) -> (Pba, u64) {
        (Pba(self.staging_start), self.device_ring)
    }

    /// How many blocks a staging device must have: those before the staging log, which hold what they
    /// do on members, and its own part of that.
    #[must_use]
    pub fn staging_device_blocks(&self) -> u64 {
        self.staging_start + self.device_ring
    }

    /// Where the stripes begin.
    #[must_use]
    pub fn data_start(&self) -> Pba {
        Pba(self.data_start)
    }

    /// Whether there is a distributed spare.
    #[must_use]
    pub fn has_distributed_spare(&self) -> bool {
        self.spare_blocks > 0
    }

    /// Blocks of the distributed spare on each member; 0 without one. It follows the data.
    #[must_use]
    pub fn distributed_spare_blocks(&self) -> u64 {
        self.spare_blocks
    }

    /// Where a copy (below [`spare_copies`]) of a failed member's chunk of a stripe is on the
    /// distributed spare. The copies go to the other members in turn, so no two copies of a chunk
    /// are on the same member.
    #[must_use]
    pub fn on_distributed_spare(
        &self,
        layout: &Layout,
        failed: MemberId,
        stripe: Stripe,
        copy: usize,
    ) -> (MemberId, Pba) {
        let (geometry, others) = (layout.of(stripe), layout.members() as u64 - 1);
        let number = stripe.0 * spare_copies(geometry) as u64 + copy as u64;
        let (slot, other) = (number / others, (number % others) as u8);
        let member = MemberId(if other < failed.0 { other } else { other + 1 });
        let Pba(start) = layout.data_end(member);
        (member, Pba(start + slot * u64::from(geometry.chunk())))
    }

    /// What has to be zeroed durably on a device that returns before it is used: all metadata but
    /// three copies of the superblock. These tell what the device was until three of the new
    /// superblock are written. Old pages and entries would be taken for current ones.
    /// `place_blocks` is the result of
    /// [`ArrayRecord::meta_blocks_of`](super::ArrayRecord::meta_blocks_of) for its place.
    #[must_use]
    pub fn stale_on_return(place_blocks: u64) -> [core::ops::Range<u64>; 3] {
        let [first, second, third, _] = SUPERBLOCKS.map(|at| at.0);
        [first + 1..second, second + 1..third, third + 1..place_blocks]
    }

    /// How many blocks metadata takes: all those before the data.
    #[must_use]
    pub fn meta_blocks(&self) -> u64 {
        self.data_start
    }

    /// The size in blocks of the member that needs the most.
    #[must_use]
    pub fn member_blocks(&self) -> u64 {
        self.member_blocks
    }

    /// How many stripes a bit of the write-intent bitmap stands for; a power of two.
    #[must_use]
    pub fn region_stripes(&self) -> u64 {
        self.region_stripes
    }

    /// How many bits a page of a map has.
    pub(crate) fn page_bits(&self) -> u64 {
        self.page_bits
    }

    /// The region that a stripe is in: its bit in the write-intent bitmap.
    #[must_use]
    pub fn region(&self, stripe: Stripe) -> u64 {
        stripe.0 / self.region_stripes
    }

    /// How many stripes the maps are for: as many as there are, or more.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// How many regions the maps are for.
    #[must_use]
    pub fn regions(&self) -> u64 {
        self.regions_of(self.stripes)
    }

    /// How many regions this many stripes are in.
    pub(crate) fn regions_of(&self, stripes: u64) -> u64 {
        stripes.div_ceil(self.region_stripes)
    }

    /// Pages of the write-intent bitmap.
    #[must_use]
    pub fn bitmap_pages(&self) -> u32 {
        self.bitmap_pages
    }

    /// Pages of the zero map.
    #[must_use]
    pub fn zero_map_pages(&self) -> u32 {
        self.zero_map_pages
    }
}

/// The greatest number up to `limit` that fits. Every number below one that fits must fit, too.
pub(super) fn most(limit: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut least, mut beyond) = (0, limit + 1);
    while beyond - least > 1 {
        let middle = least + (beyond - least) / 2;
        if fits(middle) { least = middle } else { beyond = middle }
    }
    least
}

/// Whether a staging log can have so many blocks.
fn is_ring(blocks: u64) -> bool {
    (STAGING_MIN..=STAGING_MAX).contains(&blocks)
}

fn check_staging(geometry: &Geometry, blocks: u64) -> Result<(), LayoutError> {
    if blocks == 0 || is_ring(blocks) && can_stage(geometry) {
        Ok(())
    } else {
        Err(LayoutError::Area("staging log"))
    }
}
