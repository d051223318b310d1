//! Equal seeds give equal streams, in every later version, too.

use lab::workload::Arrival;

use crate::{GIB, open};

/// FNV-1a over what requests are.
fn digest(arrivals: impl Iterator<Item = Arrival>) -> u64 {
    arrivals.fold(0xcbf2_9ce4_8422_2325, |hash, arrival| {
        let words = [arrival.at.0, arrival.kind as u64, arrival.offset, arrival.bytes.into()];
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    })
}

const STREAMS: [(&str, u64); 9] = [
    ("synthetic = { read = 0.7, size = \"4K\" }", 0x6685_510f_d9f8_5189),
    (
        "synthetic = { read = 0.7, size = { \"4K\" = 1, \"8K\" = 2 }, pace.open.rate = 1000 }",
        0xa433_550d_1493_9a1f,
    ),
    (
        "synthetic = { read = 0.5, discard = 0.1, size = \"4K\", runs = 0.2, flush_every = 9, \
         address.zipf.theta = 0.99, pace.open = { rate = 1000, gaps = \"uniform\" } }",
        0x87d0_0316_fe9c_cce1,
    ),
    (
        "synthetic = { read = 0.5, size = 512, \
         address.hot_cold = { space = 0.1, accesses = 0.9 } }",
        0x02bb_2b3d_c33b_be38,
    ),
    ("paper = { name = \"hm_0\", scale = 20 }", 0x98e1_87ef_a0b6_2466),
    ("paper.name = \"web1\"", 0x4d66_119d_b3fd_c821),
    ("ycsb.workload = \"A\"", 0xc1a9_bcd3_5921_283c),
    ("ycsb = { workload = \"D\", pace.open.rate = 700 }", 0x44a5_f7a1_4750_04a5),
    ("ycsb.workload = \"E\"", 0xb433_040e_0f03_e295),
];

#[test]
fn streams_never_change() {
    let found = STREAMS
        .map(|(text, _)| (text, digest(open(text, 8 * GIB, 42).take(10_000).map(Result::unwrap))));
    assert_eq!(found, STREAMS, "what was generated before can't be generated again");
}

#[test]
fn seeds_differ() {
    for (text, _) in STREAMS {
        let of = |seed| digest(open(text, 8 * GIB, seed).take(1000).map(Result::unwrap));
        assert_eq!(of(1), of(1), "{text}");
        assert_ne!(of(1), of(2), "{text}");
    }
}
