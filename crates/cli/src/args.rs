//! The command line.

mod advise;
mod create;
#[cfg(test)]
mod documented;
mod history;
mod import;
mod lab;
mod lease;
mod manage;
mod monitor;
mod plan;
mod reshape;
mod simulate;
mod staging;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use evenkeel_client::RUN_DIR;
use steering::hold::{CACHES, Cache};
use steering::scheme::{SCHEMES, Scheme};
use ublkd::becomes::Becomes;
use ublkd::front::LogicalBlock;
use ublkd::host::THREADS_MAX;

use crate::size::Size;
pub(crate) use advise::{AdviseArgs, FitArgs, ProbeArgs};
pub(crate) use create::{CreateArgs, ParityShares};
pub(crate) use history::{EventsArgs, HistoryArgs};
pub(crate) use import::ImportArgs;
pub(crate) use lab::{
    CheckArgs, CompareArgs, LabAction, MergeArgs, Part, ReportArgs, RunArgs, SsdArgs, TraceAction,
    TraceArgs, ValidateArgs,
};
pub(crate) use lease::LeaseArg;
use lease::lease;
pub(crate) use manage::{CacheAction, DiskAction, PolicyAction, RebuildAction, ScrubAction};
pub(crate) use monitor::MonitorArgs;
pub(crate) use plan::{LifeArgs, PlanAction, SwanArgs};
pub(crate) use reshape::ReshapeArgs;
use reshape::becomes;
pub(crate) use simulate::{SimulateArgs, SimulatedWorld};
pub(crate) use staging::{StagingArg, places as staging_places};

/// Where histories are, if the run directory is the usual one.
const STATE_DIR: &str = "/var/lib/evenkeel";

const LEAST_IO_TIMEOUT: Duration = Duration::from_secs(1);

