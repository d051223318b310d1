//! The planner against brute force: every extent of a stripe × rotation × member count × health,
//! compared byte for byte with parity computed here, independently of the crate's kernels.

mod image;
mod partial;

use image::{Block, Memory, StripeImage, carry_out, content};
use raidcore::geometry::{Geometry, Level, Placement, Role, Shares};
use raidcore::plan::{self, Bad, Base, Goal, Health, Lost, Parity, Piece, Plan, WriteKind};
use raidcore::units::{Mem, Set, Stripe, Tag};

/// The pieces of data blocks `from..to`, whose memory begins at payload block `from`.
fn pieces_of(geo: &Geometry, from: u32, to: u32) -> Vec<Piece> {
    let chunk = geo.chunk();
    let piece = |d: u32| {
        let (low, high) = (from.max(d * chunk), to.min((d + 1) * chunk));
        (low < high).then(|| Piece {
            role: Role::at(d as usize),
            row: low - d * chunk,
            blocks: high - low,
            mem: Mem::Payload { tag: Tag(0), at: low },
        })
    };
    (0..geo.data() as u32).filter_map(piece).collect()
}

/// What is wrong with the members: some are down, some have rows that can't be read.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) down: Set<Role>,
    pub(crate) bad: Vec<Bad>,
}

impl Trouble {
    pub(crate) fn health(&self, geo: &Geometry) -> Health<'_> {
        let up = geo.roles().minus(self.down);
        Health { readable: up, writable: up, parity: Parity::InStep, bad: &self.bad }
    }

    /// The most roles that any row lacks.
    fn worst(&self, geo: &Geometry) -> usize {
        let lacks = |row| {
            let bad = self.bad.iter().filter(|b| b.row <= row && row < b.row + b.blocks);
            bad.fold(self.down, |set, b| set.with(b.role)).len()
        };
        (0..geo.chunk()).map(lacks).max().unwrap_or(0)
    }
}

/// Nothing, each one, and each two of: a member down, a whole chunk unreadable, a row unreadable.
fn troubles(geo: &Geometry) -> Vec<Trouble> {
    let n = geo.width();
    let add = |t: &Trouble, kind: usize| {
        let (role, mut t) = (Role::at(kind % n), t.clone());
        let bad = |row, blocks| Bad { role, row, blocks };
        match kind / n {
            0 => t.down = t.down.with(role),
            1 => t.bad.push(bad(0, geo.chunk())),
            _ => t.bad.push(bad(geo.chunk() - 1, 1)),
        }
        t
    };
    let none = Trouble { down: Set::EMPTY, bad: Vec::new() };
    let mut all = vec![none.clone()];
    for first in 0..3 * n {
        let one = add(&none, first);
        all.push(one.clone());
        all.extend((0..first).map(|second| add(&one, second)));
    }
    all
}

fn geometries() -> Vec<Geometry> {
    let make = |level, n, chunk| Geometry::new(level, n, chunk, 64).expect("a valid shape");
    let mut all = vec![make(Level::Raid5, 4, 4)];
    for n in 2..=6 {
        all.extend([make(Level::Raid0, n, 2), make(Level::Raid1, n.min(4), 4)]);
    }
    for n in 3..=6 {
        all.extend([make(Level::Raid4, n, 2), make(Level::Raid5, n, 2)]);
    }
    all.extend((4..=6).map(|n| make(Level::Raid6, n, 2)));
    all.extend([4, 6].map(|n| make(Level::Raid10, n, 4)));
    let around = make(Level::Raid5, 4, 2).placed(Placement::RightAsymmetric);
    all.push(around.expect("RAID5 can have it"));
    for level in [Level::Raid5, Level::Raid6] {
        let shares = Shares::new(&[50, 15, 35, 0]).expect("they are all");
        all.push(make(level, 4, 2).placed(Placement::Uneven(shares)).expect("both can have it"));
    }
    all
}

/// A stripe of each assignment of roles.
fn assignments(geo: &Geometry) -> Vec<Stripe> {
    let roles = |stripe| geo.roles().map(|role| geo.member(stripe, role)).collect::<Vec<_>>();
    let mut seen = Vec::new();
    let is_new = |stripe: &Stripe| {
        let is_new = !seen.contains(&roles(*stripe));
        seen.push(roles(*stripe));
        is_new
    };
    (0..geo.variety()).map(Stripe).filter(is_new).collect()
}

