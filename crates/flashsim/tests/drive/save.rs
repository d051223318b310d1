//! A drive that is saved and restored is the same drive, and bytes that are no drive are refused.

use std::time::Duration;

use det::Prng;
use flashsim::profile::WriteBuffer;
use flashsim::{Command, Completion, Op, Precondition, Profile, RestoreError, Ssd};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::any::any_profile;
use crate::{exercise, small};

/// Lets everything that goes on by itself end.
fn settle(ssd: &mut Ssd) {
    while let Some(next) = ssd.next() {
        ssd.poll(next, &mut Vec::new());
    }
}

/// Bytes with a checksum that matches.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 4;
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[..end]) as u32;
    bytes[end..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// How long the text in a saved drive is, which begins at byte 16.
fn text_length(bytes: &[u8]) -> usize {
    u32::from_le_bytes(*bytes[12..].first_chunk().unwrap()) as usize
}

/// Restores, and uses the drive if there is one.
fn try_out(bytes: &[u8]) -> Result<(), RestoreError> {
    let mut ssd = Ssd::restore(bytes)?;
    ssd.check();
    let pages = u64::from(ssd.geometry().logical_pages);
    let (mut prng, mut ended, begin) = (Prng::new(7), Vec::new(), ssd.now());
    for tag in 0..400 {
        let page = prng.below(pages) as u32;
        let op = [Op::Read, Op::Write, Op::Write, Op::Flush][prng.below(4) as usize];
        let now = begin + Duration::from_micros(150 * tag);
        let stream = (tag % 4) as u16;
        ssd.submit(now, Command { tag, op, page, pages: 1, stream }).unwrap();
        ssd.poll(now, &mut ended);
    }
    ssd.poll(begin + Duration::from_secs(2), &mut ended);
    ssd.check();
    let (stats, wear) = (ssd.stats(), ssd.wear());
    assert!(stats.waf() >= 0.0 && stats.gc.mean() <= stats.gc.longest && wear.mean >= 0.0);
    Ok(())
}

#[test]
fn what_is_no_drive_is_refused() {
    let ssd = Ssd::new(&small(), Precondition::Aged(1.0), 1).unwrap();
    let bytes = ssd.save();
    let refused = |bytes: &[u8]| Ssd::restore(bytes).unwrap_err();
    assert!(matches!(refused(b"hello"), RestoreError::Alien));
    assert!(matches!(refused(&[]), RestoreError::Alien));
    let mut newer = bytes.clone();
    newer[8] = 9;
    assert!(matches!(refused(&newer), RestoreError::Version(9)));
    for cut in [9, 14, 1000, bytes.len() - 1] {
        assert!(matches!(refused(&bytes[..cut]), RestoreError::Damaged), "{cut} bytes");
    }
    for at in (16..bytes.len()).step_by(997) {
        let mut spoilt = bytes.clone();
        spoilt[at] ^= 0x10;
        assert!(matches!(refused(&spoilt), RestoreError::Damaged), "byte {at}");
    }
    let mut more = bytes.clone();
    more.extend([0; 8]);
    assert!(Ssd::restore(&sealed(more)).is_err());
}

/// Earlier releases had no drives that kept silent, and none that did not obey.
#[test]
fn a_drive_of_an_earlier_release_tells_and_obeys() {
    for (told, obeys) in [(false, false), (true, false), (false, true), (true, true)] {
        let profile = Profile { told, obeys, ..small() };
        let saved = Ssd::new(&profile, Precondition::Filled, 1).unwrap().save();
        assert_eq!(Ssd::restore(&saved).unwrap().profile(), &profile);
        let end = 16 + text_length(&saved);
        let text = std::str::from_utf8(&saved[16..end]).unwrap();
        let is_other = |line: &&str| !line.starts_with("told") && !line.starts_with("obeys");
        let text: String = text.split_inclusive('\n').filter(is_other).collect();
        let length = (text.len() as u32).to_le_bytes();
        let before = [&saved[..12], &length, text.as_bytes(), &saved[end..]];
        let restored = Ssd::restore(&sealed(before.concat())).unwrap();
        assert!(restored.profile().told && restored.profile().obeys);
    }
}

#[test]
fn a_large_drive_is_not_made_of_a_few_bytes() {
    let huge = Profile::builtin("nvme-tlc").unwrap();
    let mut bytes = Ssd::new(&small(), Precondition::Fresh, 1).unwrap().save();
    let old = 16 + text_length(&bytes);
    let new = Ssd::new(&huge.with_blocks(120), Precondition::Fresh, 1).unwrap().save();
    let state = bytes.split_off(old);
    let swapped = [&new[..16 + text_length(&new)], &state].concat();
    assert!(Ssd::restore(&sealed(swapped)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() })]

    /// A drive that was idle goes on as if nothing had happened.
    #[test]
    fn a_restored_drive_goes_on(profile in any_profile(), seed in 0u64..1000) {
        let mut ssd = Ssd::new(&profile, Precondition::Aged(0.5), seed).unwrap();
        exercise(&mut ssd, seed, 300);
        settle(&mut ssd);
        let bytes = ssd.save();
        let mut restored = Ssd::restore(&bytes).unwrap();
        restored.check();
        prop_assert_eq!(restored.save(), bytes);
        prop_assert_eq!((restored.stats(), restored.space()), (ssd.stats(), ssd.space()));
        prop_assert_eq!(restored.profile(), &profile);
        let run = |ssd: &mut Ssd| -> Vec<Completion> { exercise(ssd, seed + 1, 300) };
        prop_assert_eq!(run(&mut restored), run(&mut ssd));
        prop_assert_eq!((restored.stats(), restored.wear()), (ssd.stats(), ssd.wear()));
        prop_assert_eq!((restored.space(), restored.buffered_pages()), (ssd.space(), ssd.buffered_pages()));
    }

    /// A drive that was busy has lost nothing but what was under way.
    #[test]
    fn a_busy_drive_is_restored(profile in any_profile(), seed in 0u64..1000, until in 1u64..100) {
        let mut ssd = Ssd::new(&profile, Precondition::Aged(0.5), seed).unwrap();
        let pages = u64::from(ssd.geometry().logical_pages);
        let mut prng = Prng::new(seed);
        for tag in 0..200 {
            let page = prng.below(pages) as u32;
            let stream = (tag % 4) as u16;
            let command = Command { tag, op: Op::Write, page, pages: 1, stream };
            ssd.submit(ssd.now(), command).unwrap();
        }
        ssd.poll(ssd.now() + Duration::from_micros(until * 50), &mut Vec::new());
        let (stats, wear) = (ssd.stats(), ssd.wear());
        let mut restored = Ssd::restore(&ssd.save()).unwrap();
        restored.check();
        prop_assert_eq!((restored.outstanding(), restored.wear()), (0, wear));
        prop_assert!(restored.stats().flash.programmed >= stats.flash.programmed);
        settle(&mut restored);
        exercise(&mut restored, seed, 200);
        restored.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, rng_seed: RngSeed::Fixed(6), ..ProptestConfig::default() })]

    /// Bytes with a matching checksum that were never saved are refused, or make a drive that
    /// works.
    #[test]
    fn spoilt_bytes_make_no_trouble(
        buffered in proptest::bool::ANY,
        changes in proptest::collection::vec((0.0f64..1.0, any::<u32>()), 1..4),
        small_values in proptest::bool::ANY,
        cut in proptest::option::of(0.0f64..1.0),
    ) {
        let mut profile = small().with_blocks(40);
        profile.geometry.pages = 16;
        profile.ftl.spare = 0.25;
        profile.gc.separate = buffered;
        if buffered {
            let buffer = WriteBuffer { kib: 64, power_safe: true };
            profile.buffer = Some(buffer);
        }
        let mut ssd = Ssd::new(&profile, Precondition::Aged(0.5), 3).unwrap();
        exercise(&mut ssd, 3, 200);
        let mut bytes = ssd.save();
        let end = bytes.len() - 4;
        for (at, value) in changes {
            // Aligned to the numbers after the text as often as not.
            let at = 16 + ((end - 20) as f64 * at) as usize;
            let value = if small_values { value % 64 } else { value };
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        if let Some(cut) = cut {
            bytes.truncate(20 + ((end - 20) as f64 * cut) as usize);
        }
        drop(try_out(&sealed(bytes)));
    }
}
