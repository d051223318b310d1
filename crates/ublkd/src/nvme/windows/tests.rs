//! Drives in Predictable Latency Mode that follow orders, or don't.

use super::super::fake::{self, Asked, log};
use super::*;

const DETERMINISTIC: u32 = 1;
const OTHER: u32 = 2;

/// A drive that was found in its non-deterministic window, and when.
fn found() -> (Drive, fake::Drive, Instant) {
    let (mut drive, now) = (fake::Drive::default(), Instant::now());
    let (set, told) =
        NvmSet::of(7, 5, &mut |question, into: &mut [u8]| drive.answer(question, into))
            .expect("it takes orders");
    drive.asked.clear();
    (Drive::new(Path::new("/dev/ng0n7"), set, told, now), drive, now)
}

/// Sees to a drive; returns when it is to be seen to again.
fn round(drive: &mut Drive, now: Instant, order: Order, fake: &mut fake::Drive) -> Option<Instant> {
    match drive.round(now, order, &mut |question, into: &mut [u8]| fake.answer(question, into)) {
        Next::At(at) => Some(at),
        Next::Ordered => None,
        Next::Lost(why) => panic!("it takes no orders any more: {why}"),
    }
}

#[test]
fn orders_are_windows() {
    let (mut drive, mut fake, now) = found();
    assert_eq!(round(&mut drive, now, Order::Hold, &mut fake), Some(now + LOOK_EVERY));
    assert_eq!(fake.told(), [DETERMINISTIC]);
    let later = now + LOOK_EVERY;
    assert_eq!(round(&mut drive, later, Order::Hold, &mut fake), Some(later + LOOK_EVERY));
    assert_eq!(fake.asked.len(), 1, "it is looked at");
    assert!(fake.told().is_empty());
    assert_eq!(round(&mut drive, later, Order::Collect, &mut fake), Some(later + LOOK_EVERY));
    assert_eq!(fake.told(), [OTHER]);
    assert_eq!(drive.told.window, Window::NonDeterministic);
    // It would put off what comes too early.
    let at_least = later + Duration::from_millis(300);
    assert_eq!(round(&mut drive, later, Order::Hold, &mut fake), Some(at_least));
    assert!(fake.asked.is_empty());
    assert_eq!(round(&mut drive, at_least, Order::Hold, &mut fake), Some(at_least + LOOK_EVERY));
    assert_eq!(fake.told(), [DETERMINISTIC]);
    assert_eq!(round(&mut drive, at_least, Order::LeftAlone, &mut fake), None);
    assert_eq!(fake.told(), [OTHER]);
    assert_eq!(round(&mut drive, at_least, Order::LeftAlone, &mut fake), None);
    assert!(fake.asked.is_empty(), "it is not looked at");
}

#[test]
fn a_drive_that_leaves_its_deterministic_window_goes_back_when_it_can_have_collected() {
    let (mut drive, mut fake, now) = found();
    round(&mut drive, now, Order::Hold, &mut fake);
    fake.log = log(2);
    let seen = now + LOOK_EVERY;
    assert_eq!(round(&mut drive, seen, Order::Hold, &mut fake), Some(seen + LOOK_EVERY));
    assert_eq!(drive.told.window, Window::NonDeterministic);
    fake.told();
    let back = seen + Duration::from_secs(2);
    assert_eq!(round(&mut drive, seen + LOOK_EVERY, Order::Hold, &mut fake), Some(back));
    assert!(fake.asked.is_empty());
    round(&mut drive, back, Order::Hold, &mut fake);
    assert_eq!(fake.told(), [DETERMINISTIC]);
}

#[test]
fn a_drive_that_refuses_is_tried_again_and_then_given_up() {
    for (order, opcode) in [(Order::Hold, 0x09), (Order::Collect, 0x02)] {
        let (mut drive, mut fake, now) = found();
        let lost = |drive: &mut Drive, fake: &mut fake::Drive| {
            let ask = &mut |question, into: &mut [u8]| fake.answer(question, into);
            matches!(drive.round(now, order, ask), Next::Lost(Unpredictable::NotAsked(_)))
        };
        fake.refuses = Some(opcode);
        assert!(!lost(&mut drive, &mut fake));
        assert!(!lost(&mut drive, &mut fake));
        // Failures in a row count.
        fake.refuses = None;
        assert!(!lost(&mut drive, &mut fake));
        fake.refuses = Some(0x02);
        assert!(!lost(&mut drive, &mut fake));
        assert!(!lost(&mut drive, &mut fake));
        assert!(lost(&mut drive, &mut fake));
    }
}

