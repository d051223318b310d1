//! A drive that follows a clock.

use std::time::Duration;

use det::{Instant, Prng};
use flashsim::profile::{DieChoice, WriteBuffer};
use flashsim::real::{Ended, GcInterval, Io, RealTime};
use flashsim::{Precondition, Profile, Ssd};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The caller's clock when the drive is opened.
const OPENED: Instant = Instant(7_000_000_000);

/// Two chips of two planes, without an interface, so that times are easy to tell.
fn profile(mapping: u32) -> Profile {
    let mut profile = Profile::builtin("msr2008").unwrap().with_blocks(48);
    profile.geometry.channels = 2;
    profile.geometry.planes = 2;
    profile.geometry.page_bytes = mapping.max(4096);
    profile.ftl.mapping_bytes = Some(mapping);
    (profile.link, profile.bus) = (None, None);
    if mapping < 4096 {
        profile.ftl.die = DieChoice::RoundRobin;
        profile.buffer = Some(WriteBuffer { kib: 256, power_safe: false });
    }
    profile
}

fn opened(profile: &Profile, state: Precondition) -> RealTime {
    RealTime::new(Ssd::new(profile, state, 1).unwrap(), OPENED)
}

/// How long one request takes on an idle drive.
fn time(drive: &mut RealTime, io: Io, at: u64, bytes: u64) -> Duration {
    let begin = OPENED + Duration::from_secs(1);
    drive.begin(begin, 1, io, at, bytes);
    let mut ended = Vec::new();
    while ended.is_empty() {
        let next = drive.next().expect("a request under way has a next event");
        drive.poll(next, &mut ended);
    }
    ended[0].at - begin
}

const WRITE: Io = Io::Write { durable: false, stream: 0 };

#[test]
fn a_page_that_is_written_in_part_is_read_first() {
    let times = |at, bytes| {
        let mut drive = opened(&profile(8192), Precondition::Filled);
        time(&mut drive, WRITE, at, bytes)
    };
    let (read, program) = (Duration::from_micros(25), Duration::from_micros(200));
    assert_eq!(times(0, 8192), program);
    assert_eq!(times(8192, 16_384), program, "two pages on two chips");
    assert_eq!(times(0, 4096), read + program, "the first half");
    assert_eq!(times(4096, 4096), read + program, "the second half");
    assert_eq!(times(4096, 8192), read + program, "halves of two pages on two chips");
    assert_eq!(times(u64::MAX - 8192, 4096), Duration::ZERO, "beyond the end");
}

#[test]
fn a_durable_write_waits_for_a_volatile_buffer_to_be_flushed() {
    let mut profile = profile(8192);
    for (power_safe, micros) in [(true, [0, 0]), (false, [0, 200])] {
        profile.buffer = Some(WriteBuffer { kib: 64, power_safe });
        let mut drive = opened(&profile, Precondition::Fresh);
        assert_eq!(time(&mut drive, WRITE, 0, 8192), Duration::from_micros(micros[0]));
        let mut drive = opened(&profile, Precondition::Fresh);
        let durable = Io::Write { durable: true, stream: 0 };
        assert_eq!(time(&mut drive, durable, 0, 8192), Duration::from_micros(micros[1]));
    }
}

#[test]
fn a_discard_forgets_whole_pages_only() {
    let mut drive = opened(&profile(8192), Precondition::Filled);
    time(&mut drive, Io::Discard, 4096, 16_384);
    let reads = |at| time(&mut drive.clone(), Io::Read, at, 4096);
    assert_eq!(reads(4096), Duration::from_micros(25), "written in part");
    assert_eq!(reads(8192), Duration::ZERO, "forgotten");
    assert_eq!(reads(16_384), Duration::from_micros(25), "written in part");
}

#[test]
fn nobody_is_woken_for_what_nobody_waits_for() {
    let mut profile = profile(4096);
    profile.gc.only_when_waiting = false;
    let mut drive = opened(&profile, Precondition::Aged(3.0));
    time(&mut drive, WRITE, 0, 1 << 20);
    assert_eq!(drive.next(), None);
    let report = drive.report(OPENED + Duration::from_secs(9));
    assert_eq!(report.open_ns, 9_000_000_000);
    assert_eq!(report.pages_written, 256);
}

