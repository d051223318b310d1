use super::band::{self, Band};
use super::recover::{generate, read_survivors, recover};
use super::{Bad, Health, Lost, Plan, Step, SubIo};
use crate::geometry::{Geometry, Role};
use crate::units::Set;

/// The goal of a rebuild, resync, scrub or repair in a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Goal {
    /// Roles to be recomputed from the others and written.
    pub write: Set<Role>,
    /// Roles to be compared with what the others give.
    pub compare: Set<Role>,
}

/// Plans the recomputation or comparison of roles, for `blocks` rows from `row` on.
///
/// A role that is to be written counts as unreadable, whatever `health` says. What a parity is
/// compared with is in the scratch buffers numbered after the last role.
///
/// # Errors
/// If the roles can't be recovered from what can be read.
pub fn sync(
    plan: &mut Plan,
    geo: &Geometry,
    health: &Health<'_>,
    goal: Goal,
    row: u32,
    blocks: u32,
) -> Result<(), Lost> {
    plan.clear();
    let health =
        Health { readable: health.readable.minus(goal.write.minus(goal.compare)), ..*health };
    let cuts = band::cut(plan, &[], &health, Some((row, row + blocks)));
    let result = band::bands(&cuts, &[], &health).try_for_each(|band| {
        if geo.is_mirrored() {
            mirror(plan, geo, goal, &band)
        } else {
            parity(plan, geo, &health, goal, &band)
        }
    });
    band::restore(plan, cuts);
    result
}

/// Plans the copy of all rows of a role. They are read where possible, and recomputed elsewhere.
///
/// # Errors
/// If unreadable rows can't be recovered either.
pub fn copy(plan: &mut Plan, geo: &Geometry, health: &Health<'_>, role: Role) -> Result<(), Lost> {
    plan.clear();
    let goal = Goal { write: Set::one(role), compare: Set::EMPTY };
    let cuts = band::cut(plan, &[], health, Some((0, geo.chunk())));
    let result = band::bands(&cuts, &[], health).try_for_each(|band| {
        if band.readable.has(role) {
            let (row, blocks) = (band.row, band.blocks);
            let io = SubIo { role, row, blocks, mem: plan.scratch(role, row) };
            plan.read(io);
            plan.write(io);
            Ok(())
        } else if geo.is_mirrored() {
            mirror(plan, geo, goal, &band)
        } else {
            parity(plan, geo, health, goal, &band)
        }
    });
    band::restore(plan, cuts);
    result
}

/// Also writes the first `blocks` rows of a role as they are, except bad ones. Rows that the plan
/// does not read are read for it.
pub fn also(plan: &mut Plan, role: Role, blocks: u32, bad: &[Bad]) {
    for row in 0..blocks {
        let has = |first: u32, count: u32| first <= row && row < first + count;
        if bad.iter().any(|b| b.role == role && has(b.row, b.blocks)) {
            continue;
        }
        let mem = plan.scratch(role, row);
        let io = SubIo { role, row, blocks: 1, mem };
        if !plan.reads.iter().any(|read| read.role == role && has(read.row, read.blocks)) {
            plan.read(io);
        }
        plan.write(io);
    }
}

fn mirror(plan: &mut Plan, geo: &Geometry, goal: Goal, band: &Band) -> Result<(), Lost> {
    let source = band.readable.minus(goal.write.minus(goal.compare)).least().ok_or(Lost)?;
    let (row, blocks) = (band.row, band.blocks);
    let from = plan.scratch(source, row);
    plan.read(SubIo { role: source, row, blocks, mem: from });
    debug_assert!(source.index() < geo.width(), "a copy is a member");
    for role in goal.compare.and(band.readable).without(source) {
        let mem = plan.scratch(role, row);
        plan.read(SubIo { role, row, blocks, mem });
        plan.step(Step::Compare { a: from, b: mem }, blocks);
    }
    for role in goal.write.without(source) {
        plan.write(SubIo { role, row, blocks, mem: from });
    }
    Ok(())
}

fn parity(
    plan: &mut Plan,
    geo: &Geometry,
    health: &Health<'_>,
    goal: Goal,
    band: &Band,
) -> Result<(), Lost> {
    let (row, blocks) = (band.row, band.blocks);
    let data = geo.data_roles();
    let mut at = |plan: &mut Plan, role: Role| plan.scratch(role, row);
    let (lost, helpers) = read_survivors(plan, geo, band, health.parity, &mut at)?;
    recover(plan, geo, blocks, lost, helpers, &mut at);

    let compared = goal.compare.and(band.readable).minus(data).minus(helpers);
    for role in compared {
        let mem = plan.scratch(role, row);
        plan.read(SubIo { role, row, blocks, mem });
    }
    let written = goal.write.minus(data);
    let mut into = |plan: &mut Plan, role: Role| {
        plan.scratch(if compared.has(role) { shadow(geo, role) } else { role }, row)
    };
    generate(plan, geo, blocks, compared.or(written), &mut at, &mut into);
    for role in compared {
        let (a, b) = (plan.scratch(role, row), plan.scratch(shadow(geo, role), row));
        plan.step(Step::Compare { a, b }, blocks);
    }
    for role in goal.write {
        let mem = into(plan, role);
        plan.write(SubIo { role, row, blocks, mem });
    }
    Ok(())
}

/// The role whose scratch buffer holds what a parity is compared with; it follows the last role.
pub(super) fn shadow(geo: &Geometry, parity: Role) -> Role {
    Role::at(parity.index() + geo.parities())
}
