//! Volumes that are full, and overwritten at random: how long a write has to wait for cleaning.

use crate::world::{closed, figures};

/// An SSD of 128 MiB that erases 256 KiB at once. It is filled with what users have, and no more.
const SSD: &str = "[ssd]\nprofile = 'msr2008'\nblocks = 512\nuse = 'filled'\n\
                   set = { geometry = { channels = 4, planes = 1, pages = 16 }, \
                   nand = { erase_us = 750 }, ftl = { summary = false } }\n";

/// The longest wait, by the model's; after so many overwritten blocks.
fn waits(log: &str, requests: u64) -> f64 {
    let run = format!("[run]\nrequests = {requests}\n");
    let f = figures(&[&format!("[log]\n{log}\n"), SSD, &closed(64, 0.0), &run]);
    let log = f.log.expect("the figures of a log");
    assert!(log.used > 0.6 && log.cleaned > 100, "it is full, and cleaned: {log:?}");
    log.longest_wait_us / log.modelled_wait_us
}

#[test]
fn nobody_waits_longer_than_the_model_allows() {
    let paced = "layout = 'log-raid5'\nmembers = 5\nsegment = '1M'";
    let waited = waits(paced, 5 * 70_000);
    assert!(waited > 0.0 && waited <= 1.0, "{waited}");
    // Waiting until much is free takes much longer.
    let blocking = waits(&format!("{paced}\ngc = 'blocking'"), 5 * 70_000);
    assert!(blocking > 2.0, "{blocking}");
}

#[test]
fn nor_where_groups_take_turns() {
    let waited = waits("layout = 'swan5:6x3'", 5 * 200_000);
    assert!(waited <= 1.0, "{waited}");
}
