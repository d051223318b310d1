//! The stripe journal: the content of a ring, and which of it is replayed.

use std::collections::BTreeMap;

use proptest::prelude::*;
use raidcore::geometry::{Level, Role};
use raidcore::meta::{
    ArrayId, AssembleError, Consistency, Entries, Features, JournalEntry, JournalHeader,
    JournalRun, Log, Replay, ReplayRun, SlotState, Warning, checksum, encode_journal_header,
    scan_journal,
};
use raidcore::units::{BLOCK_BYTES, MemberId, Pba, Set, Stripe};

use crate::world::{ARRAY, DEGRADED, EPOCH, Entry, FORCE, STRICT, World, device, flip, record};

/// RAID6 of four, stopped uncleanly.
fn unclean() -> World {
    let mut world = World::new(Level::Raid6, 4, Consistency::Journal);
    world.record.clean = false;
    world.store_records();
    world
}

const HOLDERS: Set<MemberId> = Set::from_bits(0b1100);

fn scan(ring: &[u8], array: ArrayId, epoch: u64, member: MemberId) -> Vec<JournalEntry> {
    scan_journal(Log::Journal, (ring.len() / BLOCK_BYTES) as u64, ring, array, epoch, member)
}

fn carried_out(world: &World) -> Vec<u64> {
    let array = world.assemble(STRICT).expect("it is whole");
    array.replay.iter().map(|replay| replay.entry).collect()
}

/// All of an entry's runs.
fn whole(runs: &[JournalRun]) -> Vec<ReplayRun> {
    let mut next = 0;
    let run = |&to: &JournalRun| {
        next += to.blocks;
        ReplayRun { to, from: next - to.blocks }
    };
    runs.iter().map(run).collect()
}

fn numbers(ring: &[u8]) -> Vec<u64> {
    let entries = scan(ring, ARRAY, EPOCH, MemberId(2));
    entries.iter().map(|entry| entry.header.entry).collect()
}

#[test]
fn small_writes_have_entries_by_the_array_s_record() {
    for (level, members, consistency, entries, blocks) in [
        (Level::Raid5, 4, Consistency::Journal, Entries::Partial, 2),
        (Level::Raid4, 3, Consistency::Journal, Entries::Partial, 2),
        (Level::Raid6, 4, Consistency::Journal, Entries::Partial, 3),
        (Level::Raid5, 32, Consistency::Journal, Entries::Whole, 3),
        (Level::Raid6, 32, Consistency::Journal, Entries::Whole, 4),
        (Level::Raid5, 4, Consistency::Bitmap, Entries::None, 0),
        (Level::Raid6, 4, Consistency::Resync, Entries::None, 0),
        (Level::Raid1, 2, Consistency::Bitmap, Entries::None, 0),
    ] {
        let mut record = record(level, members, consistency);
        record.features.incompatible |= Features::PARTIAL_ENTRIES;
        assert_eq!(Entries::of(&record), entries, "{level:?}, {members}, {consistency:?}");
        assert_eq!(Entries::of_new(consistency, &record.geometry), entries);
        assert_eq!(entries.small_blocks(&record.geometry), blocks, "{level:?}, {members}");
        // An older array has no partial ones.
        record.features.incompatible &= !Features::PARTIAL_ENTRIES;
        let of_older = if entries == Entries::Partial { Entries::Whole } else { entries };
        assert_eq!(Entries::of(&record), of_older);
    }
}

