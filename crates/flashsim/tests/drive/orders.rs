//! What a host can order, and what a drive tells it to decide by.

use std::time::Duration;

use det::Prng;
use flashsim::{Command, GcMode, GcOrder, Op, Precondition, Profile, Ssd, Thresholds};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::any::any_profile;
use crate::{command, drain, exercise, small};

/// Two chips of one plane of 100 blocks each, 17 of them spare; chips collect by themselves.
fn chips() -> Profile {
    let mut profile = Profile::builtin("msr-mcewan").unwrap().with_blocks(100);
    profile.gc.only_when_waiting = false;
    profile.ftl.spare = 0.17;
    profile.obeys = true;
    profile
}

fn aged(profile: &Profile) -> Ssd {
    let mut ssd = Ssd::new(profile, Precondition::Aged(2.0), 1).unwrap();
    settle(&mut ssd);
    ssd.reset_stats();
    ssd
}

/// Lets everything that goes on by itself end.
fn settle(ssd: &mut Ssd) {
    while let Some(next) = ssd.next() {
        ssd.poll(next, &mut Vec::new());
    }
}

fn order(ssd: &mut Ssd, low: f64, medium: f64, high: f64, gce: f64) {
    let thresholds = GcOrder::Thresholds(Thresholds { low, medium, high, gce });
    ssd.order_gc(ssd.now(), thresholds);
}

#[test]
fn below_low_a_drive_collects_what_is_efficient_and_below_medium_everything() {
    let mut ssd = aged(&chips());
    assert_eq!(ssd.space().least_free_blocks, 6, "its own threshold is 5");
    order(&mut ssd, 0.05, 0.02, 0.01, 0.0);
    assert_eq!(ssd.gc_mode(), GcMode::None, "it has more free blocks than that");
    order(&mut ssd, 0.10, 0.02, 0.01, 0.9);
    settle(&mut ssd);
    assert_eq!(ssd.space().least_free_blocks, 6, "no block is that dirty");
    order(&mut ssd, 0.12, 0.08, 0.01, 0.9);
    settle(&mut ssd);
    assert_eq!(ssd.space().least_free_blocks, 9, "but it collects up to the medium level");
    let (erases, share) = (ssd.erases(), ssd.dirtiest());
    order(&mut ssd, 0.10, 0.02, 0.01, share);
    settle(&mut ssd);
    assert_eq!(ssd.erases(), erases, "more than the share, not as much");
    order(&mut ssd, 0.10, 0.02, 0.01, share - 0.01);
    settle(&mut ssd);
    assert!(ssd.erases() > erases);
}

#[test]
fn thresholds_that_are_out_of_order_or_of_reach_are_lowered() {
    for thresholds in [(0.07, 0.5, 0.9), (0.07, f64::NAN, -3.0)] {
        let mut ssd = aged(&chips());
        order(&mut ssd, thresholds.0, thresholds.1, thresholds.2, 0.0);
        settle(&mut ssd);
        assert_eq!(ssd.space().least_free_blocks, 8, "{thresholds:?}");
    }
    let mut ssd = aged(&chips());
    order(&mut ssd, 5.0, 0.01, 0.01, 0.0);
    settle(&mut ssd);
    assert!((13..=15).contains(&ssd.space().least_free_blocks), "{:?}", ssd.space());
}

/// How long a read waits that comes when a drive begins to collect by these thresholds, whose
/// medium level it is below.
fn read_beside(high: f64) -> (GcMode, Duration) {
    let mut profile = chips();
    profile.link = None;
    let mut ssd = aged(&profile);
    order(&mut ssd, 0.10, 0.09, high, 0.0);
    let mode = ssd.gc_mode();
    let begin = ssd.now() + Duration::from_micros(1);
    ssd.submit(begin, command(0, Op::Read, 0, 2)).unwrap();
    (mode, drain(&mut ssd)[0].latency)
}

