//! One after the other.

use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;
use raidcore::units::{MemberId, Set};

use super::{Collect, Flash, Limits, Order, Told};

/// At most as many members collect at a time as redundancy can stand in for; the one with the least
/// space is next, and collects a little. The others hold until it is their turn, so they begin a
/// little later than they would by themselves: there has to be room for the wait.
///
/// Whose turn has come is left alone at once, and told to collect when what it had in hand is done:
/// that would have to wait for the collection otherwise.
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
    /// Whether it was told.
    told: bool,
    /// For how many looks it was not told, or has not collected since.
    idle: u32,
}

/// A turn is so many times as much as a member would collect by itself. Its dies do not run low
/// together: were a turn over as soon as the lowest has a little more, the member would stand still
/// for one die at a time, again and again, while the others could have collected, too.
const STEPS: f64 = 2.0;

/// How often to look whether a member collects in its turn. One that has nothing to collect must not
/// keep the others from theirs.
const LOOKS: u32 = 40;

/// For how many looks a member may have something in hand before it is told all the same.
const PATIENCE: u32 = 300;

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
    fn decide(&mut self, _: Instant, members: &[Flash], order: &mut dyn FnMut(usize, Order)) {
        let Self { limits, turns, told, .. } = self;
        for turn in turns.iter_mut() {
            let member = &members[turn.member];
            turn.idle = if turn.told && member.collecting { 0 } else { turn.idle + 1 };
            if !turn.told && (member.in_flight == 0 || turn.idle > PATIENCE) {
                *turn = Turn { told: true, idle: 0, ..*turn };
                told.tell(turn.member, Order::Reach(turn.goal), order);
            }
        }
        let mut passed = None;
        turns.retain(|&Turn { member, goal, told, idle }| {
            let over = members[member].free >= goal - ROUNDING || told && idle > LOOKS;
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
            let goal = members[member].free + STEPS * (limits.stop - limits.start);
            let at_once = members[member].in_flight == 0;
            turns.push(Turn { member, goal, told: at_once, idle: 0 });
            told.tell(member, if at_once { Order::Reach(goal) } else { Order::Hold }, order);
        }
        for member in (0..members.len()).filter(|&member| !has_turn(turns, member)) {
            told.tell(member, Order::Hold, order);
        }
    }

    fn pause(&self) -> Duration {
        let waits = self.turns.iter().any(|turn| !turn.told);
        Duration::from_micros(if waits { 100 } else { 500 })
    }

    fn turns(&self) -> Set<MemberId> {
        self.turns.iter().map(|turn| MemberId::at(turn.member)).collect()
    }
}