proptest! {
    #[test]
    fn every_entry_comes_back(
        numbers in (any::<u64>(), 0u64..=1 << 62, any::<u64>(), any::<u64>()),
        member in 0u8..32,
        at in 0usize..4,
        runs in prop::collection::vec((0u8..32, 0u32..256, 1u32..12), 0..40),
    ) {
        let (epoch, entry, stripe, holders) = numbers;
        let run = |&(member, row, blocks)| JournalRun { member: MemberId(member), row, blocks };
        let runs: Vec<_> = runs.iter().map(run).collect();
        let header = JournalHeader {
            log: Log::Journal,
            open: 0,
            array: ARRAY,
            epoch,
            entry,
            tail: entry / 2,
            member: MemberId(member),
            at: at as u64,
            holders: Set::from_bits(holders),
            stripe: Stripe(stripe),
        };
        let payload: Vec<u8> = (0..runs.iter().map(|r| r.blocks).sum::<u32>())
            .flat_map(|block| [block as u8; BLOCK_BYTES])
            .collect();
        let crcs: Vec<u32> = payload.chunks_exact(BLOCK_BYTES).map(checksum).collect();
        let blocks = raidcore::meta::journal_header_blocks(crcs.len() as u32, runs.len() as u32);
        let mut ring = vec![0; (at + blocks as usize) * BLOCK_BYTES];
        let into = &mut ring[at * BLOCK_BYTES..];
        encode_journal_header(&header, runs.iter().copied(), crcs.iter().copied(), into);
        ring.extend(&payload);
        let found = scan(&ring, ARRAY, epoch, MemberId(member));
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(found[0].header, header);
        prop_assert_eq!(&found[0].runs, &runs);
        prop_assert_eq!(&found[0].crcs, &crcs);
        ring.truncate(ring.len() - 1);
        prop_assert!(scan(&ring, ARRAY, epoch, MemberId(member)).is_empty());
    }

    /// Entries of many sizes fill a ring several times, the last one torn: exactly those are found
    /// of which nothing was overwritten.
    #[test]
    fn a_ring_holds_what_was_not_overwritten(
        sizes in prop::collection::vec(1u32..9, 1..200),
        written in 0usize..10,
        len in 12usize..60,
    ) {
        let mut ring = vec![0; len * BLOCK_BYTES];
        let mut intact: BTreeMap<u64, std::ops::Range<usize>> = BTreeMap::new();
        let mut head = 0;
        for (index, &blocks) in sizes.iter().enumerate() {
            let entry = Entry {
                runs: vec![(0, 0, blocks)],
                fill: index as u8 + 1,
                ..Entry::new(index as u64 + 1, HOLDERS)
            };
            let size = 1 + blocks as usize;
            if head + size > len {
                head = 0;
            }
            let bytes = entry.encode(2, head as u64);
            let last = index + 1 == sizes.len();
            let whole = !last || written >= size;
            let end = head + if whole { size } else { written };
            let bytes = &bytes[..(end - head) * BLOCK_BYTES];
            ring[head * BLOCK_BYTES..end * BLOCK_BYTES].copy_from_slice(bytes);
            intact.retain(|_, place| place.end <= head || end <= place.start);
            if whole {
                intact.insert(entry.entry, head..end);
            }
            head = end;
        }
        prop_assert_eq!(numbers(&ring), intact.into_keys().collect::<Vec<_>>());
    }

    #[test]
    fn noise_holds_nothing(mut ring in prop::collection::vec(any::<u8>(), 0..5 * BLOCK_BYTES)) {
        prop_assert!(numbers(&ring).is_empty());
        if ring.len() >= BLOCK_BYTES {
            ring[..8].copy_from_slice(b"EKjnl\r\n\x1a");
            prop_assert!(numbers(&ring).is_empty());
        }
    }
}

#[test]
fn every_bit_flip_voids_the_entry() {
    let mut ring = Entry::new(9, HOLDERS).encode(2, 0);
    assert_eq!(numbers(&ring), [9]);
    let header = BLOCK_BYTES * 8;
    for bit in (0..header).chain((header..ring.len() * 8).step_by(61)) {
        flip(&mut ring, bit);
        assert!(numbers(&ring).is_empty(), "bit {bit}");
        flip(&mut ring, bit);
    }
}

#[test]
fn an_entry_counts_only_where_and_when_it_was_written() {
    let mut ring = Entry::new(9, HOLDERS).encode(2, 0);
    let found =
        |ring: &[u8], array, epoch, member| scan(ring, array, epoch, MemberId(member)).len();
    assert_eq!(found(&ring, ARRAY, EPOCH, 2), 1);
    assert_eq!(found(&ring, ArrayId([1; 16]), EPOCH, 2), 0);
    assert_eq!(found(&ring, ARRAY, EPOCH + 1, 2), 0);
    assert_eq!(found(&ring, ARRAY, EPOCH, 3), 0);
    ring.splice(..0, [0; BLOCK_BYTES]);
    assert_eq!(found(&ring, ARRAY, EPOCH, 2), 0);
}

/// Payload may equal an entry, to the last bit, even for the place where it lands.
#[test]
fn payload_does_not_pass_for_an_entry() {
    let payload = Entry::new(66, HOLDERS).encode(2, 1);
    let blocks = (payload.len() / BLOCK_BYTES) as u32;
    let run = JournalRun { member: MemberId(0), row: 0, blocks };
    let header = JournalHeader {
        log: Log::Journal,
        open: 0,
        array: ARRAY,
        epoch: EPOCH,
        entry: 5,
        tail: 5,
        member: MemberId(2),
        at: 0,
        holders: HOLDERS,
        stripe: Stripe(1),
    };
    let mut ring = vec![0; BLOCK_BYTES];
    let crcs = payload.chunks_exact(BLOCK_BYTES).map(checksum);
    encode_journal_header(&header, [run].into_iter(), crcs, &mut ring);
    ring.extend(payload);
    assert_eq!(numbers(&ring), [5]);
}

