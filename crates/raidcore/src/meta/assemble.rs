//! Assembly: turns the metadata on devices into an array that can be started, or into the reason
//! why not. It is pure, so every image that a crash can leave behind can be tested.
//!
//! Invariants:
//! - Of a device only its superblocks count until the newest record lists it as in service and its
//!   own record lags by at most one change. A change is durable on all members before the next one
//!   begins. So a lag of one is a crash during a change; a larger lag means that the member missed
//!   something.
//! - A device that was out of service never comes back under the same identity. If it may return
//!   under another one, a warning says so.
//! - `slots` and `spares` of [`Assembled`] are as long as the record's.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::image::{Image, Unreadable, there};
use super::journal::Replay;
use super::layout::SUPERBLOCKS;
use super::load::{load_bitmap, load_map};
use super::page::{BitMap, MapKind, PageVersions};
use super::popularity;
use super::problem::{AssembleError, MissingMember, Warning};
use super::record::{ArrayRecord, Consistency, SlotState, Superblock};
use super::returns::{diverged, may_return};
use super::rings::{self, Rings};
use super::staged;
use super::superblock::{SuperblockError, choose};
use crate::units::{MemberId, Pba, Set};

/// Risks that an operator accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AssembleOptions {
    /// Start without members that were in service when the array stopped.
    pub degraded: bool,
    /// Start although blocks may be wrong.
    pub force: bool,
}

/// An array that can be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assembled {
    /// The newest record: it does not yet mark members that have gone missing since.
    pub record: ArrayRecord,
    /// That record as it is on disk, if what is started is to have another.
    pub before: Option<ArrayRecord>,
    /// The image of each member, and of each staging device.
    pub slots: Vec<Option<usize>>,
    /// How many blocks the device in each slot has; 0 if it is not there.
    pub slot_blocks: Vec<u64>,
    /// The image of each spare, in the record's order.
    pub spares: Vec<Option<usize>>,
    /// How many blocks each spare has; 0 if it is not there.
    pub spare_blocks: Vec<u64>,
    /// Images that are left out: stale, damaged, or too small a spare. `warnings` tells why.
    pub stale: Vec<usize>,
    /// The write-intent bitmap: regions that may be out of step.
    pub bitmap: BitMap,
    /// The versions of each page of the bitmap.
    pub bitmap_versions: Vec<PageVersions>,
    /// The zero map.
    pub zero_map: BitMap,
    /// The versions of each page of the zero map.
    pub zero_versions: Vec<PageVersions>,
    /// The map of missed regions: those in which devices that are away, or have returned and are
    /// being filled, may lack writes.
    pub missed: BitMap,
    /// The versions of each page of that map.
    pub missed_versions: Vec<PageVersions>,
    /// How often users asked for each of the array's ranges before it was stopped; nothing if that is not
    /// known.
    pub popularity: Vec<u32>,
    /// Journal entries to be replayed, in this order, before anything else.
    pub replay: Vec<Replay>,
    /// The number for the next journal entry.
    pub next_entry: u64,
    /// Staged blocks that are to be brought home before users are served.
    pub staged: Vec<Replay>,
    /// Warnings for the operator.
    pub warnings: Vec<Warning>,
    /// Whether the array was stopped cleanly.
    pub was_clean: bool,
}

