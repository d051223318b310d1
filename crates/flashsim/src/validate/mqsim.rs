//! MQSim, in the configuration of the profile of that name.

use super::cleaning::Depth;
use super::queueing::closed_loop;
use super::row::Row;
use crate::ftl::Precondition;
use crate::profile::Profile;
use crate::ssd::{Op, Ssd};

/// Uniform writes of one page at queue depth 1.
#[must_use]
pub fn mqsim(depth: Depth) -> Vec<Row> {
    let points: &[(f64, f64, f64)] = if depth == Depth::Full {
        &[(0.15, 4.596, 1220.0), (0.28, 2.208, 568.0)]
    } else {
        &[(0.28, 2.208, 568.0)]
    };
    let mut rows = Vec::new();
    for &(spare, amplification, latency) in points {
        let mut profile = Profile::builtin("mqsim").expect("a profile");
        profile.ftl.spare = spare;
        let overwrites = if depth == Depth::Full { 5.0 } else { 2.0 };
        let mut ssd = Ssd::new(&profile, Precondition::Aged(5.0), 7).expect("a profile");
        let count = (f64::from(ssd.geometry().logical_pages) * overwrites) as u64;
        let mean = closed_loop(&mut ssd, (Op::Write, 1), 1, count, 7) / count as f64 / 1e3;
        let name = |what: &str| format!("MQSim, uniform writes, spare {spare}, {what}");
        let waf = ssd.stats().waf();
        rows.push(Row::new(name("amplification"), "", (amplification, waf), 0.03));
        rows.push(Row::new(name("mean latency"), "us", (latency, mean), 0.10));
    }
    rows.extend(reads(depth));
    rows
}

fn reads(depth: Depth) -> Vec<Row> {
    let points: &[(u32, &[f64])] = &[
        (1, &[38.906, 42.148, 50.175, 69.360, 114.094, 208.522, 397.206]),
        (4, &[42.650, 63.164, 110.116, 206.373, 398.011, 773.941, 1488.346]),
        (8, &[59.930, 99.772, 198.586, 392.697, 768.532, 1482.948, 2820.762]),
        (16, &[119.796, 197.314, 390.679, 765.072, 1477.291, 2811.648, 5342.445]),
    ];
    let mut rows = Vec::new();
    for (pages, latencies) in points {
        for (at, latency) in latencies.iter().enumerate() {
            let queue = 1u32 << at;
            let mut profile = Profile::builtin("mqsim").expect("a profile");
            profile.ftl.spare = 0.28;
            let mut ssd = Ssd::new(&profile, Precondition::Filled, 7).expect("a profile");
            let count = 600_000 / u64::from(*pages);
            let mean = closed_loop(&mut ssd, (Op::Read, *pages), queue, count, 7) / count as f64
                * f64::from(queue) / 1e3;
            rows.push(Row::new(format!("MQSim, reads of {pages} pages, queue depth {queue}"), "us", (*latency, mean), 0.05));
        }
    }
    rows
}
