//! Partial parity against brute force: whichever versions of a write's blocks are stored, and whichever
//! members are lost then, nothing that it leaves alone is lost, and what it writes is old or new.

use raidcore::geometry::{Geometry, Level, Role};
use raidcore::plan::{self, Bad, Base, Health, Parity, Piece, Plan, SubIo, WriteKind};
use raidcore::units::{Mem, Set, Stripe, Tag};

use crate::Trouble;
use crate::image::{Block, Memory, StripeImage, carry_out, content};

const CHUNK: u32 = 4;

/// A write of one chunk that was planned and computed, and the partial parity of its rows.
struct Written {
    old: StripeImage,
    new: StripeImage,
    piece: Piece,
    /// By parity, the rows of the piece.
    partial: Vec<(Role, Vec<Block>)>,
}

fn health(down: Set<Role>, geo: &Geometry) -> Health<'static> {
    let up = geo.roles().minus(down);
    Health { readable: up, writable: up, parity: Parity::InStep, bad: &[] }
}

fn write(geo: Geometry, stripe: Stripe, piece: Piece) -> Option<Written> {
    let blocks = geo.data() * CHUNK as usize;
    let data: Vec<Block> = (0..blocks).map(|block| content(0, block)).collect();
    let old = StripeImage::of(geo, stripe, &data);
    let payload = (0..blocks).map(|block| content(1, block)).collect();
    let mut plan = Plan::with_room_for(&geo);
    let healthy = health(Set::EMPTY, &geo);
    let kind = plan::write(&mut plan, &geo, &healthy, &[piece], Base::Stored).expect("it can be");
    if !matches!(kind, WriteKind::Rest | WriteKind::Delta) {
        return None;
    }
    plan::leave_out(&mut plan, &geo, piece.role, &[piece]);
    let (mut new, mut memory) = (old.clone(), Memory::new(&geo, payload));
    carry_out(&plan, &mut new, &mut memory);
    let rows = |parity| {
        let at = |row| memory.get(plan::partial_of(&geo, piece.role, parity, row), 0);
        (parity, (piece.row..piece.row + piece.blocks).map(at).collect())
    };
    let partial = geo.roles().minus(geo.data_roles()).map(rows).collect();
    Some(Written { old, new, piece, partial })
}

impl Written {
    /// The stripe if these of the roles have taken the write.
    fn mixed(&self, taken: Set<Role>) -> StripeImage {
        let mut image = self.old.clone();
        for role in taken {
            for row in 0..CHUNK as usize {
                *image.block(role, row) = *self.new.clone().block(role, row);
            }
        }
        image
    }

    /// Makes parity agree with what the members that are left have. Returns what is written.
    fn agree(&self, image: &mut StripeImage, health: &Health<'_>) -> Vec<SubIo> {
        let geo = image.geo;
        let mut plan = Plan::with_room_for(&geo);
        let Piece { row, blocks, .. } = self.piece;
        let runs =
            self.partial.iter().map(|&(role, _)| SubIo { role, row, blocks, mem: Mem::Zero });
        plan::agree(&mut plan, &geo, health, self.piece.role, runs);
        let mut memory = Memory::new(&geo, Vec::new());
        for (io, (_, rows)) in plan.reads.drain(..self.partial.len()).zip(&self.partial) {
            (0..).zip(rows).for_each(|(i, &block)| memory.set(io.mem, i, block));
        }
        carry_out(&plan, image, &mut memory);
        plan.writes
    }

    /// What a read returns.
    fn read(&self, image: &mut StripeImage, health: &Health<'_>, role: Role) -> Vec<Block> {
        let geo = image.geo;
        let mem = Mem::Payload { tag: Tag(0), at: 0 };
        let piece = Piece { role, row: 0, blocks: CHUNK, mem };
        let mut plan = Plan::with_room_for(&geo);
        plan::read(&mut plan, &geo, health, &[piece], Base::Stored, 0).expect("enough is left");
        let mut memory = Memory::new(&geo, vec![[0; 8]; CHUNK as usize]);
        carry_out(&plan, image, &mut memory);
        memory.payload
    }

    fn check(&self, taken: Set<Role>, lost: Set<Role>) {
        let mut image = self.mixed(taken);
        let (geo, written) = (image.geo, self.piece.role);
        image.suffer(&Trouble { down: lost, bad: Vec::new() });
        let health = health(lost, &geo);
        self.agree(&mut image, &health);
        for role in geo.data_roles() {
            let found = self.read(&mut image, &health, role);
            let of = |image: &StripeImage| -> Vec<Block> {
                (0..CHUNK as usize).map(|row| *image.clone().block(role, row)).collect()
            };
            let is_old = found == of(&self.old);
            let is_new = role == written && found == of(&self.new);
            assert!(is_old || is_new, "{role:?} of {geo:?}: {taken:?} have it, {lost:?} are lost");
        }
    }

