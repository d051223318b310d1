//! Questions whose answer is known.

use std::path::Path;

use lab::advise::{Doubt, Question, QuestionError, advise, candidates};
use lab::sweep::Progress;
use lab::system::{DriveSpec, Use};

/// Four drives of msr2008 with fewer planes and blocks, whose collection is like this.
fn question(gc: &str) -> Question {
    let set = format!(
        "geometry = {{ planes = 1, blocks = 48 }}\ngc = {{ only_when_waiting = false, {gc} }}"
    );
    let ssd = DriveSpec {
        profile: "msr2008".to_owned(),
        blocks: None,
        used: Use::Aged,
        overwrites: 2.0,
        told: Some(false),
        obeys: Some(false),
        streams: None,
        set: toml::from_str(&set).expect("TOML"),
    };
    let workload = "synthetic = { read = 0.5, size = '4K', pace.open.rate = 300 }";
    Question {
        drive_bytes: 80 << 20,
        ssd,
        members: 4,
        level: None,
        workload: toml::from_str(workload).expect("TOML"),
        requests: 2000,
        seeds: 2,
    }
}

#[test]
fn without_stalls_the_array_needs_no_policy() {
    let question = question("scope = 'device', instant = true");
    let advice = advise(&question, Path::new(""), &Progress::default()).expect("advice");
    let best = &advice.rows[advice.recommended];
    assert!(best.is_plain(), "{}", best.candidate.name);
    assert_eq!(best.candidate.arguments, "--level raid5");
    assert!(advice.doubts.iter().any(|doubt| matches!(doubt, Doubt::HardlyCollects { .. })));
}

#[test]
fn where_drives_stall_for_long_something_is_done_about_it() {
    let question = question("scope = 'device', unit.burst = 60");
    let advice = advise(&question, Path::new(""), &Progress::default()).expect("advice");
    let best = &advice.rows[advice.recommended];
    assert!(!best.is_plain() && best.cost() <= 0.9, "{}", best.candidate.name);
    assert_eq!(advice.records("of a test").len(), 2 * advice.rows.len());
}

#[test]
fn only_what_the_daemon_accepts_is_compared() {
    let question = question("scope = 'device'");
    let names = |question: &Question, obeys| {
        let all = candidates(question, obeys).into_iter();
        all.map(|candidate| candidate.arguments).collect::<Vec<_>>()
    };
    let takes = |lines: &[String], word: &str| lines.iter().any(|line| line.contains(word));
    let sold = names(&question, false);
    assert_eq!(sold[0], "--level raid5");
    assert!(takes(&sold, "--policy evenkeel --cache log") && takes(&sold, "log-raid5"));
    // With drives that obey nothing, turns rest.
    assert!(sold.contains(&"--level raid5 --policy evenkeel".to_owned()), "{sold:?}");
    let mirror = names(&Question { members: 2, ..question.clone() }, true);
    assert!(
        !takes(&mirror, "--cache") && !takes(&mirror, "--staging") && !takes(&mirror, "log-raid")
    );
}

#[test]
fn impossible_questions_are_refused() {
    let question = question("scope = 'device'");
    let one = Question { members: 1, ..question.clone() };
    assert!(matches!(one.check(), Err(QuestionError::Shape(_))));
    let nothing = Question { requests: 0, ..question.clone() };
    assert_eq!(nothing.check(), Err(QuestionError::Nothing));
    let workload = toml::from_str("paper = { name = 'none' }").expect("TOML");
    assert!(matches!(Question { workload, ..question }.check(), Err(QuestionError::Workload(_))));
}
