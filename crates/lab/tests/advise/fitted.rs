//! The closed loop: a drive of a known profile is recorded, and the fitted one has to behave like it.

use flashsim::{Precondition, Profile, Ssd};
use lab::fit::{Fit, FitError, Plan, PlanError, Recording, Unsure, fit, play};

/// msr2008 with fewer planes and blocks, whose collection is like this.
fn known(gc: &str) -> Profile {
    let profile = Profile::builtin("msr2008").expect("a profile");
    let mut table = toml::Table::try_from(&profile).expect("a table");
    let set = format!(
        "geometry = {{ planes = 1, blocks = 48 }}\ngc = {{ only_when_waiting = false, {gc} }}"
    );
    lab::experiment::merge(&mut table, &toml::from_str(&set).expect("TOML"));
    let profile: Profile = table.try_into().expect("a profile");
    profile.check().expect("a possible drive");
    profile
}

fn record(profile: &Profile, seconds: f64, writes: bool) -> Recording {
    let mut ssd = Ssd::new(profile, Precondition::Fresh, 7).expect("a drive");
    let sizes = *ssd.geometry();
    let bytes = u64::from(sizes.logical_pages) * u64::from(sizes.page_bytes);
    let plan = Plan::new(seconds, writes, bytes).expect("a plan");
    play(&mut ssd, &plan, 3)
}

/// The figures of the fitted drive over those of the known one.
fn ratios(name: &str, fit: &Fit) -> Vec<(&'static str, f64)> {
    let observed = fit.observed.as_ref().expect("it was written").figures();
    let modelled = fit.modelled.as_ref().expect("it was written").figures();
    let pairs = observed.into_iter().zip(modelled);
    pairs
        .map(|((figure, _, observed), (_, _, modelled))| {
            // The table in docs/flashsim.md.
            println!("{name} | {figure} | {observed:.4} | {modelled:.4}");
            (figure, modelled / observed)
        })
        .collect()
}

/// Mean, stall lengths, share of the time in stalls and rate of the fitted drive are within these parts of the
/// known one's. Tells how many stalls of single writes were recorded.
fn is_alike(name: &str, gc: &str, within: f64) -> u64 {
    let fit = fit(&record(&known(gc), 3.0, true)).expect("a fit");
    let observed = fit.observed.as_ref().expect("it was written");
    let (merged, single) = (observed.stalls.share > 0.8, observed.single.count);
    for (figure, ratio) in ratios(name, &fit) {
        let counts = match figure {
            "writes/s" | "write mean" | "time in stalls" => true,
            // Where some write is always late, stalls merge and have no length …
            "stall mean" => !merged,
            // … but not those of one write at a time.
            "stall mean, one write at a time" => single >= 10,
            _ => false,
        };
        let alike = (1.0 - within..=1.0 / (1.0 - within)).contains(&ratio);
        assert!(!counts || alike, "{name}: {figure} is {ratio:.2} times as much");
    }
    single
}

#[test]
fn a_drive_that_stalls_as_a_whole_is_fitted() {
    is_alike("device", "scope = 'device', unit.burst = 8", 0.25);
}

#[test]
fn a_drive_whose_chips_stall_is_fitted_with_the_length_of_its_stalls() {
    let stalls = is_alike("chip", "scope = 'chip', unit = 'block'", 0.2);
    assert!(stalls >= 10, "{stalls}");
}

#[test]
fn a_drive_that_never_collects_is_fitted() {
    let stalls = is_alike("instant", "scope = 'device', instant = true", 0.25);
    assert_eq!(stalls, 0);
}

#[test]
fn what_was_only_read_is_told() {
    let recording = record(&known("scope = 'chip'"), 1.0, false);
    let fit = fit(&recording).expect("a fit");
    assert!(fit.unsure.contains(&Unsure::ReadOnly) && fit.observed.is_none());
    fit.profile.check().expect("a possible drive");
}

#[test]
fn equal_recordings_are_fitted_equally_and_empty_ones_refused() {
    let recording = record(&known("scope = 'chip'"), 1.0, false);
    assert_eq!(fit(&recording).expect("a fit"), fit(&recording).expect("a fit"));
    let empty = Recording { blocks: 4096, area: 4096, steps: Vec::new() };
    assert!(matches!(fit(&empty), Err(FitError::NoReads)));
}

#[test]
fn absurd_plans_are_refused() {
    for seconds in [0.0, -1.0, 1e9, f64::NAN, f64::INFINITY] {
        assert!(
            matches!(Plan::new(seconds, true, 1 << 30), Err(PlanError::Seconds(_))),
            "{seconds}"
        );
    }
    assert_eq!(Plan::new(60.0, true, 4096), Err(PlanError::Small(4096)));
}