    /// A row of some roles can't be read while parity is made to agree, and can be afterwards, as it was
    /// if it was not written. Then as many are lost as redundancy makes up for.
    fn check_again(&self, taken: Set<Role>, lost: Set<Role>, bad: Set<Role>, sets: &[Set<Role>]) {
        let stored = self.mixed(taken);
        let (geo, row) = (stored.geo, self.piece.row);
        let trouble = Trouble {
            down: lost,
            bad: bad.into_iter().map(|role| Bad { role, row, blocks: 1 }).collect(),
        };
        let mut image = stored.clone();
        image.suffer(&trouble);
        let writes = self.agree(&mut image, &trouble.health(&geo));
        for role in bad {
            let is_row =
                |io: &SubIo| io.role == role && (io.row..io.row + io.blocks).contains(&row);
            if !writes.iter().any(is_row) {
                *image.block(role, row as usize) = *stored.clone().block(role, row as usize);
            }
        }
        for &more in sets.iter().filter(|more| lost.minus(**more).is_empty()) {
            let mut image = image.clone();
            image.suffer(&Trouble { down: more, bad: Vec::new() });
            for role in geo.data_roles() {
                let found = self.read(&mut image, &health(more, &geo), role)[row as usize];
                let of = |image: &StripeImage| *image.clone().block(role, row as usize);
                let is_new = role == self.piece.role && found == of(&self.new);
                assert!(
                    is_new || found == of(&self.old),
                    "{role:?} of {geo:?}: {taken:?} have it, {lost:?} are lost, {bad:?} can't be \
                     read, {more:?} are lost"
                );
            }
        }
    }
}

#[test]
fn nothing_is_lost_whichever_versions_are_stored_and_whichever_members_are_lost() {
    let shapes = [(Level::Raid4, 4), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 5)];
    let mut written = 0;
    for (level, members) in shapes {
        let geo = Geometry::new(level, members, CHUNK, 8).expect("a shape");
        for (stripe, data) in (0..3).flat_map(|s| (0..geo.data()).map(move |d| (Stripe(s), d))) {
            for (row, blocks) in [(0, 1), (1, 2), (0, CHUNK)] {
                let mem = Mem::Payload { tag: Tag(0), at: row };
                let piece = Piece { role: Role::at(data), row, blocks, mem };
                let Some(write) = write(geo, stripe, piece) else { continue };
                let all = 1u64 << geo.width();
                let sets = || (0..all).map(Set::<Role>::from_bits);
                let changed = geo.roles().minus(geo.data_roles()).with(piece.role);
                for taken in sets().filter(|taken| taken.minus(changed).is_empty()) {
                    let lost = sets().filter(|lost| lost.len() <= geo.parities());
                    lost.for_each(|lost| write.check(taken, lost));
                    written += 1;
                }
            }
        }
    }
    assert!(written > 500, "{written}");
}

#[test]
fn nothing_is_lost_if_blocks_that_could_not_be_read_can_be_read_again() {
    let mut checked = 0;
    for (level, members) in
        [(Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 4), (Level::Raid6, 5)]
    {
        let geo = Geometry::new(level, members, CHUNK, 8).expect("a shape");
        let sets: Vec<Set<Role>> = (0..1u64 << geo.width()).map(Set::from_bits).collect();
        let few: Vec<_> = sets.iter().copied().filter(|set| set.len() <= geo.parities()).collect();
        for data in 0..geo.data() {
            let mem = Mem::Payload { tag: Tag(0), at: 1 };
            let piece = Piece { role: Role::at(data), row: 1, blocks: 2, mem };
            let Some(write) = write(geo, Stripe(1), piece) else { continue };
            let changed = geo.roles().minus(geo.data_roles()).with(piece.role);
            for &taken in sets.iter().filter(|taken| taken.minus(changed).is_empty()) {
                for (&lost, &bad) in
                    few.iter().flat_map(|lost| few.iter().map(move |bad| (lost, bad)))
                {
                    if lost.or(bad).len() <= geo.parities() && lost.and(bad).is_empty() {
                        write.check_again(taken, lost, bad, &few);
                        checked += 1;
                    }
                }
            }
        }
    }
    assert!(checked > 500, "{checked}");
}
