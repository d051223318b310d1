//! Metrics of arrays and log volumes, with their names and descriptions.

use raidcore::engine::{ArrayHealth, Counters, MemberStatus, MissedStatus, SpareUse, Status};
use raidcore::meta::SlotState;
use raidcore::units::BLOCK_BYTES;

use super::text::{Labels, Text};
use super::{cache, log, passes, requests, wear};
use crate::control::Facts;
use crate::health::{Reading, Readings};
use crate::host::{
    CacheState, LATENCY_BOUNDS_NS, LogStatus, MemberMetrics, Metrics, RequestStats, Transfers,
};

/// The whole page.
pub(super) fn page(
    arrays: &[(&Facts, Metrics)],
    users: (&Facts, &RequestStats),
    log: Option<(&Facts, &LogStatus)>,
    cache: Option<&CacheState>,
    drives: &Readings,
) -> String {
    let mut text = Text::default();
    for (facts, metrics) in arrays {
        array(&mut text, facts, metrics);
        counters(&mut text, facts, metrics);
        passes::under_way(&mut text, facts, metrics.status.pass.as_ref());
        passes::last_scrub(&mut text, &facts.name, metrics.status.last_scrub.as_ref());
        let members = Members::new(facts, metrics);
        members.state(&mut text, metrics);
        members.io(&mut text);
        members.busy(&mut text);
        wear::members(&mut text, &facts.name, &members.drives(metrics, drives));
    }
    requests::asked(&mut text, &users.0.name, users.1);
    if let Some((facts, log)) = log {
        log::volume(&mut text, facts, log);
    }
    if let Some(state) = cache {
        cache::volatile(&mut text, users.0, state);
    }
    text.finish()
}

fn array(text: &mut Text, facts: &Facts, metrics: &Metrics) {
    let name = ("array", &*facts.name);
    let status = &metrics.status;
    text.gauge("evenkeel_info", "What does not change while the array runs, and its policy.")
        .sample(
            &[
                name,
                ("uuid", &facts.uuid),
                ("level", &facts.level),
                ("consistency", &facts.consistency),
                ("policy", &metrics.scheme.to_string()),
                ("version", env!("CARGO_PKG_VERSION")),
            ],
            1,
        );
    let health = match status.health {
        ArrayHealth::Online => "online",
        ArrayHealth::Degraded => "degraded",
        ArrayHealth::Failed => "failed",
    };
    text.gauge("evenkeel_health", "1 for how well the array is: online, degraded or failed.")
        .states(&[name], "state", &["online", "degraded", "failed"], health);
    let capacity = status.capacity * BLOCK_BYTES as u64;
    text.gauge("evenkeel_capacity_bytes", "What users see.").sample(&[name], capacity);
    text.gauge(
        "evenkeel_registered_bytes",
        "Memory of I/O that the kernel keeps in RAM; of a log volume that of all its groups.",
    )
    .sample(&[name], metrics.registered_bytes);
    text.gauge("evenkeel_spares", "Devices that wait to take a member's place.")
        .sample(&[name], status.spares.len());
    text.gauge("evenkeel_dirty_regions", "Regions marked in the write-intent bitmap.")
        .sample(&[name], status.dirty_regions.0);
    text.gauge("evenkeel_replayable_writes", "Writes that a start after a crash would carry out.")
        .sample(&[name], status.replayable);
    let since = status.policy.filter(|policy| policy.name.as_str() == metrics.scheme.to_string());
    let mut policy = text.gauge(
        "evenkeel_policy_timestamp_seconds",
        "When the array was told to follow its policy, in seconds since 1970.",
    );
    since.into_iter().for_each(|since| policy.sample(&[name], since.since));
    staged(text, name, status);
    let used = status.distributed_spare.map(|used| match used {
        SpareUse::Free => "free",
        SpareUse::Filling(_) => "filling",
        SpareUse::StandsInFor(_) => "used",
    });
    let mut spare = text.gauge(
        "evenkeel_distributed_spare",
        "1 for what the distributed spare is: free, filling (with what was on a member) or used.",
    );
    if let Some(used) = used {
        spare.states(&[name], "state", &["free", "filling", "used"], used);
    }
    let mut missed = text.gauge(
        "evenkeel_member_missed_bytes",
        "What the device of a member that is away, or has come back, lacks at most.",
    );
    for member in &status.members {
        if let Some(MissedStatus { blocks, .. }) = member.missed {
            let number = member.member.0.to_string();
            missed.sample(&[name, ("member", &number)], blocks * BLOCK_BYTES as u64);
        }
    }
    let lost: u64 = status.lost.iter().map(|&(_, blocks)| blocks).sum();
    text.gauge("evenkeel_lost_bytes", "Staged, and can't be read from any member that held it.")
        .sample(&[name], lost * BLOCK_BYTES as u64);
}

