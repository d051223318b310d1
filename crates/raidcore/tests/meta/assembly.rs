//! Which devices make an array: missing, foreign, damaged, too small, spare.

use raidcore::geometry::Level;
use raidcore::meta::{
    AssembleError, CodecError, Consistency, MemberImage, MissingMember, SUPERBLOCKS, SlotState,
    Warning, assemble,
};
use raidcore::units::{BLOCK_BYTES, MemberId, Pba, Set};

use crate::world::{DEGRADED, FORCE, SHAPES, STRICT, World, device, of_slot, put, superblock};

fn mirror() -> World {
    World::new(Level::Raid1, 3, Consistency::Bitmap)
}

fn missing(error: &AssembleError) -> Vec<usize> {
    let (AssembleError::Incomplete { missing, .. } | AssembleError::TooManyMissing { missing, .. }) =
        error
    else {
        panic!("it is for another reason: {error}");
    };
    missing.iter().map(|m: &MissingMember| m.member.index()).collect()
}

/// Each subset of the members of each level: an array starts with as few as the redundancy allows
/// and no fewer, whatever is accepted, and never starts with fewer than all unless accepted.
#[test]
fn an_array_starts_from_what_its_redundancy_allows() {
    for (level, members) in SHAPES {
        let world = World::new(level, members, Consistency::Bitmap);
        for gone in (1..1 << members).map(Set::<MemberId>::from_bits) {
            let context = format!("{level:?} of {members} without {gone:?}");
            if gone.len() == members {
                assert_eq!(
                    world.assemble_without(gone, FORCE).err(),
                    Some(AssembleError::NoImages)
                );
                continue;
            }
            // Of RAID10, members 0 and 1 are a pair, 2 and 3, and so on.
            let pair = |first: usize| Set::from_bits(3 << first).and(gone).len() == 2;
            let enough = if level == Level::Raid10 {
                !(0..members).step_by(2).any(pair)
            } else {
                gone.len() <= world.record.geometry.redundancy()
            };
            let strict = world.assemble_without(gone, STRICT).expect_err(&context);
            assert_eq!(
                missing(&strict),
                gone.map(MemberId::index).collect::<Vec<_>>(),
                "{context}"
            );
            for options in [DEGRADED, FORCE] {
                match world.assemble_without(gone, options) {
                    Ok(array) => {
                        assert!(enough, "{context}");
                        let there: Vec<_> = array.slots.iter().map(Option::is_none).collect();
                        let expected: Vec<_> =
                            (0..members).map(|m| gone.has(MemberId::at(m))).collect();
                        assert_eq!(there, expected, "{context}");
                        assert_eq!(array.record, world.record);
                    }
                    Err(AssembleError::TooManyMissing { lost, redundancy, .. }) => {
                        assert!(!enough && lost == gone.len() && redundancy < lost, "{context}");
                    }
                    Err(other) => panic!("{context}: {other}"),
                }
            }
        }
        let whole = world.assemble(STRICT).expect("all are there");
        assert_eq!(whole.slots, (0..members).map(Some).collect::<Vec<_>>());
        assert!(whole.was_clean && whole.warnings.is_empty() && whole.replay.is_empty());
    }
}

#[test]
fn a_lost_pair_is_named() {
    let world = World::new(Level::Raid10, 6, Consistency::Bitmap);
    let gone = [0, 4, 5].into_iter().map(MemberId).collect();
    let error = world.assemble_without(gone, DEGRADED).expect_err("a pair is lost");
    let text = error.to_string();
    assert!(text.contains("the array can do without 1 of members 4 and 5;"), "{text}");
}

#[test]
fn the_order_of_the_devices_does_not_matter() {
    let mut world = World::new(Level::Raid5, 3, Consistency::Bitmap);
    world.images.rotate_left(1);
    let array = world.assemble(STRICT).expect("all are there");
    assert_eq!(array.slots, [Some(2), Some(0), Some(1)]);
}

