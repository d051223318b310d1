//! The regions of the write-intent bitmap: which are written, which are at rest, and which a crash may
//! have left out of step.

use alloc::vec;
use alloc::vec::Vec;

use crate::meta::BitMap;

/// What is known of the regions of the write-intent bitmap.
#[derive(Debug)]
pub(super) struct Regions {
    writes: Vec<u16>,
    state: Vec<RegionState>,
    /// Regions whose redundancy may not match since an unclean stop.
    unsynced: BitMap,
    touched: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RegionState {
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

    /// Whether an unclean stop may have left any region out of step.
    pub(super) fn any_unsynced(&self) -> bool {
        self.unsynced.count() > 0
    }

    /// The regions that an unclean stop may have left out of step.
    pub(super) fn unsynced(&self) -> &BitMap {
        &self.unsynced
    }

    pub(super) fn is_unsynced(&self, region: u64) -> bool {
        self.any_unsynced() && self.unsynced.get(region)
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

    /// A write of a marked region begins.
    pub(super) fn begin_write(&mut self, region: u64) {
        self.writes[region as usize] += 1;
        self.touch(region);
    }

    /// A write of a marked region has ended.
    pub(super) fn end_write(&mut self, region: u64) {
        self.writes[region as usize] -= 1;
        self.touch(region);
    }

    fn touch(&mut self, region: u64) {
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
    /// The first region, from this one on, that has rested through a flush. It is idle from now on, and
    /// its bit may be cleared.
    pub(super) fn next_rested(&mut self, from: u64) -> Option<u64> {
        let rested = |state: &RegionState| *state == RegionState::Resting;
        let region = from as usize + self.state[from as usize..].iter().position(rested)?;
        self.state[region] = RegionState::Idle;
        Some(region as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::MapKind;

    fn regions() -> Regions {
        Regions::new(&BitMap::new(MapKind::Bitmap, 4))
    }

    #[test]
    fn a_region_rests_when_no_write_of_it_is_under_way() {
        let mut regions = regions();
        regions.begin_write(1);
        regions.begin_write(2);
        regions.end_write(2);
        regions.rest();
        assert!(regions.is_touched(), "region 1 is still to be cleared");
        assert_eq!((regions.next_rested(0), regions.next_rested(3)), (Some(2), None));
        regions.end_write(1);
        regions.rest();
        assert!(!regions.is_touched());
        assert_eq!((regions.next_rested(0), regions.next_rested(2)), (Some(1), None));
    }

    #[test]
    fn a_region_that_is_written_while_it_rests_is_not_cleared() {
        let mut regions = regions();
        regions.begin_write(1);
        regions.end_write(1);
        regions.rest();
        regions.begin_write(1);
        assert_eq!(regions.next_rested(0), None);
    }

    #[test]
    fn regions_need_another_flush_if_theirs_was_for_nothing() {
        let mut regions = regions();
        regions.begin_write(1);
        regions.end_write(1);
        regions.rest();
        regions.rest_no_more();
        assert!(regions.is_touched());
        assert_eq!(regions.next_rested(0), None);
    }
}