#[test]
fn at_the_high_level_the_host_waits_and_above_it_goes_before_the_next_page() {
    let (mode, latency) = read_beside(0.08);
    assert_eq!(mode, GcMode::Normal);
    assert!(latency > Duration::from_millis(3), "a block of some pages: {latency:?}");
    let (mode, latency) = read_beside(0.01);
    assert_eq!(mode, GcMode::PreEmptive);
    assert!(latency < Duration::from_micros(800), "a page: {latency:?}");
}

#[test]
fn one_block_is_collected_once_if_it_is_dirty_enough_and_the_order_before_it_stands() {
    let mut ssd = aged(&chips());
    ssd.order_gc(ssd.now(), GcOrder::Hold);
    let (free, share) = (ssd.space().free_blocks, ssd.dirtiest());
    ssd.order_gc(ssd.now(), GcOrder::Once { gce: share });
    settle(&mut ssd);
    assert_eq!(ssd.stats().flash.erases, 0, "not more than the share");
    ssd.order_gc(ssd.now(), GcOrder::Once { gce: share - 0.01 });
    assert_eq!(ssd.gc_mode(), GcMode::PreEmptive);
    settle(&mut ssd);
    assert_eq!((ssd.stats().flash.erases, ssd.gc_mode()), (1, GcMode::None));
    assert_eq!(ssd.stats().forced, 1);
    assert!(ssd.space().free_blocks <= free + 1);
    // It holds still, though it would collect by itself.
    for tag in 0..400 {
        ssd.submit(ssd.now(), command(tag, Op::Write, tag as u32, 1)).unwrap();
        drain(&mut ssd);
    }
    assert_eq!(ssd.stats().flash.erases, 1);
    ssd.order_gc(ssd.now(), GcOrder::Auto);
    settle(&mut ssd);
    assert!(ssd.stats().flash.erases > 1 && ssd.stats().forced == 1);
}

#[test]
fn a_forced_block_lets_the_host_go_before_each_page() {
    let mut profile = chips();
    profile.link = None;
    let mut ssd = aged(&profile);
    ssd.order_gc(ssd.now(), GcOrder::Hold);
    ssd.order_gc(ssd.now(), GcOrder::Once { gce: 0.1 });
    let begin = ssd.now() + Duration::from_micros(1);
    ssd.submit(begin, command(0, Op::Read, 0, 2)).unwrap();
    let ended = drain(&mut ssd);
    assert!(ended[0].delayed_by_gc && ended[0].latency < Duration::from_micros(800), "{ended:?}");
    settle(&mut ssd);
    assert_eq!(ssd.stats().flash.erases, 1, "and is collected to its end");
}

#[test]
fn who_comes_while_a_die_erases_has_met_an_erase() {
    let mut ssd = aged(&chips());
    ssd.order_gc(ssd.now(), GcOrder::Once { gce: 0.0 });
    while ssd.erasing().next().is_none() {
        assert_eq!(ssd.stats().erase_hits, 0);
        ssd.poll(ssd.next().expect("it collects"), &mut Vec::new());
    }
    let erasing: Vec<u32> = ssd.erasing().collect();
    assert_eq!(erasing.len(), 1);
    for page in [0, 1] {
        ssd.submit(ssd.now(), command(page, Op::Read, page as u32, 1)).unwrap();
    }
    let mut ended = drain(&mut ssd);
    ended.sort_unstable_by_key(|ended| ended.tag);
    let met: Vec<bool> = ended.iter().map(|ended| ended.met_erase).collect();
    let expected: Vec<bool> = [0, 1].iter().map(|chip| erasing.contains(chip)).collect();
    assert_eq!((met, ssd.stats().erase_hits), (expected, 1));
    settle(&mut ssd);
    assert_eq!(ssd.erasing().next(), None);
}

