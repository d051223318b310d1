//! Partial parity: what parity would be if one data chunk's blocks were zeros. It does not depend on
//! that chunk, so parity can be made to agree with whatever of the chunk's blocks is stored, old or new
//! (the partial parity log of Linux md).

use alloc::vec::Vec;
use core::ops::Range;

use super::{Bad, Health, Lost, Parity, Piece, Plan, Step, SubIo, beside, push_joined, scratch};
use crate::geometry::{Geometry, Role};
use crate::units::{Mem, Set};

/// Adds to the plan of a write of one data chunk the steps that compute the rows' partial parity, which
/// leaves that chunk out. [`partial_of`] tells where it is.
pub fn leave_out(plan: &mut Plan, geo: &Geometry, role: Role, pieces: &[Piece]) {
    // Of pieces that overlap the first counts, so it is the last to be reckoned with.
    for &Piece { row, blocks, mem, .. } in pieces.iter().rev() {
        if let Some(p) = geo.p() {
            let start = plan.operands.len();
            plan.operands.extend([scratch(p, row), mem]);
            let srcs = plan.operands_since(start);
            let dst = plan.scratch(role, row);
            plan.step(Step::Xor { dst, srcs }, blocks);
        }
        if let Some(q) = geo.q() {
            let dst = plan.scratch(beside(geo, q), row);
            plan.step(Step::Copy { dst, src: scratch(q, row) }, blocks);
            let less =
                Step::Delta { p: None, q: Some(dst), index: role.0, old: mem, new: Mem::Zero };
            plan.step(less, blocks);
        }
    }
}

/// Where [`leave_out`] leaves a row of a parity: P's in the scratch buffer of the chunk that is left
/// out, whose old content has been used by then.
#[must_use]
pub fn partial_of(geo: &Geometry, left_out: Role, parity: Role, row: u32) -> Mem {
    let buffer = if geo.p() == Some(parity) { left_out } else { beside(geo, parity) };
    scratch(buffer, row)
}

/// Adds to `kept` rows of a role as they are in which the plan writes others. Rows that it does not read
/// are read for it.
///
/// # Errors
/// If one of those rows can't be read.
pub fn keep(
    plan: &mut Plan,
    kept: &mut Vec<SubIo>,
    role: Role,
    rows: Range<u32>,
    bad: &[Bad],
) -> Result<(), Lost> {
    for row in rows {
        let has = |io: &SubIo| io.role == role && is_in(row, io.row, io.blocks);
        let is_bad = bad.iter().any(|b| b.role == role && is_in(row, b.row, b.blocks));
        let is_written = plan.writes.iter().any(|io| is_in(row, io.row, io.blocks));
        if !is_written || plan.writes.iter().chain(&*kept).any(has) {
            continue;
        }
        if is_bad {
            return Err(Lost);
        }
        let io = SubIo { role, row, blocks: 1, mem: plan.scratch(role, row) };
        if !plan.reads.iter().any(has) {
            plan.read(io);
        }
        push_joined(kept, io);
    }
    Ok(())
}

fn is_in(row: u32, from: u32, blocks: u32) -> bool {
    (from..from + blocks).contains(&row)
}

/// Plans how parity is made to agree with a data chunk, of its partial parity: `partial` names its rows,
/// parity by parity, and they are the plan's first reads, into buffers besides those of the parities.
/// Rows of the chunk that can't be read are known by parity alone. As P and Q may have different versions of
/// them, the first that is there counts, and the other is made to agree with it. The chunk is, too: should
/// it be read again, it might have another version than parity, which makes up for other chunks by then.
pub fn agree(
    plan: &mut Plan,
    geo: &Geometry,
    health: &Health<'_>,
    left_out: Role,
    partial: impl Iterator<Item = SubIo> + Clone,
) {
    plan.clear();
    for io in partial.clone() {
        let mem = plan.scratch(beside(geo, io.role), io.row);
        plan.reads.push(SubIo { mem, ..io });
    }
    for row in 0..geo.chunk() {
        let covers = |io: &SubIo| is_in(row, io.row, io.blocks);
        let parities: Set<Role> = partial.clone().filter(covers).map(|io| io.role).collect();
        agree_row(plan, geo, health, left_out, parities.and(health.writable), row);
    }
}

fn agree_row(
    plan: &mut Plan,
    geo: &Geometry,
    health: &Health<'_>,
    left_out: Role,
    parities: Set<Role>,
    row: u32,
) {
    let is_there = |role: Role| {
        let is_bad = health.bad.iter().any(|b| b.role == role && is_in(row, b.row, b.blocks));
        health.readable.has(role) && !is_bad
    };
    let partial = |role: Role| scratch(beside(geo, role), row);
    let known = is_there(left_out);
    let of_parity = || parities.into_iter().find(|&role| is_there(role));
    let Some(source) = Some(left_out).filter(|_| known).or_else(of_parity) else { return };
    let made = parities.without(source);
    let rewrites = !known && health.writable.has(left_out) && health.parity != Parity::OutOfStep;
    if made.is_empty() && !rewrites {
        return;
    }
    let mem = plan.scratch(source, row);
    plan.read(SubIo { role: source, row, blocks: 1, mem });
    let old = plan.scratch(left_out, row);
    if !known {
        let start = plan.operands.len();
        plan.operands.extend([mem, partial(source)]);
        let srcs = plan.operands_since(start);
        plan.step(Step::Xor { dst: old, srcs }, 1);
        if geo.q() == Some(source) {
            plan.step(Step::Unscale { dst: old, index: left_out.0 }, 1);
        }
    }
    let [p, q] = [geo.p(), geo.q()].map(|role| role.filter(|&role| made.has(role)).map(partial));
    match (p, q) {
        (None, None) => {}
        // For P alone a coefficient would do nothing: it is a plain XOR.
        (Some(dst), None) => plan.step(Step::Add { dst, src: old }, 1),
        _ => plan.step(Step::Delta { p, q, index: left_out.0, old, new: Mem::Zero }, 1),
    }
    for role in made {
        plan.write(SubIo { role, row, blocks: 1, mem: partial(role) });
    }
    if rewrites {
        plan.write(SubIo { role: left_out, row, blocks: 1, mem: old });
    }
}
