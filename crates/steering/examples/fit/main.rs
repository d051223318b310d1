//! Fits the constants of detection on simulated drives, where the effects of garbage collection are
//! known, and reports how good they are on other drives.
//!
//! `fit` starts from the defaults and changes one constant after the other to the value that is
//! best on the training loads, until none gets better. `fit report` prints how the defaults do on
//! loads and drives that were not used for fitting.

mod load;
mod score;

use std::time::Duration;

use flashsim::{Precondition, Ssd};
use load::{Load, Pace, Run, record};
use score::{Score, replay};
use steering::detect::Tuning;

/// I/Os of a run.
const IOS: usize = 30_000;

const AGED: Precondition = Precondition::Aged(3.0);

const TRAINING_DRIVES: &[&str] = &["msr2008", "msr2008-burst", "femu-ioda", "sata-mlc", "nvme-tlc"];
const TRAINING_LOADS: &[Load] = &[
    Load {
        name: "closed 24",
        pace: Pace::Closed(24),
        read_percent: 50,
        blocks: &[1, 16],
        state: AGED,
    },
    Load { name: "open 6%", pace: Pace::Open(0.06), read_percent: 60, blocks: &[1], state: AGED },
    Load {
        name: "open 20%",
        pace: Pace::Open(0.2),
        read_percent: 50,
        blocks: &[1, 4],
        state: AGED,
    },
    Load {
        name: "bursts 4%",
        pace: Pace::Bursts(0.04),
        read_percent: 70,
        blocks: &[1],
        state: AGED,
    },
    Load {
        name: "bursts 15%",
        pace: Pace::Bursts(0.15),
        read_percent: 60,
        blocks: &[1, 8],
        state: AGED,
    },
    Load {
        name: "reads, bursts 15%",
        pace: Pace::Bursts(0.15),
        read_percent: 100,
        blocks: &[1, 8],
        state: Precondition::Filled,
    },
];

const OTHER_DRIVES: &[&str] = &[
    "msr2008",
    "msr2008-burst",
    "femu-ioda",
    "sata-mlc",
    "nvme-tlc",
    "mqsim",
    "msr-siw",
    "msr-siw-burst",
];
const OTHER_LOADS: &[Load] = &[
    Load {
        name: "closed 10",
        pace: Pace::Closed(10),
        read_percent: 30,
        blocks: &[1, 2, 16],
        state: AGED,
    },
    Load {
        name: "open 10%",
        pace: Pace::Open(0.1),
        read_percent: 80,
        blocks: &[1, 8],
        state: AGED,
    },
    Load { name: "open 30%", pace: Pace::Open(0.3), read_percent: 40, blocks: &[1], state: AGED },
    Load {
        name: "bursts 10%",
        pace: Pace::Bursts(0.1),
        read_percent: 50,
        blocks: &[1, 2],
        state: AGED,
    },
    Load {
        name: "reads, closed 64",
        pace: Pace::Closed(64),
        read_percent: 100,
        blocks: &[1, 32],
        state: Precondition::Filled,
    },
    Load {
        name: "reads, bursts 18%",
        pace: Pace::Bursts(0.18),
        read_percent: 100,
        blocks: &[1],
        state: Precondition::Filled,
    },
];

fn main() {
    match std::env::args().nth(1).as_deref() {
        None => fit(),
        Some("report") => report(),
        Some(other) => eprintln!("{other:?} is not known: nothing to fit, or `report`"),
    }
}

