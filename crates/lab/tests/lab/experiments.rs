//! Files of experiments: their meaning, and the errors of invalid ones.

use crate::world::{RAID5, SSD, closed, parse, refused};

const RUN: &str = "[run]\nrequests = 10\nseeds = 2\n";

#[test]
fn variants_and_sweeps_are_combined() {
    let variants = "[[variant]]\nname = 'small'\nssd.blocks = 80\n[[variant]]\nname = 'alone'\n\
                    ssd.set.gc.unit = 'page'\n";
    let sweep = "[sweep]\n'run.requests' = [1, 2, 3]\nssd.overwrites = [0.5, 1.0]\n";
    let experiment =
        parse(&[RAID5, SSD, &closed(2, 0.5), RUN, sweep, variants]).expect("it is one");
    assert_eq!(experiment.points.len(), 2 * 3 * 2);
    let first = &experiment.points[0];
    assert_eq!(first.label(), "small requests=1 overwrites=0.5");
    assert_eq!((first.point.ssd.blocks, first.point.run.requests), (Some(80), Some(1)));
    let last = &experiment.points[11];
    assert_eq!(last.label(), "alone requests=3 overwrites=1.0");
    assert_eq!((last.point.ssd.blocks, last.point.ssd.overwrites), (Some(64), 1.0));
    let profile = last.point.ssd.profile(&experiment.base).expect("a profile");
    assert_eq!(profile.gc.unit, flashsim::profile::Unit::Page);
}

#[test]
fn variants_change_each_value_of_an_axis() {
    let axis = "[[axis.drive]]\nname = 'small'\nssd = { blocks = 80, overwrites = 0.5 }\n\
                [[axis.drive]]\nname = 'paged'\nssd.set.gc.unit = 'page'\n";
    let variants =
        "[[variant]]\nname = 'plain'\n[[variant]]\nname = 'more'\nssd.overwrites = 2.0\n";
    let sweep = "[sweep]\nrun.requests = [1, 2]\n";
    let experiment = parse(&[RAID5, SSD, &closed(2, 0.5), RUN, axis, sweep, variants]);
    let points = experiment.expect("it is one").points;
    let of = |label: &str| {
        let found = points.iter().find(|point| point.label() == label);
        let ssd = &found.unwrap_or_else(|| panic!("no {label}")).point.ssd;
        (ssd.blocks, ssd.overwrites)
    };
    assert_eq!(points.len(), 2 * 2 * 2);
    assert_eq!(of("plain drive=small requests=1"), (Some(80), 0.5));
    assert_eq!(of("more drive=small requests=2"), (Some(80), 2.0), "the variant has the last word");
    assert_eq!(of("plain drive=paged requests=2"), (Some(64), 1.0));
    assert_eq!(of("more drive=paged requests=1"), (Some(64), 2.0));
}

#[test]
fn unknown_keys_are_refused_with_their_line() {
    let workload = closed(2, 0.5);
    refused(&[RAID5, SSD, &workload, RUN, "colour = 'red'\n"], &["line", "colour", "requests"]);
    refused(&[RAID5, SSD, &workload, RUN, "[extra]\n"], &["line", "extra", "variant"]);
    refused(&[&RAID5.replace("chunk", "chunky"), SSD, &workload, RUN], &["line 6", "chunky"]);
    refused(&[RAID5, SSD, &workload.replace("read", "reads"), RUN], &["line", "reads"]);
    refused(&[RAID5, &format!("{SSD}size = 1\n"), &workload, RUN], &["line", "size", "profile"]);
}