#[test]
fn a_drive_on_which_all_waits_for_an_erase_has_one_that_everybody_meets() {
    let mut profile = chips();
    profile.gc.scope = flashsim::profile::Scope::Device;
    let mut ssd = aged(&profile);
    ssd.order_gc(ssd.now(), GcOrder::Once { gce: 0.0 });
    while ssd.erasing().next().is_none() {
        ssd.poll(ssd.next().expect("it collects"), &mut Vec::new());
    }
    for page in [0, 1] {
        ssd.submit(ssd.now(), command(page, Op::Read, page as u32, 1)).unwrap();
    }
    assert!(drain(&mut ssd).iter().all(|ended| ended.met_erase));
}

#[test]
fn the_age_of_a_drive_outlives_its_counters_and_its_process() {
    let mut ssd = aged(&chips());
    ssd.reset_stats();
    let before = ssd.erases();
    order(&mut ssd, 0.10, 0.09, 0.01, 0.0);
    settle(&mut ssd);
    let erases = ssd.stats().flash.erases;
    assert!(erases > 0 && ssd.erases() == before + erases);
    ssd.reset_stats();
    assert_eq!((ssd.erases(), ssd.stats().flash.erases), (before + erases, 0));
    assert_eq!(Ssd::restore(&ssd.save()).unwrap().erases(), before + erases);
}

#[test]
fn the_dirtiest_block_is_told() {
    let mut ssd = Ssd::new(&chips(), Precondition::Fresh, 1).unwrap();
    assert_eq!(ssd.dirtiest(), 0.0);
    let pages = ssd.geometry().logical_pages;
    ssd.submit(ssd.now(), command(0, Op::Write, 0, pages)).unwrap();
    drain(&mut ssd);
    assert_eq!(ssd.dirtiest(), 0.0);
    // The first block of the second chip: 63 pages of data, every other page is on that chip.
    for page in 0..21 {
        ssd.submit(ssd.now(), command(0, Op::Trim, 1 + 2 * page, 1)).unwrap();
    }
    drain(&mut ssd);
    assert!((ssd.dirtiest() - 21.0 / 63.0).abs() < 1e-9, "{}", ssd.dirtiest());
}

#[test]
fn a_drive_that_does_not_obey_ignores_every_order() {
    let profile = Profile { obeys: false, ..chips() };
    let mut left_alone = aged(&profile);
    let expected = exercise(&mut left_alone, 4, 400);
    let thresholds = Thresholds { low: 0.12, medium: 0.1, high: 0.01, gce: 0.0 };
    for order in [
        GcOrder::Hold,
        GcOrder::Reach(0.12),
        GcOrder::Thresholds(thresholds),
        GcOrder::Once { gce: 0.0 },
    ] {
        let mut ssd = aged(&profile);
        ssd.order_gc(ssd.now(), order);
        assert_eq!(exercise(&mut ssd, 4, 400), expected, "{order:?}");
        assert_eq!((ssd.space(), ssd.stats()), (left_alone.space(), left_alone.stats()));
        let mut obeys = aged(&Profile { obeys: true, ..profile.clone() });
        obeys.order_gc(obeys.now(), order);
        settle(&mut obeys);
        exercise(&mut obeys, 4, 400);
        let changed = (obeys.space(), obeys.stats());
        assert_ne!(changed, (left_alone.space(), left_alone.stats()), "{order:?}");
    }
}

