//! MQSim, in the configuration of the profile of that name.

use det::Prng;

use super::cleaning::Depth;
use super::queueing::closed_loop;
use super::row::Row;
use super::workload::unit;
use crate::ftl::Precondition;
use crate::profile::Profile;
use crate::ssd::{Op, Ssd};

/// What keeps a queue full: a name, the share of reads, and the pages of a command.
struct Load(&'static str, f64, u32);

/// The mean latencies, in microseconds, at queue depths 1, 2, 4 … 64.
///
/// They are MQSim's own (commit 7ec40e3, October 2022), means of the seeds 1017, 2017 and 3017 of
/// the workload, which differ by 0.7% at most, printed in nanoseconds instead of whole
/// microseconds. It had the profile's geometry, times and channels, 28% over-provisioning, NVMe
/// with four lanes of 1 GB/s, a queue fetch size of 512, no data cache, an ideal mapping table, the
/// scheduling policy `OUT_OF_ORDER`, allocation CWDP, and its synthetic workload `QUEUE_DEPTH` with
/// uniform, aligned addresses. Each run was of 600,000 or 1,200,000 pages read, with 32 blocks a
/// plane, or of 150,000 reads and writes, with 512, so that nothing was collected. It was not
/// preconditioned: a page that is read before it was written gets its place then.
const QUEUES: &[(Load, [f64; 7])] = &[
    (Load("reads", 1.0, 1), [38.91, 42.15, 50.18, 69.37, 114.13, 208.73, 397.31]),
    (Load("reads of 4 pages", 1.0, 4), [42.65, 63.14, 110.07, 206.25, 397.98, 773.88, 1488.46]),
    (
        Load("reads of 16 pages", 1.0, 16),
        [119.82, 197.07, 390.26, 764.47, 1475.78, 2811.11, 5343.90],
    ),
    (Load("50% reads", 0.5, 1), [126.62, 138.95, 163.12, 212.78, 321.28, 555.81, 1023.55]),
];

/// Uniform writes of one page at queue depth 1, and reads and writes at several.
#[must_use]
pub fn mqsim(depth: Depth) -> Vec<Row> {
    let mut rows = writes(depth);
    for (load, latencies) in QUEUES {
        for (step, &latency) in latencies.iter().enumerate() {
            if depth == Depth::Full || step % 3 == 0 {
                rows.push(queue(load, 1 << step, latency, depth));
            }
        }
    }
    rows
}

fn writes(depth: Depth) -> Vec<Row> {
    let points: &[(f64, f64, f64)] = if depth == Depth::Full {
        &[(0.15, 4.596, 1220.0), (0.28, 2.208, 568.0)]
    } else {
        &[(0.28, 2.208, 568.0)]
    };
    let mut rows = Vec::new();
    for &(spare, amplification, latency) in points {
        let overwrites = if depth == Depth::Full { 5.0 } else { 2.0 };
        let mut ssd = drive(spare, Precondition::Aged(5.0));
        let count = (f64::from(ssd.geometry().logical_pages) * overwrites) as u64;
        let mean = closed_loop(&mut ssd, |_| (Op::Write, 1), 1, count, 7) / count as f64 / 1e3;
        let name = |what: &str| format!("MQSim, uniform writes, spare {spare}, {what}");
        let waf = ssd.stats().waf();
        rows.push(Row::new(name("amplification"), "", (amplification, waf), 0.03));
        rows.push(Row::new(name("mean latency"), "us", (latency, mean), 0.10));
    }
    rows
}

fn queue(load: &Load, under_way: u32, latency: f64, depth: Depth) -> Row {
    let &Load(name, reads, pages) = load;
    // Drives that only read are aged, so that pages that lie side by side for the host don't in the
    // flash. One that is written has room for all writes.
    let (state, tolerance) =
        if reads < 1.0 { (Precondition::Filled, 0.05) } else { (Precondition::Aged(1.0), 0.02) };
    let mut ssd = drive(0.28, state);
    let count = if depth == Depth::Full { 150_000 } else { 15_000 };
    let next = |prng: &mut Prng| (if unit(prng) < reads { Op::Read } else { Op::Write }, pages);
    let time = closed_loop(&mut ssd, next, under_way, count, 7);
    let mean = time * f64::from(under_way) / count as f64 / 1e3;
    Row::new(format!("MQSim, {name}, queue depth {under_way}"), "us", (latency, mean), tolerance)
}

fn drive(spare: f64, state: Precondition) -> Ssd {
    let mut profile = Profile::builtin("mqsim").expect("a profile");
    profile.ftl.spare = spare;
    Ssd::new(&profile, state, 7).expect("a profile")
}
