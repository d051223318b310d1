//! Loads that are found for a share of garbage collection.

use std::path::Path;

use lab::experiment::Experiment;
use lab::results::Record;
use lab::sweep::{Progress, Share, sweep};

use crate::world::{RAID5, SSD, parse, refused};

/// One variant's drives collect half as much as the other's.
fn calibrated(duties: &str, more: &str) -> String {
    format!(
        "[run]\nrequests = 4000\nwarmup = 1000\nseeds = 2\n[calibrate]\n\
         key = 'workload.synthetic.pace.open.rate'\nvariant = 'full'\ngc_duty = {duties}\n\
         [[variant]]\nname = 'roomy'\nssd.set.ftl.spare = 0.4\n[[variant]]\nname = 'full'\n{more}"
    )
}

const OPEN: &str = "[workload.synthetic]\nread = 0.3\nsize = '4K'\npace.open.rate = 400\n";

fn run(experiment: &Experiment, out: &Path) -> (Vec<Record>, u64) {
    let progress = Progress::default();
    let records = sweep(experiment, out, Share::default(), &progress).expect("it runs");
    (records, progress.requests.into_inner())
}

#[test]
fn loads_are_found_for_a_share_of_collection() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("out");
    let experiment =
        parse(&[RAID5, SSD, OPEN, &calibrated("[0.05, 0.1]", "")]).expect("an experiment");
    let (records, requests) = run(&experiment, &out);
    let load = |r: &Record| experiment.calibration.as_ref().and_then(|c| c.load(&r.point));
    let duty = |r: &Record| r.figures.drives.iter().map(|drive| drive.gc_duty).sum::<f64>() / 5.0;
    for wanted in [0.05, 0.1] {
        let label = format!("gc_duty={wanted}");
        let of = |name: &str| {
            let label = format!("{name} {label}");
            records.iter().filter(move |r| r.label() == label).collect::<Vec<_>>()
        };
        let (full, roomy) = (of("full"), of("roomy"));
        assert_eq!((full.len(), roomy.len()), (2, 2));
        let mean = (duty(full[0]) + duty(full[1])) / 2.0;
        assert!((mean / wanted - 1.0).abs() <= 0.05, "{mean}");
        assert!(duty(roomy[0]) < 0.8 * duty(full[0]));
        assert!(full.iter().chain(&roomy).all(|r| load(r) == load(full[0])));
        assert!(load(full[0]).is_some_and(|load| load != 400.0));
    }
    // Loads that were found are not searched again, and results are recognised.
    assert!(requests > 8 * 5000);
    assert_eq!(run(&experiment, &out), (records.clone(), 0));
    assert!(records.iter().all(|record| experiment.has(record)));
    let mut other = records[0].clone();
    other.point.run.warmup = 7;
    assert!(!experiment.has(&other));
    // Every machine finds the same.
    let again = dir.path().join("again");
    assert_eq!(run(&experiment, &again), (records, requests));
}

#[test]
fn loads_that_can_not_be_found_are_told() {
    let fails = |ssd: &str, duties: &str, words: &[&str]| {
        let dir = tempfile::tempdir().expect("a directory");
        let experiment = parse(&[RAID5, ssd, OPEN, &calibrated(duties, "")]).expect("one");
        let out = dir.path().join("out");
        let error = sweep(&experiment, &out, Share::default(), &Progress::default());
        let error = error.map(|_| ()).expect_err("there is no such load").to_string();
        for word in words {
            assert!(error.contains(word), "{word}: {error}");
        }
    };
    let fresh = SSD.replace("overwrites = 1.0", "use = 'fresh'");
    fails(&fresh, "[0.1]", &["gc_duty=0.1", "open.rate = 400", "no drive collected"]);
    let one_die = SSD.replace("channels = 4, chips = 4", "channels = 1, chips = 1");
    fails(&one_die, "[0.999]", &["gc_duty=0.999", "99.90%", "no load was found", "open.rate"]);
}

#[test]
fn calibrations_that_mean_nothing_are_refused() {
    let wrong = |from: &str, to: &str, words: &[&str]| {
        refused(&[RAID5, SSD, OPEN, &calibrated("[0.05]", "").replace(from, to)], words);
    };
    wrong("[0.05]", "[0.05, 5]", &["line 26", "below 1"]);
    wrong("[0.05]", "[]", &["line 26", "gc_duty"]);
    wrong("open.rate'", "open.speed'", &["line 24", "open.speed", "number above 0"]);
    wrong("variant = 'full'", "", &["line 24", "variant", "roomy"]);
    wrong("'full'\ngc", "'fuller'\ngc", &["line 25", "\"fuller\""]);
    wrong("key", "kee", &["line 24", "kee"]);
    let swept = calibrated("[0.05]", "[sweep]\nworkload.synthetic.pace.open.rate = [1, 2]\n");
    refused(&[RAID5, SSD, OPEN, &swept], &["line 24", "swept"]);
}
