//! Finding out which block is wrong in a stripe that does not agree, and correcting it.
//!
//! Both follow [`sync`](super::sync), over the memory that its plan has filled: [`locate`] turns
//! its comparisons into questions, one a row; what the answers are is a [`Finding`]; [`mend`] plans
//! what corrects them. Nothing is read again.
//!
//! Invariant: what nothing tells to be wrong is believed if it is data or the first copy; a row and
//! a role that agree are not written (but for copies that nothing tells of whether they do).

use alloc::vec::Vec;

use super::sync::shadow;
use super::{Lost, Plan, Step, SubIo};
use crate::geometry::{Geometry, Level, Role};
use crate::parity::{Culprit, culprit, majority};
use crate::units::{Mem, Set};

/// How many writes at most are planned at once, for each member: the engine's table of I/O in
/// flight has room for as many from every job.
const WRITES_PER_MEMBER: usize = 4;

/// A row whose blocks don't agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Which row.
    pub row: u32,
    /// The roles whose blocks have to change for the row to agree.
    pub wrong: Set<Role>,
    /// Whether redundancy tells that these are wrong. If not, the data (of a mirror, the first
    /// copy) is believed.
    pub located: bool,
    /// Whose memory holds what is right: of a mirror, the copy that is taken to be; of copies on the
    /// distributed spare, their role if the one that was read last is. Otherwise it is computed.
    right: Option<Role>,
    /// A role with such copies that is believed, of which nothing has told that they are alike.
    alike: Option<Role>,
}

/// What a step can find; the host tells the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A [`Step::Compare`] found a difference.
    Difference,
    /// A [`Step::Locate`] or [`Step::Vote`] found a row that does not agree.
    Wrong(Finding),
}

impl Finding {
    /// The answer to a [`Step::Locate`], from the bytes of what P and Q lack.
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

/// Turns a plan of [`sync`](super::sync) that has found a difference into one that asks, row by
/// row, which block is wrong.
pub fn locate(plan: &mut Plan, geo: &Geometry) {
    let compared: Vec<Compared> = plan.steps.iter().filter_map(Compared::of).collect();
    plan.steps.clear();
    plan.operands.clear();
    for band in compared.chunk_by(|a, b| a.row == b.row) {
        if geo.level() == Level::Raid1 {
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

/// What each parity lacks takes the place of what it was compared with.
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

/// Judges a stripe of which a role has copies, that were read in a round each, the one in memory last.
/// `findings` are of that round, `before` are the rows that did not agree in the `others`, once for
/// each of these.
///
/// If a row agrees in a round, so does the copy that was read in it: the rest of the copies are wrong.
/// If it agrees in none, the copy in memory is what is judged, and believed if nothing tells.
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

/// Turns a plan of [`locate`] into one that corrects what was found. Returns how many of the
/// findings, in order: all, unless their writes would be too many at once.
///
/// # Errors
/// If what is wrong is not in `writable`.
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
