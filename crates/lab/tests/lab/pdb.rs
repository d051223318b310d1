//! Arrays of the paper on popular data backup.

use det::Instant;
use flashsim::{Precondition, Profile, Ssd};
use lab::system::{Copies, Parity, Pdb, PdbError, PdbSpec, Request, System, Told};
use lab::units::Bytes;
use lab::workload::Kind;
use proptest::prelude::*;

use crate::world::{SSD, closed, figures, refused};

/// Four data SSDs and their parity, of pages of 2 KB: two for each of users' blocks.
fn spec(layout: Parity) -> PdbSpec {
    let text = match layout {
        Parity::Raid4 => "layout = 'raid4'\ndata = 4",
        Parity::Raid5 => "layout = 'raid5'\ndata = 4",
        Parity::SpdRaid4 => "layout = 'spd-raid4'\ndata = 4",
    };
    toml::from_str(text).expect("a description")
}

struct Array {
    pdb: Pdb,
    now: Instant,
    told: Told,
}

impl Array {
    fn new(spec: &PdbSpec) -> Self {
        let profile = Profile::builtin("ssdsim-pdb").expect("it comes with flashsim");
        let small = profile.with_blocks(BLOCKS);
        let split = Pdb::parity_blocks(spec, BLOCKS).expect("it can be split");
        let ssds = (0..spec.members() + usize::from(spec.fails)).map(|place| {
            let is_parity = (4..spec.members()).contains(&place);
            let profile = if is_parity { small.clone().with_blocks(split) } else { small.clone() };
            Ssd::new(&profile, Precondition::Filled, place as u64).expect("a drive")
        });
        let pdb = Pdb::new(spec, ssds.collect(), 8).expect("an array");
        let mut array = Self { pdb, now: Instant::ORIGIN, told: Told::default() };
        if !spec.fails {
            array.begin();
        }
        array
    }

    fn begin(&mut self) {
        self.pdb.begin(self.now, &mut self.told);
    }

    fn submit(&mut self, tag: u16, kind: Kind, lba: u64, blocks: u32) {
        self.pdb.submit(self.now, Request { tag, kind, lba, blocks }, &mut self.told);
    }

    /// Everything ends; returns the tags of requests that have.
    fn settle(&mut self) -> Vec<u16> {
        while let Some(next) = self.pdb.next() {
            self.now = next;
            self.pdb.poll(next, &mut self.told);
        }
        self.told.ended.drain(..).map(|end| end.tag).collect()
    }

    #[track_caller]
    fn request(&mut self, kind: Kind, lba: u64, blocks: u32) {
        self.submit(0, kind, lba, blocks);
        assert_eq!(self.settle(), [0]);
    }

    fn pages(&self) -> (Vec<u64>, Vec<u64>) {
        self.pdb.ssds().map(|ssd| (ssd.stats().pages_read, ssd.stats().pages_written)).unzip()
    }
}

/// Blocks of each plane.
const BLOCKS: u32 = 64;

/// With a zone of a quarter of a MiB: two regions.
fn copying(copies: Copies) -> PdbSpec {
    PdbSpec { zone: Bytes(256 << 10), copies, ..spec(Parity::Raid4) }
}

#[test]
fn a_small_write_reads_and_writes_data_and_parity() {
    let mut array = Array::new(&spec(Parity::Raid4));
    array.request(Kind::Write, 0, 1);
    assert_eq!(array.pages(), (vec![1, 1, 0, 0, 1], vec![1, 1, 0, 0, 1]));
}

#[test]
fn a_full_stripe_is_written_without_a_read_its_parity_on_the_ssds_in_turn() {
    let mut array = Array::new(&spec(Parity::SpdRaid4));
    array.request(Kind::Write, 0, 6);
    assert_eq!(array.pages(), (vec![0; 6], vec![3, 3, 3, 3, 2, 1]));
}

#[test]
fn what_is_read_of_a_popular_region_is_copied_to_the_neighbour_once_and_written_to_both() {
    let mut array = Array::new(&copying(Copies::Read));
    array.request(Kind::Read, 0, 1);
    assert_eq!(array.pages().1, [0; 5], "it is not popular yet");
    array.request(Kind::Read, 0, 1);
    array.request(Kind::Read, 0, 1);
    assert_eq!(array.pages(), (vec![3, 3, 0, 0, 0], vec![0, 1, 1, 0, 0]));
    assert_eq!(array.pdb.steered().copied_blocks, 2);
    array.request(Kind::Write, 0, 1);
    assert_eq!(array.pages().1, [1, 3, 2, 0, 1]);
    array.request(Kind::Write, 2, 1);
    assert_eq!(array.pages().1, [2, 4, 2, 0, 2], "these pages have no copy");
}

