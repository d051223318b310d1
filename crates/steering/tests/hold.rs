//! Destage orders.

use raidcore::engine::{Hold, Ready};
use raidcore::geometry::Role;
use raidcore::units::{Set, Stripe};
use steering::hold::{CACHES, Cache, Lrw, Wow};

/// Writes so many blocks of a stripe, of a chunk each.
fn write(hold: &mut dyn Hold, stripe: u64, blocks: u8, again: bool) {
    (0..blocks).for_each(|role| hold.wrote(Stripe(stripe), Role(role), again));
}

/// Brings so many blocks of a stripe home.
fn bring_home(hold: &mut dyn Hold, stripe: u64, blocks: u8) {
    (0..blocks).for_each(|_| hold.left(Stripe(stripe)));
}

/// What comes next of those that are ready.
fn next(hold: &mut dyn Hold, ready: &[u64]) -> Option<u64> {
    let is_ready = |stripe: Stripe| ready.contains(&stripe.0);
    let found = hold.next(&mut |stripe, _| if is_ready(stripe) { Ready::Yes } else { Ready::No });
    found.map(|stripe| stripe.0)
}

#[test]
fn the_least_recently_written_comes_first() {
    let mut lrw = Lrw::largest_of(1);
    for stripe in [5, 2, 9] {
        write(&mut lrw, stripe, 1, false);
    }
    assert_eq!(next(&mut lrw, &[2, 5, 9]), Some(5));
    write(&mut lrw, 5, 1, true);
    assert_eq!(next(&mut lrw, &[2, 5, 9]), Some(2), "the other was written since");
    assert_eq!(next(&mut lrw, &[5]), Some(5), "the others are not ready");
    bring_home(&mut lrw, 2, 1);
    assert_eq!(next(&mut lrw, &[2, 5, 9]), Some(9));
    assert_eq!(next(&mut lrw, &[]), None);
}

#[test]
fn of_several_the_largest_comes_first_and_of_two_the_older() {
    let mut lrw = Lrw::largest_of(3);
    for (stripe, blocks) in [(5, 1), (2, 3), (9, 3), (7, 4)] {
        write(&mut lrw, stripe, blocks, false);
    }
    let all = [2, 5, 7, 9];
    assert_eq!(next(&mut lrw, &all), Some(2), "the largest is not among the three");
    bring_home(&mut lrw, 2, 2);
    assert_eq!(next(&mut lrw, &all), Some(9), "a part is left there");
    bring_home(&mut lrw, 9, 3);
    assert_eq!(next(&mut lrw, &all), Some(7));
}

#[test]
fn an_order_is_asked_no_further_when_enough_was_looked_at() {
    let orders: [Box<dyn Hold>; 2] = [Box::new(Lrw::largest_of(16)), Box::new(Wow::new(1))];
    for mut order in orders {
        (0..10).for_each(|stripe| write(&mut *order, stripe, 1, false));
        let mut asked = 0;
        let found = order.next(&mut |_, _| {
            asked += 1;
            if asked < 4 { Ready::No } else { Ready::Enough }
        });
        assert_eq!((found, asked), (None, 4));
    }
}

#[test]
fn wow_goes_around_and_passes_by_what_was_written_again_once() {
    let mut wow = Wow::new(4);
    assert_eq!(wow.width(), 4);
    for stripe in [7, 3, 5] {
        write(&mut wow, stripe, 1, false);
    }
    write(&mut wow, 5, 1, true);
    let all = [3, 5, 7, 8];
    assert_eq!(next(&mut wow, &all), Some(3), "by address");
    bring_home(&mut wow, 3, 1);
    assert_eq!(next(&mut wow, &all), Some(7), "the other is recent");
    bring_home(&mut wow, 7, 1);
    write(&mut wow, 3, 1, false);
    write(&mut wow, 8, 1, false);
    assert_eq!(next(&mut wow, &all), Some(8), "the pointer goes on");
    bring_home(&mut wow, 8, 1);
    assert_eq!(next(&mut wow, &all), Some(3), "around");
    bring_home(&mut wow, 3, 1);
    assert_eq!(next(&mut wow, &all), Some(5), "it is recent no more");
    write(&mut wow, 5, 1, true);
    assert_eq!(next(&mut wow, &all), Some(5), "all are recent");
}

#[test]
fn all_chunks_that_a_group_may_hold_are_told() {
    let in_log = CACHES.iter().filter_map(Cache::order);
    let orders = in_log.chain(CACHES.iter().filter_map(Cache::order_in_memory));
    for mut order in orders {
        order.wrote(Stripe(4), Role(0), false);
        order.wrote(Stripe(4), Role(2), false);
        let mut told = Set::EMPTY;
        order.next(&mut |_, roles| {
            told = roles;
            Ready::Yes
        });
        assert_eq!(told, Set::one(Role(0)).with(Role(2)));
    }
}

#[test]
fn caches_have_names_of_their_own() {
    for cache in CACHES {
        assert_eq!(Cache::named(cache.name), Some(*cache));
    }
    assert!(!Cache::default().is_some() && Cache::default().order().is_none());
    let kinds = CACHES.iter().map(|cache| (cache.is_some(), cache.takes() != cache.is_volatile()));
    kinds.for_each(|(is_some, is_one)| {
        assert_eq!(is_some, is_one, "a cache is in the log or in memory")
    });
    assert_eq!(Cache::named("none of them"), None);
}