#[test]
fn an_entry_is_carried_out_as_it_was_written() {
    let mut world = unclean();
    let entry = Entry::new(8, HOLDERS);
    world.store_entry(2, 30, &entry);
    world.store_entry(3, 11, &entry);
    let array = world.assemble(STRICT).expect("it is whole");
    let payload = |at| Pba(world.record.areas.journal().0.0 + at + 1);
    let copies = vec![(MemberId(2), payload(30)), (MemberId(3), payload(11))];
    let expected = Replay {
        entry: 8,
        stripe: Stripe(entry.stripe),
        copies,
        runs: whole(&entry.runs()),
        left_out: None,
    };
    assert_eq!((array.replay, array.next_entry), (vec![expected], 9));
}

#[test]
fn entries_are_carried_out_in_order() {
    let mut world = unclean();
    let (mut second, mut third) = (0, 0);
    for number in [3, 7, 4, 6] {
        second = world.store_entry(2, second, &Entry::new(number, Set::one(MemberId(2))));
    }
    for number in [8, 5] {
        third = world.store_entry(3, third, &Entry::new(number, Set::one(MemberId(3))));
    }
    assert_eq!(carried_out(&world), [3, 4, 5, 6, 7, 8]);
}

#[test]
fn of_each_block_only_the_latest_is_written() {
    let mut world = unclean();
    let run = |member, row, blocks, from| ReplayRun {
        to: JournalRun { member: MemberId(member), row, blocks },
        from,
    };
    let entry =
        |number, runs| Entry { stripe: 3, runs, ..Entry::new(number, Set::one(MemberId(2))) };
    let at = world.store_entry(2, 0, &entry(5, vec![(0, 0, 4), (2, 0, 4)]));
    let at = world.store_entry(2, at, &entry(6, vec![(0, 1, 2), (1, 1, 1), (2, 1, 2)]));
    world.store_entry(2, at, &entry(7, vec![(1, 1, 1), (2, 1, 1)]));
    let array = world.assemble(STRICT).expect("it is whole");
    let runs: Vec<_> = array.replay.into_iter().map(|replay| (replay.entry, replay.runs)).collect();
    let first = vec![run(0, 0, 1, 0), run(0, 3, 1, 3), run(2, 0, 1, 4), run(2, 3, 1, 7)];
    let second = vec![run(0, 1, 2, 0), run(2, 2, 1, 4)];
    let third = vec![run(1, 1, 1, 0), run(2, 1, 1, 1)];
    assert_eq!(runs, [(5, first), (6, second), (7, third)]);
}

/// Of stripe 3 of the RAID6, the member with the first data chunk, and those with parity.
fn members_of(world: &World) -> (u8, [u8; 2]) {
    let geometry = world.record.geometry;
    let member = |role| geometry.member(Stripe(3), role).0;
    let [p, q] = [geometry.p(), geometry.q()].map(|role| member(role.expect("it is RAID6")));
    (member(Role(0)), [p, q])
}

#[test]
fn a_partial_entry_keeps_older_versions_of_what_it_leaves_out_from_coming_back() {
    let mut world = unclean();
    let (data, [p, q]) = members_of(&world);
    let holders = [p, q].into_iter().map(MemberId).collect();
    let entry =
        |number, runs, left_out| Entry { stripe: 3, runs, left_out, ..Entry::new(number, holders) };
    let older = entry(5, vec![(data, 0, 3), (p, 0, 3), (q, 0, 3)], None);
    let partial = entry(6, vec![(p, 1, 1), (q, 1, 1)], Some(data));
    for member in [p, q] {
        let at = world.store_entry(member.into(), 0, &older);
        world.store_entry(member.into(), at, &partial);
    }
    let array = world.assemble(STRICT).expect("it is whole");
    let of_data = |replay: &Replay| -> Vec<u32> {
        let runs = replay.runs.iter().filter(|run| run.to.member.0 == data);
        runs.flat_map(|run| run.to.row..run.to.row + run.to.blocks).collect()
    };
    let [older, partial] = &array.replay[..] else { panic!("two are carried out") };
    assert_eq!((of_data(older), older.left_out), (vec![0, 2], None));
    assert_eq!((of_data(partial), partial.left_out), (vec![], Some(MemberId(data))));
}

