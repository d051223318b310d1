//! Power failures of a real array: the parts of `tests/vm/scenarios/powercut.sh`.
//!
//! The array's members are on Linux's dm-log-writes, which logs their writes in the order in which
//! they become durable. `write` is the array's user. From time to time it requests a *point*: the
//! script stops all members, marks their logs, and lets them continue. That is an instant at which
//! the power could have failed. `replay` creates the members as a failure at the point could have
//! left them, and `check` compares an array started from them with the expectations of `write`.
//!
//! At the instant at which members stand still, each holds everything in its log: writes that were
//! flushed, or written with FUA. Then its log is marked (`before`), flushed, and marked again
//! (`at`). The writes between the marks were not flushed, so any of their blocks may be lost.

mod ledger;
mod log;
mod replay;
mod write;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;

use ledger::Ledger;

#[derive(Parser)]
enum Command {
    /// Write to an array; say `point N` on standard output, and go on when a line comes in
    Write {
        /// The array
        disk: PathBuf,
        /// Where to put what it must hold at each point
        ledger: PathBuf,
        /// How many points there are
        #[arg(long, default_value_t = 20)]
        points: u32,
        /// Another number is another run
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Make members as a power failure at a point may leave them
    Replay {
        /// At which point
        #[arg(long)]
        point: u32,
        /// Decides what is lost
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The log of each member, and the file to make of it
        #[arg(required = true, value_name = "LOG=MEMBER")]
        members: Vec<String>,
    },
    /// Compare an array with what it must hold
    Check {
        /// The array
        disk: PathBuf,
        /// What was put down by `write`
        ledger: PathBuf,
        /// At which point the power failed
        #[arg(long)]
        point: u32,
    },
}

fn main() -> Result<ExitCode> {
    match Command::parse() {
        Command::Write { disk, ledger, points, seed } => {
            write::run(&disk, points, seed)?.store(&ledger)?;
        }
        Command::Replay { point, seed, members } => {
            for (number, member) in (0..).zip(&members) {
                let (log, to) = member.split_once('=').context("neither a log nor a member")?;
                let done = replay::run(log.as_ref(), to.as_ref(), point, seed * 64 + number);
                println!("{member}: {}", done.with_context(|| log.to_owned())?);
            }
        }
        Command::Check { disk, ledger, point } => {
            let wrong = Ledger::load(&ledger)?.check(&disk, point)?;
            for each in wrong.iter().take(10) {
                println!("{each}");
            }
            if !wrong.is_empty() {
                bail!("{} blocks are wrong", wrong.len());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