/// Create, run and mend an array of SSDs.
#[derive(Parser, Debug)]
#[command(
    name = "evenkeel",
    version,
    after_help = "Examples:
  evenkeel demo                                        see it all work, on files
  evenkeel demo --policy plain,evenkeel                see what steering does for the tail
  evenkeel create tank --level raid5 /dev/sd[b-f]      make an array
  evenkeel create log --layout swan5:3x4 /dev/sd[b-m]  make a log volume
  evenkeel start --background --fuse /mnt/tank /dev/sd[b-f]
  evenkeel status                                      what is wrong, and what to do
  evenkeel disk replace tank 2 /dev/sdg --wait         mend it
  evenkeel stop tank"
)]
pub(crate) struct Cli {
    /// Print JSON instead of text, for programs: one envelope for all commands
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Where running arrays have their sockets
    #[arg(long, global = true, value_name = "DIR", env = "EVENKEEL_RUN_DIR", default_value = RUN_DIR)]
    pub(crate) run_dir: PathBuf,
    /// Where the histories of arrays are; /var/lib/evenkeel, or the run directory if another one is given
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Where the histories of arrays are.
    pub(crate) fn state_dir(&self) -> PathBuf {
        let usual = || {
            if self.run_dir == Path::new(RUN_DIR) { STATE_DIR.into() } else { self.run_dir.clone() }
        };
        self.state_dir.clone().unwrap_or_else(usual)
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Make an array out of block devices or files
    Create(CreateArgs),
    /// Make an array of Linux md one of Evenkeel, where it lies: its data stays
    Import(ImportArgs),
    /// Start an array and serve it
    #[command(alias = "assemble")]
    Start(StartArgs),
    /// Stop a running array cleanly. Refused while it is in use
    Stop {
        /// The array's name
        name: String,
        /// Stop although it is in use. File systems of this machine write what they hold before; then
        /// users of NBD and FUSE get errors, and those of its block device and virtual machines wait for
        /// the next start
        #[arg(long, short)]
        force: bool,
    },
    /// Replace the process of a running array, by that of a new release for instance. Users of its
    /// block device and virtual machines (--vhost) wait meanwhile. Refused while NBD or FUSE is in use
    Restart {
        /// The array's name
        name: String,
        /// Restart although they are in use, as with `stop`
        #[arg(long, short)]
        force: bool,
    },
    /// Make an array one of another level or with more members, or parity lie otherwise, while it is
    /// used. Spares become the new members
    Reshape(ReshapeArgs),
    /// List the arrays that run on this machine, and with --all those that could be started
    #[command(after_help = "Exit status: 0, or 1 if an array that runs does not answer.")]
    List(ListArgs),
    /// Tell what arrays and their members are asked for, and how long it takes
    Iostat(IostatArgs),
    /// Show arrays, members and what waits for garbage collection, live
    Top(TopArgs),
    /// Watch all arrays of this machine, and tell people what is wrong and what has happened: by hooks,
    /// mail and webhooks
    Monitor(MonitorArgs),
    /// Serve metrics of all arrays of this machine for Prometheus, on one port
    Exporter(ExporterArgs),
    /// Tell what happened to arrays: failures, rebuilds, starts and stops
    Events(EventsArgs),
    /// Tell who changed arrays when, by which command, and what happened to them
    History(HistoryArgs),
    /// Tell how arrays are: what is wrong, since when, what to do
    #[command(after_help = "Exit status, of several arrays the greatest:
  0  all is well
  1  an array does not answer, or does not run
  3  all members serve, but something is wrong: what, `status` tells
  4  degraded: everything is there, with less redundancy
  5  failed: requests fail")]
    Status {
        /// The array's name; all that run if not given
        name: Option<String>,
        /// Tell which members are busy, how that is known, and how often it was right
        #[arg(long, requires = "name")]
        why: bool,
    },
    /// Add, fail, remove and replace disks
    Disk {
        #[command(subcommand)]
        action: DiskAction,
    },
    /// Watch and steer a rebuild or resync
    Rebuild {
        #[command(subcommand)]
        action: RebuildAction,
    },
    /// Check that redundancy matches data
    Scrub {
        #[command(subcommand)]
        action: ScrubAction,
    },
    /// Choose what is done about garbage collection
    Policy {
        #[command(subcommand)]
        action: PolicyAction,
    },
    /// Choose whether small writes are acknowledged by the staging log or in memory, and empty these
    Cache {
        #[command(subcommand)]
        action: CacheAction,
    },
    /// Show what a member's superblock says
    Examine {
        /// Members, as paths
        #[arg(required = true, value_name = "MEMBER")]
        members: Vec<PathBuf>,
        /// As properties for a rule of udev
        #[arg(long)]
        udev: bool,
    },
    /// Run arrays in simulated worlds whose disks and power fail, and check every byte
    Simulate(SimulateArgs),
    /// Measure arrays and SSDs in virtual time
    Lab {
        #[command(subcommand)]
        action: LabAction,
    },
    /// Tell which array of these drives serves a workload best: level or log volume, policy, chunk,
    /// over-provisioning
    Advise(AdviseArgs),
    /// Find out how large an array has to be
    Plan {
        #[command(subcommand)]
        action: PlanAction,
    },
    /// Build an array on modelled SSDs, break it, mend it, and check every byte
    Demo(DemoArgs),
    /// Write manual pages, completions for shells, and the schema of the control socket, for packages to install
    #[command(hide = true)]
    Generate {
        /// A directory, which is made if there is none
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// List those, too, that do not run and whose members are there
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Where their members are looked for: directories, files or block devices; /dev if none is given
    #[arg(value_name = "PLACE", requires = "all")]
    pub(crate) places: Vec<PathBuf>,
    /// How long an array may take to answer
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "5s")]
    pub(crate) timeout: Duration,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel iostat                since the start of each array
  evenkeel iostat 5              every 5 seconds, what happened in them
  evenkeel iostat 1 10 -w        ten times, with how many took how long

Requests count from when the array's thread takes them up, I/Os of members with those of metadata and
journal. p50 and p99 are estimates: within a bucket of the histogram, as if spread evenly.

Exit status: 0, or 1 if an array did not answer the last time.")]
pub(crate) struct IostatArgs {
    /// Tell it so often: a time, such as 500ms, or seconds; once, of the time since the start, if not given
    #[arg(value_name = "INTERVAL", value_parser = interval)]
    pub(crate) interval: Option<Duration>,
    /// Tell it so many times; until it is interrupted if not given
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Only of this array; it can be given several times
    #[arg(long, short, value_name = "NAME")]
    pub(crate) array: Vec<String>,
    /// Tell also how many took how long: requests by kind and size, and members' I/Os
    #[arg(long, short = 'w')]
    pub(crate) histogram: bool,
    /// How long an array may take to answer
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "5s")]
    pub(crate) timeout: Duration,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel start a.img b.img c.img                     in the foreground, over NBD
  evenkeel start --background --fuse /mnt/tank /dev/sd[b-f]
  evenkeel start --name tank /dev/disk/by-id           find the members in a directory

