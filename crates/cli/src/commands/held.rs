//! What write caches hold: one in memory, and the staging log.

use evenkeel_client::{StagingReport, VolatileReport, Waits};

use crate::output::duration;
use crate::size::Size;

/// A write cache in memory, for people.
pub(crate) fn held(cache: &VolatileReport) -> String {
    let room = Size(cache.capacity_bytes);
    let dirty = match Size(cache.dirty_bytes) {
        Size(0) => format!("all is at home, with room for {room}"),
        dirty => format!("{dirty} of {room} not at home yet"),
    };
    let age = cache.oldest_seconds.map(|age| format!(", the oldest for {}", duration(age as u64)));
    let stuck = match Size(cache.stuck_bytes) {
        Size(0) => "",
        _ => ", and some can't be brought home",
    };
    let off = if cache.holds { "" } else { "; writes go past it" };
    let again = match cache.again_bytes * 100 / cache.written_bytes.max(1) {
        0 => String::new(),
        percent => format!(", {percent}% over what was held already"),
    };
    format!(
        "{dirty}{}{stuck}{off}; {} written{again}, {} brought home, {} read from it, {} writes waited for \
         room",
        age.unwrap_or_default(),
        Size(cache.written_bytes),
        Size(cache.home_bytes),
        Size(cache.read_bytes),
        cache.waits
    )
}

/// A staging log, for people.
pub(crate) fn staged(log: &StagingReport) -> String {
    let &StagingReport { writes, full, .. } = log;
    let dirty = match Size(log.dirty_bytes) {
        Size(0) => "all is at home".to_owned(),
        dirty if log.draining => format!("draining: {dirty}"),
        dirty => format!("{dirty} not at home yet"),
    };
    let age = log.oldest_seconds.map(|age| format!(", the oldest for {}", duration(age as u64)));
    let waits = log.waits.map(|waits| match waits {
        Waits::Users => ", as there is room and users are served",
        Waits::Rebuild => ", as there is room and a rebuild needs the members",
        Waits::Busy => ", as the members are busy",
        Waits::Stuck => ", and some can't be brought home",
        Waits::Refused => ", as the array takes no writes",
    });
    let cache = match &*log.cache {
        "" | "none" => String::new(),
        cache => format!("cache {cache}; "),
    };
    let takes = log.home_seconds.filter(|_| log.dirty_bytes > 0);
    let takes =
        takes.map(|takes| format!(", about {} to bring home", duration(takes.ceil() as u64)));
    let (age, waits) = (age.unwrap_or_default(), waits.unwrap_or_default());
    let takes = takes.unwrap_or_default();
    let again = match log.again_bytes * 100 / log.written_bytes.max(1) {
        0 => String::new(),
        percent => format!(", {percent}% over what was staged already"),
    };
    let copies = match (Size(log.copied_bytes), log.copy_reads) {
        (Size(0), 0) => String::new(),
        (copies, reads) => format!("{copies} copied, {reads} reads served from copies; "),
    };
    format!(
        "{cache}{dirty}{age}{waits}{takes}; {} of {} in use; {writes} writes ({}) staged{again}, {} brought \
         home, {full} found no room; {copies}{} in memory, the table takes {}",
        Size(log.used_bytes),
        Size(log.capacity_bytes),
        Size(log.written_bytes),
        Size(log.reclaimed_bytes),
        Size(log.kept_bytes),
        Size(log.table_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_what_is_held_and_what_became_of_the_rest() {
        let mut cache = VolatileReport {
            capacity_bytes: 60 << 20,
            dirty_bytes: 0,
            oldest_seconds: None,
            stuck_bytes: 0,
            waiting_writes: 0,
            flushing: false,
            holds: true,
            written_bytes: 40 << 20,
            again_bytes: 10 << 20,
            read_bytes: 1 << 20,
            home_bytes: 30 << 20,
            failures: 0,
            waits: 3,
        };
        let done = "; 40 MiB written, 25% over what was held already, 30 MiB brought home, 1 MiB read from \
                    it, 3 writes waited for room";
        assert_eq!(held(&cache), format!("all is at home, with room for 60 MiB{done}"));
        (cache.dirty_bytes, cache.oldest_seconds, cache.stuck_bytes) = (8 << 20, Some(4.0), 4096);
        let what =
            "8 MiB of 60 MiB not at home yet, the oldest for 4 s, and some can't be brought home";
        assert_eq!(held(&cache), format!("{what}{done}"));
    }

    #[test]
    fn a_staging_log_is_told_in_a_line() {
        let mib = 1 << 20;
        let log = StagingReport {
            dirty_bytes: 12 * mib,
            staged_bytes: 14 * mib,
            used_bytes: 20 * mib,
            capacity_bytes: 64 * mib,
            table_bytes: 2 * mib,
            kept_bytes: 5 * mib,
            kept_read_bytes: mib,
            draining: false,
            cache: "none".to_owned(),
            oldest_seconds: None,
            home_seconds: None,
            waits: None,
            flushing: false,
            again_bytes: 0,
            writes: 1234,
            written_bytes: 40 * mib,
            read_bytes: mib,
            copied_bytes: 0,
            copy_reads: 0,
            reclaimed_bytes: 28 * mib,
            discarded_bytes: 0,
            full: 3,
            lost_bytes: 0,
            lost: Vec::new(),
        };
        assert_eq!(
            staged(&log),
            "12 MiB not at home yet; 20 MiB of 64 MiB in use; 1234 writes (40 MiB) staged, 28 MiB \
             brought home, 3 found no room; 5 MiB in memory, the table takes 2 MiB"
        );
        assert!(
            staged(&StagingReport { draining: true, ..log.clone() })
                .starts_with("draining: 12 MiB; ")
        );
        let waits = StagingReport {
            cache: "log".to_owned(),
            oldest_seconds: Some(75.9),
            home_seconds: Some(2.1),
            waits: Some(Waits::Users),
            again_bytes: 30 * mib,
            ..log.clone()
        };
        let text = staged(&waits);
        let begin = "cache log; 12 MiB not at home yet, the oldest for 1 min 15 s, as there is room and \
                     users are served, about 3 s to bring home; ";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains("(40 MiB) staged, 75% over what was staged already, "), "{text}");
        let copies = StagingReport { dirty_bytes: 0, copied_bytes: mib, copy_reads: 7, ..log };
        let text = staged(&copies);
        assert!(text.starts_with("all is at home; "), "{text}");
        assert!(
            text.contains("room; 1 MiB copied, 7 reads served from copies; 5 MiB in memory"),
            "{text}"
        );
    }
}
