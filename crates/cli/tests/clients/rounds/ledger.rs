//! A workload that knows the expected content of each block, even after the process was killed.
//!
//! The blocks are divided into runs, and writers get one run each in turn, so that they share
//! stripes but never a block. A writer has its own connection and one request at a time. So each of
//! its blocks holds its last acknowledged write. If the last request was not answered, its blocks
//! may also hold what it was to write.
//!
//! The ledger's blocks need not be the array's. If they are smaller, the runs of two writers meet
//! in a block of the array.
//!
//! The members outlive the process, and so do all writes that they have acknowledged. So *every*
//! acknowledged write has to be there, flushed or not; the effect of flushes on power failures
//! can't be tested here. A log volume differs: it keeps unflushed writes in memory for a while.
//! There each change is made durable before it counts.

use std::ops::Range;
use std::path::Path;
use std::thread::{self, JoinHandle};

use det::Prng;

use crate::nbd::Nbd;
use crate::rounds::user::{Refusal, User};
use crate::tools::pattern;

/// The protocol's error of a server that stops.
const ESHUTDOWN: u32 = 108;

/// How the ledger's part is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grain {
    /// A block, in bytes: at least 16.
    pub(crate) block: usize,
    /// The number of consecutive blocks of a writer; no request is longer.
    pub(crate) run: u64,
}

/// Blocks of the array.
pub(crate) const BLOCKS: Grain = Grain { block: 4096, run: 16 };

/// How many write at the same time.
const WRITERS: u64 = 8;

/// How changes are made durable before they count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Durable {
    /// They need not be.
    Sometimes,
    /// Mostly by a flush after each.
    ByFlush,
    /// By the write itself, without any flush, which would make others' writes durable, too.
    ByWrite,
}

/// The expected content of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// The last acknowledged version; 0 is zeros, and every write has a number of its own.
    version: u64,
    doubt: Doubt,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Doubt {
    #[default]
    None,
    /// It may also hold this version, whose write was not answered.
    Unanswered(u64),
    /// A write of it was not answered. Its content was read since.
    LookedUp,
    /// It holds content that was never written.
    Torn,
}

/// Blocks from the first one of the array on, and their expected content.
pub(crate) struct Ledger {
    writers: Vec<Writer>,
    /// The effects of requests that were not answered.
    pub(crate) unanswered: Unanswered,
}

/// Writers at work.
pub(crate) struct Working(Vec<JoinHandle<Writer>>);

/// The content of blocks that were being written, in counts.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Unanswered {
    pub(crate) old: u64,
    pub(crate) new: u64,
    pub(crate) neither: u64,
}

struct Writer {
    number: u64,
    random: Prng,
    /// All of its runs, one after the other.
    blocks: Vec<Block>,
    /// How many versions it has used.
    versions: u64,
    durable: Durable,
    grain: Grain,
}

impl Ledger {
    /// `blocks` blocks, all of them zeros.
    pub(crate) fn new(seed: u64, blocks: u64) -> Self {
        Self::of(seed, blocks, BLOCKS)
    }

    /// `blocks` blocks of another size, all of them zeros.
    pub(crate) fn of(seed: u64, blocks: u64, grain: Grain) -> Self {
        let mut seeds = Prng::new(seed);
        let writer = |number| Writer {
            number,
            random: Prng::new(seeds.next_u64()),
            blocks: vec![Block::default(); (blocks / WRITERS) as usize],
            versions: 0,
            durable: Durable::Sometimes,
            grain,
        };
        assert_eq!(blocks % (WRITERS * grain.run), 0, "each writer has as many runs");
        let unanswered = Unanswered::default();
        Self { writers: (0..WRITERS).map(writer).collect(), unanswered }
    }

    /// For an array that keeps unflushed writes in memory.
    pub(crate) fn flushing(mut self) -> Self {
        self.make_durable(Durable::ByFlush);
        self
    }

    /// How changes are made durable from now on.
    pub(crate) fn make_durable(&mut self, durable: Durable) {
        self.writers.iter_mut().for_each(|writer| writer.durable = durable);
    }

    /// Lets the writers work over NBD until the server is gone.
    pub(crate) fn work(&mut self, socket: &Path) -> Working {
        self.work_as(|| Nbd::connect(socket, "tank"))
    }

