//! What is said of an array of md that is to become Evenkeel's.

use std::path::PathBuf;

use clap::Args;

use super::create::ConsistencyArg;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mdadm --stop /dev/md0
  evenkeel import --dry-run /dev/sd[b-e]    what would be done, or why it can't be
  evenkeel import --commit /dev/sd[b-e]     md's array becomes Evenkeel's
  evenkeel start --ublk --background /dev/sd[b-e]

Without --commit the array is only prepared: the members stay md's, and nothing of what md needs is
written. --undo removes what was prepared. After --commit md does not know the members any more.")]
pub(crate) struct ImportArgs {
    /// All members of the md array, in any order, which must be stopped; or its device, such as /dev/md0, while
    /// it runs
    #[arg(required = true, value_name = "MEMBER")]
    pub(crate) members: Vec<PathBuf>,
    /// The array's name; md's if not given
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// What survives an unclean stop; journal if not given
    #[arg(long)]
    pub(crate) consistency: Option<ConsistencyArg>,
    /// Believe that parity, or copies, match the data everywhere. The first start then makes no resync.
    /// Only for an array that md has checked just before
    #[arg(long)]
    pub(crate) assume_clean: bool,
    /// Only tell what would be done. md may be using the array
    #[arg(long, short = 'n', conflicts_with_all = ["commit", "undo"])]
    pub(crate) dry_run: bool,
    /// Stop md's array first, which is given by its device (mdadm --stop, which refuses while it is used)
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) stop: bool,
    /// Make the members Evenkeel's: md's superblocks are erased
    #[arg(long)]
    pub(crate) commit: bool,
    /// Remove what was prepared, and give the members back to md
    #[arg(long, conflicts_with_all = ["commit", "name", "consistency", "assume_clean"])]
    pub(crate) undo: bool,
}
