//! Images that nobody wrote on purpose, or somebody with bad intent: never a panic, never an array
//! from too few, never a stale member as a current one.

use proptest::prelude::*;
use raidcore::geometry::Level;
use raidcore::meta::{
    AssembleOptions, Assembled, Consistency, MapKind, MemberImage, SUPERBLOCKS, SlotState,
    Superblock, assemble, choose_superblock,
};
use raidcore::units::{BLOCK_BYTES, Pba, Set};

use crate::world::{Entry, SHAPES, World, device, of_slot, reseal};

/// What happens to images. Blocks are counted among those that matter, modulo their number.
#[derive(Clone, Debug)]
enum Damage {
    Noise {
        image: usize,
        block: usize,
        byte: u8,
    },
    Zeros {
        image: usize,
        block: usize,
    },
    Unreadable {
        image: usize,
        block: usize,
    },
    Copied {
        from: usize,
        to: usize,
        block: usize,
    },
    Moved {
        image: usize,
        from: usize,
        to: usize,
    },
    Swapped {
        a: usize,
        b: usize,
    },
    Truncated {
        image: usize,
        blocks: usize,
    },
    Shrunk {
        image: usize,
    },
    Dropped {
        image: usize,
    },
    /// Changed so that the checksum is right.
    Forged {
        image: usize,
        block: usize,
        at: usize,
        bytes: [u8; 2],
    },
}

fn any_damage() -> impl Strategy<Value = Damage> {
    let i = 0usize..7;
    let b = 0usize..40;
    prop_oneof![
        (i.clone(), b.clone(), any::<u8>()).prop_map(|(image, block, byte)| Damage::Noise {
            image,
            block,
            byte
        }),
        (i.clone(), b.clone()).prop_map(|(image, block)| Damage::Zeros { image, block }),
        (i.clone(), b.clone()).prop_map(|(image, block)| Damage::Unreadable { image, block }),
        (i.clone(), i.clone(), b.clone()).prop_map(|(from, to, block)| Damage::Copied {
            from,
            to,
            block
        }),
        (i.clone(), b.clone(), b.clone()).prop_map(|(image, from, to)| Damage::Moved {
            image,
            from,
            to
        }),
        (i.clone(), i.clone()).prop_map(|(a, b)| Damage::Swapped { a, b }),
        (i.clone(), 0usize..600).prop_map(|(image, blocks)| Damage::Truncated { image, blocks }),
        i.clone().prop_map(|image| Damage::Shrunk { image }),
        i.clone().prop_map(|image| Damage::Dropped { image }),
        (i, b, 32usize..400, any::<[u8; 2]>())
            .prop_map(|(image, block, at, bytes)| Damage::Forged { image, block, at, bytes }),
    ]
}

/// An array with a history: marks, entries, perhaps a stale member, a spare, one being filled.
fn world(shape: usize, consistency: Consistency, traits: u8) -> World {
    let (level, members) = SHAPES[shape];
    let mut world = World::new(level, members, consistency);
    world.record.clean = traits & 1 != 0;
    world.record.spares = vec![device(70)];
    if traits & 2 != 0 && level != Level::Raid0 {
        world.record.slots[1].state = SlotState::Rebuilding { watermark: 5 };
    }
    world.store_records();
    world.add_image(device(70));
    world.mark(&[1, 2]);
    let zero = world.map(MapKind::ZeroMap, &[7]);
    world.store_map(..1, MapKind::ZeroMap, 3, &zero);
    if consistency == Consistency::Journal && world.record.areas.journal().1 > 0 {
        let holders = Set::one(1).with(2);
        for member in holders {
            let next = world.store_entry(member, 0, &Entry::new(5, holders));
            world.store_entry(member, next, &Entry::new(6, holders));
        }
    }
    if traits & 4 != 0 {
        let mut old = world.record.clone();
        old.events -= 3;
        world.store_record(0, of_slot(0), &old);
    }
    world
}

/// The blocks that matter: superblocks, maps, the start of the journal.
fn place(world: &World, block: usize) -> Pba {
    let (journal, blocks) = world.record.areas.journal();
    let maps = 256..journal.0 + blocks.min(16);
    let mut places: Vec<Pba> = SUPERBLOCKS.to_vec();
    places.extend(maps.map(Pba));
    places[block % places.len()]
}

fn inflict(world: &World, images: &mut Vec<MemberImage>, damage: &Damage) {
    let count = images.len();
    if count == 0 {
        return;
    }
    let read = |image: &MemberImage, at: Pba| {
        let start = at.0 as usize * BLOCK_BYTES;
        image.meta.get(start..start + BLOCK_BYTES).map(<[u8]>::to_vec)
    };
    let write = |image: &mut MemberImage, at: Pba, bytes: Option<Vec<u8>>| {
        let start = at.0 as usize * BLOCK_BYTES;
        let place = image.meta.get_mut(start..start + BLOCK_BYTES);
        if let (Some(place), Some(bytes)) = (place, bytes) {
            place.copy_from_slice(&bytes);
        }
    };
    match *damage {
        Damage::Noise { image, block, byte } => {
            let bytes = (0..BLOCK_BYTES).map(|i| byte ^ (i * 31 % 251) as u8).collect();
            write(&mut images[image % count], place(world, block), Some(bytes));
        }
        Damage::Zeros { image, block } => {
            write(&mut images[image % count], place(world, block), Some(vec![0; BLOCK_BYTES]));
        }
        Damage::Unreadable { image, block } => {
            images[image % count].unreadable.push(place(world, block));
        }
        Damage::Copied { from, to, block } => {
            let bytes = read(&images[from % count], place(world, block));
            write(&mut images[to % count], place(world, block), bytes);
        }
        Damage::Moved { image, from, to } => {
            let bytes = read(&images[image % count], place(world, from));
            write(&mut images[image % count], place(world, to), bytes);
        }
        Damage::Swapped { a, b } => images.swap(a % count, b % count),
        Damage::Truncated { image, blocks } => {
            images[image % count].meta.truncate(blocks * BLOCK_BYTES);
        }
        Damage::Shrunk { image } => images[image % count].blocks /= 2,
        Damage::Dropped { image } => {
            images.remove(image % count);
        }
        Damage::Forged { image, block, at, bytes } => {
            let image = &mut images[image % count];
            let mut forged = read(image, place(world, block));
            if let Some(block) = &mut forged {
                block[at..at + 2].copy_from_slice(&bytes);
                reseal(block);
            }
            write(image, place(world, block), forged);
        }
    }
}