#[test]
fn a_drive_whose_mode_is_off_is_given_up_at_once() {
    let (mut drive, mut fake, now) = found();
    fake.log = log(0);
    let ask = &mut |question, into: &mut [u8]| fake.answer(question, into);
    let next = drive.round(now, Order::Collect, ask);
    assert!(matches!(next, Next::Lost(Unpredictable::Off)), "{next:?}");
}

/// Waits until the thread has taken note of something.
fn until(windows: &Windows, what: impl Fn(&State) -> bool) {
    let Shared { state, changed } = &*windows.shared;
    let state = state.lock().expect("no test has panicked");
    let _waited = changed.wait_while(state, |state| !what(state)).expect("no test has panicked");
}

#[test]
fn a_thread_has_the_drive_follow_orders_and_leaves_it_as_it_was() {
    let asked = Asked::default();
    let windows = asked.windows().expect("it takes orders");
    let view = windows.view();
    assert_eq!(windows.least(), Some(Duration::from_secs(2)));
    assert_eq!(view.window(), Some(Window::NonDeterministic));
    assert!(!windows.is_collecting(), "nothing was ordered");
    windows.order(Order::Collect);
    assert!(windows.is_collecting(), "at once");
    windows.order(Order::Hold);
    asked.wait(&[DETERMINISTIC]);
    until(&windows, |state| state.window == Window::Deterministic);
    assert!(!windows.is_collecting());
    assert_eq!(view.window(), Some(Window::Deterministic));
    windows.order(Order::LeftAlone);
    asked.wait(&[DETERMINISTIC, OTHER]);
    assert!(!windows.is_collecting(), "nothing is known of it");
    windows.order(Order::Collect);
    assert!(windows.is_collecting());
    drop(windows);
    assert_eq!(asked.drive().told().last(), Some(&OTHER));
    assert_eq!(asked.drive().log[0] & 7, 2);
    assert_eq!(view.window(), None);
}

#[test]
fn at_the_end_a_drive_that_holds_is_let_go() {
    let asked = Asked::default();
    let windows = asked.windows().expect("it takes orders");
    windows.order(Order::Hold);
    asked.wait(&[DETERMINISTIC]);
    windows.end();
    until(&windows, |state| state.is_over);
    assert!(windows.is_over());
    assert_eq!(asked.drive().told(), [DETERMINISTIC, OTHER]);
}

#[test]
fn a_drive_without_orders_is_told_nothing() {
    let asked = Asked::default();
    let windows = asked.windows().expect("it takes orders");
    windows.order(Order::LeftAlone);
    drop(windows);
    assert!(asked.drive().told().is_empty());
}

#[test]
fn a_drive_that_was_left_in_its_deterministic_window_is_taken_out_of_it() {
    let asked = Asked::default();
    asked.drive().log = log(1);
    let windows = asked.windows().expect("it takes orders");
    assert_eq!(asked.drive().told(), [OTHER]);
    assert_eq!(windows.view().window(), Some(Window::NonDeterministic));
    drop(windows);
    let asked = Asked::default();
    *asked.drive() = fake::Drive { log: log(1), refuses: Some(0x09), ..fake::Drive::default() };
    assert!(matches!(asked.windows(), Err(Unpredictable::NotAsked(_))));
}

#[test]
fn a_drive_that_was_given_up_neither_tells_nor_obeys() {
    let asked = Asked::default();
    let windows = asked.windows().expect("it takes orders");
    asked.drive().log = log(0);
    windows.order(Order::Collect);
    until(&windows, |state| state.is_over);
    assert!(!windows.is_collecting());
    assert_eq!((windows.least(), windows.view().window()), (None, None));
    windows.order(Order::Hold);
    assert!(!windows.is_collecting());
    drop(windows);
    assert!(asked.drive().told().is_empty());
}
