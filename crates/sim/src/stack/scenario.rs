//! Scenarios: each seed draws its own.

use raidcore::geometry::Level;
use raidcore::meta::Consistency;
use serde::{Deserialize, Serialize};

use crate::log::LogScenario;
use crate::log::scenario::wish;
use crate::play::Playable;
use crate::scenario::Scenario;
use crate::simpler::Simpler;
use crate::source::Source;

/// A scenario.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackScenario {
    /// The volume and its users.
    pub log: LogScenario,
    /// The array of each group, and the faults of power failures.
    pub array: Scenario,
    /// How many events are faults or operators' commands, per thousand.
    pub faults: u64,
}

impl Playable for StackScenario {
    const NAME: &'static str = "stack seed";
    const SALT: u64 = 0x7374_6163_6b00_0000;

    fn choose(source: &mut Source) -> Self {
        let (mut log, mut array) = (LogScenario::choose(source), Scenario::choose(source));
        let levels = [Level::Raid0, Level::Raid4, Level::Raid5, Level::Raid5, Level::Raid6];
        array.level = source.one_of(&levels);
        array.distributed_spare &= array.level != Level::Raid0;
        array.members = array.least_members() + source.one_of(&[0, 0, 1]);
        array.chunk = source.one_of(&[1, 2, 4]);
        let (parity, consistency) = match array.level {
            // There is nothing to keep consistent.
            Level::Raid0 | Level::Raid1 | Level::Raid10 => (0, Consistency::Resync),
            Level::Raid4 | Level::Raid5 => (1, policy(source)),
            Level::Raid6 => (2, policy(source)),
        };
        array.consistency = consistency;
        let stripe = (array.members - parity) as u32 * array.chunk;
        let spare = source.one_of(&[333, 500]);
        let segment = source.one_of(&[8, 16, 24]);
        log.wish = wish(log.wish.groups, stripe, segment, spare, source.below(10));
        array.stripes = log.wish.group_blocks.div_ceil(stripe.into());
        // There are many more stripes.
        array.page_bits *= 32;
        // The log takes all writes, so nothing is staged.
        (array.staging, array.staging_devices) = (0, 0);
        // Faults happen below the groups.
        (log.bad_reads, log.bad_writes) = (0, 0);
        log.requests = source.one_of(&[50, 200, 600]);
        Self { log, array, faults: source.one_of(&[0, 2, 10, 30]) }
    }

    fn simpler(&self) -> Vec<Self> {
        let mut s = Simpler::than(self);
        s.with(|s| s.faults = 0);
        s.with(|s| s.array.busy = 0);
        s.with(|s| s.array.faults.lossy = false);
        s.with(|s| s.array.faults.torn = false);
        let with = |log| Self { log, ..self.clone() };
        s.all.extend(self.log.simpler().into_iter().map(with));
        s.all
    }
}

fn policy(source: &mut Source) -> Consistency {
    source.one_of(&[
        Consistency::Journal,
        Consistency::Journal,
        Consistency::Bitmap,
        Consistency::Bitmap,
        Consistency::Resync,
    ])
}
