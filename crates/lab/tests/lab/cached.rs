//! Arrays with a write cache in memory.

use det::Instant;
use flashsim::{Precondition, Profile, Ssd};
use lab::system::{CachePolicy, Cached, CachedLevel, CachedSpec, Request, System, Told};
use lab::units::Bytes;
use lab::workload::Kind;
use proptest::prelude::*;

use crate::world::{SSD, closed, figures, refused};

/// Four SSDs, strips of four blocks, a cache of so many blocks.
fn spec(level: CachedLevel, policy: CachePolicy, blocks: u64) -> CachedSpec {
    let text = "level = 'raid5'\nmembers = 4\nchunk = '16K'\npolicy = 'none'";
    let spec: CachedSpec = toml::from_str(text).expect("a description");
    CachedSpec { level, policy, size: Bytes(blocks << 12), ..spec }
}

struct Array {
    cached: Cached,
    now: Instant,
    told: Told,
}

impl Array {
    fn new(spec: &CachedSpec) -> Self {
        let profile = Profile::builtin("msr2008").expect("it comes with flashsim");
        let mut profile = profile.with_blocks(128);
        (profile.geometry.channels, profile.geometry.planes) = (2, 1);
        let ssd = |seed| Ssd::new(&profile, Precondition::Filled, seed).expect("a drive");
        let ssds = (0..u64::from(spec.members)).map(ssd).collect();
        let cached = Cached::new(spec, ssds, 8).expect("an array");
        let mut array = Self { cached, now: Instant::ORIGIN, told: Told::default() };
        array.cached.begin(array.now, &mut array.told);
        array
    }

    fn submit(&mut self, tag: u16, kind: Kind, lba: u64, blocks: u32) {
        self.cached.submit(self.now, Request { tag, kind, lba, blocks }, &mut self.told);
    }

    fn ended(&mut self) -> Vec<u16> {
        self.told.ended.drain(..).map(|end| end.tag).collect()
    }

    fn step(&mut self) -> bool {
        let Some(next) = self.cached.next() else { return false };
        self.now = next;
        self.cached.poll(next, &mut self.told);
        true
    }

    /// Everything ends.
    #[track_caller]
    fn request(&mut self, kind: Kind, lba: u64, blocks: u32) {
        self.submit(0, kind, lba, blocks);
        while self.step() {}
        assert_eq!(self.ended(), [0]);
    }

    /// Blocks that the SSDs have read and written.
    fn pages(&self) -> (Vec<u64>, Vec<u64>) {
        self.cached.ssds().map(|ssd| (ssd.stats().pages_read, ssd.stats().pages_written)).unzip()
    }

    fn written(&self) -> u64 {
        self.pages().1.iter().sum()
    }
}

use CachePolicy::{None as Nothing, Siw, Wow};
use CachedLevel::{Raid0, Raid5};

#[test]
fn without_a_cache_a_small_write_reads_and_writes_data_and_parity() {
    let mut array = Array::new(&spec(Raid5, Nothing, 0));
    array.request(Kind::Write, 0, 1);
    assert_eq!(array.pages(), (vec![1, 0, 0, 1], vec![1, 0, 0, 1]));
    array.request(Kind::Write, 0, 12);
    assert_eq!(array.pages().0, [1, 0, 0, 1], "a whole stripe needs no read");
    assert!(array.cached.destaged().is_none());
}

#[test]
fn parity_is_written_of_the_rows_that_are_written_alone() {
    for policy in [Nothing, Siw] {
        let mut array = Array::new(&spec(Raid5, policy, 16));
        // The last block of one strip, the first of the next.
        array.request(Kind::Write, 3, 2);
        assert_eq!(array.pages().0.iter().sum::<u64>(), 4, "{policy:?}");
        let cached = array.cached.destaged().map_or(4, |_| 0);
        assert_eq!(array.written(), cached, "{policy:?}");
    }
}

