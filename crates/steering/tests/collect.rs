//! Whose turn it is.

use std::time::Duration;

use det::Instant;
use proptest::prelude::*;
use raidcore::units::MemberId;
use steering::collect::{Collect, Flash, Global, Limits, Order, Rotate, Window, Windows};

const LIMITS: Limits = Limits { start: 0.05, stop: 0.1, hard: 0.03, spare: 0.15 };

/// Enough members with them.
fn limits() -> Vec<Limits> {
    vec![LIMITS; 9]
}

fn calm(free: f64) -> Flash {
    Flash { free, collecting: false, at_work: false, dirtiest: 0.5, age: 0.0, in_flight: 0 }
}

fn collecting(free: f64) -> Flash {
    Flash { collecting: true, at_work: true, ..calm(free) }
}

/// What a policy says, seeing these members.
fn said(policy: &mut dyn Collect, members: &[Flash]) -> Vec<(usize, Order)> {
    said_at(Instant::ORIGIN, policy, members)
}

fn said_at(now: Instant, policy: &mut dyn Collect, members: &[Flash]) -> Vec<(usize, Order)> {
    let mut said = Vec::new();
    policy.decide(now, members, false, &mut |member, order| said.push((member, order)));
    said
}

#[test]
fn who_has_least_goes_first_and_the_others_hold() {
    let mut rotate = Rotate::new(limits(), 1);
    let first = said(&mut rotate, &[calm(0.05), calm(0.03), calm(0.2)]);
    assert_eq!(first, [(1, Order::Reach(0.03 + 0.1)), (0, Order::Hold), (2, Order::Hold)]);
    assert_eq!(said(&mut rotate, &[calm(0.05), collecting(0.05), calm(0.2)]), []);
    // Its turn is over when it has reached what it should.
    let second = said(&mut rotate, &[calm(0.05), calm(0.13), calm(0.2)]);
    assert_eq!(second, [(0, Order::Reach(0.05 + 0.1)), (1, Order::Hold)]);
}

#[test]
fn who_has_nothing_to_collect_keeps_nobody_waiting() {
    let mut rotate = Rotate::new(limits(), 1);
    let members = [calm(0.01), calm(0.02)];
    assert_eq!(said(&mut rotate, &members)[0], (0, Order::Reach(0.01 + 0.1)));
    let orders: Vec<_> = (0..100).flat_map(|_| said(&mut rotate, &members)).collect();
    assert!(orders.contains(&(1, Order::Reach(0.02 + 0.1))), "{orders:?}");
}

#[test]
fn when_one_collects_all_do_until_none_does() {
    let mut global = Global::new(limits());
    assert_eq!(said(&mut global, &[calm(0.3), calm(0.3)]), []);
    let all = [(0, Order::Reach(0.1 + 0.05)), (1, Order::Reach(0.1))];
    assert_eq!(said(&mut global, &[calm(0.1), collecting(0.05)]), all);
    assert_eq!(said(&mut global, &[collecting(0.05), calm(0.09)]), []);
    let auto = [(0, Order::Auto), (1, Order::Auto)];
    assert_eq!(said(&mut global, &[calm(0.1), calm(0.09)]), auto, "no one has more to collect");
    let alone = [(1, Order::Reach(0.1))];
    assert_eq!(said(&mut global, &[calm(0.11), collecting(0.05)]), alone, "one has room enough");
}

#[test]
fn who_has_collected_with_the_others_is_left_alone_though_it_is_written_meanwhile() {
    let mut global = Global::new(limits());
    said(&mut global, &[calm(0.09), collecting(0.05)]);
    assert_eq!(said(&mut global, &[collecting(0.13), collecting(0.07)]), []);
    assert_eq!(said(&mut global, &[collecting(0.14), collecting(0.07)]), [(0, Order::Auto)]);
    assert_eq!(said(&mut global, &[calm(0.08), collecting(0.08)]), [], "it had its share");
    assert_eq!(said(&mut global, &[calm(0.08), collecting(0.1)]), [(1, Order::Auto)]);
    // One that is at it still does not make the others collect again, one that begins does.
    assert_eq!(said(&mut global, &[calm(0.07), collecting(0.1)]), []);
    assert_eq!(said(&mut global, &[calm(0.07), calm(0.1)]), []);
    let again = [(0, Order::Reach(0.07 + 0.05)), (1, Order::Reach(0.1))];
    assert_eq!(said(&mut global, &[calm(0.07), collecting(0.05)]), again);
}

