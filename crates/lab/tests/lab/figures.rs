//! Figures that are known from theory.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use hdrhistogram::Histogram;
use lab::measure::Figures;
use lab::run::RunEnd;
use lab::shard::run_shard;

use crate::world::{RAID5, SSD, closed, figures, near, open, parse};

/// Written once, in order, and too little to collect garbage.
const FILLED: &str = "[ssd]\nprofile = 'femu-ioda'\nblocks = 64\nuse = 'filled'\n\
                      set = { gc = { start = 0.1, hard = 0.05 } }\n";

fn run(requests: u64, warmup: u64) -> String {
    format!("[run]\nrequests = {requests}\nwarmup = {warmup}\n")
}

#[test]
fn a_lone_read_takes_as_long_as_the_flash() {
    let f = figures(&[FILLED, &closed(1, 1.0), &run(2000, 0)]);
    near(f.reads.mean_us, 40.0, 1e-9);
    near(f.reads.max_us, 40.0, 1e-3);
    assert_eq!((f.reads.count, f.writes.count, f.requests), (2000, 0, 2000));
    near(f.requests_per_second, 25_000.0, 1e-9);
    assert_eq!(f.end, RunEnd::Done);
}

#[test]
fn an_array_reads_as_fast_as_its_members() {
    let f = figures(&[RAID5, FILLED, &closed(1, 1.0), &run(2000, 0)]);
    near(f.reads.mean_us, 40.0, 1e-9);
    assert_eq!(f.read_amplification, 1.0);
}

#[test]
fn a_small_write_reads_two_and_then_writes_two() {
    let f = figures(&[RAID5, FILLED, &closed(1, 0.0), &run(1000, 0)]);
    // The superblocks say that the array is in use before the first write changes anything.
    near(f.writes.quantiles_us[0], 240.0, 1e-3);
    near(f.array_waf, 2.0, 0.02);
    near(f.device_waf, 1.0, 1e-9);
    near(f.total_waf, f.array_waf * f.device_waf, 1e-9);
}

/// With a journal parity's members are written the entries, too.
#[test]
fn members_with_parity_in_shares_are_written_as_their_optimal_ages_have_it() {
    for (level, shares, written) in
        [("raid5", "[5, 10, 15, 70]", [4.0, 2.0]), ("raid6", "[5, 10, 15, 20, 50]", [9.0, 3.0])]
    {
        for (consistency, written) in [("journal", written[0]), ("resync", written[1])] {
            let members = shares.split(',').count();
            let array = format!(
                "[array]\nlevel = '{level}'\nmembers = {members}\nparity_shares = {shares}\n\
                 consistency = '{consistency}'\n"
            );
            let f = figures(&[&array, SSD, &closed(4, 0.0), &run(20_000, 2000)]);
            near(f.array_waf, written, 0.02);
            let pages = |at: usize| f.drives[at].pages_written as f64;
            for (at, drive) in f.drives.iter().enumerate() {
                near(pages(at) / pages(members - 1), drive.optimal_age, 0.03);
            }
        }
    }
}

#[test]
fn a_whole_stripe_is_written_at_once() {
    let workload = "[workload.synthetic]\nread = 0\nsize = '64K'\naddress = 'sequential'\n";
    let f = figures(&[RAID5, FILLED, workload, &run(500, 0)]);
    near(f.writes.quantiles_us[0], 200.0, 1e-3);
    near(f.array_waf, 1.25, 0.02);
    near(f.written_bytes_per_second, f.requests_per_second * 65_536.0, 1e-9);
}

/// John D. C. Little, "A Proof for the Queuing Formula: L = λW", Operations Research 9 (1961).
#[test]
fn as_many_are_under_way_as_the_loop_is_deep() {
    for (depth, array) in [(4, ""), (64, ""), (16, RAID5)] {
        let f = figures(&[array, SSD, &closed(depth, 0.5), &run(20_000, 5000)]);
        let all = f.reads.mean_us * f.reads.count as f64 + f.writes.mean_us * f.writes.count as f64;
        let under_way = all / 1e6 / f.seconds;
        near(under_way, f64::from(depth), 0.02);
    }
}

#[test]
fn users_who_think_ask_less() {
    let workload = closed(1, 1.0) + "pace.closed.think = '60us'\n";
    let f = figures(&[FILLED, &workload, &run(2000, 0)]);
    near(f.requests_per_second, 10_000.0, 1e-3);
    near(f.reads.mean_us, 40.0, 1e-9);
}

