//! When checkpoints are written. An idle volume stops writing them. A full volume under random
//! writes does not spend itself on them, even if each takes much.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use det::{Instant, Prng};
use raidcore::engine::{Op, Request};
use raidcore::units::{BLOCK_BYTES, Lba, Tag};
use raidlog::{
    Action, Choice, Cleaning, Config, GroupId, Input, Io, IoOp, LogVolume, Shape, VolumeId, Wish,
};

/// More I/O than any volume here needs to come to rest, or to take a block.
const BOUND: u64 = 200_000;

/// A volume over groups that store only summaries, and whose I/O ends in the order in which it
/// began.
struct World {
    volume: LogVolume,
    now: Instant,
    summaries: HashMap<(GroupId, u64), Vec<u8>>,
    pending: VecDeque<Io>,
    /// I/O that has ended.
    ios: u64,
    tags: Vec<Tag>,
}

impl World {
    fn new(wish: Wish, config: Config) -> Self {
        let shape = Shape::new(wish).expect("a possible volume");
        let mut world = Self {
            volume: LogVolume::create(config, VolumeId(*b"it comes to rest"), shape),
            now: Instant::ORIGIN,
            summaries: HashMap::new(),
            pending: VecDeque::new(),
            ios: 0,
            tags: (0..config.tags).map(Tag).collect(),
        };
        world.step(Input::Tick);
        world
    }

    fn capacity(&self) -> u64 {
        self.volume.shape().capacity()
    }

    fn write(&mut self, lba: u64) {
        let bound = self.ios + BOUND;
        while self.tags.is_empty() {
            assert!(self.ios < bound, "a write waits for ever: {:?}", self.volume.status());
            self.end_one();
        }
        let tag = self.tags.pop().expect("it was waited for");
        let request = Request { tag, op: Op::Write, lba: Lba(lba), blocks: 1, fua: false };
        self.step(Input::Request(request));
    }

    fn fill(&mut self) {
        (0..self.capacity()).for_each(|lba| self.write(lba));
    }

    fn overwrite(&mut self, random: &mut Prng, blocks: u64) {
        for _ in 0..blocks {
            // Some blocks more often than others, so that groups differ.
            let part = if random.chance(1, 2) { 1 } else { 16 };
            self.write(random.below(self.capacity().div_ceil(part)));
        }
    }

    /// Runs until nothing is under way, and nothing is due later.
    fn rest(&mut self) {
        let bound = self.ios + BOUND;
        loop {
            while !self.pending.is_empty() {
                assert!(self.ios < bound, "it goes on and on: {:?}", self.volume.status());
                self.end_one();
            }
            let Some(at) = self.volume.deadline() else { return };
            self.now = self.now.max(at);
            self.step(Input::Tick);
        }
    }

    fn end_one(&mut self) {
        let io = self.pending.pop_front().expect("whoever waits waits for something");
        self.ios += 1;
        self.now = self.now + Duration::from_micros(10);
        let (id, group) = (io.id, io.group);
        if io.op != IoOp::Load {
            return self.step(Input::IoDone { id, result: Ok(()) });
        }
        let bytes = self.summaries[&(group, io.at)].clone();
        self.step(Input::Loaded { id, result: Ok(&bytes) });
    }

    fn step(&mut self, input: Input<'_>) {
        let mut actions = Vec::new();
        self.volume.step(self.now, input, &mut actions);
        for action in actions {
            match action {
                Action::Io(io) => self.begin(io),
                Action::Complete { tag, result } => {
                    assert_eq!(result, Ok(()));
                    self.tags.push(tag);
                }
                Action::Copy { .. } | Action::Note(_) | Action::Stopped => {}
            }
        }
    }

    fn begin(&mut self, io: Io) {
        if let IoOp::Write { batch, .. } = io.op {
            let blocks = self.volume.shape().summary() as usize;
            let mut bytes = vec![0; blocks * BLOCK_BYTES];
            self.volume.encode_summary(batch, &mut bytes, |_| 0);
            self.summaries.insert((io.group, io.at), bytes);
        }
        self.pending.push_back(io);
    }
}

/// Volumes of all kinds, from the smallest possible one on.
fn worlds(segments: &[(u32, u32)]) -> Vec<World> {
    let mut worlds = Vec::new();
    for spare in [100u32, 200, 333, 500] {
        let reserve = 2 + (2 * (1000 - spare)).div_ceil(spare);
        let least = u64::from(reserve + 4 + 2000u32.div_ceil(spare));
        for groups in [1, 2, 3, 4] {
            for &(stripe, segment) in segments {
                for (more, cleaning, choice) in [
                    (0, Cleaning::Paced, Choice::Greedy),
                    (0, Cleaning::Blocking, Choice::Greedy),
                    (10, Cleaning::Paced, Choice::CostBenefit),
                    (10, Cleaning::Blocking, Choice::CostBenefit),
                    (40, Cleaning::Paced, Choice::Greedy),
                ] {
                    let group_blocks = 64 + (least + more) * u64::from(segment);
                    let wish = Wish { groups, group_blocks, stripe, segment, spare };
                    let config = Config {
                        tags: 4,
                        buffers: 2,
                        choice,
                        cleaning,
                        checkpoint: 1 << 30,
                        ..Config::default()
                    };
                    worlds.push(World::new(wish, config));
                }
            }
        }
    }
    worlds
}

#[test]
fn a_volume_that_nobody_uses_comes_to_rest() {
    for (seed, mut world) in (0..).zip(worlds(&[(1, 8), (4, 16), (12, 24), (8, 64)])) {
        let mut random = Prng::new(seed);
        world.rest();
        world.fill();
        world.rest();
        for part in [1, 7, 50, world.capacity()] {
            world.overwrite(&mut random, part);
            world.rest();
        }
        world.volume.check();
    }
}

#[test]
fn a_full_volume_does_not_spend_itself_on_checkpoints() {
    for (seed, mut world) in (0..).zip(worlds(&[(4, 16), (12, 24), (8, 64)])) {
        let mut random = Prng::new(seed);
        world.fill();
        let before = world.volume.counters().stored;
        let blocks = 4 * world.capacity();
        world.overwrite(&mut random, blocks);
        let stored = world.volume.counters().stored - before;
        let status = world.volume.status();
        assert!(2 * stored <= 3 * blocks, "{stored} pages for {blocks} blocks: {status:?}");
    }
}

/// With small segments a checkpoint takes as much as dozens of them, as in a large volume, and the
/// limit on replay alone would make one due again and again.
#[test]
fn checkpoints_cost_little_though_each_takes_much() {
    for (seed, groups, spare, percent) in
        [(1, 1, 200, 20), (2, 1, 400, 10), (3, 3, 200, 60), (4, 3, 400, 25), (5, 4, 400, 25)]
    {
        let group_blocks = 100_000 / groups as u64;
        let wish = Wish { groups, group_blocks, stripe: 8, segment: 16, spare };
        let config = Config { tags: 64, checkpoint: 64, ..Config::default() };
        let mut world = World::new(wish, config);
        let mut random = Prng::new(seed);
        world.fill();
        for _ in 0..world.capacity() {
            world.write(random.below(world.capacity()));
        }
        let before = world.volume.counters();
        for _ in 0..world.capacity() {
            world.write(random.below(world.capacity()));
        }
        let now = world.volume.counters();
        let (stored, written) = (now.stored - before.stored, now.written - before.written);
        let status = world.volume.status();
        assert!(100 * stored <= percent * written, "{stored} pages for {written}: {status:?}");
    }
}
