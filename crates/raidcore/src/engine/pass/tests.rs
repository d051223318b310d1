//! A pass by itself.

use alloc::vec;

use super::*;
use crate::engine::heat::Heat;
use crate::engine::order::{REBUILD_ORDERS, RebuildOrder};
use crate::geometry::{Geometry, Level};

fn pass(total: u64) -> Pass {
    Pass::new(PassKind::Rebuild(MemberId(1)), Progress::default(), total, Instant::ORIGIN)
}

fn begin_by(pass: &mut Pass, order: &'static RebuildOrder, heat: &Heat) -> Option<Stripe> {
    let next = pass.next_of(&Course { order, heat, only: None }, 4)?;
    pass.begin(next, Instant::ORIGIN);
    Some(next)
}

fn begin(pass: &mut Pass) -> Option<Stripe> {
    begin_by(pass, RebuildOrder::sequential(), &Heat::new(pass.total, &[]))
}

#[test]
fn as_many_stripes_are_under_way_as_may_be() {
    let mut pass = pass(9);
    let begun: u64 = core::iter::from_fn(|| begin(&mut pass)).map(|stripe| stripe.0).sum();
    assert_eq!(begun, 1 + 2 + 3);
    pass.end(Stripe(2), true);
    assert_eq!(begin(&mut pass), Some(Stripe(4)));
    assert_eq!(begin(&mut pass), None);
}

#[test]
fn what_is_done_ends_at_the_first_stripe_that_is_not() {
    let mut pass = pass(3);
    while begin(&mut pass).is_some() {}
    let filled = |pass: &Pass| pass.filled().expect("it fills").to;
    assert!(pass.end(Stripe(1), true));
    assert_eq!(filled(&pass), 0);
    assert!(pass.end(Stripe(0), true));
    assert_eq!(filled(&pass), 2);
    assert!(!pass.is_whole() && pass.is_under_way());
    assert!(pass.end(Stripe(2), false));
    assert!(pass.is_whole() && !pass.is_under_way());
    assert_eq!(pass.status(Instant::ORIGIN, None).worked, 2);
}

/// A stripe of which nothing is known.
fn left(stripe: u64) -> LeftStripe {
    LeftStripe::new(Stripe(stripe), &Geometry::new(Level::Raid5, 3, 4, 1).expect("a shape"))
}

#[test]
fn stripes_that_fail_are_left_behind_and_tried_again_when_the_pass_is_resumed() {
    let mut pass = pass(6);
    assert!([0, 1, 2].into_iter().all(|stripe| begin(&mut pass) == Some(Stripe(stripe))));
    assert!(pass.fail(left(0)) && !pass.fail(left(2)), "the first is told");
    assert!(pass.end(Stripe(1), true) && !pass.is_stuck());
    for stripe in [3, 4, 5] {
        assert_eq!(begin(&mut pass), Some(Stripe(stripe)));
        pass.end(Stripe(stripe), true);
    }
    assert_eq!(begin(&mut pass), None);
    let status = pass.status(Instant::ORIGIN, None);
    assert_eq!((status.stuck, status.left, status.done), (Some(Stripe(0)), 2, 4));
    assert!(pass.left().map(|left| left.stripe.0).eq([0, 2]));
    pass.resume();
    assert_eq!((begin(&mut pass), begin(&mut pass)), (Some(Stripe(0)), Some(Stripe(2))));
    assert_eq!(begin(&mut pass), None);
}

#[test]
fn a_stripe_that_was_left_behind_is_tried_again_when_what_it_lost_has_changed() {
    let mut pass = pass(3);
    while begin(&mut pass).is_some() {}
    pass.fail(LeftStripe { lost: vec![(Lba(9), 2)], ..left(1) });
    assert!(pass.end(Stripe(0), true) && pass.end(Stripe(2), true));
    pass.changed(Stripe(0), |_| true);
    pass.changed(Stripe(1), |lba| ![Lba(9), Lba(10)].contains(&lba));
    assert!(pass.is_stuck() && begin(&mut pass).is_none());
    pass.changed(Stripe(1), |lba| lba == Lba(10));
    assert!(!pass.is_stuck());
    assert_eq!((begin(&mut pass), begin(&mut pass)), (Some(Stripe(1)), None));
    assert!(!pass.fail(left(1)), "people know that");
    pass.changed(Stripe(1), |_| false);
    assert_eq!(begin(&mut pass), Some(Stripe(1)), "nothing is known of what it lacks");
    assert!(pass.end(Stripe(1), true) && pass.is_whole());
}

#[test]
fn no_stripe_is_forgotten_that_changes_while_many_others_do() {
    let mut pass = pass(400);
    while let Some(stripe) = begin(&mut pass) {
        if stripe.0 < 300 {
            pass.fail(left(stripe.0));
        } else {
            pass.end(stripe, true);
        }
    }
    assert!(pass.is_stuck());
    (0..300).for_each(|stripe| pass.changed(Stripe(stripe), |_| true));
    while let Some(stripe) = begin(&mut pass) {
        pass.end(stripe, true);
    }
    assert!(pass.is_whole() && !pass.has_more());
}

