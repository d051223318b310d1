//! When drives are asked, and that no one waits for one that does not answer.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use raidcore::units::DeviceId;
use ublkd::health::{DriveHealth, Readings, Source};

const FIRST: DeviceId = DeviceId(1);
const SECOND: DeviceId = DeviceId(2);

/// A drive that is warm.
fn warm(celsius: i32) -> DriveHealth {
    DriveHealth {
        used_percent: None,
        written_bytes: None,
        temperature_celsius: Some(celsius),
        media_errors: None,
        power_on_hours: None,
        source: Source::NvmeLog,
    }
}

fn end(threads: Vec<(DeviceId, JoinHandle<()>)>) -> Vec<DeviceId> {
    let ended = threads.into_iter().map(|(device, thread)| {
        thread.join().expect("it ends well");
        device
    });
    ended.collect()
}

fn celsius(readings: &Readings, device: DeviceId) -> Option<i32> {
    readings.of(device)?.health.temperature_celsius
}

#[test]
fn drives_are_asked_at_once_and_then_rarely() {
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let readings = Readings::with_reader(move |number| {
        let mut count = count.lock().expect("no panic");
        *count += 1;
        // The second drive never tells anything, the first only when it is asked for the first time.
        (number == 11 && *count <= 2).then(|| warm(30))
    });
    let devices = BTreeMap::from([(FIRST, 11), (SECOND, 12)]);
    let begin = Instant::now();
    assert_eq!(celsius(&readings, FIRST), None);
    assert_eq!(end(readings.ask(&devices, begin)), [FIRST, SECOND]);
    assert_eq!((celsius(&readings, FIRST), celsius(&readings, SECOND)), (Some(30), None));
    let early = begin + Readings::ASK_EVERY - Duration::from_millis(1);
    assert_eq!(end(readings.ask(&devices, early)), [], "it is not their turn");
    assert_eq!(end(readings.ask(&devices, begin + Readings::ASK_EVERY)), [FIRST, SECOND]);
    assert_eq!(*asked.lock().expect("no panic"), 4);
    assert_eq!(celsius(&readings, FIRST), None, "what it does not tell any more is forgotten");
}

#[test]
fn a_new_device_is_asked_and_one_that_left_is_forgotten() {
    let readings = Readings::with_reader(|number| Some(warm(number as i32)));
    let now = Instant::now();
    end(readings.ask(&BTreeMap::from([(FIRST, 11)]), now));
    assert_eq!(end(readings.ask(&BTreeMap::from([(SECOND, 12)]), now)), [SECOND]);
    assert_eq!((celsius(&readings, FIRST), celsius(&readings, SECOND)), (None, Some(12)));
}

#[test]
fn a_drive_that_hangs_holds_up_nothing() {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let (begun, has_begun): (Sender<()>, _) = channel();
    let readings = Readings::with_reader(move |number| {
        if number == 11 {
            begun.send(()).expect("the test waits");
            held.lock().expect("no panic").recv().expect("the test releases it");
        }
        Some(warm(number as i32))
    });
    let devices = BTreeMap::from([(FIRST, 11), (SECOND, 12)]);
    let begin = Instant::now();
    let (hangs, answers): (Vec<_>, Vec<_>) =
        readings.ask(&devices, begin).into_iter().partition(|(device, _)| *device == FIRST);
    has_begun.recv().expect("it is asked");
    end(answers);
    assert_eq!((celsius(&readings, FIRST), celsius(&readings, SECOND)), (None, Some(12)));
    let later = begin + 2 * Readings::ASK_EVERY;
    assert_eq!(end(readings.ask(&devices, later)), [SECOND], "it is not asked twice at once");
    release.send(()).expect("it waits");
    end(hangs);
    assert_eq!(celsius(&readings, FIRST), Some(11));
}

#[test]
fn a_device_that_left_while_it_was_asked_stays_forgotten() {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let readings = Readings::with_reader(move |_| {
        held.lock().expect("no panic").recv().expect("the test releases it");
        Some(warm(20))
    });
    let now = Instant::now();
    let threads = readings.ask(&BTreeMap::from([(FIRST, 11)]), now);
    assert_eq!(end(readings.ask(&BTreeMap::new(), now)), []);
    release.send(()).expect("it waits");
    end(threads);
    assert_eq!(readings.of(FIRST), None);
}
