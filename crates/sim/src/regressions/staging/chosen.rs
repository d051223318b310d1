//! What a policy learns of a write that finds on its way home that a member is busy.

use std::sync::{Arc, Mutex};

use det::Instant;
use raidcore::engine::{Detour, Outcome, Redirect, SteeringPolicy, Way};
use raidlog::ONLY;

use super::super::*;
use super::staging_world;

/// How long old data and parity take to be read, and what comes after it at least.
const READ: Duration = Duration::from_millis(40);
const WRITTEN: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Told {
    /// Whether writes that it was asked about were late.
    asked: Vec<bool>,
    ended: Option<Outcome>,
}

/// Stages what would meet a busy member, or nothing, and keeps what it is told.
struct Judge {
    stages: bool,
    told: Arc<Mutex<Told>>,
}

impl SteeringPolicy for Judge {
    fn takes(&mut self, _: Instant, _: Detour) -> bool {
        false
    }

    fn stages_calm(&self) -> bool {
        true
    }

    fn stages(&mut self, _: Instant, redirect: Redirect) -> bool {
        self.told.lock().expect("no test has failed here").asked.push(redirect.late);
        self.stages && redirect.busy
    }

    fn ended(&mut self, outcome: Outcome) {
        self.told.lock().expect("no test has failed here").ended = Some(outcome);
    }
}

/// A write that reads for long, while its parity's member becomes busy if `busy`. Tells whether it was late each time
/// that the policy was asked about it, and its outcome.
fn written(stages: bool, busy: bool) -> (Vec<bool>, Outcome) {
    let told = Arc::<Mutex<Told>>::default();
    let mut world = staging_world(1);
    let policy = Judge { stages, told: Arc::clone(&told) };
    world.machine.set_steering(ONLY, Some(Box::new(policy)));
    world.ask(0, Op::Write, 0, 1);
    world.now = world.now + READ;
    if busy {
        world.busy(2);
    }
    while world.end_one(|io| matches!(io.op, IoOp::Read(_))) {}
    assert!(world.requests[0].is_some(), "it has only read");
    world.now = world.now + WRITTEN;
    world.drain();
    let told = std::mem::take(&mut *told.lock().expect("no test has failed here"));
    (told.asked, told.ended.expect("it has ended"))
}

/// Till then it may have waited for that member, which says nothing about the way that it went on.
#[test]
fn it_is_late_and_what_it_takes_from_then_on_is_told() {
    for (stages, way) in [(true, Way::Around), (false, Way::Home)] {
        let (asked, outcome) = written(stages, true);
        assert_eq!((asked, outcome.way), (vec![false, true], way));
        let late = outcome.late.expect("it was late");
        assert_eq!(outcome.took - late, READ);
        assert!(late >= WRITTEN);
    }
}

#[test]
fn what_meets_no_busy_member_is_judged_by_all_of_its_time() {
    let (asked, outcome) = written(true, false);
    assert_eq!((asked, outcome.way, outcome.late), (vec![false, true], Way::Calm, None));
    assert!(outcome.took >= READ + WRITTEN);
}
