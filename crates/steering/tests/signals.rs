//! The busy members, as they report it and as it is detected.

use det::{Id, Instant};
use raidcore::engine::{Io, IoId, IoOp};
use raidcore::units::{DeviceId, Mem, MemberId, Pba, Set};
use steering::collect::{Limits, Windows};
use steering::scheme::Scheme;
use steering::{Controller, Members, Signals};

const MILLI: u64 = 1_000_000;

fn io(slot: u64, op: IoOp) -> Io {
    let (device, at) = (DeviceId(0), Pba(0));
    Io { id: IoId(Id::<()>::from_bits(slot).to_bits()), device, op, at, blocks: 1 }
}

fn read(slot: u64) -> Io {
    io(slot, IoOp::Read(Mem::Zero))
}

/// Signals of a RAID6 of five members, of which the first reports. Usual latencies are known of
/// all.
fn signals() -> Signals {
    let mut signals = Signals::new(5, Set::one(MemberId(0)), 2);
    for count in 0..100 {
        for member in 0..5 {
            let now = Instant(count * MILLI);
            signals.began(now, MemberId(member), &read(member.into()));
            signals.ended(Instant(now.0 + MILLI / 10), read(member.into()).id, true);
        }
    }
    signals
}

/// Far later than a read would be late.
const LATE: Instant = Instant(200 * MILLI);
const NOW: Instant = Instant(100 * MILLI);

#[test]
fn who_says_it_is_believed_and_others_are_watched() {
    let mut signals = signals();
    for member in [0, 2] {
        signals.began(NOW, MemberId(member), &read(member.into()));
    }
    assert_eq!(signals.detector().in_flight(MemberId(0)), 0, "nobody watches who speaks");
    let due = signals.next().expect("a read is under way");
    assert_eq!(signals.busy(NOW, Set::EMPTY), Set::EMPTY);
    assert!(due < LATE);
    assert_eq!(signals.busy(LATE, Set::EMPTY), Set::one(MemberId(2)));
    assert_eq!(
        signals.busy(LATE, Set::one(MemberId(0)).with(MemberId(1))),
        Set::one(MemberId(0)).with(MemberId(2)),
        "1 is not asked"
    );
}

#[test]
fn no_more_are_detected_than_redundancy_stands_in_for() {
    let mut signals = signals();
    for member in 1..4 {
        signals.began(NOW, MemberId(member), &read(member.into()));
    }
    assert_eq!(signals.busy(LATE, Set::EMPTY).len(), 2);
    let with_told = signals.busy(LATE, Set::one(MemberId(0)));
    assert!(with_told.has(MemberId(0)) && with_told.len() == 2, "{with_told:?}");
}

#[test]
fn what_contains_a_flush_is_not_judged() {
    let mut signals = signals();
    let durable = IoOp::Write { from: Mem::Zero, fua: true };
    for (slot, op) in [IoOp::Flush, IoOp::Journal, IoOp::Discard, durable].into_iter().enumerate() {
        signals.began(NOW, MemberId(1), &io(slot as u64, op));
    }
    assert_eq!((signals.detector().in_flight(MemberId(1)), signals.next()), (0, None));
    signals.ended(LATE, io(1, IoOp::Flush).id, true);
    signals.began(NOW, MemberId(1), &io(9, IoOp::Write { from: Mem::Zero, fua: false }));
    assert_eq!(signals.detector().in_flight(MemberId(1)), 1);
    signals.ended(LATE, io(9, IoOp::Flush).id, false);
    signals.ended(LATE, io(9, IoOp::Flush).id, true);
    assert_eq!(signals.detector().in_flight(MemberId(1)), 0);
    signals.detector().check();
}

#[test]
fn nobody_is_watched_where_it_makes_no_difference() {
    let members = Members {
        count: 4,
        redundancy: 1,
        telling: Set::EMPTY,
        obeying: Set::first(4),
        windows: Windows::default(),
        limits: vec![Limits::default(); 4],
        optimal: vec![1.0; 4],
    };
    let all_tell = Members { telling: Set::first(4), ..members.clone() };
    let watches = |scheme: &str, members: &Members| {
        let scheme = Scheme::named(scheme).expect("there is one");
        let controller = Controller::new(scheme, members.clone(), NOW);
        (controller.signals().is_some(), controller.asks())
    };
    assert_eq!(watches("plain", &members), (false, false));
    assert_eq!(watches("rotate", &members), (false, true));
    assert_eq!(watches("reconstruct", &members), (true, false));
    assert_eq!(watches("reconstruct", &all_tell), (false, true));
}