fn staged(text: &mut Text, name: (&'static str, &str), status: &Status) {
    let mut bytes = text.gauge("evenkeel_staged_bytes", "In the staging log, not at home yet.");
    if let Some(staging) = &status.staging {
        bytes.sample(&[name], staging.dirty * BLOCK_BYTES as u64);
        let age = staging.oldest.map_or(0.0, |age| age.as_secs_f64());
        text.gauge(
            "evenkeel_staged_oldest_seconds",
            "For how long the oldest block has been staged that is not at home.",
        )
        .sample(&[name], age);
        let mut home = text.gauge(
            "evenkeel_staged_home_seconds",
            "How long all that is staged takes to come home, as fast as it went of late.",
        );
        staging.takes.iter().for_each(|takes| home.sample(&[name], takes.as_secs_f64()));
        let room = [
            (
                "evenkeel_staging_used_bytes",
                "What of the staging log is in use on the member where it is fullest.",
                staging.used,
            ),
            ("evenkeel_staging_capacity_bytes", "What each member has of it.", staging.capacity),
            (
                "evenkeel_staged_kept_bytes",
                "Of what is staged and not at home, what is in memory, too.",
                staging.kept,
            ),
        ];
        for (metric, help, blocks) in room {
            text.gauge(metric, help).sample(&[name], blocks * BLOCK_BYTES as u64);
        }
    }
}

fn counters(text: &mut Text, facts: &Facts, metrics: &Metrics) {
    let name = ("array", &*facts.name);
    let c = metrics.status.counters;
    let mut requests = text.counter("evenkeel_requests_total", "Requests that have ended.");
    requests.sample(&[name, ("result", "ok")], c.requests);
    requests.sample(&[name, ("result", "error")], c.errors);
    let mut writes = text.counter(
        "evenkeel_stripe_writes_total",
        "Stripe writes that needed no read (full), by read-modify-write (delta), by \
         reconstruct-write (reconstruct).",
    );
    writes.sample(&[name, ("way", "full")], c.full_stripe_writes);
    writes.sample(&[name, ("way", "delta")], c.delta_writes);
    writes.sample(&[name, ("way", "reconstruct")], c.reconstruct_writes);
    let mut counter = |metric, help, value: u64| text.counter(metric, help).sample(&[name], value);
    counter(
        "evenkeel_unjournaled_writes_total",
        "Full stripe writes that went past the journal.",
        c.unjournaled_writes,
    );
    counter(
        "evenkeel_merged_writes_total",
        "Writes that were carried out together with another of the same stripe.",
        c.merged_writes,
    );
    counter(
        "evenkeel_warm_bytes_total",
        "Old data and parity that writes found in memory, and did not read.",
        c.warm_blocks * BLOCK_BYTES as u64,
    );
    counter(
        "evenkeel_reconstructed_reads_total",
        "Reads served by reconstruction, detours included.",
        c.reconstructed_reads,
    );
    counter("evenkeel_detours_total", "Reads that went around busy members.", c.detours);
    counter(
        "evenkeel_hedged_reads_total",
        "Reads that took so long that another way was tried, too.",
        c.hedged_reads,
    );
    counter("evenkeel_hedges_won_total", "Of these, those that it had first.", c.hedges_won);
    counter(
        "evenkeel_hedged_writes_total",
        "Staged writes that took so long that other members got them, too.",
        c.hedged_writes,
    );
    counter(
        "evenkeel_hedged_home_writes_total",
        "Writes that took so long at home that they were staged as well.",
        c.hedged_home_writes,
    );
    counter(
        "evenkeel_home_meanwhile_bytes_total",
        "What of these came home by itself, and was not brought there.",
        c.home_meanwhile * BLOCK_BYTES as u64,
    );
    counter(
        "evenkeel_detour_extra_bytes_total",
        "What detours and hedged reads have read beyond what was asked for.",
        c.detour_blocks * BLOCK_BYTES as u64,
    );
    counter(
        "evenkeel_members_returned_total",
        "Members' devices that were away and came back, to be filled with what they had missed.",
        c.returned_members,
    );
    counter("evenkeel_journal_entries_total", "Journal entries written.", c.journal_entries);
    counter("evenkeel_metadata_writes_total", "Metadata blocks written.", c.meta_stores);
    counters_of_staging(text, facts, c);
}

fn counters_of_staging(text: &mut Text, facts: &Facts, c: Counters) {
    let name = ("array", &*facts.name);
    let mut counter = |metric, help, value: u64| text.counter(metric, help).sample(&[name], value);
    let staged = [
        ("evenkeel_staged_writes_total", "Writes staged on other members.", c.staged_writes),
        ("evenkeel_copy_reads_total", "Reads served from copies on other members.", c.copy_reads),
        (
            "evenkeel_staging_full_total",
            "Writes that would have been staged, but there was no room.",
            c.staging_full,
        ),
    ];
    staged.into_iter().for_each(|(metric, help, value)| counter(metric, help, value));
    let bytes = |blocks| blocks * BLOCK_BYTES as u64;
    let moved = [
        ("evenkeel_staged_bytes_total", "What staged writes wrote.", c.staged_blocks),
        (
            "evenkeel_staged_again_bytes_total",
            "Of what staged writes wrote, what was staged already and not at home yet.",
            c.staged_again,
        ),
        ("evenkeel_copied_bytes_total", "What copies were made of.", c.copied_blocks),
        ("evenkeel_staged_read_bytes_total", "What was read from the staging log.", c.staged_reads),
        (
            "evenkeel_staged_kept_read_bytes_total",
            "What of the staging log was found in memory, and not read there.",
            c.kept_reads,
        ),
        (
            "evenkeel_reclaimed_bytes_total",
            "What was brought home from the staging log.",
            c.reclaimed_blocks,
        ),
        (
            "evenkeel_staging_discarded_bytes_total",
            "What of the staging log was void, and members were asked to discard.",
            c.trimmed_blocks,
        ),
    ];
    moved.into_iter().for_each(|(metric, help, blocks)| counter(metric, help, bytes(blocks)));
}

/// The members with their numbers in words.
struct Members<'a> {
    array: &'a str,
    members: Vec<(String, &'a MemberMetrics)>,
}

impl<'a> Members<'a> {
    fn new(facts: &'a Facts, metrics: &'a Metrics) -> Self {
        let numbers = metrics.status.members.iter().map(|member| member.member.0.to_string());
        Self { array: &facts.name, members: numbers.zip(&metrics.members).collect() }
    }

    fn state(&self, text: &mut Text, metrics: &Metrics) {
        let mut states = text
            .gauge("evenkeel_member_state", "1 for a member's state: up, rebuilding or failed.");
        for ((number, _), member) in self.members.iter().zip(&metrics.status.members) {
            let state = match member.state {
                SlotState::Up => "up",
                SlotState::Rebuilding { .. } => "rebuilding",
                SlotState::Failed => "failed",
            };
            let all = ["up", "rebuilding", "failed"];
            states.states(&[("array", self.array), ("member", number)], "state", &all, state);
        }
        let mut around = |metric, help, value: fn(&MemberStatus) -> u64| {
            let mut family = text.counter(metric, help);
            for ((number, _), member) in self.members.iter().zip(&metrics.status.members) {
                family.sample(&[("array", self.array), ("member", number)], value(member));
            }
        };
        around(
            "evenkeel_member_detours_total",
            "Reads that went around the member as it was busy; one can have gone around several.",
            |member| member.avoided.reads,
        );
        around(
            "evenkeel_member_staged_writes_total",
            "Writes staged on others as the member was busy; it can have been several at once.",
            |member| member.avoided.writes,
        );
        let mut errors = text.counter(
            "evenkeel_member_errors_total",
            "I/O errors of a member since the start, whether corrected or not.",
        );
        for ((number, _), member) in self.members.iter().zip(&metrics.status.members) {
            let labels = |op| [("array", self.array), ("member", &**number), ("op", op)];
            errors.sample(&labels("read"), member.read_errors);
            errors.sample(&labels("write"), member.write_errors);
        }
    }

    fn io(&self, text: &mut Text) {
        let bounds = LATENCY_BOUNDS_NS.map(|nanos| nanos as f64 / 1e9);
        let mut latency = text.histogram(
            "evenkeel_member_io_seconds",
            "How long a member's I/Os took that succeeded, metadata included.",
        );
        self.each_op(|labels, io| {
            latency.distribution(labels, bounds.into_iter(), &io.buckets, io.nanos as f64 / 1e9);
        });
        let mut bytes =
            text.counter("evenkeel_member_io_bytes_total", "What these I/Os have moved.");
        self.each_op(|labels, io| bytes.sample(labels, io.bytes));
    }

    fn busy(&self, text: &mut Text) {
        let mut gauge = |metric, help, value: fn(&MemberMetrics) -> Option<f64>| {
            let mut family = text.gauge(metric, help);
            self.each(|labels, member| {
                value(member).into_iter().for_each(|value| family.sample(labels, value));
            });
        };
        gauge("evenkeel_member_busy", "1 while reads go around the member.", |member| {
            member.busy.map(|(busy, _)| f64::from(busy))
        });
        gauge("evenkeel_member_collecting", "1 while a modelled SSD collects garbage.", |member| {
            member.collecting.map(|(collecting, _)| f64::from(collecting))
        });
        gauge(
            "evenkeel_member_gc_probability",
            "How likely it is that an I/O sent to the member now is delayed: 0 or 1 where it says \
             itself that it collects garbage, else the share of late I/Os while it was thought to \
             be as it is now.",
            |member| {
                let says = member.collecting.map(|(collecting, _)| f64::from(collecting));
                if member.verdicts.is_some() { member.late } else { says }
            },
        );
        let mut counter = |metric, help, value: fn(&MemberMetrics) -> Option<f64>| {
            let mut family = text.counter(metric, help);
            self.each(|labels, member| {
                value(member).into_iter().for_each(|value| family.sample(labels, value));
            });
        };
        counter(
            "evenkeel_member_busy_seconds_total",
            "For how long reads went around the member, since the policy was set.",
            |member| member.busy.map(|(_, time)| time.as_secs_f64()),
        );
        counter(
            "evenkeel_member_collecting_seconds_total",
            "For how long a modelled SSD has collected garbage since it was opened.",
            |member| member.collecting.map(|(_, time)| time.as_secs_f64()),
        );
        let mut verdicts = text.counter(
            "evenkeel_member_busy_verdicts_total",
            "Verdicts from its latencies that the member is busy, by whether they were right.",
        );
        self.each(|labels, member| {
            let Some((right, wrong)) = member.verdicts else { return };
            let with = |outcome| [labels, &[("outcome", outcome)]].concat();
            verdicts.sample(&with("right"), right);
            verdicts.sample(&with("wrong"), wrong);
        });
    }

    /// Those whose drives tell something of themselves.
    fn drives(&self, metrics: &Metrics, drives: &Readings) -> Vec<(String, Reading)> {
        let members = self.members.iter().zip(&metrics.status.members);
        let known = members
            .filter_map(|((number, _), member)| Some((number.clone(), drives.of(member.device?)?)));
        known.collect()
    }

    fn each(&self, mut visit: impl FnMut(Labels<'_>, &MemberMetrics)) {
        for (number, member) in &self.members {
            visit(&[("array", self.array), ("member", number)], member);
        }
    }

    fn each_op(&self, mut visit: impl FnMut(Labels<'_>, &Transfers)) {
        for (number, member) in &self.members {
            for (op, io) in [("read", &member.io.reads), ("write", &member.io.writes)] {
                visit(&[("array", self.array), ("member", number), ("op", op)], io);
            }
        }
    }
}
