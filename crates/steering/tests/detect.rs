//! The detector on latencies with known causes.

use std::time::Duration;

use det::{Instant, Prng};
use proptest::prelude::*;
use raidcore::units::MemberId;
use steering::detect::{Detector, End, Handle, Kind, Mood, Outcome, Tuning};

const MICRO: u64 = 1000;
const MILLI: u64 = 1000 * MICRO;
/// The service time of an I/O on an idle drive.
const SERVICE: u64 = 80 * MICRO;

/// A drive with this many servers, each of which does one I/O at a time, oldest first. During
/// stalls none does anything.
struct Drive {
    free: Vec<u64>,
    stalls: Vec<(u64, u64)>,
}

impl Drive {
    fn new(servers: usize) -> Self {
        Self { free: vec![0; servers], stalls: Vec::new() }
    }

    /// When an I/O that arrives now ends.
    fn end(&mut self, now: u64, service: u64) -> u64 {
        let server = self.free.iter_mut().min().expect("a server");
        let start = now.max(*server);
        let mut end = start + service;
        for &(from, to) in &self.stalls {
            if start < to && end > from {
                end = to + (end - start.max(from).min(end));
            }
        }
        *server = end;
        end
    }
}

/// Runs I/Os that begin at these times; returns each change of mood with its time.
fn run(detector: &mut Detector, drive: &mut Drive, begins: &[u64]) -> Vec<(u64, Mood)> {
    let mut under_way: Vec<(u64, Handle)> = Vec::new();
    let (mut begins, mut moods) = (begins.iter().copied().peekable(), Vec::new());
    let mut mood = detector.mood(MemberId(0));
    loop {
        under_way.sort_by_key(|&(end, _)| end);
        let end = under_way.first().map(|io| io.0);
        let begin = begins.peek().copied();
        let Some(mut now) = end.into_iter().chain(begin).min() else { return moods };
        if let Some(due) = detector.deadline().filter(|due| due.0 <= now) {
            now = due.0;
            detector.tick(due);
        } else if end == Some(now) {
            detector.ended(Instant(now), under_way.remove(0).1);
        } else {
            begins.next();
            under_way.push((
                drive.end(now, SERVICE),
                detector.began(Instant(now), MemberId(0), Kind::Read, 1),
            ));
        }
        detector.check();
        if detector.mood(MemberId(0)) != mood {
            mood = detector.mood(MemberId(0));
            moods.push((now, mood));
        }
    }
}

/// Times at random, `gap` apart on average.
fn arrivals(seed: u64, from: u64, to: u64, gap: u64) -> Vec<u64> {
    let mut prng = Prng::new(seed);
    let mut now = from;
    let mut times = Vec::new();
    while now < to {
        times.push(now);
        now += prng.below(2 * gap) + 1;
    }
    times
}

fn busy(moods: &[(u64, Mood)]) -> Vec<u64> {
    moods.iter().filter(|mood| mood.1 == Mood::Busy).map(|mood| mood.0).collect()
}

#[test]
fn a_steady_drive_is_free() {
    let mut detector = Detector::new(1, Tuning::default());
    let moods = run(&mut detector, &mut Drive::new(1), &arrivals(1, 0, 2000 * MILLI, 200 * MICRO));
    assert_eq!(moods, []);
    let usual = detector.usual(MemberId(0), Kind::Read, 1).expect("it has seen enough");
    assert!(usual.as_nanos().abs_diff(SERVICE.into()) * 10 < SERVICE.into(), "{usual:?}");
}

#[test]
fn a_deep_queue_alone_is_no_reason() {
    for servers in [1, 4, 32] {
        let mut detector = Detector::new(1, Tuning::default());
        // A hundred quiet milliseconds each, then a burst that takes 8 ms.
        let begins: Vec<u64> = (0..20)
            .flat_map(|round| {
                let from = round * 150 * MILLI;
                let mut times = arrivals(round, from, from + 100 * MILLI, 400 * MICRO);
                times.extend(vec![from + 101 * MILLI; servers * 100]);
                times
            })
            .collect();
        run(&mut detector, &mut Drive::new(servers), &begins);
        let decisions: Vec<_> = detector.log().recent().map(ToString::to_string).collect();
        assert!(decisions.is_empty(), "{servers} servers: {decisions:#?}");
    }
}

