//! The command line of `evenkeel create`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use raidcore::geometry::{Level, Placement, Shares};
use raidcore::meta::{Consistency, Term};
use raidcore::units::BLOCK_BYTES;
use raidlog::Layout;
use steering::hold::Cache;
use steering::scheme::Scheme;

use super::lease::term;
use super::staging::{StagingArg, staging};
use super::{cache, policy};
use crate::size::Size;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel create tank --level raid6 /dev/disk/by-id/nvme-A /dev/disk/by-id/nvme-B ...
  evenkeel create test --level raid5 --file-size 1G a.img b.img c.img
  evenkeel create calm --level raid5 --staging reserved:64M /dev/sd[b-f]
  evenkeel create calm --level raid5 --staging dedicated:/dev/sdg /dev/sd[b-f]
  evenkeel create fast --level raid5 --cache log /dev/sd[b-f]
  evenkeel create sure --level raid6 --distributed-spare /dev/sd[b-k]
  evenkeel create slow --level raid5 --file-size 1G flash:mqsim+aged:{a,b,c}.img
  evenkeel create log --layout swan5:3x4 /dev/sd[b-m]

A member that carries a filesystem, a partition table or the like is refused, and nothing is
changed, unless --force is given. Members may differ in size: the smallest rules.

A file can be modelled as an SSD that collects garbage: flash:PROFILE:PATH is a new one,
flash:PROFILE+filled:PATH was written once, flash:PROFILE+aged:PATH was overwritten at random twice
after that. PROFILE is a name, like mqsim or sata-mlc (a wrong one is answered with all there are),
or the path of a TOML file. What the SSD has been through is kept in PATH.flash, by which every
command knows it again: from then on PATH is enough.")]
pub(crate) struct CreateArgs {
    /// The array's name: A-Z a-z 0-9 _ . -
    pub(crate) name: String,
    /// Members: block devices or files
    #[arg(required = true, value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
    /// The level
    #[arg(long, short, value_enum, required_unless_present = "layout")]
    pub(crate) level: Option<LevelArg>,
    /// Make a log volume, which writes nothing in place: log-raid0, -raid4, -raid5 or -raid6 over all
    /// members, or R-groups times their members, like swan4:3x3, which take turns at being written and
    /// cleaned
    #[arg(long, value_name = "LAYOUT", conflicts_with_all = ["level", "staging"])]
    pub(crate) layout: Option<Layout>,
    /// The size of a segment of the log, which is cleaned at once; rounded up to whole stripes
    #[arg(long, value_name = "SIZE", default_value = "1M", requires = "layout")]
    pub(crate) segment: Size,
    /// How much of each member is not used, and is spare room for its garbage collection: the more, the less it
    /// has to move. Nothing unless given. Of a log volume, how much of the log users don't get, which is spare
    /// room for its cleaner: 20% unless given
    #[arg(long, value_name = "PERCENT", value_parser = over_provisioning)]
    pub(crate) over_provisioning: Option<u32>,
    /// Where parity and data lie, by md's names; as md does by default unless given
    #[arg(long, value_name = "NAME", conflicts_with = "layout", value_parser = placement)]
    pub(crate) placement: Option<Placement>,
    /// Each member's share of parity in percent, like 5,10,15,70: one with more is written more, so members
    /// wear out one after the other. With auto the shares follow from how worn the members are, and are
    /// only as uneven as it takes. RAID5 and RAID6; md can't read an array with uneven shares
    #[arg(long, value_name = "auto|PERCENT,…", conflicts_with_all = ["layout", "placement"],
          value_parser = parity_shares_or_auto)]
    pub(crate) parity_shares: Option<ParityShares>,
    /// How much of a member is written before the next one's turn: 4K to 1M, a power of two
    #[arg(long, short, default_value = "64K", value_name = "SIZE", value_parser = chunk)]
    pub(crate) chunk: u32,
    /// What survives an unclean stop. A journal unless given; of a log volume's groups a bitmap, which
    /// is enough: what a crash tears there was not acknowledged
    #[arg(long, value_enum)]
    pub(crate) consistency: Option<ConsistencyArg>,
    /// Where writes go that would meet busy members, which some policies need: a part of each member
    /// (reserved:64M, or reserved:10% of the smallest), or a device of its own (dedicated:PATH, several
    /// if given again), or both. Nowhere unless given
    #[arg(long, value_name = "reserved:SIZE|dedicated:PATH", value_parser = staging)]
    pub(crate) staging: Vec<StagingArg>,
    /// Reserve room on all members for what is on one of them: if one fails and there is no spare, its
    /// data is rebuilt there, on all others at once. RAID4, 5 and 6; takes 2 parts of members - 1 more
    /// (RAID6: 3)
    #[arg(long, conflicts_with = "layout")]
    pub(crate) distributed_spare: bool,
    /// What is to be done about garbage collection; `evenkeel policy list` tells what there is. If it needs a
    /// staging log and there is no --staging, that has a twentieth of each member, at most 1G
    #[arg(long, default_value = "plain", value_parser = policy)]
    pub(crate) policy: Scheme,
    /// What latency may cost: names a policy and a cache that suit drives as they are sold
    #[arg(long, value_enum, conflicts_with_all = ["policy", "cache", "layout"])]
    pub(crate) wear: Option<WearArg>,
    /// Whether small writes are acknowledged by the staging log, or in memory (volatile: what was not flushed
    /// is lost in a crash); `evenkeel cache list` tells what there is. With log
    /// and no --staging, the log has as much as that of a policy
    #[arg(long, value_parser = cache, conflicts_with = "layout")]
    pub(crate) cache: Option<Cache>,
    /// Let hosts that reach all members agree which of them runs the array, by a lease of this term, such as
    /// 20s: if that host dies, another takes over after twice as long
    #[arg(long, value_name = "TERM", value_parser = term, conflicts_with_all = ["layout", "distributed_spare"])]
    pub(crate) lease: Option<Term>,
    /// Use only so much of each member
    #[arg(long, value_name = "SIZE")]
    pub(crate) member_size: Option<Size>,
    /// Make members that don't exist, as sparse files of this size
    #[arg(long, value_name = "SIZE")]
    pub(crate) file_size: Option<Size>,
    /// Reserve the space of members that are files
    #[arg(long)]
    pub(crate) preallocate: bool,
    /// Overwrite what the members carry
    #[arg(long, short)]
    pub(crate) force: bool,
}