#[test]
fn whose_turn_has_come_is_told_when_it_has_nothing_in_hand() {
    let mut rotate = Rotate::new(limits(), 1);
    let occupied = Flash { in_flight: 2, ..calm(0.03) };
    assert_eq!(said(&mut rotate, &[calm(0.2), occupied]), [(1, Order::Hold), (0, Order::Hold)]);
    assert!(rotate.turns().has(MemberId(1)), "it is left alone from now on");
    assert_eq!(said(&mut rotate, &[calm(0.2), occupied]), []);
    assert_eq!(said(&mut rotate, &[calm(0.2), calm(0.03)]), [(1, Order::Reach(0.03 + 0.1))]);
    // A member that always has I/O in hand collects, too.
    let mut rotate = Rotate::new(limits(), 1);
    let orders: Vec<_> = (0..1000).flat_map(|_| said(&mut rotate, &[occupied])).collect();
    assert!(orders.contains(&(0, Order::Reach(0.03 + 0.1))), "{orders:?}");
}

#[test]
fn while_a_member_is_missing_who_collects_gives_way() {
    let mut rotate = Rotate::new(limits(), 2);
    let mut said = |members: &[Flash], missing| {
        let mut said = Vec::new();
        let mut order = |member, order| said.push((member, order));
        rotate.decide(Instant::ORIGIN, members, missing, &mut order);
        said
    };
    let reach = Order::Reach(0.04 + 0.1);
    let first = said(&[calm(0.04), calm(0.05), calm(0.2)], true);
    assert_eq!(first, [(0, reach), (1, Order::Hold), (2, Order::Hold)], "one at a time");
    let occupied = |free| Flash { in_flight: 1, ..collecting(free) };
    assert_eq!(said(&[occupied(0.04), calm(0.05), calm(0.2)], true), [(0, Order::Hold)]);
    assert_eq!(said(&[Flash { in_flight: 1, ..calm(0.04) }, calm(0.05), calm(0.2)], true), []);
    assert_eq!(said(&[calm(0.04), calm(0.05), calm(0.2)], true), [(0, reach)]);
    // When none is missing, requests go around it, and another may collect beside it.
    let whole = said(&[occupied(0.04), calm(0.05), calm(0.2)], false);
    assert_eq!(whole, [(1, Order::Reach(0.05 + 0.1))]);
    // One that has hardly any room is next, and does not give way.
    let next = said(&[occupied(0.04), occupied(0.05), occupied(0.02)], true);
    assert_eq!(next, [(0, Order::Hold), (1, Order::Hold), (2, Order::Reach(0.02 + 0.05))]);
    assert_eq!(said(&[occupied(0.04), occupied(0.05), occupied(0.03)], true), []);
}

/// Members that always have I/O in hand, and do as they are told: the least room that each has in a long run,
/// and how often each begins to collect.
fn always_occupied(missing: bool) -> Vec<(f64, u32)> {
    let mut rotate = Rotate::new(limits(), 1);
    let mut members = vec![Flash { in_flight: 1, ..calm(0.06) }; 4];
    let mut orders = vec![Order::Auto; members.len()];
    let mut found = vec![(1.0_f64, 0); members.len()];
    for _ in 0..100_000 {
        rotate.decide(Instant::ORIGIN, &members, missing, &mut |member, order| {
            orders[member] = order;
        });
        for ((member, order), (least, begun)) in members.iter_mut().zip(&orders).zip(&mut found) {
            let collects = matches!(order, Order::Reach(goal) if member.free < *goal);
            *begun += u32::from(collects && !member.collecting);
            member.collecting = collects;
            member.free += if collects { 0.002 } else { 0.0 } - 0.00002;
            *least = least.min(member.free);
        }
    }
    found
}

#[test]
fn members_that_always_have_something_in_hand_have_their_turns() {
    for missing in [false, true] {
        let found = always_occupied(missing);
        for (least, begun) in found.clone() {
            assert!(least > 0.01 && begun > 5, "{missing}: {found:?}");
        }
    }
}

#[test]
fn who_gives_way_for_long_keeps_nobody_waiting() {
    let mut rotate = Rotate::new(limits(), 1);
    let mut orders = Vec::new();
    for look in 0..1000 {
        let members = [Flash { in_flight: look % 2, ..calm(0.03) }, calm(0.04)];
        rotate.decide(Instant::ORIGIN, &members, true, &mut |member, order| {
            orders.push((member, order));
        });
    }
    assert!(orders.contains(&(1, Order::Reach(0.04 + 0.1))), "{orders:?}");
}

