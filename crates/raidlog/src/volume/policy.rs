//! When room is made: which groups are cleaned, when users wait for that, and when a checkpoint is
//! due. The rules are over plain numbers, without streams, I/O and victims.

use core::time::Duration;

/// With this many free segments besides the reserve or fewer, cleaning can't wait.
const PRESSING: u32 = 2;

/// A checkpoint that is not urgent gives back this many times its cost.
const WELL: u64 = 4;

/// A group's segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// The number of groups of the volume.
    pub(super) groups: usize,
    pub(super) segments: u32,
    /// Free segments that only the cleaner may take.
    pub(super) reserve: u32,
    /// Blocks of data that a segment holds.
    pub(super) slots: u32,
    /// Blocks that a checkpoint of all pages takes.
    pub(super) checkpoint: u64,
    /// Segments that are free.
    pub(super) free: u32,
    /// Those that checkpoints will free, and how many of them one that begins now would free.
    pub(super) coming: u32,
    pub(super) emptied: u32,
    /// Live blocks of the group.
    pub(super) live: u64,
}

impl Room {
    /// Free segments, and those that checkpoints will free.
    pub(super) fn freeable(&self) -> u32 {
        self.free + self.coming
    }

    /// Segments that are free, or will be without another checkpoint.
    pub(super) fn there(&self) -> u32 {
        self.freeable() - self.emptied
    }

    /// The number of free segments that is enough: a part of what can be gained. The fewer segments
    /// are kept free, the longer blocks have time to be overwritten before they are moved.
    fn plenty(&self) -> u32 {
        let full = self.live.div_ceil(u64::from(self.slots)) as u32;
        let most = self.segments.saturating_sub(full + self.reserve);
        // With several groups, a checkpoint has to end while one of them fills up.
        let part = if self.groups > 1 { 2 } else { 4 };
        self.reserve + (most / part).max(PRESSING + 1)
    }

    /// Whether enough segments are free, or will be.
    pub(super) fn has_plenty(&self) -> bool {
        self.freeable() >= self.plenty()
    }

    /// Whether so few segments are free that cleaning can't wait.
    pub(super) fn is_pressing(&self) -> bool {
        self.freeable() <= self.reserve + PRESSING
    }

    /// The free segments besides the reserve with which the group comes to the front: a quarter of
    /// what its cleaner can free. With fewer, it would soon have to leave the front again, and all
    /// groups would be written and cleaned at the same time. With more, users would wait although
    /// there is room. If a checkpoint takes more than that, it is up to half: there is a checkpoint
    /// at each turn.
    pub(super) fn turn(&self) -> u32 {
        let span = self.plenty().saturating_sub(self.reserve);
        (span / 4).max(self.checkpoint_segments().min(span / 2)).max(1)
    }

    /// Free segments that users leave to the cleaner: its reserve, or more if a checkpoint takes
    /// more than that. The cleaner begins with these after users have gone on to another group, and
    /// can fill no more until a checkpoint frees what it has emptied.
    fn stock(&self) -> u32 {
        if self.groups == 1 {
            return self.reserve;
        }
        let span = self.plenty().saturating_sub(self.reserve);
        self.reserve.max((self.checkpoint_segments().saturating_mul(2)).min(span / 4))
    }

    /// Free segments that users may have.
    pub(super) fn spare(&self) -> u32 {
        self.free.saturating_sub(self.stock())
    }

    /// Free segments that users may have now, or without another checkpoint.
    pub(super) fn spare_there(&self) -> u32 {
        self.there().saturating_sub(self.stock())
    }

    /// Free segments that users may have in the end.
    fn usable(&self) -> u32 {
        self.freeable().saturating_sub(self.stock())
    }

    /// Free segments, besides those left to the cleaner, that users need to continue with the
    /// group.
    fn needed(&self) -> u32 {
        if self.groups > 1 { self.turn() } else { 1 }
    }

    /// Whether users that wait for a segment can't have one of this group yet.
    pub(super) fn is_short(&self) -> bool {
        self.spare() < self.needed()
    }

    /// Whether users can go on with the group as soon as a checkpoint has freed what is empty.
    pub(super) fn is_enough(&self) -> bool {
        self.freeable() >= self.stock() + self.turn()
    }

    /// Segments that a checkpoint of all pages takes.
    fn checkpoint_segments(&self) -> u32 {
        let all = self.checkpoint.div_ceil(u64::from(self.slots));
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// How long the group takes to gain enough segments, plus half of that time for a checkpoint.
    /// `live` is the number of live blocks of the next victim, `clean` the time to clean it.
    pub(super) fn takes(&self, live: Option<u32>, clean: Duration) -> Duration {
        let missing = self.plenty().saturating_sub(self.freeable());
        let live = live.unwrap_or(self.slots / 2);
        let gain = self.slots - live.min(self.slots - 1);
        let victims = 3 * u64::from(missing) * u64::from(self.slots) / (2 * u64::from(gain));
        clean * u32::try_from(victims).unwrap_or(u32::MAX)
    }
}

/// A group in line for the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct InLine {
    pub(super) room: Room,
    /// How many groups come before it in turn.
    pub(super) turn: usize,
}

