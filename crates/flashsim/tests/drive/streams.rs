//! Streams of writes: what a host says belongs together shares blocks with nothing else.

use det::Prng;
use flashsim::profile::{DieChoice, PlaneChoice, ProfileError, WriteBuffer};
use flashsim::{Command, Op, Precondition, Profile, Ssd};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::any::any_profile;
use crate::{all_end, drain, exercise, small};

/// The small drive with so many streams.
fn with_streams(streams: u16) -> Profile {
    let mut profile = small();
    profile.ftl.spare = 0.25;
    profile.ftl.streams = streams;
    profile.ftl.plane = PlaneChoice::Static;
    // One that has several does it in any case.
    profile.gc.separate = true;
    profile
}

/// A drive of any kind with two streams or three; not of those that can be stuck with one, too.
fn any_streams() -> impl Strategy<Value = Profile> {
    (any_profile(), 2u16..4).prop_map(|(mut profile, streams)| {
        profile.ftl.streams = streams;
        if profile.ftl.die == DieChoice::MostFree {
            profile.ftl.die = DieChoice::RoundRobin;
        }
        profile
    })
}

fn write(ssd: &mut Ssd, page: u32, stream: u16) {
    let command = Command { tag: page.into(), op: Op::Write, page, pages: 1, stream };
    ssd.submit(ssd.now(), command).unwrap();
    drain(ssd);
}

/// Write amplification of a log of nine tenths of the drive, which is written again and again from its
/// beginning to its end, beside as many writes of single pages at random in the last tenth.
fn waf(profile: &Profile, log: u16) -> f64 {
    let mut ssd = Ssd::new(profile, Precondition::Aged(1.0), 7).unwrap();
    let pages = ssd.geometry().logical_pages;
    let (log_pages, mut prng) = (pages / 10 * 9, Prng::new(3));
    for round in 0..3 * pages {
        if round == pages {
            ssd.reset_stats();
        }
        write(&mut ssd, round % log_pages, log);
        let others = u64::from(pages - log_pages);
        write(&mut ssd, log_pages + prng.below(others) as u32, 0);
    }
    ssd.check();
    ssd.stats().waf()
}

#[test]
fn pages_of_unlike_lifetimes_are_moved_less_if_they_are_kept_apart() {
    let (mixed, apart) = (waf(&with_streams(2), 0), waf(&with_streams(2), 1));
    assert!(apart - 1.0 < 0.5 * (mixed - 1.0), "{mixed} together, {apart} apart");
}

#[test]
fn a_drive_with_one_stream_does_not_care_what_it_is_told() {
    let profile = with_streams(1);
    assert_eq!(waf(&profile, 0).to_bits(), waf(&profile, 9).to_bits());
}

#[test]
fn numbers_that_the_drive_does_not_have_are_its_last_stream() {
    let profile = with_streams(2);
    assert_eq!(waf(&profile, 1).to_bits(), waf(&profile, u16::MAX).to_bits());
}

#[test]
fn one_stream_is_the_default_and_is_not_written_down() {
    let text = toml::to_string(&small()).unwrap();
    assert!(!text.contains("streams"), "{text}");
    assert_eq!(Profile::parse(&text, "this").unwrap().ftl.streams, 1);
}

#[test]
fn each_stream_needs_a_block_to_be_written_to_and_room_in_the_buffer() {
    let mut profile = with_streams(128);
    assert!(matches!(profile.check(), Err(ProfileError::NoRoomToCollect { .. })));
    profile.ftl.streams = 0;
    assert!(matches!(profile.check(), Err(ProfileError::Range { key: "ftl.streams", .. })));
    profile.ftl.streams = 3;
    profile.buffer = Some(WriteBuffer { kib: 8, power_safe: true });
    assert!(matches!(profile.check(), Err(ProfileError::NeedsBuffer { least: 12, .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, rng_seed: RngSeed::Fixed(8), ..ProptestConfig::default() })]

    #[test]
    fn every_command_of_every_stream_ends(profile in any_streams(), seed in 0u64..1000) {
        all_end(&profile, seed)?;
    }

    #[test]
    fn a_drive_with_streams_is_restored(profile in any_streams(), seed in 0u64..1000) {
        let mut ssd = Ssd::new(&profile, Precondition::Aged(1.0), seed).unwrap();
        for tag in 0..40 {
            let (page, stream) = (tag as u32 * 7, (tag % 4) as u16);
            let command = Command { tag, op: Op::Write, page, pages: 1, stream };
            ssd.submit(ssd.now(), command).unwrap();
        }
        let restored = Ssd::restore(&ssd.save()).unwrap();
        prop_assert_eq!(restored.save(), Ssd::restore(&restored.save()).unwrap().save());
        for drive in [&mut ssd, &mut restored.clone()] {
            drain(drive);
            drive.check();
            exercise(drive, seed, 200);
            drive.check();
        }
    }

    /// Whatever the streams: what was written is mapped, and nothing else.
    #[test]
    fn each_page_that_was_written_is_there(profile in any_streams(), seed in 0u64..1000) {
        let mut ssd = Ssd::new(&profile, Precondition::Filled, seed).unwrap();
        exercise(&mut ssd, seed, 800);
        ssd.check();
        let trimmed = Command { tag: 0, op: Op::Trim, page: 5, pages: 9, stream: 0 };
        ssd.submit(ssd.now(), trimmed).unwrap();
        drain(&mut ssd);
        for page in 0..30 {
            if page % 3 == 0 {
                write(&mut ssd, page, (page % 7) as u16);
            }
        }
        let elsewhere = ssd.stats().pages_read_elsewhere;
        let whole = Command { tag: 0, op: Op::Flush, page: 0, pages: 0, stream: 0 };
        ssd.submit(ssd.now(), whole).unwrap();
        drain(&mut ssd);
        ssd.submit(ssd.now(), Command { op: Op::Read, page: 5, pages: 9, ..trimmed }).unwrap();
        drain(&mut ssd);
        // Pages 6, 9 and 12 of the nine are there again, in flash or in a buffer that survives.
        let absent = ssd.stats().pages_read_elsewhere - elsewhere;
        prop_assert!((6..=9).contains(&absent), "{absent}");
        ssd.check();
    }
}
