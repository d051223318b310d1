//! The arguments of `evenkeel simulate`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::seconds;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel simulate --seeds 10000              as many worlds, on all cores
  evenkeel simulate --seeds 1000000 --time 60  for a minute
  evenkeel simulate --seed 4711 --trace        what happens in one of them
  evenkeel simulate --world stack              log volumes over arrays

A seed is a run: the same seed does the same on every machine.")]
pub(crate) struct SimulateArgs {
    /// What is simulated
    #[arg(long, value_enum, default_value_t)]
    pub(crate) world: SimulatedWorld,
    /// How many seeds
    #[arg(long, default_value_t = 1000)]
    pub(crate) seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Tell all that happens in the first seed, and play no other
    #[arg(long)]
    pub(crate) trace: bool,
    /// Play this scenario instead of those that the seeds draw: JSON, as a failure prints it
    #[arg(long, value_name = "JSON")]
    pub(crate) scenario: Option<String>,
    /// Begin no more seeds after so long: 60, 20s or 5min; a number alone is seconds
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) time: Option<Duration>,
}

/// What `simulate` plays.
#[derive(ValueEnum, Clone, Copy, Default, Debug)]
pub(crate) enum SimulatedWorld {
    /// Arrays over disks
    #[default]
    Array,
    /// Log volumes over groups in memory
    Log,
    /// Log volumes over arrays over disks
    Stack,
}
