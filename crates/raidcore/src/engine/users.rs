//! Users' requests that are under way: how far each is cut into parts, and what its parts came to.
//!
//! Invariants: a request ends once, when it is cut to its end and no part is under way; requests that
//! are not held are cut in the order in which they came.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use det::Instant;

use super::{Request, RequestError};
use crate::units::Tag;

/// For how long after a request the users count as busy.
const BUSY: Duration = Duration::from_millis(100);

/// A request under way.
#[derive(Clone, Copy, Debug, Default)]
struct UserRequest {
    request: Option<Request>,
    /// When it came.
    since: Instant,
    /// How many of its blocks are in parts.
    cut: u32,
    /// How many parts are under way.
    parts: u32,
    error: Option<RequestError>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Users {
    requests: Vec<UserRequest>,
    uncut: VecDeque<Tag>,
    /// Those that are not cut on until blocks are released that they wait for.
    held: Vec<Tag>,
    active: u16,
    /// When the latest request came.
    latest: Instant,
}

impl Users {
    /// Room for one request of each of so many tags.
    pub(super) fn new(tags: u16, now: Instant) -> Self {
        Self {
            requests: (0..tags).map(|_| UserRequest::default()).collect(),
            uncut: VecDeque::with_capacity(usize::from(tags)),
            held: Vec::new(),
            active: 0,
            latest: now,
        }
    }

    /// A request has come, and is to be cut after those that are.
    ///
    /// # Panics
    /// If its tag is in use.
    pub(super) fn begin(&mut self, request: Request, now: Instant) {
        let slot = &mut self.requests[usize::from(request.tag.0)];
        assert!(slot.request.is_none(), "the tag of a request is free");
        *slot = UserRequest { request: Some(request), since: now, ..UserRequest::default() };
        self.active += 1;
        self.latest = now;
        self.uncut.push_back(request.tag);
    }

    /// The request that is cut next, and how many of its blocks are cut.
    pub(super) fn first_uncut(&self) -> Option<(Request, u32)> {
        let slot = self.requests[usize::from(self.uncut.front()?.0)];
        Some((slot.request?, slot.cut))
    }

    /// Whether none waits to be cut, unless it is held.
    #[inline]
    pub(super) fn are_cut(&self) -> bool {
        self.uncut.is_empty()
    }

    /// There is a part more of the request that is cut next; so many of its blocks are cut now.
    pub(super) fn add_part(&mut self, tag: Tag, cut: u32) {
        let slot = &mut self.requests[usize::from(tag.0)];
        slot.cut = cut;
        slot.parts += 1;
    }

    /// The first request is cut to its end, or ends without being cut.
    pub(super) fn pop_uncut(&mut self) -> Option<Tag> {
        self.uncut.pop_front()
    }

    /// The first request is not cut on before [`release`](Self::release).
    pub(super) fn hold(&mut self) {
        self.held.extend(self.uncut.pop_front());
    }

    /// Those that were held are cut on, before all others.
    pub(super) fn release(&mut self) {
        while let Some(tag) = self.held.pop() {
            self.uncut.push_front(tag);
        }
    }

    /// A part of a request has ended. If that was the last, the request is to end as is told.
    pub(super) fn part_done(
        &mut self,
        tag: Tag,
        error: Option<RequestError>,
    ) -> Option<Option<RequestError>> {
        let slot = &mut self.requests[usize::from(tag.0)];
        slot.parts -= 1;
        slot.error = slot.error.or(error);
        let cut_whole = slot.request.is_some_and(|request| request.blocks == slot.cut);
        (slot.parts == 0 && cut_whole).then_some(slot.error)
    }

    /// A request ends: its tag is free. Returns what it was, and how long it took.
    pub(super) fn end(&mut self, tag: Tag, now: Instant) -> Option<(Request, Duration)> {
        let slot = mem::take(&mut self.requests[usize::from(tag.0)]);
        self.active -= 1;
        slot.request.map(|request| (request, now - slot.since))
    }

    /// Whether no request is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.active == 0
    }

    /// Whether background work is to spare the users.
    pub(super) fn are_busy(&self, now: Instant) -> bool {
        self.active > 0 || now - self.latest < BUSY
    }

    /// That time, or the one before it at which the users cease to count as busy.
    pub(super) fn or_when_idle(&self, at: Instant, now: Instant) -> Instant {
        let idle_at = self.latest + BUSY;
        if idle_at > now { at.min(idle_at) } else { at }
    }
}
