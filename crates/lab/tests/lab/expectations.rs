//! What experiments expect, and how results are judged by it.

use lab::experiment::Experiment;
use lab::judge::{Judgement, Verdict, judge};
use lab::results::Record;
use lab::run::RunEnd;
use lab::sweep::{Progress, Share, sweep};

use crate::world::{RAID5, SSD, closed, parse, refused};

/// Two variants at two queue depths with three seeds. What is expected follows from
/// line 30 on.
const TABLES: &str = "[run]\nrequests = 200\nwarmup = 20\nseeds = 3\n[[variant]]\nname = 'old'\n\
                      [[variant]]\nname = 'new'\n[sweep]\n\
                      workload.synthetic.pace.closed.depth = [1, 8]\n";

fn with(expectations: &str) -> Vec<String> {
    vec![RAID5.into(), SSD.into(), closed(4, 0.5), TABLES.into(), expectations.into()]
}

fn experiment(expectations: &str) -> Experiment {
    let tables = with(expectations);
    parse(&tables.iter().map(String::as_str).collect::<Vec<_>>()).expect("an experiment")
}

#[track_caller]
fn wrong(expectation: &str, words: &[&str]) {
    let tables = with(&format!("[[expect]]\n{expectation}\n"));
    refused(&tables.iter().map(String::as_str).collect::<Vec<_>>(), words);
}

/// Results whose mean responses, in microseconds, are made up: by variant, depth and seed.
fn made_up(responses: fn(&str, i64, u64) -> f64) -> Vec<Record> {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("out");
    let run = sweep(&experiment(""), &out, Share::default(), &Progress::default());
    let mut records = run.expect("it runs");
    for record in &mut records {
        let depth = record.swept[0].1.as_integer().expect("a depth");
        let variant = record.variant.as_deref().expect("a variant");
        record.figures.responses.mean_us = responses(variant, depth, record.seed);
    }
    records
}

#[test]
fn mistakes_are_told_with_their_lines() {
    let right = "name = 'faster'\ncolumn = 'response mean'\nvariant = 'new'\nagainst = 'old'\n\
                 class = 'D'\nat_most = 0.5";
    assert_eq!(experiment(&format!("[[expect]]\n{right}\n")).expectations.len(), 1);
    let change = |from: &str, to: &str| right.replace(from, to);
    wrong(&change("response mean", "respons mean"), &["line 32", "respons mean", "write p99.9"]);
    wrong(&change("variant = 'new'", ""), &["line 31", "variant", "old"]);
    wrong(&change("'new'", "'newer'"), &["line 33", "\"newer\""]);
    wrong(&change("'old'", "'older'"), &["line 34", "\"older\""]);
    wrong(&change("'D'", "'R'"), &["line 36", "reported"]);
    wrong(&change("at_most = 0.5", ""), &["line 35", "at_least, at_most"]);
    wrong(&change("'D'", "'E'"), &["line 35", "`E`", "`H`"]);
    wrong(&(right.to_owned() + "\nat_least = 0.6"), &["line 37", "nothing passes"]);
    wrong(&(right.to_owned() + "\nas = 'value'"), &["line 37", "against"]);
    wrong(&(change("against = 'old'", "") + "\nas = 'change'"), &["line 37", "against what"]);
    wrong(&(right.to_owned() + "\nat.depth = 1"), &["line 37", "depth = 1"]);
    let depth = "at.workload.synthetic.pace.closed.depth";
    wrong(&format!("{right}\n{depth} = [1, 2]"), &["line 37", "= 2"]);
    wrong(&(right.to_owned() + "\nbecause = 'so'"), &["line 37", "because", "why"]);
}

#[track_caller]
fn judged<'a>(experiment: &'a Experiment, records: &[Record]) -> Vec<Judgement<'a>> {
    judge(experiment, records).expect("they are of the experiment")
}