/// What must hold of whatever was assembled.
fn check(array: &Assembled, images: &[MemberImage]) {
    let (record, geometry) = (&array.record, &array.record.geometry);
    assert_eq!((array.slots.len(), array.spares.len()), (geometry.members(), record.spares.len()));
    let superblock = |image: usize| {
        let image: &MemberImage = &images[image];
        let copies = SUPERBLOCKS.map(|at| {
            let start = at.0 as usize * BLOCK_BYTES;
            let block = image.meta.get(start..start + BLOCK_BYTES).unwrap_or(&[]);
            (!image.unreadable.contains(&at)).then_some(block)
        });
        choose_superblock(&copies).expect("it has a quorum")
    };
    let mut current = 0;
    let mut used = Vec::new();
    for (slot, image) in record.slots.iter().zip(&array.slots) {
        let Some(image) = *image else { continue };
        let Superblock { record: own, device } = superblock(image);
        assert_eq!((own.array, device), (record.array, slot.device));
        assert!(slot.state != SlotState::Failed, "a failed member is in service");
        assert!(own.events <= record.events && record.events - own.events <= 1, "it is stale");
        assert!(images[image].blocks >= record.areas.member_blocks());
        current += usize::from(slot.state == SlotState::Up);
        used.push(image);
    }
    assert!(current >= geometry.members() - geometry.redundancy(), "there are too few");
    for (spare, image) in record.spares.iter().zip(&array.spares) {
        let Some(image) = *image else { continue };
        assert_eq!(superblock(image).device, *spare);
        used.push(image);
    }
    used.extend(&array.stale);
    used.sort_unstable();
    assert_eq!(used, (0..images.len()).collect::<Vec<_>>(), "each image is used once or left out");
    assert_eq!(array.bitmap.len(), record.areas.regions(geometry.stripes()));
    assert_eq!(array.zero_map.len(), geometry.stripes());
    assert_eq!(array.bitmap_versions.len(), array.bitmap.pages() as usize);
    assert_eq!(array.zero_versions.len(), array.zero_map.pages() as usize);
    assert!(array.replay.iter().all(|replay| replay.entry < array.next_entry));
    assert!(array.replay.is_empty() || !array.was_clean);
}

fn any_options() -> impl Strategy<Value = AssembleOptions> {
    (any::<bool>(), any::<bool>()).prop_map(|(degraded, force)| AssembleOptions { degraded, force })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_images_give_an_array_or_a_reason(
        shape in 0..SHAPES.len(),
        consistency in prop::sample::select(vec![
            Consistency::Resync,
            Consistency::Bitmap,
            Consistency::Bitmap,
            Consistency::Journal,
        ]),
        traits: u8,
        damages in prop::collection::vec(any_damage(), 0..12),
        options in any_options(),
    ) {
        let world = world(shape, consistency, traits);
        let mut images = world.images.clone();
        for damage in &damages {
            inflict(&world, &mut images, damage);
        }
        match assemble(&images, options) {
            Ok(array) => {
                check(&array, &images);
                let warnings = array.warnings.iter().map(ToString::to_string);
                prop_assert!(warnings.into_iter().all(|warning| !warning.is_empty()));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    /// The same forgery in all copies of a superblock, so that it gets past the quorum.
    #[test]
    fn forged_members_give_an_array_or_a_reason(
        shape in 0..SHAPES.len(),
        forgeries in prop::collection::vec((0usize..7, 32usize..700, any::<u8>()), 1..5),
        everywhere: bool,
        options in any_options(),
    ) {
        let world = world(shape, Consistency::Bitmap, 0);
        let mut images = world.images.clone();
        for (image, at, byte) in forgeries {
            let count = images.len();
            for (index, forged) in images.iter_mut().enumerate() {
                let hit = if everywhere { at >= 48 } else { index == image % count };
                for copy in SUPERBLOCKS.iter().filter(|_| hit) {
                    let start = copy.0 as usize * BLOCK_BYTES;
                    let block = &mut forged.meta[start..start + BLOCK_BYTES];
                    block[at] = byte;
                    reseal(block);
                }
            }
        }
        if let Ok(array) = assemble(&images, options) {
            check(&array, &images);
        }
    }

    #[test]
    fn noise_is_no_array(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9000), 1..4),
        magic: bool,
        options in any_options(),
    ) {
        let images: Vec<_> = parts
            .into_iter()
            .map(|mut meta| {
                if magic && meta.len() >= 8 {
                    meta[..8].copy_from_slice(b"Evenkeel");
                }
                let blocks = u64::MAX;
                MemberImage { label: "noise".into(), blocks, meta, unreadable: vec![Pba(64)] }
            })
            .collect();
        prop_assert!(assemble(&images, options).is_err());
    }
}
