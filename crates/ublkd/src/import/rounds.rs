//! What an import, its commit and its undoing write, and in which order.
//!
//! Invariants:
//! - The writes of a round are durable before those of the next one begin; within a round they may become
//!   durable in any order, and a block may be torn by a crash.
//! - Preparing and undoing change nothing that md needs. Preparing writes superblocks only when md's have
//!   durable copies, and what they tell of is durable.
//! - A commit makes md's superblocks void before it writes one by which the array can be started. Until
//!   then, each device has a pending superblock and a copy of md's, so that the commit can go on or be
//!   undone.
//! - An undoing removes pending superblocks when md's are durable again, and the copies of those last.

use std::rc::Rc;

use raidcore::meta::{ArrayRecord, FORMER_SUPERBLOCK, SUPERBLOCKS};
use raidcore::units::{BLOCK_BYTES, Pba};

use super::found::{Block, Found};
use super::md::AT;
use super::problem::ImportError;

/// A write to one device.
pub(super) struct Write {
    /// Which device, by its number among those that are found.
    pub(super) device: usize,
    pub(super) at: Pba,
    pub(super) bytes: Rc<Block>,
}

/// Writes that become durable together.
pub(super) type Round = Vec<Write>;

/// Prepares `record` on devices, which are in the order of its members. `resync` is as in
/// [`ArrayRecord::new_maps`].
pub(super) fn prepare(record: &ArrayRecord, found: &[Found], resync: bool) -> Vec<Round> {
    let all = 0..found.len();
    let mut rounds = Vec::new();
    if found.iter().any(Found::has_copies) {
        rounds.push(without_superblocks(found.len()));
    }
    let former = all.clone().map(|device| {
        let bytes = Rc::new(*found[device].md);
        Write { device, at: FORMER_SUPERBLOCK, bytes }
    });
    let maps = record.new_maps(resync).flat_map(|(at, bytes)| {
        let bytes = Rc::new(bytes);
        all.clone().map(move |device| Write { device, at, bytes: bytes.clone() })
    });
    rounds.push(former.chain(maps).collect());
    rounds.extend(superblocks(record));
    rounds
}

/// Makes the devices those of `record` alone.
pub(super) fn commit(record: &ArrayRecord) -> Vec<Round> {
    let devices = record.slots.len();
    let mut rounds = vec![zeros(devices, &[AT])];
    rounds.extend(superblocks(record));
    rounds.push(zeros(devices, &[FORMER_SUPERBLOCK]));
    rounds
}

/// Gives the devices back to md.
///
/// # Errors
/// If md's superblock is nowhere on one of them.
pub(super) fn undo(found: &[Found]) -> Result<Vec<Round>, ImportError> {
    let mut restored = Vec::new();
    for (device, found) in found.iter().enumerate() {
        if found.md().is_ok() {
            continue;
        }
        let Some(former) = found.former() else {
            return Err(ImportError::NoWayBack { path: found.device.path().to_path_buf() });
        };
        restored.push(Write { device, at: AT, bytes: Rc::new(*former) });
    }
    let devices = found.len();
    Ok(vec![restored, without_superblocks(devices), zeros(devices, &[FORMER_SUPERBLOCK])])
}

/// Writes rounds to devices.
///
/// # Errors
/// The number of the device that can't be written, and why.
pub(super) fn carry_out(rounds: &[Round], found: &[Found]) -> Result<(), ImportError> {
    let failed = |device: usize| {
        let path = found[device].device.path().to_path_buf();
        |source| ImportError::Io { path, source }
    };
    for round in rounds.iter().filter(|round| !round.is_empty()) {
        for Write { device, at, bytes } in round {
            found[*device].device.write_at(*at, &bytes[..]).map_err(failed(*device))?;
        }
        for (device, found) in found.iter().enumerate() {
            found.device.sync().map_err(failed(device))?;
        }
    }
    Ok(())
}

/// All superblocks of the members, in two rounds of two copies.
fn superblocks(record: &ArrayRecord) -> [Round; 2] {
    [0, 2].map(|first| {
        let slots = record.slots.iter().enumerate();
        let writes = slots.flat_map(|(device, slot)| {
            let copies = record.superblocks(slot.device).skip(first).take(2);
            copies.map(move |(at, bytes)| Write { device, at, bytes: Rc::new(bytes) })
        });
        writes.collect()
    })
}

fn without_superblocks(devices: usize) -> Round {
    zeros(devices, &SUPERBLOCKS)
}

fn zeros(devices: usize, at: &[Pba]) -> Round {
    let bytes = Rc::new([0; BLOCK_BYTES]);
    let device = |device| {
        let bytes = bytes.clone();
        at.iter().map(move |&at| Write { device, at, bytes: bytes.clone() })
    };
    (0..devices).flat_map(device).collect()
}
