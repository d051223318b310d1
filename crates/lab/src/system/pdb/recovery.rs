//! What of a failed SSD is where, and what is rebuilt next.

use std::collections::VecDeque;

/// Where a block of the failed SSD is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nowhere but in the redundancy.
    Lost,
    /// It is being rebuilt.
    UnderWay,
    /// On the replacement.
    Whole,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Recovery {
    states: Vec<State>,
    /// How many are not whole.
    left: u64,
    /// Blocks that are rebuilt at a time.
    unit: u64,
    /// Units that come first.
    first: VecDeque<u64>,
    /// The first unit that has not been looked at in order.
    next: u64,
}

impl Recovery {
    /// All `blocks` blocks are lost. They are rebuilt in units of `unit` blocks, some `first`.
    pub(super) fn new(blocks: u64, unit: u64, first: VecDeque<u64>) -> Self {
        Self { states: vec![State::Lost; blocks as usize], left: blocks, unit, first, next: 0 }
    }

    pub(super) fn state(&self, block: u64) -> State {
        // Beyond the data nothing is lost.
        self.states.get(block as usize).copied().unwrap_or(State::Whole)
    }

    /// A block is on the replacement from now on.
    pub(super) fn is_whole(&mut self, block: u64) {
        if let Some(state) = self.states.get_mut(block as usize)
            && *state != State::Whole
        {
            *state = State::Whole;
            self.left -= 1;
        }
    }

    /// Whether everything is.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// The unit of a block.
    pub(super) fn unit_of(&self, block: u64) -> u64 {
        block / self.unit
    }

    /// The lost blocks of a unit, which are under way from now on.
    pub(super) fn take(&mut self, unit: u64) -> Vec<u64> {
        let end = ((unit + 1) * self.unit).min(self.states.len() as u64);
        let states = &mut self.states;
        let mut take = |block: &u64| {
            let lost = states[*block as usize] == State::Lost;
            if lost {
                states[*block as usize] = State::UnderWay;
            }
            lost
        };
        (unit * self.unit..end).filter(|block| take(block)).collect()
    }

    /// The lost blocks of the next unit that has any, which are under way from now on.
    pub(super) fn take_next(&mut self) -> Option<Vec<u64>> {
        let units = (self.states.len() as u64).div_ceil(self.unit);
        loop {
            let unit = self.first.pop_front().or_else(|| {
                self.next += 1;
                Some(self.next - 1).filter(|&unit| unit < units)
            })?;
            let blocks = self.take(unit);
            if !blocks.is_empty() {
                return Some(blocks);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lost_block_is_taken_once_the_first_units_first() {
        let mut recovery = Recovery::new(10, 4, VecDeque::from([2, 1]));
        recovery.is_whole(5);
        assert_eq!(recovery.take(0), [0, 1, 2, 3]);
        let order: Vec<_> = std::iter::from_fn(|| recovery.take_next()).collect();
        assert_eq!(order, [vec![8, 9], vec![4, 6, 7]]);
        assert_eq!(recovery.state(6), State::UnderWay);
        (0..10).for_each(|block| recovery.is_whole(block));
        assert!(recovery.is_over());
        assert_eq!(recovery.state(10), State::Whole, "beyond the data nothing is lost");
    }
}
