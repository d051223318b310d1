//! Users: what they ask for, what they were told, and whether it is true.

use raidcore::engine::{Op, Request, RequestError};
use raidcore::units::{Lba, Tag};
use raidlog::Input;

use super::world::World;
use crate::disk::Data;
use crate::model::{content, version_of};

/// A request under way.
pub(super) struct Outstanding {
    pub(super) request: Request,
    /// When it began, by the model's clock.
    begun: u64,
    /// It is a reading of the whole volume, whose bytes are checked by whoever asked for it.
    survey: bool,
}

impl World {
    /// Asks for something new, if a tag is free; returns whether it did.
    pub(super) fn submit(&mut self) -> bool {
        let Some(tag) = self.requests.iter().position(Option::is_none) else {
            return false;
        };
        let capacity = self.shape.capacity();
        let most = u64::from(self.scenario.blocks).min(capacity);
        let blocks = 1 + self.source.below(most);
        let mut lba = self.source.below(capacity);
        if self.source.chance(1, 2) {
            lba %= self.scenario.hot;
        }
        let lba = lba.min(capacity - blocks);
        let load = &self.scenario;
        let op = self.source.weighted(&[
            (Op::Read, load.read),
            (Op::Write, load.write),
            (Op::Flush, load.flush),
            (Op::Discard, load.discard),
            (Op::WriteZeroes, load.discard),
        ]);
        let fua = self.scenario.fua > 0 && self.source.chance(1, self.scenario.fua);
        let tag = Tag(tag as u16);
        self.ask(Request { tag, op, lba: Lba(lba), blocks: blocks as u32, fua });
        true
    }

    pub(super) fn ask(&mut self, request: Request) {
        let tag = usize::from(request.tag.0);
        let begun = self.model.now();
        let mut version = 0;
        match request.op {
            Op::Write => {
                self.versions += 1;
                version = self.versions;
                for (block, lba) in self.payloads[tag].iter_mut().zip(lbas(&request)) {
                    *block = content(lba, version);
                }
            }
            Op::Read => self.payloads[tag].fill([0xee; _]),
            Op::Flush | Op::Discard | Op::WriteZeroes => {}
        }
        if matches!(request.op, Op::Write | Op::Discard | Op::WriteZeroes) {
            for lba in lbas(&request) {
                self.model.begin(lba, version, begun);
            }
        }
        self.requests[tag] = Some(Outstanding { request, begun, survey: false });
        self.step(Input::Request(request));
    }

    /// Reads the whole volume: the version of each block, or nothing if a read has failed.
    pub(super) fn survey(&mut self) -> Option<Vec<u64>> {
        let blocks = self.shape.capacity() as u32;
        let request = Request { tag: Tag(0), op: Op::Read, lba: Lba(0), blocks, fua: false };
        let begun = self.model.now();
        self.requests[0] = Some(Outstanding { request, begun, survey: true });
        self.surveyed = None;
        let calm = std::mem::replace(&mut self.calm, true);
        self.step(Input::Request(request));
        self.drain();
        self.calm = calm;
        let version = |(lba, block): (u64, &Data)| version_of(lba, block);
        (self.surveyed == Some(true)).then(|| (0..).zip(&self.payloads[0]).map(version).collect())
    }

    pub(super) fn completed(&mut self, tag: Tag, result: Result<(), RequestError>) {
        self.digest.add(u64::from(tag.0) << 1 | u64::from(result.is_ok()));
        let done = self.requests[usize::from(tag.0)].take().expect("a request under way");
        let Outstanding { request, begun, survey } = done;
        let excused = match request.op {
            Op::Read => self.read_faults > 0,
            Op::Write | Op::Flush | Op::Discard | Op::WriteZeroes => self.write_fault,
        };
        let ok = result.is_ok();
        assert!(ok || excused, "{request:?} ended with {result:?}, but nothing has failed");
        self.summary.requests += u64::from(ok && !survey);
        self.summary.errors += u64::from(!ok);
        let oldest = self.requests.iter().flatten().map(|r| r.begun).min().unwrap_or(u64::MAX);
        match request.op {
            Op::Read if survey => self.surveyed = Some(ok),
            Op::Read if ok => self.check_read(&request, begun),
            Op::Flush if ok => self.model.flushed(begun, oldest),
            Op::Read | Op::Flush => {}
            Op::Write | Op::Discard | Op::WriteZeroes => {
                for lba in lbas(&request) {
                    self.model.end(lba, begun, ok, request.fua, oldest);
                }
            }
        }
    }

    /// A read that began at `begun` returns what was there at some moment since.
    fn check_read(&self, request: &Request, begun: u64) {
        let payload = &self.payloads[usize::from(request.tag.0)];
        for (lba, block) in lbas(request).zip(payload) {
            let found = version_of(lba, block);
            assert!(
                self.model.is_readable(lba, found, begun),
                "{request:?} found {found} at {lba}: {}",
                self.model.describe(lba)
            );
        }
    }
}

/// The blocks of a request.
fn lbas(request: &Request) -> std::ops::Range<u64> {
    request.lba.0..request.lba.0 + u64::from(request.blocks)
}
