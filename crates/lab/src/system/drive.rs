//! A simulated SSD as an array's member: blocks of 4 KiB, and the operations of a Linux block
//! device.

use std::path::{Path, PathBuf};

use det::Instant;
use flashsim::profile::GcLimits;
use flashsim::{
    Command, Completion, GcMode, GcOrder, Op, Precondition, Profile, ProfileError, Ssd, Thresholds,
};
use raidcore::engine::Stream;
use raidcore::units::{BLOCK_BYTES, DeviceId};
use serde::{Deserialize, Serialize};
use steering::Devices;
use steering::collect::{self, Flash, Limits, Order};
use steering::scheme::Scheme;

use super::{GcChange, Met};

/// `[ssd]`: the drives, which differ only in their seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// A profile that comes with `flashsim`, or the path of one (with a `/` or ending in `.toml`).
    pub profile: String,
    /// Blocks of a plane, if they differ from the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Its preconditioning.
    #[serde(default, rename = "use")]
    pub used: Use,
    /// With `use = "aged"`: how many times its space was overwritten.
    #[serde(default = "three")]
    pub overwrites: f64,
    /// Whether they tell the array when they collect garbage; the profile's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<bool>,
    /// Whether they take the array's orders when to collect garbage; the profile's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obeys: Option<bool>,
    /// How many streams of writes they keep apart; the profile's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u16>,
    /// Keys of the profile to change.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub set: toml::Table,
}

fn three() -> f64 {
    3.0
}

/// The preconditioning of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// Nothing: it is erased.
    Fresh,
    /// It was written once, in order.
    Filled,
    /// After that it was overwritten at random.
    #[default]
    Aged,
}

/// Why a drive is impossible.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The profile is impossible or can't be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The changed profile is invalid.
    #[error("ssd.set: {0}")]
    Set(String),
    /// The number of overwrites is impossible.
    #[error("ssd.overwrites is {0}, but must be from 0 to 1000")]
    Overwrites(f64),
}

impl DriveError {
    /// The key in the experiment's file that the error is about.
    #[must_use]
    pub fn key(&self, spec: &DriveSpec) -> String {
        match self {
            Self::Profile(error) => match error.key() {
                Some("geometry.blocks") if spec.blocks.is_some() => "ssd.blocks".into(),
                Some("ftl.streams") if spec.streams.is_some() => "ssd.streams".into(),
                Some(key) => format!("ssd.set.{key}"),
                None => "ssd.profile".into(),
            },
            Self::Set(_) => "ssd.set".into(),
            Self::Overwrites(_) => "ssd.overwrites".into(),
        }
    }
}

impl DriveSpec {
    /// The profile. Relative paths are relative to `base`.
    ///
    /// # Errors
    /// If it does not exist, or is impossible.
    pub fn profile(&self, base: &Path) -> Result<Profile, DriveError> {
        if !(0.0..=1000.0).contains(&self.overwrites) {
            return Err(DriveError::Overwrites(self.overwrites));
        }
        let is_path = self.profile.contains('/') || self.profile.ends_with(".toml");
        let mut profile = if is_path {
            Profile::load(&base.join(PathBuf::from(&self.profile)))?
        } else {
            Profile::builtin(&self.profile)?
        };
        if !self.set.is_empty() {
            let set = |message: toml::ser::Error| DriveError::Set(message.to_string());
            let mut table = toml::Table::try_from(&profile).map_err(set)?;
            crate::experiment::merge(&mut table, &self.set);
            profile = table.try_into().map_err(|e: toml::de::Error| {
                DriveError::Set(e.to_string().trim_end().to_owned())
            })?;
        }
        if let Some(blocks) = self.blocks {
            profile = profile.with_blocks(blocks);
        }
        profile.ftl.streams = self.streams.unwrap_or(profile.ftl.streams);
        profile.told = self.told.unwrap_or(profile.told);
        profile.obeys = self.obeys.unwrap_or(profile.obeys);
        profile.check()?;
        Ok(profile)
    }

