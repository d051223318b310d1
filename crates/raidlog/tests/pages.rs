//! Pages of checkpoints are spread over all groups, each on two of them: a start can do without the
//! pages of any one group.

use std::collections::{BTreeMap, VecDeque};

use det::{Instant, Prng};
use raidcore::engine::{Op, Request};
use raidcore::units::{BLOCK_BYTES, Lba, Tag};
use raidlog::{
    Action, Answer, Config, Found, GroupId, Input, Io, IoOp, LogVolume, Pages, Recovery,
    RecoveryError, Shape, VolumeId, Wish,
};

const VOLUME: VolumeId = VolumeId(*b"pages everywhere");

const STRIPE: u32 = 8;

/// A volume over groups that store only the volume's own blocks.
struct World {
    volume: LogVolume,
    blocks: BTreeMap<(GroupId, u64), Vec<u8>>,
    pending: VecDeque<Io>,
}

impl World {
    fn new(groups: usize) -> Self {
        let group_blocks = 60_000 / groups as u64;
        let wish = Wish { groups, group_blocks, stripe: STRIPE, segment: 32, spare: 400 };
        let shape = Shape::new(wish).expect("a possible volume");
        let volume = LogVolume::create(Config::default(), VOLUME, shape);
        let mut world = Self { volume, blocks: BTreeMap::new(), pending: VecDeque::new() };
        world.step(Input::Tick);
        world
    }

    /// Writes blocks here and there, and stops the volume.
    fn write_and_stop(&mut self) {
        let mut random = Prng::new(1);
        for _ in 0..self.volume.shape().capacity() {
            let lba = Lba(random.below(self.volume.shape().capacity()));
            let request = Request { tag: Tag(0), op: Op::Write, lba, blocks: 1, fua: false };
            self.step(Input::Request(request));
        }
        self.step(Input::Stop);
    }

    fn step(&mut self, input: Input<'_>) {
        self.tell(input);
        while let Some(Io { id, group, op, at, .. }) = self.pending.pop_front() {
            let summary = self.blocks.get(&(group, at)).cloned();
            self.tell(match (op, &summary) {
                (IoOp::Load, Some(bytes)) => Input::Loaded { id, result: Ok(bytes) },
                _ => Input::IoDone { id, result: Ok(()) },
            });
        }
    }

    fn tell(&mut self, input: Input<'_>) {
        let mut actions = Vec::new();
        self.volume.step(Instant::ORIGIN, input, &mut actions);
        for action in actions {
            if let Action::Io(io) = action {
                self.keep(io);
                self.pending.push_back(io);
            }
        }
    }

    fn keep(&mut self, Io { group, op, at, blocks, .. }: Io) {
        let mut bytes = vec![0; BLOCK_BYTES];
        match op {
            IoOp::Write { batch, .. } => {
                self.volume.encode_summary(batch, &mut bytes, |_| 0);
                self.blocks.insert((group, at), bytes);
            }
            IoOp::Store(pages) => {
                for n in 0..blocks {
                    let page = match pages {
                        Pages::Header => Pages::Header,
                        Pages::From(first) => Pages::From(first + n),
                    };
                    self.volume.encode_page(group, page, &mut bytes);
                    self.blocks.insert((group, at + u64::from(n)), bytes.clone());
                }
            }
            IoOp::Read(_) | IoOp::Load | IoOp::Flush | IoOp::Discard => {}
        }
    }

    /// Pages of all checkpoints that a group has.
    fn pages_of(&self, group: GroupId) -> u64 {
        self.blocks.keys().filter(|&&(on, at)| on == group && self.is_page(at)).count() as u64
    }

    fn is_page(&self, at: u64) -> bool {
        let shape = self.volume.shape();
        (shape.area_start(0)..shape.area_start(1) + shape.area_blocks()).contains(&at)
    }

    /// The result of a start if pages on some groups are damaged.
    fn start(&self, damaged: &[GroupId]) -> Result<Box<LogVolume>, RecoveryError> {
        let shape = *self.volume.shape();
        let groups = vec![shape.group_blocks(); shape.groups()];
        let mut recovery = Recovery::new(Config::default(), VOLUME, &groups, STRIPE);
        let mut found = recovery.step(None)?;
        loop {
            let wanted = match found {
                Found::Wanted(wanted) => wanted,
                Found::Volume(volume) => return Ok(volume),
            };
            if wanted.checksums {
                let none = vec![0; wanted.blocks as usize];
                found = recovery.step(Some(Answer::Checksums(&none)))?;
                continue;
            }
            let mut bytes = vec![0; wanted.blocks as usize * BLOCK_BYTES];
            for (at, block) in (wanted.at..).zip(bytes.chunks_exact_mut(BLOCK_BYTES)) {
                let is_damaged = damaged.contains(&wanted.group) && self.is_page(at);
                if let (Some(kept), false) = (self.blocks.get(&(wanted.group, at)), is_damaged) {
                    block.copy_from_slice(kept);
                }
            }
            found = recovery.step(Some(Answer::Bytes(&bytes)))?;
        }
    }
}

#[test]
fn a_start_does_without_the_pages_of_any_one_group() {
    for groups in 2..=6 {
        let mut world = World::new(groups);
        world.write_and_stop();
        let shape = *world.volume.shape();
        let all = || (0..groups as u8).map(GroupId);
        let pages: u64 = all().map(|group| world.pages_of(group)).sum();
        for group in all() {
            // All have the same number, except for a run of each checkpoint.
            let even = pages / groups as u64;
            let differ = world.pages_of(group).abs_diff(even);
            assert!(differ <= 2 * u64::from(shape.unit()), "{differ} more or less of {even}");
            let found = world.start(&[group]).expect("there are other copies");
            for lba in (0..shape.capacity()).map(Lba) {
                assert_eq!(found.group_of(lba), world.volume.group_of(lba), "{lba:?}");
            }
        }
        let last = GroupId(groups as u8 - 1);
        let lost = world.start(&[GroupId(0), last]).err();
        let both = (0..shape.pages()).any(|page| {
            let mut copies = (0..2).map(|copy| shape.page_place(0, page, copy).0);
            copies.all(|group| group == GroupId(0) || group == last)
        });
        assert_eq!(matches!(lost, Some(RecoveryError::Page(_))), both, "{groups} groups: {lost:?}");
    }
}
