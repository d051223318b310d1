//! Users: their requests, and the answers.

use raidcore::engine::{Input, Op, Request, RequestError};
use raidcore::units::{Lba, Tag};

use crate::checks;
use crate::model::content;
use crate::under_way::Outstanding;
use crate::world::World;

impl World {
    /// Submits a new request, if a tag is free; returns whether it did.
    pub(crate) fn submit(&mut self) -> bool {
        let Some(tag) = self.requests.iter().position(Option::is_none) else {
            return false;
        };
        let load = self.scenario.load;
        let capacity = self.model.len();
        let stripe = self.engine().layout().stripe_blocks();
        let most = u64::from(load.blocks).min(capacity);
        let mut blocks = 1 + self.source.below(most);
        let mut lba = self.source.below(capacity - blocks + 1);
        if self.source.chance(1, 2) {
            // Some stripes are written again and again.
            lba %= load.hot;
        }
        if load.whole > 0 && stripe <= most && self.source.chance(1, load.whole) {
            lba -= lba % stripe;
            blocks = stripe;
        }
        let lba = lba.min(capacity - blocks);
        let op = self.source.weighted(&[
            (Op::Read, load.read),
            (Op::Write, load.write),
            (Op::Flush, load.flush),
            (Op::Discard, load.discard),
            (Op::WriteZeroes, load.zeroes),
        ]);
        let fua = load.fua > 0 && self.source.chance(1, load.fua);
        let tag = Tag(tag as u16);
        self.begin_request(Request { tag, op, lba: Lba(lba), blocks: blocks as u32, fua });
        true
    }

    pub(crate) fn begin_request(&mut self, request: Request) {
        let tag = usize::from(request.tag.0);
        let begun = self.model.now();
        let mut version = 0;
        match request.op {
            Op::Write => {
                self.versions += 1;
                version = self.versions;
                let lbas = request.lba.0..request.lba.0 + u64::from(request.blocks);
                for (block, lba) in self.memory.payload[tag].iter_mut().zip(lbas) {
                    *block = content(lba, version);
                }
            }
            Op::Read => self.memory.payload[tag].fill([0xee; _]),
            Op::Flush | Op::Discard | Op::WriteZeroes => {}
        }
        if matches!(request.op, Op::Write | Op::Discard | Op::WriteZeroes) {
            for lba in lbas(&request) {
                self.model.begin(lba, version, begun);
            }
        }
        let full = match self.requests.iter().all(Option::is_none) {
            true => self.engine().counters().unjournaled_writes,
            false => self.settled_full,
        };
        self.trace(format_args!("{request:?} of version {version}"));
        self.requests[tag] = Some(Outstanding { request, begun, full, survey: false });
        self.step(Input::Request(request));
    }

    /// Begins to read the whole array, whatever the limits of users.
    pub(crate) fn begin_survey(&mut self) {
        let blocks = self.model.len() as u32;
        let request = Request { tag: Tag(0), op: Op::Read, lba: Lba(0), blocks, fua: false };
        let begun = self.model.now();
        self.requests[0] = Some(Outstanding { request, begun, full: 0, survey: true });
        self.step(Input::Request(request));
    }

    /// Flushes all.
    pub(crate) fn begin_flush(&mut self) {
        self.begin_request(Request {
            tag: Tag(0),
            op: Op::Flush,
            lba: Lba(0),
            blocks: 0,
            fua: false,
        });
    }

    pub(crate) fn completed(&mut self, tag: Tag, result: Result<(), RequestError>) {
        self.trace(format_args!("complete {tag:?}: {result:?}"));
        self.digest.add(u64::from(tag.0) << 1 | u64::from(result.is_ok()));
        let done = self.requests[usize::from(tag.0)].take().expect("a request under way");
        checks::leaks::is_given_back(self, tag);
        let Outstanding { request, begun, full, survey } = done;
        if self.beyond {
            self.results.push(result);
        } else {
            checks::content::no_error(self, &request, result);
        }
        let oldest = self.requests.iter().flatten().map(|r| r.begun).min().unwrap_or(u64::MAX);
        match request.op {
            Op::Read if result.is_ok() && !survey => {
                checks::content::read(self, &request, begun);
            }
            Op::Read => {}
            Op::Flush if result.is_ok() => {
                self.model.flushed(begun, oldest);
                self.adopted.retain(|_, &mut at| at > begun);
                self.settled_full = self.settled_full.max(full);
                checks::ordering::flushed(self);
            }
            Op::Flush => {}
            Op::Write | Op::Discard | Op::WriteZeroes => {
                if result.is_err() && self.engine().counters().unjournaled_writes > 0 {
                    self.refused.extend(lbas(&request));
                }
                for lba in lbas(&request) {
                    self.model.end(lba, begun, result.is_ok(), request.fua, oldest);
                }
                if request.fua && request.op == Op::Write && result.is_ok() {
                    checks::ordering::written_through(self, &request, begun);
                }
            }
        }
        self.summary.requests += u64::from(result.is_ok() && !survey);
        self.summary.errors += u64::from(result.is_err());
    }
}

/// The blocks of a request.
pub(crate) fn lbas(request: &Request) -> std::ops::Range<u64> {
    request.lba.0..request.lba.0 + u64::from(request.blocks)
}