    /// Checks that it says what the drives do if that makes a difference to the scheme: no results depend on a
    /// default.
    ///
    /// # Errors
    /// What is missing, in words.
    pub fn is_said_for(&self, scheme: Scheme) -> Result<(), String> {
        let missing = [("told", self.told), ("obeys", self.obeys)];
        let missing: Vec<_> =
            missing.iter().filter(|(_, said)| said.is_none()).map(|(key, _)| *key).collect();
        if scheme.is_plain() || missing.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the scheme \"{scheme}\" depends on whether the drives tell when they collect garbage and obey \
             orders about it: [ssd] needs {} = true or false; drives as they are sold do neither",
            missing.join(" and ")
        ))
    }

    /// Its preconditioning.
    #[must_use]
    pub fn precondition(&self) -> Precondition {
        match self.used {
            Use::Fresh => Precondition::Fresh,
            Use::Filled => Precondition::Filled,
            Use::Aged => Precondition::Aged(self.overwrites),
        }
    }
}

/// An I/O on a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Io {
    /// Comes back with the end.
    pub(super) id: u64,
    pub(super) op: Op,
    /// It is durable when it has ended.
    pub(super) fua: bool,
    /// What a write is of.
    pub(super) stream: Stream,
    /// The first block, of 4 KiB unless the drive's are others.
    pub(super) at: u64,
    pub(super) blocks: u32,
}

/// The end of an [`Io`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IoEnd {
    pub(super) id: u64,
    pub(super) met: Met,
}

/// An I/O under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    id: u64,
    flush_after: bool,
    met: Met,
}

/// See the [module](self).
pub(super) struct Drive {
    ssd: Ssd,
    number: usize,
    /// The bytes of a block of an I/O.
    block: u64,
    /// By tag.
    pending: Vec<Pending>,
    free: Vec<u32>,
    volatile: bool,
    collecting: bool,
    completions: Vec<Completion>,
    next: u64,
}

/// An array's drives, by their devices' numbers.
pub(super) struct Fleet<'a> {
    pub(super) drives: &'a mut [Drive],
    pub(super) gc: &'a mut Vec<GcChange>,
}

impl Devices for Fleet<'_> {
    fn flash(&self, DeviceId(device): DeviceId) -> Option<(Flash, Limits)> {
        let drive = &self.drives[device as usize];
        let profile = drive.ssd.profile();
        let GcLimits { start, stop, hard, spare } = profile.gc_limits();
        profile.told.then(|| (drive.flash(), Limits { start, stop, hard, spare }))
    }

    fn obeys(&self, DeviceId(device): DeviceId) -> bool {
        self.drives[device as usize].ssd.profile().obeys
    }

    fn is_collecting(&self, DeviceId(device): DeviceId) -> bool {
        let drive = &self.drives[device as usize];
        drive.ssd.profile().told && drive.collecting
    }

    fn used_percent(&self, DeviceId(device): DeviceId) -> Option<f64> {
        Some(self.drives[device as usize].ssd.used_percent())
    }

    fn order(&mut self, now: Instant, DeviceId(device): DeviceId, order: Order) {
        self.drives[device as usize].order(now, order, self.gc);
    }
}

impl Drive {
    pub(super) fn new(ssd: Ssd, number: usize) -> Self {
        Self::of_blocks(ssd, number, BLOCK_BYTES as u64)
    }

    /// The same with I/Os in blocks of another size.
    pub(super) fn of_blocks(ssd: Ssd, number: usize, block: u64) -> Self {
        let mut drive = Self {
            block,
            volatile: ssd.profile().buffer.is_some_and(|buffer| !buffer.power_safe),
            ssd,
            number,
            pending: Vec::new(),
            free: Vec::new(),
            collecting: false,
            completions: Vec::new(),
            next: u64::MAX,
        };
        drive.look_ahead();
        drive
    }

    pub(super) fn ssd(&self) -> &Ssd {
        &self.ssd
    }

    /// Its size in blocks.
    pub(super) fn blocks(&self) -> u64 {
        let g = self.ssd.geometry();
        u64::from(g.logical_pages) * u64::from(g.page_bytes) / self.block
    }