#[test]
fn a_region_is_copied_whole_when_it_becomes_popular() {
    let mut array = Array::new(&copying(Copies::Region));
    (0..4).for_each(|_| array.request(Kind::Read, 0, 1));
    assert_eq!(array.pages(), (vec![4 + 64, 4 + 64, 0, 0, 0], vec![0, 64, 64, 0, 0]));
}

/// One whose first SSD fails when the measurement begins.
fn failing(layout: Parity) -> PdbSpec {
    PdbSpec { fails: true, goes_on: true, ..spec(layout) }
}

#[test]
fn each_lost_page_is_read_from_its_stripe_once_and_written_once() {
    for layout in [Parity::Raid4, Parity::Raid5, Parity::SpdRaid4] {
        for (failed, unit, in_flight) in
            [(0, None, 1), (3, Some(Bytes(16 << 10)), 4), (4, None, 16)]
        {
            let spec = PdbSpec { failed, unit, in_flight, ..failing(layout) };
            let what = format!("{layout:?}, {failed} fails");
            let mut array = Array::new(&spec);
            array.begin();
            array.settle();
            let (read, written) = array.pages();
            let stripes = array.pdb.blocks() * 2 / 4;
            let is_split = layout == Parity::SpdRaid4 && failed == 4;
            let lost = if is_split { stripes / 2 } else { stripes };
            let replacement = spec.members();
            assert_eq!(written.iter().sum::<u64>(), lost, "{what}");
            assert_eq!(written[replacement], lost, "{what}");
            assert_eq!(read.iter().sum::<u64>(), lost * 4, "{what}");
            assert_eq!(read[usize::from(failed)], 0, "{what}: it is gone");
            let rebuilt = array.pdb.rebuilt();
            assert!(rebuilt.took.is_some() && !rebuilt.is_end, "{what}");
        }
    }
}

#[test]
fn a_lost_page_that_is_read_is_written_home_only_if_that_is_wanted() {
    for write_back in [false, true] {
        let mut array = Array::new(&PdbSpec { write_back, ..failing(Parity::Raid4) });
        let stripes = array.pdb.blocks() * 2 / 4;
        array.begin();
        // The last stripe, which is rebuilt in order at the very end.
        let last = array.pdb.blocks() - 2;
        array.submit(0, Kind::Read, last, 1);
        assert_eq!(array.settle(), [0]);
        let read: u64 = array.pages().0.iter().sum();
        let twice = if write_back { 0 } else { 4 };
        assert_eq!(read, stripes * 4 + twice + 1, "its neighbour is read as it is");
        assert_eq!(array.pages().1.iter().sum::<u64>(), stripes);
    }
}

#[test]
fn copies_serve_reads_and_the_rebuild() {
    let spec = PdbSpec { fails: true, goes_on: true, ..copying(Copies::Read) };
    let mut array = Array::new(&spec);
    array.request(Kind::Read, 0, 1);
    array.request(Kind::Read, 0, 1);
    let stripes = array.pdb.blocks() * 2 / 4;
    array.begin();
    array.settle();
    assert_eq!(array.pages().0.iter().sum::<u64>(), (stripes - 1) * 4 + 1);
    assert_eq!(array.pdb.steered().copy_reads, 0, "no user has read it");
}

#[test]
fn a_neighbour_that_fails_takes_its_copies_along() {
    let spec = PdbSpec { fails: true, goes_on: true, failed: 1, ..copying(Copies::Read) };
    let mut array = Array::new(&spec);
    array.request(Kind::Read, 0, 1);
    array.request(Kind::Read, 0, 1);
    array.begin();
    array.settle();
    let written = array.pages().1;
    array.request(Kind::Write, 0, 1);
    let now = array.pages().1;
    let more: Vec<u64> = now.iter().zip(&written).map(|(now, before)| now - before).collect();
    // The second page is on the replacement. Its copy is on the third SSD.
    assert_eq!(more, [1, 0, 1, 0, 1, 1]);
}