/// One die with Poisson arrivals is M/D/1: the mean is s + ρs / (2 (1 − ρ)).
#[test]
fn an_open_loop_waits_as_a_queue_does() {
    let one_die = "[ssd]\nprofile = 'femu-ioda'\nblocks = 64\nuse = 'filled'\n\
                   set = { geometry = { channels = 1, chips = 1 } }\n";
    let (service, load) = (40.0, 0.6);
    let f = figures(&[one_die, &open(load / service * 1e6, 1.0), &run(200_000, 1000)]);
    near(f.reads.mean_us, service + load * service / (2.0 * (1.0 - load)), 0.02);
}

#[test]
fn who_waits_outside_waits_too() {
    // One request at a time, of those that come ten at once: the last one waits for nine.
    let workload = "[workload.synthetic]\nread = 1\nsize = '4K'\npace.closed.depth = 10\n";
    let one = "[run]\nrequests = 1000\nqueue_depth = 1\n";
    let f = figures(&[FILLED, workload, one]);
    near(f.reads.mean_us, 400.0, 0.01);
    near(f.requests_per_second, 25_000.0, 0.001);
}

#[test]
fn what_can_not_keep_up_is_ended() {
    let f = figures(&[FILLED, &open(100e6, 1.0), &run(3_000_000, 0)]);
    assert_eq!(f.end, RunEnd::Overloaded);
    assert!(f.reads.count < 3_000_000);
}

#[test]
fn collection_is_accounted_for() {
    let f = figures(&[RAID5, SSD, &closed(16, 0.5), &run(30_000, 10_000)]);
    let duties: Vec<_> = f.drives.iter().map(|drive| drive.gc_duty).collect();
    let (most, sum) = (duties.iter().copied().fold(0.0, f64::max), duties.iter().sum::<f64>());
    assert!(most > 0.1 && f.gc_any >= most && f.gc_any <= sum.min(1.0) + 1e-9, "{duties:?}");
    assert!(f.gc_overlap > 0.0 && f.gc_overlap < f.gc_any);
    assert!(f.gc_conflicts > f.gc_io_conflicts, "a request has several I/Os");
    // The timeline tells the same story.
    let t = &f.timeline;
    for (gc, duty) in t.gc.iter().zip(&duties) {
        let time: f64 = gc.iter().map(|&part| f64::from(part) * t.interval_us / 1e6).sum();
        near(time, duty * f.seconds, 0.01);
    }
    let requests: u64 = t.requests.iter().map(|&count| u64::from(count)).sum();
    assert_eq!(requests, f.reads.count + f.writes.count);
    let worst = t.worst_us.iter().copied().fold(0.0, f32::max);
    near(worst.into(), f.reads.max_us.max(f.writes.max_us), 0.01);
    // Histograms hold every request.
    let reads = f.reads.histogram().expect("a histogram");
    assert_eq!(reads.len(), f.reads.count);
    near(reads.value_at_quantile(0.99) as f64 / 1e3, f.reads.quantiles_us[2], 1e-3);
}

#[test]
fn responses_are_reads_and_writes() {
    let f = figures(&[RAID5, SSD, &open(2000.0, 0.7), &run(20_000, 5000)]);
    let (reads, writes, all) = (&f.reads, &f.writes, &f.responses);
    assert_eq!((all.count, f.requests), (reads.count + writes.count, 20_000));
    let sum = reads.mean_us * reads.count as f64 + writes.mean_us * writes.count as f64;
    near(all.mean_us, sum / all.count as f64, 1e-9);
    near(all.max_us, reads.max_us.max(writes.max_us), 1e-9);
    let [reads, writes, all] = [reads, writes, all].map(|l| l.histogram().expect("a histogram"));
    for nanos in [50_000, 250_000, 1_000_000] {
        let faster = |h: &Histogram<u64>| h.count_between(0, nanos);
        assert!(faster(&reads) > 0 && faster(&all) == faster(&reads) + faster(&writes));
    }
    near(f.offered_per_second, 2000.0, 0.03);
}

#[test]
fn what_is_offered_is_told_of_who_can_not_keep_up() {
    let f = figures(&[FILLED, &open(4e6, 1.0), &run(50_000, 0)]);
    near(f.offered_per_second, 4e6, 0.02);
    assert!(f.requests_per_second <= 1.6e6, "64 dies, 40 µs for each read");
}