    /// Lets the writers work until the server is gone, each with its own connection.
    pub(crate) fn work_as<U: User>(&mut self, user: impl Fn() -> U) -> Working {
        let work = |writer: Writer| {
            let user = user();
            thread::spawn(move || writer.work(user))
        };
        Working(self.writers.drain(..).map(work).collect())
    }

    /// Writes all blocks, and flushes.
    pub(crate) fn fill(&mut self, user: &mut impl User) {
        for writer in &mut self.writers {
            writer.fill(user);
        }
        assert_eq!(user.flush(), Ok(()));
    }

    /// Takes the writers back, when the server is gone.
    pub(crate) fn rest(&mut self, working: Working) {
        let end = |writer: JoinHandle<Writer>| match writer.join() {
            Ok(writer) => writer,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        self.writers = working.0.into_iter().map(end).collect();
    }

    /// Reads everything; fails at a block with impossible content. The blocks of unanswered
    /// requests are old or new, or with `torn` anything.
    pub(crate) fn check(&mut self, user: &mut impl User, torn: bool) {
        for writer in &mut self.writers {
            writer.check(user, torn, &mut self.unanswered);
        }
    }

    /// Rewrites all blocks that were being written when the server ended, as applications with a
    /// log do. Without `all`, only those that turned out to be neither old nor new.
    pub(crate) fn mend(&mut self, user: &mut impl User, all: bool) {
        for writer in &mut self.writers {
            writer.mend(user, all);
        }
    }
}

impl Writer {
    fn work(mut self, mut user: impl User) -> Self {
        loop {
            match self.step(&mut user) {
                Ok(()) => {}
                Err(Refusal::Gone | Refusal::Refused(ESHUTDOWN)) => return self,
                Err(Refusal::Refused(code)) => panic!("a request was refused: {code}"),
            }
        }
    }

    /// One request.
    fn step(&mut self, user: &mut impl User) -> Result<(), Refusal> {
        let first = self.random.below(self.blocks.len() as u64);
        let most = self.grain.run - first % self.grain.run;
        let few = if self.random.chance(3, 4) { most.min(4) } else { most };
        let range = first as usize..(first + 1 + self.random.below(few)) as usize;
        let (offset, length) = (self.offset(range.start), (range.len() * self.grain.block) as u32);
        let by_write = self.durable == Durable::ByWrite;
        let kind = self.random.below(32);
        if kind < 2 && !by_write {
            return user.flush();
        }
        if kind < 8 {
            let content = user.read(offset, length)?;
            for (index, content) in range.zip(content.chunks(self.grain.block)) {
                let (lba, version) = (self.lba(index), self.blocks[index].version);
                assert!(holds(lba, version, content), "{}", self.wrong(index, content));
            }
            return Ok(());
        }
        let zeros = kind < 10 && !by_write;
        for index in range.clone() {
            let version = if zeros { 0 } else { self.next_version() };
            self.blocks[index].doubt = Doubt::Unanswered(version);
        }
        match kind {
            8 if zeros => user.zero(offset, length)?,
            9 if zeros => user.discard(offset, length)?,
            _ => user.write(offset, &self.unanswered(range.clone()), by_write || kind < 13)?,
        }
        if self.durable == Durable::ByFlush && !(10..13).contains(&kind) {
            user.flush()?;
        }
        self.answered(range);
        Ok(())
    }

    fn fill(&mut self, user: &mut impl User) {
        for first in (0..self.blocks.len()).step_by(self.grain.run as usize) {
            let range = first..first + self.grain.run as usize;
            for index in range.clone() {
                self.blocks[index].doubt = Doubt::Unanswered(self.next_version());
            }
            let content = self.unanswered(range.clone());
            assert_eq!(user.write(self.offset(first), &content, false), Ok(()));
            self.answered(range);
        }
    }

    fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions * WRITERS + self.number
    }

    /// The content that a request is to write.
    fn unanswered(&self, range: Range<usize>) -> Vec<u8> {
        let content = |index: usize| match self.blocks[index].doubt {
            Doubt::Unanswered(version) => content(self.lba(index), version, self.grain.block),
            Doubt::None | Doubt::LookedUp | Doubt::Torn => panic!("block {index} is not written"),
        };
        range.flat_map(content).collect()
    }

    fn answered(&mut self, range: Range<usize>) {
        for block in &mut self.blocks[range] {
            if let Doubt::Unanswered(version) = block.doubt {
                *block = Block { version, doubt: Doubt::None };
            }
        }
    }