/// Calls `check` for every geometry, rotation and trouble.
fn for_each_case(mut check: impl FnMut(Geometry, Stripe, &Trouble, &[Block])) {
    for geo in geometries() {
        let old: Vec<Block> = (0..geo.stripe_blocks() as usize).map(|b| content(1, b)).collect();
        for trouble in troubles(&geo) {
            let most = if trouble.bad.len() == 2 { 1 } else { geo.members() };
            for stripe in assignments(&geo).into_iter().take(most) {
                check(geo, stripe, &trouble, &old);
            }
        }
    }
}

fn extents(geo: &Geometry) -> impl Iterator<Item = (u32, u32)> + use<> {
    let blocks = geo.stripe_blocks();
    (0..blocks).flat_map(move |from| (from + 1..=blocks).map(move |to| (from, to)))
}

#[test]
fn reads_return_what_was_stored_or_fail_beyond_redundancy() {
    let mut plan = Plan::default();
    let (mut served, mut refused) = (0, 0);
    for_each_case(|geo, stripe, trouble, old| {
        for (from, to) in extents(&geo) {
            let mut image = StripeImage::of(geo, stripe, old);
            image.suffer(trouble);
            let pieces = pieces_of(&geo, from, to);
            let health = trouble.health(&geo);
            match plan::read(&mut plan, &geo, &health, &pieces, Base::Stored, from as usize) {
                Ok(()) => {
                    let mut memory = Memory::new(&geo, vec![[0; 8]; old.len()]);
                    carry_out(&plan, &mut image, &mut memory);
                    let range = from as usize..to as usize;
                    assert_eq!(memory.payload[range.clone()], old[range], "{geo:?} {trouble:?}");
                    served += 1;
                }
                Err(Lost) => {
                    assert!(trouble.worst(&geo) > geo.redundancy(), "{geo:?} {trouble:?}");
                    refused += 1;
                }
            }
        }
    });
    assert!(served > 10_000 && refused > 1000, "{served} served, {refused} refused");
}

/// Every member but those `down` is as if `data` had been written whole.
fn assert_holds(image: &StripeImage, down: Set<Role>, data: &[Block]) {
    let geo = image.geo;
    let right = StripeImage::of(geo, image.stripe, data);
    for role in geo.roles().minus(down) {
        let member = geo.member(image.stripe, role).index();
        assert_eq!(image.members[member], right.members[member], "{geo:?} {role:?} {down:?}");
    }
}

#[test]
fn writes_leave_every_member_as_if_the_stripe_was_written_whole() {
    let mut plan = Plan::default();
    let mut kinds = [0; 4];
    for_each_case(|geo, stripe, trouble, old| {
        for (base, (from, to)) in extents(&geo).flat_map(|e| [(Base::Stored, e), (Base::Zeros, e)])
        {
            let pieces = pieces_of(&geo, from, to);
            let health = trouble.health(&geo);
            let Ok(kind) = plan::write(&mut plan, &geo, &health, &pieces, base) else {
                assert!(trouble.worst(&geo) > geo.redundancy(), "{geo:?} {trouble:?}");
                continue;
            };
            kinds[kind as usize] += 1;
            let mut image = StripeImage::of(geo, stripe, old);
            let mut new = old.to_vec();
            if base == Base::Zeros {
                new.fill([0; 8]);
            }
            for block in from..to {
                new[block as usize] = content(2, block as usize);
            }
            let mut memory = Memory::new(&geo, new.clone());
            // What a trouble hides may be overwritten; otherwise it stays as it was.
            let mut suffering = image.clone();
            suffering.suffer(trouble);
            carry_out(&plan, &mut suffering, &mut memory);
            let written = geo.roles().minus(trouble.down);
            for io in &plan.writes {
                assert!(written.has(io.role), "a member that is down was written to");
                for row in io.row as usize..(io.row + io.blocks) as usize {
                    *image.block(io.role, row) = *suffering.block(io.role, row);
                }
            }
            assert_holds(&image, trouble.down, &new);
        }
    });
    assert!(kinds.iter().all(|&k| k > 100), "every way of writing was taken: {kinds:?}");
}

