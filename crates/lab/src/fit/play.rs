//! A plan on a modelled drive, in virtual time.

use std::time::Duration;

use det::{Instant, Prng};
use flashsim::{Command, Op, Ssd};
use raidcore::units::BLOCK_BYTES;

use super::recording::{Load, Plan, Recorded, Recording, Sample, Step};

/// Plays a plan on a drive that nothing was asked of yet. Equal drives, plans and seeds give equal recordings.
#[must_use]
pub fn play(ssd: &mut Ssd, plan: &Plan, seed: u64) -> Recording {
    let sizes = *ssd.geometry();
    let has = u64::from(sizes.logical_pages) * u64::from(sizes.page_bytes) / BLOCK_BYTES as u64;
    let blocks = plan.blocks.min(has);
    let mut player = Player::new(ssd, seed);
    let mut area = blocks;
    let mut steps = Vec::new();
    for &(step, seconds) in &plan.steps {
        let recorded = player.step(step, seconds, area, Recording::SAMPLES_MAX);
        if step == Step::Fill {
            let filled = recorded.samples.len() as u64 * u64::from(step.load().blocks);
            area = filled.clamp(1, blocks);
        }
        steps.push(recorded);
    }
    Recording { blocks: has, area, steps }
}

/// A drive, and the time.
pub(super) struct Player<'a> {
    ssd: &'a mut Ssd,
    now: Instant,
    prng: Prng,
    page: u32,
}

impl<'a> Player<'a> {
    /// Takes a drive that nothing was asked of yet.
    pub(super) fn new(ssd: &'a mut Ssd, seed: u64) -> Self {
        let page = ssd.geometry().page_bytes;
        Self { ssd, now: Instant::ORIGIN, prng: Prng::new(seed), page }
    }

    /// Plays a step of at most so many seconds and requests on the first `area` blocks.
    pub(super) fn step(&mut self, step: Step, seconds: f64, area: u64, most: usize) -> Recorded {
        let load = step.load();
        let began = self.now;
        let until = began + Duration::from_secs_f64(seconds);
        if load.readers + load.writers == 0 {
            self.idle(until);
            return Recorded { step, seconds, samples: Vec::new() };
        }
        let mut samples = Vec::new();
        // What each place has under way began then; writers come after readers.
        let mut begun = vec![began; (load.readers + load.writers) as usize];
        let mut next = 0;
        let mut under_way = 0;
        for place in 0..begun.len() {
            under_way += usize::from(self.begin(place, load, area, &mut next));
        }
        let (mut ended, mut stopped) = (Vec::new(), None);
        while under_way > 0 {
            let Some(at) = self.ssd.next() else { break };
            self.now = self.now.max(at);
            self.ssd.poll(at, &mut ended);
            for done in ended.drain(..) {
                under_way -= 1;
                let place = done.tag as usize;
                let (at, took) = (begun[place] - began, done.latency);
                let read = place < load.readers as usize;
                samples.push(Sample { at: nanos(at), took: nanos(took), read });
                let goes_on = self.now < until && samples.len() + under_way < most;
                begun[place] = self.now;
                if goes_on && self.begin(place, load, area, &mut next) {
                    under_way += 1;
                } else {
                    stopped.get_or_insert(self.now);
                }
            }
        }
        let seconds = (stopped.unwrap_or(until) - began).as_secs_f64();
        Recorded { step, seconds, samples }
    }

    /// Begins the next request of a place; not if all of the area was written in sequence.
    fn begin(&mut self, place: usize, load: Load, area: u64, next: &mut u64) -> bool {
        let read = place < load.readers as usize;
        let block = match load.in_sequence {
            true if *next + u64::from(load.blocks) > area => return false,
            true => core::mem::replace(next, *next + u64::from(load.blocks)),
            false => self.prng.below(area),
        };
        let (first, bytes) = (block * BLOCK_BYTES as u64, load.blocks * BLOCK_BYTES as u32);
        let page = first / u64::from(self.page);
        let end = (first + u64::from(bytes)).div_ceil(u64::from(self.page));
        let op = if read { Op::Read } else { Op::Write };
        let (page, pages) = (page as u32, (end - page) as u32);
        let command = Command { tag: place as u64, op, page, pages, stream: 0 };
        self.ssd.submit(self.now, command).is_ok()
    }

    /// Lets time pass.
    fn idle(&mut self, until: Instant) {
        let mut ended = Vec::new();
        while let Some(at) = self.ssd.next().filter(|at| *at <= until) {
            self.ssd.poll(at, &mut ended);
        }
        self.now = until;
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
