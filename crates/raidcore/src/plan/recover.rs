//! Recovering lost data chunks of a band, and computing its parity.

use super::band::Band;
use super::{Lost, Parity, Plan, Step, SubIo};
use crate::geometry::{Geometry, Role};
use crate::units::{Mem, Set};

/// The parities that replace the lost data chunks `lost`: P first, then Q.
///
/// # Errors
/// If there are fewer readable parities than lost chunks.
pub(super) fn stand_ins(
    geo: &Geometry,
    readable: Set<Role>,
    lost: Set<Role>,
) -> Result<Set<Role>, Lost> {
    let parities = readable.minus(geo.data_roles());
    if lost.len() > parities.len() {
        return Err(Lost);
    }
    let chosen = parities.take(lost.len()).collect();
    Ok(chosen)
}

/// Plans the reads of a band's readable data chunks, and of the parities that replace the others,
/// into `at`. Returns the lost data chunks and the parities.
///
/// # Errors
/// If parity does not suffice.
pub(super) fn read_survivors(
    plan: &mut Plan,
    geo: &Geometry,
    band: &Band,
    parity: Parity,
    at: &mut impl FnMut(&mut Plan, Role) -> Mem,
) -> Result<(Set<Role>, Set<Role>), Lost> {
    let data = geo.data_roles();
    let lost = data.minus(band.readable);
    if !lost.is_empty() && parity == Parity::OutOfStep {
        return Err(Lost);
    }
    let helpers = stand_ins(geo, band.readable, lost)?;
    for role in data.minus(lost).or(helpers) {
        let mem = at(plan, role);
        plan.read(SubIo { role, row: band.row, blocks: band.blocks, mem });
    }
    Ok((lost, helpers))
}

/// Plans the arithmetic that recovers the data chunks `lost` from the others and from `helpers`;
/// `at` gives the memory of each.
pub(super) fn recover(
    plan: &mut Plan,
    geo: &Geometry,
    blocks: u32,
    lost: Set<Role>,
    helpers: Set<Role>,
    at: &mut impl FnMut(&mut Plan, Role) -> Mem,
) {
    let data = geo.data_roles();
    let mut losses = lost;
    let (Some(x), second) = (losses.next(), losses.next()) else {
        return;
    };
    assert!(
        losses.is_empty() && lost.len() == helpers.len(),
        "as many helpers as losses, 2 at most"
    );
    let p = geo.p().filter(|&p| helpers.has(p));
    let dst = at(plan, x);
    if let Some(y) = second {
        let (p, q) = (geo.p().map_or(dst, |r| at(plan, r)), geo.q().map_or(dst, |r| at(plan, r)));
        let other = at(plan, y);
        let srcs = data_operands(plan, geo, lost, at);
        plan.step(Step::Pq { p: dst, q: other, srcs }, blocks);
        plan.step(Step::Add { dst, src: p }, blocks);
        plan.step(Step::Add { dst: other, src: q }, blocks);
        plan.step(Step::Solve { a: dst, b: other, x: x.0, y: y.0 }, blocks);
    } else if let Some(p) = p {
        let start = plan.operands.len();
        for role in data.minus(lost).with(p) {
            let mem = at(plan, role);
            plan.operands.push(mem);
        }
        let srcs = plan.operands_since(start);
        plan.step(Step::Xor { dst, srcs }, blocks);
    } else if let Some(q) = geo.q() {
        let q = at(plan, q);
        let srcs = data_operands(plan, geo, lost, at);
        plan.step(Step::Q { q: dst, srcs }, blocks);
        plan.step(Step::Add { dst, src: q }, blocks);
        plan.step(Step::Unscale { dst, index: x.0 }, blocks);
    }
}

/// Plans the arithmetic that computes the parities `which` into `into` from the data chunks; `at`
/// gives the memory of each.
pub(super) fn generate(
    plan: &mut Plan,
    geo: &Geometry,
    blocks: u32,
    which: Set<Role>,
    at: &mut impl FnMut(&mut Plan, Role) -> Mem,
    into: &mut impl FnMut(&mut Plan, Role) -> Mem,
) {
    let p = geo.p().filter(|&p| which.has(p)).map(|p| into(plan, p));
    let q = geo.q().filter(|&q| which.has(q)).map(|q| into(plan, q));
    if p.is_none() && q.is_none() {
        return;
    }
    let srcs = data_operands(plan, geo, Set::EMPTY, at);
    let step = match (p, q) {
        (Some(p), Some(q)) => Step::Pq { p, q, srcs },
        (Some(dst), None) => Step::Xor { dst, srcs },
        (None, Some(q)) => Step::Q { q, srcs },
        (None, None) => return,
    };
    plan.step(step, blocks);
}

/// All data chunks in order; those in `without` are zeros.
fn data_operands(
    plan: &mut Plan,
    geo: &Geometry,
    without: Set<Role>,
    at: &mut impl FnMut(&mut Plan, Role) -> Mem,
) -> super::Operands {
    let start = plan.operands.len();
    for role in geo.data_roles() {
        let mem = if without.has(role) { Mem::Zero } else { at(plan, role) };
        plan.operands.push(mem);
    }
    plan.operands_since(start)
}
