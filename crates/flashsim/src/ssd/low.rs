//! Which planes have so few free blocks that they are to be collected.
//!
//! Invariant: a die's count is the number of its planes that are low.

use crate::geometry::Geometry;

/// Which planes have too few free blocks.
#[derive(Clone, Debug)]
pub(super) struct Low {
    planes: Vec<bool>,
    /// How many of each die.
    of_die: Vec<u32>,
}

impl Low {
    pub(super) fn none(g: &Geometry) -> Self {
        Self { planes: vec![false; g.planes as usize], of_die: vec![0; g.dies as usize] }
    }

    pub(super) fn has(&self, plane: u32) -> bool {
        self.planes[plane as usize]
    }

    pub(super) fn set(&mut self, plane: u32, die: u32, is_low: bool) {
        let was_low = core::mem::replace(&mut self.planes[plane as usize], is_low);
        let of_die = &mut self.of_die[die as usize];
        *of_die = *of_die + u32::from(is_low) - u32::from(was_low);
    }

    /// Whether a die has any.
    pub(super) fn any_of(&self, die: u32) -> bool {
        self.of_die[die as usize] > 0
    }
}
