//! What can be done with a running array.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::seconds;
use crate::size::Size;

#[derive(Subcommand, Debug)]
pub(crate) enum DiskAction {
    /// Add a spare; if a member is missing, it is rebuilt onto it
    Add {
        /// The array's name
        name: String,
        /// The new device
        path: PathBuf,
        /// To which group of a log volume; to the one most in need of it if not given
        #[arg(long, value_name = "GROUP")]
        group: Option<u8>,
        /// Overwrite what it carries
        #[arg(long, short)]
        force: bool,
    },
    /// Take a member out of service
    Fail {
        /// The array's name
        name: String,
        /// The member's number or path
        disk: String,
    },
    /// Let go of a spare. If a member is being copied to it, the member stays
    Remove {
        /// The array's name
        name: String,
        /// The spare's path; or its identity, to forget it if it is not there
        disk: String,
    },
    /// Put a new device in a member's place. One that serves is copied to it, and serves until then;
    /// else the device is rebuilt
    Replace {
        /// The array's name
        name: String,
        /// The member's number or path
        disk: String,
        /// The new device
        with: PathBuf,
        /// Overwrite what it carries
        #[arg(long, short)]
        force: bool,
        /// Wait until that is done
        #[arg(long, short)]
        wait: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// The array's name
    pub(crate) name: String,
    /// Wait until it is done. Ctrl-C leaves it running
    #[arg(long, short)]
    pub(crate) wait: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum RebuildAction {
    /// Start rebuilding a missing member onto a new device
    Start {
        /// The array's name
        name: String,
        /// The new device
        path: PathBuf,
        /// Overwrite what it carries
        #[arg(long, short)]
        force: bool,
        /// Wait until it is done
        #[arg(long, short)]
        wait: bool,
    },
    /// Show how far it is
    Status(WatchArgs),
    /// List the orders in which redundancy is brought back, or choose one until the array is stopped
    Order {
        /// The array's name
        name: Option<String>,
        /// The order
        order: Option<String>,
    },
    /// Hold it
    Pause {
        /// The array's name
        name: String,
    },
    /// Let it go on
    Resume {
        /// The array's name
        name: String,
    },
    /// Set how fast it goes, in bytes of each member per second, or when it is to end
    Limit {
        /// The array's name
        name: String,
        /// Kept up even while users are busy
        #[arg(long, value_name = "SIZE", required_unless_present_any = ["max", "within", "slowdown"])]
        min: Option<Size>,
        /// Never exceeded; 0 is unlimited
        #[arg(long, value_name = "SIZE")]
        max: Option<Size>,
        /// End within this time, such as 6h, above the minimum if need be; 0 is no matter when
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        within: Option<Duration>,
        /// Faster than the minimum beside users as long as their requests take no more than so many times
        /// what they take in calm; 0 is never
        #[arg(long, value_name = "TIMES", value_parser = times)]
        slowdown: Option<u32>,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum PolicyAction {
    /// List the policies
    List {
        /// An array, to tell which one it follows
        name: Option<String>,
    },
    /// Go over to another policy, now and for later starts. What is staged then comes home by and by
    Set {
        /// The array's name
        name: String,
        /// The policy
        policy: String,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum CacheAction {
    /// List the caches
    List {
        /// An array, to tell which one it has
        name: Option<String>,
    },
    /// Go over to another cache, now and for later starts. With `none` what is staged comes home by and by.
    /// One in memory is left when all is at home, and begins with the next start if the array has had none
    /// since this one
    Set {
        /// The array's name
        name: String,
        /// The cache
        cache: String,
    },
    /// Bring home what is staged or in memory now, whatever else there is to do, and wait for it
    Flush {
        /// The array's name
        name: String,
        /// Do not wait
        #[arg(long)]
        no_wait: bool,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum ScrubAction {
    /// Start a scrub
    Start {
        /// The array's name
        #[arg(required_unless_present = "all")]
        name: Option<String>,
        /// Scrub all arrays that run, one after the other with --wait. Those that have no redundancy, or
        /// other work under way, are left out
        #[arg(long, conflicts_with = "name")]
        all: bool,
        /// Correct what does not match: blocks that redundancy tells to be wrong, else redundancy
        #[arg(long)]
        repair: bool,
        /// Wait until it is done
        #[arg(long, short)]
        wait: bool,
    },
    /// Show how far it is, and how the last one ended
    Status(WatchArgs),
    /// End it
    Cancel {
        /// The array's name
        name: String,
    },
}

/// How many times as long, in percent.
fn times(text: &str) -> Result<u32, String> {
    let times: f64 = text.parse().map_err(|_| "it is a number, such as 1.5".to_owned())?;
    let fits = times == 0.0 || (times > 1.0 && times <= 1000.0);
    fits.then_some((100.0 * times).round() as u32)
        .filter(|&percent| percent == 0 || percent > 100)
        .ok_or_else(|| "it is 0, or more than 1 and at most 1000".to_owned())
}
