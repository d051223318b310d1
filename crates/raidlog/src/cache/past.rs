//! Requests that go past the cache, of blocks of which something is held: they wait for trips with these
//! blocks, and later trips wait for them.

use alloc::vec::Vec;
use core::ops::Range;

use raidcore::engine::Request;
use raidcore::units::Tag;

use super::api::Action;

/// The blocks of a request.
pub(super) fn range(request: &Request) -> Range<u64> {
    request.lba.0..request.lba.0.saturating_add(u64::from(request.blocks))
}

/// A request that goes past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    request: Request,
    /// The last write that was acknowledged when it came.
    writes: u64,
    begun: bool,
}

impl Passing {
    pub(super) fn range(&self) -> Range<u64> {
        range(&self.request)
    }

    pub(super) fn writes(&self) -> u64 {
        self.writes
    }
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Past {
    passing: Vec<Passing>,
}

impl Past {
    /// A request has come after so many writes.
    pub(super) fn came(&mut self, request: Request, writes: u64) {
        self.passing.push(Passing { request, writes, begun: false });
    }

    /// Begins those of whose blocks none is on its way home, which `some_leave` tells.
    pub(super) fn begin(&mut self, some_leave: impl Fn(Range<u64>) -> bool, out: &mut Vec<Action>) {
        for passing in self.passing.iter_mut().filter(|passing| !passing.begun) {
            if !some_leave(passing.range()) {
                passing.begun = true;
                out.push(Action::Ask(passing.request));
            }
        }
    }

    /// A user's request has ended: it is returned if it was one of these.
    pub(super) fn ended(&mut self, tag: Tag) -> Option<Passing> {
        let at = self.passing.iter().position(|p| p.request.tag == tag && p.begun)?;
        Some(self.passing.swap_remove(at))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.passing.is_empty()
    }

    /// Whether a block must not go home now.
    pub(super) fn covers(&self, lba: u64) -> bool {
        self.passing.iter().any(|passing| passing.range().contains(&lba))
    }
}