#[test]
fn impossible_points_are_refused() {
    let workload = closed(2, 0.5);
    let ssd = |more: &str| format!("{SSD}{more}\n");
    refused(&[&RAID5.replace("raid5", "raid7"), SSD, &workload, RUN], &["raid7", "raid6"]);
    refused(&[&SSD.replace("femu-ioda", "best"), &workload, RUN], &["line 3", "best", "msr2008"]);
    refused(&[&ssd("set.gc.start = 0.9"), &workload, RUN], &["line", "gc."]);
    refused(&[&ssd("set.gc.begin = 0.9"), &workload, RUN], &["line", "begin", "start"]);
    refused(&[&SSD.replace("= 64", "= 4"), &workload, RUN], &["line", "geometry.blocks", "8"]);
    refused(&[&SSD.replace("1.0", "-1.0"), &workload, RUN], &["overwrites", "-1"]);
    refused(&[SSD, &closed(0, 0.5), RUN], &["depth", "at least 1"]);
    refused(&[SSD, &closed(1, 1.5), RUN], &["read", "1.5"]);
    refused(&[SSD, &workload, "[run]\nseeds = 0\n"], &["run.seeds"]);
    refused(&[SSD, &workload, "[run]\nqueue_depth = 0\n"], &["run.queue_depth"]);
    refused(&[SSD, &workload, "[run]\nseconds = nan\n"], &["run.seconds"]);
}

#[test]
fn variants_and_sweeps_that_mean_nothing_are_refused() {
    let tables =
        |more: &'static str| [SSD, "[workload.synthetic]\nread = 1\nsize = 512\n", RUN, more];
    refused(&tables("[[variant]]\nssd.blocks = 9\n"), &["line 16", "name"]);
    refused(&tables("[[variant]]\nname = 'a'\n[[variant]]\nname = 'a'\n"), &["line 18", "two"]);
    refused(&tables("[[variant]]\nname = 'a'\nssd.block = 9\n"), &["line 16", "a:", "block"]);
    refused(&tables("[[axis.drive]]\nssd.blocks = 9\n"), &["line 16", "axis.drive", "name"]);
    let twice = "[[axis.drive]]\nname = 'a'\n[[axis.drive]]\nname = 'a'\n";
    refused(&tables(twice), &["line 18", "two [[axis.drive]]"]);
    refused(&tables("[axis]\ndrive = []\n"), &["drive", "at least one"]);
    refused(&tables("[sweep]\n'ssd.blocks' = 9\n"), &["line 17", "list"]);
    refused(&tables("[sweep]\nssd.blocks = []\n"), &["line 17", "list"]);
    refused(&tables("[sweep]\n'ssd.blokcs' = [9]\n"), &["line 17", "blokcs"]);
    refused(&tables("[sweep]\n'ssd.blocks.more' = [9]\n"), &["line 17", "blocks"]);
    let huge = "[sweep]\n'run.requests' = [1,2,3,4,5,6,7,8,9,10]\n'run.warmup' = [1,2,3,4,5,6,7,8,9,10]\n\
                'ssd.overwrites' = [1,2,3,4,5,6,7,8,9,10]\n'run.seeds' = [1,2,3,4,5,6,7,8,9,10]\n\
                'run.queue_depth' = [1,2,3,4,5,6,7,8,9,10]\n'ssd.blocks' = [10,11]\n";
    refused(&tables(huge), &["100000 points"]);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = lab::experiment::Task::load("/nowhere/x.toml".as_ref()).expect_err("none");
    assert!(error.to_string().contains("/nowhere/x.toml"));
}

#[test]
fn nobody_has_to_guess_what_the_drives_of_a_scheme_do() {
    let with = |array: &str, ssd: &str| {
        let (array, ssd) = (format!("{RAID5}{array}"), format!("{SSD}{ssd}"));
        parse(&[&array, &ssd, &closed(2, 0.5), RUN]).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(with("", ""), Ok(()), "without a scheme it makes no difference");
    for scheme in ["scheme = 'hedge'\n", "scheme = 'rotate'\n"] {
        let error = with(scheme, "").expect_err("it does");
        assert!(error.contains("told and obeys = true or false"), "{error}");
        let error = with(scheme, "told = true\n").expect_err("that is half of it");
        assert!(error.contains("needs obeys = true") && error.contains("line 9"), "{error}");
        assert_eq!(with(scheme, "told = true\nobeys = false\n"), Ok(()));
    }
    let error = with("scheme = 'hedge'\nsignals = 'detected'\n", "").expect_err("it is gone");
    assert!(error.contains("signals"), "{error}");
}

#[test]
fn a_scheme_that_is_none_is_told_those_that_are() {
    let array = format!("{RAID5}scheme = 'magic'\n");
    let words = ["line 7", "magic", "plain", "rotate+reconstruct"];
    refused(&[&array, SSD, &closed(2, 0.5), RUN], &words);
}
