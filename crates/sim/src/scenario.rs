//! Scenarios. Each seed draws its own ("swarm testing"): features of one world are absent in the
//! next, so that no kind of event drowns out the others.

use raidcore::geometry::{Level, Placement, Shares};
use raidcore::meta::Consistency;
use serde::{Deserialize, Serialize};

use crate::play::Playable;
use crate::simpler::Simpler;
use crate::source::Source;
use crate::volatile::Volatile;

/// A scenario.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The array's level.
    #[serde(with = "LevelName")]
    pub level: Level,
    /// Its members.
    pub members: usize,
    /// Blocks in a chunk.
    pub chunk: u32,
    /// Its stripes, at least.
    pub stripes: u64,
    /// Stripes of a region, which has a bit of the write-intent bitmap; 0 is the default.
    #[serde(default)]
    pub region_stripes: u64,
    /// Bits of a page of a map: a power of two, or a multiple of 64; 0 is the default.
    #[serde(default)]
    pub page_bits: u64,
    /// What survives an unclean stop.
    #[serde(with = "ConsistencyName")]
    pub consistency: Consistency,
    /// Blocks of the journal, at least.
    pub journal: u64,
    /// Blocks of the staging log; 0 is none.
    #[serde(default)]
    pub staging: u64,
    /// Staging devices.
    #[serde(default)]
    pub staging_devices: usize,
    /// Blocks of the staging log on each of them.
    #[serde(default)]
    pub staging_device: u64,
    /// Whether there is a distributed spare.
    #[serde(default)]
    pub distributed_spare: bool,
    /// Which of the level's placements: 0 is the default, followed by the others.
    #[serde(default)]
    pub placement: usize,
    /// Whether all journal entries are whole, as in arrays that older releases have created.
    #[serde(default)]
    pub whole_entries: bool,
    /// What the array becomes after its first life, if anything.
    #[serde(default)]
    pub reshape: Option<Becomes>,
    /// By how many blocks members are larger than they have to be, which the array gets at a later start.
    #[serde(default)]
    pub larger: u64,
    /// Whether the disks are SSDs that collect garbage, which decide when I/O ends; otherwise
    /// chance does.
    #[serde(default)]
    pub flash: bool,
    /// In percent of all events, which members are reported as busy changes. Reads go around them,
    /// writes are staged.
    #[serde(default)]
    pub busy: u64,
    /// Whether it also changes then which members are said to be young.
    #[serde(default)]
    pub young: bool,
    /// Whether the disks hold noise at first, so that redundancy needs a resync.
    pub used_disks: bool,
    /// The most requests in flight.
    pub tags: u16,
    /// The most stripes worked on at once.
    pub jobs: u16,
    /// How many of these are for background work.
    pub background_jobs: u16,
    /// Scratch memory in blocks.
    pub scratch_blocks: u32,
    /// Memory in blocks for what is written again and again.
    pub warm_blocks: u32,
    /// The write cache in memory above the array, if there is one.
    #[serde(default)]
    pub volatile: Option<Volatile>,
    /// Memory in blocks for what is staged.
    #[serde(default)]
    pub staged_blocks: u32,
    /// How many requests there are in all.
    pub requests: u32,
    /// How many lives: between two of them the power fails, or the array is stopped.
    pub lives: u32,
    /// The users' requests.
    pub load: Load,
    /// The faults.
    pub faults: Faults,
}

/// What an array is reshaped to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Becomes {
    /// Its level.
    #[serde(with = "LevelName")]
    pub level: Level,
    /// How many members it gets more.
    pub more: usize,
    /// Which of the level's placements: 0 is the default, followed by the others.
    pub placement: usize,
    /// Blocks of a chunk; 0 if that stays.
    #[serde(default)]
    pub chunk: u32,
    /// How many blocks of each member are moved at a time.
    pub blocks: u32,
}