#[test]
fn seed_is_set_against_seed() {
    let records = made_up(|variant, depth, seed| {
        // Seeds differ a lot, the variants by a tenth with depth 1 and by a half with depth 8.
        let by = if depth == 1 { 0.9 } else { 0.5 };
        100.0 * seed as f64 * if variant == "new" { by } else { 1.0 }
    });
    let of = "column = 'response mean'\nvariant = 'new'\nclass = 'D'";
    let experiment = experiment(&format!(
        "[[expect]]\nname = 'each'\nagainst = 'old'\nat_most = 0.6\n{of}\n\
         [[expect]]\nname = 'deep'\nagainst = 'old'\nas = 'change'\nat_most = -0.4\n{of}\n\
         at.workload.synthetic.pace.closed.depth = 8\n\
         [[expect]]\nname = 'mean'\nagainst = 'old'\nover = 'mean'\nat_least = 0.69\n\
         at_most = 0.71\n{of}\n\
         [[expect]]\nname = 'by itself'\nat_most = 95.0\n{of}\n\
         [[expect]]\nname = 'less'\nagainst = 'old'\nas = 'difference'\nat_most = -25\n{of}\n"
    ));
    let judgements = judged(&experiment, &records);
    let verdicts: Vec<_> = judgements.iter().map(Judgement::verdict).collect();
    use Verdict::{Miss, Pass};
    assert_eq!(verdicts, [Miss, Pass, Pass, Miss, Miss]);
    let [each, deep, mean, alone, less] = &judgements[..] else { panic!("five") };
    assert_eq!(each.findings.iter().map(|f| f.verdict).collect::<Vec<_>>(), [Miss, Pass]);
    let decisive = each.decisive().expect("there is one");
    assert_eq!(decisive.at, "depth=1");
    assert!((decisive.ours.mean - 0.9).abs() < 1e-9 && decisive.ours.half_width < 1e-9);
    assert!(decisive.certain, "all seeds agree");
    assert!((deep.findings[0].ours.mean + 0.5).abs() < 1e-9);
    assert_eq!((mean.findings.len(), mean.findings[0].at.as_str()), (1, ""));
    assert!((mean.findings[0].ours.mean - 0.7).abs() < 1e-9);
    assert!((alone.findings[0].ours.mean - 180.0).abs() < 1e-9);
    assert!(alone.findings[1].may_be_chance(), "50, 100 and 150 tell little about 95");
    assert!((less.findings[1].ours.mean + 100.0).abs() < 1e-9);
    assert_eq!(deep.findings[0].at, "depth=8");
    assert_eq!(deep.expectation.text(deep.findings[0].ours.mean), "-50.0%");
    assert_eq!(deep.expectation.gate_text(), "≤ -40.0%");
    assert_eq!(mean.expectation.gate_text(), "0.690× … 0.710×");
}

#[test]
fn what_can_not_be_judged_does_not_pass() {
    let records = made_up(|_, _, _| 100.0);
    let of = "[[expect]]\nname = 'even'\ncolumn = 'response mean'\nvariant = 'new'\n\
              against = 'old'\n";
    let hard = experiment(&format!("{of}class = 'H'\nat_least = 1\nat_most = 1"));
    let verdict = |records: &[Record]| {
        let judgements = judged(&hard, records);
        (judgements[0].verdict(), judgements[0].fails())
    };
    assert_eq!(verdict(&records), (Verdict::Pass, false));
    let without_old: Vec<_> =
        records.iter().filter(|r| r.variant.as_deref() != Some("old")).cloned().collect();
    assert_eq!(verdict(&without_old), (Verdict::NotMeasured, true));
    assert_eq!(verdict(&[]), (Verdict::NotMeasured, true));
    let mut cut_short = records.clone();
    cut_short[0].figures.end = RunEnd::Overloaded;
    assert_eq!(verdict(&cut_short), (Verdict::Overloaded, true));
    let mut nothing = records.clone();
    nothing.iter_mut().for_each(|record| record.figures.responses.mean_us = 0.0);
    assert_eq!(verdict(&nothing), (Verdict::Undefined, true));
    let mut others = records.clone();
    others.iter_mut().for_each(|record| record.experiment = "another".into());
    assert_eq!(verdict(&others), (Verdict::NotMeasured, true));
    // What is only reported never fails.
    let reported = experiment(&format!("{of}class = 'R'\npaper = 0.9"));
    for records in [&records, &cut_short] {
        assert!(!judged(&reported, records)[0].fails());
    }
    assert_eq!(judged(&reported, &records)[0].verdict(), Verdict::Reported);
}

#[test]
fn results_of_another_file_are_not_judged() {
    let mut records = made_up(|_, _, _| 100.0);
    let experiment = experiment("");
    assert!(judge(&experiment, &records).is_ok());
    records[3].point.run.requests = Some(7);
    let error = judge(&experiment, &records).expect_err("stale").to_string();
    assert!(error.contains("shard 3") && error.contains("run it again"), "{error}");
}
