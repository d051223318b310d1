//! Silent corruption, scrubs and other passes, through the whole engine. The tests compute the
//! right content by the definition.

mod array;
mod ends;
mod rates;

use array::{Array, Block, CHUNK, Image, STRIPES, parities};
use det::Prng;
use raidcore::engine::{Command, Input, Mismatches, Note};
use raidcore::geometry::{Level, Role};
use raidcore::units::{MemberId, Set, Stripe};

type Change = (&'static str, fn(&mut Block));

const CHANGES: &[Change] = &[
    ("a bit", |block| block[4095] ^= 1),
    ("a byte", |block| block[0] = !block[0]),
    ("a sector", |block| block[512..1024].iter_mut().for_each(|byte| *byte ^= 0x5a)),
    ("all", |block| Prng::new(99).fill(block)),
    ("zeros", |block| block.fill(0)),
];

/// Which rows of a chunk are wrong.
const ROWS: &[&[u32]] = &[&[0], &[3], &[1, 2], &[0, 2], &[0, 1, 2, 3]];

#[test]
fn one_wrong_chunk_is_found_and_put_right_with_raid6() {
    for members in 4..=7 {
        let mut array = Array::new(Level::Raid6, members, CHUNK);
        let right = array.disks.clone();
        assert_eq!(array.scrub(true), Mismatches::default());
        assert_eq!(array.written, []);
        for role in 0..members {
            for (case, (what, change)) in CHANGES.iter().enumerate() {
                for (pattern, rows) in ROWS.iter().enumerate() {
                    let stripe = (role + case + pattern) as u64 % STRIPES;
                    rows.iter().for_each(|&row| array.spoil(stripe, role, row, change));
                    let context = format!("{what} of {rows:?} of role {role} of {members}");
                    let spoilt = array.disks.clone();
                    let count = rows.len() as u64;
                    let found = Mismatches { rows: count, located: count };
                    assert_eq!(array.scrub(false), found, "{context}");
                    assert!(array.disks == spoilt && array.written.is_empty(), "{context}");
                    assert_eq!(array.scrub(true), found, "{context}");
                    assert!(array.disks == right, "{context}");
                    let wrong: Vec<_> =
                        rows.iter().map(|&row| array.place(stripe, role, row)).collect();
                    assert_eq!(array.written, wrong, "{context}: nothing else is written");
                    let note = Note::BlocksWrong {
                        member: MemberId(wrong[0].0 as u8),
                        stripe: Stripe(stripe),
                        blocks: rows.len() as u32,
                        corrected: true,
                    };
                    assert!(array.notes.contains(&note), "{context}: {:?}", array.notes);
                }
            }
        }
        assert_eq!(array.scrub(false), Mismatches::default());
    }
}

/// Which single roles, if wrong, would explain the row, by the definition; none if the row matches.
fn suspects(blocks: &[Block]) -> Set<Role> {
    let data = blocks.len() - 2;
    let computed = parities(&blocks[..data]);
    let mut suspects = Set::EMPTY;
    for role in 0..data {
        // The content that makes P right: is Q right then, too?
        let mut tried = blocks[..data].to_vec();
        for (at, byte) in tried[role].iter_mut().enumerate() {
            *byte ^= computed[0][at] ^ blocks[data][at];
        }
        if parities(&tried)[1] == blocks[data + 1] {
            suspects = suspects.with(Role::at(role));
        }
    }
    for parity in 0..2 {
        if computed[1 - parity] == blocks[data + 1 - parity] {
            suspects = suspects.with(Role::at(data + parity));
        }
    }
    suspects
}

#[test]
fn two_wrong_chunks_are_not_taken_for_one() {
    let (mut believed, mut explained) = (0, 0);
    for members in 4..=7 {
        let mut array = Array::new(Level::Raid6, members, CHUNK);
        let right = array.disks.clone();
        let pairs = (0..members).flat_map(|x| (0..x).map(move |y| (x, y)));
        for (number, (x, y)) in pairs.enumerate() {
            for (what, change) in CHANGES {
                for also in [CHANGES[0].1, CHANGES[1].1, |block: &mut Block| block[7] ^= 0x81] {
                    let (stripe, row) = (number as u64 % STRIPES, number as u32 % CHUNK);
                    array.disks.clone_from(&right);
                    array.spoil(stripe, x, row, change);
                    array.spoil(stripe, y, row, &also);
                    let spoilt = array.disks.clone();
                    let places: Vec<_> =
                        (0..members).map(|role| array.place(stripe, role, row)).collect();
                    let row_of = |disks: &Image| -> Vec<Block> {
                        places.iter().map(|&(member, at)| disks[member][at]).collect()
                    };
                    let before = row_of(&spoilt);
                    let suspects = suspects(&before);
                    let found = array.scrub(true);
                    let after = row_of(&array.disks);
                    let context = format!("{what} of {x} and some of {y} of {members}");
                    let data = members - 2;
                    if suspects.is_empty() {
                        believed += 1;
                        assert_eq!(found, Mismatches { rows: 1, located: 0 }, "{context}");
                        assert!(after[..data] == before[..data], "{context}: data is believed");
                        let note =
                            Note::Mismatch { stripe: Stripe(stripe), rows: 1, corrected: true };
                        assert!(array.notes.contains(&note), "{context}: {:?}", array.notes);
                    } else {
                        explained += 1;
                        assert_eq!(found, Mismatches { rows: 1, located: 1 }, "{context}");
                        let is_changed = |role: &Role| after[role.index()] != before[role.index()];
                        let changed: Set<Role> = Set::first(members).filter(is_changed).collect();
                        assert!(changed == suspects && suspects.len() == 1, "{context}");
                    }
                    assert!(after[data..] == parities(&after[..data]), "{context}: it matches now");
                    let elsewhere = array.written.iter().all(|place| places.contains(place));
                    assert!(elsewhere, "{context}: only that row is written");
                }
            }
        }
    }
    assert!(believed > 500 && explained > 0, "{believed} believed, {explained} explained");
}

#[test]
fn single_parity_and_two_copies_tell_only_that_something_is_wrong() {
    for (level, members) in
        [(Level::Raid4, 4), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid1, 2)]
    {
        let mut array = Array::new(level, members, CHUNK);
        let right = array.disks.clone();
        for role in 0..members {
            array.disks.clone_from(&right);
            for row in [0, 2] {
                array.spoil(2, role, row, &CHANGES[0].1);
            }
            let data = if level == Level::Raid1 { 1 } else { members - 1 };
            let mut wanted = array.disks.clone();
            for row in [0, 2] {
                let place = |role| array.place(2, role, row);
                let bytes = |role: usize| array.disks[place(role).0][place(role).1];
                let data: Vec<_> = (0..data).map(bytes).collect();
                let (member, at) = place(members - 1);
                wanted[member][at] = parities(&data)[0];
            }
            let found = Mismatches { rows: 2, located: 0 };
            assert_eq!(array.scrub(false), found, "{level:?}");
            assert_eq!(array.scrub(true), found, "{level:?}");
            assert!(array.disks == wanted, "{level:?}: what redundancy is made of is believed");
            assert_eq!(array.written.len(), 2, "{level:?}: a block a row");
            assert_eq!(array.scrub(false), Mismatches::default());
        }
    }
}