/// Users' requests. Kinds of requests have weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The most blocks of a request.
    pub blocks: u32,
    /// Half of all requests go to this many blocks at the start of the array.
    pub hot: u64,
    /// One request in this many is of a whole stripe; 0 is none.
    pub whole: u64,
    /// Reads.
    pub read: u64,
    /// Writes.
    pub write: u64,
    /// Flushes.
    pub flush: u64,
    /// Discards.
    pub discard: u64,
    /// Write-zeroes.
    pub zeroes: u64,
    /// One write in this many has FUA; 0 is none.
    pub fua: u64,
}

/// Faults. Kinds have weights; 0 is never.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    /// How many events are faults, in percent.
    pub rate: u64,
    /// A disk does not answer any more.
    pub gone: u64,
    /// The next write or flush of a disk fails.
    pub write: u64,
    /// Blocks of a stripe can't be read, until they are written.
    pub latent: u64,
    /// Blocks of a stripe can't be read a few times.
    pub transient: u64,
    /// A disk stalls for a while.
    pub stall: u64,
    /// A disk hangs; or all do, for a while.
    #[serde(default)]
    pub hang: u64,
    /// An operator does something.
    pub operator: u64,
    /// I/O ends in any order, not in the order in which it began.
    pub reorder: bool,
    /// Power failures tear blocks of metadata.
    pub torn: bool,
    /// Power failures can take a disk with them, and make metadata unreadable.
    pub lossy: bool,
    /// Disks that were lost can return at the next start, with their content.
    pub stale: bool,
    /// In the end some blocks are corrupted silently, for a scrub to find.
    pub silent: bool,
    /// More fails than redundancy can make up for.
    pub beyond: bool,
    /// Writes and flushes fail, or the power does, in one phase.
    #[serde(default)]
    pub phase: bool,
}

/// Levels with parity are drawn more often: they have more states.
const LEVELS: [Level; 10] = [
    Level::Raid0,
    Level::Raid1,
    Level::Raid1,
    Level::Raid4,
    Level::Raid5,
    Level::Raid5,
    Level::Raid5,
    Level::Raid6,
    Level::Raid6,
    Level::Raid6,
];

const POLICIES: [Consistency; 5] = [
    Consistency::Journal,
    Consistency::Journal,
    Consistency::Bitmap,
    Consistency::Bitmap,
    Consistency::Resync,
];

impl Playable for Scenario {
    const NAME: &'static str = "seed";
    const SALT: u64 = u64::MAX;

    fn choose(source: &mut Source) -> Self {
        let level = source.one_of(&LEVELS);
        let consistency = policy(level, source);
        let members = least_members(level) + source.one_of(&[0, 0, 1, 2, 3]);
        let large = source.chance(1, 8);
        let chunk = if large { 64 } else { 1 << source.below(3) };
        let stripe = chunk * members as u32;
        // With few stripes, everything meets everything.
        let stripes = if large { 6 } else { source.one_of(&[3, 10, 30]) };
        let mut scenario = Self {
            level,
            members,
            chunk,
            stripes: 1 + source.below(stripes),
            region_stripes: 0,
            page_bits: 0,
            flash: false,
            busy: 0,
            young: false,
            staging: 0,
            staging_devices: 0,
            staging_device: 0,
            distributed_spare: false,
            placement: 0,
            whole_entries: false,
            reshape: None,
            larger: 0,
            consistency,
            // Mostly so small that it is always full.
            journal: if source.chance(1, 4) { 512 } else { 0 },
            used_disks: source.chance(1, 4),
            tags: 1 + source.below(16) as u16,
            jobs: 6 + source.below(30) as u16,
            background_jobs: 1 + source.below(4) as u16,
            scratch_blocks: source.below(400) as u32,
            warm_blocks: 0,
            volatile: None,
            staged_blocks: 0,
            requests: 100,
            lives: 1 + source.below(4) as u32,
            load: Load {
                blocks: source.one_of(&[1, chunk, stripe, 3 * stripe]),
                hot: u64::from(stripe) * (1 + source.below(3)),
                whole: source.one_of(&[0, 2, 6]),
                read: 1 + source.below(8),
                write: 4 + source.below(8),
                flush: source.below(4),
                discard: source.one_of(&[0, 0, 1, 4]),
                zeroes: source.one_of(&[0, 0, 1, 4]),
                fua: source.one_of(&[0, 1, 4]),
            },
            faults: Faults::choose(source),
        };
        scenario.flash = source.chance(1, 8);
        scenario.busy = source.one_of(&[0, 0, 4, 12]);
        if matches!(level, Level::Raid4 | Level::Raid5 | Level::Raid6) && scenario.busy > 0 {
            scenario.choose_staging(source);
        }
        scenario.faults.hang = source.one_of(&[0, 0, 1, 4]);
        if matches!(level, Level::Raid4 | Level::Raid5 | Level::Raid6) {
            scenario.distributed_spare = source.chance(1, 3);
        }
        scenario.region_stripes = 1 << source.below(4);
        scenario.faults.phase = source.chance(1, 2);
        // Mostly maps of several pages.
        scenario.page_bits = source.one_of(&[0, 2, 4, 16]);
        scenario.whole_entries = source.chance(1, 2);
        scenario.warm_blocks = warm_blocks(scenario.scratch_blocks);
        scenario
    }

