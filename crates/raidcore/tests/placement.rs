//! Where chunks are: rules for every placement, and md's rules worked out by hand.

use proptest::prelude::*;
use raidcore::geometry::{
    Geometry, GeometryError, Layout, Level, Placement, Role, Shares, SharesError,
};
use raidcore::meta::{Areas, Consistency};
use raidcore::units::{Lba, MemberId, Pba, Set, Stripe};

const CHUNK: u32 = 2;
const STRIPES: u64 = 64;

/// Every level in every placement that it can have, with every number of members in `members`.
fn geometries(members: std::ops::RangeInclusive<usize>) -> Vec<Geometry> {
    let shapes = Level::ALL.into_iter().flat_map(|level| members.clone().map(move |n| (level, n)));
    let geometries = shapes.filter_map(|(level, n)| Geometry::new(level, n, CHUNK, STRIPES).ok());
    let all = |geo: Geometry| {
        let uneven = Placement::Uneven(uneven(geo.members()));
        Placement::all().chain([uneven]).filter_map(move |p| geo.placed(p).ok())
    };
    geometries.flat_map(all).collect()
}

/// Shares of all members, the first of which has half of the parity, and the last, of three or more, none.
fn uneven(members: usize) -> Shares {
    let mut percent = vec![0; members];
    percent[0] = 50;
    let others = (members - 2).max(1);
    (0..50).for_each(|one| percent[1 + one % others] += 1);
    Shares::new(&percent).expect("they are all")
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
    fn samples_stand_for_all(which in 0usize..1000, from in 0u64..1000, count in 0u64..500) {
        let all = geometries(2..=8);
        let geo = all[which % all.len()];
        let samples: Vec<_> = Layout::new(geo, Pba(0)).samples(from..from + count).collect();
        prop_assert!(samples.iter().all(|stripe| (from..from + count).contains(&stripe.0)));
        let of_samples: Vec<_> = samples.iter().map(|&stripe| roles(&geo, stripe)).collect();
        for stripe in (from..from + count).map(Stripe) {
            prop_assert!(of_samples.contains(&roles(&geo, stripe)));
        }
    }

    /// In every hundred stripes from a multiple of it on, each member has exactly its share, and whoever
    /// goes through stripes in steps meets all that have a good part of it.
    #[test]
    fn parity_is_in_the_given_shares(
        weights in prop::collection::vec(0u32..100, 4..33),
        is_double: bool,
        cycle in 0u64..(1 << 35),
        step in 1u64..300,
    ) {
        let percent = percents(&weights, if is_double { 50 } else { 100 });
        let level = if is_double { Level::Raid6 } else { Level::Raid5 };
        let shares = Shares::new(&percent).expect("they are all");
        prop_assert_eq!(shares.percent(), &percent[..]);
        let geo = Geometry::new(level, weights.len(), CHUNK, 1 << 42).expect("it is possible");
        let geo = geo.placed(Placement::Uneven(shares)).expect("it is possible");
        let parity = |stripe| geo.spare_roles().map(move |role| geo.member(stripe, role));
        let mut held = vec![0; weights.len()];
        for stripe in cycle * 100..(cycle + 1) * 100 {
            parity(Stripe(stripe)).for_each(|member| held[member.index()] += 1);
        }
        let each: Vec<_> = percent.iter().map(|&p| u64::from(p) * geo.parities() as u64).collect();
        prop_assert_eq!(held, each);
        let mut met = vec![0; weights.len()];
        for number in 0..3000 {
            let stripe = Stripe(cycle * 100 + number * step);
            parity(stripe).for_each(|member| met[member.index()] += 1);
        }
        for (member, &percent) in percent.iter().enumerate() {
            let expected = f64::from(percent) * 30.0 * geo.parities() as f64;
            let slack = 10.0 * expected.sqrt() + 30.0;
            prop_assert!((f64::from(met[member]) - expected).abs() < slack, "{met:?} {percent}");
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
        let row = shape.stripes_of_a_row();
        prop_assert!(stripes.is_multiple_of(row) && fits(stripes) && !fits(stripes + row));
        let least = shape.member_set().map(|member| need(stripes, member)).min();
        prop_assert_eq!(Some(areas.member_blocks()), least);
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

/// Whole percents in proportion to weights, at most so much each.
fn percents(weights: &[u32], most: u8) -> Vec<u8> {
    let sum = weights.iter().sum::<u32>().max(1);
    let mut percent: Vec<u8> =
        weights.iter().map(|weight| ((100 * weight / sum) as u8).min(most)).collect();
    while let Some(missing) = 100u32.checked_sub(percent.iter().copied().map(u32::from).sum())
        && missing > 0
    {
        let least = percent.iter_mut().min().expect("there are some");
        *least += 1;
    }
    percent
}

#[test]
fn impossible_shares_are_refused() {
    assert_eq!(Shares::new(&[]), Err(SharesError::Count(0)));
    assert_eq!(Shares::new(&[3; 33]), Err(SharesError::Count(33)));
    assert_eq!(Shares::new(&[50, 40, 9]), Err(SharesError::Sum(99)));
    assert_eq!(Shares::new(&[255; 32]), Err(SharesError::Sum(255 * 32)));
    let placed = |level, members, percent: &[u8]| {
        let geo = Geometry::new(level, members, CHUNK, STRIPES).expect("it is possible");
        let shares = Shares::new(percent).expect("they are all");
        geo.placed(Placement::Uneven(shares)).map(|geo| geo.placement().name())
    };
    let refused = |error: SharesError| Err(GeometryError::Shares(error));
    let four = SharesError::Members { shares: 4, members: 5 };
    assert_eq!(placed(Level::Raid5, 5, &[25; 4]), refused(four));
    assert_eq!(placed(Level::Raid6, 4, &[20, 20, 51, 9]), refused(SharesError::TooLarge(51)));
    assert_eq!(placed(Level::Raid6, 4, &[50, 0, 50, 0]), Ok("uneven"));
    assert_eq!(placed(Level::Raid5, 4, &[0, 0, 100, 0]), Ok("uneven"));
    assert!(matches!(placed(Level::Raid4, 4, &[25; 4]), Err(GeometryError::Placement { .. })));
}

proptest! {
    /// RAID10 lies as md's near copies do: copy `c` of chunk `k` is chunk `(2k + c) / n` of device
    /// `(2k + c) mod n`.
    #[test]
    fn mirrored_pairs_lie_as_near_copies_of_md(
        pairs in 2u64..=16,
        chunk in 0u64..(1 << 30),
        row in 0u32..CHUNK,
    ) {
        let members = 2 * pairs;
        let geo = Geometry::new(Level::Raid10, members as usize, CHUNK, 1 << 42);
        let geo = geo.expect("it is possible");
        let (stripe, offset) = geo.locate(Lba(chunk * u64::from(CHUNK) + u64::from(row)));
        let (role, at) = geo.chunk_at(offset);
        prop_assert_eq!((stripe, role, at), (Stripe(chunk), Role(0), row));
        for copy in 0..2u64 {
            let place = 2 * chunk + copy;
            let md = (MemberId((place % members) as u8), Pba(place / members * u64::from(CHUNK)));
            prop_assert_eq!(geo.place(stripe, Role(copy as u8), Pba(0)), md);
        }
    }

    /// An array goes on as long as each stripe has a member for each role that it can't recover.
    #[test]
    fn what_can_be_missing_is_what_every_stripe_can_do_without(which in 0usize..1000, gone: u32) {
        let all = geometries(2..=10);
        let geo = all[which % all.len()];
        let missing: Set<MemberId> = Set::from_bits(gone.into()).and(geo.member_set());
        let lacks = |stripe| {
            geo.roles().filter(|&role| missing.has(geo.member(Stripe(stripe), role))).count()
        };
        let worst = (0..geo.variety()).map(lacks).max().unwrap_or(0);
        prop_assert_eq!(geo.survives(missing), worst <= geo.redundancy());
        let least = (0..geo.variety()).map(lacks).min().unwrap_or(0);
        prop_assert_eq!(geo.has_to_compare(missing), least < geo.redundancy());
        prop_assert!(!geo.survives(missing) || missing.len() <= geo.redundancy_at_best());
    }
}

#[test]
fn pairs_survive_the_loss_of_one_member_each() {
    let geo = Geometry::new(Level::Raid10, 8, CHUNK, STRIPES).expect("it is possible");
    let of = |members: &[u8]| members.iter().copied().map(MemberId).collect::<Set<MemberId>>();
    assert_eq!((geo.redundancy(), geo.redundancy_at_best()), (1, 4));
    assert!(geo.survives(of(&[0, 3, 5, 6])));
    assert!(!geo.survives(of(&[4, 5])));
    assert_eq!(geo.lost_group(of(&[0, 4, 5])), Some(of(&[4, 5])));
    assert!(geo.has_to_compare(of(&[0, 3, 5])) && !geo.has_to_compare(of(&[0, 3, 5, 6])));
}

#[test]
fn pairs_need_an_even_number_of_members() {
    let new = |members| Geometry::new(Level::Raid10, members, CHUNK, STRIPES);
    let odd = GeometryError::Odd { level: Level::Raid10, members: 5 };
    assert_eq!(new(5), Err(odd));
    let text = "raid10 takes an even number of members, as it mirrors pairs of them, not 5";
    assert_eq!(odd.to_string(), text);
    for members in [2, 3, 34] {
        assert!(matches!(new(members), Err(GeometryError::Members { min: 4, .. })));
    }
}
