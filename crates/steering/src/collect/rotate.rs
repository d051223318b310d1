//! One after the other.

use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;
use raidcore::units::{MemberId, Set};

use super::{Collect, Flash, Limits, Order, Told};

/// At most as many members collect at a time as redundancy can stand in for. The one with the least
/// space is next, and collects a little. The others hold until their turn. They begin later than
/// they would by themselves, so there has to be spare room for the wait.
///
/// While a member is missing, requests can hardly go around another. Then one collects at a time, and as long
/// as it has room it stops for whatever has to be done with it: the yield points of pre-emptive garbage
/// collection (Lee et al., "A Semi-Preemptive Garbage Collector for Solid State Drives", ISPASS 2011), for
/// drives that stop between pages when they are told to.
///
/// A member whose turn has come gets no new redirectable I/O at once, and the order to collect when
/// its I/O in hand is done. Otherwise this I/O would have to wait for the collection.
#[derive(Debug)]
pub struct Rotate {
    limits: Limits,
    at_most: usize,
    turns: Vec<Turn>,
    /// Whether who collects stops when it has something else to do.
    yields: bool,
    told: Told,
}

/// A member's turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    member: usize,
    /// The share of its blocks that is to be free at its end.
    goal: f64,
    /// Whether it has been ordered to collect.
    told: bool,
    /// For how many looks it has had no order, or has not collected since.
    idle: u32,
}

/// A turn is this many times what a member would collect by itself. Its dies do not run low
/// together: if a turn ended as soon as the lowest die had a little more space, the member would
/// stall for one die at a time, again and again.
const STEPS: f64 = 2.0;

/// A turn that gives way does so down to this part of `start`: a member without any room stalls for longer.
const ROOM: f64 = 0.5;

/// A turn ends after this many looks at which the member does not collect: one that has nothing to
/// collect must not delay the others.
const LOOKS: u32 = 40;

/// For how many looks a member may have I/O in hand before it is ordered to collect all the same.
const PATIENCE: u32 = 300;

/// Shares that differ by less are equal.
const ROUNDING: f64 = 1e-9;

impl Rotate {
    /// For members with these limits, `at_most` of which may collect at a time.
    #[must_use]
    pub fn new(limits: Limits, at_most: usize) -> Self {
        Self { limits, at_most, turns: Vec::new(), yields: false, told: Told::default() }
    }
}

impl Collect for Rotate {
    fn decide(
        &mut self,
        _: Instant,
        members: &[Flash],
        missing: bool,
        order: &mut dyn FnMut(usize, Order),
    ) {
        self.yields = missing;
        let Self { limits, turns, told, at_most, .. } = self;
        let at_most = if missing { 1 } else { *at_most };
        for turn in turns.iter_mut() {
            let member = &members[turn.member];
            turn.idle = if turn.told && member.collecting { 0 } else { turn.idle + 1 };
            let gives_way = missing && member.in_flight > 0 && member.free > ROOM * limits.start;
            if turn.told && gives_way {
                *turn = Turn { told: false, idle: 0, ..*turn };
                told.tell(turn.member, Order::Hold, order);
            } else if !turn.told && (member.in_flight == 0 || turn.idle > PATIENCE) {
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
        while turns.len() < at_most {
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
        let soon = self.turns.iter().any(|turn| self.yields || !turn.told);
        Duration::from_micros(if soon { 100 } else { 500 })
    }

    fn turns(&self) -> Set<MemberId> {
        self.turns.iter().map(|turn| MemberId::at(turn.member)).collect()
    }
}