impl InLine {
    /// The group with the most room comes next; groups with equal room come in turn.
    fn is_before(&self, other: &Self) -> bool {
        let place = |group: &Self| (core::cmp::Reverse(group.room.freeable()), group.turn);
        place(self) < place(other)
    }
}

/// How many segments users can fill before a group at the back comes to the front: those left at
/// the front and in the groups before it. `None` if it is the next one.
pub(super) fn left_before(
    group: &InLine,
    front: &Room,
    back: impl Iterator<Item = InLine>,
) -> Option<u32> {
    let (mut is_next, mut left) = (true, front.spare());
    for other in back.filter(|other| other.is_before(group)) {
        is_next = false;
        left += other.room.usable();
    }
    (!is_next).then_some(left)
}

/// How many blocks have to move for each `blocks` blocks that users write to keep pace, if `live`
/// of a segment's `slots` blocks move to free the others. One more makes up for rounding and
/// padding.
pub(super) fn owed(blocks: u32, live: i64, slots: i64) -> i64 {
    i64::from(blocks) * (live + 1) / (slots - live).max(1) + 1
}

/// Gain and cost of a checkpoint that is written only to free segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gain {
    /// Segments that it frees.
    pub(super) emptied: u32,
    /// Blocks of data that a segment holds.
    pub(super) slots: u32,
    /// Blocks that cleaners have moved for it.
    pub(super) moved: u64,
    /// Blocks of the checkpoint itself.
    pub(super) cost: u64,
    /// Users wait for a segment.
    pub(super) stalled: bool,
}

/// A group's need for a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) room: Room,
    /// Users do not write to it.
    pub(super) is_back: bool,
    /// Its cleaner has a segment, and room to move on.
    pub(super) cleans: bool,
    /// Its cleaner can't move on without a free segment, while users write.
    pub(super) is_stuck: bool,
}

impl Gain {
    /// Whether it gives back more than `times` times its cost. It gives back the blocks of the
    /// segments that it frees, less those that cleaners have moved for it. One that gives back less
    /// than its cost would only cause the next one.
    fn is_won(&self, times: u64) -> bool {
        let freed = u64::from(self.emptied) * u64::from(self.slots);
        freed > self.moved + times * self.cost
    }

