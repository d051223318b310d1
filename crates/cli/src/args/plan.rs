//! The command line of `evenkeel plan`.

use std::time::Duration;

use clap::{Args, Subcommand};
use raidcore::geometry::Shares;

use super::create::{ConsistencyArg, LevelArg, parity_shares};
use crate::size::Size;

#[derive(Subcommand, Debug)]
pub(crate) enum PlanAction {
    /// How many groups of how many members an array needs so that cleaning delays no user
    Swan(SwanArgs),
    /// How long an array's drives last, and whether they wear out together, by how parity is shared
    Life(LifeArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel plan swan --throughput 2G --used 0.7 --profile nvme-tlc
  evenkeel plan swan --throughput 400M --measured 4000,19.5,15.6    with a measured SSD's times
  evenkeel plan swan --throughput 700M --profile sata-mlc --verify  and played on modelled SSDs

It is a model: all blocks are as likely to be overwritten, and reads, buffers in SSDs and their own
garbage collection are left out. With --verify the array that it recommends is played in virtual
time, where all but reads is there, and so is one with a group less; the exit code tells whether the
recommended one keeps up without anybody having to wait for cleaning. If it does not, up to four
groups more are tried, until that is enough.")]
pub(crate) struct SwanArgs {
    /// What users write at most, in bytes a second
    #[arg(long, value_name = "SIZE")]
    pub(crate) throughput: Size,
    /// How much of the space is in use
    #[arg(long, value_name = "PART", default_value_t = 0.6, value_parser = part)]
    pub(crate) used: f64,
    /// How many members of each group can be lost
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=2))]
    pub(crate) parity: u32,
    /// The SSD: a name that `lab profiles` lists, or the path of a profile
    #[arg(long, default_value = "sata-mlc")]
    pub(crate) profile: String,
    /// Instead of a profile: what it takes to erase a segment, to write a block of 4 KiB and to read
    /// one, in µs
    #[arg(
        long,
        value_name = "ERASE,WRITE,READ",
        value_delimiter = ',',
        num_args = 1,
        conflicts_with = "profile"
    )]
    pub(crate) measured: Option<Vec<f64>>,
    /// A segment's part on each SSD
    #[arg(long, value_name = "SIZE", default_value = "1M")]
    pub(crate) segment: Size,
    /// Play the array in the laboratory, under random writes of 4 KiB
    #[arg(long, conflicts_with = "measured")]
    pub(crate) verify: bool,
    /// How large an SSD is that it is played on, about: a smaller one of the same kind
    #[arg(long, value_name = "SIZE", default_value = "1G", requires = "verify")]
    pub(crate) ssd_size: Size,
    /// Seconds of virtual time that are measured; until the log's room was written once if not given
    #[arg(long, requires = "verify")]
    pub(crate) seconds: Option<f64>,
    /// What the random numbers follow from
    #[arg(long, default_value_t = 1, requires = "verify")]
    pub(crate) seed: u64,
}

fn part(text: &str) -> Result<f64, String> {
    let part: f64 = text.parse().map_err(|_| format!("\"{text}\" is not a number"))?;
    let within = part > 0.0 && part < 1.0;
    within.then_some(part).ok_or_else(|| format!("{text} is not between 0 and 1"))
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel plan life                                  RAID5 of four drives that are written 2T a day
  evenkeel plan life --members 6 --small 0.8 --tbw 1200T --capacity 2T --per-day 500G
  evenkeel plan life --shares 5,10,15,70 --replace-at 90%     all strategies replace as early

The first wear-out is that of a member that is not replaced before. Untended, data is lost when more
members are worn out than may fail, and none is ever replaced. The last column has losses although
worn-out members are replaced: others wear out before the rebuild ends. The life that is left is the
least of all other members' when one is replaced, after a round once as many were replaced as there
are members; and its percentiles over arrays of drives that differ by --spread, with the part of them
that lost data.

It is a model. Small writes are of 4 KiB and go to all data alike, at once: nothing is staged. Write
amplification is constant and part of --tbw, and nothing fails but by wear. Speeds are the least there
are: as if nothing took time but what drives are written. An array's shares can't be changed once it is created: of the
strategies only even and fixed can be had with `evenkeel create`, and the shares that staggered
begins with (--parity-shares auto).")]
pub(crate) struct LifeArgs {
    /// How many drives
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) members: usize,
    /// The level: raid5 or raid6
    #[arg(long, short, value_enum, default_value = "raid5")]
    pub(crate) level: LevelArg,
    /// What survives an unclean stop: the journal's entries of small writes wear the drives that hold parity
    #[arg(long, value_enum, default_value = "journal")]
    pub(crate) consistency: ConsistencyArg,
    /// What a drive can be written, by its rating
    #[arg(long, value_name = "SIZE", default_value = "600T")]
    pub(crate) tbw: Size,
    /// The size of a drive, which its rebuild writes
    #[arg(long, value_name = "SIZE", default_value = "1T")]
    pub(crate) capacity: Size,
    /// What users write a day
    #[arg(long, value_name = "SIZE", default_value = "2T")]
    pub(crate) per_day: Size,
    /// The part of it that comes as small writes, from 0 to 1; the rest are whole stripes
    #[arg(long, value_name = "PART", default_value_t = 1.0)]
    pub(crate) small: f64,
    /// Each member's share of parity in percent, like 5,10,15,70, for fixed and diff-raid. Unless given the
    /// last has 70% (with raid6 35%), and the others have the rest as 1 : 2 : 3 and so on
    #[arg(long, value_name = "PERCENT,…", value_parser = parity_shares)]
    pub(crate) shares: Option<Shares>,
    /// How far apart staggered keeps the lives of neighbours; 15%, or as much as there is room for, unless
    /// given
    #[arg(long, value_name = "PERCENT", value_parser = whole_percent)]
    pub(crate) gap: Option<u8>,
    /// When drives are replaced, in percent of their rated life used, whatever the strategy: at 100% when
    /// they are worn out. Unless given staggered replaces at 90%, and all others when worn out
    #[arg(long, value_name = "PERCENT", value_parser = whole_percent)]
    pub(crate) replace_at: Option<u8>,
    /// How long a rebuild takes
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = humantime::parse_duration)]
    pub(crate) rebuild: Duration,
    /// How many years to look ahead
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub(crate) years: f64,
    /// How far drives differ from their rating at most, either way; all in between is as likely
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    pub(crate) spread: f64,
    /// How many arrays of such drives are drawn
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) draws: u32,
    /// What the random numbers follow from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    number.map_err(|_| format!("\"{text}\" is not a part; write it like 5%"))
}

fn whole_percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<u8>();
    number.map_err(|_| format!("\"{text}\" is not a whole percent; write it like 15%"))
}
