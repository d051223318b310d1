//! Users of a log volume: their requests, the answers, and whether these are right.

use raidcore::engine::{Op, Request, RequestError};
use raidcore::units::{Lba, Tag};

use super::scenario::LogScenario;
use crate::disk::Data;
use crate::model::{Model, content, version_of};
use crate::source::Source;

/// A request under way.
struct Outstanding {
    request: Request,
    /// When it began, by the model's clock.
    begun: u64,
    /// It reads the whole volume, and the caller checks the bytes.
    survey: bool,
}

/// See the [module](self).
pub(crate) struct Users {
    /// The buffers of requests, by tag. Each has room for the whole volume.
    pub(crate) payloads: Vec<Vec<Data>>,
    requests: Vec<Option<Outstanding>>,
    pub(crate) model: Model,
    versions: u64,
    /// How the reading of the whole volume ended.
    surveyed: Option<bool>,
    /// Requests that ended without and with an error.
    pub(crate) ended: (u64, u64),
}

impl Users {
    pub(crate) fn new(tags: u16, capacity: u64) -> Self {
        let tags = usize::from(tags);
        Self {
            payloads: vec![vec![[0; _]; capacity as usize]; tags],
            requests: (0..tags).map(|_| None).collect(),
            model: Model::new(capacity, 0),
            versions: 0,
            surveyed: None,
            ended: (0, 0),
        }
    }

    fn capacity(&self) -> u64 {
        self.payloads[0].len() as u64
    }

    /// Some request that is under way.
    pub(crate) fn waiting(&self) -> Option<Request> {
        self.requests.iter().flatten().next().map(|outstanding| outstanding.request)
    }

    pub(crate) fn is_under_way(&self, tag: Tag) -> bool {
        self.requests[usize::from(tag.0)].is_some()
    }

    /// The submitter is gone.
    pub(crate) fn forget(&mut self) {
        self.requests.iter_mut().for_each(|request| *request = None);
    }

    /// A new request, if a tag is free.
    pub(crate) fn draw(&self, source: &mut Source, load: &LogScenario) -> Option<Request> {
        let tag = Tag(self.requests.iter().position(Option::is_none)? as u16);
        let capacity = self.capacity();
        let most = u64::from(load.blocks).min(capacity);
        let blocks = 1 + source.below(most);
        let mut lba = source.below(capacity);
        if source.chance(1, 2) {
            lba %= load.hot;
        }
        let lba = Lba(lba.min(capacity - blocks));
        let op = source.weighted(&[
            (Op::Read, load.read),
            (Op::Write, load.write),
            (Op::Flush, load.flush),
            (Op::Discard, load.discard),
            (Op::WriteZeroes, load.discard),
        ]);
        let fua = load.fua > 0 && source.chance(1, load.fua);
        Some(Request { tag, op, lba, blocks: blocks as u32, fua })
    }

    /// A request begins.
    pub(crate) fn begin(&mut self, request: Request) {
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
    }

    /// A read of the whole volume begins.
    pub(crate) fn begin_survey(&mut self) -> Request {
        let blocks = self.capacity() as u32;
        let request = Request { tag: Tag(0), op: Op::Read, lba: Lba(0), blocks, fua: false };
        let begun = self.model.now();
        self.requests[0] = Some(Outstanding { request, begun, survey: true });
        self.surveyed = None;
        request
    }

    /// The version of each block; nothing if the read has failed.
    pub(crate) fn surveyed(&self) -> Option<Vec<u64>> {
        let version = |(lba, block): (u64, &Data)| version_of(lba, block);
        (self.surveyed == Some(true)).then(|| (0..).zip(&self.payloads[0]).map(version).collect())
    }

    /// A request has ended. `excused` says whether an error is allowed.
    pub(crate) fn completed(
        &mut self,
        tag: Tag,
        result: Result<(), RequestError>,
        excused: impl FnOnce(Op) -> bool,
    ) {
        let done = self.requests[usize::from(tag.0)].take().expect("a request under way");
        let Outstanding { request, begun, survey } = done;
        let ok = result.is_ok();
        assert!(
            ok || excused(request.op),
            "{request:?} ended with {result:?}, but nothing has failed"
        );
        self.ended.0 += u64::from(ok && !survey);
        self.ended.1 += u64::from(!ok);
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

    /// A read that began at `begun` returns content from some moment since.
    fn check_read(&self, request: &Request, begun: u64) {
        let payload = &self.payloads[usize::from(request.tag.0)];
        for (lba, block) in lbas(request).zip(payload) {
            self.check(lba, version_of(lba, block), begun);
        }
    }

    /// Checks that the content found at a block was there at some moment since `begun`.
    pub(crate) fn check(&self, lba: u64, found: u64, begun: u64) {
        let readable = self.model.is_readable(lba, found, begun);
        assert!(readable, "{found} is at {lba}: {}", self.model.describe(lba));
    }
}

/// The blocks of a request.
fn lbas(request: &Request) -> std::ops::Range<u64> {
    request.lba.0..request.lba.0 + u64::from(request.blocks)
}
