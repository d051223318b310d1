//! What an SSD is like: a [`Profile`] is read from TOML, and checked when a drive is built from it.
//!
//! Times are in microseconds and rates in megabytes (10⁶ bytes) a second, as data sheets give
//! them. Shares of space are fractions of the blocks of a plane. An unknown key is an error.

mod builtin;
mod bus;
mod check;
mod error;
mod lines;
mod sizes;
mod thresholds;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use builtin::{BUILTIN, Builtin};
pub use bus::{Bus, Commands};
pub use error::ProfileError;
pub use lines::line_of;
pub use thresholds::GcLimits;

/// Everything that the model needs to know about a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// A name for people.
    pub name: String,
    /// Whether it tells the host when it collects garbage, and how much room it has. Drives as they are sold
    /// don't.
    #[serde(default)]
    pub told: bool,
    /// Whether it takes orders of the host when to collect garbage. Drives as they are sold don't.
    #[serde(default)]
    pub obeys: bool,
    /// How the flash is arranged.
    pub geometry: Arrangement,
    /// What the flash can do, and how fast.
    pub nand: Nand,
    /// The channel between the controller and its chips; without it transfers take no time.
    pub bus: Option<Bus>,
    /// The interface to the host; without it transfers take no time.
    pub link: Option<Link>,
    /// The flash translation layer.
    pub ftl: Translation,
    /// Garbage collection.
    pub gc: Collection,
    /// The write buffer, if there is one.
    pub buffer: Option<WriteBuffer>,
    /// Suspending programs and erases for reads, if the flash can.
    pub suspend: Option<Suspend>,
    /// Reads that have to be repeated, if any.
    pub read_retry: Option<ReadRetry>,
}

/// Channels, chips, dies, planes, blocks and pages. Each number is per unit of the level above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrangement {
    /// Channels of the drive.
    pub channels: u32,
    /// Chips (packages, elements) on a channel.
    pub chips: u32,
    /// Dies in a chip. A die does one thing at a time.
    pub dies: u32,
    /// Planes in a die.
    pub planes: u32,
    /// Erase blocks in a plane.
    pub blocks: u32,
    /// Flash pages in a block.
    pub pages: u32,
    /// Bytes of user data in a flash page.
    pub page_bytes: u32,
}

/// The times of the flash, and how much it programs at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nand {
    /// From the array into the page register.
    pub read_us: f64,
    /// From the page register into the array, for all that is programmed at once.
    pub program_us: f64,
    /// Erasing a block, or one block in each plane that is programmed together.
    pub erase_us: f64,
    /// Whether one command reads rows of the same number in several planes, if they wait for it.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub multi_plane_reads: bool,
    /// Planes that are programmed, and erased, together: the FTL sees them as one plane.
    #[serde(default = "one")]
    pub program_planes: u32,
    /// Flash pages of a plane that are programmed at once: 3 for one-shot TLC.
    #[serde(default = "one")]
    pub program_pages: u32,
}

/// The interface to the host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its rate, each way.
    pub mb_per_s: f64,
    /// Whether both ways can be used at once.
    pub full_duplex: bool,
    /// The fixed time of every command in the host interface and the firmware.
    #[serde(default)]
    pub overhead_us: f64,
}

/// The flash translation layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Translation {
    /// The part of the blocks of each plane that is not offered to the host.
    pub spare: f64,
    /// What the map maps: a flash page if left out, or an even part of it.
    pub mapping_bytes: Option<u32>,
    /// Whether the last page of every block holds a summary instead of data. It is programmed
    /// with the last data page, and its transfer is that of one sector.
    #[serde(default)]
    pub summary: bool,
    /// Which die takes a write.
    #[serde(default)]
    pub die: DieChoice,
    /// Which plane of that die takes it.
    #[serde(default)]
    pub plane: PlaneChoice,
    /// How many reads can overtake the oldest program that waits for a die.
    #[serde(default)]
    pub reads_first: u32,
    /// Streams that the host can name in its writes: pages of different ones are in different blocks (of
    /// NVMe's Flexible Data Placement, the placement handles). With several, what collection moves is in
    /// blocks of its own, of all streams together: they are isolated initially.
    #[serde(default = "one_stream", skip_serializing_if = "is_one_stream")]
    pub streams: u16,
    /// Even out the wear.
    pub wear_leveling: Option<WearLeveling>,
}