    fn simpler(&self) -> Vec<Self> {
        let least = self.least_members();
        let mut s = Simpler::than(self);
        s.with(|s| s.faults = Faults::default());
        s.with(|s| s.requests = (s.requests / 2).max(1));
        s.with(|s| s.requests = (s.requests * 3 / 4).max(1));
        s.with(|s| s.requests = s.requests.saturating_sub(1).max(1));
        s.with(|s| s.lives = 1);
        s.with(|s| s.lives = (s.lives - 1).max(1));
        s.with(|s| s.members = least);
        let pairs = usize::from(self.level == Level::Raid10);
        s.with(|s| s.members = (s.members - 1 - pairs).max(least));
        s.with(|s| s.stripes = s.stripes.div_ceil(2));
        s.with(|s| s.page_bits = 0);
        s.with(|s| s.region_stripes /= 2);
        s.with(|s| s.chunk = (s.chunk / 2).max(1));
        s.with(|s| s.used_disks = false);
        s.with(|s| s.flash = false);
        s.with(|s| s.busy = 0);
        s.with(|s| s.young = false);
        s.with(|s| s.distributed_spare = false);
        s.with(|s| s.placement = 0);
        s.with(|s| s.reshape = None);
        s.with(|s| s.larger = 0);
        s.with(|s| s.larger /= 2);
        s.with(|s| s.reshape.iter_mut().for_each(|reshape| reshape.chunk = 0));
        s.with(|s| s.reshape.iter_mut().for_each(|reshape| reshape.more = reshape.more.min(1)));
        s.with(|s| s.reshape.iter_mut().for_each(|reshape| reshape.placement = 0));
        s.with(|s| s.whole_entries = false);
        s.with(|s| s.warm_blocks = 0);
        s.with(|s| s.volatile.iter_mut().for_each(|volatile| volatile.orders = false));
        s.with(|s| s.volatile.iter_mut().for_each(|volatile| volatile.accepts = false));
        s.with(|s| s.volatile.iter_mut().for_each(|volatile| volatile.own_tags = 16));
        s.with(|s| s.staged_blocks = 0);
        s.with(|s| s.staging_devices = 0);
        s.with(|s| s.staging_devices = s.staging_devices.min(1));
        s.with(|s| s.tags = s.tags.div_ceil(2));
        s.with(|s| s.load.blocks = s.load.blocks.div_ceil(2));
        s.with(|s| s.load.whole = 0);
        s.with(|s| s.load.fua = 0);
        s.with(|s| s.load.flush = 0);
        s.with(|s| s.load.discard = 0);
        s.with(|s| s.load.zeroes = 0);
        s.with(|s| s.faults.gone = 0);
        s.with(|s| s.faults.write = 0);
        s.with(|s| s.faults.latent = 0);
        s.with(|s| s.faults.transient = 0);
        s.with(|s| s.faults.stall = 0);
        s.with(|s| s.faults.hang = 0);
        s.with(|s| s.faults.operator = 0);
        s.with(|s| s.faults.reorder = false);
        s.with(|s| s.faults.torn = false);
        s.with(|s| s.faults.lossy = false);
        s.with(|s| s.faults.stale = false);
        s.with(|s| s.faults.silent = false);
        s.with(|s| s.faults.beyond = false);
        s.all
    }
}

