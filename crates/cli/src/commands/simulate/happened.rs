//! The counters of simulated worlds, for people and for programs.

use serde_json::{Value, json};
use sim::log::LogSummary;
use sim::stack::StackSummary;
use sim::{FaultCounts, Summary};

/// A summary that can be printed.
pub(super) trait Happened {
    /// The fields of an object.
    fn json(&self) -> Value;

    /// The rest of a sentence.
    fn text(&self) -> String;
}

impl Happened for Summary {
    fn json(&self) -> Value {
        let faults = &self.faults;
        json!({
            "simulated_seconds": self.simulated.as_secs(),
            "requests": self.requests,
            "refused_requests": self.errors,
            "garbage_collections": self.collections,
            "detours": self.detours,
            "staged_writes": self.staged,
            "reclaimed_blocks": self.reclaimed,
            "events": self.events,
            "commands": self.commands,
            "faults": {
                "power_failures": faults.crashes,
                "disks_gone": faults.gone,
                "disks_returned": faults.returned,
                "failed_writes": faults.write,
                "unreadable_blocks": faults.unreadable,
                "stalls": faults.stalls,
                "hangs": faults.hangs,
                "silent_corruptions": faults.silent,
                "beyond_redundancy": faults.beyond,
            },
        })
    }

    fn text(&self) -> String {
        let FaultCounts {
            crashes,
            gone,
            returned,
            write,
            unreadable,
            stalls,
            hangs,
            silent,
            beyond,
        } = self.faults;
        format!(
            "{} requests, {} events, {} simulated hours\n  the power failed {crashes} times, {gone} \
             disks went, {returned} returned, {write} writes failed, {unreadable} blocks could not be read,\n  {stalls} \
             disks stalled, {hangs} times one or all hung, {silent} stripes changed without a \
             word, {beyond} times more failed than can be borne,\n  {} commands were given, {} \
             requests ended with an error as they had to,\n  SSDs collected garbage {} times, {} \
             reads went around members that were said to be busy, {} writes were staged\n  and {} \
             blocks brought home",
            self.requests,
            self.events,
            self.simulated.as_secs() / 3600,
            self.commands,
            self.errors,
            self.collections,
            self.detours,
            self.staged,
            self.reclaimed,
        )
    }
}

impl Happened for LogSummary {
    fn json(&self) -> Value {
        json!({
            "requests": self.requests,
            "refused_requests": self.errors,
            "events": self.events,
            "replayed_batches": self.replayed,
            "checkpoints": self.checkpoints,
            "cleaned_segments": self.cleaned,
            "moved_blocks": self.moved,
            "rotations": self.rotations,
            "stalls": self.stalls,
            "faults": { "power_failures": self.crashes },
        })
    }

    fn text(&self) -> String {
        format!(
            "{} requests, {} events\n  the power failed or the host died {} times, {} batches were \
             replayed, {} requests ended with an error as they had to,\n  {} checkpoints were \
             written, {} segments cleaned and {} blocks moved, {} times another group went to the \
             front,\n  and users waited {} times for room",
            self.requests,
            self.events,
            self.crashes,
            self.replayed,
            self.errors,
            self.checkpoints,
            self.cleaned,
            self.moved,
            self.rotations,
            self.stalls,
        )
    }
}

impl Happened for StackSummary {
    fn json(&self) -> Value {
        json!({
            "requests": self.requests,
            "events": self.events,
            "commands": self.commands,
            "proven_blocks": self.proven,
            "checkpoints": self.checkpoints,
            "moved_blocks": self.moved,
            "rotations": self.rotations,
            "faults": {
                "power_failures": self.crashes,
                "disks_gone": self.gone,
                "disks_gone_with_power": self.gone_with_power,
                "disks_gone_after_start": self.gone_after_start,
                "hangs": self.hangs,
                "stale_disks": self.returned,
                "unreadable_blocks": self.unreadable,
            },
        })
    }

    fn text(&self) -> String {
        format!(
            "{} requests, {} events\n  the power failed or the host died {} times, {} members were \
             lost ({} with the power, {} as soon as a start had read all),\n  {} times one or all \
             of a group hung, {} disks came back stale, {} blocks could not be read, {} commands \
             were given,\n  {} checkpoints were written, {} blocks moved, {} times another group \
             went to the front, and starts proved {} blocks",
            self.requests,
            self.events,
            self.crashes,
            self.gone,
            self.gone_with_power,
            self.gone_after_start,
            self.hangs,
            self.returned,
            self.unreadable,
            self.commands,
            self.checkpoints,
            self.moved,
            self.rotations,
            self.proven,
        )
    }
}
