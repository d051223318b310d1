use super::band::{self, Band};
use super::recover::{read_survivors, recover};
use super::{Base, Health, Lost, Piece, Plan, Step, SubIo};
use crate::geometry::{Geometry, Role};
use crate::units::{Mem, Set};

/// Plans a read of `pieces` into their memory. A mirror is read from its first readable copy,
/// counted from `prefer`.
///
/// # Errors
/// If a piece can't be read or recovered.
pub fn read(
    plan: &mut Plan,
    geo: &Geometry,
    health: &Health<'_>,
    pieces: &[Piece],
    base: Base,
    prefer: usize,
) -> Result<(), Lost> {
    plan.clear();
    if base == Base::Zeros {
        for piece in pieces {
            plan.step(Step::Clear { dst: piece.mem }, piece.blocks);
        }
        return Ok(());
    }
    read_bands(plan, geo, health, pieces, |band, role| band::payload(pieces, band, role), prefer)
}

/// As [`read`], but only the last step, when all blocks are there, touches the pieces' memory. So a
/// job that stops waiting for a read may give that memory back.
///
/// # Errors
/// As [`read`].
pub fn read_aside(
    plan: &mut Plan,
    geo: &Geometry,
    health: &Health<'_>,
    pieces: &[Piece],
    prefer: usize,
) -> Result<(), Lost> {
    plan.clear();
    read_bands(plan, geo, health, pieces, |_, _| None, prefer)?;
    for piece in pieces {
        let src = plan.scratch(piece.role, piece.row);
        plan.step(Step::Copy { dst: piece.mem, src }, piece.blocks);
    }
    Ok(())
}

/// Plans a read of the blocks of `pieces`, to where `into` says, or else to scratch memory.
fn read_bands(
    plan: &mut Plan,
    geo: &Geometry,
    health: &Health<'_>,
    pieces: &[Piece],
    into: impl Fn(&Band, Role) -> Option<Mem>,
    prefer: usize,
) -> Result<(), Lost> {
    let cuts = band::cut(plan, pieces, health, None);
    let read_band = |band: Band| {
        let at = |plan: &mut Plan, role: Role| match into(&band, role) {
            Some(mem) => mem,
            None => plan.scratch(role, band.row),
        };
        read_band(plan, geo, health, &band, at, prefer)
    };
    let result = band::bands(&cuts, pieces, health)
        .filter(|band| !band.covered.is_empty())
        .try_for_each(read_band);
    band::restore(plan, cuts);
    result
}

fn read_band(
    plan: &mut Plan,
    geo: &Geometry,
    health: &Health<'_>,
    band: &Band,
    mut at: impl FnMut(&mut Plan, Role) -> Mem,
    prefer: usize,
) -> Result<(), Lost> {
    let (row, blocks) = (band.row, band.blocks);
    if geo.is_mirrored() {
        let mem = at(plan, Role(0));
        let n = geo.width();
        let mut copies = (0..n).map(|i| Role::at((prefer + i) % n));
        let copy = copies.find(|&role| band.readable.has(role)).ok_or(Lost)?;
        plan.read(SubIo { role: copy, row, blocks, mem });
        return Ok(());
    }
    if band.covered.minus(band.readable).is_empty() {
        for role in band.covered {
            let mem: Mem = at(plan, role);
            plan.read(SubIo { role, row, blocks, mem });
        }
        return Ok(());
    }
    let (lost, helpers): (Set<Role>, Set<Role>) =
        read_survivors(plan, geo, band, health.parity, &mut at)?;
    recover(plan, geo, blocks, lost, helpers, &mut at);
    Ok(())
}
