//! Where reads go.

use det::Instant;
use raidcore::engine::{Detour, Place};
use steering::place::{Reconstruct, Steer};
use steering::scheme::{SCHEMES, Scheme};

#[test]
fn detours_keep_to_their_budget() {
    let mut policy = Steer { reads: Some(Reconstruct::new(0.05)), writes: None, trials: None };
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
fn schemes_have_names_of_their_own() {
    for scheme in SCHEMES {
        assert_eq!(Scheme::named(scheme.name), Some(*scheme));
    }
    assert_eq!(Scheme::named("none of them"), None);
}
