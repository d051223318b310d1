//! Finds the wrong block in a stripe that is inconsistent, and corrects it.
//!
//! Both steps follow [`sync`](super::sync) and use the memory that its plan has filled; nothing is
//! read again. [`locate`] turns its comparisons into one question for each row, whose answer is a
//! [`Finding`]. [`mend`] plans the corrections.
//!
//! Invariant: where redundancy does not tell what is wrong, the data or the first copy is believed.
//! A consistent row or role is not written, except for copies that were not compared.

use alloc::vec::Vec;

use super::sync::shadow;
use super::{Lost, Plan, Step, SubIo};
use crate::geometry::{Geometry, Role};
use crate::parity::{Culprit, culprit, majority};
use crate::units::{Mem, Set};

/// The most writes planned at once for each member: the engine's table of I/O in flight has room
/// for as many from every job.
const WRITES_PER_MEMBER: usize = 4;

/// A row whose blocks are inconsistent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Which row.
    pub row: u32,
    /// The roles whose blocks have to change to make the row consistent.
    pub wrong: Set<Role>,
    /// Whether redundancy tells that these are wrong. If not, the data (in a mirror, the first
    /// copy) is believed.
    pub located: bool,
    /// The role whose memory holds the right content: in a mirror, the copy that is believed; with
    /// copies on the distributed spare, the role itself if the last copy read is right. Otherwise
    /// it is computed.
    right: Option<Role>,
    /// A role with such copies that is believed although the copies were not found equal.
    alike: Option<Role>,
}

/// The findings of a step; the host tells the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A [`Step::Compare`] found a difference.
    Difference,
    /// A [`Step::Locate`] or [`Step::Vote`] found a row that does not agree.
    Wrong(Finding),
}

impl Finding {
    /// The answer to a [`Step::Locate`], from the bytes of P's and Q's syndromes.
    #[must_use]
    pub fn of_parity(row: u32, data: u8, p: Option<&[u8]>, q: Option<&[u8]>) -> Option<Self> {
        let (p_alone, q_alone) = (Set::one(Role(data)), Set::one(Role(data + 1)));
        let lacks = |syndrome: &[u8]| syndrome.iter().any(|&byte| byte != 0);
        let (wrong, located) = match (p, q) {
            (Some(p), Some(q)) => match culprit(p, q, usize::from(data))? {
                Culprit::P => (p_alone, true),
                Culprit::Q => (q_alone, true),
                Culprit::Data(index) => (Set::one(Role::at(index)), true),
                Culprit::Unknown => (p_alone.or(q_alone), false),
            },
            (Some(p), None) => (lacks(p).then_some(p_alone)?, false),
            (None, Some(q)) => (lacks(q).then_some(q_alone)?, false),
            (None, None) => return None,
        };
        Some(Self { row, wrong, located, right: None, alike: None })
    }

    /// The answer to a [`Step::Vote`], from the bytes of the copies, by role.
    #[must_use]
    pub fn of_copies(row: u32, copies: &[Option<&[u8]>]) -> Option<Self> {
        let voted = majority(copies);
        let right = voted.or_else(|| copies.iter().position(Option::is_some))?;
        let differs = |role: &Role| {
            let copy = copies[role.index()];
            copy.is_some() && copy != copies[right]
        };
        let wrong: Set<Role> = Set::first(copies.len()).filter(differs).collect();
        let right = Some(Role::at(right));
        (!wrong.is_empty()).then_some(Self {
            row,
            wrong,
            located: voted.is_some(),
            right,
            alike: None,
        })
    }
}

/// Turns a plan of [`sync`](super::sync) that has found a difference into one that locates the
/// wrong block of each row.
pub fn locate(plan: &mut Plan, geo: &Geometry) {
    let compared: Vec<Compared> = plan.steps.iter().filter_map(Compared::of).collect();
    plan.steps.clear();
    plan.operands.clear();
    for band in compared.chunk_by(|a, b| a.row == b.row) {
        if geo.is_mirrored() {
            vote(plan, geo, band);
        } else {
            syndromes(plan, geo, band);
        }
    }
}

/// A comparison of a plan.
#[derive(Clone, Copy)]
struct Compared {
    row: u32,
    blocks: u32,
    /// The roles whose buffers were compared.
    roles: [Role; 2],
}

