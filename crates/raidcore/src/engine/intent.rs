//! What has to be durable before members change: region bits, zero-map bits, journal entries.
//!
//! Invariant: while a write is under way, and until a flush that began after it has ended, either the
//! journal has its entry, or its region's bit is set on disk.

use alloc::vec;
use alloc::vec::Vec;

use crate::meta::BitMap;

/// What is known of the regions of the write-intent bitmap.
#[derive(Debug)]
pub(super) struct Regions {
    pub(super) writes: Vec<u16>,
    pub(super) state: Vec<RegionState>,
    /// Regions whose redundancy may not match since an unclean stop.
    pub(super) unsynced: BitMap,
    touched: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RegionState {
    Idle,
    /// Written since the last look.
    Touched,
    /// Not written since a flush was asked for.
    Resting,
}

impl Regions {
    /// Every marked region may be out of step.
    pub(super) fn new(bitmap: &BitMap) -> Self {
        let count = bitmap.len() as usize;
        Self {
            writes: vec![0; count],
            state: vec![RegionState::Idle; count],
            unsynced: bitmap.clone(),
            touched: false,
        }
    }

    pub(super) fn is_unsynced(&self, region: u64) -> bool {
        !self.unsynced.is_empty() && self.unsynced.get(region)
    }

    /// Whether there is something to clear some time.
    pub(super) fn is_touched(&self) -> bool {
        self.touched
    }

    /// A region is in step again; its bit may be cleared.
    pub(super) fn synced(&mut self, region: u64) {
        self.unsynced.clear(region);
        self.touch(region);
    }

    pub(super) fn touch(&mut self, region: u64) {
        self.state[region as usize] = RegionState::Touched;
        self.touched = true;
    }

    /// The flush for the regions at rest did not do: they will need another.
    pub(super) fn rest_no_more(&mut self) {
        for state in &mut self.state {
            if *state == RegionState::Resting {
                *state = RegionState::Touched;
                self.touched = true;
            }
        }
    }

    /// Regions without writes under way come to rest, to be cleared after a flush.
    pub(super) fn rest(&mut self) {
        self.touched = false;
        for (state, &writes) in self.state.iter_mut().zip(&self.writes) {
            if *state == RegionState::Touched {
                if writes == 0 {
                    *state = RegionState::Resting;
                } else {
                    self.touched = true;
                }
            }
        }
    }
}