#[test]
fn a_stall_is_seen_while_it_lasts() {
    let tuning = Tuning::default();
    let floor = tuning.floor.as_nanos() as u64;
    let reaction = floor.max(u64::from(tuning.late) * SERVICE) * u64::from(tuning.alone);
    for stall in [3, 5, 10, 30, 100].map(|millis| millis * MILLI) {
        let mut drive = Drive::new(1);
        let (from, to) = (500 * MILLI, 500 * MILLI + stall);
        drive.stalls.push((from, to));
        let mut detector = Detector::new(1, tuning);
        let begins = arrivals(2, 0, 1000 * MILLI, 300 * MICRO);
        let moods = run(&mut detector, &mut drive, &begins);
        let verdicts = busy(&moods);
        // The first to be late begins at most 600 us after the stall does.
        assert_eq!(verdicts.len(), 1, "{stall}: {moods:?}");
        assert!((from..=from + 600 * MICRO + reaction).contains(&verdicts[0]), "{moods:?}");
        assert!(verdicts[0] < to);
        assert_eq!(detector.mood(MemberId(0)), Mood::Free);

        let decision = detector.log().recent().next().expect("a decision");
        let Outcome::Right { stall: told } = decision.outcome else { panic!("{decision}") };
        assert!(told >= Duration::from_nanos(stall - 600 * MICRO), "{decision}");
        assert_eq!(detector.log().score().precision(), Some(1.0));
        let (over, _) = decision.ended.expect("it is over");
        assert!(over.0 >= to, "{decision}");
    }
}

#[test]
fn stalls_that_come_and_go_are_each_seen() {
    let mut drive = Drive::new(4);
    for count in 1..=20 {
        drive.stalls.push((count * 200 * MILLI, count * 200 * MILLI + count * 4 * MILLI));
    }
    let mut detector = Detector::new(1, Tuning::default());
    let moods = run(&mut detector, &mut drive, &arrivals(3, 0, 4200 * MILLI, 100 * MICRO));
    let verdicts = busy(&moods);
    for &(from, to) in &drive.stalls {
        let seen = verdicts.iter().filter(|&&at| (from..to).contains(&at)).count();
        assert_eq!(seen, 1, "{from}..{to}: {verdicts:?}");
    }
    assert_eq!(verdicts.len(), drive.stalls.len());
    assert_eq!(detector.log().score().right, 20);
}

#[test]
fn a_drive_that_became_slower_is_not_busy_for_ever() {
    let mut detector = Detector::new(1, Tuning::default());
    let mut now = 0;
    let mut io = |detector: &mut Detector, latency| {
        let handle = detector.began(Instant(now), MemberId(0), Kind::Write, 8);
        now += latency;
        detector.ended(Instant(now), handle);
    };
    (0..2000).for_each(|_| io(&mut detector, 500 * MICRO));
    assert_eq!(detector.mood(MemberId(0)), Mood::Free);
    (0..8).for_each(|_| io(&mut detector, 8 * MILLI));
    assert_eq!(detector.mood(MemberId(0)), Mood::Busy);
    let window = Tuning::default().window;
    (0..window).for_each(|_| io(&mut detector, 8 * MILLI));
    assert_eq!(detector.mood(MemberId(0)), Mood::Free);
}

#[test]
fn a_busy_member_that_nothing_is_sent_to_is_tried_again() {
    let mut detector = warm(1);
    let start = Instant(1000 * MILLI);
    let stuck = detector.began(start, MemberId(0), Kind::Read, 1);
    while detector.mood(MemberId(0)) != Mood::Busy {
        let due = detector.deadline().expect("an I/O is under way");
        detector.tick(due);
    }
    let ended = start + Duration::from_millis(40);
    detector.ended(ended, stuck);
    assert_eq!(detector.mood(MemberId(0)), Mood::Busy, "one late I/O that ends proves nothing");
    assert_eq!(detector.deadline(), Some(ended + PROBE));
    detector.tick(ended + PROBE);
    assert_eq!(detector.mood(MemberId(0)), Mood::Suspect);
    let decision = *detector.log().recent().next().expect("a decision");
    assert_eq!(decision.ended, Some((ended + PROBE, End::Quiet)));
    detector.tick(ended + PROBE + PROBE);
    assert_eq!((detector.mood(MemberId(0)), detector.deadline()), (Mood::Free, None));
}

/// How long the following tests wait for a late I/O.
const PROBE: Duration = Duration::from_millis(100);