#[test]
fn a_drive_that_is_not_full_collects_nothing() {
    let fresh = SSD.replace("overwrites = 1.0", "use = 'fresh'");
    let f = figures(&[&fresh, &closed(8, 0.0), &run(5000, 0)]);
    assert_eq!((f.gc_any, f.gc_conflicts, f.device_waf), (0.0, 0.0, 1.0));
}

#[test]
fn the_journal_is_written_to_the_drives() {
    let journaled = RAID5.replace("'resync'", "'journal'\njournal = '1M'");
    let f = figures(&[&journaled, FILLED, &closed(4, 0.0), &run(2000, 0)]);
    assert!(
        f.array_waf > 3.0,
        "data, parity, and an entry for them on two members: {}",
        f.array_waf
    );
}

#[test]
fn durable_writes_wait_for_a_volatile_buffer() {
    let with_buffer = |safe: bool| {
        format!(
            "[ssd]\nprofile = 'femu-ioda'\nblocks = 64\nuse = 'filled'\n\
             set = {{ buffer = {{ kib = 1024, power_safe = {safe} }} }}\n"
        )
    };
    let workload = closed(1, 0.0) + "flush_every = 1\n";
    let volatile = figures(&[&with_buffer(false), &workload, &run(400, 0)]);
    let safe = figures(&[&with_buffer(true), &workload, &run(400, 0)]);
    near(volatile.seconds, 200.0 * 200e-6, 0.01);
    assert!(safe.seconds < volatile.seconds / 10.0);
}

/// Drives that do nothing else while they collect.
fn collecting_drives() -> String {
    format!("{SSD}told = true\nobeys = true\nset.gc = {{ scope = \"device\" }}\n")
}

fn with_scheme(name: &str, more: &str) -> String {
    format!("{RAID5}scheme = '{name}'\n{more}\n")
}

#[test]
fn members_that_take_turns_never_collect_together() {
    let workload = open(1500.0, 0.7);
    let run = run(20_000, 5000);
    let plain = figures(&[RAID5, &collecting_drives(), &workload, &run]);
    let turns = figures(&[&with_scheme("rotate", ""), &collecting_drives(), &workload, &run]);
    assert!(plain.gc_overlap > 0.0 && turns.gc_any > 0.0);
    assert_eq!(turns.gc_overlap, 0.0);
    let events = |f: &Figures| f.drives.iter().map(|d| d.erases).sum::<u64>();
    // A drive that holds does not collect before it has to, as idle drives do by themselves.
    assert!(events(&turns) > 0 && events(&turns) <= events(&plain));
}

/// Telling and obeying are two things: a drive that does neither collects as if there were no scheme.
#[test]
fn drives_that_do_not_obey_collect_as_they_like_whatever_the_scheme() {
    let workload = open(1500.0, 0.7);
    let of = |scheme: &str, told: bool, obeys: bool| {
        let drives = format!("{SSD}told = {told}\nobeys = {obeys}\nset.gc.scope = 'device'\n");
        figures(&[&with_scheme(scheme, ""), &drives, &workload, &run(20_000, 5000)])
    };
    let plain = of("plain", false, false);
    for told in [false, true] {
        assert_eq!(of("rotate", told, false).drives, plain.drives, "told: {told}");
    }
    assert!(plain.gc_overlap > 0.0);
    assert_eq!(of("rotate", true, true).gc_overlap, 0.0, "they take turns");
    // In windows, drives collect together only when they have run out of room.
    let windows = of("rotate", false, true);
    assert!(windows.gc_overlap < plain.gc_overlap / 2.0, "{}", windows.gc_overlap);
    let around = of("rotate+reconstruct", true, false);
    assert!(around.detours > 0.0 && around.gc_overlap > 0.0, "it only goes around them");
}

