//! The arguments of `monitor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::interval;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  evenkeel monitor --mail root --test          does mail arrive?
  evenkeel monitor --mail root                 watch until it is told to end, as evenkeel-monitor.service does
  evenkeel monitor --mail root --once          tell what is wrong now, and end: a daily reminder, from cron
  evenkeel monitor --mail root --once --new    the same of what was not told before: every few minutes

What is told is printed, too, and given to every program in /etc/evenkeel/hooks.d, by the environment:

  EVENKEEL_EVENT        failed, degraded, hangs, errors, torn, left-behind, staged-lost, log-failed, mismatch,
                        spare-missing, wear, slow-member, policy-resting, vanished, no-answer, ended, rebuilt,
                        copied, reshaped, healed, or test; with --verbose scrubbed, resynced, member-returned,
                        started, stopped, too. More can be added
  EVENKEEL_SEVERITY     critical, warning or info
  EVENKEEL_ARRAY        the array's name, and EVENKEEL_UUID its identity, if it is known
  EVENKEEL_DISK         the member that it is about, as commands name it, or nothing
  EVENKEEL_MESSAGE      what is wrong or has happened, EVENKEEL_WHAT_TO_DO what to do about it
  EVENKEEL_TIME         when, in seconds since 1970
  EVENKEEL_HOST         the name of this machine

Each occurrence is told once, also if this program is started again; what goes on for an hour after it had
ended is told again. Hooks run at the same time, each for as long as --hook-timeout; one that fails is told
on standard error. Mails and webhooks that fail are tried again for a day.

Exit status: 0, or 1 if a way has failed (--once, --test) or nothing can be watched.")]
pub(crate) struct MonitorArgs {
    /// Send mail to this address, by sendmail; it can be given several times
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) mail: Vec<String>,
    /// POST JSON to this URL, by curl; it can be given several times
    #[arg(long, value_name = "URL", value_parser = url)]
    pub(crate) webhook: Vec<String>,
    /// The directory of hooks; /etc/evenkeel/hooks.d if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) hooks: Option<PathBuf>,
    /// How long a hook may take; then it is killed
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "30s")]
    pub(crate) hook_timeout: Duration,
    /// The program that sends mail; sendmail in the path, /usr/sbin or /usr/lib if not given
    #[arg(long, value_name = "PATH")]
    pub(crate) sendmail: Option<PathBuf>,
    /// How often arrays are looked at: a time, or seconds
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "10s")]
    pub(crate) interval: Duration,
    /// How long an array may give no answer until that is told
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "20s")]
    pub(crate) patience: Duration,
    /// Tell what is routine, too: scrubs, starts and stops
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Send one test message by every way, and end
    #[arg(long, conflicts_with_all = ["once", "new"])]
    pub(crate) test: bool,
    /// Tell all that is wrong now, whether or not it was told before, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// With --once: tell what was not told before, and what has happened since the last time
    #[arg(long, requires = "once")]
    pub(crate) new: bool,
}

/// An address of mail, which can't be taken for an option or another header.
fn address(text: &str) -> Result<String, String> {
    let is_bad = |c: char| c.is_whitespace() || c.is_control() || c == ',';
    if text.is_empty() || text.starts_with('-') || text.contains(is_bad) {
        return Err("it is one address, such as root or admin@example.org".to_owned());
    }
    Ok(text.to_owned())
}

/// A URL that is posted to.
fn url(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_bad = |c: char| c.is_whitespace() || c.is_control();
    if host.is_none_or(|host| host.is_empty() || host.starts_with('/')) || text.contains(is_bad) {
        return Err("it is a URL that begins with http:// or https://".to_owned());
    }
    Ok(text.to_owned())
}
