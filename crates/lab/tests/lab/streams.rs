//! Drives that keep streams of writes apart.

use crate::world::{RAID5, SSD, closed, figures, refused};

const RUN: &str = "[run]\nrequests = 8000\nwarmup = 8000\n";

/// The write amplification of an array's drives with so many streams.
fn flash_written(streams: u16) -> f64 {
    let array = RAID5.replace("'resync'", "'journal'");
    let ssd = format!("{SSD}streams = {streams}\nset.gc.separate = true\nset.ftl.spare = 0.35\n");
    figures(&[&array, &ssd, &closed(8, 0.0), RUN]).device_waf
}

#[test]
fn drives_keep_apart_as_many_kinds_of_writes_as_there_are() {
    let [one, two, four, six] = [1, 2, 4, 6].map(flash_written);
    assert!(one != two && two != four, "{one}, {two}, {four}");
    assert_eq!(four.to_bits(), six.to_bits(), "there are four kinds");
}

#[test]
fn more_streams_than_a_drive_has_room_for_are_refused() {
    let ssd = |streams: &str| format!("{SSD}streams = {streams}\n");
    refused(&[RAID5, &ssd("0"), &closed(1, 0.5), RUN], &["line", "ftl.streams", "from 1 to 128"]);
    refused(&[RAID5, &ssd("'many'"), &closed(1, 0.5), RUN], &["line", "streams", "u16"]);
}
