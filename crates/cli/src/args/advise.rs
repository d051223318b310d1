//! The command lines of `evenkeel advise` and `evenkeel lab fit`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::create::LevelArg;
use crate::size::Size;

/// What is done to a drive to learn about it.
#[derive(Args, Debug)]
pub(crate) struct ProbeArgs {
    /// Write to it, too. THIS DESTROYS WHAT IS ON IT. Without it, it is only read, and nothing is learned
    /// about stalls
    #[arg(long)]
    pub(crate) write: bool,
    /// Write although it carries a filesystem, a partition table, data or the like
    #[arg(long, short, requires = "write")]
    pub(crate) force: bool,
    /// How long it is probed
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub(crate) seconds: f64,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel lab fit /dev/sdg                          by reading only
  evenkeel lab fit --write --seconds 600 -o mine.toml /dev/sdg
  evenkeel lab ssd ./mine.toml                       what the fitted drive does

By reading only, how it writes is that of a generic drive. With --write it is filled as far as the time
allows, overwritten at random until it stalls, left alone and written again; in the end it is empty, as
far as it can discard. The profile is that of a small drive which behaves like it: how the drive is built
inside can't be seen.")]
pub(crate) struct FitArgs {
    /// The drive: a block device or a file, or a modelled one (flash:PROFILE:PATH)
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) probe: ProbeArgs,
    /// Where the profile goes
    #[arg(long, short, value_name = "FILE", default_value = "fitted.toml")]
    pub(crate) out: PathBuf,
}

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("drives to play").required(true).multiple(true).args(["members", "profile"])))]
#[command(group(ArgGroup::new("users").required(true).args(["trace", "workload"])))]
#[command(after_help = "Examples:
  evenkeel advise --write --trace week.csv.gz /dev/sd[b-f]
  evenkeel advise --workload hm_0 --speed 20 /dev/sd[b-f]    by reading only
  evenkeel advise --profile ./mine.toml --drives 5 --trace week.csv.gz --page advice.html
  evenkeel advise --profile sata-mlc --workload 'synthetic = { read = 0.7, size = \"4K\", pace.open.rate = 4000 }'

The drives are probed at the same time, as by `evenkeel lab fit`, and the array is played with drives like
the one that stalls most. All arrays that can be made of them are played briefly, then the best of them
longer, in virtual time. What is compared is the geometric mean of mean, p99 and p99.9 of reads and of
writes, times the square root of what flash is written, both beside the array without a policy; what is
recommended instead of that one has to come to at most 0.9 of it, with each seed below 1.")]
pub(crate) struct AdviseArgs {
    /// The drives that an array is to be made of
    #[arg(value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
    /// Instead of drives: a profile that `lab profiles` lists, or the path of one
    #[arg(long, value_name = "PROFILE", conflicts_with_all = ["members", "write"])]
    pub(crate) profile: Option<String>,
    /// How many drives there are, with --profile
    #[arg(long, value_name = "N", default_value_t = 4, requires = "profile")]
    pub(crate) drives: u8,
    #[command(flatten)]
    pub(crate) probe: ProbeArgs,
    /// The level; without it mirrors of two drives, raid5 of up to six, raid6 of more
    #[arg(long, short, value_enum)]
    pub(crate) level: Option<LevelArg>,
    /// What users do: a trace, compressed or not, which is repeated as needed
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// What users do: the name of a paper's workload, like hm_0 or exchange, or a table as in an
    /// experiment's `[workload]`
    #[arg(long, value_name = "NAME|TOML")]
    pub(crate) workload: Option<String>,
    /// How many times as fast as it was
    #[arg(long, value_name = "FACTOR")]
    pub(crate) speed: Option<f64>,
    /// Requests of each run of the second round
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) requests: u64,
    /// How often the best arrays are played, with other random numbers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) seeds: u32,
    /// A drive larger than 1G is modelled as a smaller one of the same kind with at least so much room
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub(crate) drive_size: Size,
    /// A page with plots of the second round
    #[arg(long, value_name = "FILE.html")]
    pub(crate) page: Option<PathBuf>,
}