fn record_all(drives: &[&'static str], loads: &[Load], seed: u64, count: usize) -> Vec<Run> {
    let drive = |&name| {
        std::thread::spawn({
            let loads = loads.to_vec();
            move || {
                let profile = load::drive(name);
                let used = |state| Ssd::new(&profile, state, seed).expect("a possible drive");
                let (filled, aged) = (used(Precondition::Filled), used(AGED));
                let runs = loads.iter().map(|load| {
                    let used = if load.state == AGED { &aged } else { &filled };
                    record(name, used, load, seed, count)
                });
                runs.collect::<Vec<_>>()
            }
        })
    };
    let threads: Vec<_> = drives.iter().map(drive).collect();
    threads.into_iter().flat_map(|thread| thread.join().expect("a run")).collect()
}

fn report() {
    let runs = record_all(OTHER_DRIVES, OTHER_LOADS, 7, IOS);
    heading();
    for run in &runs {
        row(run, &replay(run, Tuning::default()));
    }
}

fn heading() {
    println!(
        "{:<14} {:<18} {:>6} {:>6} {:>6} {:>7} {:>6} {:>6} {:>6} {:>6} {:>6} {:>7} {:>6} {:>9} \
         {:>6} {:>6} {:>6} {:>6}",
        "drive",
        "load",
        "gc",
        "harmed",
        "busy",
        "verd/s",
        "right",
        "in gc",
        "prec",
        "recall",
        "known",
        "stall/s",
        "found",
        "delay ms",
        "avoid",
        "saved",
        "own pr",
        "own re",
    );
}

fn row(run: &Run, score: &Score) {
    let percent = |share: f64| {
        if share.is_nan() { "-".into() } else { format!("{:.1}", share * 100.0) }
    };
    println!(
        "{:<14} {:<18} {:>6} {:>6} {:>6} {:>7.1} {:>6} {:>6} {:>6} {:>6} {:>6} {:>7.1} {:>6} \
         {:>9.2} {:>6} {:>6} {:>6} {:>6}",
        run.drive,
        run.load,
        percent(score.gc_time),
        percent(score.harmed),
        percent(score.busy_time),
        score.verdicts,
        percent(score.right),
        percent(score.collecting),
        percent(score.precision),
        percent(score.recall),
        percent(score.wait_known),
        score.stalls,
        percent(score.found),
        score.delay.as_secs_f64() * 1e3,
        percent(score.avoided),
        percent(score.saved),
        percent(score.own_precision),
        percent(score.own_recall),
    );
}

/// The constants that are fitted, each with what is tried.
fn variants(base: Tuning) -> Vec<(&'static str, Vec<(String, Tuning)>)> {
    let counts = |values: &[u32], set: fn(&mut Tuning, u32)| {
        let variant = |&value: &u32| {
            let mut tuning = base;
            set(&mut tuning, value);
            (value.to_string(), tuning)
        };
        values.iter().map(variant).collect::<Vec<_>>()
    };
    vec![
        ("late", counts(&[2, 3, 4, 5, 6, 8], |tuning, value| tuning.late = value)),
        (
            "floor (us)",
            counts(&[250, 375, 500, 750, 1000, 2000], |tuning, value| tuning.floor = micros(value)),
        ),
        ("alone", counts(&[1, 2, 3, 5], |tuning, value| tuning.alone = value)),
        ("repeated", counts(&[0, 2, 3, 5, 8], |tuning, value| tuning.repeated = value as u8)),
        (
            "again (us)",
            counts(&[10_000, 50_000, 100_000, 200_000, 500_000], |tuning, value| {
                tuning.again = micros(value);
            }),
        ),
        ("calm", counts(&[1, 3, 6, 12], |tuning, value| tuning.calm = value as u8)),
        (
            "probe (us)",
            counts(&[1_000, 2_000, 5_000, 20_000, 100_000], |tuning, value| {
                tuning.probe = micros(value);
            }),
        ),
        ("window", counts(&[256, 1024, 4096], |tuning, value| tuning.window = value as u16)),
    ]
}

fn micros(value: u32) -> Duration {
    Duration::from_micros(value.into())
}

fn fit() {
    let runs = record_all(TRAINING_DRIVES, TRAINING_LOADS, 1, IOS);
    let mut best = Tuning::default();
    heading();
    for run in &runs {
        row(run, &replay(run, best));
    }
    let mut value = worth(&runs, best);
    println!("the defaults: {value}");
    loop {
        let before = value.f1;
        for at in 0..variants(best).len() {
            let (name, tried) = variants(best).swap_remove(at);
            for (text, tuning) in tried {
                let worth = worth(&runs, tuning);
                println!("{name:<12} {text:>8} {worth}");
                // What hardly differs stays as it is.
                if worth.in_vain <= IN_VAIN_MAX && worth.f1 > value.f1 + 0.002 {
                    (best, value) = (tuning, worth);
                }
            }
        }
        println!("{best:#?}: {value}");
        if value.f1 <= before {
            return;
        }
    }
}

/// The share of reads that may be avoided needlessly.
const IN_VAIN_MAX: f64 = 0.0005;

/// What constants are worth: means over the runs.
struct Worth {
    /// The harmonic mean of precision and recall of I/Os, which is maximised. It is over the runs
    /// in which I/Os were harmed and the drive did not collect most of the time: a drive that
    /// always collects can't be told apart by mood.
    f1: f64,
    /// The share of latency that is saved, over the same runs.
    saved: f64,
    /// The share of reads that are avoided where nothing is harmed.
    in_vain: f64,
}

impl std::fmt::Display for Worth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { f1, saved, in_vain } = self;
        write!(f, "F1 {f1:.4}, saved {saved:.4}, in vain {in_vain:.4}")
    }
}

fn worth(runs: &[Run], tuning: Tuning) -> Worth {
    let scores: Vec<Score> = runs.iter().map(|run| replay(run, tuning)).collect();
    let counted = |score: &&Score| score.harmed > 0.001 && score.gc_time < 0.5;
    let f1 = |score: &Score| match score.precision {
        precision if precision > 0.0 && score.recall > 0.0 => {
            2.0 / (1.0 / precision + 1.0 / score.recall)
        }
        _ => 0.0,
    };
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    Worth {
        f1: mean(scores.iter().filter(counted).map(f1).collect()),
        saved: mean(scores.iter().filter(counted).map(|score| score.saved.max(-1.0)).collect()),
        in_vain: mean(scores.iter().filter(|s| s.harmed == 0.0).map(|s| s.avoided).collect()),
    }
}