/// Assembles an array from its devices.
///
/// # Errors
/// If the images belong to different arrays, are too few, or lack something without which the array
/// can't be started; see [`AssembleError`].
pub fn assemble<I: Image>(
    images: &[I],
    options: AssembleOptions,
) -> Result<Assembled, AssembleError> {
    let mut warnings = Vec::new();
    let superblocks = read_superblocks(images, &mut warnings)?;
    let newest = &newest(images, &superblocks, &warnings)?;
    if newest.is_pending() {
        return Err(AssembleError::Pending { name: newest.name.clone() });
    }
    let roster = Roster::new(images, &superblocks, newest, &mut warnings);
    roster.check_missing(newest, options, &warnings)?;
    let devices: Vec<Option<&I>> =
        roster.slots.iter().map(|slot| slot.map(|image| &images[image])).collect();
    let missing = roster.lost(newest).len();
    let degraded = missing > 0;

    // The maps of a member that is being filled may be older.
    let up: Vec<Option<&I>> = devices
        .iter()
        .zip(&newest.slots)
        .map(|(image, slot)| image.filter(|_| slot.state == SlotState::Up))
        .collect();
    let of_stripes = newest.geometry.members();
    let (members, whole) = (&devices[..of_stripes], &up[..of_stripes]);

    let (mut bitmap, bitmap_versions) = load_bitmap(newest, whole, missing, &mut warnings);
    let (mut zero_map, zero_versions, lost) = load_map(newest, whole, missing, MapKind::ZeroMap);
    for page in lost {
        accept(
            options.force,
            AssembleError::ZeroMapLost { page },
            Warning::ZeroMapPageLost { page },
            &mut warnings,
        )?;
    }
    let (mut missed, missed_versions, lost) = load_map(newest, whole, missing, MapKind::Missed);
    if !newest.keeps_missed() {
        missed.clear_all();
    } else {
        lost.into_iter().for_each(|page| missed.set_page(page));
    }
    // Without a mark in the bitmap no write was under way, so there is no write hole. A clean stop
    // leaves marks where a resync was not finished, and the parity there can't be relied on either.
    // A log volume relies on no stripe that was not written whole, and detects torn ones.
    let hole = newest.geometry.parities() > 0
        && newest.volume.is_none()
        && newest.consistency != Consistency::Journal
        && bitmap.count() > 0;
    if degraded && hole {
        let warning = Warning::DirtyDegraded;
        accept(options.force, AssembleError::DirtyDegraded, warning, &mut warnings)?;
    }
    let accepted = options.force || !degraded;
    let maps = (&mut bitmap, &mut missed);
    let (replay, next_entry) = read_journals(newest, members, maps, accepted, &mut warnings)?;
    let staged = read_staged(newest, &roster, &up, options.force, &mut warnings)?;
    forget_beyond(newest, [&mut bitmap, &mut missed, &mut zero_map]);
    Ok(Assembled {
        record: newest.clone(),
        before: None,
        slot_blocks: sizes(images, &roster.slots),
        slots: roster.slots,
        spare_blocks: sizes(images, &roster.spares),
        spares: roster.spares,
        stale: roster.left_out,
        bitmap,
        bitmap_versions,
        zero_map,
        zero_versions,
        missed,
        missed_versions,
        popularity: popularity::load(newest, whole),
        replay,
        next_entry,
        staged,
        warnings,
        was_clean: newest.clean,
    })
}

/// Clears bits of numbers that are no stripe's any more.
fn forget_beyond(record: &ArrayRecord, [bitmap, missed, zero_map]: [&mut BitMap; 3]) {
    let regions = record.areas.regions_of(record.stripes());
    bitmap.clear_from(regions);
    missed.clear_from(regions);
    zero_map.clear_from(record.stripes());
}

/// How many blocks each of these images has; 0 where there is none.
fn sizes<I: Image>(images: &[I], places: &[Option<usize>]) -> Vec<u64> {
    places.iter().map(|place| place.map_or(0, |image| images[image].blocks())).collect()
}

/// Which image belongs to which slot.
struct Roster {
    slots: Vec<Option<usize>>,
    spares: Vec<Option<usize>>,
    left_out: Vec<usize>,
}

impl Roster {
    fn new<I: Image>(
        images: &[I],
        superblocks: &[Option<Superblock>],
        newest: &ArrayRecord,
        warnings: &mut Vec<Warning>,
    ) -> Self {
        let mut roster = Self {
            slots: vec![None; newest.slots.len()],
            spares: vec![None; newest.spares.len()],
            left_out: Vec::new(),
        };
        for (index, (image, superblock)) in images.iter().zip(superblocks).enumerate() {
            let Some(superblock) = superblock else {
                roster.left_out.push(index);
                continue;
            };
            let (label, have) = (String::from(image.label()), image.blocks());
            let device = superblock.device;
            let events = superblock.record.events;
            let in_service =
                |slot: &super::SlotRecord| slot.device == device && slot.state != SlotState::Failed;
            let slot = newest.slots.iter().position(in_service);
            let spare = newest.spares.iter().position(|&spare| spare == device);
            let succeeds = newest.successor.is_some_and(|successor| successor.device == device);
            let need = match slot {
                Some(slot) => newest.blocks_of(MemberId::at(slot)),
                None => newest.least_blocks(),
            };
            let warning = match (slot, spare) {
                // The member from which a successor is filled has not missed what the successor
                // has.
                _ if (slot.is_some() || succeeds) && events < newest.events.saturating_sub(1) => {
                    Warning::Behind { label, events, newest: newest.events }
                }
                (Some(_), _) if have < need => Warning::Shrunk { label, have, need },
                (Some(slot), _) => {
                    roster.slots[slot] = Some(index);
                    continue;
                }
                (None, Some(_)) if have < need => Warning::SpareTooSmall { label, have, need },
                (None, Some(spare)) => {
                    roster.spares[spare] = Some(index);
                    continue;
                }
                (None, None) => match may_return(superblock, newest, have) {
                    Ok(returning) => Warning::MayReturn { label, member: returning.member },
                    Err(_) => Warning::OutOfService { label },
                },
            };
            warnings.push(warning);
            roster.left_out.push(index);
        }
        let seen =
            |device| superblocks.iter().flatten().any(|superblock| superblock.device == device);
        let absent = newest.spares.iter().copied().filter(|&spare| !seen(spare));
        warnings.extend(absent.map(|device| Warning::SpareMissing { device }));
        roster
    }