#[test]
fn the_way_that_reads_least_is_taken() {
    let geo = Geometry::new(Level::Raid5, 8, 4, 64).expect("a valid shape");
    let all = Set::first(8);
    let health = Health { readable: all, writable: all, parity: Parity::InStep, bad: &[] };
    let mut plan = Plan::default();
    let mut kind_and_reads = |chunks: u32| {
        let pieces = pieces_of(&geo, 0, chunks * 4);
        let kind = plan::write(&mut plan, &geo, &health, &pieces, Base::Stored).expect("feasible");
        (kind, plan.reads.len())
    };
    assert_eq!(kind_and_reads(1), (WriteKind::Delta, 2));
    assert_eq!(kind_and_reads(2), (WriteKind::Delta, 3));
    assert_eq!(kind_and_reads(3), (WriteKind::Rest, 4), "a tie heals parity");
    assert_eq!(kind_and_reads(6), (WriteKind::Rest, 1));
    assert_eq!(kind_and_reads(7), (WriteKind::Full, 0));
}

#[test]
fn parity_that_may_be_wrong_is_not_built_upon() {
    let geo = Geometry::new(Level::Raid5, 5, 2, 64).expect("a valid shape");
    let all = Set::first(5);
    let mut plan = Plan::default();
    let pieces = pieces_of(&geo, 0, 1);
    let stale = Health { readable: all, writable: all, parity: Parity::OutOfStep, bad: &[] };
    let kind = plan::write(&mut plan, &geo, &stale, &pieces, Base::Stored);
    assert_eq!(kind, Ok(WriteKind::Rest));
    let lost = Health { readable: all.without(Role(0)), ..stale };
    assert_eq!(plan::read(&mut plan, &geo, &lost, &pieces, Base::Stored, 0), Err(Lost));

    let unproven = Health { parity: Parity::Unproven, ..stale };
    let kind = plan::write(&mut plan, &geo, &unproven, &pieces, Base::Stored);
    assert_eq!(kind, Ok(WriteKind::Rest), "a delta would carry on what nobody has proved");
    let lost = Health { readable: all.without(Role(0)), ..unproven };
    assert_eq!(plan::read(&mut plan, &geo, &lost, &pieces, Base::Stored, 0), Ok(()));
}

#[test]
fn any_members_that_redundancy_allows_are_made_anew() {
    let mut plan = Plan::default();
    let mut remade = 0;
    for_each_case(|geo, stripe, trouble, old| {
        if trouble.down.is_empty() || geo.redundancy() == 0 {
            return;
        }
        let goal = Goal { write: trouble.down, compare: Set::EMPTY };
        let health = trouble.health(&geo);
        let Ok(()) = plan::sync(&mut plan, &geo, &health, goal, 0, geo.chunk()) else {
            assert!(trouble.worst(&geo) > geo.redundancy(), "{geo:?} {trouble:?}");
            return;
        };
        let mut image = StripeImage::of(geo, stripe, old);
        image.suffer(&Trouble { down: trouble.down, bad: Vec::new() });
        carry_out(&plan, &mut image, &mut Memory::new(&geo, Vec::new()));
        assert_holds(&image, Set::EMPTY, old);
        remade += 1;
    });
    assert!(remade > 500, "{remade}");
}

#[test]
fn a_comparison_finds_every_wrong_block() {
    let mut plan = Plan::default();
    for geo in geometries().into_iter().filter(|g| g.redundancy() > 0) {
        let old: Vec<Block> = (0..geo.stripe_blocks() as usize).map(|b| content(1, b)).collect();
        let all = geo.roles();
        let mirror = geo.is_mirrored();
        let compare = if mirror { all } else { all.minus(geo.data_roles()) };
        let health = Health { readable: all, writable: all, parity: Parity::InStep, bad: &[] };
        let goal = Goal { write: Set::EMPTY, compare };
        plan::sync(&mut plan, &geo, &health, goal, 0, geo.chunk()).expect("all is there");
        let right = StripeImage::of(geo, Stripe(1), &old);
        let mut memory = Memory::new(&geo, Vec::new());
        assert!(carry_out(&plan, &mut right.clone(), &mut memory), "{geo:?}: right, found wrong");
        for member in geo.roles().map(|role| geo.member(right.stripe, role).index()) {
            for row in 0..geo.chunk() as usize {
                let mut wrong = right.clone();
                wrong.members[member][row][3] ^= 0x40;
                let equal = carry_out(&plan, &mut wrong, &mut memory);
                assert!(!equal, "{geo:?}: member {member} row {row}");
            }
        }
    }
}