#[test]
fn a_pass_that_can_do_nothing_goes_no_further() {
    let mut pass = pass(1 << 20);
    let mut tried = 0;
    while let Some(stripe) = begin(&mut pass) {
        pass.fail(left(stripe.0));
        tried += 1;
    }
    assert!(pass.is_stuck() && (100..10_000).contains(&tried), "{tried}");
}

#[test]
fn what_a_cancelled_pass_does_counts_no_more() {
    let mut pass = pass(3);
    begin(&mut pass);
    pass.cancel();
    assert!(!pass.end(Stripe(0), true) && !pass.fail(left(0)));
    assert_eq!((pass.progress().base(), begin(&mut pass)), (0, None));
}

#[test]
fn each_order_does_each_stripe_once_whatever_is_wanted() {
    let mut heat = Heat::new(5000, &[]);
    [4000, 4000, 17].into_iter().for_each(|stripe| heat.note(Stripe(stripe)));
    for order in &REBUILD_ORDERS {
        let progress = Progress::from(3);
        let mut pass = Pass { progress, ..pass(5000) };
        let mut done = Vec::new();
        while !pass.is_whole() {
            pass.want(Stripe(done.len() as u64 * 37 % 5000));
            while begin_by(&mut pass, order, &heat).is_some() {}
            let stripe = pass.under_way[done.len() % pass.under_way.len()];
            assert!(pass.end(Stripe(stripe), true));
            done.push(stripe);
        }
        done.sort_unstable();
        assert!(done.into_iter().eq(3..5000), "{}", order.name);
        assert!(!pass.is_under_way() && pass.filled().expect("it fills").to == 5000);
    }
}

#[test]
fn a_device_is_discarded_in_parts_before_anything_is_begun() {
    let mut pass = pass(3);
    pass.clear_first(CLEAR_BLOCKS + 5);
    let now = Instant::ORIGIN;
    assert_eq!(pass.begin_to_clear(now), Some((0, CLEAR_BLOCKS as u32)));
    assert!(pass.begin_to_clear(now).is_none() && begin(&mut pass).is_none());
    assert!(pass.is_under_way());
    pass.cleared(now);
    assert!(!pass.is_under_way() && begin(&mut pass).is_none());
    pass.pause();
    assert_eq!(pass.begin_to_clear(now), None);
    pass.resume();
    assert_eq!(pass.begin_to_clear(now), Some((CLEAR_BLOCKS, 5)));
    pass.cleared(now);
    assert_eq!((pass.begin_to_clear(now), begin(&mut pass)), (None, Some(Stripe(0))));
}

#[test]
fn a_device_that_takes_long_to_discard_is_filled_as_it_is() {
    let mut pass = pass(3);
    pass.clear_first(9 * CLEAR_BLOCKS);
    let begun = Instant::ORIGIN;
    assert!(pass.begin_to_clear(begun).is_some());
    pass.cleared(begun + CLEAR_TIME);
    assert!(pass.begin_to_clear(begun).is_some() && begin(&mut pass).is_none());
    pass.cleared(begun + 2 * CLEAR_TIME);
    assert_eq!((pass.begin_to_clear(begun), begin(&mut pass)), (None, Some(Stripe(0))));
}

#[test]
fn what_can_not_be_done_does_not_come_before_what_can() {
    let mut pass = pass(100);
    pass.want(Stripe(40));
    assert_eq!(begin(&mut pass), Some(Stripe(40)));
    assert!(pass.fail(left(40)));
    pass.want(Stripe(40));
    pass.resume();
    pass.want(Stripe(40));
    assert_eq!(begin(&mut pass), Some(Stripe(0)));
}

#[test]
fn a_range_is_filled_when_all_its_stripes_are_done_and_not_before() {
    let mut pass = pass(4096);
    for stripe in [8, 11, 9] {
        pass.want(Stripe(stripe));
        assert_eq!(begin(&mut pass), Some(Stripe(stripe)));
        pass.end(Stripe(stripe), true);
        assert_eq!(pass.filled().expect("it fills").ranges.iter().count(), 0);
    }
    pass.want(Stripe(10));
    begin(&mut pass);
    pass.end(Stripe(10), true);
    let filled = pass.filled().expect("it fills");
    assert!(filled.to == 0 && filled.ranges.iter().eq([2]));
    let progress = Progress::recorded(filled.to, Some(filled.ranges));
    let mut again = Pass::new(pass.kind, progress, 4096, Instant::ORIGIN);
    let order = RebuildOrder::sequential();
    let begun: Vec<u64> = (0..10)
        .filter_map(|_| {
            let stripe = begin_by(&mut again, order, &Heat::new(4096, &[]))?;
            again.end(stripe, true);
            Some(stripe.0)
        })
        .collect();
    assert_eq!(begun, [0, 1, 2, 3, 4, 5, 6, 7, 12, 13]);
}