/// Which die takes a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DieChoice {
    /// The logical page number decides: neighbours are on different channels.
    #[default]
    Static,
    /// Each in turn.
    RoundRobin,
    /// The one with the most free pages.
    MostFree,
    /// The one for which the fewest operations wait.
    ShortestQueue,
}

/// Which plane of a die takes a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaneChoice {
    /// The logical page number decides.
    #[default]
    Static,
    /// Each in turn.
    RoundRobin,
    /// The one with the most free pages, of several each in turn.
    MostFree,
}

/// Even out the wear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearLeveling {
    /// Write next to the free block with the fewest erases.
    pub dynamic: bool,
    /// Collect the least worn block of a plane once it is this many erases behind the most worn.
    pub static_gap: Option<u32>,
}

/// Garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collection {
    /// Which block is collected next.
    #[serde(default)]
    pub victim: Victim,
    /// What stops serving the host during collection.
    #[serde(default)]
    pub scope: Scope,
    /// How much is collected before the next decision whether to go on.
    #[serde(default)]
    pub unit: Unit,
    /// A plane has to be collected when no more than this share of its blocks is free …
    pub start: f64,
    /// … until more than this share is free. As `start` if left out.
    pub stop: Option<f64>,
    /// At or below this share, collection yields to nothing, and no order from the host can hold it
    /// back.
    #[serde(default)]
    pub hard: f64,
    /// Whether a die that must start waits until operations wait for it. Background collection and
    /// orders of the host don't depend on this.
    #[serde(default)]
    pub only_when_waiting: bool,
    /// How many waiting host operations a die serves between two units.
    #[serde(default)]
    pub host_turns: u32,
    /// Where waiting host operations interrupt a unit.
    #[serde(default)]
    pub preempt: Preempt,
    /// How pages are moved.
    #[serde(default)]
    pub copy: CopyPath,
    /// Whether moved pages and host writes go to different blocks.
    #[serde(default)]
    pub separate: bool,
    /// Whether collection takes no time and keeps nothing waiting. No drive is like that; it is for
    /// comparison.
    #[serde(default)]
    pub instant: bool,
    /// Collecting on idle dies, if it is done.
    pub background: Option<Background>,
}

/// Which block is collected next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    /// The one with the fewest valid pages.
    #[default]
    Greedy,
    /// The one that was filled first.
    Fifo,
    /// The one with the fewest valid pages among this many, drawn at random.
    DChoices(u32),
    /// The one with the fewest valid pages among this many that were filled first.
    WindowedGreedy(u32),
}

/// What stops serving the host while garbage is collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The plane. Operations on other planes of the die take turns with those of the collection.
    Plane,
    /// The chip.
    #[default]
    Chip,
    /// The whole drive. When one plane needs collection, all that are below `stop` are collected.
    Device,
}

/// How much is collected before the next decision whether to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// One program of moved pages, or the erase.
    Page,
    /// One block.
    #[default]
    Block,
    /// This many blocks, counted over the whole scope.
    Burst(u32),
}

/// Where waiting host operations can interrupt a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preempt {
    /// Nowhere.
    #[default]
    Never,
    /// After a moved page.
    Page,
    /// After an erased block.
    Block,
}

/// How pages are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyPath {
    /// Inside the plane, without using the channel.
    #[default]
    CopyBack,
    /// Over the channel to the controller and back, where errors can be corrected.
    Controller,
}

/// Collecting on idle dies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// It starts when no more than this share of a plane's blocks is free.
    pub start: f64,
    /// It ends when more than this share is free. As `start` if left out.
    pub stop: Option<f64>,
    /// How long a die must have been idle.
    pub idle_us: f64,
    /// The share of a victim that must be invalid.
    #[serde(default)]
    pub gain: f64,
}

/// A buffer: writes end before they are in flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteBuffer {
    /// Its size.
    pub kib: u32,
    /// Whether it survives a power failure. If so, a flush has nothing to do.
    pub power_safe: bool,
}

/// Suspends what a die does when a read arrives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspend {
    /// Whether erases can be suspended.
    pub erase: bool,
    /// Whether programs can be suspended.
    pub program: bool,
    /// The time from the suspend command until the die can read.
    pub latency_us: f64,
    /// How often one operation can be suspended.
    pub limit: u32,
}

/// Reads that have to be repeated with other voltages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadRetry {
    /// The probability that a read, or a repetition, has to be repeated.
    pub probability: f64,
    /// At most so many repetitions.
    pub limit: u32,
}

