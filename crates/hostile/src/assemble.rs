//! Damaged and forged images. Assembly never panics, never makes an array of too few members, never
//! takes a stale member as current, and loses nothing that an intact member in service holds.

use std::ops::Range;

use raidcore::geometry::Level;
use raidcore::meta::{
    AssembleOptions, Assembled, Consistency, MapKind, MemberImage, SUPERBLOCKS, SlotState,
    Superblock, choose_superblock,
};
use raidcore::units::{BLOCK_BYTES, MemberId, Pba, Set};

use crate::choices::Choices;
use crate::images::{Entry, SHAPES, Staged, World, device, of_slot, reseal, staged_record};

/// More damage than that leaves nothing to assemble.
const DAMAGES_MAX: u64 = 12;

/// The regions that are marked, and the stripe that is discarded.
const MARKED: [u64; 2] = [1, 2];
const DISCARDED: u64 = 7;

/// The entries in the journals of these members.
const ENTRIES: [u64; 2] = [5, 6];
const HOLDERS: Set<MemberId> = Set::from_bits(0b110);

/// The entries in the staging logs of the same members, and how many blocks they take.
const STAGED: [u64; 2] = [1, 2];
const STAGED_BLOCKS: u64 = 4;

/// The bytes choose an array with a history, the damage to its members' images, and the risks that
/// an operator accepts.
pub fn assemble(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let options = AssembleOptions { degraded: choices.flag(), force: choices.flag() };
    if choices.rarely(16) {
        noise_is_no_array(options, &mut choices);
        return;
    }
    let story = Story::choose(&mut choices);
    let mut damaged = Damaged { world: story.world(), forged: false };
    for _ in 0..choices.below(DAMAGES_MAX) {
        damaged.inflict(&mut choices);
    }
    let Damaged { world: World { images, .. }, forged } = damaged;
    match raidcore::meta::assemble(&images, options) {
        Ok(array) => {
            check(&array, &images);
            if !forged {
                nothing_is_lost(&array, &images, &story.world());
            }
            assert!(array.warnings.iter().all(|warning| !warning.to_string().is_empty()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn noise_is_no_array(options: AssembleOptions, choices: &mut Choices<'_>) {
    let images = (0..=choices.below(3)).map(|_| {
        let mut meta = vec![0; choices.index(9000)];
        let (magic, seed) = (choices.flag(), choices.take(64));
        for (byte, noise) in meta.iter_mut().zip(seed.iter().cycle()) {
            *byte = *noise;
        }
        if magic && meta.len() >= 8 {
            meta[..8].copy_from_slice(b"Evenkeel");
        }
        let unreadable = vec![Pba(choices.below(256))];
        MemberImage { label: "noise".into(), blocks: u64::MAX, meta, unreadable }
    });
    let images: Vec<_> = images.collect();
    assert!(raidcore::meta::assemble(&images, options).is_err());
}

/// The array's history before the damage.
struct Story {
    level: Level,
    members: usize,
    consistency: Consistency,
    clean: bool,
    rebuilding: bool,
    stale: bool,
}

impl Story {
    fn choose(choices: &mut Choices<'_>) -> Self {
        let (level, members) = choices.pick(&SHAPES);
        let all = [Consistency::Resync, Consistency::Bitmap, Consistency::Journal];
        Self {
            level,
            members,
            consistency: choices.pick(&all),
            clean: choices.flag(),
            rebuilding: choices.flag() && level != Level::Raid0,
            stale: choices.flag(),
        }
    }

    fn has_parity(&self) -> bool {
        matches!(self.level, Level::Raid4 | Level::Raid5 | Level::Raid6)
    }

    /// The same every time: marks, entries, a spare, perhaps a stale member and one being filled.
    fn world(&self) -> World {
        let log = if self.has_parity() { 64 } else { 0 };
        let record = staged_record(self.level, self.members, self.consistency, log);
        let mut world = World::of(record);
        world.record.clean = self.clean;
        world.record.spares = vec![device(70)];
        if self.rebuilding {
            world.record.slots[1].state = SlotState::Rebuilding { watermark: 5 };
        }
        world.store_records();
        world.add_image(device(70));
        world.mark(&MARKED);
        let zero = world.map(MapKind::ZeroMap, &[DISCARDED]);
        world.store_map(..1, MapKind::ZeroMap, 3, &zero);
        if has_journal(&world) {
            for member in HOLDERS {
                let mut at = 0;
                for entry in ENTRIES {
                    at = world.store_entry(member.index(), at, &Entry::new(entry, HOLDERS));
                }
            }
        }
        if self.has_parity() {
            for (number, at) in STAGED.into_iter().zip([0, 2]) {
                let staged = Staged::new(number, &[(0, number as u32, 1)]);
                staged.store(&mut world, &[1, 2], at);
            }
        }
        if self.stale {
            let mut old = world.record.clone();
            old.events -= 3;
            world.store_record(0, of_slot(0), &old);
        }
        world
    }
}

fn has_journal(world: &World) -> bool {
    world.record.areas.journal().1 > 0
}

/// Images that get damaged.
struct Damaged {
    world: World,
    /// Whether anything was changed with a checksum that matches.
    forged: bool,
}

impl Damaged {
    fn inflict(&mut self, choices: &mut Choices<'_>) {
        if self.world.images.is_empty() {
            return;
        }
        match choices.below(11) {
            0 => {
                let (image, at, noise) =
                    (self.image(choices), self.place(choices), choices.take(8));
                let noise = if noise.is_empty() { &[0xff] } else { noise };
                let block: Vec<u8> = noise.iter().copied().cycle().take(BLOCK_BYTES).collect();
                self.write(image, at, &block);
            }
            1 => {
                let (image, at) = (self.image(choices), self.place(choices));
                self.write(image, at, &[0; BLOCK_BYTES]);
            }
            2 => {
                let (image, at) = (self.image(choices), self.place(choices));
                self.write(image, at, &[0; BLOCK_BYTES]);
                self.world.images[image].unreadable.push(at);
            }
            3 => {
                let (from, to, at) =
                    (self.image(choices), self.image(choices), self.place(choices));
                let block = self.read(from, at);
                self.write(to, at, &block);
            }
            4 => {
                let image = self.image(choices);
                let block = self.read(image, self.place(choices));
                let to = self.place(choices);
                self.write(image, to, &block);
            }
            5 => {
                let (a, b) = (self.image(choices), self.image(choices));
                self.world.images.swap(a, b);
            }
            6 => {
                let image = self.image(choices);
                self.world.images[image].meta.truncate(choices.index(600) * BLOCK_BYTES);
            }
            7 => {
                let image = self.image(choices);
                self.world.images[image].blocks /= 2;
            }
            8 => {
                let image = self.image(choices);
                self.world.images.remove(image);
            }
            9 => {
                let (image, at) = (self.image(choices), self.place(choices));
                let mut block = self.read(image, at);
                self.forge(&mut block, 400, choices);
                self.write(image, at, &block);
            }
            _ => self.forge_superblocks(choices),
        }
    }

    /// The same in all copies, so that the quorum accepts it; perhaps on all members.
    fn forge_superblocks(&mut self, choices: &mut Choices<'_>) {
        let one = self.image(choices);
        let all = choices.flag();
        let from = choices.take(9);
        for image in (0..self.world.images.len()).filter(|&image| all || image == one) {
            for at in SUPERBLOCKS {
                let mut block = self.read(image, at);
                self.forge(&mut block, 700, &mut Choices::new(from));
                self.write(image, at, &block);
            }
        }
    }

    /// Changes bytes behind the magic number, up to `end`, and makes the checksum match.
    fn forge(&mut self, block: &mut [u8], end: usize, choices: &mut Choices<'_>) {
        let (at, length) = (16 + choices.index(end - 16), 1 + choices.index(4));
        let forged = choices.take(length);
        if let Some(field) = block.get_mut(at..at + forged.len()) {
            field.copy_from_slice(forged);
            reseal(block);
            self.forged = true;
        }
    }

    fn image(&self, choices: &mut Choices<'_>) -> usize {
        choices.index(self.world.images.len())
    }

    /// A block that assembly reads: of the superblocks, the maps, the start of the journal.
    fn place(&self, choices: &mut Choices<'_>) -> Pba {
        let (journal, blocks) = self.world.record.areas.journal();
        let maps = 256..journal.0 + blocks.min(16);
        let (staging, blocks) = self.world.record.areas.staging();
        let log = staging.0..staging.0 + blocks.min(STAGED_BLOCKS);
        let mut places: Vec<Pba> = SUPERBLOCKS.to_vec();
        places.extend(maps.chain(log).map(Pba));
        choices.pick(&places)
    }

    /// Nothing if the image ends before.
    fn read(&self, image: usize, at: Pba) -> Vec<u8> {
        self.world.images[image].meta.get(bytes(at)).unwrap_or(&[]).to_vec()
    }

    fn write(&mut self, image: usize, at: Pba, block: &[u8]) {
        if let Some(place) = self.world.images[image].meta.get_mut(bytes(at))
            && place.len() == block.len()
        {
            place.copy_from_slice(block);
        }
    }
}

fn bytes(block: Pba) -> Range<usize> {
    let start = block.0 as usize * BLOCK_BYTES;
    start..start + BLOCK_BYTES
}

/// Checks the properties of every assembled array.
fn check(array: &Assembled, images: &[MemberImage]) {
    let (record, geometry) = (&array.record, &array.record.geometry);
    assert_eq!((array.slots.len(), array.spares.len()), (record.slots.len(), record.spares.len()));
    let superblock = |image: usize| {
        let image: &MemberImage = &images[image];
        let copies = SUPERBLOCKS.map(|at| {
            let block = image.meta.get(bytes(at)).unwrap_or(&[]);
            (!image.unreadable.contains(&at)).then_some(block)
        });
        choose_superblock(&copies).expect("it has a quorum")
    };
    let mut current: Set<MemberId> = Set::EMPTY;
    let mut used = Vec::new();
    for (place, image) in record.places().zip(&array.slots) {
        let slot = &record.slots[place.index()];
        let Some(image) = *image else { continue };
        let Superblock { record: own, device } = superblock(image);
        assert_eq!((own.array, device), (record.array, slot.device));
        assert!(slot.state != SlotState::Failed, "a failed member is in service");
        assert!(own.events <= record.events && record.events - own.events <= 1, "it is stale");
        assert!(images[image].blocks >= record.blocks_of(place));
        if slot.state == SlotState::Up && !record.is_staging_device(place) {
            current = current.with(place);
        }
        used.push(image);
    }
    assert!(geometry.survives(geometry.member_set().minus(current)), "there are too few");
    for (spare, image) in record.spares.iter().zip(&array.spares) {
        let Some(image) = *image else { continue };
        assert_eq!(superblock(image).device, *spare);
        used.push(image);
    }
    used.extend(&array.stale);
    used.sort_unstable();
    assert_eq!(used, (0..images.len()).collect::<Vec<_>>(), "each image is used once or left out");
    assert_eq!(array.bitmap.len(), record.areas.regions());
    assert_eq!(array.zero_map.len(), record.areas.stripes());
    assert_eq!(array.bitmap_versions.len(), array.bitmap.pages() as usize);
    assert_eq!(array.zero_versions.len(), array.zero_map.pages() as usize);
    assert!(array.replay.iter().all(|replay| replay.entry < array.next_entry));
    assert!(array.replay.is_empty() || !array.was_clean);
    assert!(array.staged.is_empty() || !array.was_clean);
    for staged in &array.staged {
        assert!(staged.stripe.0 < record.stripes() && !staged.copies.is_empty());
        assert!(staged.copies.iter().all(|&(member, at)| {
            let (start, blocks) = record.staging_of(member);
            (start.0..start.0 + blocks).contains(&at.0)
        }));
    }
}

/// Nothing was forged: exactly the intact blocks count.
fn nothing_is_lost(array: &Assembled, images: &[MemberImage], world: &World) {
    let zeros = &array.zero_map;
    assert!((0..zeros.len()).all(|stripe| stripe == DISCARDED || !zeros.get(stripe)));
    assert!(array.replay.iter().map(|replay| replay.entry).is_sorted_by(|a, b| a < b));
    for replay in &array.replay {
        assert!(ENTRIES.contains(&replay.entry));
        let expected = Entry::new(replay.entry, HOLDERS);
        let runs: Vec<_> = replay.runs.iter().map(|run| run.to).collect();
        assert_eq!((replay.stripe.0, runs), (expected.stripe, expected.runs()));
    }
    // Present holders, and those of them whose entries are intact.
    let (mut holders, mut intact) = (Set::EMPTY, Set::EMPTY);
    for (slot, image) in array.slots.iter().enumerate() {
        let Some(image) = *image else { continue };
        let (now, before) = (&images[image], &world.images[slot]);
        let is_intact = |place: Range<u64>| {
            let whole = place.start as usize * BLOCK_BYTES..place.end as usize * BLOCK_BYTES;
            let there = now.meta.get(whole.clone());
            there.is_some_and(|there| there == &before.meta[whole])
                && !now.unreadable.iter().any(|at| place.contains(&at.0))
        };
        let page = |kind| {
            let at = world.record.areas.map_page(kind, 0, 3).0;
            at..at + 1
        };
        if array.record.slots[slot].state == SlotState::Up {
            let marked = || MARKED.iter().all(|&region| array.bitmap.get(region));
            assert!(!is_intact(page(MapKind::Bitmap)) || marked(), "slot {slot}: a mark is lost");
            let discarded = slot != 0 || zeros.get(DISCARDED);
            assert!(!is_intact(page(MapKind::ZeroMap)) || discarded, "a discard is lost");
        }
        let log = world.record.areas.staging().0.0;
        let up = array.record.slots[slot].state == SlotState::Up;
        if HOLDERS.has(MemberId::at(slot))
            && up
            && !array.was_clean
            && world.record.areas.staging().1 > 0
        {
            let found = || array.staged.iter().map(|staged| staged.entry);
            let all = found().eq(STAGED);
            assert!(!is_intact(log..log + STAGED_BLOCKS) || all, "{:?}", array.staged);
        }
        if HOLDERS.has(MemberId::at(slot)) {
            let (Pba(start), blocks) = world.record.areas.journal();
            let length = ENTRIES.len() as u64 * entry_blocks();
            let ring = start..start + blocks;
            holders = holders.with(slot);
            let readable = now.meta.len() >= ring.end as usize * BLOCK_BYTES
                && !now.unreadable.iter().any(|at| ring.contains(&at.0));
            if readable && is_intact(start..start + length) {
                intact = intact.with(slot);
            }
        }
    }
    if !array.was_clean && has_journal(world) && !holders.is_empty() && intact == holders {
        let replayed: Vec<_> = array.replay.iter().map(|replay| replay.entry).collect();
        assert!(replayed.into_iter().eq(ENTRIES), "an entry is lost");
    }
}

/// Blocks of one of the entries.
fn entry_blocks() -> u64 {
    let entry = Entry::new(0, HOLDERS);
    u64::from(entry.header_blocks() + entry.payload_blocks())
}
