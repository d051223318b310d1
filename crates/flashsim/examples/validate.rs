//! Compares the model with closed forms and other programs, and prints the differences: all of
//! them, or the groups that are named, with `--short` in less time. Ends with an error unless all
//! are within their tolerances.

use std::process::ExitCode;

use flashsim::validate::{Depth, SECTIONS, Verdict};

fn main() -> ExitCode {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let short = wanted.iter().position(|word| word == "--short").map(|at| wanted.remove(at));
    let depth = if short.is_some() { Depth::Short } else { Depth::Full };
    let known = |name: &String| SECTIONS.iter().any(|section| section.name == name);
    if let Some(unknown) = wanted.iter().find(|&name| !known(name)) {
        let names: Vec<_> = SECTIONS.iter().map(|section| section.name).collect();
        eprintln!("there is no group {unknown:?}; there are {}", names.join(", "));
        return ExitCode::FAILURE;
    }
    println!(
        "{:<58} {:>4} {:>11} {:>12} {:>8} {:>6} verdict",
        "comparison", "unit", "reference", "measured", "differs", "within"
    );
    let (mut count, mut off, mut held_back) = (0, 0, 0);
    for section in SECTIONS {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == section.name) {
            continue;
        }
        for row in (section.run)(depth) {
            println!("{row}");
            count += 1;
            off += u32::from(row.verdict() == Verdict::Off);
            held_back += u32::from(row.verdict() == Verdict::HeldBack);
        }
    }
    println!("{count} comparisons, {off} off, {held_back} held back");
    if off == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