/// Members that failed or are being filled count as lost even if their devices are there.
#[test]
fn who_is_not_wholly_in_service_is_no_redundancy() {
    for state in [SlotState::Failed, SlotState::Rebuilding { watermark: 10 }] {
        let mut world = World::new(Level::Raid5, 3, Consistency::Bitmap);
        world.record.slots[1].state = state;
        world.store_records();
        let array = world.assemble(STRICT).expect("this much is known already");
        assert_eq!(array.slots[1].is_some(), state != SlotState::Failed);
        let error = world.assemble_without(Set::one(MemberId(0)), FORCE).expect_err("two are lost");
        assert_eq!(missing(&error), [0]);
    }
}

#[test]
fn nothing_is_no_array() {
    assert_eq!(assemble::<MemberImage>(&[], FORCE).err(), Some(AssembleError::NoImages));
}

#[test]
fn a_foreign_device_is_named() {
    let mut world = mirror();
    world.images[1].meta.fill(0x42);
    let label = "disk1".to_owned();
    assert_eq!(
        world.assemble(FORCE).err(),
        Some(AssembleError::NotAMember { label: label.clone() })
    );
    world.images[1].meta.clear();
    assert_eq!(world.assemble(FORCE).err(), Some(AssembleError::NotAMember { label }));
}

