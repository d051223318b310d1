//! Channels that bring commands, and reads of several planes with one command.

use std::time::Duration;

use det::Instant;
use flashsim::profile::{Commands, DieChoice, Suspend};
use flashsim::{Op, Precondition, Profile, Ssd};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::any::any_profile;
use crate::{all_end, command, drain, small};

const COMMANDS: Commands = Commands { read_us: 1.0, plane_us: 0.5, program_us: 2.0, erase_us: 3.0 };

/// Reading a row takes 25 us, and its page crosses the channel in 105.6 us.
fn drive(commands: Option<Commands>, channels: u32, chips: u32) -> Profile {
    let mut profile = small();
    profile.link = None;
    profile.bus.as_mut().unwrap().commands = commands;
    (profile.geometry.channels, profile.geometry.chips) = (channels, chips);
    profile
}

/// When commands for these pages end that arrive at once, by their numbers.
fn ends(profile: &Profile, op: Op, pages: &[u32]) -> Vec<u64> {
    let mut ssd = Ssd::new(profile, Precondition::Filled, 1).unwrap();
    for (tag, &page) in pages.iter().enumerate() {
        ssd.submit(Instant::ORIGIN, command(tag as u64, op, page, 1)).unwrap();
    }
    let mut ended = drain(&mut ssd);
    ended.sort_by_key(|ended| ended.tag);
    ended.iter().map(|ended| ended.at.0).collect()
}

#[test]
fn a_command_comes_before_what_it_begins() {
    for (commands, read, write) in [(None, 130_600, 305_600), (Some(COMMANDS), 131_600, 307_600)] {
        let profile = drive(commands, 1, 1);
        assert_eq!(ends(&profile, Op::Read, &[0]), [read]);
        assert_eq!(ends(&profile, Op::Write, &[0]), [write]);
    }
}

#[test]
fn data_that_has_been_read_goes_before_the_next_command() {
    // The last read is of the first one's die.
    let (first, second) = (25_000 + 105_600, 25_000 + 2 * 105_600);
    assert_eq!(
        ends(&drive(None, 1, 2), Op::Read, &[0, 1, 2]),
        [first, second, second + 105_600],
        "its die reads while the channel brings the second one's data"
    );
    let (first, second) = (first + 1_000, second + 1_000);
    assert_eq!(
        ends(&drive(Some(COMMANDS), 1, 2), Op::Read, &[0, 1, 2]),
        [first, second, second + 1_000 + 25_000 + 105_600],
        "its command waits for the second one's data"
    );
}

#[test]
fn dies_take_turns() {
    // The die of the odd pages begins first each time.
    let profile = drive(Some(COMMANDS), 1, 2);
    let round = 1_000 + 25_000 + 2 * 105_600;
    assert_eq!(
        ends(&profile, Op::Read, &[1, 0, 2, 3]),
        [round - 105_600, round, 2 * round, 2 * round - 105_600]
    );
}

#[test]
fn one_command_reads_the_same_row_of_several_planes() {
    // The even pages are on one die, and alternate between its two planes.
    let mut profile = drive(None, 2, 1);
    let (one, transfer) = (130_600, 105_600);
    let alone = [one, 2 * one, 3 * one];
    assert_eq!(ends(&profile, Op::Read, &[8, 0, 2]), alone);
    profile.nand.multi_plane_reads = true;
    assert_eq!(ends(&profile, Op::Read, &[8, 0, 2]), [one, 2 * one, 2 * one + transfer]);
    assert_eq!(ends(&profile, Op::Read, &[8, 0, 6]), alone, "another row");
    assert_eq!(ends(&profile, Op::Read, &[8, 0, 0]), alone, "the same plane");
    profile.bus.as_mut().unwrap().commands = Some(COMMANDS);
    let (one, two) = (one + 1_000, one + 1_500);
    assert_eq!(ends(&profile, Op::Read, &[8, 0, 2]), [one, one + two, one + two + transfer]);
}

#[test]
fn an_erase_takes_its_command_too() {
    let collected = |commands| {
        let mut ssd = Ssd::new(&drive(commands, 1, 1), Precondition::Aged(3.0), 1).unwrap();
        let pages = ssd.geometry().logical_pages;
        ssd.submit(ssd.now(), command(0, Op::Trim, 0, pages)).unwrap();
        drain(&mut ssd);
        for page in 0..1000 {
            ssd.submit(ssd.now(), command(1, Op::Write, page, 1)).unwrap();
            drain(&mut ssd);
        }
        let stats = ssd.stats();
        assert_eq!(stats.flash.moved, 0);
        (stats.gc_time, stats.flash.erases as u32)
    };
    let ((without, erases), (with, same)) = (collected(None), collected(Some(COMMANDS)));
    assert!(erases > 0 && erases == same);
    assert_eq!(with, without + erases * Duration::from_micros(3));
}

#[test]
fn a_die_that_has_suspended_something_waits_for_its_channel_too() {
    let mut profile = drive(Some(COMMANDS), 1, 3);
    profile.suspend = Some(Suspend { erase: true, program: true, latency_us: 50.0, limit: 1 });
    let mut ssd = Ssd::new(&profile, Precondition::Filled, 1).unwrap();
    let mut submit = |us, op, page| {
        let at = Instant((us * 1000.0) as u64);
        ssd.submit(at, command(u64::from(page), op, page, 1)).unwrap();
    };
    submit(0.0, Op::Write, 0);
    // While the first die programs, from 107.6 us until 307.6 us, the others read.
    submit(107.6, Op::Read, 1);
    submit(107.6, Op::Read, 2);
    submit(150.0, Op::Read, 3);
    let ends: Vec<_> = drain(&mut ssd).iter().map(|ended| (ended.tag, ended.at.0)).collect();
    let others = 107_600 + 1_000 + 25_000 + 2 * 105_600;
    let read = others + 1_000 + 25_000 + 105_600;
    let write = read + 307_600 - 150_000;
    assert_eq!(ends, [(1, others - 105_600), (2, others), (3, read), (0, write)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() })]

    #[test]
    fn every_command_ends(mut profile in any_profile(), us in 0u32..3, seed in 0u64..1000) {
        let time = f64::from(us) / 2.0;
        profile.bus.as_mut().unwrap().commands =
            Some(Commands { read_us: time, plane_us: time, program_us: time, erase_us: time });
        profile.nand.multi_plane_reads = true;
        // Some drives of that kind stop for ever, with and without commands.
        if profile.ftl.die == DieChoice::MostFree {
            profile.ftl.die = DieChoice::ShortestQueue;
        }
        all_end(&profile, seed)?;
    }
}