/// A detector of members that answer in `SERVICE`.
fn warm(members: usize) -> Detector {
    let tuning = Tuning { probe: PROBE, ..Tuning::default() };
    let mut detector = Detector::new(members, tuning);
    for count in 0..100 {
        for member in 0..members {
            for kind in Kind::ALL {
                let handle = detector.began(Instant(count * MILLI), MemberId::at(member), kind, 1);
                detector.ended(Instant(count * MILLI + SERVICE), handle);
            }
        }
    }
    detector
}

#[test]
fn no_more_are_avoided_than_parity_can_stand_in_for() {
    let mut detector = warm(5);
    let at = |millis: u64| Instant(1000 * MILLI + millis * MILLI);
    // Member 3 gets stuck first, member 1 next, both for long.
    let third = detector.began(at(0), MemberId(3), Kind::Read, 1);
    assert!(detector.avoid(at(30), 1).eq([MemberId(3)]));
    let first = detector.began(at(30), MemberId(1), Kind::Read, 1);
    assert!(detector.avoid(at(60), 0).is_empty());
    assert!(detector.avoid(at(60), 1).eq([MemberId(3)]), "the worst one");
    assert!(detector.avoid(at(60), 2).eq([MemberId(1), MemberId(3)]));
    detector.ended(at(61), first);
    assert!(detector.avoid(at(61), 1).eq([MemberId(3)]));
    detector.ended(at(61), third);
    for _ in 0..Tuning::default().calm {
        let fine = detector.began(at(62), MemberId(3), Kind::Read, 1);
        detector.ended(at(62) + Duration::from_nanos(SERVICE), fine);
    }
    assert!(detector.avoid(at(63), 1).eq([MemberId(1)]), "3 is free, 1 has not proved it yet");
}

#[test]
fn who_is_avoided_changes_only_when_it_is_free() {
    let mut detector = warm(3);
    let at = |millis: u64| Instant(1000 * MILLI + millis * MILLI);
    let soon = detector.began(at(0), MemberId(0), Kind::Read, 1);
    assert!(detector.avoid(at(20), 1).has(MemberId(0)));
    detector.ended(at(20), soon);
    detector.began(at(20), MemberId(1), Kind::Read, 1);
    assert!(detector.avoid(at(80), 1).has(MemberId(0)), "although member 1 is worse by now");
    assert!(detector.avoid(at(20) + PROBE, 1).has(MemberId(1)));
}

#[test]
fn a_new_device_is_not_judged_by_the_old_one() {
    let mut detector = warm(2);
    let stuck = detector.began(Instant(1000 * MILLI), MemberId(0), Kind::Read, 1);
    detector.tick(Instant(1100 * MILLI));
    assert_eq!(detector.mood(MemberId(0)), Mood::Busy);
    detector.replaced(Instant(1100 * MILLI), MemberId(0));
    assert_eq!(
        (detector.mood(MemberId(0)), detector.usual(MemberId(0), Kind::Read, 1)),
        (Mood::Free, None)
    );
    assert_eq!((detector.in_flight(MemberId(0)), detector.deadline()), (0, None));
    detector.ended(Instant(1200 * MILLI), stuck);
    assert_eq!(detector.usual(MemberId(0), Kind::Read, 1), None);
    assert!(detector.usual(MemberId(1), Kind::Read, 1).is_some());
}

#[test]
fn only_the_last_decisions_are_kept() {
    let tuning = Tuning { decisions: 3, ..Tuning::default() };
    let mut detector = Detector::new(1, tuning);
    let mut drive = Drive::new(1);
    drive.stalls.extend((1..=7).map(|n| (n * 300 * MILLI, n * 300 * MILLI + 20 * MILLI)));
    run(&mut detector, &mut drive, &arrivals(5, 0, 2500 * MILLI, 300 * MICRO));
    let kept: Vec<u64> = detector.log().recent().map(|decision| decision.number).collect();
    assert_eq!((detector.log().count(), kept), (7, vec![6, 5, 4]));
    assert_eq!(detector.log().score().right, 7);
}

/// Three days in which each member does 1,200 reads an hour, of these latencies.
fn three_days(latency: impl Fn(u64, usize) -> u64) -> Detector {
    let mut detector = Detector::new(5, Tuning::default());
    for hour in 0..72 {
        for count in 0..1200 {
            for member in 0..5 {
                // One after the other: the detector's clock never goes back.
                let second = count * 2_000 + member as u64 * 300;
                let now = (hour * 3_600_000 + second) * MILLI;
                let handle = detector.began(Instant(now), MemberId::at(member), Kind::Read, 1);
                let noise = (count * 7919) % 40 * MICRO;
                detector.ended(Instant(now + latency(hour, member) + noise), handle);
            }
        }
    }
    detector.tick(Instant(72 * 3_600_000 * MILLI));
    detector
}

