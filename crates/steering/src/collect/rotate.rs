//! One after the other.

use alloc::vec::Vec;
use core::time::Duration;

use det::Instant;
use raidcore::units::{MemberId, Set};

use super::age::Age;
use super::{Collect, Flash, Limits, Order, ROUNDING, Told};

/// At most as many members collect at a time as redundancy can stand in for. The one with the least
/// space is next, and collects a little. The others hold until their turn. They begin later than
/// they would by themselves, so there has to be spare room for the wait.
///
/// While a member is missing, requests can hardly go around another. Then one collects at a time, and it holds
/// while it has I/O in hand: the yield points of pre-emptive garbage collection (Lee et al., "A Semi-Preemptive
/// Garbage Collector for Solid State Drives", ISPASS 2011), for drives that stop between pages when they are
/// told to. If it gives way for long, it is the next one's turn. One that has hardly any room left is next
/// before all others, and does not give way, but collects as little as it can.
///
/// A member whose turn has come gets no new redirectable I/O at once, and the order to collect when
/// its I/O in hand is done. Otherwise this I/O would have to wait for the collection.
#[derive(Debug)]
pub struct Rotate {
    limits: Vec<Limits>,
    /// None if turns begin at the members' own thresholds.
    age: Option<Age>,
    at_most: usize,
    turns: Vec<Turn>,
    /// Whether the member that collects holds while it has I/O in hand.
    yields: bool,
    told: Told,
}

/// A member's turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    member: usize,
    /// The share of its blocks that is to be free at its end.
    goal: f64,
    stage: Stage,
    /// For how many looks it has neither collected nor given way.
    idle: u32,
    /// For how many looks it has given way since it collected last.
    gave_way: u32,
}

/// How far a turn is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// What the member has in hand is waited for.
    Begins,
    /// It is ordered to collect.
    Collects,
    /// It holds again, for what it has in hand.
    GivesWay,
    /// It is ordered to collect, and does not give way any more.
    Presses,
}

impl Stage {
    fn is_ordered(self) -> bool {
        matches!(self, Self::Collects | Self::Presses)
    }
}

/// A turn is this many times what a member would collect by itself. Its dies do not run low
/// together: if a turn ended as soon as the lowest die had a little more space, the member would
/// stall for one die at a time, again and again.
const STEPS: f64 = 2.0;

/// A member gives way as long as it has more than this part of `start`: one without any room stalls for longer.
const ROOM: f64 = 0.5;

/// A turn ends after this many looks at which the member does not collect: one that has nothing to
/// collect must not delay the others.
const LOOKS: u32 = 40;

/// For how many looks a member may have I/O in hand before it is ordered to collect all the same, and for how
/// many it may give way.
const PATIENCE: u32 = 300;

impl Rotate {
    /// For members with these limits, `at_most` of which may collect at a time.
    #[must_use]
    pub fn new(limits: Vec<Limits>, at_most: usize) -> Self {
        Self { limits, age: None, at_most, turns: Vec::new(), yields: false, told: Told::default() }
    }

    /// With turns that begin at thresholds that follow ages.
    #[must_use]
    pub fn aged(self, age: Option<Age>) -> Self {
        Self { age, ..self }
    }
}

/// At this share of free blocks a member's turn may begin.
fn start(limits: &[Limits], age: Option<&Age>, member: usize) -> f64 {
    let limits = limits[member];
    age.filter(|_| limits.are_known()).map_or(limits.start, |age| age.low(member))
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
        let Self { limits, age, turns, told, at_most, .. } = self;
        if let Some(age) = age {
            age.look(members);
        }
        let start = |member: usize| start(limits, age.as_ref(), member);
        let at_most = if missing { 1 } else { *at_most };
        let step = |member: usize| limits[member].stop - limits[member].start;
        let lacks_room =
            |member: usize| missing && members[member].free <= ROOM * limits[member].start;
        let presses = (0..members.len()).any(lacks_room);
        for turn in turns.iter_mut() {
            let member = &members[turn.member];
            let stage = match turn.stage {
                _ if lacks_room(turn.member) => Stage::Presses,
                Stage::Begins if member.in_flight == 0 => Stage::Collects,
                Stage::Begins if turn.idle >= PATIENCE => Stage::Presses,
                Stage::GivesWay if member.in_flight == 0 => Stage::Collects,
                Stage::Collects if missing && member.in_flight > 0 => Stage::GivesWay,
                Stage::Begins | Stage::Collects | Stage::GivesWay | Stage::Presses => turn.stage,
            };
            match stage {
                Stage::GivesWay => turn.gave_way += 1,
                Stage::Begins => turn.idle += 1,
                Stage::Collects | Stage::Presses if member.collecting => {
                    (turn.idle, turn.gave_way) = (0, 0);
                }
                Stage::Collects if turn.stage == Stage::GivesWay => {}
                Stage::Collects | Stage::Presses if stage != turn.stage => turn.idle = 0,
                Stage::Collects | Stage::Presses => turn.idle += 1,
            }
            if stage != turn.stage {
                turn.stage = stage;
                if lacks_room(turn.member) {
                    turn.goal = member.free + step(turn.member);
                }
                let what = if stage.is_ordered() { Order::Reach(turn.goal) } else { Order::Hold };
                told.tell(turn.member, what, order);
            }
        }
        let mut passed = None;
        turns.retain(|&Turn { member, goal, stage, idle, gave_way }| {
            let is_idle = stage.is_ordered() && idle > LOOKS || gave_way > PATIENCE;
            let is_next_ones = presses && stage != Stage::Presses;
            let over = members[member].free >= goal - ROUNDING || is_idle || is_next_ones;
            passed = passed.or(over.then_some(member));
            !over
        });
        let has_turn = |turns: &[Turn], member| turns.iter().any(|turn| turn.member == member);
        while turns.len() < at_most {
            let waiting = (0..members.len())
                .filter(|&member| !has_turn(turns, member) && Some(member) != passed);
            let low = waiting.filter(|&member| members[member].free <= start(member) + ROUNDING);
            let least = low.min_by(|&a, &b| members[a].free.total_cmp(&members[b].free));
            let Some(member) = least else { break };
            let Flash { free, in_flight, .. } = members[member];
            let (stage, steps) = match in_flight {
                _ if lacks_room(member) => (Stage::Presses, 1.0),
                0 => (Stage::Collects, STEPS),
                _ => (Stage::Begins, STEPS),
            };
            let goal = free + steps * step(member);
            turns.push(Turn { member, goal, stage, idle: 0, gave_way: 0 });
            let what = if stage.is_ordered() { Order::Reach(goal) } else { Order::Hold };
            told.tell(member, what, order);
        }
        for member in (0..members.len()).filter(|&member| !has_turn(turns, member)) {
            told.tell(member, Order::Hold, order);
        }
    }

    fn pause(&self) -> Duration {
        let soon = self.turns.iter().any(|turn| self.yields || !turn.stage.is_ordered());
        Duration::from_micros(if soon { 100 } else { 500 })
    }

    fn threshold(&self, member: usize) -> Option<f64> {
        (member < self.limits.len()).then(|| start(&self.limits, self.age.as_ref(), member))
    }

    fn turns(&self) -> Set<MemberId> {
        self.turns.iter().map(|turn| MemberId::at(turn.member)).collect()
    }
}