    /// Whether to write it. It costs pages, and closes the cleaners' batches. So it waits until it
    /// gives back much more than it costs, or just more if users may soon need it. It does not wait
    /// if a cleaner or users can't continue.
    pub(super) fn is_wanted(&self, groups: impl Iterator<Item = Wish> + Clone) -> bool {
        let stuck = |group: &Wish| group.is_stuck && group.room.emptied > 0;
        let (won, well) = (self.is_won(1), self.is_won(WELL));
        if !won && !self.stalled {
            return { groups }.any(|group| stuck(&group));
        }
        let several = groups.clone().nth(1).is_some();
        let cleans = groups.clone().any(|group| group.cleans);
        let is_ready = |g: Wish| g.is_back && g.room.spare_there() >= g.room.turn();
        let ready = !several || groups.clone().any(is_ready);
        let spares: u32 = groups.clone().map(|group| group.room.spare_there()).sum();
        let soon = several && !self.stalled && 2 * self.emptied >= spares;
        let wanted = |group: Wish| {
            let room = &group.room;
            let much = (2 * room.spare_there()).max(room.segments / 64).max(2);
            let many = !self.stalled && room.emptied >= much;
            let next = !ready && group.is_back && room.is_enough();
            let starved = self.stalled && room.spare_there() < room.needed();
            let ended = starved && (room.is_enough() || !cleans);
            let early = won && (next || soon) || well && (many || room.there() == 0);
            room.emptied > 0 && (ended || early) || stuck(&group)
        };
        { groups }.any(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A volume of this many groups of 64 segments of 100 blocks, a quarter of which are live.
    fn room(groups: usize, free: u32) -> Room {
        Room { groups, segments: 64, reserve: 4, slots: 100, free, live: 1600, ..Room::default() }
    }

    #[test]
    fn a_part_of_what_can_be_gained_is_plenty() {
        for (groups, live, plenty) in [
            (1, 1600, 4 + 44 / 4),
            (2, 1600, 4 + 44 / 2),
            (1, 0, 4 + 60 / 4),
            // Hardly anything can be gained: three more than the reserve are enough.
            (1, 5600, 4 + 3),
            (2, 6400, 4 + 3),
        ] {
            let room = |free| Room { live, ..room(groups, free) };
            assert!(room(plenty).has_plenty(), "{groups} groups, {live} blocks");
            assert!(!room(plenty - 1).has_plenty(), "{groups} groups, {live} blocks");
        }
        let coming = Room { coming: 10, ..room(1, 5) };
        assert!(coming.has_plenty() && !coming.is_pressing(), "what comes counts");
    }

    #[test]
    fn cleaning_can_not_wait_when_little_more_than_the_reserve_is_free() {
        assert!(room(1, 6).is_pressing());
        assert!(!room(1, 7).is_pressing());
    }

    #[test]
    fn a_group_comes_to_the_front_with_a_quarter_of_what_is_plenty_or_a_checkpoint() {
        // 22 more than the reserve are enough.
        for (checkpoint, turn, stock) in
            [(0, 5, 4), (300, 5, 5), (800, 8, 5), (5000, 11, 5), (u64::MAX, 11, 5)]
        {
            let room = Room { checkpoint, ..room(2, 20) };
            assert_eq!((room.turn(), 20 - room.spare()), (turn, stock), "of {checkpoint} blocks");
        }
    }

    #[test]
    fn users_go_on_with_a_turn_where_there_are_several_groups() {
        assert!(!room(1, 5).is_short() && room(1, 4).is_short(), "one group: beyond the reserve");
        assert!(!room(2, 9).is_short() && room(2, 8).is_short(), "two: five beyond the reserve");
    }

    #[test]
    fn the_group_with_the_most_comes_next_and_else_they_come_in_turn() {
        let line = |free, turn| InLine { room: room(3, free), turn };
        let front = room(3, 7);
        let left =
            |group: InLine, others: &[InLine]| left_before(&group, &front, others.iter().copied());
        assert_eq!(left(line(9, 1), &[line(9, 2)]), None, "its turn comes first");
        assert_eq!(left(line(9, 2), &[line(9, 1)]), Some(3 + 5), "another one's does");
        assert_eq!(left(line(10, 2), &[line(9, 1)]), None, "it has more");
        assert_eq!(left(line(5, 1), &[line(9, 2), line(8, 3)]), Some(3 + 5 + 4));
    }

    #[test]
    fn to_gain_takes_longer_the_more_lives() {
        let second = Duration::from_secs(1);
        // 18 segments are missing; half as many again are for a checkpoint.
        for (live, victims) in [(Some(0), 27), (None, 54), (Some(90), 270), (Some(100), 2700)] {
            assert_eq!(room(2, 8).takes(live, second), victims * second, "{live:?}");
        }
        assert_eq!(room(2, 26).takes(Some(0), second), Duration::ZERO, "nothing is missing");
    }

    #[test]
    fn what_is_owed_is_what_lives_by_what_is_won() {
        for (live, owed_for_ten) in [(0, 1), (50, 11), (90, 92), (99, 1001), (100, 1011)] {
            assert_eq!(owed(10, live, 100), owed_for_ten, "{live} live");
        }
    }

    /// Whether a checkpoint is wanted that frees `emptied` segments of the second of two groups.
    fn is_wanted(gain: Gain, front: Wish, back: Wish) -> bool {
        gain.is_wanted([front, back].into_iter())
    }

    #[test]
    fn a_checkpoint_is_written_when_it_is_worth_it_or_somebody_can_not_go_on() {
        let gain = Gain { emptied: 8, slots: 100, moved: 0, cost: 100, stalled: false };
        let wish = |free, emptied| Wish {
            room: Room { coming: emptied, emptied, ..room(2, free) },
            is_back: emptied > 0,
            cleans: false,
            is_stuck: false,
        };
        let calm = (wish(30, 0), wish(30, 8));
        assert!(!is_wanted(gain, calm.0, calm.1), "there is room for long");
        assert!(is_wanted(gain, wish(6, 0), wish(6, 8)), "users may soon need it");
        let dear = Gain { cost: 900, ..gain };
        assert!(!is_wanted(dear, wish(6, 0), wish(6, 8)), "it costs more than it frees");
        let moved = Gain { moved: 750, ..gain };
        assert!(!is_wanted(moved, wish(6, 0), wish(6, 8)), "what was moved for it counts");
        let stuck = Wish { is_stuck: true, ..wish(6, 8) };
        assert!(is_wanted(dear, wish(6, 0), stuck), "a cleaner can't go on");
        let stalled = Gain { stalled: true, ..dear };
        assert!(is_wanted(stalled, wish(4, 0), wish(4, 8)), "users can't go on, and it helps");
        let cleaning = Wish { cleans: true, ..wish(4, 2) };
        let little = Gain { emptied: 2, ..stalled };
        assert!(!is_wanted(little, wish(4, 0), cleaning), "it does not help yet");
        assert!(is_wanted(little, wish(4, 0), wish(4, 2)), "nothing more is to be gained");
    }
}
