//! Addresses.

use std::path::Path;

use lab::workload::{Arrival, Kind, Workload};
use proptest::prelude::*;

use crate::{GIB, assert_chi, assert_near, assert_share, open, share, take};

const N: usize = 200_000;

/// Requests of 4 KiB with these keys.
fn small(keys: &str, count: usize) -> Vec<Arrival> {
    take(&format!("synthetic = {{ read = 0.5, size = \"4K\", {keys} }}"), count)
}

#[test]
fn uniform_is_everywhere_alike() {
    let arrivals = small("start = \"256M\", footprint = 0.5", N);
    let mut found = [0u64; 128];
    for arrival in &arrivals {
        assert_eq!(arrival.offset % 4096, 0);
        found[((arrival.offset - GIB / 4) / (GIB / 2 / 128)) as usize] += 1;
    }
    assert_chi("uniform", &found, &[N as f64 / 128.0; 128]);
}

#[test]
fn the_first_and_the_last_place_are_used() {
    let text = "synthetic = { read = 1.0, size = \"4K\" }";
    let offsets = |arrivals: Vec<Arrival>| {
        let mut offsets: Vec<_> = arrivals.iter().map(|arrival| arrival.offset / 4096).collect();
        offsets.sort_unstable();
        offsets.dedup();
        offsets
    };
    let arrivals = open(text, 5 * 4096 + 100, 1).take(200).map(Result::unwrap);
    assert_eq!(offsets(arrivals.collect()), [0, 1, 2, 3, 4]);
}

#[test]
fn sequential_begins_again_at_the_end() {
    let text = "synthetic = { read = 1.0, size = \"3K\", address = \"sequential\" }";
    let arrivals = open(text, 10 << 10, 1).take(7).map(|arrival| arrival.unwrap().offset >> 10);
    assert_eq!(arrivals.collect::<Vec<_>>(), [0, 3, 6, 0, 3, 6, 0]);
}

#[test]
fn zipf_has_its_head() {
    let arrivals = small("address.zipf = { theta = 0.99, extent = \"64K\" }", N);
    let extents = (GIB >> 16) as usize;
    let mut found = vec![0u64; extents];
    arrivals.iter().for_each(|arrival| found[(arrival.offset >> 16) as usize] += 1);
    let hottest = found.iter().enumerate().max_by_key(|(_, count)| **count).unwrap().0;
    let around = (hottest + 1) % extents;
    found.sort_unstable_by(|a, b| b.cmp(a));
    let total: f64 = (1..=extents).map(|rank| (rank as f64).powf(-0.99)).sum();
    let mass = |ranks: usize| (1..=ranks).map(|r| (r as f64).powf(-0.99)).sum::<f64>() / total;
    for ranks in [1, 10, 100] {
        let head = found[..ranks].iter().sum::<u64>() as f64 / N as f64;
        assert_near("the head", head, mass(ranks), 0.03);
    }
    let beside = share(&arrivals, |arrival| arrival.offset >> 16 == around as u64);
    assert!(beside < mass(1) / 10.0, "beside the most popular extent: {beside}");
    // Within an extent, all sixteen blocks alike.
    let mut blocks = [0u64; 16];
    arrivals.iter().for_each(|arrival| blocks[(arrival.offset >> 12 & 15) as usize] += 1);
    assert_chi("blocks of extents", &blocks, &[N as f64 / 16.0; 16]);
}

#[test]
fn zipf_with_theta_zero_is_uniform() {
    let arrivals = small("address.zipf = { theta = 0, extent = \"16M\" }", N);
    let mut found = [0u64; 64];
    arrivals.iter().for_each(|arrival| found[(arrival.offset >> 24) as usize] += 1);
    assert_chi("theta 0", &found, &[N as f64 / 64.0; 64]);
}

#[test]
fn hot_is_hot() {
    let arrivals = small("address.hot_cold = { space = 0.2, accesses = 0.9 }", N);
    let hot = |arrival: &Arrival| arrival.offset < GIB / 5;
    assert_share("hot", share(&arrivals, hot), 0.9, N);
    let (hot, cold): (Vec<Arrival>, Vec<Arrival>) = arrivals.iter().partition(|a| hot(a));
    for (part, start, bytes) in [(hot, 0, GIB / 5), (cold, GIB / 5, GIB - GIB / 5)] {
        let mut found = [0u64; 16];
        part.iter().for_each(|a| found[((a.offset - start) * 16 / bytes).min(15) as usize] += 1);
        assert_chi("within a part", &found, &[part.len() as f64 / 16.0; 16]);
    }
}

