//! What small writes make of members' ages.

use raidcore::geometry::{Geometry, Level, Placement, Shares};
use raidcore::meta::{Consistency, Entries};
use steering::wear::{Wear, optimal_ages, parity_parts};

fn assert_close(found: &[f64], expected: &[f64]) {
    let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
    assert!(close && found.len() == expected.len(), "{found:?}, not {expected:?}");
}

fn even(level: Level, members: usize) -> Geometry {
    Geometry::new(level, members, 1, 1000).expect("a geometry")
}

fn uneven(level: Level, percent: &[u8]) -> Geometry {
    let placement = Placement::Uneven(Shares::new(percent).expect("shares"));
    even(level, percent.len()).placed(placement).expect("it fits")
}

fn ages(geometry: &Geometry, consistency: Consistency) -> Vec<f64> {
    optimal_ages(geometry, Entries::of_new(consistency, geometry))
}

#[test]
fn parts_of_parity_are_those_of_the_placement() {
    assert_close(&parity_parts(&even(Level::Raid5, 4)), &[0.25; 4]);
    assert_close(&parity_parts(&even(Level::Raid6, 5)), &[0.4; 5]);
    assert_close(&parity_parts(&even(Level::Raid4, 3)), &[0.0, 0.0, 1.0]);
    assert_close(&parity_parts(&even(Level::Raid0, 2)), &[0.0; 2]);
    assert_close(&parity_parts(&even(Level::Raid1, 2)), &[0.0; 2]);
    let four = uneven(Level::Raid5, &[5, 10, 15, 70]);
    assert_close(&parity_parts(&four), &[0.05, 0.10, 0.15, 0.70]);
    let five = uneven(Level::Raid6, &[5, 10, 15, 20, 50]);
    assert_close(&parity_parts(&five), &[0.1, 0.2, 0.3, 0.4, 1.0]);
}

/// PG-1, Eq 1. Marks of the bitmap are not counted.
#[test]
fn without_a_journal_members_age_by_eq_1() {
    for consistency in [Consistency::Resync, Consistency::Bitmap] {
        let four = uneven(Level::Raid5, &[5, 10, 15, 70]);
        assert_close(&ages(&four, consistency), &[1.1 / 2.4, 0.5, 1.3 / 2.4, 1.0]);
        let five = uneven(Level::Raid5, &[5, 10, 15, 20, 50]);
        assert_close(&ages(&five, consistency), &[0.46, 0.52, 0.58, 0.64, 1.0]);
        // All of the parity on one member: it is written as often as both others.
        assert_close(&ages(&even(Level::Raid4, 3), consistency), &[0.5, 0.5, 1.0]);
        // Two parities, 50% and five times 10% of them: of the three blocks of each small write the first takes
        // one, the five others share two.
        let two = uneven(Level::Raid6, &[50, 10, 10, 10, 10, 10]);
        assert_close(&ages(&two, consistency), &[1.0, 0.4, 0.4, 0.4, 0.4, 0.4]);
    }
}

#[test]
fn with_a_journal_parity_s_members_are_written_its_entries_too() {
    // Parity, a header and partial parity: of the four blocks of a small write three are on parity's member.
    let journal = Consistency::Journal;
    let four = uneven(Level::Raid5, &[5, 10, 15, 70]);
    let written = [0.05, 0.10, 0.15, 0.70].map(|part: f64| (1.0 - part) / 3.0 + 3.0 * part);
    assert_close(&ages(&four, journal), &written.map(|one| one / written[3]));
    assert_close(&ages(&even(Level::Raid4, 3), journal), &[0.5 / 3.0, 0.5 / 3.0, 1.0]);
    let wear = |shape: &Geometry| Wear::new(shape, Entries::of_new(journal, shape), 1.0);
    assert_close(&wear(&four).written(&[0.05, 0.10, 0.15, 0.70]), &written);
    // An entry has both partial parities, and is on both of their members: 1 + 2 × (1 + 1 + 2).
    let six = even(Level::Raid6, 6);
    assert_close(&[wear(&six).total()], &[9.0]);
    assert_close(&wear(&six).written(&[0.5, 0.1, 0.1, 0.1, 0.1, 0.1])[..1], &[4.0]);
    // So many members have no partial entries: a header, the data and parity, besides parity.
    let widest = even(Level::Raid5, 32);
    assert_close(&[wear(&widest).total()], &[5.0]);
}

#[test]
fn members_that_share_evenly_age_alike_whatever_the_consistency() {
    for consistency in [Consistency::Resync, Consistency::Bitmap, Consistency::Journal] {
        for (level, members) in
            [(Level::Raid0, 2), (Level::Raid1, 3), (Level::Raid5, 4), (Level::Raid6, 6)]
        {
            let geometry = even(level, members);
            assert_eq!(ages(&geometry, consistency), vec![1.0; members], "{level:?}");
        }
    }
}