#[test]
fn reads_that_go_around_keep_to_their_budget_and_gain() {
    let read = |array: &str| {
        figures(&[array, &collecting_drives(), &open(1500.0, 0.7), &run(20_000, 5000)])
    };
    let plain = read(&with_scheme("rotate", ""));
    let thrifty = read(&with_scheme("rotate+reconstruct", "extra_reads = 0.02"));
    let lavish = read(&with_scheme("rotate+reconstruct", "extra_reads = 3.0"));
    assert_eq!((plain.detours, plain.extra_reads), (0.0, 0.0));
    // A little is granted in advance.
    assert!(thrifty.detours > 0.0 && thrifty.extra_reads < 0.03, "{}", thrifty.extra_reads);
    assert!(lavish.detours > thrifty.detours);
    // A request that meets a collecting drive goes around it or waits.
    assert!(plain.gc_avoided == 0.0 && plain.gc_conflicts > 0.0);
    let met = lavish.detours * lavish.reads.count as f64 / lavish.gc_avoided;
    near(met * (1.0 - lavish.gc_avoided), lavish.gc_conflicts * 20_000.0, 1e-9);
    assert!(lavish.reads.mean_us < 0.7 * plain.reads.mean_us);
}

#[test]
fn reads_go_around_drives_that_do_not_say_that_they_collect() {
    // Stalls of 140 ms.
    let read = |scheme: &str, told: bool| {
        let kind = format!("told = {told}\nobeys = false\n");
        let drives = format!("{SSD}{kind}set.gc = {{ scope = 'device', unit.burst = 20 }}\n");
        let array = with_scheme(scheme, "extra_reads = 3.0");
        figures(&[&array, &drives, &open(800.0, 0.9), &run(20_000, 5000)])
    };
    let (plain, unwatched) = (read("plain", true), read("plain", false));
    let (told, found) = (read("reconstruct", true), read("reconstruct", false));
    assert_eq!(unwatched.detours, 0.0);
    assert_eq!(unwatched.gc_conflicts, plain.gc_conflicts, "plain does not even look");
    assert!(found.detours > 0.0 && found.gc_conflicts < 0.6 * plain.gc_conflicts);
    assert!(found.reads.mean_us < 0.5 * plain.reads.mean_us);
    assert!(told.gc_conflicts < found.gc_conflicts, "who is told knows at once");
}

#[test]
fn the_arrays_under_a_log_are_steered_too() {
    let with = |scheme: &str| {
        let log = format!("[log]\nlayout = 'swan5:2x3'\nbuffers = 4\nscheme = '{scheme}'\n");
        [log, collecting_drives(), open(600.0, 0.7), run(20_000, 5000)]
    };
    let of = |scheme: &str| figures(&with(scheme).each_ref().map(String::as_str));
    let (plain, around) = (of("plain"), of("rotate+reconstruct"));
    assert_eq!((plain.detours, plain.extra_reads), (0.0, 0.0));
    assert!(around.detours > 0.0 && around.extra_reads <= 0.25, "{}", around.extra_reads);
    assert!(around.gc_conflicts < plain.gc_conflicts, "{}", around.gc_conflicts);
    let tables = with("evenkeel");
    let experiment = parse(&tables.each_ref().map(String::as_str)).expect("an experiment");
    let point = &experiment.points[0].point;
    let error = run_shard(point, 1, Path::new("."), &AtomicU64::new(0)).expect_err("it stages");
    assert!(error.to_string().contains("no staging log"), "{error}");
}

#[test]
fn what_is_staged_is_told() {
    let workload = open(1500.0, 0.3);
    let of = |array: &str| figures(&[array, &collecting_drives(), &workload, &run(20_000, 5000)]);
    let home = of(&with_scheme("plain", ""));
    assert_eq!((home.staged, home.staging_use, home.reclaimed_blocks), (0.0, 0.0, 0));
    let roomy = of(&with_scheme("gc-steering", "staging = '16M'"));
    assert!(roomy.staged > 0.0 && roomy.reclaimed_blocks > 0, "{}", roomy.staged);
    assert!(roomy.gc_avoided > 0.1, "{}", roomy.gc_avoided);
    assert!((0.0..1.0).contains(&roomy.staging_use));
    let tight = of(&with_scheme("gc-steering", "staging = '256K'"));
    assert!(tight.staging_refused > roomy.staging_refused);
    assert!(tight.gc_avoided < roomy.gc_avoided);
}