#[test]
fn a_member_of_another_array_is_named() {
    let mut world = mirror();
    let mut other = world.record.clone();
    other.array.0[0] ^= 1;
    world.store_record(2, of_slot(2), &other);
    match world.assemble(FORCE) {
        Err(AssembleError::OtherArray { label, array, first_label, first }) => {
            assert_eq!((label.as_str(), array), ("disk2", other.array));
            assert_eq!((first_label.as_str(), first), ("disk0", world.record.array));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_device_twice_is_noticed() {
    let mut world = mirror();
    world.images[2] = world.images[0].clone();
    let expected =
        AssembleError::Copies { first: "disk0".into(), second: "disk0".into(), device: of_slot(0) };
    assert_eq!(world.assemble(FORCE).err(), Some(expected));
}

#[test]
fn a_later_release_must_be_used() {
    let mut world = mirror();
    let mut later = world.record.clone();
    later.features.incompatible = 1 << 40;
    world.store_record(1, of_slot(1), &later);
    let why = CodecError::UnknownFeature { bits: 1 << 40 };
    let label = "disk1".into();
    assert_eq!(world.assemble(FORCE).err(), Some(AssembleError::Refused { label, why }));
}

#[test]
fn a_member_without_a_quorum_is_missing() {
    let mut world = World::new(Level::Raid5, 3, Consistency::Bitmap);
    world.images[2].unreadable.extend(&SUPERBLOCKS[..2]);
    assert!(world.assemble(STRICT).is_ok(), "two copies are enough");
    world.images[2].unreadable.push(SUPERBLOCKS[2]);
    let error = world.assemble(STRICT).expect_err("it counts as missing");
    assert_eq!(missing(&error), [2]);
    assert!(error.to_string().contains("disk2: only 1 of its 4 superblocks"), "{error}");
    let array = world.assemble(DEGRADED).expect("two are there");
    assert_eq!((array.slots[2], &array.stale[..]), (None, &[2][..]));
    for image in &mut world.images {
        image.unreadable = SUPERBLOCKS.to_vec();
    }
    assert!(matches!(
        world.assemble(FORCE),
        Err(AssembleError::AllDamaged { left_out }) if left_out.len() == 3
    ));
}

/// Members may be larger than the array needs, each by another amount, but none smaller.
#[test]
fn members_of_different_sizes() {
    let mut world = mirror();
    let need = world.record.areas.member_blocks();
    for (extra, image) in world.images.iter_mut().enumerate() {
        image.blocks = need + 1000 * extra as u64;
    }
    assert!(world.assemble(STRICT).is_ok());
    world.images[1].blocks = need - 1;
    let shrunk = Warning::Shrunk { label: "disk1".into(), have: need - 1, need };
    let refused = world.assemble(STRICT);
    assert!(
        matches!(&refused, Err(AssembleError::Incomplete { missing, left_out })
            if missing[0].member == MemberId(1) && left_out[..] == [shrunk.clone()]),
        "{refused:?}"
    );
    // The image may be an unfinished copy: the array can be started without it.
    let array = world.assemble(DEGRADED).expect("the other copy is whole");
    assert_eq!((array.slots[1], &array.stale[..]), (None, &[1][..]));
    assert_eq!(array.warnings, [shrunk]);
}

#[test]
fn spares_are_found_and_too_small_ones_left_out() {
    let mut world = mirror();
    let spares = [device(70), device(71), device(72)];
    world.record.spares = spares.to_vec();
    world.store_records();
    let first = world.add_image(spares[1]);
    let second = world.add_image(spares[2]);
    world.images[second].blocks -= 1;
    let array = world.assemble(STRICT).expect("spares are no condition");
    assert_eq!(array.spares, [None, Some(first), None]);
    assert_eq!(array.stale, [second]);
    let missing = |device| array.warnings.contains(&Warning::SpareMissing { device });
    assert_eq!(spares.map(missing), [true, false, false], "{:?}", array.warnings);
    assert!(matches!(array.warnings[..], [Warning::SpareTooSmall { .. }, _]));
}

/// A device that the array does not know (any more) is left out, however many there are.
#[test]
fn more_devices_than_members() {
    let mut world = mirror();
    for number in 80..90 {
        world.add_image(device(number));
    }
    let array = world.assemble(STRICT).expect("all members are there");
    assert_eq!(array.slots, [Some(0), Some(1), Some(2)]);
    assert_eq!(array.stale, (3..13).collect::<Vec<_>>());
    let strangers = |w: &Warning| matches!(w, Warning::OutOfService { .. });
    assert!(array.warnings.len() == 10 && array.warnings.iter().all(strangers));
}

/// Foreign devices don't replace members.
#[test]
fn strangers_alone_are_no_array() {
    let mut world = World::new(Level::Raid5, 3, Consistency::Bitmap);
    for slot in 0..3 {
        world.store_record(slot, device(90 + slot as u8), &world.record.clone());
    }
    let error = world.assemble(FORCE).expect_err("no member is there");
    assert_eq!(missing(&error), [0, 1, 2]);
}

/// A superblock that is written to the wrong device makes two of one.
#[test]
fn a_misdirected_superblock_does_no_harm_alone() {
    let mut world = mirror();
    let other = superblock(&world.record, of_slot(1));
    put(&mut world.images[0], SUPERBLOCKS[3], &other);
    let array = world.assemble(STRICT).expect("three copies agree");
    assert_eq!(array.slots, [Some(0), Some(1), Some(2)]);
    assert_eq!(array.record.member_of(of_slot(1)), Some(MemberId(1)));
    put(&mut world.images[0], SUPERBLOCKS[2], &other);
    let error = world.assemble(STRICT).expect_err("nobody knows which it is");
    assert_eq!(missing(&error), [0]);
}

/// Blocks beyond a truncated image's end count as unreadable.
#[test]
fn truncated_images_lose_what_is_beyond() {
    let mut world = mirror();
    for image in &mut world.images {
        image.meta.truncate(256 * BLOCK_BYTES);
    }
    assert!(matches!(world.assemble(STRICT), Err(AssembleError::ZeroMapLost { page: 0 })));
    let array = world.assemble(FORCE).expect("by force");
    assert_eq!(array.bitmap.count(), array.bitmap.len());
    world.images[0].unreadable.push(Pba(1 << 60));
    assert!(world.assemble(FORCE).is_ok());
}