#[test]
fn a_majority_of_copies_is_believed() {
    for members in 3..=6 {
        let mut array = Array::new(Level::Raid1, members, CHUNK);
        let right = array.disks.clone();
        for spoilt in 1..1 << members {
            let spoilt = Set::<Role>::from_bits(spoilt);
            array.disks.clone_from(&right);
            // All wrong copies differ from each other.
            for role in spoilt {
                array.spoil(3, role.index(), 1, &|block| block[100] ^= 1 + role.0);
            }
            let majority = 2 * (members - spoilt.len()) > members;
            let first = array.disks[0][3 * CHUNK as usize + 1];
            let found = array.scrub(true);
            let located = u64::from(majority);
            assert_eq!(found, Mismatches { rows: 1, located }, "{spoilt:?} of {members}");
            if majority {
                assert!(array.disks == right, "{spoilt:?} of {members}");
                assert_eq!(array.written.len(), spoilt.len());
            } else {
                assert!(array.disks.iter().all(|disk| disk[3 * CHUNK as usize + 1] == first));
            }
            assert_eq!(array.scrub(false), Mismatches::default());
        }
    }
}

#[test]
fn copies_that_are_wrong_alike_may_outvote_the_right_one_only_if_they_are_more() {
    let mut array = Array::new(Level::Raid1, 4, CHUNK);
    let right = array.disks.clone();
    for (spoilt, located) in [(0b0110, 0), (0b0011, 0), (0b0111, 1)] {
        array.disks.clone_from(&right);
        let spoilt = Set::<Role>::from_bits(spoilt);
        spoilt.for_each(|role| array.spoil(0, role.index(), 0, &CHANGES[1].1));
        let before = array.disks.clone();
        assert_eq!(array.scrub(true), Mismatches { rows: 1, located });
        let wins = if located == 0 { &before[0] } else { &before[1] };
        assert!(array.disks.iter().all(|disk| disk == wins), "{spoilt:?}");
    }
}

