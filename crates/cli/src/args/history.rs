//! The arguments of `history` and `events`.

use clap::Args;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel history                  of all arrays of this machine
  evenkeel history tank -n 20       the latest 20 entries
  evenkeel history tank --commands  only who did what

An array's history is kept on the machine that runs it, across stops, crashes and boots. It is bounded: the
oldest entries go.")]
pub(crate) struct HistoryArgs {
    /// The array's name; all that have a history if not given
    pub(crate) name: Option<String>,
    /// Only the latest entries of each
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) lines: Option<usize>,
    /// Only commands
    #[arg(long)]
    pub(crate) commands: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel events tank             what happened, the latest last
  evenkeel events --follow         and what happens, as it does, until it is interrupted
  evenkeel events -f -n 0          only what happens from now on")]
pub(crate) struct EventsArgs {
    /// The array's name; all that have a history if not given
    pub(crate) name: Option<String>,
    /// Tell what happens, as it does, also to arrays that are started later
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only the latest events of each
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) lines: Option<usize>,
}