#[test]
fn a_restored_drive_remembers_no_order() {
    let thresholds = Thresholds { low: 0.12, medium: 0.1, high: 0.01, gce: 0.0 };
    for orders in [
        [GcOrder::Hold, GcOrder::Hold],
        [GcOrder::Reach(0.12), GcOrder::Reach(0.12)],
        [GcOrder::Auto, GcOrder::Thresholds(thresholds)],
        [GcOrder::Hold, GcOrder::Once { gce: 0.0 }],
    ] {
        let mut ssd = aged(&chips());
        ssd.order_gc(ssd.now(), orders[0]);
        for tag in 0..700 {
            ssd.submit(ssd.now(), command(tag, Op::Write, tag as u32, 1)).unwrap();
            drain(&mut ssd);
        }
        ssd.order_gc(ssd.now(), orders[1]);
        settle(&mut ssd);
        let mut restored = Ssd::restore(&ssd.save()).unwrap();
        ssd.order_gc(ssd.now(), GcOrder::Auto);
        for ssd in [&mut ssd, &mut restored] {
            settle(ssd);
        }
        assert_eq!((restored.space(), restored.stats()), (ssd.space(), ssd.stats()), "{orders:?}");
        assert_eq!(exercise(&mut restored, 3, 400), exercise(&mut ssd, 3, 400), "{orders:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, rng_seed: RngSeed::Fixed(8), ..ProptestConfig::default() })]

    /// Whatever is ordered, and however often, every command ends, and the drive stays in order.
    #[test]
    fn no_order_keeps_a_command_for_ever(profile in any_profile(), seed in 0u64..1000) {
        let mut ssd = Ssd::new(&profile, Precondition::Aged(1.0), seed).unwrap();
        let mut prng = Prng::new(seed);
        let pages = u64::from(ssd.geometry().logical_pages);
        let mut ended = Vec::new();
        for tag in 0..400 {
            let now = ssd.now() + Duration::from_micros(prng.below(600));
            let mut share = || prng.below(1000) as f64 / 900.0;
            let given = match tag % 23 {
                0 => Some(GcOrder::Thresholds(Thresholds {
                    low: share(), medium: share(), high: share(), gce: share(),
                })),
                5 | 6 => Some(GcOrder::Once { gce: share() }),
                9 => Some(GcOrder::Reach(share())),
                14 => Some(GcOrder::Hold),
                19 => Some(GcOrder::Auto),
                _ => None,
            };
            if let Some(given) = given {
                ssd.order_gc(now, given);
            }
            let page = prng.below(pages) as u32;
            let op = [Op::Read, Op::Write, Op::Write, Op::Write][prng.below(4) as usize];
            ssd.submit(now, Command { tag, op, page, pages: 1, stream: 0 }).unwrap();
            ssd.poll(now, &mut ended);
        }
        ended.extend(drain(&mut ssd));
        ssd.check();
        prop_assert_eq!(ended.len(), 400);
        let restored = Ssd::restore(&ssd.save()).unwrap();
        prop_assert_eq!(restored.erases(), ssd.erases());
    }
}

#[test]
fn a_drive_of_several_planes_is_forced_where_it_is_dirtiest() {
    let mut ssd = Ssd::new(&small(), Precondition::Filled, 1).unwrap();
    let pages = ssd.geometry().logical_pages;
    // Pages of the first chip only.
    for page in (0..pages / 4).map(|page| page * 2) {
        ssd.submit(ssd.now(), command(0, Op::Trim, page, 1)).unwrap();
    }
    drain(&mut ssd);
    ssd.order_gc(ssd.now(), GcOrder::Hold);
    ssd.order_gc(ssd.now(), GcOrder::Once { gce: 0.5 });
    assert!(ssd.erasing().eq([0]), "its block has nothing to move");
}

#[test]
fn at_the_hard_limit_a_block_is_collected_however_little_it_gains() {
    let mut ssd = Ssd::new(&small(), Precondition::Aged(1.0), 1).unwrap();
    let never = Thresholds { low: 0.0, medium: 0.0, high: 0.0, gce: 1.0 };
    ssd.order_gc(ssd.now(), GcOrder::Thresholds(never));
    let (mut prng, pages) = (Prng::new(1), ssd.geometry().logical_pages);
    let writes = 3 * u64::from(pages);
    let mut ended = 0;
    for tag in 0..writes {
        let page = prng.below(pages.into()) as u32;
        ssd.submit(ssd.now(), command(tag, Op::Write, page, 1)).unwrap();
        ended += drain(&mut ssd).len();
    }
    assert_eq!(ended as u64, writes);
}
