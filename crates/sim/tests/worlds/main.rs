//! Worlds that are played: a file for each kind. One program, so that no processor waits for the longest.

mod distributed;
mod lease;
mod log;
mod pairs;
mod placements;
mod reshape;
mod seeds;
mod stack;
mod volatile;
mod young;

/// So many seeds from this one on; `EVENKEEL_ROUNDS` times as many, if that is set.
fn range(first: u64, count: u64) -> std::ops::Range<u64> {
    let rounds = std::env::var("EVENKEEL_ROUNDS").ok();
    let rounds = rounds.map_or(1, |rounds| rounds.parse().expect("EVENKEEL_ROUNDS is a number"));
    first..first + count * rounds
}