    /// Whether entries of the staging log may be on none of the present devices. Each entry is on
    /// one more device than may be lost, and on at least one of those in service. A device that was
    /// being filled was not in service, so it does not count.
    fn may_lack_staged(&self, record: &ArrayRecord) -> bool {
        let devices = record.places().skip(record.geometry.members());
        let lost = devices.filter(|place| match record.slots[place.index()].state {
            SlotState::Up => self.slots[place.index()].is_none(),
            // Entries on a new device were not acknowledged before the record listed it as up.
            SlotState::Failed | SlotState::Rebuilding { .. } => record.staging_thin.has(*place),
        });
        let lost = lost.count();
        let absent = self.slots.iter().zip(&record.slots);
        let mut absent = absent.filter(|(image, _)| image.is_none());
        lost > 0
            && absent.any(|(_, slot)| slot.state == SlotState::Up)
            && self.lost(record).len() + lost > record.geometry.redundancy()
    }

    /// The members that are missing or incomplete, have a part in stripes, and are not replaced by the
    /// distributed spare.
    fn lost(&self, record: &ArrayRecord) -> Set<MemberId> {
        let stood_in_for = record.stood_in_for().map(MemberId::index);
        let slots = self.slots.iter().zip(&record.slots).enumerate();
        let lost = |&(index, (image, slot)): &(usize, (&Option<usize>, &super::SlotRecord))| {
            let serves = image.is_some() && slot.state == SlotState::Up;
            !serves && stood_in_for != Some(index)
        };
        let (lost, layout) = (slots.filter(lost), record.layout());
        let lost = lost.map(|(index, _)| MemberId::at(index));
        lost.filter(|&member| layout.has_part(member)).collect()
    }

    fn check_missing(
        &self,
        record: &ArrayRecord,
        options: AssembleOptions,
        warnings: &[Warning],
    ) -> Result<(), AssembleError> {
        let slots = (0u8..).zip(self.slots.iter().zip(&record.slots));
        let absent = slots.filter(|(_, (image, _))| image.is_none()).map(|(member, (_, slot))| {
            let since = (slot.state == SlotState::Failed).then_some(slot.since);
            let member = MemberId(member);
            let stages = record.is_staging_device(member);
            MissingMember { member, device: slot.device, stages, since }
        });
        let (failed, missing): (Vec<_>, Vec<_>) = absent.partition(|m| m.since.is_some());
        let (lost, layout) = (self.lost(record), record.layout());
        let (members, redundancy) = (layout.members(), layout.redundancy());
        let left_out = warnings.to_vec();
        if !layout.can_spare(lost) {
            return Err(AssembleError::TooManyMissing {
                lost: lost.len(),
                redundancy,
                group: record.geometry.lost_group(lost).filter(|group| group.len() < members),
                missing,
                failed,
                left_out,
            });
        }
        if !missing.is_empty() && !options.degraded {
            return Err(AssembleError::Incomplete { missing, left_out });
        }
        Ok(())
    }
}

impl<I: Image> Image for &I {
    fn label(&self) -> &str {
        (*self).label()
    }

    fn blocks(&self) -> u64 {
        (*self).blocks()
    }

    fn block(&self, at: Pba) -> Result<&[u8], Unreadable> {
        (*self).block(at)
    }

    fn sum(&self, at: Pba) -> Option<u32> {
        (*self).sum(at)
    }
}