#[test]
fn a_partial_entry_leaves_out_data_and_holds_parity() {
    let world = unclean();
    let (data, [p, q]) = members_of(&world);
    let beyond = world.record.geometry.members() as u8;
    let runs = |members: &[u8]| members.iter().map(|&member| (member, 1, 1)).collect();
    for (held, left_out, is_possible) in [
        (vec![p, q], data, true),
        (vec![p], data, true),
        (vec![p, data], data, false),
        (vec![q], p, false),
        (vec![p, q], beyond, false),
        (vec![p, q], u8::MAX, false),
    ] {
        let mut world = unclean();
        let holders = Set::one(MemberId(p));
        let entry = Entry {
            stripe: 3,
            runs: runs(&held),
            left_out: Some(left_out),
            ..Entry::new(6, holders)
        };
        world.store_entry(p.into(), 0, &entry);
        let array = world.assemble(STRICT).expect("it is whole");
        let refused = Warning::JournalEntryInvalid { entry: 6 };
        assert_eq!(array.replay.len() == 1, is_possible, "{held:?} without {left_out}");
        assert_eq!(array.warnings.contains(&refused), !is_possible);
    }
}

/// Each subset of two holders that have the entry; the others never got it.
#[test]
fn all_holders_that_are_there_have_to_have_an_entry() {
    for having in [0b0100, 0b1000, 0b1100].map(Set::<MemberId>::from_bits) {
        let mut world = unclean();
        for member in having {
            world.store_entry(member.index(), 0, &Entry::new(10, HOLDERS));
        }
        let expected = if having == HOLDERS { vec![10] } else { vec![] };
        assert_eq!(carried_out(&world), expected, "{having:?}");
        // A missing member can't be asked, and one that is being filled need not have it.
        for lacking in HOLDERS.minus(having) {
            let without = world.assemble_without(Set::one(lacking), DEGRADED).expect("it is RAID6");
            assert_eq!(without.replay.len(), 1, "{having:?}");
            world.record.slots[lacking.index()].state = SlotState::Rebuilding { watermark: 0 };
            world.store_records();
            assert_eq!(carried_out(&world), [10], "{having:?}");
        }
        // The tail of a member that is no holder says nothing about the entry, that of a holder
        // does.
        world.store_entry(1, 50, &Entry::tail_record(20, 20, 1));
        assert_eq!(carried_out(&world), [10], "{having:?}");
        world.store_entry(3, 50, &Entry::tail_record(21, 10, 3));
        assert_eq!(carried_out(&world), [10], "{having:?}");
        world.store_entry(3, 60, &Entry::tail_record(22, 11, 3));
        assert!(carried_out(&world).is_empty(), "{having:?}");
    }
}

/// A tail counts from the latest intact header, wherever it is in the ring.
#[test]
fn entries_below_the_tail_are_history() {
    let mut world = unclean();
    let only = Set::one(MemberId(2));
    world.store_entry(2, 0, &Entry { tail: 12, ..Entry::new(13, only) });
    world.store_entry(2, 20, &Entry { tail: 10, ..Entry::new(11, only) });
    let latest = world.store_entry(2, 40, &Entry::new(12, only));
    assert_eq!(carried_out(&world), [12, 13]);
    world.store_entry(2, latest, &Entry::tail_record(14, 14, 2));
    assert!(carried_out(&world).is_empty());
    assert_eq!(world.assemble(STRICT).expect("it is whole").next_entry, 15);
}

#[test]
fn copies_that_disagree_are_not_carried_out() {
    let good = Entry::new(10, HOLDERS);
    let others = [
        Entry { stripe: 4, ..good.clone() },
        Entry { fill: 99, ..good.clone() },
        Entry { holders: Set::from_bits(0b1110), ..good.clone() },
        Entry { runs: vec![(0, 1, 2), (2, 0, 2)], ..good.clone() },
    ];
    for other in others {
        let mut world = unclean();
        world.store_entry(2, 0, &good);
        world.store_entry(3, 0, &other);
        assert!(carried_out(&world).is_empty(), "{other:?}");
    }
    let mut world = unclean();
    world.store_entry(1, 0, &good);
    assert!(carried_out(&world).is_empty(), "member 1 is no holder");
}