/// A request: when, what, where.
type Request = (Duration, Io, u64, u64);

fn requests(seed: u64, bytes: u64) -> Vec<Request> {
    let mut prng = Prng::new(seed);
    let mut at = Duration::ZERO;
    let request = |_| {
        at += Duration::from_micros(prng.below(600));
        let io = match prng.below(12) {
            0..4 => Io::Read,
            4 => Io::Flush,
            5 => Io::Discard,
            6 => Io::Write { durable: true, stream: 0 },
            _ => WRITE,
        };
        let place = prng.below(bytes / 4096) * 4096;
        (at, io, place, 4096 * (1 + prng.below(6)))
    };
    (0..500).map(request).collect()
}

/// Carries out requests; asks for what has ended only every `pause`, or when there is something.
fn run(drive: &mut RealTime, requests: &[Request], pause: Option<Duration>) -> Vec<Ended> {
    let mut ended = Vec::new();
    let mut asked = OPENED;
    let mut poll = |drive: &mut RealTime, until: Instant, ended: &mut Vec<Ended>| match pause {
        Some(pause) => {
            while asked + pause <= until {
                asked = asked + pause;
                drive.poll(asked, ended);
            }
        }
        None => {
            while let Some(next) = drive.next().filter(|&next| next <= until) {
                drive.poll(next, ended);
            }
        }
    };
    for (tag, &(at, io, place, bytes)) in (0..).zip(requests) {
        poll(drive, OPENED + at, &mut ended);
        drive.begin(OPENED + at, tag, io, place, bytes);
    }
    poll(drive, OPENED + Duration::from_secs(60), &mut ended);
    ended
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, rng_seed: RngSeed::Fixed(8), ..ProptestConfig::default() })]

    /// Every request ends once, and when does not depend on how often the drive is asked.
    #[test]
    fn requests_end_at_their_times(
        mapping in prop_oneof![Just(2048u32), Just(4096), Just(8192)],
        seed in any::<u64>(),
        pause in 20u64..5000,
    ) {
        let profile = profile(mapping);
        let bytes = 4096 * 4000;
        let requests = requests(seed, bytes);
        let mut drive = opened(&profile, Precondition::Aged(2.0));
        let mut asked_late = drive.clone();
        let ended = run(&mut drive, &requests, None);
        let late = run(&mut asked_late, &requests, Some(Duration::from_micros(pause)));
        prop_assert_eq!(&ended, &late);
        let mut tags: Vec<u64> = ended.iter().map(|ended| ended.tag).collect();
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..requests.len() as u64).collect::<Vec<_>>());
        for ended in &ended {
            prop_assert!(ended.at >= OPENED + requests[ended.tag as usize].0);
        }
        let now = OPENED + Duration::from_secs(61);
        let (report, log) = (drive.report(now), drive.gc_log(now, Instant::ORIGIN));
        prop_assert_eq!(&report, &asked_late.report(now));
        prop_assert_eq!(&log, &asked_late.gc_log(now, Instant::ORIGIN));
        check_log(&log, report.gc_ns)?;
        let middle = log[log.len() / 2];
        let later = drive.gc_log(now, Instant(middle.ended));
        prop_assert_eq!(later.first(), Some(&middle));
    }
}

/// Stretches follow each other, and are all that the model counted.
fn check_log(log: &[GcInterval], gc_ns: u64) -> Result<(), TestCaseError> {
    prop_assert!(!log.is_empty(), "there was nothing to see");
    prop_assert!(log.iter().all(|interval| interval.began <= interval.ended));
    prop_assert!(log.windows(2).all(|pair| pair[0].ended < pair[1].began));
    let sum: u64 = log.iter().map(|interval| interval.ended - interval.began).sum();
    prop_assert_eq!(sum, gc_ns);
    Ok(())
}