/// Drives that have been filled, so that nothing but the rebuild is in the way.
#[test]
fn a_member_is_rebuilt_at_its_pace_and_the_measurement_ends_with_it() {
    let with = |more: &str| format!("{RAID5}{more}");
    let small = "set = { geometry = { channels = 2, chips = 2, pages = 32 }, ";
    let small = FILLED.replace("set = { ", small);
    let workload = open(400.0, 0.5);
    let rebuilding = |pace: &str, requests| {
        let array = with(&format!("rebuild.pace = '{pace}'\n"));
        figures(&[&array, &small, &workload, &run(requests, 500)])
    };
    let normal = figures(&[RAID5, &small, &workload, &run(5000, 500)]);
    assert_eq!((normal.rebuild_seconds, normal.drives.len()), (None, 5));
    let slow = rebuilding("4M", u64::MAX / 2);
    let fast = rebuilding("8M", u64::MAX / 2);
    let time = |f: &Figures| f.rebuild_seconds.expect("it has ended");
    assert!(time(&slow) > 1.0 && (time(&slow) - slow.seconds).abs() < 0.1, "{}", time(&slow));
    near(time(&fast), time(&slow) / 2.0, 0.05);
    // Every stripe of the spare is written once, the rest of what it gets is users'.
    assert_eq!(slow.drives.len(), 6);
    let [failed, spare] = [&slow.drives[0], &slow.drives[5]];
    assert!(failed.pages_written < 20 && spare.pages_written > 2000, "{}", spare.pages_written);
    // Reads of what is not rebuilt yet come from the others.
    assert!(slow.read_amplification > 1.2 * normal.read_amplification);
    let cut_short = rebuilding("4M", 100);
    assert_eq!((cut_short.rebuild_seconds, cut_short.requests), (None, 100));
}

#[test]
fn what_is_read_and_written_apart_is_told_apart() {
    let workload = |mixed: f64| {
        format!(
            "[workload.synthetic]\nread = 0.5\nsize = '4K'\naddress.regions = {{ read = '4M', \
             write = '4M', mixed = '4M', mixed_share = {mixed}, theta = 0.0 }}\n"
        )
    };
    let apart = figures(&[FILLED, &workload(0.0), &run(5000, 0)]);
    assert_eq!((apart.read_intensive, apart.write_intensive), (1.0, 1.0));
    let mixed = figures(&[FILLED, &workload(0.25), &run(50_000, 0)]);
    // A page of the mixed region has six reads and six writes: one in a hundred has less than one
    // of either.
    near(mixed.read_intensive, 0.75, 0.02);
    near(mixed.write_intensive, 0.75, 0.02);
}

#[test]
fn collection_in_no_time_wears_the_flash_and_delays_nobody() {
    let instant = format!("{SSD}set.gc.instant = true\n");
    let f = figures(&[&instant, &closed(1, 0.5), &run(20_000, 5000)]);
    assert_eq!((f.gc_any, f.gc_conflicts), (0.0, 0.0));
    assert!(f.device_waf > 1.5 && f.drives[0].erases > 0);
    near(f.reads.max_us, 40.0, 1e-3);
    near(f.writes.max_us, 200.0, 1e-3);
}

#[test]
fn erases_that_requests_meet_are_told_and_are_fewer_if_drives_erase_together() {
    let by = |scheme: &str| {
        let array = "[array]\nlevel = 'raid5'\nmembers = 4\nchunk = '4K'\nconsistency = 'resync'\n";
        let ssd = "[ssd]\nprofile = 'msr-mcewan'\noverwrites = 2.0\ntold = true\nobeys = true\n\
             set.gc.only_when_waiting = false\n";
        let array = format!("{array}scheme = '{scheme}'\n");
        figures(&[&array, ssd, &open(800.0, 0.2), &run(20_000, 2000)])
    };
    let [alone, together] = ["preempt", "age-aware"].map(by);
    let forced = |f: &Figures| f.drives.iter().map(|drive| drive.forced).sum::<u64>();
    let erases = |f: &Figures| f.drives.iter().map(|drive| drive.erases).sum::<u64>();
    assert!(alone.erase_hits > 0.01 && alone.erase_hits < alone.gc_conflicts);
    assert!(alone.during_erases > alone.erase_hits, "not every request goes to the drive");
    assert!(together.erase_hits < 0.9 * alone.erase_hits);
    assert!(together.during_erases < 0.9 * alone.during_erases);
    assert!(forced(&alone) == 0 && forced(&together) > erases(&together) / 10);
    assert!(erases(&together) > forced(&together));
    assert!(alone.drives.iter().all(|drive| (drive.optimal_age - 1.0).abs() < 1e-9));
}
