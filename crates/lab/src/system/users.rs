//! Users' requests of arrays without an engine: each ends when all its parts have.

use super::{Ended, Met, Told};

/// See the [module](self). By tag.
pub(super) struct Users(Vec<User>);

#[derive(Clone, Copy, Default)]
struct User {
    /// Its parts that have not ended.
    left: u32,
    met: Met,
}

impl Users {
    pub(super) fn new(depth: u16) -> Self {
        Self(vec![User::default(); depth.into()])
    }

    pub(super) fn depth(&self) -> u16 {
        self.0.len() as u16
    }

    /// A request has come. That it has is a part, which ends when all others have begun.
    pub(super) fn came(&mut self, tag: u16) {
        self.0[usize::from(tag)] = User { left: 1, met: Met::default() };
    }

    /// A part of it begins.
    pub(super) fn part_begins(&mut self, tag: u16) {
        self.0[usize::from(tag)].left += 1;
    }

    /// Something was in its way.
    pub(super) fn met(&mut self, tag: u16, met: Met) {
        self.0[usize::from(tag)].met |= met;
    }

    /// A part of it has ended.
    pub(super) fn part_ended(&mut self, tag: u16, told: &mut Told) {
        let user = &mut self.0[usize::from(tag)];
        user.left -= 1;
        if user.left == 0 {
            told.ended.push(Ended { tag, met: user.met, side: None });
        }
    }
}
