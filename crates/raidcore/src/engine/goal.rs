//! What background work wants of a stripe.

use super::PassKind;
use super::job::Job;
use super::stage::Stage;
use super::work::Work;
use crate::geometry::{Geometry, Role};
use crate::meta::{Replay, ReplayRun};
use crate::plan::{self, Goal, Health, Lost, Plan, SubIo};
use crate::units::{Mem, Set, Stripe};

/// What a background job wants of its stripe, and of which rows.
pub(super) fn goal(geo: &Geometry, health: &Health<'_>, job: &Job) -> (Goal, u32, u32) {
    let parities = geo.spare_roles();
    let data_lost = geo.data_roles().minus(health.readable);
    let whole = |goal| (goal, 0, geo.chunk());
    match job.work {
        Work::Sync(
            PassKind::Rebuild(member) | PassKind::Distribute(member) | PassKind::Copy(member),
        ) => {
            let write = geo.role(job.stripe, member).into_iter().collect();
            whole(Goal { write, compare: Set::EMPTY })
        }
        Work::Sync(PassKind::Resync) | Work::Align if geo.parities() == 0 => {
            // The first copy that can be read, row by row, is taken as it is.
            whole(Goal { write: health.writable, compare: health.readable })
        }
        Work::Sync(PassKind::Resync) | Work::Align => {
            // What stands in for lost data is taken as it is; the rest is made anew.
            let standing = health.readable.and(parities).take(data_lost.len()).collect();
            whole(Goal {
                write: parities.and(health.writable).minus(standing),
                compare: Set::EMPTY,
            })
        }
        Work::Sync(PassKind::Scrub { .. }) => {
            // What does not agree is corrected row by row, by a plan of its own.
            let redundant = if geo.parities() == 0 { health.readable } else { parities };
            let compare = redundant.and(health.readable);
            let enough = data_lost.len() < compare.len();
            whole(Goal { write: Set::EMPTY, compare: if enough { compare } else { Set::EMPTY } })
        }
        Work::Read
        | Work::Write
        | Work::Zero { .. }
        | Work::Sync(PassKind::Reshape)
        | Work::Repair
        | Work::Replay { .. }
        | Work::Reclaim => {
            // A repair is of one row, and reads no other.
            let roles: Set<Role> = job.bad.iter().map(|b| b.role).collect();
            let row = job.bad.first().map_or(0, |b| b.row);
            let write = roles.and(health.writable);
            (Goal { write, compare: Set::EMPTY }, row, 1)
        }
    }
}

/// Plans what background work does to its stripe; `also` is a role of which copies are to be written
/// besides, as it is.
pub(super) fn plan_sync(
    plan: &mut Plan,
    geo: &Geometry,
    health: &Health<'_>,
    job: &Job,
    also: Option<Role>,
) -> Result<Stage, Lost> {
    let is_lost =
        |role: Role| !health.readable.has(role) || job.bad.iter().any(|bad| bad.role == role);
    if let Work::Sync(PassKind::Copy(member)) = job.work {
        let Some(role) = geo.role(job.stripe, member) else { return Ok(Stage::Finish) };
        return plan::copy(plan, geo, health, role).map(|()| Stage::Buffers);
    }
    if let Work::Sync(PassKind::Rebuild(member)) = job.work
        && let Some(role) = geo.role(job.stripe, member).filter(|&role| !is_lost(role))
    {
        // There is a copy of it.
        plan.clear();
        plan::also(plan, role, geo.chunk(), &[]);
        return Ok(Stage::Buffers);
    }
    let (mut goal, row, blocks) = goal(geo, health, job);
    // What is to be current from now on is made anew if need be. What a crash has left is made the
    // same as far as it can be read.
    let also = match (job.work, also) {
        (Work::Sync(PassKind::Rebuild(_)), Some(role)) if is_lost(role) => {
            goal.write = goal.write.with(role);
            None
        }
        _ => also.filter(|&role| health.readable.has(role)),
    };
    if !goal.write.is_empty() || !goal.compare.is_empty() {
        plan::sync(plan, geo, health, goal, row, blocks)?;
    } else if also.is_none() {
        return Ok(Stage::Finish);
    } else {
        plan.clear();
    }
    if let Some(role) = also.filter(|&role| !goal.write.has(role)) {
        plan::also(plan, role, geo.chunk(), &job.bad);
    }
    Ok(Stage::Buffers)
}

/// An entry's blocks go where they were meant to go. The plan's first reads, as many as the entry has
/// runs, are issued from its place in the ring. Of a partial entry parity is made anew.
pub(super) fn plan_replay(
    plan: &mut Plan,
    geo: &Geometry,
    stripe: Stripe,
    entry: &Replay,
    health: &Health<'_>,
) {
    if let Some(role) = entry.left_out.and_then(|member| geo.role(stripe, member)) {
        let partial = entry.runs.iter().filter_map(|&ReplayRun { to: run, .. }| {
            let role = geo.role(stripe, run.member)?;
            Some(SubIo { role, row: run.row, blocks: run.blocks, mem: Mem::Zero })
        });
        return plan::agree(plan, geo, health, role, partial);
    }
    plan.clear();
    for ReplayRun { to: run, .. } in &entry.runs {
        let Some(role) = geo.role(stripe, run.member) else { continue };
        plan.scratch = plan.scratch.with(role);
        let mem = Mem::Scratch { buffer: u16::from(role.0), at: run.row };
        let io = SubIo { role, row: run.row, blocks: run.blocks, mem };
        plan.reads.push(io);
        if health.writable.has(role) {
            plan.writes.push(io);
        }
    }
}
