//! Whether turns rest where they lose.

use std::time::Duration;

use det::Instant;
use raidcore::engine::{Choice, LatencyTotals};
use raidcore::units::{MemberId, Set};
use steering::collect::{Flash, Limits, Order, Windows};
use steering::scheme::Scheme;
use steering::turn_trial::TurnTrial;
use steering::{Controller, Members};

const MEMBERS: u64 = 4;

/// The interval between looks.
const STEP: Duration = Duration::from_millis(10);

const CALM: Duration = Duration::from_micros(100);

/// An array on which each member collects for 50 ms in every second, at a thousand requests a second.
struct Array {
    now: Instant,
    totals: LatencyTotals,
}

impl Array {
    fn new() -> Self {
        Self { now: Instant::ORIGIN, totals: LatencyTotals::default() }
    }

    /// The next look. A request takes `times` times as long as a calm one.
    fn step(&mut self, times: u32) -> Vec<Flash> {
        self.now = self.now + STEP;
        (0..10).for_each(|_| self.totals.add(times * CALM, CALM));
        let millis = self.now.0 / 1_000_000;
        let collects = |member| (millis + 250 * member) % 1000 < 50;
        let flash = |member| {
            let (collecting, at_work) = (collects(member), collects(member));
            Flash { free: 0.05, collecting, at_work, dirtiest: 0.0, age: 0.0, in_flight: 0 }
        };
        (0..MEMBERS).map(flash).collect()
    }

    /// The number of seconds, of `seconds`, for which members are left alone, if requests take
    /// these times with turns, and without.
    fn alone(&mut self, rest: &mut TurnTrial, seconds: u32, turns: u32, without: u32) -> f64 {
        let (mut alone, mut looks) = (false, 0);
        for _ in 0..100 * seconds {
            let members = self.step(if alone { without } else { turns });
            alone = rest.look(self.now, &members, &self.totals);
            looks += u32::from(alone);
        }
        f64::from(looks) / 100.0
    }
}

#[test]
fn nothing_is_tried_while_requests_take_about_as_long_as_calm_ones() {
    let (mut array, mut rest) = (Array::new(), TurnTrial::default());
    assert_eq!(array.alone(&mut rest, 1000, 2, 1), 0.0);
    // Nor after a burst; and a long burst is not taken for the usual load.
    assert_eq!(array.alone(&mut rest, 4, 50, 1), 0.0);
    assert_eq!(array.alone(&mut rest, 1000, 2, 1), 0.0);
    array.alone(&mut rest, 18, 50, 1);
    array.alone(&mut rest, 1000, 2, 1);
    assert!(rest.judged().on);
}

#[test]
fn turns_that_lose_rest_until_they_do_not() {
    let (mut array, mut rest) = (Array::new(), TurnTrial::default());
    let alone = array.alone(&mut rest, 1000, 20, 10);
    assert!(alone > 900.0, "{alone} s");
    let part = rest.judged();
    let soon = Instant::ORIGIN + Duration::from_secs(60);
    assert!(!part.on && part.since.is_some_and(|since| since < soon));
    assert_eq!((part.around, part.home), (Some(20 * CALM), Some(10 * CALM)));
    assert_eq!(part.calm, Some(CALM));
    // Now they would be better, and are tried again in a while.
    array.alone(&mut rest, 3000, 2, 10);
    assert!(rest.judged().on);
    assert_eq!(array.alone(&mut rest, 1000, 2, 10), 0.0);
}

#[test]
fn what_is_hardly_better_changes_nothing_and_is_tried_less_and_less() {
    let (mut array, mut rest) = (Array::new(), TurnTrial::default());
    let first = array.alone(&mut rest, 500, 20, 19);
    let later = array.alone(&mut rest, 5000, 20, 19);
    assert!((20.0..100.0).contains(&first), "{first} s");
    assert!((10.0..200.0).contains(&later), "{later} s");
    assert!(rest.judged().on && rest.judged().since.is_none());
}

#[test]
fn what_is_far_worse_is_not_tried_to_the_end() {
    let (mut array, mut rest) = (Array::new(), TurnTrial::default());
    let alone = array.alone(&mut rest, 30, 10, 100);
    assert!((4.9..5.2).contains(&alone), "{alone} s");
    assert!(rest.judged().on);
}

#[test]
fn whoever_never_collects_is_not_left_alone() {
    let (mut array, mut rest) = (Array::new(), TurnTrial::default());
    for _ in 0..100_000 {
        let mut members = array.step(50);
        members[1].collecting = false;
        assert!(!rest.look(array.now, &members, &array.totals));
    }
}

#[test]
fn members_whose_turns_rest_decide_by_themselves() {
    let members = Members {
        count: MEMBERS as usize,
        redundancy: 1,
        telling: Set::first(MEMBERS as usize),
        obeying: Set::first(MEMBERS as usize),
        windows: Windows::default(),
        limits: vec![Limits { start: 0.05, stop: 0.1, hard: 0.01, spare: 0.15 }; MEMBERS as usize],
        optimal: vec![1.0; MEMBERS as usize],
    };
    let scheme = Scheme::named("evenkeel").expect("it exists");
    let mut controller = Controller::new(scheme, members.clone(), Instant::ORIGIN);
    let mut array = Array::new();
    let mut orders = [Order::Auto; MEMBERS as usize];
    let (mut alone, mut asked) = (0, 0);
    for _ in 0..60_000 {
        let alone_now = orders == [Order::Auto; MEMBERS as usize];
        let members = array.step(if alone_now { 10 } else { 20 });
        let collects = |member: &MemberId| members[member.index()].collecting;
        let collecting = Set::first(members.len()).filter(collects).collect();
        controller.decide(array.now, &members, false, &array.totals, &mut |member, order| {
            orders[member] = order;
            asked += 1;
        });
        controller.busy(array.now, collecting);
        if orders == [Order::Auto; MEMBERS as usize] {
            alone += 1;
            assert_eq!(
                controller.who_is_busy(),
                collecting,
                "whose turn it would be is not avoided"
            );
        }
    }
    assert!(alone > 40_000 && asked > 0, "{alone}");
    let mut parts = Vec::new();
    controller.tell(&mut |part| parts.push((part.choice, part.on)));
    assert_eq!(parts, [(Choice::Turns, false)]);
    // Other schemes keep to theirs.
    let rotate = Scheme::named("rotate+reconstruct").expect("it exists");
    let controller = Controller::new(rotate, members, Instant::ORIGIN);
    controller.tell(&mut |_| panic!("nothing is tried"));
}