/// What latency may cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum WearArg {
    /// Nothing is written twice; slow reads are tried from the other members, too: policy hedge
    Low,
    /// Writes that would meet busy members are staged, and so written twice: policy evenkeel
    Balanced,
    /// All small writes are: policy evenkeel, cache log
    Latency,
}

impl WearArg {
    /// The policy, and its cache.
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Low => "hedge",
            Self::Balanced => "evenkeel",
            Self::Latency => "evenkeel/log",
        }
    }
}

/// How parity is shared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum ParityShares {
    /// By how worn the members are.
    Auto,
    /// Like this.
    Given(Shares),
}

fn parity_shares_or_auto(text: &str) -> Result<ParityShares, String> {
    if text == "auto" {
        Ok(ParityShares::Auto)
    } else {
        parity_shares(text).map(ParityShares::Given)
    }
}

/// Percents that add up to 100, one for each member.
pub(super) fn parity_shares(text: &str) -> Result<Shares, String> {
    let percent = |share: &str| share.trim().trim_end_matches('%').parse::<u8>();
    let percent: Result<Vec<_>, _> = text.split(',').map(percent).collect();
    let percent =
        percent.map_err(|_| "it is a whole percent for each member, like 5,10,15,70".to_owned())?;
    Shares::new(&percent).map_err(|error| error.to_string())
}

pub(super) fn placement(name: &str) -> Result<Placement, String> {
    let known = || Placement::all().map(Placement::name).collect::<Vec<_>>().join(", ");
    let found = Placement::all().find(|placement| placement.name() == name);
    found.ok_or_else(|| format!("it is one of {}", known()))
}

#[derive(Clone, Copy, ValueEnum, Debug)]
pub(crate) enum LevelArg {
    /// Striping, no redundancy
    #[value(alias = "0")]
    Raid0,
    /// Mirroring
    #[value(alias = "1")]
    Raid1,
    /// Parity on the last member
    #[value(alias = "4")]
    Raid4,
    /// Rotating parity: one member may fail
    #[value(alias = "5")]
    Raid5,
    /// Two rotating parities: two members may fail
    #[value(alias = "6")]
    Raid6,
    /// Striping over mirrored pairs: one member of each pair may fail; an even number of members
    #[value(alias = "10")]
    Raid10,
}

impl From<LevelArg> for Level {
    fn from(level: LevelArg) -> Self {
        match level {
            LevelArg::Raid0 => Self::Raid0,
            LevelArg::Raid1 => Self::Raid1,
            LevelArg::Raid4 => Self::Raid4,
            LevelArg::Raid5 => Self::Raid5,
            LevelArg::Raid6 => Self::Raid6,
            LevelArg::Raid10 => Self::Raid10,
        }
    }
}

#[derive(Clone, Copy, ValueEnum, Debug)]
pub(crate) enum ConsistencyArg {
    /// All of it: no block is damaged that was not being written, even if a member is lost too
    Journal,
    /// Less writing; if a member is lost too, neighbours of what was being written may be damaged
    Bitmap,
    /// Least writing; the whole array is resynced
    Resync,
}

impl From<ConsistencyArg> for Consistency {
    fn from(consistency: ConsistencyArg) -> Self {
        match consistency {
            ConsistencyArg::Journal => Self::Journal,
            ConsistencyArg::Bitmap => Self::Bitmap,
            ConsistencyArg::Resync => Self::Resync,
        }
    }
}

/// A chunk, in blocks.
pub(super) fn chunk(text: &str) -> Result<u32, String> {
    let Size(bytes) = text.parse()?;
    let (block, blocks) = (BLOCK_BYTES as u64, bytes / BLOCK_BYTES as u64);
    if !bytes.is_multiple_of(block) || !blocks.is_power_of_two() || blocks > 256 {
        return Err(format!("the chunk must be a power of two from 4K to 1M, not {bytes} bytes"));
    }
    Ok(blocks as u32)
}

/// A part of the log in thousandths: 20%, or 12.5%.
fn over_provisioning(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok());
    let number = number.filter(|percent| (0.0..=100.0).contains(percent));
    let wrong = || format!("\"{text}\" is not a part; write it like 20%");
    number.map(|percent| (percent * 10.0).round() as u32).ok_or_else(wrong)
}
