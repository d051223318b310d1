//! Users' requests: cut into stripes, put together again.

use alloc::vec::Vec;

use crate::engine::stage::Turn;
use crate::engine::work::Work;
use crate::engine::{Action, CommandError, Engine, JobId, Op, Phase, Request, RequestError};
use crate::plan::Piece;
use crate::units::{Lba, Mem, Tag};

/// How far a request was cut.
enum Cut {
    /// All of it is in parts.
    Whole,
    /// There is no room for another job.
    NoRoom,
    /// The next of its blocks are held.
    Held,
}

impl Engine {
    pub(in crate::engine) fn request(&mut self, request: Request, out: &mut Vec<Action>) {
        let tag = request.tag;
        let refusal = if self.is_stopping() {
            Some(RequestError::Stopping)
        } else if self.phase == Phase::Broken {
            Some(RequestError::Io)
        } else {
            (!self.is_within(&request)).then_some(RequestError::OutOfRange)
        };
        if let Some(error) = refusal {
            self.array.counters.errors += 1;
            out.push(Action::Complete { tag, result: Err(error) });
            return;
        }
        self.array.users.begin(request, self.now);
        self.cut_waiting(out);
    }

    fn is_within(&self, request: &Request) -> bool {
        let end = request.lba.0.checked_add(u64::from(request.blocks));
        request.op == Op::Flush
            || (request.blocks > 0 && end.is_some_and(|end| end <= self.layout.capacity()))
    }

    /// Cuts requests into jobs as far as there is room for jobs.
    pub(super) fn cut_waiting(&mut self, out: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Serving | Phase::Stopping) {
            return;
        }
        while let Some((request, cut)) = self.array.users.first_uncut() {
            match self.cut(&request, cut, out) {
                Cut::Whole => drop(self.array.users.pop_uncut()),
                Cut::Held => self.array.users.hold(),
                Cut::NoRoom => return,
            }
        }
    }

    /// Cuts a request on, of which `cut` blocks are cut.
    fn cut(&mut self, request: &Request, mut cut: u32, out: &mut Vec<Action>) -> Cut {
        if request.op == Op::Flush {
            self.array.flusher.serve(request.tag);
            self.flush(out);
            return Cut::Whole;
        }
        while cut < request.blocks {
            let at = Lba(request.lba.0 + u64::from(cut));
            let (stripe, offset) = self.layout.locate(at);
            let width = self.layout.of(stripe).stripe_blocks();
            let blocks = (width - offset).min(request.blocks - cut);
            if self.range.reshape.holds(&self.layout, at, blocks) {
                return Cut::Held;
            }
            let work = match request.op {
                Op::Read => Work::Read,
                Op::Discard | Op::WriteZeroes if blocks == width => {
                    Work::Zero { trim: request.op == Op::Discard }
                }
                Op::Write | Op::Discard | Op::WriteZeroes | Op::Flush => Work::Write,
            };
            let Some(job) = self.new_job(work, stripe) else {
                return Cut::NoRoom;
            };
            let in_doubt = work == Work::Read && self.shows_doubt(stripe);
            // A stripe is brought in step for a read that has its job: without one the next attempt
            // would ask for it again, and so on for ever if that fails at once.
            if in_doubt && !self.align(stripe) {
                self.range.jobs.remove(job);
                return Cut::NoRoom;
            }
            if matches!(request.op, Op::Read | Op::Write) {
                self.range.heat.note(stripe);
            }
            self.fill(job, request, cut, offset, blocks);
            if in_doubt {
                self.range.jobs[job].turn = Turn::InLine;
            }
            self.range.jobs[job].log.may_stage = work == Work::Write && self.may_be_staged(stripe);
            cut += blocks;
            self.array.users.add_part(request.tag, cut);
            if in_doubt || work != Work::Read || !self.read_at_once(job, out) {
                self.start_job(job);
            }
        }
        Cut::Whole
    }

    /// Gives a job the pieces of a request that lie in its stripe.
    fn fill(&mut self, job: JobId, request: &Request, cut: u32, offset: u32, blocks: u32) {
        let job = &mut self.range.jobs[job];
        let geo = self.layout.of(job.stripe);
        job.asked.fua = request.fua;
        job.asked.tags.push(request.tag);
        job.asked.blocks = blocks;
        let mut at = offset;
        while at < offset + blocks {
            let (role, row) = geo.chunk_at(at);
            let count = (geo.chunk() - row).min(offset + blocks - at);
            let mem = match request.op {
                Op::Read | Op::Write => Mem::Payload { tag: request.tag, at: cut + (at - offset) },
                Op::Discard | Op::WriteZeroes | Op::Flush => Mem::Zero,
            };
            job.pieces.push(Piece { role, row, blocks: count, mem });
            at += count;
        }
    }

    /// A part of a request has ended.
    pub(super) fn part_done(
        &mut self,
        tag: Tag,
        error: Option<RequestError>,
        out: &mut Vec<Action>,
    ) {
        if let Some(error) = self.array.users.part_done(tag, error) {
            self.complete(tag, error, out);
        }
    }

    /// Ends all requests that wait for the array to serve, which it never will, and the stop.
    pub(super) fn refuse_all(&mut self, out: &mut Vec<Action>) {
        self.array.users.release();
        while let Some(tag) = self.array.users.pop_uncut() {
            self.complete(tag, Some(RequestError::Io), out);
        }
        if let Some(number) = self.array.stop_command.take() {
            self.phase = Phase::Stopped;
            out.push(Action::Answer { number, result: Err(CommandError::NotRecorded) });
        }
    }

    /// Ends a request.
    pub(super) fn complete(
        &mut self,
        tag: Tag,
        error: Option<RequestError>,
        out: &mut Vec<Action>,
    ) {
        let ended = self.array.users.end(tag, self.now);
        match error {
            None => {
                self.array.counters.requests += 1;
                if let Some((request, took)) = ended {
                    let membership = &self.array.membership;
                    self.array.background.request_ended((self.now, request.op, took), || {
                        !membership.impaired
                            || membership.present().len() == membership.of_stripes()
                    });
                }
            }
            Some(_) => self.array.counters.errors += 1,
        }
        out.push(Action::Complete { tag, result: error.map_or(Ok(()), Err) });
    }
}
