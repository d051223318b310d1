//! Workloads with names: the papers' and YCSB's.

use lab::workload::{Arrival, Kind, Model};

use crate::{GIB, assert_near, assert_share, open, share, take};

const N: usize = 400_000;

/// Share of reads in percent, mean size in KB, number of requests: from the tables of the papers.
/// For the last seven, the papers say less on sizes; these are the fitted values.
const TABLES: [(&str, f64, f64, u64); 15] = [
    ("hpc_w", 20.1, 510.5, 500_000),
    ("hpc_r", 79.9, 510.5, 500_000),
    ("fin1_paper", 32.8, 11.9, 5_334_987),
    ("hm_0", 35.5, 8.3, 3_993_316),
    ("mds_0", 11.9, 7.2, 1_211_034),
    ("prxy_0", 2.7, 2.5, 12_518_968),
    ("rsrch_0", 9.3, 8.7, 1_433_655),
    ("wdev_0", 20.1, 9.4, 1_143_261),
    ("fin1_umass", 23.2, 3.28, 5_334_987),
    ("web1", 99.98, 15.2, 1_055_448),
    ("web2", 99.97, 15.2, 4_579_809),
    ("web3", 99.98, 15.44, 4_261_709),
    ("siw_hpc", 40.0, 427.0, 100_000),
    ("exchange", 40.0, 17.54, 1_000_000),
    ("mcewan", 20.0, 4.0, 1_000_000),
];

#[test]
fn papers_are_as_their_tables_say() {
    for (name, reads, kilobytes, requests) in TABLES {
        let stream = open(&format!("paper.name = \"{name}\""), 64 * GIB, 1);
        let arrivals: Vec<Arrival> = stream.take(N).map(|arrival| arrival.unwrap()).collect();
        assert_share(name, share(&arrivals, |a| a.kind == Kind::Read), reads / 100.0, N);
        let bytes: u64 = arrivals.iter().map(|arrival| u64::from(arrival.bytes)).sum();
        assert_near(name, bytes as f64 / N as f64 / 1024.0, kilobytes, 0.03);
        assert_eq!(Model::named(name).map(Model::requests), Some(requests));
    }
    assert_eq!(Model::all().count(), TABLES.len(), "a workload that no table is checked for");
}

#[test]
fn scale_is_of_the_rate() {
    for (name, rate) in [("hm_0", 6.6), ("fin1_paper", 122.0), ("web1", 335.0)] {
        for scale in [1.0, 50.0] {
            let text = format!("paper = {{ name = \"{name}\", scale = {scale} }}");
            let last = take(&text, 4 * N).last().unwrap().at;
            let found = (4 * N) as f64 / last.0 as f64 * 1e9;
            assert_near(name, found, rate * scale, 0.05);
        }
    }
}

#[test]
fn ycsb_has_its_ratios() {
    for (letter, reads, page) in
        [("A", 0.5, 4096), ("B", 0.95, 4096), ("C", 1.0, 4096), ("D", 0.95, 8192)]
    {
        let text = format!("ycsb = {{ workload = \"{letter}\", page = {page} }}");
        let arrivals = take(&text, N);
        assert_share(letter, share(&arrivals, |a| a.kind == Kind::Read), reads, N);
        let page = page as u32;
        assert!(arrivals.iter().all(|a| a.bytes == page && a.offset % u64::from(page) == 0));
    }
}

/// Half of the operations of F write what they have just read.
#[test]
fn ycsb_f_reads_modifies_and_writes() {
    let arrivals = take("ycsb.workload = \"F\"", N);
    let reads = share(&arrivals, |arrival| arrival.kind == Kind::Read);
    assert_near("reads", reads, 2.0 / 3.0, 0.01);
    assert_eq!(arrivals[0].kind, Kind::Read);
    for pair in arrivals.windows(2) {
        if pair[1].kind == Kind::Write {
            assert_eq!((pair[0].kind, pair[0].offset), (Kind::Read, pair[1].offset));
        }
    }
}

/// The most popular record is the newest one, which an insert has just written.
#[test]
fn ycsb_d_reads_what_is_new() {
    const RECORDS: u64 = GIB / 4096;

    let arrivals = take("ycsb = { workload = \"D\", record = \"4K\" }", N);
    let mut newest = RECORDS - 1;
    let mut behind = [0u64; 3];
    let mut reads = 0;
    for arrival in &arrivals {
        let record = arrival.offset / 4096;
        if arrival.kind == Kind::Write {
            newest = (newest + 1) % RECORDS;
            assert_eq!(record, newest, "inserts are in order");
            continue;
        }
        reads += 1;
        if let Some(count) = behind.get_mut(((newest + RECORDS - record) % RECORDS) as usize) {
            *count += 1;
        }
    }
    let total: f64 = (1..=RECORDS).map(|rank| (rank as f64).powf(-0.99)).sum();
    for (rank, count) in behind.iter().enumerate() {
        let expected = ((rank + 1) as f64).powf(-0.99) / total;
        assert_share("a rank", *count as f64 / reads as f64, expected, reads);
    }
}

#[test]
fn ycsb_e_scans() {
    let arrivals = take("ycsb = { workload = \"E\", record = \"4K\", scan = 100 }", N);
    let (scans, inserts): (Vec<&Arrival>, _) =
        arrivals.iter().partition(|arrival| arrival.kind == Kind::Read);
    assert_share("scans", scans.len() as f64 / N as f64, 0.95, N);
    assert!(inserts.iter().all(|insert| insert.bytes == 4096));
    let mut found = [0u64; 100];
    scans.iter().for_each(|scan| found[scan.bytes as usize / 4096 - 1] += 1);
    // A few begin so near to the end that they are shorter.
    let mean = scans.iter().map(|scan| f64::from(scan.bytes)).sum::<f64>() / scans.len() as f64;
    assert_near("the mean length", mean / 4096.0, 50.5, 0.01);
    assert!(found.iter().all(|&count| count > 0), "all lengths up to 100");
}

#[test]
fn a_mix_has_its_weights() {
    let text = r#"
        [[mix.part]]
        weight = 3
        synthetic = { read = 1.0, size = "4K" }
        [[mix.part]]
        weight = 1
        synthetic = { read = 0.0, size = "1M", address = "sequential", start = 0.5 }
    "#;
    let arrivals = take(text, N);
    assert_share("reads", share(&arrivals, |a| a.kind == Kind::Read), 0.75, N);
    let mut next = GIB / 2;
    for write in arrivals.iter().filter(|arrival| arrival.kind == Kind::Write) {
        assert_eq!((write.offset, write.bytes), (next, 1 << 20), "each part goes its own way");
        next = if next + (1 << 20) == GIB { GIB / 2 } else { next + (1 << 20) };
    }
}