#[test]
fn a_member_that_is_slow_for_days_is_told() {
    let detector = three_days(|_, member| if member == 2 { 200 * MICRO } else { 80 * MICRO });
    let advice: Vec<_> = detector.advice().collect();
    assert_eq!(advice.len(), 1, "{advice:?}");
    assert_eq!((advice[0].member, advice[0].kind), (MemberId(2), Kind::Read));
    assert!((200..=240).contains(&advice[0].median_percent), "{advice:?}");
}

#[test]
fn slow_hours_and_loads_that_all_suffer_from_are_no_reason_for_advice() {
    let hours = three_days(|hour, member| {
        let all = if hour % 24 > 8 { 10 } else { 1 };
        // Slow for a third of each day, and for all of one day.
        let slow = member == 2 && hour % 24 < 8 || member == 1 && hour / 24 == 1;
        80 * MICRO * all * if slow { 10 } else { 1 }
    });
    assert_eq!(hours.advice().count(), 0);
}

/// Anything, in any order.
#[derive(Clone, Copy, Debug)]
enum Call {
    Began { member: usize, kind: Kind, blocks: u32 },
    Ended { handle: usize },
    Dropped { handle: usize },
    Tick,
    AtDeadline,
    Avoid { parity: usize },
    Replaced { member: usize },
}

fn calls() -> impl Strategy<Value = Vec<(u64, Call)>> {
    let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write)];
    let blocks = prop_oneof![0..100u32, any::<u32>()];
    let call = prop_oneof![
        8 => (0..5usize, kind, blocks).prop_map(|(member, kind, blocks)| Call::Began { member, kind, blocks }),
        8 => (0..40usize).prop_map(|handle| Call::Ended { handle }),
        1 => (0..40usize).prop_map(|handle| Call::Dropped { handle }),
        1 => Just(Call::Tick),
        4 => Just(Call::AtDeadline),
        2 => (0..6usize).prop_map(|parity| Call::Avoid { parity }),
        1 => (0..6usize).prop_map(|member| Call::Replaced { member }),
    ];
    // Mostly small steps, sometimes back or to the end of time.
    let time = prop_oneof![
        40 => 0..3 * MILLI,
        4 => 0..4_000_000 * MILLI,
        1 => any::<u64>(),
    ];
    prop::collection::vec((time, call), 0..600)
}

/// Makes the calls, and returns the visible state after each.
fn make(calls: &[(u64, Call)]) -> Vec<String> {
    let tuning = Tuning { in_flight: 16, warm: 2, window: 8, decisions: 2, ..Tuning::default() };
    let mut detector = Detector::new(4, tuning);
    let (mut now, mut handles, mut seen) = (Instant::ORIGIN, Vec::new(), Vec::new());
    for &(step, call) in calls {
        now =
            if step > 5_000_000 * MILLI { Instant(step) } else { now + Duration::from_nanos(step) };
        let handle = |at: usize| handles.get(handles.len().wrapping_sub(at + 1)).copied();
        match call {
            Call::Began { member, kind, blocks } => {
                handles.push(detector.began(now, MemberId::at(member), kind, blocks));
            }
            Call::Ended { handle: at } => {
                handle(at).into_iter().for_each(|at| detector.ended(now, at))
            }
            Call::Dropped { handle: at } => {
                handle(at).into_iter().for_each(|at| detector.dropped(now, at));
            }
            Call::Tick => detector.tick(now),
            Call::AtDeadline => {
                now = detector.deadline().unwrap_or(now);
                detector.tick(now);
                assert!(detector.deadline().is_none_or(|next| next > now || now.0 == u64::MAX));
            }
            Call::Avoid { parity } => {
                let avoided = detector.avoid(now, parity);
                assert!(avoided.len() <= parity);
                assert!(avoided.into_iter().all(|member| detector.mood(member) == Mood::Busy));
            }
            Call::Replaced { member } => detector.replaced(now, MemberId::at(member)),
        }
        detector.check();
        let recent = detector.log().recent().next();
        assert!(detector.log().recent().count() <= 2);
        seen.push(format!("{:?} {:?} {recent:?}", detector.deadline(), detector.log().score()));
    }
    seen
}

proptest! {
    #[test]
    fn any_calls_in_any_order_keep_the_invariants(calls in calls()) {
        prop_assert_eq!(make(&calls), make(&calls));
    }
}
