//! Where chunks are, compared with md's rules worked out by hand.

use raidcore::geometry::{Geometry, GeometryError, Level, Placement};
use raidcore::units::{Set, Stripe};

fn geometries() -> impl Iterator<Item = Geometry> {
    let levels = [Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6];
    let shapes = levels.into_iter().flat_map(|level| (2..=6).map(move |members| (level, members)));
    shapes.filter_map(|(level, members)| Geometry::new(level, members, 2, 64).ok())
}

#[test]
fn placement_is_a_bijection_and_parity_rotates_as_in_md() {
    let placed = |geo: Geometry| Placement::all().filter_map(move |p| geo.placed(p).ok());
    for geo in geometries().flat_map(placed) {
        for stripe in (0..20).map(Stripe) {
            let mut seen = Set::EMPTY;
            for role in geo.roles() {
                let member = geo.member(stripe, role);
                assert_eq!(geo.role(stripe, member), role);
                seen = seen.with(member);
            }
            assert_eq!(seen, geo.member_set());
        }
    }
    let by_the_book = |level, members, placement: Placement, stripe| -> Vec<usize> {
        let geo = Geometry::new(level, members, 2, 64).and_then(|geo| geo.placed(placement));
        let geo = geo.expect("the level can have it");
        geo.roles().map(|role| geo.member(Stripe(stripe), role).index()).collect()
    };
    // Data in order, then P, then Q, of stripes 0, 1 and 4.
    for (level, placement, expected) in [
        (Level::Raid5, Placement::ParityFirst, [[1, 2, 3, 4, 0]; 3]),
        (Level::Raid4, Placement::ParityLast, [[0, 1, 2, 3, 4]; 3]),
        (
            Level::Raid5,
            Placement::LeftAsymmetric,
            [[0, 1, 2, 3, 4], [0, 1, 2, 4, 3], [1, 2, 3, 4, 0]],
        ),
        (
            Level::Raid5,
            Placement::RightAsymmetric,
            [[1, 2, 3, 4, 0], [0, 2, 3, 4, 1], [0, 1, 2, 3, 4]],
        ),
        (
            Level::Raid5,
            Placement::LeftSymmetric,
            [[0, 1, 2, 3, 4], [4, 0, 1, 2, 3], [1, 2, 3, 4, 0]],
        ),
        (
            Level::Raid5,
            Placement::RightSymmetric,
            [[1, 2, 3, 4, 0], [2, 3, 4, 0, 1], [0, 1, 2, 3, 4]],
        ),
        (
            Level::Raid6,
            Placement::LeftSymmetric,
            [[1, 2, 3, 4, 0], [0, 1, 2, 3, 4], [2, 3, 4, 0, 1]],
        ),
        (
            Level::Raid6,
            Placement::RightSymmetric,
            [[2, 3, 4, 0, 1], [3, 4, 0, 1, 2], [1, 2, 3, 4, 0]],
        ),
        (Level::Raid6, Placement::ParityFirst, [[2, 3, 4, 0, 1]; 3]),
        (Level::Raid6, Placement::ParityLast, [[0, 1, 2, 3, 4]; 3]),
    ] {
        for (stripe, expected) in [0, 1, 4].into_iter().zip(expected) {
            let found = by_the_book(level, 5, placement, stripe);
            assert_eq!(found, expected, "{level:?} {placement:?} {stripe}");
        }
    }
    let members = |geo: &Geometry, stripe| -> Vec<usize> {
        let member = |role| geo.member(Stripe(stripe), role).index();
        geo.roles().map(member).collect()
    };
    let raid5 = Geometry::new(Level::Raid5, 5, 2, 64).expect("a valid shape");
    assert_eq!(members(&raid5, 0), [0, 1, 2, 3, 4]);
    assert_eq!(members(&raid5, 1), [4, 0, 1, 2, 3]);
    assert_eq!(members(&raid5, 4), [1, 2, 3, 4, 0]);
    let raid6 = Geometry::new(Level::Raid6, 5, 2, 64).expect("a valid shape");
    assert_eq!(members(&raid6, 0), [1, 2, 3, 4, 0], "P on the last member, Q on the first");
    assert_eq!(members(&raid6, 1), [0, 1, 2, 3, 4]);
}

#[test]
fn a_level_has_no_placement_that_is_not_its() {
    let geo = Geometry::new(Level::Raid6, 5, 2, 64).expect("a valid shape");
    let refused = geo.placed(Placement::LeftAsymmetric);
    let (level, placement) = (Level::Raid6, Placement::LeftAsymmetric);
    assert_eq!(refused, Err(GeometryError::Placement { level, placement }));
    assert_eq!(geo.placed(Placement::of(level)), Ok(geo));
}
