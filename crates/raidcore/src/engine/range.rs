//! What a range of an array's stripes has of its own. Today one range has all stripes.

use super::Config;
use super::align::Alignment;
use super::copies::Copies;
use super::distributed::Distributed;
use super::heat::Heat;
use super::hedge::Patience;
use super::jobs::Jobs;
use super::journal::Journal;
use super::lull::Lull;
use super::maps::{MapStore, Maps};
use super::missed::Missed;
use super::regions::Regions;
use super::replay::Replays;
use super::reshape::Reshaping;
use super::staging::Staging;
use super::warm::Warm;
use crate::meta::Assembled;

/// See the [module](self).
pub(super) struct Range {
    pub(super) jobs: Jobs,
    pub(super) patience: Patience,
    pub(super) maps: Maps,
    pub(super) missed: Missed,
    pub(super) regions: Regions,
    pub(super) alignment: Alignment,
    pub(super) journal: Journal,
    pub(super) replays: Replays,
    pub(super) staging: Staging,
    pub(super) lull: Lull,
    pub(super) copies: Copies,
    pub(super) distributed: Distributed,
    pub(super) heat: Heat,
    pub(super) warm: Warm,
    pub(super) reshape: Reshaping,
}

impl Range {
    /// As it was assembled.
    ///
    /// # Panics
    /// If background work is to have all stripes.
    pub(super) fn new(config: &Config, assembled: Assembled) -> Self {
        let missed = Missed::new(&assembled);
        let regions = Regions::new(&assembled.bitmap);
        let mut maps = Maps::new(
            MapStore::new(assembled.bitmap, &assembled.bitmap_versions),
            MapStore::new(assembled.zero_map, &assembled.zero_versions),
            MapStore::new(assembled.missed, &assembled.missed_versions),
        );
        if !assembled.replay.is_empty() {
            maps.spread();
        }
        let record = &assembled.record;
        let geo = &record.geometry;
        // A reclaim has two buffers for every data chunk.
        let n = geo.width();
        let most = (n + 2 + geo.data()).max(2 * n + 4);
        let buffers =
            (config.scratch_blocks / record.layout().chunk()).clamp(most as u32, 1 << 14) as u16;
        let warm = Warm::new(&record.layout(), config.warm_blocks, buffers);
        let first = buffers + warm.buffers();
        let staging = Staging::new(record, &assembled.staged, (config.staged_blocks, first));
        let reshape = Reshaping::new(record, config.reshape_blocks, first + staging.buffers());
        Self {
            jobs: Jobs::new(geo, config.jobs, config.background_jobs, buffers),
            patience: Patience::default(),
            maps,
            missed,
            regions,
            alignment: Alignment::default(),
            journal: Journal::new(record, assembled.next_entry),
            replays: Replays::new(assembled.replay),
            staging,
            lull: Lull::default(),
            copies: Copies::new(record),
            distributed: Distributed::new(record),
            heat: Heat::new(record.areas.stripes(), &assembled.popularity),
            warm,
            reshape,
        }
    }
}
