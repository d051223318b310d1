//! What drives answer, and what is asked of which.

use super::super::fake::{Drive, log};
use super::*;

fn find(drive: &mut Drive, set: u16) -> Result<Told, Unpredictable> {
    let ask = &mut |question, into: &mut [u8]| drive.answer(question, into);
    NvmSet::of(7, set, ask).map(|(_, told)| told)
}

#[test]
fn a_set_tells_its_window_and_its_times() {
    let told = parse(&log(1)).expect("it is one");
    let expected = Told {
        window: Window::Deterministic,
        deterministic_most: Duration::from_secs(5),
        other_least: Duration::from_secs(2),
        other_stays: Duration::from_millis(300),
    };
    assert_eq!(told, expected);
    let told = parse(&log(2)).expect("it is one");
    assert_eq!(told, Told { window: Window::NonDeterministic, ..expected });
    assert!(matches!(parse(&log(0)), Err(Unpredictable::Off)));
    for status in 3..8 {
        assert!(matches!(parse(&log(status)), Err(Unpredictable::Malformed)));
    }
}

#[test]
fn times_that_make_no_sense_or_are_of_no_use_are_refused() {
    let whole = log(2);
    for bytes in 0..72 {
        assert!(matches!(parse(&whole[..bytes]), Err(Unpredictable::Malformed)), "{bytes} bytes");
    }
    assert!(parse(&whole[..72]).is_ok());
    let with = |at: usize, milliseconds: u64| {
        let mut log = log(2);
        log[at..at + 8].copy_from_slice(&milliseconds.to_le_bytes());
        parse(&log)
    };
    assert!(matches!(with(48, 0), Err(Unpredictable::Malformed)));
    assert!(matches!(with(56, 60_001), Err(Unpredictable::Long(_))));
    assert!(matches!(with(64, u64::MAX), Err(Unpredictable::Long(_))));
    assert!(with(48, u64::MAX).is_ok());
    assert_eq!(with(56, 60_000).expect("it is long").other_least, Duration::from_secs(60));
    assert_eq!(
        with(64, 3000).expect("the other is less").other_least,
        Duration::from_secs(3),
        "the longer one counts"
    );
    assert_eq!(with(56, 0).expect("the other counts").other_least, Duration::from_millis(300));
}

#[test]
fn a_drive_is_asked_step_by_step() {
    let mut drive = Drive::default();
    // Others in other sets, and in none.
    drive.sets.extend([(1, 4), (2, 0), (9, 6)]);
    let told = find(&mut drive, 5).expect("it is alone");
    assert_eq!(told.window, Window::NonDeterministic);
    let none = Question::default();
    let identify = Question { opcode: 0x06, ..none };
    let expected = [
        Question { dword10: 1, ..identify },
        Question { opcode: 0x02, dword10: 0x007f_800a, dword11: 5 << 16, ..none },
        Question { dword10: 2, ..identify },
        Question { namespace: 1, ..identify },
        Question { namespace: 2, ..identify },
        Question { namespace: 9, ..identify },
    ];
    assert_eq!(drive.asked, expected);
}

#[test]
fn many_namespaces_are_asked_for_in_parts() {
    let mut drive = Drive::default();
    drive.sets.extend((100..1300).map(|number| (number, 1)));
    assert!(find(&mut drive, 5).is_ok());
    let lists = drive.asked.iter().filter(|it| (it.opcode, it.dword10) == (0x06, 2));
    assert_eq!(lists.map(|it| it.namespace).collect::<Vec<_>>(), [0, 1122]);
    drive.sets.insert(1299, 5);
    assert!(matches!(find(&mut drive, 5), Err(Unpredictable::Shared(1299))));
}

#[test]
fn a_drive_that_takes_no_orders_is_asked_no_further() {
    for attributes in [0, 1 << 2, 1 << 5, !(1 << 5)] {
        let mut drive = Drive { attributes, ..Drive::default() };
        assert!(matches!(find(&mut drive, 5), Err(Unpredictable::Unsupported)));
        assert_eq!(drive.asked.len(), 1);
    }
    let mut drive = Drive::default();
    assert!(matches!(find(&mut drive, 0), Err(Unpredictable::NoSet)));
    assert_eq!(drive.asked.len(), 1);
    let mut drive = Drive { log: log(0), ..Drive::default() };
    assert!(matches!(find(&mut drive, 5), Err(Unpredictable::Off)));
    assert_eq!(drive.asked.len(), 2);
    let mut drive = Drive::default();
    drive.sets.extend([(6, 4), (8, 5), (9, 5)]);
    assert!(matches!(find(&mut drive, 5), Err(Unpredictable::Shared(8))));
    for opcode in [0x02, 0x06] {
        let mut drive = Drive { refuses: Some(opcode), ..Drive::default() };
        assert!(matches!(find(&mut drive, 5), Err(Unpredictable::NotAsked(_))));
        assert!(drive.told().is_empty());
    }
}

#[test]
fn a_list_of_namespaces_that_makes_no_sense_is_refused() {
    let mut drive = Drive::default();
    let ask = &mut |question: Question, into: &mut [u8]| {
        let done = drive.answer(question, into);
        if (question.opcode, question.dword10) == (0x06, 2) {
            into[..8].copy_from_slice(&[7, 0, 0, 0, 7, 0, 0, 0]);
        }
        done
    };
    assert!(matches!(NvmSet::of(7, 5, ask), Err(Unpredictable::Malformed)));
}

#[test]
fn a_set_is_told_where_to_go() {
    let mut drive = Drive::default();
    let told = parse(&log(2)).expect("it is one");
    for (window, dword12, put_off) in [
        (Window::Deterministic, 1, Duration::from_millis(300)),
        (Window::NonDeterministic, 2, Duration::ZERO),
    ] {
        NvmSet(5)
            .go(window, &told, &mut |question, into: &mut [u8]| drive.answer(question, into))
            .expect("it does");
        let expected = Question {
            opcode: 0x09,
            dword10: 0x14,
            dword11: 5,
            dword12,
            put_off,
            ..Question::default()
        };
        assert_eq!(drive.asked.pop(), Some(expected));
    }
}