Without --nbd, --nbd-tcp, --fuse, --ublk or --vhost the array is served over NBD on a Unix socket in
the run directory. SIGTERM, SIGINT and `evenkeel stop` stop it cleanly.")]
pub(crate) struct StartArgs {
    /// Members; with --name also directories that hold them
    #[arg(value_name = "MEMBER", required_unless_present = "name")]
    pub(crate) members: Vec<PathBuf>,
    /// Find the members of the array of this name (among MEMBER, or in /dev)
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Of several arrays of that name, the one with this identity
    #[arg(long, requires = "name")]
    pub(crate) uuid: Option<String>,
    /// Start without members that should be there
    #[arg(long)]
    pub(crate) degraded: bool,
    /// Wait so long for members that are not there yet, such as 30s; --degraded counts after that
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration,
          default_value = "0s", hide_default_value = true)]
    pub(crate) wait: Duration,
    /// Start although blocks may be wrong
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Give the array a lease of this term, such as 20s, or take it away. With one, several hosts may reach
    /// its members: only who holds the lease runs it, and if that host dies, another takes over
    #[arg(long, value_name = "TERM|none", value_parser = lease)]
    pub(crate) lease: Option<LeaseArg>,
    /// Take the lease at once: no other host runs the array, as all that could are fenced or off
    #[arg(long)]
    pub(crate) fenced: bool,
    /// Take a member out of service that has not answered for so long, if the others make up for it;
    /// wait for it if not. The kernel gives devices of its own 30s a try
    #[arg(long, value_name = "TIME", value_parser = io_timeout, default_value = "30s")]
    pub(crate) io_timeout: Duration,
    /// Whether reads and writes of NVMe drives go past the kernel's block layer, where they can: auto or
    /// never
    #[arg(long, value_name = "WHEN", default_value = "never")]
    pub(crate) passthrough: Passthrough,
    /// Run it on so many threads: one decides, and the others talk to the kernel for it, so that what system
    /// calls, the block layer and the ublk driver cost is theirs. More than 2 need as many processors
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads)]
    pub(crate) threads: u16,
    /// Keep so much of what is staged in memory, too: then it is not read from the staging log when it comes
    /// home or users read it
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub(crate) staging_memory: Size,
    /// What is done about garbage collection, now and at later starts; `evenkeel policy list` tells
    /// what there is. What is on record if not given
    #[arg(long, value_parser = policy)]
    pub(crate) policy: Option<Scheme>,
    /// Memory of a write cache in memory, if the array has one (`evenkeel cache list`)
    #[arg(long, value_name = "SIZE", value_parser = cache_memory, default_value = "64M")]
    pub(crate) cache_memory: Size,
    /// Serve it although the last process had a write cache in memory and was not stopped cleanly:
    /// no client from before is left that could go on without the writes that are lost
    #[arg(long)]
    pub(crate) accept_lost_writes: bool,
    /// Make it another array: LEVEL:MEMBERS:CHUNK:PLACEMENT, or larger with max
    #[arg(long, hide = true, value_parser = becomes)]
    pub(crate) reshape: Option<Becomes>,
    /// Serve over NBD on a Unix socket; in the run directory if no path is given
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    pub(crate) nbd: Option<Option<PathBuf>>,
    /// Serve over NBD on this address. NBD has no passwords: whoever reaches it can write, unless
    /// clients must have certificates (--nbd-tls-clients)
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) nbd_tcp: Option<SocketAddr>,
    /// Let that address be one that other machines reach, although clients need no certificates
    #[arg(long, requires = "nbd_tcp")]
    pub(crate) nbd_allow_remote: bool,
    /// Serve there by TLS only, with the certificate in this file (PEM), followed by those between it
    /// and the one that clients trust. It is read again when it has changed
    #[arg(long, value_name = "FILE", requires_all = ["nbd_tcp", "nbd_tls_key"])]
    pub(crate) nbd_tls_certificate: Option<PathBuf>,
    /// The certificate's private key (PEM, without a passphrase), for its owner only
    #[arg(long, value_name = "FILE", requires = "nbd_tls_certificate")]
    pub(crate) nbd_tls_key: Option<PathBuf>,
    /// Serve only clients that have a certificate of one of the authorities in this file (PEM); then
    /// other machines may reach the address
    #[arg(long, value_name = "FILE", requires = "nbd_tls_certificate")]
    pub(crate) nbd_tls_clients: Option<PathBuf>,
    /// Serve to virtual machines by vhost-user-blk, on a Unix socket; in the run directory if no path
    /// is given. Not for log volumes
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true)]
    pub(crate) vhost: Option<Option<PathBuf>>,
    /// Serve as a file in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) fuse: Option<PathBuf>,
    /// Serve as a block device, /dev/ublkbN; the first N that is free if none is given. Its name is
    /// /dev/evenkeel/ARRAY
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub(crate) ublk: Option<Option<u32>>,
    /// Bytes of the smallest piece that NBD, the block device and virtual disks (--vhost) offer: 4096,
    /// or 512 for guests and programs that know nothing else, which is slower where they change parts
    /// of blocks. A file (--fuse) takes any size
    #[arg(long, value_name = "BYTES", value_parser = logical_block, default_value = "4096")]
    pub(crate) logical_block: LogicalBlock,
    /// Serve metrics for Prometheus over HTTP; on 127.0.0.1:9712 if no address is given. Whoever
    /// reaches the address can read them
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true,
          default_missing_value = "127.0.0.1:9712")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Return when the array serves, and leave it running
    #[arg(long, short)]
    pub(crate) background: bool,
    /// For the array that the root file system is on: systemd does not end this process at shutdown, and
    /// the program stays in memory, so that it needs nothing of what it serves
    #[arg(long, requires = "background")]
    pub(crate) for_root: bool,
    /// Be the process that --background leaves running
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    /// A device of the array as it runs now; these are what it is started with, whatever else is named
    #[arg(long = "device", value_name = "PATH", hide = true)]
    pub(crate) devices: Vec<PathBuf>,
    /// Only find out whether an array that runs could be started in this way
    #[arg(long, hide = true)]
    pub(crate) check: bool,
}

