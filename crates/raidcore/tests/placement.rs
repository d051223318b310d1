//! Where chunks are: rules for every placement, and md's rules worked out by hand.

use proptest::prelude::*;
use raidcore::geometry::{Geometry, GeometryError, Layout, Level, Placement, Role};
use raidcore::meta::{Areas, Consistency};
use raidcore::units::{Lba, MemberId, Pba, Set, Stripe};

const LEVELS: [Level; 5] = [Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6];
const CHUNK: u32 = 2;
const STRIPES: u64 = 64;

/// Every level in every placement that it can have, with every number of members in `members`.
fn geometries(members: std::ops::RangeInclusive<usize>) -> Vec<Geometry> {
    let shapes = LEVELS.into_iter().flat_map(|level| members.clone().map(move |n| (level, n)));
    let geometries = shapes.filter_map(|(level, n)| Geometry::new(level, n, CHUNK, STRIPES).ok());
    geometries.flat_map(|geo| Placement::all().filter_map(move |p| geo.placed(p).ok())).collect()
}

/// What members hold in a stripe.
fn roles(geo: &Geometry, stripe: Stripe) -> Vec<Option<Role>> {
    geo.member_set().map(|member| geo.role(stripe, member)).collect()
}

/// Each role is on one member, which has only that role. The other members have none.
fn roles_and_members_are_inverse(geo: &Geometry, stripe: Stripe) {
    let homes: Set<MemberId> = geo.roles().map(|role| geo.member(stripe, role)).collect();
    assert_eq!(homes.len(), geo.width(), "{geo:?} {stripe:?}: two roles are on one member");
    assert!(homes.minus(geo.member_set()).is_empty(), "{geo:?} {stripe:?}");
    for role in geo.roles() {
        assert_eq!(geo.role(stripe, geo.member(stripe, role)), Some(role), "{geo:?} {stripe:?}");
    }
    for member in geo.member_set() {
        assert_eq!(geo.role(stripe, member).is_some(), homes.has(member), "{geo:?} {stripe:?}");
    }
}

/// A stripe's chunks are where the chunks of the stripes before it end, and take one chunk of those
/// members that have a part in it.
fn chunks_follow_one_another(geo: &Geometry, stripe: Stripe) {
    let (next, start) = (Stripe(stripe.0 + 1), Pba(1 << 20));
    for member in geo.member_set() {
        let taken = geo.blocks_before(next, member) - geo.blocks_before(stripe, member);
        let role = geo.role(stripe, member);
        assert_eq!(
            taken,
            role.map_or(0, |_| u64::from(geo.chunk())),
            "{geo:?} {stripe:?} {member:?}"
        );
        if let Some(role) = role {
            let before = geo.blocks_before(stripe, member);
            assert_eq!(geo.place(stripe, role, start), (member, Pba(start.0 + before)), "{geo:?}");
        }
    }
}

/// A layout answers for each stripe as the stripe's geometry does.
fn a_layout_asks_the_geometry(geo: &Geometry, stripe: Stripe) {
    let layout = Layout::new(*geo, Pba(256));
    for role in geo.roles() {
        let member = geo.member(stripe, role);
        assert_eq!(layout.place(stripe, role), geo.place(stripe, role, Pba(256)));
        assert_eq!(
            (layout.member(stripe, role), layout.role(stripe, member)),
            (member, Some(role))
        );
    }
    let width = geo.stripe_blocks();
    let first = geo.lba(stripe, Role(0), 0);
    let found: Vec<_> = layout.stripes_of(first, width).collect();
    assert_eq!(found, [stripe]);
    let found: Vec<_> = layout.stripes_of(Lba(first.0 + u64::from(width) - 1), 2).collect();
    assert_eq!(found, [stripe, Stripe(stripe.0 + 1)]);
}

fn laws(geo: &Geometry, stripe: Stripe) {
    roles_and_members_are_inverse(geo, stripe);
    chunks_follow_one_another(geo, stripe);
    a_layout_asks_the_geometry(geo, stripe);
    let again = Stripe(stripe.0.saturating_add(geo.period()));
    if again.0 < u64::MAX {
        assert_eq!(roles(geo, stripe), roles(geo, again), "{geo:?} {stripe:?}: not its period");
    }
}

#[test]
fn every_placement_keeps_the_laws_in_every_stripe() {
    let mut seen = Vec::new();
    for geo in geometries(2..=32) {
        seen.push(geo.placement());
        assert_eq!(geo.width(), geo.roles().len());
        assert!(geo.member_set().all(|member| geo.blocks_before(Stripe(0), member) == 0));
        (0..STRIPES).for_each(|stripe| laws(&geo, Stripe(stripe)));
        let chunks: u64 = geo.member_set().map(|member| geo.blocks_of(member)).sum();
        assert_eq!(chunks, STRIPES * geo.width() as u64 * u64::from(CHUNK));
    }
    assert!(Placement::all().all(|placement| seen.contains(&placement)));
}

proptest! {
    /// A stripe too far on to count up to.
    #[test]
    fn every_placement_keeps_the_laws_far_behind(which in 0usize..1000, stripe in 0u64..(1 << 42)) {
        let all = geometries(2..=32);
        laws(&all[which % all.len()], Stripe(stripe));
    }

    /// The stripes that represent a range have every assignment of roles of the range.
    #[test]
    fn samples_stand_for_all(which in 0usize..1000, from in 0u64..100, count in 0u64..100) {
        let all = geometries(2..=8);
        let geo = all[which % all.len()];
        let samples: Vec<_> = Layout::new(geo, Pba(0)).samples(from..from + count).collect();
        prop_assert!(samples.iter().all(|stripe| (from..from + count).contains(&stripe.0)));
        let of_samples: Vec<_> = samples.iter().map(|&stripe| roles(&geo, stripe)).collect();
        for stripe in (from..from + count).map(Stripe) {
            prop_assert!(of_samples.contains(&roles(&geo, stripe)));
        }
    }

    /// A plan has as many stripes as fit on every member, whichever is the smallest.
    #[test]
    fn members_have_room_for_what_is_planned(
        which in 0usize..1000,
        sizes in prop::collection::vec(3000u64..9000, 32),
    ) {
        let all = geometries(2..=8);
        let shape = all[which % all.len()];
        let sizes = &sizes[..shape.members()];
        let planned = Areas::plan(&shape, Consistency::Bitmap, 0, 0, false, sizes);
        let (areas, stripes) = planned.expect("there is room");
        let need = |stripes, member| {
            areas.data_start().0 + shape.blocks_before(Stripe(stripes), member)
        };
        let fits = |stripes| shape.member_set().all(|m| need(stripes, m) <= sizes[m.index()]);
        prop_assert!(fits(stripes) && !fits(stripes + 1));
        let largest = shape.member_set().map(|member| need(stripes, member)).max();
        prop_assert_eq!(Some(areas.member_blocks()), largest);
    }
}

#[test]
fn parity_rotates_as_in_md() {
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
