//! One after the other.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Collect, Flash, Limits, Order, Told};

/// At most as many members collect at a time as redundancy can stand in for; whoever has the least
/// space is next, and collects a little. The others hold until it is their turn, so they begin a
/// little later than they would by themselves: there has to be room for the wait.
#[derive(Debug)]
pub struct Rotate {
    limits: Limits,
    at_most: usize,
    turns: Vec<Turn>,
    told: Told,
}

/// A member's turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    member: usize,
    /// The part of its blocks that is to be free at its end.
    goal: f64,
    /// For how many looks it has not collected.
    idle: u32,
}

/// How often to look whether a member collects in its turn. One that has nothing to collect, or
/// collects only for somebody who waits, must not keep the others from theirs.
const LOOKS: u32 = 40;

/// Shares of blocks that differ by less are equal.
const ROUNDING: f64 = 1e-9;

impl Rotate {
    /// For members with these limits, of which so many may collect at a time.
    #[must_use]
    pub fn new(limits: Limits, at_most: usize) -> Self {
        Self { limits, at_most, turns: Vec::new(), told: Told::default() }
    }
}

impl Collect for Rotate {
    fn decide(&mut self, members: &[Flash], order: &mut dyn FnMut(usize, Order)) {
        let Self { limits, turns, told, .. } = self;
        for turn in turns.iter_mut() {
            turn.idle = if members[turn.member].collecting { 0 } else { turn.idle + 1 };
        }
        let mut passed = None;
        turns.retain(|&Turn { member, goal, idle }| {
            let over = members[member].free >= goal - ROUNDING || idle > LOOKS;
            passed = passed.or(over.then_some(member));
            !over
        });
        let has_turn = |turns: &[Turn], member| turns.iter().any(|turn| turn.member == member);
        while turns.len() < self.at_most {
            let waiting = (0..members.len())
                .filter(|&member| !has_turn(turns, member) && Some(member) != passed);
            let low = waiting.filter(|&member| members[member].free <= limits.start + ROUNDING);
            let least = low.min_by(|&a, &b| members[a].free.total_cmp(&members[b].free));
            let Some(member) = least else { break };
            let goal = limits.step(&members[member]);
            turns.push(Turn { member, goal, idle: 0 });
            told.tell(member, Order::Reach(goal), order);
        }
        for member in (0..members.len()).filter(|&member| !has_turn(turns, member)) {
            told.tell(member, Order::Hold, order);
        }
    }

    fn pause(&self) -> Duration {
        Duration::from_micros(500)
    }
}
