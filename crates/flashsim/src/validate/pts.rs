//! The write saturation test of SNIA's Solid State Storage Performance Test Specification: random
//! writes to an erased drive until nothing changes any more.

use det::{Instant, Prng};

use super::cleaning::Depth;
use super::row::Row;
use crate::ftl::Precondition;
use crate::profile::Profile;
use crate::ssd::{Command, Op, Ssd};

/// Parts of the drive's raw capacity between two measurements.
const STEPS: u64 = 400;

/// One package of the MSR drive with fewer planes.
#[must_use]
pub fn saturation(depth: Depth) -> Vec<Row> {
    let mut profile = Profile::builtin("msr2008").expect("a profile");
    profile.geometry.channels = 1;
    profile.geometry.planes = if depth == Depth::Full { 4 } else { 1 };
    profile.link = None;
    let mut ssd = Ssd::new(&profile, Precondition::Fresh, 9).expect("a profile");
    let raw = ssd.geometry().raw_pages();
    let threshold = f64::from(profile.geometry.planes)
        * f64::from((profile.gc.start * f64::from(profile.geometry.blocks)) as u32)
        * f64::from(ssd.geometry().data_pages);
    let step = raw / STEPS;
    let total = 10 * STEPS;
    let times = step_times(&mut ssd, step, total);
    let fresh = mean(&times[..STEPS as usize / 2]);
    // Before the cliff all steps take the same time; afterwards the rate sinks slowly.
    let cliff = times.iter().position(|&time| time > 1.05 * fresh).unwrap_or(0);
    // Between the beginning of that step and its end.
    let volume = (cliff as f64 + 0.5) * step as f64;
    let steady = mean(&times[total as usize - 2 * STEPS as usize..]);
    let before = mean(&times[total as usize - 3 * STEPS as usize..][..STEPS as usize]);
    vec![
        Row::new(
            "PTS saturation, volume written at the cliff, of raw",
            "",
            ((raw as f64 - threshold) / raw as f64, volume / raw as f64),
            0.01,
        ),
        Row::new("PTS saturation, fresh / steady throughput", "", (3.99, steady / fresh), 0.03),
        Row::new("PTS saturation, throughput has become steady", "", (1.0, steady / before), 0.02),
    ]
}

/// Random writes with always some waiting: how long each `step` pages took.
fn step_times(ssd: &mut Ssd, step: u64, steps: u64) -> Vec<f64> {
    let mut prng = Prng::new(9);
    let logical = u64::from(ssd.geometry().logical_pages);
    let (mut now, mut ended, mut times) = (Instant::ORIGIN, Vec::new(), Vec::new());
    let (mut begun, mut done, mut from) = (0, 0, now);
    while (times.len() as u64) < steps {
        while begun - done < 8 {
            let page = prng.below(logical) as u32;
            let command = Command { tag: begun, op: Op::Write, page, pages: 1, stream: 0 };
            ssd.submit(now, command).expect("a page of it");
            begun += 1;
        }
        now = ssd.next().expect("commands are under way");
        ssd.poll(now, &mut ended);
        for _ in ended.drain(..) {
            done += 1;
            if done % step == 0 {
                times.push((now - from).as_nanos() as f64);
                from = now;
            }
        }
    }
    times
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}
