//! Whether it pays to lead requests around busy members.

use std::time::Duration;

use det::Instant;
use raidcore::engine::{Choice, Way};
use steering::detour_trial::DetourTrial;

const OF_READS: fn(bool) -> Choice = |small| Choice::Detour { reads: true, small };

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// How many of 1000 requests make a detour, given the latencies of detours and of waiting.
fn led_around(trial: &mut DetourTrial, blocks: u32, around: u64, home: u64) -> u32 {
    led_at_a_price(trial, (blocks, 0), around, home)
}

/// The same if each detour has others do as much as so many calm requests.
fn led_at_a_price(
    trial: &mut DetourTrial,
    (blocks, price): (u32, u32),
    around: u64,
    home: u64,
) -> u32 {
    let mut count = 0;
    for _ in 0..1000 {
        if trial.choose(blocks, price) {
            trial.ended(blocks, Way::Around, micros(around));
            count += 1;
        } else {
            trial.ended(blocks, Way::Home, micros(home));
        }
    }
    count
}

fn trial() -> DetourTrial {
    let mut trial = DetourTrial::default();
    for blocks in [1, 256] {
        (0..100).for_each(|_| trial.ended(blocks, Way::Calm, micros(100)));
    }
    trial
}

#[test]
fn nobody_waits_on_purpose_while_the_way_around_is_short() {
    assert_eq!(led_around(&mut trial(), 1, 290, 50_000), 1000);
    // Nor before anything is known.
    assert!(DetourTrial::default().choose(1, 4));
}

#[test]
fn a_long_way_around_is_taken_if_waiting_takes_longer() {
    let count = led_around(&mut trial(), 1, 400, 50_000);
    assert!((960..1000).contains(&count), "{count}");
}

#[test]
fn it_is_known_since_when_who_loses_rests() {
    let mut trial = trial();
    let at = |seconds| Instant::ORIGIN + Duration::from_secs(seconds);
    let large = |trial: &DetourTrial| {
        let part = trial.judged(OF_READS).nth(1).expect("there are two");
        (part.on, part.since)
    };
    trial.look(at(1), 256);
    assert_eq!(large(&trial), (true, None));
    led_around(&mut trial, 256, 5_000, 800);
    trial.look(at(2), 256);
    trial.look(at(3), 256);
    assert_eq!(large(&trial), (false, Some(at(2))));
    led_around(&mut trial, 256, 5_000, 50_000);
    led_around(&mut trial, 256, 5_000, 50_000);
    trial.look(at(4), 1);
    trial.look(at(5), 256);
    assert_eq!(large(&trial), (true, Some(at(5))));
}

#[test]
fn who_loses_rests_until_it_would_win_again() {
    let mut trial = trial();
    let count = led_around(&mut trial, 256, 5_000, 800);
    assert!(count < 400, "{count}");
    let on = |trial: &DetourTrial| trial.judged(OF_READS).map(|part| part.on).collect::<Vec<_>>();
    assert_eq!(on(&trial), [true, false]);
    assert_eq!(led_around(&mut trial, 1, 100, 50_000), 1000, "small ones are not concerned");
    led_around(&mut trial, 256, 5_000, 50_000);
    assert!(led_around(&mut trial, 256, 5_000, 50_000) > 960);
    assert_eq!(on(&trial), [true, true]);
}

#[test]
fn what_has_been_found_out_again_and_again_is_not_tried_so_often() {
    let mut trial = trial();
    let counts = [(); 8].map(|()| 1000 - led_around(&mut trial, 1, 400, 50_000));
    assert!(counts[0] >= 8, "it is found out: {counts:?}");
    assert!(counts[4..].iter().sum::<u32>() <= 1, "and then believed: {counts:?}");
    // Until that changes.
    led_around(&mut trial, 1, 60_000, 50_000);
    assert!(led_around(&mut trial, 1, 60_000, 50_000) < 100);
}

#[test]
fn one_that_takes_very_long_says_little() {
    let mut trial = trial();
    assert_eq!(led_around(&mut trial, 1, 150, 50_000), 1000);
    trial.ended(1, Way::Around, micros(50_000));
    assert!(!trial.is_in_question(1, 0));
    (0..50).for_each(|_| trial.ended(1, Way::Around, micros(50_000)));
    assert!(trial.is_in_question(1, 0));
}

#[test]
fn a_detour_has_to_win_more_than_it_costs_others() {
    // Calm requests take 100 µs.
    let count = |around, home| led_at_a_price(&mut trial(), (1, 4), around, home);
    assert!(count(400, 900) > 960, "500 us are won for 400");
    assert!(count(400, 700) < 400, "300 us are won for 400");
    assert!(led_at_a_price(&mut trial(), (1, 0), 400, 700) > 960, "300 us are won for nothing");
    // However short it is.
    assert!(count(100, 700) > 960, "600 us are won for 400");
    assert!(count(100, 400) < 400, "300 us are won for 400");
    assert_eq!(led_at_a_price(&mut trial(), (1, 0), 100, 100), 1000, "nothing is lost");
}
