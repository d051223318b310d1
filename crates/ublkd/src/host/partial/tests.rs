use det::Prng;

use super::*;

const BLOCKS: usize = 12;
const BUFFER_BLOCKS: usize = 6;

/// What the engine has been asked for.
struct Asked {
    tag: Tag,
    submit: Submit,
    /// It has had its effect, but has not been completed.
    is_done: bool,
}

/// Requests over blocks in memory, which take effect at any time between submission and completion.
struct World {
    partials: Partials,
    disk: Vec<u8>,
    in_flight: Vec<Option<Submit>>,
    buffers: Vec<Vec<u8>>,
    engine: Vec<Asked>,
    answers: Vec<(Tag, Result<(), RequestError>)>,
}

struct Tags<'a>(&'a [Option<Submit>], &'a mut [Vec<u8>]);

impl Table for Tags<'_> {
    fn tags(&self) -> u16 {
        self.0.len() as u16
    }

    fn asked(&self, tag: Tag) -> Option<Submit> {
        self.0[usize::from(tag.0)]
    }

    fn buffer(&mut self, tag: Tag) -> &mut [u8] {
        &mut self.1[usize::from(tag.0)]
    }
}

impl World {
    fn new(tags: usize) -> Self {
        Self {
            partials: Partials::default(),
            disk: (0..BLOCKS * BLOCK_BYTES).map(|at| at as u8).collect(),
            in_flight: vec![None; tags],
            buffers: vec![vec![0xee; BUFFER_BLOCKS * BLOCK_BYTES]; tags],
            engine: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn submit(&mut self, tag: u16, submit: Submit) {
        let before = self.in_flight[usize::from(tag)].replace(submit);
        assert_eq!(before, None);
        if self.partials.lets_pass(submit) {
            self.engine.push(Asked { tag: Tag(tag), submit, is_done: false });
        } else {
            self.partials.came(Tag(tag), submit);
        }
        self.follow_up();
    }

    fn follow_up(&mut self) {
        loop {
            let mut table = Tags(&self.in_flight, &mut self.buffers);
            match self.partials.next(&mut table) {
                None => return,
                Some(Todo::Ask(tag, submit)) => {
                    assert!(submit.edges.is_none());
                    self.engine.push(Asked { tag, submit, is_done: false });
                }
                Some(Todo::Answer(tag, result)) => self.answer(tag, result),
            }
        }
    }

    fn answer(&mut self, tag: Tag, result: Result<(), RequestError>) {
        self.in_flight[usize::from(tag.0)].take().expect("it is under way");
        self.answers.push((tag, result));
    }

    fn take_effect(&mut self, at: usize) {
        let Asked { tag, submit, is_done } = &mut self.engine[at];
        if std::mem::replace(is_done, true) {
            return;
        }
        let start = submit.lba.0 as usize * BLOCK_BYTES;
        let disk = &mut self.disk[start..][..submit.blocks as usize * BLOCK_BYTES];
        let buffer = &mut self.buffers[usize::from(tag.0)];
        match submit.op {
            Op::Read => buffer[..disk.len()].copy_from_slice(disk),
            Op::Write => disk.copy_from_slice(&buffer[..disk.len()]),
            Op::Discard | Op::WriteZeroes => disk.fill(0),
            Op::Flush => {}
        }
    }

    fn end(&mut self, at: usize, result: Result<(), RequestError>) {
        if result.is_ok() {
            self.take_effect(at);
        }
        let Asked { tag, .. } = self.engine.remove(at);
        if self.partials.is_empty() || !self.partials.ended(tag, result) {
            self.answer(tag, result);
        }
        self.follow_up();
    }

    fn asked(&self) -> Vec<(u16, Op, u64, u32)> {
        let asked = self.engine.iter();
        asked.map(|a| (a.tag.0, a.submit.op, a.submit.lba.0, a.submit.blocks)).collect()
    }
}

/// What changes these bytes.
fn change(op: Op, bytes: std::ops::Range<usize>) -> Submit {
    let (first, end) = (bytes.start / BLOCK_BYTES, bytes.end.div_ceil(BLOCK_BYTES));
    let edges = Edges {
        front: (bytes.start - first * BLOCK_BYTES) as u16,
        back: (end * BLOCK_BYTES - bytes.end) as u16,
    };
    Submit { op, lba: Lba(first as u64), blocks: (end - first) as u32, fua: true, edges }
}

#[test]
fn a_whole_write_waits_for_a_part_and_a_part_for_a_whole_write() {
    let mut world = World::new(4);
    world.submit(0, change(Op::Write, 4096..8192));
    world.submit(1, change(Op::Write, 5000..5100));
    world.submit(2, change(Op::Write, 0..3 * 4096));
    world.submit(3, change(Op::Write, 4 * 4096..5 * 4096));
    let (whole, other) = ((0, Op::Write, 1, 1), (3, Op::Write, 4, 1));
    assert_eq!(world.asked(), [whole, other], "what does not overlap waits for nothing");
    world.end(0, Ok(()));
    assert_eq!(world.asked(), [other, (1, Op::Read, 1, 1)]);
    world.end(1, Ok(()));
    assert_eq!(world.asked(), [other, (1, Op::Write, 1, 1)]);
    world.end(1, Ok(()));
    assert_eq!(world.asked(), [other, (2, Op::Write, 0, 3)]);
    world.end(1, Ok(()));
    world.end(0, Ok(()));
    assert_eq!(world.answers.iter().map(|(tag, _)| tag.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(world.partials.is_empty());
}

#[test]
fn reads_and_flushes_wait_for_nothing() {
    let mut world = World::new(3);
    world.submit(0, change(Op::Write, 10..20));
    world.submit(1, Submit { op: Op::Read, ..change(Op::Read, 0..4096) });
    world.submit(2, Submit { op: Op::Flush, ..change(Op::Flush, 0..0) });
    assert_eq!(world.engine.len(), 3);
}

#[test]
fn an_error_of_any_part_is_the_request_s_and_keeps_nothing_else() {
    for failing in 0..3 {
        let mut world = World::new(2);
        world.submit(0, change(Op::Write, 10..4096 + 20));
        world.submit(1, change(Op::Write, 30..40));
        for _ in 0..failing {
            world.end(0, Ok(()));
        }
        world.end(0, Err(RequestError::Io));
        assert_eq!(world.answers, [(Tag(0), Err(RequestError::Io))], "part {failing}");
        world.end(0, Ok(()));
        world.end(0, Ok(()));
        assert_eq!(world.answers.last(), Some(&(Tag(1), Ok(()))));
        assert!(world.partials.is_empty());
    }
}

/// Users with ranges of their own, in blocks that they share, find there what they wrote.
#[test]
fn users_of_one_block_don_t_undo_each_other() {
    for seed in 0..300 {
        let mut rng = Prng::new(seed);
        let users = 1 + rng.below(9) as usize;
        let mut world = World::new(users);
        let mut cuts: Vec<usize> =
            (1..users).map(|_| rng.below((BLOCKS * BLOCK_BYTES) as u64) as usize).collect();
        cuts.extend([0, BLOCKS * BLOCK_BYTES]);
        cuts.sort_unstable();
        let mut wanted = world.disk.clone();
        let mut left = 200;
        while left > 0 || !world.engine.is_empty() {
            let user = rng.below(users as u64) as usize;
            let own = cuts[user]..cuts[user + 1];
            if left > 0 && world.in_flight[user].is_none() && !own.is_empty() {
                left -= 1;
                let start = own.start + rng.below(own.len() as u64) as usize;
                let most = (own.end - start).min((BUFFER_BLOCKS - 1) * BLOCK_BYTES);
                let bytes = start..start + 1 + rng.below(most as u64) as usize;
                let op = [Op::Write, Op::WriteZeroes, Op::Discard][rng.below(3) as usize];
                let value = if op == Op::Write { 1 + rng.below(255) as u8 } else { 0 };
                let submit = change(op, bytes.clone());
                world.buffers[user].fill(0xee);
                world.buffers[user][submit.edges.within(submit.blocks)].fill(value);
                wanted[bytes].fill(value);
                world.submit(user as u16, submit);
            }
            if !world.engine.is_empty() {
                let at = rng.below(world.engine.len() as u64) as usize;
                if rng.below(2) == 0 {
                    world.take_effect(at);
                } else {
                    world.end(at, Ok(()));
                }
            }
        }
        assert!(world.partials.is_empty() && world.in_flight.iter().all(Option::is_none));
        assert!(world.disk == wanted, "seed {seed}");
    }
}
