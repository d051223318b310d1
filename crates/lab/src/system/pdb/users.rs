//! What users' requests read and write.

use det::Instant;
use flashsim::Op;

use super::recovery::State;
use super::spec::Copies;
use super::{Pdb, Then, on};
use crate::system::Told;
use crate::system::stripes::{Part, Run, merged};

impl Pdb {
    /// Reads blocks of a drive in a row.
    pub(super) fn read(&mut self, now: Instant, tag: u16, run: Run, told: &mut Told) {
        let of_failed = self.recovery.is_some() && run.drive == usize::from(self.spec.failed);
        let mut there = Vec::new();
        for block in run.range() {
            let state = self.state(run.drive, block);
            if of_failed && self.watch.looks() {
                self.watch.read(now, state == State::Whole);
            }
            match state {
                State::Whole => there.push(block),
                State::UnderWay => self.wait_for(block, tag),
                State::Lost => self.read_lost(now, tag, block, told),
            }
        }
        if there.is_empty() {
            return;
        }
        self.users.part_begins(tag);
        let then = match self.popular(now, run, told) {
            blocks if blocks.is_empty() => Then::Answer { tag, whole: Vec::new() },
            blocks => Then::Copy { tag: Some(tag), drive: run.drive, blocks },
        };
        self.job(now, Op::Read, &on(run.drive, &there), then, told);
    }

    /// Counts a read. Returns which of its blocks are to be copied when they have been read.
    fn popular(&mut self, now: Instant, run: Run, told: &mut Told) -> Vec<u64> {
        let mut copied = Vec::new();
        if self.recovery.is_some() || run.drive >= self.zones.len() {
            return copied;
        }
        let region = self.spec.region.0 / self.block;
        for number in run.at / region..=(run.end() - 1) / region {
            let reads = self.popularity.read((run.drive, number));
            if reads < self.spec.threshold || self.spec.zone.0 == 0 {
                continue;
            }
            let all = number * region..(number + 1) * region;
            let is_new = self.zones[run.drive].place(all.start).is_none();
            self.zones[run.drive].add(number);
            let wanted = |block: &u64| !self.is_copied(run.drive, *block);
            match self.spec.copies {
                Copies::Read => {
                    copied.extend(run.range().filter(|at| all.contains(at)).filter(wanted));
                }
                Copies::Region if is_new => {
                    let end = self.layout.blocks_of(run.drive);
                    let blocks: Vec<_> = all.filter(|&block| block < end).collect();
                    let runs = on(run.drive, &blocks);
                    let then = Then::Copy { tag: None, drive: run.drive, blocks };
                    self.job(now, Op::Read, &runs, then, told);
                }
                Copies::Region => {}
            }
        }
        copied
    }

    /// A user's read needs a block that is being rebuilt.
    fn wait_for(&mut self, block: u64, tag: u16) {
        let job = self.rebuilding.get(&block).copied();
        // One that is only being written home is known already.
        if let Some(Then::Known { waiting, .. }) = job.and_then(|job| self.bare.then(job)) {
            self.users.part_begins(tag);
            waiting.push(tag);
        }
    }

    /// A user's read needs a lost block.
    fn read_lost(&mut self, now: Instant, tag: u16, block: u64, told: &mut Told) {
        let failed = usize::from(self.spec.failed);
        let is_copied = self.is_copied(failed, block);
        self.users.part_begins(tag);
        if is_copied && !core::mem::replace(&mut self.from_copies[usize::from(tag)], true) {
            self.steered.copy_reads += 1;
        }
        match self.recovery.as_mut() {
            Some(recovery) if is_copied || self.spec.write_back => {
                let unit = recovery.unit_of(block);
                let blocks = recovery.take(unit);
                self.rebuild(now, blocks, vec![tag], false, told);
            }
            _ => {
                let runs = self.layout.others(failed, block).collect();
                let then = Then::Answer { tag, whole: Vec::new() };
                self.job(now, Op::Read, &merged(runs), then, told);
            }
        }
    }

    /// Writes parts of one stripe.
    pub(super) fn write(&mut self, now: Instant, tag: u16, parts: &[Part], told: &mut Told) {
        self.users.part_begins(tag);
        let mut runs: Vec<_> = parts.iter().map(|&part| self.layout.data_run(part)).collect();
        let parity = self.layout.parity_of_runs(&runs);
        let is_full = parts.len() as u64 == self.layout.data()
            && parts.iter().all(|part| part.blocks == self.layout.chunk);
        let mut old = Vec::new();
        if !is_full {
            for run in runs.iter().chain(&parity) {
                for at in run.range() {
                    if self.state(run.drive, at) == State::Whole {
                        old.push(Run { at, blocks: 1, ..*run });
                    } else {
                        old.extend(self.layout.others(run.drive, at));
                    }
                }
            }
        }
        let copied: Vec<_> = runs
            .iter()
            .flat_map(|run| {
                let copied = run.range().filter(|&at| self.is_copied(run.drive, at));
                self.copies(run.drive, &copied.collect::<Vec<_>>())
            })
            .collect();
        runs.extend(parity);
        let is_failed =
            |run: &&Run| self.recovery.is_some() && run.drive == usize::from(self.spec.failed);
        let whole = runs.iter().filter(is_failed).flat_map(|run| run.range()).collect();
        runs.extend(copied);
        let then = Then::Write { tag, runs, whole };
        self.job(now, Op::Read, &merged(old), then, told);
    }
}
