//! Statistics of a trace, compared with counts by hand.

use lab::trace::{DeviceInfo, Info, Selection};

use crate::Shelf;

#[test]
fn everything_is_counted() {
    let shelf = Shelf::new();
    let trace = "\
        8,0 0 1 0.000 1 Q R 0 + 8 [x]\n\
        8,0 0 2 0.001 1 Q R 8 + 16 [x]\n\
        8,0 0 3 0.002 1 Q W 24 + 8 [x]\n\
        8,16 0 4 0.003 1 Q W 8 + 4 [x]\n\
        8,0 0 5 0.002 1 Q R 0 + 8 [x]\n\
        8,0 0 6 0.007 1 Q D 800 + 80000 [x]\n\
        8,0 0 7 0.007 1 Q FWS [x]\n\
        8,0 0 8 0.008 1 Q R 0 + 0 [x]\n\
        8,0 0 9 0.010 1 Q R 0 + 8 [x]\n";
    let info = Info::of(&shelf.put("t.blkparse", trace), &Selection::default()).unwrap();
    assert_eq!((info.requests, info.reads, info.writes), (8, 4, 2));
    assert_eq!((info.discards, info.flushes), (1, 1));
    assert_eq!(info.read_share, 0.5);
    assert_eq!(info.seconds, 0.010);
    assert!((info.rate - 700.0).abs() < 1e-9, "{}", info.rate);
    // Gaps in ms: 1 1 1 0 4 0 3, of mean 10/7; the mean of their squares is 4.
    let variance = 4.0 - (10.0f64 / 7.0).powi(2);
    assert!((info.gap_cv - variance.sqrt() / (10.0 / 7.0)).abs() < 1e-9, "{}", info.gap_cv);
    assert_eq!((info.sizes.p50, info.sizes.p90, info.sizes.max), (4096, 8192, 8192));
    assert_eq!(info.read_sizes.mean, (4096.0 * 3.0 + 8192.0) / 4.0);
    assert_eq!((info.write_sizes.p50, info.write_sizes.p99), (2048, 4096));
    // Pages 0 to 3 of one device, page 1 of the other.
    assert_eq!(info.footprint_bytes, 5 * 4096);
    assert_eq!(info.read_footprint_bytes, 3 * 4096);
    assert_eq!(info.write_footprint_bytes, 2 * 4096);
    // One page of five has three of seven accesses.
    assert_eq!(info.top_fifth_share, 3.0 / 7.0);
    assert_eq!((info.read_intensive_share, info.write_intensive_share), (1.0, 1.0));
    assert_eq!(info.sequential_share, 2.0 / 6.0);
    assert_eq!(info.unaligned_share, 1.0 / 6.0);
    assert_eq!((info.inversions, info.empty), (1, 1));
    let device =
        |name: &str, requests, end_bytes| DeviceInfo { name: name.into(), requests, end_bytes };
    assert_eq!(info.devices, [device("8,0", 7, 80_800 * 512), device("8,16", 1, 12 * 512)]);
}

#[test]
fn intensive_is_more_than_nine_in_ten() {
    let shelf = Shelf::new();
    // Page 0: ten reads, one write. Page 1: nine reads, one write. Page 2: one write.
    let mut trace = String::new();
    for (sector, reads) in [(0, 10), (8, 9)] {
        trace += &format!("1 0 {sector} 8 0\n");
        trace += &format!("1 0 {sector} 8 1\n").repeat(reads);
    }
    trace += "1 0 16 8 0\n";
    let info = Info::of(&shelf.put("t.ssdsim", &trace), &Selection::default()).unwrap();
    assert_eq!((info.reads, info.writes), (19, 3));
    assert_eq!(info.read_intensive_share, 10.0 / 19.0);
    assert_eq!(info.write_intensive_share, 1.0 / 3.0);
}

#[test]
fn one_request_is_enough() {
    let shelf = Shelf::new();
    let info = Info::of(&shelf.put("t.spc", "3,7,100,W,5\n"), &Selection::default()).unwrap();
    assert_eq!((info.requests, info.seconds, info.rate, info.gap_cv), (1, 0.0, 0.0, 0.0));
    assert_eq!((info.footprint_bytes, info.unaligned_share), (4096, 1.0));
}

#[test]
fn a_selection_is_all_that_counts() {
    let shelf = Shelf::new();
    let path = shelf.put("t.ssdsim", "1 0 0 8 1\n2 5 0 8 0\n3 0 8 8 1\n4 5 64 16 0\n");
    let selection = Selection { devices: Some(vec!["5".into()]), ..Selection::default() };
    let info = Info::of(&path, &selection).unwrap();
    assert_eq!((info.reads, info.writes, info.sizes.max), (0, 2, 8192));
    assert_eq!(info.devices.len(), 1);
    assert_eq!(info.devices[0].name, "5");
}

/// Requests that span groups of pages and begin and end within one.
#[test]
fn large_requests_touch_every_page() {
    let shelf = Shelf::new();
    let trace = "0,0,1048576,R,0\n0,1000,1048576,W,1\n0,4095,512,R,2\n0,8000000,3145728,W,3\n";
    let info = Info::of(&shelf.put("t.spc", trace), &Selection::default()).unwrap();
    let (reads, writes) = (256 + 1, (3048u64.div_ceil(8) - 1000 / 8) + 768);
    assert_eq!(info.read_footprint_bytes, reads * 4096);
    assert_eq!(info.write_footprint_bytes, writes * 4096);
    assert_eq!(info.footprint_bytes, (381 + 1 + 768) * 4096);
}
