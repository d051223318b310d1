//! Metadata of an array that gets more stripes, or stripes with other numbers: its maps get other bits, and
//! the journal gives up what room they need.
//!
//! The new maps are written before any record tells of them. As long as none does, a start finds the former
//! ones: their pages tell for how many bits they are, each keeps its latest version in one of its two
//! places, and after a clean stop nothing in the journal is needed.

use alloc::vec::Vec;

use super::Assembled;
use super::layout::{Areas, STRIPES_MAX, most};
use super::layout_error::LayoutError;
use super::map_shape::MapShape;
use super::page::{BitMap, MapKind, PageVersions};
use super::record::{ArrayRecord, Consistency};
use super::reshape::ReshapeError;
use super::shapes::{data_blocks, journal_least, spare_blocks};
use crate::geometry::{Geometry, GeometryError};
use crate::units::{BLOCK_BYTES, Pba};

/// Maps with other bits.
pub(super) struct Relaid {
    maps: [(BitMap, Vec<PageVersions>); 3],
}

impl Areas {
    /// The same for stripes of that geometry, and of one that they had, with maps of another length if that
    /// is needed or they are `renumbered`. The data stays where it is.
    pub(super) fn for_stripes(
        &self,
        geometry: &Geometry,
        from: &Geometry,
        renumbered: bool,
        consistency: Consistency,
    ) -> Result<Self, LayoutError> {
        let stripes = geometry.stripes().max(from.stripes()).max(self.stripes);
        // Pages of another length are other pages.
        let is_taken = renumbered && stripes == self.stripes;
        let stripes = stripes + u64::from(is_taken);
        let mut maps = MapShape { region_stripes: self.region_stripes, page_bits: self.page_bits };
        while maps.check(stripes).is_err()
            || maps.pages(stripes.div_ceil(maps.region_stripes)) > self.bitmap_pages
        {
            maps.region_stripes *= 2;
            if maps.region_stripes > STRIPES_MAX {
                return Err(LayoutError::Area("region"));
            }
        }
        let zero_map_pages = maps.pages(stripes);
        let zero_map_end = self.zero_map_start + 2 * u64::from(zero_map_pages);
        let journal_end = self.journal_start + self.journal_blocks;
        let journal_start = self.journal_start.max(zero_map_end);
        // Without a journal there may be room before what comes next.
        let behind = match (self.journal_blocks, self.staging_blocks) {
            (0, 0) => self.data_start,
            (0, _) => self.staging_start,
            _ => journal_end,
        };
        let journal_blocks = behind.min(journal_end).saturating_sub(journal_start);
        let least = journal_least(geometry, consistency).max(journal_least(from, consistency));
        if journal_start > behind || journal_blocks < least {
            return Err(LayoutError::NoMapRoom);
        }
        let spare = match self.spare_blocks {
            0 => 0,
            _ => spare_blocks(geometry, geometry.stripes()),
        };
        let areas = Self {
            stripes,
            region_stripes: maps.region_stripes,
            bitmap_pages: maps.pages(stripes.div_ceil(maps.region_stripes)),
            zero_map_pages,
            journal_start,
            journal_blocks,
            // What is not there begins where the journal ends.
            staging_start: match self.staging_blocks {
                0 => journal_start + journal_blocks,
                _ => self.staging_start,
            },
            spare_blocks: spare,
            member_blocks: self.data_start + data_blocks(geometry, geometry.stripes()) + spare,
            ..self.clone()
        };
        areas.check(geometry, consistency)?;
        Ok(areas)
    }
}