#[test]
fn a_raid6_without_a_member_detects_only() {
    for lost in 0..5 {
        let mut array = Array::new(Level::Raid6, 5, CHUNK);
        let lost = MemberId(lost);
        array.tell(Input::Command { number: 0, command: Command::Fail(lost) });
        for stripe in 0..STRIPES {
            let gone = array.geo.role(Stripe(stripe), lost).expect("it has a part").index();
            for role in (0..5).filter(|&role| role != gone) {
                array.spoil(stripe, role, 1, &CHANGES[1].1);
                let before = array.disks.clone();
                let found = Mismatches { rows: 1, located: 0 };
                assert_eq!(array.scrub(false), found, "{role} of {stripe} without {lost:?}");
                assert_eq!(array.scrub(true), found);
                for data in 0..3 {
                    let (member, at) = array.place(stripe, data, 1);
                    assert!(array.disks[member][at] == before[member][at], "data is believed");
                }
                assert_eq!(array.written.len(), 1, "the parity that is compared is written");
                assert_eq!(array.scrub(false), Mismatches::default());
            }
        }
    }
}

#[test]
fn a_row_with_an_unreadable_block_detects_only_and_the_others_locate() {
    for (unreadable, wrong) in (0..5).flat_map(|x| (0..5).map(move |y| (x, y))) {
        let mut array = Array::new(Level::Raid6, 5, CHUNK);
        let right = array.disks.clone();
        let bad = array.place(1, unreadable, 2);
        array.bad.push(bad);
        for row in [1, 2, 3] {
            array.spoil(1, wrong, row, &CHANGES[2].1);
        }
        let found = array.scrub(true);
        // An unreadable row is not compared, and is repaired from the others.
        let rows = if unreadable == wrong { 2 } else { 3 };
        assert_eq!(found, Mismatches { rows, located: 2 }, "{unreadable} and {wrong}");
        for row in [1, 3] {
            for role in 0..5 {
                let (member, at) = array.place(1, role, row);
                assert!(array.disks[member][at] == right[member][at], "{unreadable} and {wrong}");
            }
        }
        assert_eq!(array.bad, [], "it was repaired");
        assert_eq!(array.scrub(false), Mismatches::default(), "{unreadable} and {wrong}");
    }
}

#[test]
fn the_power_may_fail_amid_a_correction() {
    let spoilt = |array: &mut Array| {
        for stripe in 0..STRIPES {
            for row in 0..CHUNK {
                // One wrong role in most rows, two in some, which can't be located.
                let role = (stripe + u64::from(row)) as usize % 5;
                array.spoil(stripe, role, row, &CHANGES[1].1);
                if row == 2 {
                    array.spoil(stripe, (role + 1) % 5, row, &CHANGES[2].1);
                }
            }
        }
    };
    let mut array = Array::new(Level::Raid6, 5, CHUNK);
    let right = array.disks.clone();
    spoilt(&mut array);
    let first = array.scrub(true);
    assert_eq!(first, Mismatches { rows: STRIPES * 4, located: STRIPES * 3 });
    let (wanted, writes) = (array.disks.clone(), array.written.len());
    let amid = (0..writes).flat_map(|count| [0..count, count..writes]);
    for kept in amid {
        let mut array = Array::new(Level::Raid6, 5, CHUNK);
        spoilt(&mut array);
        array.kept = kept.clone();
        array.scrub(true);
        // After the next start the bytes are the same, and no region is marked.
        assert_eq!(array.engine.status().dirty_regions.0, 0);
        let left = array.disks;
        let mut array = Array::new(Level::Raid6, 5, CHUNK);
        array.disks = left;
        array.scrub(true);
        assert!(array.disks == wanted, "{kept:?} of {writes} blocks were kept");
    }
    // Blocks that were the only wrong ones are as they were written.
    for stripe in 0..STRIPES {
        for row in [0, 1, 3] {
            for role in 0..5 {
                let (member, at) = array.place(stripe, role, row);
                assert!(wanted[member][at] == right[member][at]);
            }
        }
    }
}

#[test]
fn a_chunk_full_of_wrong_rows_is_put_right() {
    let mut array = Array::new(Level::Raid6, 4, 128);
    let right = array.disks.clone();
    // Every other row, so that no two writes are joined; of every role in turn.
    for row in (0..128).step_by(2) {
        array.spoil(5, row as usize / 2 % 4, row, &CHANGES[3].1);
    }
    assert_eq!(array.scrub(true), Mismatches { rows: 64, located: 64 });
    assert!(array.disks == right);
    assert_eq!(array.written.len(), 64);
}
