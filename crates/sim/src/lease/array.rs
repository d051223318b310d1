//! The array that a host runs while it holds the lease: what it waits for before it answers.

use std::collections::BTreeSet;

use raidcore::units::{MemberId, Set};

use super::fabric::{Op, Record, Said};

/// A user's request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) number: u32,
    pub(super) is_write: bool,
    /// How many writes were acknowledged when it began.
    pub(super) acked: usize,
    /// Members that have not answered.
    left: Set<MemberId>,
    /// What a read has found.
    pub(super) found: BTreeSet<u32>,
}

/// What the array is doing besides.
#[derive(Debug)]
enum Doing {
    /// Reads what members have.
    Loads(Set<MemberId>),
    /// Writes its record.
    Records(Set<MemberId>),
    /// Copies all to a member.
    Copies(MemberId),
    Serves,
}

/// An array that is started or serves.
#[derive(Debug)]
pub(super) struct Array {
    epoch: u64,
    least: usize,
    doing: Doing,
    loaded: Vec<(MemberId, Record, BTreeSet<u32>)>,
    pub(super) record: Record,
    /// Whether the record differs from what is being written.
    changed: bool,
    pub(super) requests: Vec<Request>,
    /// What is to be submitted.
    pub(super) ops: Vec<(MemberId, Op)>,
    pub(super) dropped: u64,
    pub(super) returned: u64,
}

/// The array can't go on.
#[derive(Debug)]
pub(super) struct Failed;

impl Array {
    /// Begins to start it from these members.
    pub(super) fn start(record: Record, from: Set<MemberId>, epoch: u64, least: usize) -> Self {
        Self {
            epoch,
            least,
            doing: Doing::Loads(from),
            loaded: Vec::new(),
            record,
            changed: false,
            requests: Vec::new(),
            ops: from.map(|member| (member, Op::Read(0))).collect(),
            dropped: 0,
            returned: 0,
        }
    }

    /// Whether users are served.
    pub(super) fn serves(&self) -> bool {
        matches!(self.doing, Doing::Serves)
    }

    /// Whether it has read what members have.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.doing, Doing::Loads(_))
    }

    /// What the members that serve were found to have, once, when all was read.
    pub(super) fn loaded(&mut self) -> Vec<(MemberId, BTreeSet<u32>)> {
        if !self.has_begun() {
            return Vec::new();
        }
        let serve = self.record.serve;
        let loaded = std::mem::take(&mut self.loaded).into_iter();
        loaded.filter(|of| serve.has(of.0)).map(|(member, _, written)| (member, written)).collect()
    }

    /// A user writes to all members, or reads from one.
    pub(super) fn request(&mut self, number: u32, is_write: bool, acked: usize, from: usize) {
        let serve = self.record.serve;
        let one = serve.into_iter().nth(from % serve.len()).map_or(Set::EMPTY, Set::one);
        let left = if is_write { serve } else { one };
        let op = if is_write { Op::Write(number) } else { Op::Read(number) };
        self.ops.extend(left.map(|member| (member, op.clone())));
        self.requests.push(Request { number, is_write, acked, left, found: BTreeSet::new() });
    }

    /// A member that was dropped comes back as a new device.
    pub(super) fn take_back(&mut self, member: MemberId, all: BTreeSet<u32>) {
        if self.serves() && self.requests.is_empty() && !self.record.serve.has(member) {
            self.doing = Doing::Copies(member);
            self.ops.push((member, Op::Copy(all)));
        }
    }

    /// Requests that can be answered: all has happened that they wait for.
    pub(super) fn done(&mut self) -> Vec<Request> {
        if !self.serves() {
            return Vec::new();
        }
        self.requests.extract_if(.., |request| request.left.is_empty()).collect()
    }

    /// A member has answered. Returns a member that is new if one is.
    pub(super) fn answered(
        &mut self,
        member: MemberId,
        op: &Op,
        said: Said,
    ) -> Result<Option<MemberId>, Failed> {
        if let (Doing::Loads(left), Op::Read(0)) = (&mut self.doing, op) {
            *left = left.without(member);
            let is_over = left.is_empty();
            if let Said::Read(record, written) = said {
                self.loaded.push((member, record, written));
            }
            return if is_over { self.begin().map(|()| None) } else { Ok(None) };
        }
        if matches!(said, Said::Failed) {
            if matches!(op, Op::Copy(_)) {
                if self.copies(member) {
                    self.doing = Doing::Serves;
                }
                return Ok(None);
            }
            return self.drop_member(member).map(|()| None);
        }
        match (op, said) {
            (Op::Copy(_), _) if self.copies(member) => {
                self.record.serve = self.record.serve.with(member);
                self.returned += 1;
                self.write_record();
                return Ok(Some(member));
            }
            (Op::Record(_), _) => self.recorded(member),
            (Op::Write(number), _) => {
                if let Some(request) = self.find(*number) {
                    request.left = request.left.without(member);
                }
            }
            (Op::Read(number), Said::Read(_, found)) => {
                if let Some(request) = self.find(*number) {
                    (request.left, request.found) = (Set::EMPTY, found);
                }
            }
            _ => {}
        }
        Ok(None)
    }

    fn find(&mut self, number: u32) -> Option<&mut Request> {
        self.requests.iter_mut().find(|request| request.number == number)
    }

    fn copies(&self, to: MemberId) -> bool {
        matches!(self.doing, Doing::Copies(member) if member == to)
    }

    /// All was read: the newest record counts, and who is not there is dropped.
    fn begin(&mut self) -> Result<(), Failed> {
        let newest = self.loaded.iter().max_by_key(|(_, record, _)| record.version());
        let Some((_, record, _)) = newest else { return Err(Failed) };
        let there: Set<MemberId> = self.loaded.iter().map(|of| of.0).collect();
        self.record = record.clone();
        self.record.serve = record.serve.and(there);
        if self.record.serve.len() < self.least {
            return Err(Failed);
        }
        self.write_record();
        Ok(())
    }

    fn drop_member(&mut self, member: MemberId) -> Result<(), Failed> {
        if !self.record.serve.has(member) {
            return Ok(());
        }
        let serve = self.record.serve.without(member);
        if serve.len() < self.least {
            return Err(Failed);
        }
        self.record.serve = serve;
        self.dropped += 1;
        self.changed = true;
        // A read of it is not answered at all.
        self.requests.retain(|request| request.is_write || !request.left.has(member));
        for request in &mut self.requests {
            request.left = request.left.without(member);
        }
        if matches!(self.doing, Doing::Records(_)) {
            self.recorded(member);
        } else {
            self.write_record();
        }
        Ok(())
    }

    /// A member has the record, or is out. One version is written at a time.
    fn recorded(&mut self, member: MemberId) {
        if let Doing::Records(left) = &mut self.doing {
            *left = left.without(member);
            if left.is_empty() && self.changed {
                self.write_record();
            } else if left.is_empty() {
                self.doing = Doing::Serves;
            }
        }
    }

    fn write_record(&mut self) {
        self.record.events += 1;
        self.record.epoch = self.epoch;
        self.changed = false;
        self.doing = Doing::Records(self.record.serve);
        let record = &self.record;
        self.ops.extend(record.serve.map(|member| (member, Op::Record(record.clone()))));
    }
}