#[test]
fn a_stop_that_was_clean_and_an_earlier_start_leave_nothing_to_do() {
    let mut world = unclean();
    world.store_entry(2, 0, &Entry { epoch: EPOCH - 1, ..Entry::new(10, Set::one(MemberId(2))) });
    assert!(carried_out(&world).is_empty());
    world.store_entry(2, 0, &Entry::new(10, Set::one(MemberId(2))));
    assert_eq!(carried_out(&world), [10]);
    world.record.clean = true;
    world.store_records();
    assert!(carried_out(&world).is_empty());
}

#[test]
fn a_holder_that_is_missing_is_done_without() {
    let mut world = unclean();
    for member in HOLDERS {
        world.store_entry(member.index(), 0, &Entry::new(10, HOLDERS));
    }
    for (gone, holders) in [(2, &[3][..]), (3, &[2]), (0, &[2, 3])] {
        let array =
            world.assemble_without(Set::one(MemberId(gone)), DEGRADED).expect("three are enough");
        assert_eq!(array.replay.len(), 1, "without {gone}");
        let found = array.replay[0].copies.iter().map(|(member, _)| member.0);
        assert!(found.eq(holders.iter().copied()), "without {gone}");
    }
    let none = world.assemble_without(HOLDERS, DEGRADED).expect("two are enough");
    assert!(none.replay.is_empty());
}

/// A spare in a holder's place has an empty ring, which says nothing.
#[test]
fn a_spare_in_a_holders_place_does_not_hide_the_entry() {
    let mut world = unclean();
    world.store_entry(2, 0, &Entry::new(10, HOLDERS));
    world.record.slots[3].device = device(60);
    world.record.slots[3].state = SlotState::Rebuilding { watermark: 0 };
    world.store_records();
    assert_eq!(carried_out(&world), [10]);
}

#[test]
fn entries_for_blocks_that_are_not_there_are_passed_over() {
    let stripes = unclean().record.geometry.stripes();
    let good = Entry::new(10, Set::one(MemberId(2)));
    let bad = [
        Entry { stripe: stripes, ..good.clone() },
        Entry { runs: vec![(4, 0, 1)], ..good.clone() },
        Entry { runs: vec![(0, 3, 2)], ..good.clone() },
        Entry { runs: vec![(0, 4, 1)], ..good.clone() },
        Entry { runs: vec![(0, 0, 2), (1, 0, 1), (0, 1, 1)], ..good.clone() },
    ];
    for entry in bad {
        let mut world = unclean();
        let next = world.store_entry(2, 0, &entry);
        world.store_entry(2, next, &Entry::new(11, Set::one(MemberId(2))));
        let array = world.assemble(STRICT).expect("the rest is good");
        assert_eq!(array.warnings, [Warning::JournalEntryInvalid { entry: 10 }], "{entry:?}");
        assert_eq!(array.replay.iter().map(|r| r.entry).collect::<Vec<_>>(), [11], "{entry:?}");
    }
}

#[test]
fn what_a_ring_holds_is_left_alone_if_some_of_it_can_not_be_read() {
    let mut world = unclean();
    world.store_entry(2, 0, &Entry::new(10, Set::one(MemberId(2))));
    let next = world.store_entry(3, 0, &Entry::new(11, Set::one(MemberId(3))));
    // It can't be told whether member 2 has this one.
    let next = world.store_entry(3, next, &Entry::new(12, Set::one(MemberId(2)).with(MemberId(3))));
    world.store_entry(3, next, &Entry::new(13, Set::one(MemberId(3))));
    let ring = world.record.areas.journal().0;
    world.images[2].unreadable.push(Pba(ring.0 + 50));
    assert_eq!(carried_out(&world), [11, 13]);
}

#[test]
fn an_unreadable_journal_matters_when_degraded() {
    let mut world = unclean();
    let ring = world.record.areas.journal().0;
    world.images[1].unreadable.push(Pba(ring.0 + 5));
    let label = || "disk1".to_owned();
    let warning = Warning::JournalUnreadable { label: label() };
    let whole = world.assemble(STRICT).expect("the resync makes good for it");
    assert_eq!(whole.warnings, std::slice::from_ref(&warning));
    assert_eq!(whole.bitmap.count(), whole.bitmap.len(), "nobody knows where it was amiss");
    let gone = Set::one(MemberId(0));
    let expected = AssembleError::JournalUnreadable { label: label() };
    assert_eq!(world.assemble_without(gone, DEGRADED).err(), Some(expected));
    let forced = world.assemble_without(gone, FORCE).expect("by force");
    assert!(forced.warnings.contains(&warning));
}
