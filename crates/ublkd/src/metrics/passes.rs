//! Metrics of work in the background, and of what scrubs find.

use raidcore::engine::{PassKind, PassStatus};
use raidcore::meta::{ScrubEnd, ScrubRecord};

use super::text::Text;
use crate::control::{Facts, PassReport, pass_report};

/// The pass under way, if there is one.
pub(super) fn under_way(text: &mut Text, facts: &Facts, pass: Option<&PassStatus>) {
    let report = pass.map(|pass| (task(pass.kind), pass_report(pass, facts.chunk_bytes, None)));
    let mut gauge = |metric, help, value: fn(&PassReport) -> Option<f64>| {
        let mut family = text.gauge(metric, help);
        if let Some((task, report)) = &report {
            let labels = [("array", &*facts.name), ("task", *task)];
            value(report).into_iter().for_each(|value| family.sample(&labels, value));
        }
    };
    gauge(
        "evenkeel_background_done_ratio",
        "How far the rebuild, copy, resync, scrub or reshape is, if there is one.",
        |pass| {
            Some(if pass.total_bytes == 0 {
                1.0
            } else {
                pass.done_bytes as f64 / pass.total_bytes as f64
            })
        },
    );
    gauge("evenkeel_background_done_bytes", "What of each member it has done.", |pass| {
        Some(pass.done_bytes as f64)
    });
    gauge("evenkeel_background_total_bytes", "What of each member it has to do in all.", |pass| {
        Some(pass.total_bytes as f64)
    });
    gauge(
        "evenkeel_background_bytes_per_second",
        "How fast it has read or written each member since it began, without stripes that needed neither.",
        |pass| (pass.bytes_per_second > 0).then_some(pass.bytes_per_second as f64),
    );
    gauge(
        "evenkeel_background_left_seconds",
        "How long the rest takes, as fast as it went so far; none while it is paused or waits.",
        |pass| pass.left_ms.map(|left| left as f64 / 1000.0),
    );
    gauge("evenkeel_background_paused", "1 while it is paused.", |pass| {
        Some(f64::from(u8::from(pass.paused)))
    });
    gauge(
        "evenkeel_background_left_behind_stripes",
        "Stripes that it could not do, as too much of them can't be read or written.",
        |pass| Some(pass.left_stripes as f64),
    );
    gauge(
        "evenkeel_background_mismatched_rows",
        "Rows (a block of each member) that it has found not to match so far.",
        |pass| Some(pass.mismatches as f64),
    );
}

/// The result of the last scrub, if there was one.
pub(super) fn last_scrub(text: &mut Text, array: &str, scrub: Option<&ScrubRecord>) {
    let mut gauge = |metric, help, value: fn(&ScrubRecord) -> u64| {
        let mut family = text.gauge(metric, help);
        scrub.into_iter().for_each(|scrub| family.sample(&[("array", array)], value(scrub)));
    };
    gauge(
        "evenkeel_scrub_mismatched_rows",
        "Rows (a block of each member) that the last scrub found not to match.",
        |scrub| scrub.rows,
    );
    gauge(
        "evenkeel_scrub_located_rows",
        "Of these, rows in which redundancy tells which blocks are wrong.",
        |scrub| scrub.located,
    );
    gauge("evenkeel_scrub_repaired_rows", "Of these, rows that it has corrected.", |scrub| {
        match scrub.end {
            ScrubEnd::Repaired => scrub.rows,
            ScrubEnd::Compared | ScrubEnd::CutShort => 0,
        }
    });
    gauge(
        "evenkeel_scrub_unrepaired_rows",
        "Of these, rows that were not corrected, until a scrub does that.",
        ScrubRecord::unrepaired,
    );
    gauge(
        "evenkeel_scrub_timestamp_seconds",
        "When the last scrub ended, in seconds since 1970.",
        |scrub| scrub.at,
    );
}

fn task(kind: PassKind) -> &'static str {
    match kind {
        PassKind::Resync => "resync",
        PassKind::Rebuild(_) => "rebuild",
        PassKind::Distribute(_) => "distribute",
        PassKind::Copy(_) => "copy",
        PassKind::Scrub { .. } => "scrub",
        PassKind::Reshape => "reshape",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_that_repairs_leaves_nothing() {
        let found = ScrubRecord { end: ScrubEnd::Compared, at: 7, rows: 5, located: 2 };
        let samples = |scrub: Option<&ScrubRecord>| {
            let mut text = Text::default();
            last_scrub(&mut text, "tank", scrub);
            let page = text.finish();
            let samples = page.lines().filter(|line| !line.starts_with('#'));
            samples
                .map(|line| line.rsplit(' ').next().map(str::to_owned))
                .collect::<Option<Vec<_>>>()
        };
        let told = |numbers: [&str; 5]| Some(numbers.map(str::to_owned).to_vec());
        assert_eq!(samples(Some(&found)), told(["5", "2", "0", "5", "7"]));
        let repaired = ScrubRecord { end: ScrubEnd::Repaired, ..found };
        assert_eq!(samples(Some(&repaired)), told(["5", "2", "5", "0", "7"]));
        assert_eq!(samples(None), Some(Vec::new()));
    }
}