#[test]
fn a_cached_write_ends_at_once_and_is_read_from_the_cache() {
    for policy in [Wow, Siw] {
        let mut array = Array::new(&spec(Raid0, policy, 64));
        array.submit(0, Kind::Write, 0, 4);
        array.submit(1, Kind::Read, 0, 4);
        assert_eq!(array.ended(), [0, 1], "{policy:?}");
        assert_eq!(array.pages(), (vec![0; 4], vec![0; 4]), "{policy:?}");
        array.submit(0, Kind::Write, 2, 4);
        assert_eq!(array.ended(), [0], "{policy:?}");
        let destaged = array.cached.destaged().expect("it has a cache");
        assert_eq!((destaged.written, destaged.write_hits), (8, 2), "{policy:?}");
        assert_eq!((destaged.read, destaged.read_hits), (4, 4), "{policy:?}");
        array.request(Kind::Read, 6, 4);
        assert_eq!(array.pages().0.iter().sum::<u64>(), 4, "{policy:?}: what is not cached");
    }
}

#[test]
fn above_the_threshold_wow_destages_stripes_by_address_but_for_those_that_were_hit() {
    // Above 19.2 blocks.
    let mut array = Array::new(&spec(Raid0, Wow, 32));
    for stripe in [3, 1, 2, 0] {
        array.submit(0, Kind::Write, stripe * 16, 4);
    }
    array.submit(0, Kind::Write, 0, 1);
    array.submit(0, Kind::Write, 4 * 16, 4);
    assert_eq!(array.ended().len(), 6);
    while array.step() {}
    let destaged = array.cached.destaged().expect("it has a cache");
    assert_eq!((destaged.groups, destaged.blocks, destaged.full), (1, 4, 0));
    let read = array.pages().0;
    array.request(Kind::Read, 16, 4);
    assert_ne!(array.pages().0, read, "stripe 1 is on the SSDs: the hand has passed 0");
    let read = array.pages().0;
    array.request(Kind::Read, 0, 4);
    assert_eq!(array.pages().0, read);
}

#[test]
fn wow_has_no_more_groups_in_flight_than_it_may() {
    for groups in [1, 4] {
        let mut array = Array::new(&CachedSpec { groups, ..spec(Raid0, Wow, 32) });
        for stripe in 0..8 {
            array.submit(stripe as u16, Kind::Write, stripe * 16, 4);
        }
        assert_eq!(array.cached.destaged().expect("a cache").groups, u64::from(groups));
    }
}

#[test]
fn wow_makes_parity_when_it_destages_reading_what_is_less() {
    let mut array = Array::new(&spec(Raid5, Wow, 16));
    // Two of three data strips of a stripe; then room is wanted.
    array.submit(0, Kind::Write, 0, 8);
    array.submit(1, Kind::Write, 12, 8);
    while array.step() {}
    assert_eq!(array.ended(), [0, 1]);
    assert_eq!(array.pages().0.iter().sum::<u64>(), 4, "the third strip");
    assert_eq!(array.written(), 8 + 4);
}

#[test]
fn siw_caches_parity_and_reads_for_it_before_a_write_ends() {
    let mut array = Array::new(&spec(Raid5, Siw, 64));
    array.submit(0, Kind::Write, 0, 1);
    assert!(array.ended().is_empty(), "old data and parity have to be read");
    while array.step() {}
    assert_eq!((array.ended(), array.written()), (vec![0], 0));
    let read = array.pages().0;
    array.submit(0, Kind::Write, 0, 1);
    assert_eq!((array.ended(), array.pages().0), (vec![0], read), "both are cached");
    let mut array = Array::new(&CachedSpec { parity_is_known: true, ..spec(Raid5, Siw, 64) });
    array.submit(0, Kind::Write, 0, 1);
    assert_eq!(array.ended(), [0]);
}

#[test]
fn siw_begins_on_all_ssds_together_with_a_strip_of_each() {
    let mut array = Array::new(&spec(Raid0, Siw, 64));
    // Strips of different stripes: 10 blocks on each SSD are above the threshold of 9.6.
    for (ssd, stripes) in [(0, [0, 1, 2]), (1, [1, 2, 3]), (2, [2, 3, 4]), (3, [3, 4, 5])] {
        for (number, stripe) in stripes.into_iter().enumerate() {
            let blocks = if number == 2 { 2 } else { 4 };
            array.submit(0, Kind::Write, stripe * 16 + ssd * 4, blocks);
        }
    }
    let destaged = array.cached.destaged().expect("it has a cache");
    assert_eq!(destaged.groups, 1, "the first SSD above it begins, the only one with much");
    while array.step() {}
    assert_eq!(array.ended().len(), 12);
    let destaged = array.cached.destaged().expect("it has a cache");
    assert!(destaged.groups >= 4 && destaged.full == destaged.groups, "{destaged:?}");
}