    fn check(&mut self, user: &mut impl User, torn: bool, found: &mut Unanswered) {
        for first in (0..self.blocks.len()).step_by(self.grain.run as usize) {
            let length = self.grain.run as usize * self.grain.block;
            let content = user.read(self.offset(first), length as u32).expect("it can be read");
            for (index, content) in (first..).zip(content.chunks(self.grain.block)) {
                let (lba, block) = (self.lba(index), self.blocks[index]);
                let new = match block.doubt {
                    Doubt::Unanswered(new) => Some(new),
                    Doubt::None | Doubt::LookedUp | Doubt::Torn => None,
                };
                let old = holds(lba, block.version, content);
                self.blocks[index] = match new {
                    None => {
                        assert!(old, "{}", self.wrong(index, content));
                        Block { doubt: Doubt::None, ..block }
                    }
                    Some(_) if old => {
                        found.old += 1;
                        Block { doubt: Doubt::LookedUp, ..block }
                    }
                    Some(version) if holds(lba, version, content) => {
                        found.new += 1;
                        Block { version, doubt: Doubt::LookedUp }
                    }
                    Some(version) if self.is_mixed(index, version, content) => {
                        found.new += 1;
                        Block { doubt: Doubt::Torn, ..block }
                    }
                    Some(_) => {
                        assert!(torn, "{}", self.wrong(index, content));
                        found.neither += 1;
                        Block { doubt: Doubt::Torn, ..block }
                    }
                };
            }
        }
    }

    fn mend(&mut self, user: &mut impl User, all: bool) {
        for index in 0..self.blocks.len() {
            let doubt = self.blocks[index].doubt;
            if doubt == Doubt::Torn || doubt == Doubt::LookedUp && all {
                self.blocks[index].doubt = Doubt::Unanswered(self.next_version());
                let content = self.unanswered(index..index + 1);
                assert_eq!(user.write(self.offset(index), &content, false), Ok(()));
                self.answered(index..index + 1);
            }
            self.blocks[index].doubt = Doubt::None;
        }
        if self.durable != Durable::Sometimes {
            assert_eq!(user.flush(), Ok(()));
        }
    }

    /// The address of its block `index` in the array.
    fn lba(&self, index: usize) -> u64 {
        let (run, at) = (index as u64 / self.grain.run, index as u64 % self.grain.run);
        (run * WRITERS + self.number) * self.grain.run + at
    }

    fn offset(&self, index: usize) -> u64 {
        self.lba(index) * self.grain.block as u64
    }

    /// Whether it lies in two blocks of the array, of which one is old and the other new.
    fn is_mixed(&self, index: usize, new: u64, found: &[u8]) -> bool {
        let first = BLOCKS.block - self.offset(index) as usize % BLOCKS.block;
        if first >= found.len() {
            return false;
        }
        let (lba, bytes) = (self.lba(index), self.grain.block);
        let old_or_new = [self.blocks[index].version, new].map(|v| content(lba, v, bytes));
        let holds =
            |part: Range<usize>| old_or_new.iter().any(|c| c[part.clone()] == found[part.clone()]);
        holds(0..first) && holds(first..bytes)
    }

    fn wrong(&self, index: usize, found: &[u8]) -> String {
        let (lba, block) = (self.lba(index), self.blocks[index]);
        let word = |at: usize| u64::from_le_bytes(found[at..at + 8].try_into().expect("8 bytes"));
        let (version, of) = (word(0), word(8));
        let found = if found.iter().all(|&byte| byte == 0) {
            "zeros".to_owned()
        } else if holds(of, version, found) {
            format!("version {version} of block {of}")
        } else {
            "what nobody has ever written".to_owned()
        };
        format!("block {lba} should be {block:?} and holds {found}")
    }
}

/// The content of a version of a block; the first words name them.
fn content(lba: u64, version: u64, bytes: usize) -> Vec<u8> {
    if version == 0 {
        return vec![0; bytes];
    }
    let mut content = pattern(version << 16 ^ lba, bytes);
    content[..8].copy_from_slice(&version.to_le_bytes());
    content[8..16].copy_from_slice(&lba.to_le_bytes());
    content
}

fn holds(lba: u64, version: u64, found: &[u8]) -> bool {
    found == content(lba, version, found.len())
}