impl Scenario {
    fn choose_staging(&mut self, source: &mut Source) {
        // Mostly so small that it is always full.
        self.staging = source.one_of(&[0, 64, 64, 80, 200]);
        if self.staging > 0 {
            self.staging_devices = source.one_of(&[0, 0, 1, 2]);
            self.staged_blocks = staged_blocks(self.scratch_blocks);
        }
        if self.staging_devices > 0 {
            // A size that is enough for a member is enough for a staging device.
            self.staging_device = source.one_of(&[64, self.staging]);
        }
    }

    /// Its members and staging devices.
    pub(crate) fn places(&self) -> usize {
        self.members + self.staging_devices
    }

    /// The placement of chunks.
    pub(crate) fn placement(&self) -> Placement {
        placement(self.level, self.members, self.placement)
    }

    /// The fewest members of its level.
    pub(crate) fn least_members(&self) -> usize {
        least_members(self.level)
    }
}

/// One of a level's placements: 0 is the default, followed by the others.
pub(crate) fn placement(level: Level, members: usize, which: usize) -> Placement {
    let own = Placement::of(level);
    let others = Placement::all().filter(|p| *p != own);
    let all = std::iter::once(own).chain(others).chain([uneven(members)]);
    all.filter(|p| p.fits(level)).nth(which).unwrap_or(own)
}

/// Each member has more of the parity than the one before it.
fn uneven(members: usize) -> Placement {
    let all = members * (members + 1) / 2;
    let mut percent: Vec<_> = (1..=members).map(|one| (100 * one / all) as u8).collect();
    percent[members - 1] += 100 - percent.iter().sum::<u8>();
    Placement::Uneven(Shares::new(&percent).expect("it is all of the parity"))
}

/// In one world of four something is kept in memory, mostly little. It follows from a number that is drawn
/// for something else.
fn warm_blocks(drawn: u32) -> u32 {
    if drawn % 4 == 3 { [4, 16, 64, 1024][(drawn / 4 % 4) as usize] } else { 0 }
}

fn policy(level: Level, source: &mut Source) -> Consistency {
    match level {
        // There is nothing to keep consistent.
        Level::Raid0 => Consistency::Resync,
        Level::Raid1 | Level::Raid4 | Level::Raid5 | Level::Raid6 | Level::Raid10 => {
            source.one_of(&POLICIES)
        }
    }
}

/// In three worlds of four with a staging log some of what is staged is kept in memory: a few blocks, many, or
/// all. It follows from the same number.
fn staged_blocks(drawn: u32) -> u32 {
    [0, 3, 24, 4096][(drawn / 16 % 4) as usize]
}

fn least_members(level: Level) -> usize {
    match level {
        Level::Raid0 | Level::Raid1 => 2,
        Level::Raid4 | Level::Raid5 => 3,
        Level::Raid6 | Level::Raid10 => 4,
    }
}

impl Faults {
    fn choose(source: &mut Source) -> Self {
        let mut weight = || source.one_of(&[0, 0, 1, 2, 4]);
        let (gone, write, latent) = (weight(), weight(), weight());
        let (transient, stall, operator) = (weight(), weight(), weight());
        Self {
            rate: source.one_of(&[0, 3, 6, 12]),
            gone,
            write,
            latent,
            transient,
            stall,
            hang: 0,
            operator,
            reorder: source.chance(7, 8),
            torn: source.chance(1, 2),
            lossy: source.chance(1, 2),
            stale: source.chance(1, 2),
            silent: source.chance(1, 4),
            beyond: source.chance(1, 8),
            phase: false,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Level", rename_all = "lowercase")]
enum LevelName {
    Raid0,
    Raid1,
    Raid4,
    Raid5,
    Raid6,
    Raid10,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Consistency", rename_all = "lowercase")]
enum ConsistencyName {
    Resync,
    Bitmap,
    Journal,
}
