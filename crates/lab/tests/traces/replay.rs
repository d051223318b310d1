//! A trace as a workload: the times and addresses of its requests.

use std::time::Duration;

use lab::trace::Replay;
use lab::workload::{Arrival, Kind, Pace, Workload};

use crate::Shelf;

const MIB: u64 = 1 << 20;

/// Two devices; times in milliseconds.
const TRACE: &str = "\
0 0 0 8 1
1000000 1 16 8 0
3000000 0 2048 16 1
4000000 1 8 8 1
";

fn shelf() -> Shelf {
    let shelf = Shelf::new();
    shelf.put("t.ssdsim", TRACE);
    shelf
}

fn times(arrivals: &[Arrival]) -> Vec<u64> {
    arrivals.iter().map(|arrival| arrival.at.0).collect()
}

fn places(arrivals: &[Arrival]) -> Vec<(u64, u32)> {
    arrivals.iter().map(|arrival| (arrival.offset, arrival.bytes)).collect()
}

#[test]
fn times_are_scaled() {
    let shelf = shelf();
    for (keys, expected) in [
        ("", [0, 1_000_000, 3_000_000, 4_000_000]),
        ("speed = 2", [0, 500_000, 1_500_000, 2_000_000]),
        ("speed = 0.5", [0, 2_000_000, 6_000_000, 8_000_000]),
        // Three gaps in 4 ms are 750 a second.
        ("rate = 1500", [0, 500_000, 1_500_000, 2_000_000]),
        ("rate = 1500, fit = \"compact\"", [0, 500_000, 1_500_000, 2_000_000]),
        ("closed = { depth = 4 }", [0; 4]),
    ] {
        let arrivals = shelf.replay(&format!("file = \"t.ssdsim\", {keys}"), 64 * MIB).unwrap();
        assert_eq!(times(&arrivals), expected, "{keys}");
    }
}

#[test]
fn a_replay_may_be_closed() {
    let shelf = shelf();
    let open = |text| {
        let workload: Workload = toml::from_str(text).unwrap();
        workload.open(64 * MIB, 1, shelf.0.path()).unwrap().pace()
    };
    let closed = open("trace = { file = \"t.ssdsim\", closed = { depth = 4, think = \"1ms\" } }");
    assert_eq!(closed, Pace::Closed { depth: 4, think: Duration::from_millis(1) });
    assert_eq!(open("trace.file = \"t.ssdsim\""), Pace::Open);
}

