//! A forged page of a map on one member of a mirror. The other member's pages are good, so the map
//! must be unchanged unless the page counts.

use std::cell::RefCell;

use raidcore::geometry::Level;
use raidcore::meta::{BitMap, Consistency, FORMAT, MapKind};
use raidcore::units::BLOCK_BYTES;

use crate::choices::Choices;
use crate::images::{ARRAY, STRICT, World, flip, put, reseal};

/// Where the bits begin in a page.
const HEADER_BYTES: usize = 64;

/// The version of the pages that are on both members.
const VERSION: u64 = 2;

/// The greatest version that is accepted.
const VERSION_MAX: u64 = 1 << 62;

thread_local! {
    static WORLD: RefCell<World> =
        RefCell::new(World::new(Level::Raid1, 2, Consistency::Bitmap));
}

/// The bytes choose a map and a slot, what the page's header says, and its bits.
pub fn page(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let kind = choices.pick(&[MapKind::Bitmap, MapKind::ZeroMap]);
    let slot = choices.below(2);
    WORLD.with_borrow_mut(|world| {
        let mut block = made_up(world, kind, &mut choices);
        let at = world.record.areas.map_page(kind, 0, slot);
        let start = at.0 as usize * BLOCK_BYTES;
        let good = world.images[0].meta[start..start + BLOCK_BYTES].to_vec();
        check(world, kind, slot, &mut block);
        put(&mut world.images[0], at, &good);
    });
}

/// A page whose header is right most of the time.
fn made_up(world: &World, kind: MapKind, choices: &mut Choices<'_>) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    let version = VERSION + choices.below(4);
    world.map(kind, &[]).encode_page(ARRAY, 0, version, &mut block);
    for _ in 0..choices.below(4) {
        let (at, field) = (choices.index(HEADER_BYTES), choices.number().to_le_bytes());
        let end = HEADER_BYTES.min(at + choices.index(field.len() + 1));
        block[at..end].copy_from_slice(&field[..end - at]);
    }
    let sealed = !choices.rarely(8);
    let bits = choices.take(BLOCK_BYTES - HEADER_BYTES);
    block[HEADER_BYTES..HEADER_BYTES + bits.len()].copy_from_slice(bits);
    if sealed {
        reseal(&mut block);
    }
    block
}

fn check(world: &mut World, kind: MapKind, slot: u64, block: &mut [u8]) {
    let at = world.record.areas.map_page(kind, 0, slot);
    put(&mut world.images[0], at, block);
    let (found, version) = assembled(world, kind);
    let empty = world.map(kind, &[]);
    let Some(newer) = newer(block, kind, slot, empty.len()) else {
        assert_eq!((&found, version), (&empty, VERSION), "it is not to be believed");
        return;
    };
    let bits = &block[HEADER_BYTES..];
    let set = |bit: u64| bits[bit as usize / 8] >> (bit % 8) & 1 != 0;
    assert_eq!(version, newer);
    assert!((0..found.len()).all(|bit| found.get(bit) == set(bit)));
    assert_eq!(found.count(), (0..found.len()).filter(|&bit| set(bit)).count() as u64);

    let mut again = [0; BLOCK_BYTES];
    found.encode_page(ARRAY, 0, version, &mut again);
    put(&mut world.images[0], at, &again);
    assert_eq!(assembled(world, kind), (found, version));

    for bit in (version as usize % 4099..BLOCK_BYTES * 8).step_by(4099) {
        flip(&mut again, bit);
        put(&mut world.images[0], at, &again);
        assert_eq!(assembled(world, kind), (empty.clone(), VERSION), "bit {bit}");
        flip(&mut again, bit);
    }
}

/// The version that an intact page claims, if it counts.
fn newer(block: &[u8], kind: MapKind, slot: u64, bits: u64) -> Option<u64> {
    let u32_at = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap_or_default());
    let u64_at = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().unwrap_or_default());
    let number = match kind {
        MapKind::Bitmap => 1,
        MapKind::ZeroMap => 2,
        MapKind::Missed => 3,
    };
    let mut resealed = block.to_vec();
    reseal(&mut resealed);
    let sealed = block.starts_with(b"EKmap\r\n\x1a")
        && u32_at(8) == FORMAT
        && resealed == block
        && block[16..32] == ARRAY.0;
    let version = u64_at(40);
    let counts = sealed
        && (u32_at(32), u32_at(36), u64_at(48)) == (number, 0, bits)
        && version % 2 == slot
        && (VERSION + 1..=VERSION_MAX).contains(&version);
    counts.then_some(version)
}

/// A map as it is assembled, and the version of its page.
fn assembled(world: &World, kind: MapKind) -> (BitMap, u64) {
    let array = world.assemble(STRICT).expect("both members are there");
    match kind {
        MapKind::Bitmap => (array.bitmap, array.bitmap_versions[0].newest),
        MapKind::ZeroMap => (array.zero_map, array.zero_versions[0].newest),
        MapKind::Missed => (array.missed, array.missed_versions[0].newest),
    }
}