#[test]
fn reads_and_writes_have_their_regions() {
    let regions = "{ read = \"300M\", write = \"200M\", mixed = \"100M\", theta = 0.5 }";
    let arrivals = small(&format!("address.regions = {regions}"), N);
    let region = |arrival: &Arrival| match arrival.offset >> 20 {
        0..300 => 0,
        300..500 => 1,
        500..600 => 2,
        _ => 3,
    };
    for (kind, own) in [(Kind::Read, 0), (Kind::Write, 1)] {
        let of: Vec<Arrival> = arrivals.iter().copied().filter(|a| a.kind == kind).collect();
        assert_share("its own", share(&of, |a| region(a) == own), 0.92, of.len());
        assert_share("mixed", share(&of, |a| region(a) == 2), 0.08, of.len());
    }
}

#[test]
fn regions_shrink_with_the_target() {
    let regions = "{ read = \"3G\", write = \"2G\", mixed = \"1G\", theta = 0.5 }";
    let arrivals = small(&format!("address.regions = {regions}"), N);
    let of = |kind| arrivals.iter().filter(move |a| a.kind == kind).copied().collect::<Vec<_>>();
    let reads = share(&of(Kind::Read), |arrival| arrival.offset < GIB / 2);
    assert_near("reads in the first half", reads, 0.92, 0.01);
    let last = arrivals.iter().map(|arrival| arrival.offset).max().unwrap();
    assert!(last > GIB - GIB / 50, "{last}");
}

#[test]
fn runs_continue() {
    let text = "synthetic = { read = 0.5, size = { \"4K\" = 1, \"12K\" = 1 }, runs = 0.3 }";
    let arrivals = take(text, N);
    let runs = arrivals
        .windows(2)
        .filter(|pair| pair[1].offset == pair[0].offset + u64::from(pair[0].bytes))
        .count();
    assert_share("runs", runs as f64 / (N - 1) as f64, 0.3, N);
}

fn addresses() -> impl Strategy<Value = String> {
    let theta = || 0.0..3.0f64;
    let size = || prop_oneof![1u64..20_000, 1u64..1 << 40];
    prop_oneof![
        Just("\"uniform\"".to_owned()),
        Just("\"sequential\"".to_owned()),
        (theta(), size())
            .prop_map(|(t, e)| format!("{{ zipf = {{ theta = {t}, extent = {e} }} }}")),
        (0.001..0.999f64, 0.0..=1.0f64)
            .prop_map(|(s, a)| format!("{{ hot_cold = {{ space = {s}, accesses = {a} }} }}")),
        (size(), size(), size(), theta(), size()).prop_map(|(r, w, m, t, e)| format!(
            "{{ regions = {{ read = {r}, write = {w}, mixed = {m}, theta = {t}, extent = {e} }} }}"
        )),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the keys and the target, requests stay within it and time does not go back; or
    /// the workload is refused.
    #[test]
    fn nothing_leaves_the_target(
        address in addresses(),
        sizes in prop::collection::vec(1u64..300_000, 1..4),
        align in prop_oneof![Just(4096u64), 1u64..20_000],
        runs in 0.0..=1.0f64,
        start in prop_oneof![Just("0".to_owned()), (0.0..=1.0f64).prop_map(|s| format!("{s:?}"))],
        capacity in prop_oneof![0u64..2_000_000, any::<u64>()],
        seed in any::<u64>(),
    ) {
        let sizes: Vec<_> = sizes.iter().map(|size| format!("\"{size}\" = 1")).collect();
        let text = format!(
            "synthetic = {{ read = 0.5, size = {{ {} }}, align = {align}, runs = {runs:?}, \
             start = {start}, address = {address}, pace.open.rate = 1e6 }}",
            sizes.join(", "),
        );
        let Ok(workload) = toml::from_str::<Workload>(&text) else { return Ok(()) };
        let Ok(stream) = workload.open(capacity, seed, Path::new(".")) else { return Ok(()) };
        let mut last = 0;
        for arrival in stream.take(200) {
            let arrival = arrival.unwrap();
            let end = arrival.offset.checked_add(u64::from(arrival.bytes));
            prop_assert!(end.is_some_and(|end| end <= capacity), "{text}: {arrival:?}");
            prop_assert!(arrival.bytes > 0 && arrival.at.0 >= last);
            last = arrival.at.0;
        }
    }
}
