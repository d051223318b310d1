//! Waiting for background work, with a bar on a terminal.

use std::time::Duration;

use anyhow::Result;
use evenkeel_client::{ArrayReport, Client, MemberState};
use indicatif::{ProgressBar, ProgressStyle};

use crate::commands::rate;
use crate::output::{Output, duration};

/// How often to ask.
const POLL: Duration = Duration::from_millis(100);

/// Waits until no background pass runs and no member is being rebuilt, or until the operator is
/// needed; returns the state of the array.
pub(crate) fn wait(client: &mut Client, output: Output) -> Result<ArrayReport> {
    let bar = if output.is_json() { ProgressBar::hidden() } else { ProgressBar::new(0) };
    let style = ProgressStyle::with_template("{prefix} [{bar:32}] {percent:>3} %  {msg}")?;
    bar.set_style(style.progress_chars("=> "));
    loop {
        let report = client.status()?;
        let Some(pass) = &report.pass else {
            if report.members.iter().any(|m| m.state == MemberState::Rebuilding) {
                std::thread::sleep(POLL);
                continue;
            }
            bar.finish_and_clear();
            return Ok(report);
        };
        let left = pass.left_ms.map(|ms| format!("{} left", duration(ms.div_ceil(1000))));
        bar.set_prefix(pass.task.name());
        bar.set_length(pass.total_bytes);
        bar.set_position(pass.done_bytes);
        let known: Vec<_> = rate(pass).into_iter().chain(left).collect();
        bar.set_message(format!("{}  (Ctrl-C leaves it running)", known.join(", ")));
        if pass.paused || pass.stuck_at_stripe.is_some() {
            bar.abandon();
            return Ok(report);
        }
        std::thread::sleep(POLL);
    }
}
