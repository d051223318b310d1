//! The cost of a log volume by itself: lookups, appends, starts. Its groups answer at once and
//! store only the volume's own blocks.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use det::{Instant, Prng};
use raidcore::engine::{Op, Request};
use raidcore::units::{BLOCK_BYTES, Lba, Tag};
use raidlog::{
    Action, Answer, Config, Found, GroupId, Input, Io, IoOp, LogVolume, Map, Pages, Pba, Recovery,
    Shape, VolumeId, Wish,
};

const VOLUME: VolumeId = VolumeId([1; 16]);

/// Blocks of data in a stripe of a group's.
const STRIPE: u32 = 64;

/// Lookups of one iteration.
const LOOKUPS: usize = 1 << 16;

/// Blocks that are looked up: much more than caches hold.
const BLOCKS: u64 = 1 << 26;

/// A host whose groups answer at once.
struct Host {
    volume: LogVolume,
    config: Config,
    /// The volume's own blocks, by group and block.
    own: HashMap<(GroupId, u64), Vec<u8>>,
    actions: Vec<Action>,
    under_way: VecDeque<Io>,
    ended: u64,
}

impl Host {
    /// A new volume on `groups` groups of `group_blocks` blocks; users have 60% of them.
    fn new(groups: usize, group_blocks: u64, config: Config) -> Self {
        let wish = Wish { groups, group_blocks, stripe: STRIPE, segment: 0, spare: 400 };
        let shape = Shape::new(wish).expect("a shape that can be");
        let volume = LogVolume::create(config, VOLUME, shape);
        let mut host = Self {
            volume,
            config,
            own: HashMap::new(),
            actions: Vec::new(),
            under_way: VecDeque::new(),
            ended: 0,
        };
        host.tell(Input::Tick);
        host
    }

    fn capacity(&self) -> u64 {
        self.volume.shape().capacity()
    }

    /// Writes blocks, or flushes.
    fn ask(&mut self, op: Op, lba: u64, blocks: u32) {
        let ended = self.ended;
        let request = Request { tag: Tag(0), op, lba: Lba(lba), blocks, fua: false };
        self.tell(Input::Request(request));
        assert_eq!(self.ended, ended + 1, "groups answer at once, so who asks has not to wait");
    }

    fn tell(&mut self, input: Input<'_>) {
        self.volume.step(Instant::ORIGIN, input, &mut self.actions);
        self.take_in();
        while let Some(Io { id, group, op, at, .. }) = self.under_way.pop_front() {
            let result = Ok(());
            let input = match op {
                IoOp::Load => {
                    let bytes = self.own.get(&(group, at)).map_or(&[][..], |bytes| bytes);
                    Input::Loaded { id, result: Ok(bytes) }
                }
                IoOp::Read(_)
                | IoOp::Write { .. }
                | IoOp::Store(_)
                | IoOp::Flush
                | IoOp::Discard => Input::IoDone { id, result },
            };
            self.volume.step(Instant::ORIGIN, input, &mut self.actions);
            self.take_in();
        }
    }

    /// Takes the bytes of what is written before the next step.
    fn take_in(&mut self) {
        for action in self.actions.drain(..) {
            let io = match action {
                Action::Io(io) => io,
                Action::Complete { result, .. } => {
                    result.expect("nothing fails here");
                    self.ended += 1;
                    continue;
                }
                Action::Copy { .. } | Action::Note(_) | Action::Stopped => continue,
            };
            self.under_way.push_back(io);
            let Io { group, op, at, blocks, .. } = io;
            if let IoOp::Write { batch, .. } = op {
                let bytes = self.own.entry((group, at)).or_default();
                bytes.resize(self.volume.shape().summary() as usize * BLOCK_BYTES, 0);
                self.volume.encode_summary(batch, bytes, |_| 0);
            }
            let IoOp::Store(pages) = op else { continue };
            for n in 0..blocks {
                let page = match pages {
                    Pages::Header => Pages::Header,
                    Pages::From(first) => Pages::From(first + n),
                };
                let bytes = self.own.entry((group, at + u64::from(n))).or_default();
                bytes.resize(BLOCK_BYTES, 0);
                self.volume.encode_page(group, page, bytes);
            }
        }
    }

    /// Starts a volume from the stored blocks; returns the number of reads and of blocks read.
    fn start(&self) -> (LogVolume, u64, u64) {
        let shape = *self.volume.shape();
        let groups = vec![shape.group_blocks(); shape.groups()];
        let mut recovery = Recovery::new(self.config, VOLUME, &groups, STRIPE);
        let (mut bytes, mut sums) = (Vec::new(), Vec::new());
        let (mut reads, mut blocks) = (0, 0);
        let mut found = recovery.step(None).expect("there is a volume");
        loop {
            let wanted = match found {
                Found::Wanted(wanted) => wanted,
                Found::Volume(volume) => return (*volume, reads, blocks),
            };
            (reads, blocks) = (reads + 1, blocks + u64::from(wanted.blocks));
            let answer = if wanted.checksums {
                sums.resize(wanted.blocks as usize, 0);
                Answer::Checksums(&sums)
            } else {
                bytes.clear();
                for at in wanted.at..wanted.at + u64::from(wanted.blocks) {
                    match self.own.get(&(wanted.group, at)) {
                        Some(own) => bytes.extend_from_slice(own),
                        None => bytes.resize(bytes.len() + BLOCK_BYTES, 0),
                    }
                }
                bytes.truncate(wanted.blocks as usize * BLOCK_BYTES);
                Answer::Bytes(&bytes)
            };
            found = recovery.step(Some(answer)).expect("there is a volume");
        }
    }
}

