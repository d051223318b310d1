//! The command line of `evenkeel plan`.

use clap::{Args, Subcommand};

use crate::size::Size;

#[derive(Subcommand, Debug)]
pub(crate) enum PlanAction {
    /// How many groups of how many members an array needs so that cleaning delays no user
    Swan(SwanArgs),
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