#[test]
fn a_write_that_finds_no_room_waits_for_it() {
    let mut array = Array::new(&spec(Raid0, Wow, 16));
    array.submit(0, Kind::Write, 0, 16);
    array.submit(1, Kind::Write, 32, 4);
    assert_eq!(array.ended(), [0]);
    assert_eq!(array.cached.destaged().expect("a cache").waited, 1);
    while array.step() {}
    assert_eq!((array.ended(), array.written()), (vec![1], 16));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_request_ends_and_the_cache_never_holds_more_than_it_may(
        level in prop_oneof![Just(Raid0), Just(Raid5)],
        policy in prop_oneof![Just(Nothing), Just(Wow), Just(Siw)],
        (blocks, groups, wait) in (16u64..200, 1u32..5, 0u64..20),
        parity_is_known: bool,
        requests in prop::collection::vec((any::<bool>(), 0u64..200, 1u32..40, 0u32..6), 1..80),
    ) {
        let wait = lab::units::Span(std::time::Duration::from_millis(wait));
        let spec = CachedSpec { groups, wait, parity_is_known, ..spec(level, policy, blocks) };
        let mut array = Array::new(&spec);
        let (mut free, mut written) = ((0..8u16).collect::<Vec<_>>(), 0);
        for (reads, lba, blocks, steps) in requests {
            if let Some(tag) = free.pop() {
                let kind = if reads { Kind::Read } else { Kind::Write };
                written += if reads { 0 } else { u64::from(blocks) };
                array.submit(tag, kind, lba, blocks);
            }
            for _ in 0..steps {
                array.step();
            }
            free.extend(array.ended());
        }
        while array.step() {}
        free.extend(array.ended());
        free.sort_unstable();
        prop_assert_eq!(free, (0..8).collect::<Vec<_>>());
        if let Some(destaged) = array.cached.destaged() {
            prop_assert_eq!(destaged.written, written);
            let left = written.saturating_sub(destaged.write_hits + destaged.blocks);
            prop_assert!(left <= blocks, "{destaged:?}");
            prop_assert!(policy == Siw || destaged.blocks + destaged.write_hits <= written);
        }
    }
}

#[test]
fn an_experiment_measures_one() {
    let cached = "[cached]\nlevel = 'raid5'\nmembers = 5\npolicy = 'wow'\nsize = '1M'\n";
    let figures = figures(&[cached, SSD, &closed(4, 0.5), "[run]\nrequests = 3000\n"]);
    let cache = figures.cache.expect("it has a cache");
    assert!(cache.group_blocks >= 1.0 && cache.waited > 0.0, "{cache:?}");
    assert_eq!(figures.drives.len(), 5);
}

#[test]
fn the_impossible_is_refused() {
    let tables = |cached: &str, words: &[&str]| {
        let cached = format!("[cached]\n{cached}\n");
        refused(&[&cached, SSD, &closed(1, 0.5), "[run]\nrequests = 10\n"], words);
    };
    let raid5 = "level = 'raid5'\npolicy = 'wow'\nmembers = 4";
    tables("level = 'raid5'\npolicy = 'wow'\nmembers = 2", &["cached.members is 2", "from 3"]);
    tables("level = 'raid0'\npolicy = 'wow'\nmembers = 0", &["cached.members is 0", "from 1"]);
    tables("level = 'raid0'\npolicy = 'lru'\nmembers = 2", &["lru", "siw"]);
    tables(&format!("{raid5}\ngroups = 0"), &["cached.groups is 0"]);
    tables(&format!("{raid5}\nchunk = 0"), &["cached.chunk is 0B"]);
    tables(&format!("{raid5}\nchunk = '6K'"), &["cached.chunk is 6KiB"]);
    tables(&format!("{raid5}\nsize = '255K'"), &["cached.size is 255KiB", "at least 256KiB"]);
    tables(&format!("{raid5}\nlow = 0.9\nhigh = 0.6"), &["0.9 and 0.6"]);
    tables(&format!("{raid5}\nlow = nan"), &["cached.low"]);
    tables(&format!("{raid5}\n[log]\nlayout = 'log-raid5'"), &["a table [log], too"]);
}