#[test]
fn popular_regions_come_first() {
    let spec = PdbSpec { popular_first: true, ..failing(Parity::Raid4) };
    let mut array = Array::new(&spec);
    let last = array.pdb.blocks() - 2;
    (0..2).for_each(|_| array.request(Kind::Read, last, 1));
    array.begin();
    // Soon after the failure the last pages are there: a read of them meets the replacement.
    for _ in 0..200 {
        array.now = array.pdb.next().expect("it is being rebuilt");
        array.pdb.poll(array.now, &mut array.told);
    }
    let replaced = |array: &Array| array.pages().0[5];
    assert_eq!(replaced(&array), 0);
    array.submit(0, Kind::Read, last, 1);
    array.settle();
    assert_eq!(replaced(&array), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_request_ends_and_so_does_the_rebuild(
        layout in prop_oneof![Just(Parity::Raid4), Just(Parity::Raid5), Just(Parity::SpdRaid4)],
        failed in 0u8..5,
        (unit, in_flight) in (1u64..5, 1u32..20),
        (write_back, popular_first, zone, whole) in any::<(bool, bool, bool, bool)>(),
        chunk in 1u64..4,
        requests in proptest::collection::vec((any::<bool>(), 0u64..1000, 1u32..20, 0u32..8), 1..60),
    ) {
        let kib = |blocks: u64| Bytes(blocks << 12);
        let zone = if zone && layout != Parity::Raid5 { 256 << 10 } else { 0 };
        let spec = PdbSpec {
            failed, in_flight, write_back, popular_first,
            unit: Some(kib(unit)), chunk: Some(kib(chunk)), zone: Bytes(zone), threshold: 1,
            copies: if whole { Copies::Region } else { Copies::Read },
            ..failing(layout)
        };
        let mut array = Array::new(&spec);
        let (begins, mut free) = (requests.len() / 2, (0..8u16).collect::<Vec<_>>());
        for (number, (reads, lba, blocks, steps)) in requests.into_iter().enumerate() {
            if number == begins {
                array.begin();
            }
            let lba = lba % (array.pdb.blocks() - 20);
            if let Some(tag) = free.pop() {
                array.submit(tag, if reads { Kind::Read } else { Kind::Write }, lba, blocks);
            }
            for _ in 0..steps {
                if let Some(next) = array.pdb.next() {
                    array.now = next;
                    array.pdb.poll(next, &mut array.told);
                }
            }
            free.extend(array.told.ended.drain(..).map(|end| end.tag));
        }
        free.extend(array.settle());
        free.sort_unstable();
        prop_assert_eq!(free, (0..8).collect::<Vec<_>>());
        prop_assert!(array.pdb.rebuilt().took.is_some());
    }
}

#[test]
fn an_experiment_measures_one() {
    let pdb = "[pdb]\nlayout = 'spd-raid4'\ndata = 3\nfails = true\nin_flight = 16\n";
    let run = "[run]\nrequests = 100000\n";
    let ssd = "[ssd]\nprofile = 'ssdsim-pdb'\nblocks = 64\nuse = 'filled'\n";
    let figures = figures(&[pdb, ssd, &closed(2, 0.9), run]);
    assert!(figures.rebuild_seconds.is_some_and(|seconds| seconds > 0.0));
    assert!(figures.requests < 100_000, "it ends with the rebuild");
    assert_eq!(figures.drives.len(), 6);
}

#[test]
fn the_impossible_is_refused() {
    let tables = |pdb: &str, words: &[&str]| {
        let pdb = format!("[pdb]\n{pdb}\n");
        refused(&[&pdb, SSD, &closed(1, 0.5), "[run]\nrequests = 10\n"], words);
    };
    tables("layout = 'raid4'\ndata = 1", &["pdb.data is 1", "from 2 to 32"]);
    tables("layout = 'raid4'\ndata = 4\nfailed = 5", &["pdb.failed is 5", "from 0 to 4"]);
    tables("layout = 'raid4'\ndata = 4\nin_flight = 0", &["pdb.in_flight is 0"]);
    tables("layout = 'raid4'\ndata = 4\nchunk = 0", &["pdb.chunk is 0B", "multiple of 4KiB"]);
    tables("layout = 'raid4'\ndata = 4\nunit = '6K'", &["pdb.unit is 6KiB", "multiple of 4KiB"]);
    tables("layout = 'raid4'\ndata = 4\nregion = '2M'", &["pdb.region is 2MiB", "to 1MiB"]);
    tables("layout = 'raid5'\ndata = 4\nzone = '1M'", &["pdb.zone", "SSDs of data alone"]);
    tables("layout = 'spd-raid4'\ndata = 4", &["pdb", "gc.background.start"]);
    tables("layout = 'spd-raid4'\ndata = 4\nparity = 3", &["ssd.blocks is 64", "multiple"]);
    tables(
        "layout = 'raid4'\ndata = 4\n[array]\nlevel = 'raid5'\nmembers = 3",
        &["an [array], too"],
    );
}

#[test]
fn a_zone_that_leaves_no_room_is_refused() {
    let profile = Profile::builtin("ssdsim-pdb").expect("it comes with flashsim").with_blocks(64);
    let ssds =
        || (0..5).map(|seed| Ssd::new(&profile, Precondition::Fresh, seed).expect("a drive"));
    for zone in [Bytes(1 << 40), Bytes(192 << 10)] {
        let spec = PdbSpec { zone, ..spec(Parity::Raid4) };
        assert!(matches!(Pdb::new(&spec, ssds().collect(), 1), Err(PdbError::Zone { .. })));
    }
}
