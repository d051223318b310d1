//! Seeds, of which some are played twice and compared; those that once failed; and worlds that bytes decide.

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;
use sim::{Failure, Playable, Scenario, Summary, run, run_bytes, trace};

/// Plays a seed. One in four is played twice: both runs are the same.
fn play(seed: u64) -> Result<Summary, Box<Failure>> {
    let scenario = Scenario::draw(seed);
    let first = run(seed, &scenario)?;
    if seed.is_multiple_of(4) {
        assert_eq!(first, run(seed, &scenario)?, "seed {seed} is two different runs");
    }
    Ok(first)
}

fn play_all(seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        if let Err(failure) = play(seed) {
            panic!("{failure}\n{:?}", failure.scenario);
        }
    }
}

#[test]
fn seeds_from_0_on() {
    play_all(crate::range(0, 3_000));
}

#[test]
fn seeds_from_1_000_000_on() {
    play_all(crate::range(1_000_000, 3_000));
}

/// Seeds that once failed, with the bugs that they found. A seed's choices change with the
/// simulator, so the bugs are in the list of mutants, too, or played on purpose in `regressions.rs`
/// of the library.
#[test]
fn seeds_that_once_failed() {
    play_all([
        122_907,    // An entry was carried out whose other holder could not be read at that start.
        686,        // A stop was answered while a spare's failure was still being recorded.
        732,        // What a scrub had repaired was undone by a power failure.
        1_337,      // A resync took parity as it was, and left its copies on the spare different.
        1_924,      // A replay was cut short, then its journal unreadable, its region unmarked.
        3_766,      // A member that could not be recorded became one.
        6_104,      // An entry that a holder lacked was carried out, half.
        8_751,      // What was read around a busy member was copied from a buffer of another job.
        18_754,     // A stop was answered while a flush for room in the journal was under way.
        36_193,     // An entry held nothing for a member that had failed off the record.
        46_027,     // A replay brought back the parity that a scrub had corrected.
        59_802,     // A resync was done before it was durable.
        101_170,    // An entry overwrote a tail record whose write was under way.
        111_368,    // What could be read of a journal was older than what could not.
        153_452,    // A replay wrote the older before the newer, and was cut short.
        259_961,    // A write went home before the record of the failed member.
        10_302_874, // A write before a return was on record was not noted as missed by the member.
        20_217_859, // The same before it was on record that a spare had the place.
        20_315_083, // The same.
        30_134_408, // A staging device that had never held anything counted as lost.
        30_225_076, // Writes that the spare missed were acknowledged before it was free on record.
        40_178_713, // A page of a life that is not on record counted when its spare became a member.
        40_297_114, // A replay was cut short, and its parity member returned to a region without a mark.
        40_634_963, // A stop was answered while pages of what a member misses were being stored.
        50_061_961, // An entry was carried out that only a successor had, which lacked the stripe.
        50_185_877, // What was staged last and could not be read hid what it would have replaced.
        50_445_412, // A read that was answered was tried again, into memory that was reused.
        50_728_625, // The oldest of a full staging log could not come home, and others waited for room.
        52_192_915, // A durable write of a missing member's block leaned on others' that were not flushed.
        52_512_557, // A write failed, as a page was on a successor alone, and that is the member now.
        57_964_851, // Entries were retired while a tail was being recorded, and it was not recorded again.
        59_996_468, // A spare that a lost member alone had recorded as failed kept the array from starting.
        62_067_039, // What a start had found missed was forgotten before the member was away.
        62_072_262, // Copies on the spare outlived the journal that would have made them agree.
        62_886_510, // The spare stood in while staged blocks were on a member fewer.
        60_545_376, // A start missed a device that was being filled, though nothing was on it alone.
    ]);
}

#[test]
fn some_worlds_have_ssds_that_collect_garbage() {
    let on_flash = |seed: &u64| Scenario::draw(*seed).flash;
    let collections = (0..400).filter(on_flash).map(|seed| {
        let summary =
            run(seed, &Scenario::draw(seed)).unwrap_or_else(|failure| panic!("{failure}"));
        summary.collections
    });
    let some = collections.filter(|&collections| collections > 0).count();
    assert!(some > 10, "in {some} worlds only");
}

#[test]
fn some_requests_go_around_busy_members() {
    let busy = |seed: &u64| Scenario::draw(*seed).busy > 0;
    let mut worlds = [0; 2];
    for seed in (0..200).filter(busy) {
        let summary =
            run(seed, &Scenario::draw(seed)).unwrap_or_else(|failure| panic!("{failure}"));
        worlds[0] += u32::from(summary.detours > 0);
        worlds[1] += u32::from(summary.twins > 0);
    }
    assert!(worlds.iter().all(|&some| some > 10), "in {worlds:?} worlds only");
}

/// All events of a run, as text.
fn story(seed: u64) -> String {
    let told = Rc::new(RefCell::new(String::new()));
    let to = Rc::clone(&told);
    let line = move |line: &str| {
        let mut told = to.borrow_mut();
        told.push_str(line);
        told.push('\n');
    };
    trace(seed, &Scenario::draw(seed), line).unwrap_or_else(|failure| panic!("{failure}"));
    told.take()
}

#[test]
fn the_same_seed_is_the_same_story() {
    for seed in 0..20 {
        let (first, second) = (story(seed), story(seed));
        let differs = first.lines().zip(second.lines()).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        assert!(first.len() > 1000 && first.len() == second.len(), "seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn worlds_that_bytes_decide(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        if let Err(message) = run_bytes::<Scenario>(&bytes) {
            return Err(TestCaseError::fail(message));
        }
    }
}