#[test]
fn devices_lie_behind_one_another_or_merge() {
    let shelf = shelf();
    // The first one ends at sector 2064, which is not at an extent's end.
    let second = (2064u64 * 512).next_multiple_of(64 << 10);
    for (keys, expected) in [
        ("", vec![(0, 4096), (second + 8192, 4096), (MIB, 8192), (second + 4096, 4096)]),
        ("merge = true", vec![(0, 4096), (8192, 4096), (MIB, 8192), (4096, 4096)]),
        ("devices = [1]", vec![(8192, 4096), (4096, 4096)]),
        ("devices = [\"0\"], skip = 1", vec![(MIB, 8192)]),
        ("limit = 2, merge = true", vec![(0, 4096), (8192, 4096)]),
    ] {
        let arrivals = shelf.replay(&format!("file = \"t.ssdsim\", {keys}"), 64 * MIB).unwrap();
        assert_eq!(places(&arrivals), expected, "{keys}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_a_way_out() {
    let shelf = shelf();
    let error = shelf.replay("file = \"t.ssdsim\"", MIB).unwrap_err().to_string();
    assert!(error.contains("t.ssdsim: the trace needs"), "{error}");
    assert!(error.contains("the target has 1MiB"), "{error}");
    assert!(error.contains("fit = \"compact\"") && error.contains("fit = \"wrap\""), "{error}");
    assert!(shelf.replay("file = \"t.ssdsim\", devices = [1]", MIB).is_ok());
}

#[test]
fn wrapping_is_modulo_the_capacity() {
    let shelf = Shelf::new();
    shelf.put("t.spc", "0,100,4096,R,0\n0,2100,4096,W,1\n0,2040,8192,W,2\n0,0,3000000,R,3\n");
    let wrapped = shelf.replay("file = \"t.spc\", fit = \"wrap\"", MIB + 100).unwrap();
    let mib = MIB as u32;
    assert_eq!(
        places(&wrapped),
        [
            (51_200, 4096),
            (52 * 512, 4096),
            (2040 * 512, 4096),
            (0, 4096),
            (0, mib),
            (0, mib),
            (0, 3_000_000 - 2 * mib),
        ]
    );
    assert_eq!(wrapped[2].at, wrapped[3].at, "what is cut comes at the same time");
    let error = shelf.replay("file = \"t.spc\", fit = \"wrap\"", 4095).unwrap_err().to_string();
    assert!(error.contains("4095B"), "{error}");
}

/// Extents of 64 KiB are 128 sectors.
#[test]
fn compacting_keeps_apart_what_is_apart() {
    let shelf = Shelf::new();
    let trace = "\
        0 0 1280000 8 1\n\
        1 0 12800127 2 1\n\
        2 1 1280000 8 1\n\
        3 0 12800256 8 0\n\
        4 0 12800120 264 1\n\
        5 0 1279992 16 1\n";
    shelf.put("t.ssdsim", trace);
    let compact = "file = \"t.ssdsim\", fit = \"compact\"";
    let arrivals = shelf.replay(compact, MIB).unwrap();
    let extent = |number: u64| number << 16;
    assert_eq!(
        places(&arrivals),
        [
            (extent(0), 4096),
            // Two extents at once come to lie together.
            (extent(1) + 127 * 512, 1024),
            (extent(3), 4096),
            (extent(4), 4096),
            // From the first over the second into the one that came later: two pieces.
            (extent(1) + 120 * 512, (8 + 128) * 512),
            (extent(4), 128 * 512),
            // The extent before the very first is new.
            (extent(5) + 120 * 512, 4096),
            (extent(0), 4096),
        ]
    );
    let merged = shelf.replay(&format!("{compact}, merge = true"), MIB).unwrap();
    assert_eq!(merged[2].offset, extent(0));
    let error = shelf.replay(compact, 5 << 16).unwrap_err().to_string();
    assert!(error.contains("touches more than the 320KiB of the target"), "{error}");
    assert!(shelf.replay(compact, 6 << 16).is_ok());
}

#[test]
fn discards_of_what_was_never_touched_take_no_room() {
    let shelf = Shelf::new();
    let trace = "\
        8,0 0 1 0.0 1 D W 128000 + 8 [x]\n\
        8,0 0 2 0.1 1 D D 127872 + 8388000 [x]\n\
        8,0 0 3 0.2 1 D FN [x]\n\
        8,0 0 4 0.3 1 D D 0 + 128 [x]\n\
        8,0 0 5 0.4 1 D W 0 + 8 [x]\n";
    shelf.put("t.blkparse", trace);
    let arrivals = shelf.replay("file = \"t.blkparse\", fit = \"compact\"", 2 << 16).unwrap();
    let found: Vec<_> = arrivals.iter().map(|a| (a.kind, a.offset, a.bytes)).collect();
    assert_eq!(
        found,
        [
            (Kind::Write, 0, 4096),
            (Kind::Discard, 0, 1 << 16),
            (Kind::Flush, 0, 0),
            (Kind::Write, 1 << 16, 4096),
        ]
    );
}

#[test]
fn loops_repeat_with_the_mean_gap_between() {
    let shelf = Shelf::new();
    shelf.put("t.ssdsim", "7 0 0 8 1\n1007 0 8 8 1\n4007 0 16 8 1\n");
    let arrivals = shelf.replay("file = \"t.ssdsim\", loop = 3, speed = 2", MIB).unwrap();
    assert_eq!(times(&arrivals), [0, 500, 2000, 3000, 3500, 5000, 6000, 6500, 8000]);
    let keys = "trace = { file = \"t.ssdsim\", loop = \"forever\", limit = 1 }";
    let workload: Workload = toml::from_str(keys).unwrap();
    let stream = workload.open(MIB, 1, shelf.0.path()).unwrap();
    let arrivals: Vec<Arrival> = stream.take(1000).map(|arrival| arrival.unwrap()).collect();
    assert!(arrivals.windows(2).all(|pair| pair[0].at < pair[1].at), "time goes on");
}

#[test]
fn one_moment_has_no_rate() {
    let shelf = Shelf::new();
    shelf.put("t.ssdsim", "7 0 0 8 1\n7 0 8 8 1\n");
    let error = shelf.replay("file = \"t.ssdsim\", rate = 5", MIB).unwrap_err().to_string();
    assert!(error.contains("at the same time"), "{error}");
}

#[test]
fn errors_come_where_they_are_and_end_the_stream() {
    let shelf = Shelf::new();
    shelf.put("t.ssdsim", "7 0 0 8 1\nx\n7 0 8 8 1\n");
    let text = "trace = { file = \"t.ssdsim\", fit = \"compact\" }";
    let workload: Workload = toml::from_str(text).unwrap();
    let mut stream = workload.open(MIB, 1, shelf.0.path()).unwrap();
    assert!(stream.next().unwrap().is_ok());
    assert!(stream.next().unwrap().unwrap_err().to_string().contains("line 2"));
    assert!(stream.next().is_none());
}

#[test]
fn a_replay_says_what_it_selects() {
    let replay: Replay =
        toml::from_str("file = \"x\"\ndevices = [0, \"hm_1\"]\nskip = 3\nformat = \"msr\"")
            .unwrap();
    let selection = replay.selection();
    assert_eq!(selection.devices, Some(vec!["0".to_owned(), "hm_1".to_owned()]));
    assert_eq!((selection.skip, selection.limit), (3, None));
}
