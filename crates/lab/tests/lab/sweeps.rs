//! Sweeps: resumed, divided, merged, and always equal.

use std::fs;
use std::path::{Path, PathBuf};

use lab::experiment::Experiment;
use lab::results::{self, COLUMNS, Record, groups, read};
use lab::sweep::{Progress, Share, SweepError, sweep};

use crate::world::{RAID5, SSD, closed, parse};

fn experiment() -> Experiment {
    let run = "[run]\nrequests = 2000\nwarmup = 500\nseeds = 3\n[sweep]\n\
               workload.synthetic.pace.closed.depth = [1, 8]\n";
    parse(&[RAID5, SSD, &closed(4, 0.5), run]).expect("an experiment")
}

fn run(out: &Path, share: Share) -> Vec<Record> {
    sweep(&experiment(), out, share, &Progress::default()).expect("it runs")
}

fn all(dir: &Path) -> (PathBuf, Vec<u8>) {
    let out = dir.join("all.jsonl");
    run(&out, Share::default());
    let bytes = fs::read(&out).expect("results");
    (out, bytes)
}

#[test]
fn the_same_experiment_gives_the_same_lines() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_, bytes) = all(dir.path());
    let again = dir.path().join("again.jsonl");
    run(&again, Share { threads: 1, ..Share::default() });
    assert!(fs::read(again).expect("results") == bytes);
    assert_eq!(bytes.iter().filter(|&&byte| byte == b'\n').count(), 6);
}

#[test]
fn what_was_interrupted_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let (out, bytes) = all(dir.path());
    // As if stopped in the middle of the third line.
    let ends: Vec<_> = (0..bytes.len()).filter(|&at| bytes[at] == b'\n').collect();
    fs::write(&out, &bytes[..usize::midpoint(ends[1], ends[2])]).expect("a torn file");
    let progress = Progress::default();
    sweep(&experiment(), &out, Share::default(), &progress).expect("it runs");
    assert!(fs::read(&out).expect("results") == bytes);
    let requests = progress.requests.into_inner();
    assert_eq!(requests, 4 * 2500, "two of the six shards were not run again");
}

#[test]
fn parts_are_joined() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_, bytes) = all(dir.path());
    let parts: Vec<_> = (0..4)
        .map(|part| {
            let out = dir.path().join(format!("part{part}"));
            run(&out, Share { part, of: 4, threads: 1 });
            read(&out).expect("results")
        })
        .collect();
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1, 1]);
    let merged = results::merge(parts.into_iter().rev().collect()).expect("they agree");
    let joined = dir.path().join("joined");
    results::write(&joined, &merged).expect("it is written");
    assert!(fs::read(joined).expect("results") == bytes);
}

#[test]
fn results_that_contradict_each_other_are_not_joined() {
    let dir = tempfile::tempdir().expect("a directory");
    let (out, _) = all(dir.path());
    let first = read(&out).expect("results");
    let mut second = first.clone();
    assert_eq!(results::merge(vec![first.clone(), second.clone()]).expect("the same").len(), 6);
    second[3].figures.seconds += 1.0;
    let error = results::merge(vec![first, second]).expect_err("they differ").to_string();
    assert!(error.contains("shard 3") && error.contains("a test"), "{error}");
}

#[test]
fn other_results_are_not_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let (out, bytes) = all(dir.path());
    let mut other = experiment();
    other.points[0].point.run.requests = Some(1);
    let error = sweep(&other, &out, Share::default(), &Progress::default()).expect_err("foreign");
    assert!(matches!(error, SweepError::Foreign { shard: 0, .. }), "{error}");
    assert!(fs::read(&out).expect("results") == bytes);
}

#[test]
fn what_is_no_result_is_told_with_its_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let (out, bytes) = all(dir.path());
    let spoil = |from: &str, to: &str| {
        let text = String::from_utf8(bytes.clone()).expect("text");
        let (first, rest) = text.split_once('\n').expect("two lines");
        fs::write(&out, format!("{first}\n{}", rest.replacen(from, to, 1))).expect("a file");
        read(&out).expect_err("spoilt").to_string()
    };
    let version = format!("\"version\":{}", results::VERSION);
    for (from, to, word) in [
        ("\"seed\":2", "\"seed\":\"two\"", "line 2"),
        (version.as_str(), "\"version\":70", "version 70"),
        ("\"figures\"", "\"numbers\"", "numbers"),
        ("{", "", "line 2"),
    ] {
        let error = spoil(from, to);
        assert!(error.contains(word) && error.contains("all.jsonl"), "{error}");
    }
    assert!(read(&dir.path().join("none")).is_err());
}

#[test]
fn seeds_make_groups_with_confidence() {
    let dir = tempfile::tempdir().expect("a directory");
    let (out, _) = all(dir.path());
    let records = read(&out).expect("results");
    let groups = groups(&records);
    let labels: Vec<_> = groups.iter().map(|group| group.label.as_str()).collect();
    assert_eq!(labels, ["depth=1", "depth=8"]);
    let column = COLUMNS.iter().find(|column| column.name == "requests/s").expect("it is told");
    let [one, eight] = [&groups[0], &groups[1]].map(|group| group.estimate(column));
    assert_eq!((one.count, eight.count), (3, 3));
    assert!(one.half_width > 0.0 && one.half_width.is_finite());
    assert!(eight.mean > one.mean && eight.differs_from(&one) && !one.differs_from(&one));
}

#[test]
fn a_shard_that_can_not_be_run_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = "[run]\nrequests = 10\n[[variant]]\nname = 'tiny'\narray.chunk = '5K'\n";
    let experiment = parse(&[RAID5, SSD, &closed(4, 0.5), run]).expect("an experiment");
    let out = dir.path().join("out");
    let error = sweep(&experiment, &out, Share::default(), &Progress::default());
    let error = error.expect_err("chunks are whole blocks").to_string();
    assert!(error.contains("tiny") && error.contains("array.chunk"), "{error}");
}