/// The superblock of each image; none for those that are damaged.
fn read_superblocks<I: Image>(
    images: &[I],
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Option<Superblock>>, AssembleError> {
    let mut superblocks = Vec::with_capacity(images.len());
    for image in images {
        let label = String::from(image.label());
        // A device that is too short for a copy has none; that differs from an unreadable copy.
        let copy = |at| image.block(at).ok();
        superblocks.push(match choose(&SUPERBLOCKS.map(copy)) {
            Ok(superblock) => Some(superblock),
            Err(SuperblockError::NotAMember) => return Err(AssembleError::NotAMember { label }),
            Err(SuperblockError::Refused(why)) => {
                return Err(AssembleError::Refused { label, why });
            }
            Err(SuperblockError::Damaged { valid }) => {
                warnings.push(Warning::Damaged { label, valid });
                None
            }
        });
    }
    Ok(superblocks)
}

/// The newest record, if all images are different devices of one array with one history.
fn newest<I: Image>(
    images: &[I],
    superblocks: &[Option<Superblock>],
    warnings: &[Warning],
) -> Result<ArrayRecord, AssembleError> {
    let label = |index: usize| String::from(images[index].label());
    let known: Vec<(usize, &Superblock)> =
        superblocks.iter().enumerate().filter_map(|(i, s)| Some((i, s.as_ref()?))).collect();
    let Some(&(_, newest)) = known.iter().max_by_key(|(_, s)| s.record.events) else {
        let left_out = warnings.to_vec();
        return Err(if images.is_empty() {
            AssembleError::NoImages
        } else {
            AssembleError::AllDamaged { left_out }
        });
    };
    let pairs = || {
        let later = |at: usize| known[at + 1..].iter();
        known.iter().enumerate().flat_map(move |(at, a)| later(at).map(move |b| (*a, *b)))
    };
    for ((a, first), (b, second)) in pairs() {
        if first.record.array != second.record.array {
            return Err(AssembleError::OtherArray {
                label: label(b),
                array: second.record.array,
                first_label: label(a),
                first: first.record.array,
            });
        }
        if first.device == second.device {
            let device = first.device;
            return Err(AssembleError::Copies { first: label(a), second: label(b), device });
        }
    }
    for ((a, first), (b, second)) in pairs() {
        if diverged(&first.record, &second.record) {
            return Err(AssembleError::SplitBrain { first: label(a), second: label(b) });
        }
    }
    let mut record = newest.record.clone();
    let equals = known.iter().filter(|(_, s)| s.record.events == record.events);
    if equals.clone().any(|(_, s)| s.record.filled != record.filled) {
        // A release that does not know of it has begun to write this version once more.
        record.filled = None;
    }
    Ok(record)
}

/// The staged blocks that are to be brought home.
fn read_staged<I: Image>(
    record: &ArrayRecord,
    roster: &Roster,
    up: &[Option<&I>],
    force: bool,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Replay>, AssembleError> {
    if record.clean || record.areas.staging().1 == 0 {
        return Ok(Vec::new());
    }
    if roster.may_lack_staged(record) {
        let (error, warning) = (AssembleError::StagedMissing, Warning::StagedMissing);
        accept(force, error, warning, warnings)?;
    }
    let (staged, lost) = staged::read(record, up, warnings);
    if let Some(entry) = lost {
        let (error, warning) = (AssembleError::StagedLost { entry }, Warning::StagedLost { entry });
        accept(force, error, warning, warnings)?;
    }
    Ok(staged)
}

/// The entries to be replayed, in this order, and the number of the next one. Marks in the
/// write-intent bitmap the regions that they write. `accepted`: start even if a journal can't be
/// read.
fn read_journals<I: Image>(
    record: &ArrayRecord,
    members: &[Option<&I>],
    (bitmap, missed): (&mut BitMap, &mut BitMap),
    accepted: bool,
    warnings: &mut Vec<Warning>,
) -> Result<(Vec<Replay>, u64), AssembleError> {
    if record.clean || record.consistency != Consistency::Journal {
        return Ok((Vec::new(), 1));
    }
    if !check_journals(record, members, accepted, warnings)? {
        // The entries of such a ring are not replayed, and an earlier replay of them may have been
        // cut short by a crash.
        bitmap.set_all();
    }
    for region in rings::unknown(record, members, missed.len()) {
        missed.set(region);
    }
    let rings = Rings::read(record, members, missed);
    let replays = rings.replay(warnings);
    // A crash may cut the replay short, and the member with the entry may then be lost. The marks
    // tell where the other members may hold a part of it.
    for Replay { stripe, .. } in &replays {
        bitmap.set(record.areas.region(*stripe));
    }
    Ok((replays, rings.next_entry()))
}

/// Whether the journals can be read. With `accepted`, an unreadable one is no error.
fn check_journals<I: Image>(
    record: &ArrayRecord,
    members: &[Option<&I>],
    accepted: bool,
    warnings: &mut Vec<Warning>,
) -> Result<bool, AssembleError> {
    let (start, blocks) = record.journal_ring();
    let mut whole = true;
    for image in members.iter().flatten() {
        if (start.0..start.0 + blocks).all(|at| there(*image, Pba(at)).is_some()) {
            continue;
        }
        whole = false;
        let label = String::from(image.label());
        let error = AssembleError::JournalUnreadable { label: label.clone() };
        accept(accepted, error, Warning::JournalUnreadable { label }, warnings)?;
    }
    Ok(whole)
}

/// An error; a warning if it is accepted.
fn accept(
    accepted: bool,
    error: AssembleError,
    warning: Warning,
    warnings: &mut Vec<Warning>,
) -> Result<(), AssembleError> {
    if accepted {
        warnings.push(warning);
        Ok(())
    } else {
        Err(error)
    }
}
