//! What a write cache in memory holds.

use evenkeel_client::VolatileReport;

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
}