/// The map beside a plain table with eight bytes for each block.
fn lookups(c: &mut Criterion) {
    let mut map = Map::new(BLOCKS, BLOCKS.div_ceil(809) as u32);
    let mut plain = vec![0u64; BLOCKS as usize];
    for lba in 0..BLOCKS {
        let pba = lba.wrapping_mul(0x9e37_79b9_7f4a_7c15) % BLOCKS;
        map.set(Lba(lba), Some(Pba(pba)));
        plain[lba as usize] = pba;
    }
    let mut prng = Prng::new(1);
    let random: Vec<u64> = (0..LOOKUPS).map(|_| prng.below(BLOCKS)).collect();
    let first = BLOCKS / 2;
    let sequential: Vec<u64> = (first..first + LOOKUPS as u64).collect();
    for (name, lbas) in [("random", &random), ("sequential", &sequential)] {
        let mut group = c.benchmark_group(format!("{name} lookups"));
        group.throughput(Throughput::Elements(LOOKUPS as u64));
        group.bench_function("map, 5 bytes a block", |b| {
            b.iter(|| {
                lbas.iter().map(|&lba| map.get(Lba(lba)).map_or(0, |pba| pba.0)).sum::<u64>()
            });
        });
        group.bench_function("plain, 8 bytes a block", |b| {
            b.iter(|| lbas.iter().map(|&lba| black_box(&plain)[lba as usize]).sum::<u64>());
        });
        group.finish();
    }
}

/// Blocks of all groups together: 4 GiB.
const GROUPS_BLOCKS: u64 = 1 << 20;

/// Requests of one iteration.
const REQUESTS: u64 = 1 << 12;

/// Appends through [`LogVolume::step`], with the summaries, cleaning and checkpoints that they cause.
fn appends(c: &mut Criterion) {
    for (name, groups) in [("one group", 1), ("three groups", 3)] {
        let mut group = c.benchmark_group(format!("writes, {name}"));
        for (name, blocks, random) in
            [("sequential, 64 KiB", 16, false), ("random, 4 KiB", 1, true)]
        {
            let mut host = Host::new(groups, GROUPS_BLOCKS / groups as u64, Config::default());
            let mut prng = Prng::new(1);
            let places = host.capacity() / u64::from(blocks);
            let mut next = 0;
            let mut write = |host: &mut Host, random: bool| {
                let place = if random { prng.below(places) } else { next % places };
                next += 1;
                host.ask(Op::Write, place * u64::from(blocks), blocks);
            };
            // Filled, then written twice more, so that cleaning is in its steady state.
            (0..places).for_each(|_| write(&mut host, false));
            (0..2 * places).for_each(|_| write(&mut host, random));
            group.throughput(Throughput::Elements(REQUESTS * u64::from(blocks)));
            group.bench_function(name, |b| {
                b.iter(|| (0..REQUESTS).for_each(|_| write(&mut host, random)));
            });
        }
        group.finish();
    }
}

/// Writes that are flushed one by one.
const FLUSHED: u64 = 1 << 10;

/// The computation of a start: reading a map of this many pages, and replaying this many blocks.
/// The I/O is not included; its amount is printed.
fn starts(c: &mut Criterion) {
    let config = Config { checkpoint: u64::MAX, ..Config::default() };
    let mut group = c.benchmark_group("starts");
    let mut host = Host::new(1, 4 * GROUPS_BLOCKS, config);
    let pages = u64::from(host.volume.shape().pages());
    group.throughput(Throughput::Elements(pages));
    tell_reads(&host, pages, 0);
    group.bench_function(format!("a map of {pages} pages"), |b| b.iter(|| host.start()));
    let mut prng = Prng::new(1);
    let blocks = host.capacity() / 4;
    for _ in 0..blocks {
        let lba = prng.below(host.capacity());
        host.ask(Op::Write, lba, 1);
    }
    host.ask(Op::Flush, 0, 0);
    tell_reads(&host, pages, blocks);
    group.throughput(Throughput::Elements(blocks));
    group
        .bench_function(format!("the same, {blocks} blocks replayed"), |b| b.iter(|| host.start()));
    group.finish();
    // Three groups, where each write was flushed.
    let mut host = Host::new(3, GROUPS_BLOCKS, config);
    let pages = u64::from(host.volume.shape().pages());
    tell_reads(&host, pages, 0);
    for _ in 0..FLUSHED {
        let lba = prng.below(host.capacity());
        host.ask(Op::Write, lba, 1);
        host.ask(Op::Flush, 0, 0);
    }
    tell_reads(&host, pages, FLUSHED);
}

/// Prints what a start reads of a map of this many pages, with this many blocks to replay.
fn tell_reads(host: &Host, pages: u64, replayed: u64) {
    let (_, reads, blocks) = host.start();
    println!("{pages} pages, {replayed} blocks to replay: {reads} reads of {blocks} blocks");
}

criterion_group!(benches, lookups, appends, starts);
criterion_main!(benches);