impl Compared {
    fn of(&(step, blocks): &(Step, u32)) -> Option<Self> {
        let Step::Compare {
            a: Mem::Scratch { buffer: a, at: row },
            b: Mem::Scratch { buffer: b, .. },
        } = step
        else {
            return None;
        };
        Some(Self { row, blocks, roles: [a, b].map(|buffer| Role::at(usize::from(buffer))) })
    }
}

/// Replaces what each parity was compared with by its syndrome.
fn syndromes(plan: &mut Plan, geo: &Geometry, band: &[Compared]) {
    for &Compared { row, blocks, roles: [parity, computed] } in band {
        let (src, dst) = (plan.scratch(parity, row), plan.scratch(computed, row));
        plan.step(Step::Add { dst, src }, blocks);
    }
    let Some(&Compared { row: first, blocks, .. }) = band.first() else { return };
    for row in first..first + blocks {
        let of = |plan: &mut Plan, parity: Option<Role>| {
            let parity = parity.filter(|p| band.iter().any(|compared| compared.roles[0] == *p));
            parity.map(|parity| plan.scratch(shadow(geo, parity), row))
        };
        let (p, q) = (of(plan, geo.p()), of(plan, geo.q()));
        plan.step(Step::Locate { row, p, q, data: geo.data() as u8 }, 1);
    }
}

fn vote(plan: &mut Plan, geo: &Geometry, band: &[Compared]) {
    let Some(&Compared { row: first, blocks, .. }) = band.first() else { return };
    let there: Set<Role> = band.iter().flat_map(|compared| compared.roles).collect();
    for row in first..first + blocks {
        let start = plan.operands.len();
        for role in geo.roles() {
            let mem = if there.has(role) { plan.scratch(role, row) } else { Mem::Zero };
            plan.operands.push(mem);
        }
        let copies = plan.operands_since(start);
        plan.step(Step::Vote { row, copies }, 1);
    }
}

/// Judges a stripe in which a role has several copies. Each round has read one of them; the last is
/// in memory. `findings` are those of the last round. `before` lists the rows that were
/// inconsistent in the `others`, once for each of these rounds.
///
/// If a row is consistent in a round, the copy read in it is right, and the other copies are wrong.
/// If it is consistent in none, the copy in memory is judged, and believed if nothing tells
/// otherwise.
pub fn judge_copies(findings: &mut Vec<Finding>, before: &[u32], others: usize, role: Role) {
    let copy =
        Finding { row: 0, wrong: Set::one(role), located: true, right: Some(role), alike: None };
    for finding in findings.iter_mut() {
        let row = finding.row;
        if before.iter().filter(|&&other| other == row).count() < others {
            *finding = Finding { row, right: None, ..copy };
        } else if others > 0 && !finding.wrong.has(role) {
            finding.alike = Some(role);
        }
    }
    for &row in before {
        if !findings.iter().any(|finding| finding.row == row) {
            findings.push(Finding { row, ..copy });
        }
    }
}

/// Turns a plan of [`locate`] into one that corrects the findings. Returns how many of them it
/// corrects, in order: all, unless that takes too many writes at once.
///
/// # Errors
/// If a wrong role is not in `writable`.
pub fn mend(
    plan: &mut Plan,
    geo: &Geometry,
    findings: &[Finding],
    writable: Set<Role>,
) -> Result<usize, Lost> {
    plan.steps.clear();
    plan.operands.clear();
    plan.writes.clear();
    let most = WRITES_PER_MEMBER * geo.width();
    for (done, &Finding { row, wrong, right, alike, .. }) in findings.iter().enumerate() {
        if !wrong.minus(writable).is_empty() {
            return Err(Lost);
        }
        if plan.writes.len() + wrong.len() + usize::from(alike.is_some()) > most {
            return Ok(done);
        }
        for role in wrong {
            let mem = plan.scratch(right.unwrap_or(role), row);
            let lacking = geo.q().filter(|&q| q == role).or(geo.p());
            if let Some(parity) = lacking.filter(|_| right.is_none()) {
                let src = plan.scratch(shadow(geo, parity), row);
                plan.step(Step::Add { dst: mem, src }, 1);
            }
            plan.write(SubIo { role, row, blocks: 1, mem });
        }
        if let Some(role) = alike {
            let mem = plan.scratch(role, row);
            plan.write(SubIo { role, row, blocks: 1, mem });
        }
    }
    Ok(findings.len())
}
