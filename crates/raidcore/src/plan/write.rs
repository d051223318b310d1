use super::band::{self, Band};
use super::recover::{generate, read_survivors, recover};
use super::{Health, Lost, Parity, Piece, Plan, Step, SubIo, WriteKind};
use crate::geometry::{Geometry, Role};
use crate::units::{Mem, Set};

/// The content of a stripe before a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// What is stored.
    Stored,
    /// Zeros, whatever is stored: the stripe was discarded. A write then writes all of it.
    Zeros,
}

/// Plans a write of `pieces`, which don't overlap. Each band takes the feasible way that reads
/// least. Returns the way of the band that reads most.
///
/// # Errors
/// If a piece could neither be written to its member nor be kept in parity, or if what is needed
/// can't be read or recovered.
pub fn write(
    plan: &mut Plan,
    geo: &Geometry,
    health: &Health<'_>,
    pieces: &[Piece],
    base: Base,
) -> Result<WriteKind, Lost> {
    plan.clear();
    let whole = (base == Base::Zeros).then_some((0, geo.chunk()));
    let cuts = band::cut(plan, pieces, health, whole);
    let result = band::bands(&cuts, pieces, health)
        .filter(|band| base == Base::Zeros || !band.covered.is_empty())
        .try_fold(WriteKind::Full, |most, band| {
            let planner = BandWrite { geo, health, pieces, band, base };
            let kind = if geo.is_mirrored() { planner.mirror(plan) } else { planner.parity(plan) };
            kind.map(|kind| most.max(kind))
        });
    band::restore(plan, cuts);
    result
}

struct BandWrite<'a> {
    geo: &'a Geometry,
    health: &'a Health<'a>,
    pieces: &'a [Piece],
    band: Band,
    base: Base,
}

impl BandWrite<'_> {
    /// The new content of a data chunk, if it is given.
    fn given(&self, role: Role) -> Option<Mem> {
        let given = band::payload(self.pieces, &self.band, role);
        given.or((self.base == Base::Zeros).then_some(Mem::Zero))
    }

    fn mirror(&self, plan: &mut Plan) -> Result<WriteKind, Lost> {
        let writable = self.health.writable;
        if writable.is_empty() {
            return Err(Lost);
        }
        let Some(mem) = self.given(Role(0)) else {
            return Ok(WriteKind::Full);
        };
        for role in writable {
            self.write(plan, role, mem);
        }
        Ok(WriteKind::Full)
    }

    fn parity(&self, plan: &mut Plan) -> Result<WriteKind, Lost> {
        let data = self.geo.data_roles();
        let covered = if self.base == Base::Zeros { data } else { self.band.covered };
        let parities = self.health.writable.minus(data);
        if data.minus(self.health.writable).len() > parities.len() {
            return Err(Lost);
        }
        let kind = self.cheapest(covered, parities);
        match kind {
            Some(WriteKind::Full) => {}
            Some(WriteKind::Rest) => self.read(plan, data.minus(covered)),
            Some(WriteKind::Delta) => {
                self.read(plan, covered.or(parities));
                self.delta(plan, covered, parities);
            }
            Some(WriteKind::Survivors) | None => self.survivors(plan)?,
        }
        let kind = kind.unwrap_or(WriteKind::Survivors);
        if kind != WriteKind::Delta {
            let row = self.band.row;
            let mut at = |plan: &mut Plan, role: Role| match self.given(role) {
                Some(mem) => mem,
                None => plan.scratch(role, row),
            };
            let mut into = |plan: &mut Plan, role: Role| plan.scratch(role, row);
            generate(plan, self.geo, self.band.blocks, parities, &mut at, &mut into);
        }
        for role in covered.and(self.health.writable) {
            if let Some(mem) = self.given(role) {
                self.write(plan, role, mem);
            }
        }
        // Parity now includes the recovered content of blocks that could not be read. If such a
        // block became readable again with other content, parity would disagree.
        let recovered = match kind {
            WriteKind::Survivors => data.and(self.health.writable).minus(self.band.readable),
            WriteKind::Full | WriteKind::Rest | WriteKind::Delta => Set::EMPTY,
        };
        for role in parities.or(recovered.minus(covered)) {
            let mem = plan.scratch(role, self.band.row);
            self.write(plan, role, mem);
        }
        Ok(kind)
    }

    /// The feasible way with the fewest reads; `None` if only reading all survivors is left.
    fn cheapest(&self, covered: Set<Role>, parities: Set<Role>) -> Option<WriteKind> {
        let data = self.geo.data_roles();
        let rest = data.minus(covered);
        if rest.is_empty() || parities.is_empty() {
            return Some(WriteKind::Full);
        }
        let readable = self.band.readable;
        let can_rest = rest.minus(readable).is_empty();
        let changed = covered.or(parities);
        let in_step = self.health.parity == Parity::InStep;
        let can_delta = in_step && changed.minus(readable).is_empty();
        match (can_rest, can_delta) {
            (true, true) if rest.len() <= changed.len() => Some(WriteKind::Rest),
            (_, true) => Some(WriteKind::Delta),
            (true, false) => Some(WriteKind::Rest),
            (false, false) => None,
        }
    }

    fn read(&self, plan: &mut Plan, roles: Set<Role>) {
        for role in roles {
            let mem = plan.scratch(role, self.band.row);
            plan.read(SubIo { role, row: self.band.row, blocks: self.band.blocks, mem });
        }
    }

    fn delta(&self, plan: &mut Plan, covered: Set<Role>, parities: Set<Role>) {
        let row = self.band.row;
        let p = self.geo.p().filter(|&p| parities.has(p)).map(|p| plan.scratch(p, row));
        let q = self.geo.q().filter(|&q| parities.has(q)).map(|q| plan.scratch(q, row));
        for role in covered {
            let old = plan.scratch(role, row);
            let Some(new) = self.given(role) else {
                continue;
            };
            let step = Step::Delta { p, q, index: role.0, old, new };
            plan.step(step, self.band.blocks);
        }
    }

    /// Reads all surviving blocks and recovers the others, into scratch.
    fn survivors(&self, plan: &mut Plan) -> Result<(), Lost> {
        let row = self.band.row;
        let mut at = |plan: &mut Plan, role: Role| plan.scratch(role, row);
        let (lost, helpers) =
            read_survivors(plan, self.geo, &self.band, self.health.parity, &mut at)?;
        recover(plan, self.geo, self.band.blocks, lost, helpers, &mut at);
        Ok(())
    }

    fn write(&self, plan: &mut Plan, role: Role, mem: Mem) {
        plan.write(SubIo { role, row: self.band.row, blocks: self.band.blocks, mem });
    }
}