/// When I/O on NVMe drives goes past the block layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Passthrough {
    /// Where it can
    Auto,
    /// Nowhere
    Never,
}

/// A time, or a number of seconds.
fn seconds(time: &str) -> Result<Duration, String> {
    match time.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => humantime::parse_duration(time).map_err(|error| error.to_string()),
    }
}

/// How long to wait between two readings.
fn interval(time: &str) -> Result<Duration, String> {
    let time = seconds(time)?;
    if time < Duration::from_millis(1) {
        return Err("it is at least 1ms".to_owned());
    }
    Ok(time)
}

/// How long a member may take.
fn threads(number: &str) -> Result<u16, String> {
    let threads = number.parse().ok().filter(|threads| (1..=THREADS_MAX).contains(threads));
    threads.ok_or_else(|| format!("a number from 1 to {THREADS_MAX}"))
}

fn io_timeout(time: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(time).map_err(|error| error.to_string())?;
    if time < LEAST_IO_TIMEOUT {
        return Err("devices that work well can take almost 1s".to_owned());
    }
    Ok(time)
}

/// How much memory a cache may have.
fn cache_memory(size: &str) -> Result<Size, String> {
    let size: Size = size.parse()?;
    let fits = (1 << 20..=16 << 30).contains(&size.0);
    if fits { Ok(size) } else { Err("it is from 1M to 16G".to_owned()) }
}

