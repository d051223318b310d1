//! What background work wants of a stripe.

use super::PassKind;
use super::job::{Job, Work};
use crate::geometry::Geometry;
use crate::meta::{Replay, ReplayRun};
use crate::plan::{Goal, Health, Plan, SubIo};
use crate::units::{Mem, Set, Stripe};

/// What a background job wants of its stripe, and of which rows.
pub(super) fn goal(geo: &Geometry, health: &Health<'_>, job: &Job) -> (Goal, u32, u32) {
    let parities = Set::first(geo.members()).minus(Set::first(geo.data()));
    let data_lost = Set::first(geo.data()).minus(health.readable);
    let whole = |goal| (goal, 0, geo.chunk());
    match job.work {
        Work::Sync(PassKind::Rebuild(member)) => {
            let role = geo.role(job.stripe, member).index();
            whole(Goal { write: Set::one(role), compare: Set::EMPTY })
        }
        Work::Sync(PassKind::Resync) if geo.parities() == 0 => {
            // The first copy that can be read, row by row, is taken as it is.
            whole(Goal { write: health.writable, compare: health.readable })
        }
        Work::Sync(PassKind::Resync) => {
            // What stands in for lost data is taken as it is; the rest is made anew.
            let standing = health.readable.and(parities).take(data_lost.len());
            let standing = standing.fold(Set::EMPTY, Set::with);
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
        | Work::Repair
        | Work::Replay { .. }
        | Work::Reclaim => {
            // A repair is of one row, and reads no other.
            let roles = job.bad.iter().fold(Set::EMPTY, |set, b| set.with(b.role.index()));
            let row = job.bad.first().map_or(0, |b| b.row);
            let write = roles.and(health.writable);
            (Goal { write, compare: Set::EMPTY }, row, 1)
        }
    }
}

/// An entry's blocks go where they were meant to go; reads are issued from its place in the ring.
pub(super) fn plan_replay(
    plan: &mut Plan,
    geo: &Geometry,
    stripe: Stripe,
    entry: &Replay,
    writable: Set,
) {
    plan.clear();
    for ReplayRun { to: run, .. } in &entry.runs {
        let role = geo.role(stripe, run.member);
        plan.scratch = plan.scratch.with(role.index());
        let mem = Mem::Scratch { buffer: u16::from(role.0), at: run.row };
        let io = SubIo { role, row: run.row, blocks: run.blocks, mem };
        plan.reads.push(io);
        if writable.has(role.index()) {
            plan.writes.push(io);
        }
    }
}
