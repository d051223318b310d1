//! Scenarios made of others, for worlds of their own.

use raidcore::geometry::Level;
use raidcore::meta::Consistency;

use crate::scenario::{Becomes, Scenario};
use crate::source::Source;
use crate::volatile::Volatile;

impl Scenario {
    /// The same with a reshape or larger members, drawn by `seed`; nothing if this can have neither.
    #[must_use]
    pub fn reshaped(mut self, seed: u64) -> Option<Self> {
        let mut source = Source::seed(seed ^ 0x7e5_4a9e);
        let parity = matches!(self.level, Level::Raid4 | Level::Raid5 | Level::Raid6);
        if !parity || self.distributed_spare || self.staging_devices > 0 {
            self.lives = self.lives.max(2);
            self.larger = u64::from(self.chunk) * (1 + source.below(20));
            return source.chance(1, 8).then_some(self);
        }
        let level = source.one_of(&[Level::Raid4, Level::Raid5, Level::Raid6, Level::Raid6]);
        let loses = usize::from(level == Level::Raid6 && self.level != Level::Raid6);
        self.consistency = Consistency::Journal;
        self.lives = self.lives.max(3);
        self.requests = self.requests.max(150);
        // A part of it is for what is saved.
        self.journal = source.one_of(&[512, 2048]);
        let more = loses + source.below(3) as usize;
        let placement = if source.chance(1, 3) { source.below(7) as usize } else { 0 };
        let blocks = self.chunk * source.one_of(&[1, 1, 2, 4, 16]);
        let chunk = if source.chance(1, 2) { 1 << source.below(5) } else { 0 };
        self.larger = source.one_of(&[0, 0, 1, 5, 20]) * u64::from(self.chunk);
        self.reshape = Some(Becomes { level, more, placement, chunk, blocks });
        if source.chance(1, 5) {
            // Nothing but chunks, with marks in the bitmap: every window is saved.
            let (level, placement) = (self.level, self.placement);
            let chunk = if source.chance(1, 2) { 2 * self.chunk } else { self.chunk.div_ceil(2) };
            self.reshape = Some(Becomes { level, more: 0, placement, chunk, blocks });
            self.load.whole = self.load.whole.max(2);
        }
        Some(self)
    }

    /// The same with pairs of mirrored members, drawn by `seed`.
    #[must_use]
    pub fn paired(mut self, seed: u64) -> Self {
        let mut source = Source::seed(seed ^ 0x0a1d_9a17);
        let members = 2 * source.one_of(&[2, 2, 3, 4]);
        (self.level, self.members, self.placement) = (Level::Raid10, members, 0);
        (self.staging, self.staging_devices, self.staged_blocks) = (0, 0, 0);
        self.distributed_spare = false;
        self.stripes *= source.one_of(&[1, 2, 3]);
        self.faults.gone = self.faults.gone.max(source.one_of(&[0, 2, 4]));
        self.faults.rate = self.faults.rate.max(source.one_of(&[0, 6]));
        if source.chance(1, 8) {
            self = self.cached(seed);
        } else if source.chance(1, 8) {
            self.lives = self.lives.max(2);
            self.larger = u64::from(self.chunk) * (1 + source.below(20));
        }
        self
    }

    /// The same behind a write cache in memory, drawn by `seed`.
    #[must_use]
    pub fn cached(mut self, seed: u64) -> Self {
        let mut source = Source::seed(seed ^ 0xcac_4ed5);
        if source.chance(1, 6)
            && let Some(reshaped) = self.clone().reshaped(seed)
        {
            self = reshaped;
        }
        self.volatile = Some(Volatile::choose(&mut source, self.chunk));
        self.tags = self.tags.max(2);
        let load = &mut self.load;
        load.blocks = source.one_of(&[1, 2, 5, load.blocks, load.blocks]);
        load.flush = source.one_of(&[0, 1, 1, 3]);
        load.fua = source.one_of(&[0, 2, 8, 20]);
        (load.discard, load.zeroes) = (source.one_of(&[0, 1, 2]), source.one_of(&[0, 1, 2]));
        self.requests = self.requests.min(source.one_of(&[100, 100, 300]));
        self
    }
}
