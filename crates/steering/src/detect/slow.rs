//! Members that are slower than their peers for days: worn, throttled, failing slowly.
//!
//! Nothing here steers: a momentary latency is a good signal for steering and a useless one for
//! replacing a drive. The members of an array get similar mixes of I/Os. So for each hour and kind,
//! the median and the 99th percentile of each member are divided by the median of its peers'.
//! Advice against a member is given if the median of these hourly ratios was too high on each of
//! two days in a row. One bad hour, or a few, or a load that slows all members, is not enough.
//!
//! A ratio needs at least two other members that did enough of the same kind in the same hour. The
//! parity member of RAID4 is only written, and has no such peers for reads.

use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;
use raidcore::units::MemberId;

use super::MEMBERS_MAX;
use super::tuning::Kind;
use crate::histogram::Histogram;

const HOUR: u64 = Duration::from_secs(3600).as_nanos() as u64;
/// Hours in a day, and days that are looked at.
const DAY: usize = 24;
const DAYS: usize = 2;
/// I/Os that an hour needs to have figures.
const ENOUGH_IOS: u32 = 1000;
/// Hours with figures that a day needs.
const ENOUGH_HOURS: usize = 6;
/// Other members with figures that a ratio needs.
const ENOUGH_PEERS: usize = 2;
/// A member is slow if its median exceeds this percentage of the peers'.
const SLOW_PERCENT: u32 = 150;

/// A member compared with its peers, in percent: 100 is equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Relation {
    median: u32,
    tail: u32,
}

/// A member that ought to be looked at, and perhaps replaced: it has been slower than its peers for
/// two days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The member.
    pub member: MemberId,
    /// What it is slow at.
    pub kind: Kind,
    /// Its median latency in percent of its peers': the median of the hourly ratios of the two
    /// days.
    pub median_percent: u32,
    /// The same for the 99th percentiles.
    pub p99_percent: u32,
}

/// What is known of a member's kind.
#[derive(Clone, Debug)]
struct Record {
    hour: Histogram,
    /// The last hours, the newest at `Slow::hour` modulo the length.
    relations: [Option<Relation>; DAY * DAYS],
}

/// Compares members over days.
#[derive(Clone, Debug)]
pub(super) struct Slow {
    records: Vec<[Record; 2]>,
    /// The hour that is being recorded, counted from the host's origin.
    hour: u64,
}

impl Slow {
    pub(super) fn new(members: usize) -> Self {
        let record = || Record { hour: Histogram::new(u16::MAX), relations: [None; DAY * DAYS] };
        Self { records: (0..members).map(|_| [record(), record()]).collect(), hour: 0 }
    }

    pub(super) fn add(&mut self, member: MemberId, kind: Kind, nanos: u64) {
        self.records[member.index()][kind.index()].hour.add(nanos);
    }

    /// Closes the hours that are over.
    pub(super) fn advance(&mut self, now: Instant) {
        let hour = now.0 / HOUR;
        if hour <= self.hour {
            return;
        }
        for kind in Kind::ALL {
            self.close(kind);
        }
        // The hours in between, without I/Os, have no ratios.
        let missed = (hour - self.hour - 1).min((DAY * DAYS) as u64);
        for back in 0..missed {
            let at = place(hour - 1 - back);
            self.records.iter_mut().flatten().for_each(|record| record.relations[at] = None);
        }
        self.hour = hour;
    }

    /// Forgets a member: there is another device now.
    pub(super) fn reset(&mut self, member: MemberId) {
        for record in &mut self.records[member.index()] {
            record.hour.clear();
            record.relations = [None; DAY * DAYS];
        }
    }

    pub(super) fn advice(&self) -> impl Iterator<Item = Advice> {
        let members = (0..self.records.len()).map(MemberId::at);
        let all = members.flat_map(|member| Kind::ALL.map(|kind| (member, kind)));
        all.filter_map(|(member, kind)| self.judge(member, kind))
    }

    fn judge(&self, member: MemberId, kind: Kind) -> Option<Advice> {
        let relations = &self.records[member.index()][kind.index()].relations;
        let median_of = |hours: core::ops::Range<u64>, of: fn(&Relation) -> u32| {
            let mut values = [0; DAY * DAYS];
            let mut count = 0;
            for hour in hours {
                if let Some(relation) = &relations[place(hour)] {
                    values[count] = of(relation);
                    count += 1;
                }
            }
            values[..count].sort_unstable();
            (count >= ENOUGH_HOURS).then(|| values[count / 2])
        };
        let first = self.hour.checked_sub((DAY * DAYS) as u64)?;
        for day in 0..DAYS as u64 {
            let start = first + day * DAY as u64;
            let median = median_of(start..start + DAY as u64, |relation| relation.median)?;
            if median <= SLOW_PERCENT {
                return None;
            }
        }
        Some(Advice {
            member,
            kind,
            median_percent: median_of(first..self.hour, |relation| relation.median)?,
            p99_percent: median_of(first..self.hour, |relation| relation.tail)?,
        })
    }

    /// Records the ratios of the hour that ends.
    fn close(&mut self, kind: Kind) {
        let mut medians = [0; MEMBERS_MAX];
        let mut tails = [0; MEMBERS_MAX];
        let mut count = 0;
        let figures = |record: &Record| {
            let hour = &record.hour;
            (hour.total() >= ENOUGH_IOS).then(|| (hour.median(), hour.percentile(99)))
        };
        for record in &self.records {
            if let Some((median, tail)) = figures(&record[kind.index()]) {
                (medians[count], tails[count]) = (median, tail);
                count += 1;
            }
        }
        medians[..count].sort_unstable();
        tails[..count].sort_unstable();
        let at = place(self.hour);
        for record in &mut self.records {
            let record = &mut record[kind.index()];
            record.relations[at] =
                figures(record).filter(|_| count > ENOUGH_PEERS).map(|(median, tail)| Relation {
                    median: percent(median, median_without(&medians[..count], median)),
                    tail: percent(tail, median_without(&tails[..count], tail)),
                });
            record.hour.clear();
        }
    }
}

fn place(hour: u64) -> usize {
    (hour % (DAY * DAYS) as u64) as usize
}

/// The median of `sorted` without one value equal to `own`; the lower one if there are two.
fn median_without(sorted: &[u64], own: u64) -> u64 {
    let at = sorted.partition_point(|&value| value < own);
    let middle = (sorted.len() - 2) / 2;
    sorted[if middle < at { middle } else { middle + 1 }]
}

fn percent(part: u64, whole: u64) -> u32 {
    u32::try_from(u128::from(part) * 100 / u128::from(whole.max(1))).unwrap_or(u32::MAX)
}
