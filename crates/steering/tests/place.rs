//! Where reads go.

use core::time::Duration;

use det::Instant;
use raidcore::engine::{Detour, Outcome, Place, Way};
use steering::hedge::Hedge;
use steering::place::{Reconstruct, Steer};
use steering::scheme::{SCHEMES, Scheme};

#[test]
fn detours_keep_to_their_budget() {
    let mut policy = Steer { reads: Some(Reconstruct::new(0.05)), ..Steer::default() };
    let (mut read, mut extra_so_far) = (0, 0);
    let mut refused = 0;
    for _ in 0..100_000 {
        read += 1;
        let detour = Detour { read, extra_so_far, blocks: 1, extra: 3 };
        if policy.takes(Instant::ORIGIN, detour) {
            extra_so_far += 3;
        } else {
            refused += 1;
        }
    }
    let share = extra_so_far as f64 / read as f64;
    assert!((0.045..0.052).contains(&share) && refused > 0, "{share}, {refused} refused");
    assert!(policy.takes(Instant::ORIGIN, Detour { read, extra_so_far, blocks: 1, extra: 0 }));
}

#[test]
fn patience_ends_where_one_read_in_twenty_takes_longer_and_twice_as_long_as_most() {
    let mut policy = Steer { hedge: Some(Hedge::default()), ..Steer::default() };
    assert_eq!(policy.patience(Instant::ORIGIN, 1), None, "nothing is known yet");
    let mut after = |slow: u64| {
        for i in 0..4000 {
            let took = Duration::from_micros(if i % slow == 7 { 9_000 } else { 100 });
            policy.ended(Outcome { read: true, blocks: 1, way: Way::Calm, took });
            policy.ended(Outcome { read: false, blocks: 1, way: Way::Calm, took: took * 1000 });
        }
        policy.patience(Instant::ORIGIN, 1).expect("enough have ended").as_micros()
    };
    let (rarely, often) = (after(100), after(10));
    assert!((180..220).contains(&rarely), "{rarely} us, twice what most take");
    assert!((8_000..10_000).contains(&often), "{often} us, as one in twenty does take that long");
    assert_eq!(policy.patience(Instant::ORIGIN, 256), None, "nothing is known of large ones");
}

#[test]
fn schemes_have_names_of_their_own() {
    for scheme in SCHEMES {
        assert_eq!(Scheme::named(scheme.name), Some(*scheme));
    }
    assert_eq!(Scheme::named("none of them"), None);
}