/// A block size by its bytes.
fn logical_block(bytes: &str) -> Result<LogicalBlock, String> {
    let sizes = [LogicalBlock::Whole, LogicalBlock::Small];
    let named = sizes.into_iter().find(|size| size.bytes().to_string() == bytes);
    named.ok_or_else(|| "it is 4096 or 512".to_owned())
}

/// A policy by its name.
fn policy(name: &str) -> Result<Scheme, String> {
    let names = || SCHEMES.iter().map(|scheme| scheme.name).collect::<Vec<_>>().join(", ");
    // What follows a slash is its cache.
    name.split_once('/').map_or(Ok(Cache::default()), |(_, name)| cache(name))?;
    Scheme::named(name).ok_or_else(|| format!("there is no such policy; there are {}", names()))
}

/// A cache by its name.
fn cache(name: &str) -> Result<Cache, String> {
    let names = || CACHES.iter().map(|cache| cache.name).collect::<Vec<_>>().join(", ");
    Cache::named(name).ok_or_else(|| format!("there is no such cache; there are {}", names()))
}

#[derive(Args, Debug)]
#[command(after_help = "Keys:
  q, Esc          quit
  up/down, k/j    the array whose members are shown
  space           hold the screen, and let it go on
  +, -            a longer or shorter interval

Of each member it tells in steps (. few, @ most) how large a share of its I/Os took how long, from 10 us on
the left to more than 10 s on the right; whether it collects garbage, or was found busy; and how many
requests a second went around it or waited for that. The first screen tells it of the time since the start.

It needs 80 columns and 24 lines for an array of ten members. With NO_COLOR in the environment it has no
colours, which only repeat what words and signs tell.")]
pub(crate) struct TopArgs {
    /// How often it is read: a time, such as 500ms, or seconds
    #[arg(value_name = "INTERVAL", value_parser = interval, default_value = "2s")]
    pub(crate) interval: Duration,
    /// Only this array; it can be given several times
    #[arg(long, short, value_name = "NAME")]
    pub(crate) array: Vec<String>,
}

#[derive(Args, Debug)]
#[command(
    after_help = "It ends when it is told to: SIGTERM, SIGINT. Arrays need no `start --metrics` for it, and may come and go.
`evenkeel_up` is 0 for an array whose process hangs or has died."
)]
pub(crate) struct ExporterArgs {
    /// Where metrics are served. Whoever reaches the address can read them
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9712")]
    pub(crate) listen: SocketAddr,
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Where to make the member files; a temporary directory if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The size of each of the five members
    #[arg(long, default_value = "128M", value_name = "SIZE")]
    pub(crate) size: Size,
    /// How long the array is under load in each phase; 4 unless given, 20 where policies are compared
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<u64>,
    /// What is done about garbage collection; `evenkeel policy list` tells what there is. Several,
    /// like plain,evenkeel, are compared: each gets the same load
    #[arg(long, default_value = "plain", value_parser = policy, value_delimiter = ',')]
    pub(crate) policy: Vec<Scheme>,
    /// Leave the array serving at the end, and tell how to use it; not where policies are compared
    #[arg(long)]
    pub(crate) keep: bool,
}
