//! Metrics of a log volume.

use raidcore::units::BLOCK_BYTES;

use super::text::Text;
use crate::control::Facts;
use crate::host::LogStatus;

/// Those of the volume, and of its groups what the volume knows of them.
pub(super) fn volume(text: &mut Text, facts: &Facts, log: &LogStatus) {
    let name = ("array", &*facts.name);
    let LogStatus { shape, status, used } = log;
    let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
    let c = &status.counters;
    text.gauge("evenkeel_log_info", "What does not change while a log volume runs.")
        .sample(&[name, ("uuid", &facts.uuid), ("layout", &facts.level)], 1);
    let gauges = [
        ("evenkeel_log_capacity_bytes", "What users see.", facts.capacity_bytes),
        ("evenkeel_log_room_bytes", "What could live in the log.", bytes(used.1)),
        ("evenkeel_log_used_bytes", "What lives in the log.", bytes(used.0)),
        (
            "evenkeel_log_stalled",
            "1 while users' writes wait until segments are free.",
            u64::from(status.stalled),
        ),
        ("evenkeel_log_failed", "1 if the volume takes no more writes.", u64::from(status.failed)),
        ("evenkeel_log_front", "The group that takes what users write.", status.front.0.into()),
    ];
    gauges
        .into_iter()
        .for_each(|(metric, help, value)| text.gauge(metric, help).sample(&[name], value));
    let counters = [
        ("evenkeel_log_written_bytes_total", "Written by users.", bytes(c.written)),
        ("evenkeel_log_moved_bytes_total", "Moved by cleaners.", bytes(c.moved)),
        (
            "evenkeel_log_logged_bytes_total",
            "Written to the log: data, what was moved, summaries, padding.",
            bytes(c.logged),
        ),
        ("evenkeel_log_padding_bytes_total", "Of these, padding.", bytes(c.padding)),
        ("evenkeel_log_checkpoint_bytes_total", "Written as checkpoints.", bytes(c.stored)),
        ("evenkeel_log_checkpoints_total", "Checkpoints.", c.checkpoints),
        ("evenkeel_log_cleaned_segments_total", "Segments that were cleaned.", c.cleaned),
        (
            "evenkeel_log_rotations_total",
            "How often another group took over what users write.",
            c.rotations,
        ),
        (
            "evenkeel_log_stalls_total",
            "How often users' writes had to wait for free segments.",
            c.stalls,
        ),
    ];
    counters
        .into_iter()
        .for_each(|(metric, help, value)| text.counter(metric, help).sample(&[name], value));
    let waited = "How long users' writes have waited for cleaning, in all.";
    text.counter("evenkeel_log_wait_seconds_total", waited).sample(&[name], c.waited.as_secs_f64());
    for (group, &(free, freeing, live)) in status.groups.iter().enumerate() {
        let number = group.to_string();
        let labels = [name, ("group", &*number)];
        let cleaning = status.cleaning.iter().any(|cleaned| cleaned.index() == group);
        let of_group = [
            ("evenkeel_log_segments", "A group's segments.", u64::from(shape.group_segments())),
            ("evenkeel_log_free_segments", "Those that are free.", free.into()),
            ("evenkeel_log_freeing_segments", "Those that a checkpoint frees.", freeing.into()),
            ("evenkeel_log_group_used_bytes", "What lives in a group.", bytes(live)),
            ("evenkeel_log_cleaning", "1 while a group is cleaned.", cleaning.into()),
        ];
        for (metric, help, value) in of_group {
            text.gauge(metric, help).sample(&labels, value);
        }
    }
}