    /// When [`Drive::poll`] is to be called, in nanoseconds; never is `u64::MAX`.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn reset_stats(&mut self) {
        self.ssd.reset_stats();
    }

    /// Begins an I/O within the drive.
    pub(super) fn begin(&mut self, now: Instant, io: Io, gc: &mut Vec<GcChange>) {
        let flush_after = io.fua && self.volatile;
        let pending = Pending { id: io.id, flush_after, met: Met::default() };
        let tag = if let Some(tag) = self.free.pop() {
            self.pending[tag as usize] = pending;
            tag
        } else {
            self.pending.push(pending);
            self.pending.len() as u32 - 1
        };
        let (page, pages) = match io.op {
            Op::Flush => (0, 0),
            Op::Read | Op::Write | Op::Trim => self.pages(io.at, io.blocks),
        };
        let stream = io.stream.number(self.ssd.profile().ftl.streams);
        self.submit(now, Command { tag: tag.into(), op: io.op, page, pages, stream });
        self.watch(now, gc);
    }

    /// Lets everything happen up to `now`.
    pub(super) fn poll(&mut self, now: Instant, ended: &mut Vec<IoEnd>, gc: &mut Vec<GcChange>) {
        let mut completions = core::mem::take(&mut self.completions);
        self.ssd.poll(now, &mut completions);
        for done in completions.drain(..) {
            let pending = &mut self.pending[done.tag as usize];
            pending.met |= Met { collection: done.delayed_by_gc, erase: done.met_erase };
            if core::mem::take(&mut pending.flush_after) {
                let flush = Command { tag: done.tag, op: Op::Flush, page: 0, pages: 0, stream: 0 };
                self.submit(now, flush);
                continue;
            }
            let Pending { id, met, .. } = *pending;
            self.free.push(done.tag as u32);
            ended.push(IoEnd { id, met });
        }
        self.completions = completions;
        self.watch(now, gc);
    }

    /// Its state, for deciding which one collects next.
    fn flash(&self) -> Flash {
        let space = self.ssd.space();
        let free = f64::from(space.least_free_blocks) / f64::from(space.blocks_per_plane);
        Flash {
            free,
            collecting: self.collecting,
            at_work: self.ssd.gc_mode() != GcMode::None,
            dirtiest: self.ssd.dirtiest(),
            age: self.ssd.erases() as f64 / f64::from(space.blocks),
            in_flight: 0,
        }
    }

    /// Tells it when to collect.
    fn order(&mut self, now: Instant, order: Order, gc: &mut Vec<GcChange>) {
        let order = match order {
            Order::Auto => GcOrder::Auto,
            Order::Hold => GcOrder::Hold,
            Order::Reach(share) => GcOrder::Reach(share),
            Order::Thresholds(collect::Thresholds { low, medium, high, gce }) => {
                GcOrder::Thresholds(Thresholds { low, medium, high, gce })
            }
            Order::Once { gce } => GcOrder::Once { gce },
        };
        self.ssd.order_gc(now, order);
        self.watch(now, gc);
    }

    fn submit(&mut self, now: Instant, command: Command) {
        self.ssd.submit(now, command).expect("the array lies within its members");
    }

    /// The pages that blocks touch.
    fn pages(&self, at: u64, blocks: u32) -> (u32, u32) {
        let page = u64::from(self.ssd.geometry().page_bytes);
        let first = at * self.block / page;
        let end = ((at + u64::from(blocks)) * self.block).div_ceil(page);
        (first as u32, (end - first) as u32)
    }

    /// Notes whether it collects now, and when its next event is due.
    fn watch(&mut self, now: Instant, gc: &mut Vec<GcChange>) {
        let collecting = self.ssd.gc_state().dies > 0;
        if collecting != self.collecting {
            self.collecting = collecting;
            gc.push(GcChange { at: now, drive: self.number, collecting });
        }
        self.look_ahead();
    }

    fn look_ahead(&mut self) {
        self.next = self.ssd.next().map_or(u64::MAX, |at| at.0);
    }
}