impl Assembled {
    /// Makes the array as large as its members have room for, which is on record once it is started. What is
    /// added reads as zeros. Before that, the caller has to write [its maps](Self::relaid_maps) durably.
    ///
    /// # Errors
    /// If it is being reshaped, a member is missing, it was not stopped cleanly, or it can't become larger.
    pub fn enlarge(&mut self) -> Result<(), ReshapeError> {
        let record = &self.record;
        if record.reshape.is_some() {
            return Err(ReshapeError::UnderWay);
        }
        self.is_settled()?;
        let before = record.geometry;
        let with = |stripes| -> Result<Geometry, GeometryError> {
            Geometry::new(before.level(), before.members(), before.chunk(), stripes)?
                .placed(before.placement())
        };
        let areas = |stripes| -> Result<(Geometry, Areas), ReshapeError> {
            let geometry = with(stripes)?;
            let renumbered = stripes > before.stripes();
            let areas =
                record.areas.for_stripes(&geometry, &before, renumbered, record.consistency)?;
            Ok((geometry, areas))
        };
        let larger = |stripes| {
            let (geometry, areas) = areas(stripes).ok()?;
            Some(ArrayRecord { geometry, areas, ..record.clone() })
        };
        let fits = |record: &ArrayRecord| {
            let mut sizes = record.places().zip(&self.slot_blocks);
            sizes.all(|(place, &have)| have >= record.blocks_of(place))
        };
        let stripes = most(STRIPES_MAX, |stripes| {
            stripes <= before.stripes() || larger(stripes).is_some_and(|record| fits(&record))
        });
        let Some(mut record) = larger(stripes).filter(|_| stripes > before.stripes()) else {
            // One stripe more needs room for its bits, and its chunks.
            let (geometry, areas) = areas(before.stripes() + 1)?;
            let next = ArrayRecord { geometry, areas, ..record.clone() };
            let sizes = next.places().zip(&self.slot_blocks);
            let mut sizes = sizes.map(|(place, &have)| (have, next.blocks_of(place)));
            let (have, need) = sizes.find(|(have, need)| have < need).unwrap_or_default();
            return Err(ReshapeError::TooSmall { have, need });
        };
        record.tell_stripes();
        let mut relaid = self.relay_maps(&record, |stripe| stripe)?;
        let [.., (zero_map, _), _] = &mut relaid.maps;
        for stripe in before.stripes()..stripes {
            zero_map.set(stripe);
        }
        self.adopt(record, relaid);
        Ok(())
    }

    /// The maps as `record` has them. `number` gives the number of a stripe that had another.
    pub(super) fn relay_maps(
        &self,
        record: &ArrayRecord,
        number: impl Fn(u64) -> u64,
    ) -> Result<Relaid, ReshapeError> {
        let maps = [
            (&self.bitmap, &self.bitmap_versions),
            (&self.zero_map, &self.zero_versions),
            (&self.missed, &self.missed_versions),
        ];
        if record.areas.stripes == self.record.areas.stripes {
            let same = maps.map(|(map, versions)| (map.clone(), versions.clone()));
            return Ok(Relaid { maps: same });
        }
        // The place of the latest version stays.
        let is_durable = |versions: &PageVersions| versions.durable == versions.newest;
        if !maps.iter().all(|(_, versions)| versions.iter().all(is_durable)) {
            return Err(ReshapeError::Unclean);
        }
        let maps = maps.map(|(map, versions)| {
            let mut relaid = record.areas.map(map.kind());
            if map.kind() == MapKind::ZeroMap {
                let mut from = 0;
                while let Some(bit) = map.next_set(from) {
                    relaid.set(number(bit));
                    from = bit + 1;
                }
            }
            let latest = |index: u32| versions.get(index as usize).map_or(0, |v| v.newest);
            let version = |index| latest(index) + 1;
            let versions = (0..relaid.pages()).map(version);
            let versions = versions.map(|newest| PageVersions { newest, durable: newest });
            (relaid, versions.collect())
        });
        Ok(Relaid { maps })
    }

    /// It is what this record says from the start on.
    pub(super) fn adopt(&mut self, record: ArrayRecord, relaid: Relaid) {
        let [bitmap, zero_map, missed] = relaid.maps;
        (self.bitmap, self.bitmap_versions) = bitmap;
        (self.zero_map, self.zero_versions) = zero_map;
        (self.missed, self.missed_versions) = missed;
        if record.areas.stripes != self.record.areas.stripes {
            self.popularity = Vec::new();
        }
        let before = core::mem::replace(&mut self.record, record);
        self.before.get_or_insert(before);
    }

    /// What has to be on all members, durably, before an array is started that is to become another: pages of
    /// its maps, and their places. Nothing of what it was is lost by that.
    pub fn relaid_maps(&self) -> impl Iterator<Item = (Pba, [u8; BLOCK_BYTES])> {
        let before = self.before.as_ref();
        let before = before.filter(|before| before.areas.stripes != self.record.areas.stripes);
        let maps = [
            (&self.bitmap, &self.bitmap_versions),
            (&self.zero_map, &self.zero_versions),
            (&self.missed, &self.missed_versions),
        ];
        before.into_iter().flat_map(move |before| {
            maps.into_iter().flat_map(move |(map, versions)| {
                let had = before.areas.map(map.kind()).pages();
                let pages = (0..).zip(versions);
                pages.flat_map(move |(index, versions)| {
                    // What a page's other place held when it was there before must not come back.
                    let other = (index >= had).then(|| versions.newest - 1);
                    let both = other.into_iter().chain([versions.newest]);
                    both.map(move |version| {
                        let mut block = [0; BLOCK_BYTES];
                        map.encode_page(self.record.array, index, version, &mut block);
                        (self.record.areas.map_page(map.kind(), index, version), block)
                    })
                })
            })
        })
    }
}
