//! What a run is about, drawn from its seed.

use det::Prng;
use raidcore::geometry::Level;
use raidcore::meta::Consistency;

/// What a run is about.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The array's level.
    pub level: Level,
    /// Its members.
    pub members: usize,
    /// Blocks in a chunk.
    pub chunk: u32,
    /// Its stripes, at least.
    pub stripes: u64,
    /// What survives an unclean stop.
    pub consistency: Consistency,
    /// The most blocks of a request.
    pub request: u32,
    /// The most requests in flight.
    pub tags: u16,
    /// The most stripes worked on at once.
    pub jobs: u16,
    /// How many of these are kept for background work.
    pub background_jobs: u16,
    /// Scratch memory in blocks.
    pub scratch_blocks: u32,
    /// Whether the disks hold noise at first, so that redundancy is made by a resync.
    pub used_disks: bool,
    /// Whether disks fail, blocks go bad, spares come.
    pub faults: bool,
    /// How many requests in a life.
    pub requests: u32,
    /// How many lives: between two of them the power fails.
    pub lives: u32,
}

/// What arrays are made with.
const KINDS: [(Level, Consistency); 9] = [
    (Level::Raid0, Consistency::Resync),
    (Level::Raid1, Consistency::Bitmap),
    (Level::Raid1, Consistency::Resync),
    (Level::Raid4, Consistency::Journal),
    (Level::Raid5, Consistency::Journal),
    (Level::Raid5, Consistency::Bitmap),
    (Level::Raid6, Consistency::Journal),
    (Level::Raid6, Consistency::Bitmap),
    (Level::Raid6, Consistency::Resync),
];

impl Scenario {
    /// The scenario that a seed stands for.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let (level, consistency) = KINDS[Prng::new(!seed).below(KINDS.len() as u64) as usize];
        Self::of(level, consistency, seed)
    }

    /// The scenario that a seed stands for among those of one kind of array.
    #[must_use]
    pub fn of(level: Level, consistency: Consistency, seed: u64) -> Self {
        let mut prng = Prng::new(!seed.rotate_left(32));
        let least = match level {
            Level::Raid0 | Level::Raid1 => 2,
            Level::Raid4 | Level::Raid5 => 3,
            Level::Raid6 => 4,
        };
        let members = least + prng.below(4) as usize;
        // With large chunks the journal has room for only a few entries.
        let large = prng.chance(1, 8);
        let chunk = if large { 64 } else { 1 << prng.below(3) };
        Self {
            level,
            members,
            chunk,
            stripes: 1 + prng.below(if large { 6 } else { 40 }),
            consistency,
            request: match prng.below(3) {
                0 => 1,
                1 => chunk,
                _ => 3 * chunk * members as u32,
            },
            tags: 1 + prng.below(16) as u16,
            jobs: 6 + prng.below(30) as u16,
            background_jobs: 1 + prng.below(4) as u16,
            scratch_blocks: prng.below(400) as u32,
            used_disks: prng.chance(1, 4),
            faults: prng.chance(3, 4),
            requests: 150,
            lives: 1 + prng.below(4) as u32,
        }
    }
}