impl Profile {
    /// A profile from TOML text; `origin` names it in errors.
    ///
    /// # Errors
    /// [`ProfileError::Syntax`] if it is not a profile, or what is impossible about it.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text).map_err(|error| ProfileError::Syntax {
            origin: origin.into(),
            message: error.to_string().trim_end().into(),
        })?;
        profile.check().map_err(|error| match error.key() {
            Some(key) => ProfileError::InText {
                origin: origin.into(),
                line: line_of(text, key),
                error: Box::new(error),
            },
            None => error,
        })?;
        Ok(profile)
    }

    /// A profile from the file at `path`.
    ///
    /// # Errors
    /// [`ProfileError::File`] if it can't be read, and those of [`Profile::parse`].
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let origin = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ProfileError::File { origin: origin.clone(), error })?;
        Self::parse(&text, &origin)
    }

    /// The profile of that name that comes with the crate.
    ///
    /// # Errors
    /// [`ProfileError::UnknownName`] if there is none.
    pub fn builtin(name: &str) -> Result<Self, ProfileError> {
        let found = BUILTIN.iter().find(|builtin| builtin.name == name);
        let Some(builtin) = found else {
            return Err(ProfileError::UnknownName { name: name.into() });
        };
        Self::parse(builtin.text, name)
    }

    /// The same drive with `blocks` blocks in a plane. Shares of space, speeds and parallelism
    /// stay.
    #[must_use]
    pub fn with_blocks(mut self, blocks: u32) -> Self {
        self.geometry.blocks = blocks;
        self
    }

    /// The same drive with the fewest blocks that offer the host `bytes` bytes and that work.
    ///
    /// # Errors
    /// What is impossible about every such drive.
    pub fn covering(self, bytes: u64) -> Result<Self, ProfileError> {
        self.check()?;
        let offered = |blocks| {
            let drive = self.clone().with_blocks(blocks);
            u128::from(drive.planes())
                * u128::from(blocks - drive.spare_blocks())
                * u128::from(drive.data_bytes())
        };
        // The smallest number that is enough: more blocks never offer less space.
        let (mut least, mut most) = (8, 1_000_000_000);
        while least < most {
            let middle = least + (most - least) / 2;
            if offered(middle) >= u128::from(bytes) { most = middle } else { least = middle + 1 }
        }
        // Shares of few blocks are rounded down to nothing. With this number the drive can work.
        loop {
            let drive = self.clone().with_blocks(least);
            match drive.check() {
                Err(ProfileError::NoRoomToCollect { .. } | ProfileError::NoGain { .. }) => {
                    least += 1
                }
                checked => return checked.map(|()| drive),
            }
        }
    }

    /// Says what is impossible about the profile.
    ///
    /// # Errors
    /// The first impossibility that was found.
    pub fn check(&self) -> Result<(), ProfileError> {
        check::check(self)
    }

    /// Bytes that one entry of the map covers: a *page* everywhere outside of profiles.
    #[must_use]
    pub fn mapping_bytes(&self) -> u32 {
        self.ftl.mapping_bytes.unwrap_or(self.geometry.page_bytes)
    }

    /// Blocks of a plane that are not offered to the host.
    #[must_use]
    pub fn spare_blocks(&self) -> u32 {
        self.share(self.ftl.spare)
    }

    /// Planes of the drive, those that are programmed together counted as one.
    fn planes(&self) -> u64 {
        let g = &self.geometry;
        let dies = u64::from(g.channels) * u64::from(g.chips) * u64::from(g.dies);
        dies.saturating_mul(u64::from(g.planes / self.nand.program_planes))
    }

    /// Bytes of data in a block.
    fn data_bytes(&self) -> u64 {
        let pages = self.geometry.pages - u32::from(self.ftl.summary);
        let row = u64::from(self.nand.program_planes) * u64::from(self.geometry.page_bytes);
        u64::from(pages).saturating_mul(row)
    }

    /// How many of a plane's blocks `share` is, rounded down.
    pub(crate) fn share(&self, share: f64) -> u32 {
        part(share, self.geometry.blocks)
    }
}

/// How many of so many blocks a share is, rounded down.
fn part(share: f64, blocks: u32) -> u32 {
    // The tolerance is for shares like 0.29, which have no exact binary form.
    (share * f64::from(blocks) + 1e-9) as u32
}

fn one() -> u32 {
    1
}

fn one_stream() -> u16 {
    1
}

fn is_one_stream(&streams: &u16) -> bool {
    streams == 1
}
