//! The arguments for an array's threads, and their memory.

use clap::Args;
use ublkd::host::THREADS_MAX;
use ublkd::topology::Cpus;

#[derive(Args, Debug)]
pub(crate) struct ThreadsArgs {
    /// Run it on so many threads: one decides, and the others talk to the kernel for it, so that what system
    /// calls, the block layer and the ublk driver cost is theirs. More than 2 need as many processors
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads)]
    pub(crate) threads: u16,
    /// Run these threads on these CPUs only, such as 0-3,8, and take their memory from the NUMA node of the
    /// CPUs, if they are of one. Not given, where the machine has several nodes and the controllers of all
    /// members are on one: on the CPUs of that
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<Cpus>,
    /// Take memory of I/O in huge pages where the kernel has some (transparent ones). Large requests are cheaper
    /// then, and an array that does little takes more memory
    #[arg(long)]
    pub(crate) huge_pages: bool,
}

fn threads(number: &str) -> Result<u16, String> {
    let threads = number.parse().ok().filter(|threads| (1..=THREADS_MAX).contains(threads));
    threads.ok_or_else(|| format!("a number from 1 to {THREADS_MAX}"))
}