#[test]
fn windows_come_round() {
    let mut window = Window::new(limits());
    let members = [calm(0.06), calm(0.2), calm(0.3)];
    let at = |millis| Instant::ORIGIN + Duration::from_millis(millis);
    let first = said_at(at(0), &mut window, &members);
    assert_eq!(first, [(0, Order::Reach(0.1)), (1, Order::Hold), (2, Order::Hold)]);
    assert_eq!(said_at(at(99), &mut window, &members), []);
    let second = said_at(at(100), &mut window, &members);
    assert_eq!(second, [(0, Order::Hold), (1, Order::Reach(0.1))]);
    let turns = (2..6).flat_map(|i| said_at(at(100 * i), &mut window, &members));
    let may: Vec<_> = turns.filter(|(_, order)| *order != Order::Hold).map(|(m, _)| m).collect();
    assert_eq!(may, [2, 0, 1, 2]);
}

#[test]
fn windows_are_as_long_as_members_need_them_that_are_told_of_theirs() {
    let told = Windows {
        members: [MemberId(0), MemberId(2)].into_iter().collect(),
        least: Duration::from_secs(2),
    };
    // The second and the third report no limits.
    let mut window = Window::new(vec![LIMITS, Limits::default(), Limits::default()]).suits(told);
    let members = [calm(0.06), calm(0.2), calm(0.3)];
    let at = |millis| Instant::ORIGIN + Duration::from_millis(millis);
    let first = said_at(at(0), &mut window, &members);
    assert_eq!(first, [(0, Order::Reach(1.0)), (1, Order::Hold), (2, Order::Hold)]);
    assert_eq!(said_at(at(1999), &mut window, &members), []);
    assert_eq!(
        said_at(at(2000), &mut window, &members),
        [(0, Order::Hold), (1, Order::Auto)],
        "it decides by itself"
    );
    assert_eq!(
        said_at(at(4000), &mut window, &members),
        [(1, Order::Hold), (2, Order::Reach(1.0))]
    );
    // No longer than others if they need less.
    let brief = Windows { least: Duration::from_millis(10), ..told };
    let mut window = Window::new(limits()).suits(brief);
    said_at(at(0), &mut window, &members);
    assert_eq!(said_at(at(99), &mut window, &members), []);
    assert_ne!(said_at(at(100), &mut window, &members), []);
}

#[test]
fn members_have_limits_of_their_own() {
    let small = Limits { start: 0.2, stop: 0.3, ..LIMITS };
    let members = [calm(0.15), calm(0.06)];
    let mut rotate = Rotate::new(vec![small, LIMITS], 1);
    let first = said(&mut rotate, &members);
    assert_eq!(first, [(0, Order::Reach(0.15 + 2.0 * (0.3 - 0.2))), (1, Order::Hold)]);
    let mut window = Window::new(vec![small, LIMITS]);
    assert_eq!(said(&mut window, &members)[0], (0, Order::Reach(0.15 + (0.3 - 0.2))));
    let mut global = Global::new(vec![small, LIMITS]);
    let all = [(0, Order::Reach(0.2 + (0.3 - 0.2))), (1, Order::Reach(0.06 + 0.05))];
    assert_eq!(said(&mut global, &[collecting(0.2), calm(0.06)]), all);
}

proptest! {
    /// Of members that do as they are told, no more collect at a time than they may.
    #[test]
    fn turns_are_kept(
        frees in prop::collection::vec(0.0..0.2f64, 2..9),
        at_most in 1..3usize,
        spent in prop::collection::vec((0..9usize, 0.0..0.03f64), 0..400),
    ) {
        let mut rotate = Rotate::new(limits(), at_most);
        let mut members: Vec<_> = frees.into_iter().map(calm).collect();
        let mut orders = vec![Order::Auto; members.len()];
        for (member, used) in spent {
            let member = member % members.len();
            members[member].free = (members[member].free - used).max(0.0);
            for (member, order) in said(&mut rotate, &members) {
                orders[member] = order;
            }
            for (member, order) in members.iter_mut().zip(&orders) {
                let goal = if let Order::Reach(goal) = order { *goal } else { 0.0 };
                member.collecting = member.free < goal;
                if member.collecting {
                    member.free += 0.01;
                }
            }
            let at_a_time = members.iter().filter(|member| member.collecting).count();
            prop_assert!(at_a_time <= at_most, "{members:?}");
        }
    }
}
