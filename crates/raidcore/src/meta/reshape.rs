//! A reshape: the superblock's fields of it, how one begins, and how it ends.
//!
//! Invariant: what the record says of a window is durable before it says so, and what is told to be vacant
//! is overwritten only when it has said so.

use alloc::vec::Vec;

use super::codec::{CodecError, Field};
use super::label::DeviceLabel;
use super::numbers::{decode_level, level_number};
use super::placements;
use super::record::{ArrayRecord, Consistency, Features, SlotRecord, SlotState};
use super::shapes::journal_least;
use super::{Assembled, LayoutError};
use crate::geometry::{Frontier, Geometry, GeometryError, Level, Placement, Shares};
use crate::units::{MEMBERS_MAX, MemberId, Pba};

const LEVEL: Field<1> = Field { at: placements::SHARES_END };
const PLACEMENT: Field<1> = LEVEL.then();
const MEMBERS: Field<1> = PLACEMENT.then();
const SAVED: Field<4> = MEMBERS.then();
const NEXT: Field<8> = SAVED.then();
const SHARES: Field<MEMBERS_MAX> = NEXT.then();
const CHUNK: Field<4> = SHARES.then();
const STRIPES: Field<8> = CHUNK.then();

const _: () = assert!(STRIPES.end() <= 2048);

/// The most stripes that are saved at a time. So their chunks' buffers can be numbered.
pub(crate) const SAVED_MAX: u32 = 1024;

/// That the array's stripes become those of its record's geometry, and how far that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reshape {
    /// The geometry that they had, with the numbers that they have meanwhile ([`Frontier::from`]).
    pub from: Geometry,
    /// How many stripes are new ones, durably.
    pub next: u64,
    /// How many new stripes after these are in the members' areas for saved stripes, durably: the old ones
    /// whose place they are to have may be half overwritten.
    pub saved: u32,
}

/// Why an array can't become another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReshapeError {
    /// It is being reshaped already, to something else.
    #[error("it is being reshaped already; wait until that is done")]
    UnderWay,
    /// There is nothing to do.
    #[error("it is that already")]
    Nothing,
    /// It was not stopped cleanly.
    #[error("it was not stopped cleanly; start it, stop it, and try again")]
    Unclean,
    /// A member is missing or being filled, or a device is being copied to.
    #[error("not all of its members are in service; replace those that are not, and try again")]
    Degraded,
    /// It has no journal that protects what is under way.
    #[error("only RAID4, RAID5 and RAID6 with a journal can be reshaped")]
    NoJournal,
    /// It has something that can't be taken along.
    #[error("an array with {0} can't be reshaped")]
    Has(&'static str),
    /// What a stripe holds would become less.
    #[error(
        "a stripe has {have} chunks of data and would have {would}: an array can be reshaped only to as \
         many or more; add members"
    )]
    Shrinks {
        /// Data chunks of a stripe.
        have: usize,
        /// Data chunks of a new one.
        would: usize,
    },
    /// Members would have to go.
    #[error("it has {have} members and would have {would}: members can't be taken out")]
    FewerMembers {
        /// Members.
        have: usize,
        /// Members afterwards.
        would: usize,
    },
    /// There are too few spares to become members.
    #[error("{needed} spares would become members, and {have} are there; add spares first")]
    Spares {
        /// How many would become members.
        needed: usize,
        /// Spares that are there and large enough.
        have: usize,
    },
    /// Members are too small.
    #[error(
        "a member has {have} blocks of 4 KiB and would need {need}: replace it by a larger one first"
    )]
    TooSmall {
        /// The blocks that it has.
        have: u64,
        /// The blocks that it would need.
        need: u64,
    },
    /// There is no room to save stripes.
    #[error(
        "its journal has no room for stripes of that size, some of which are saved while they are moved"
    )]
    NoRoom,
    /// Such an array is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Its metadata has no room for such an array.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// What an array is to become; what is not told stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// Its level.
    pub level: Option<Level>,
    /// How many members it has.
    pub members: Option<usize>,
    /// Blocks of a chunk.
    pub chunk: Option<u32>,
    /// How chunks lie. If that is not told, it stays where it can, and is the level's default else.
    pub placement: Option<Placement>,
}

impl Target {
    /// What an array of this geometry is to become.
    fn geometry(&self, from: &Geometry) -> Result<Geometry, GeometryError> {
        let level = self.level.unwrap_or(from.level());
        let members = self.members.unwrap_or(from.members());
        let before = from.placement();
        let shares_fit = !matches!(before, Placement::Uneven(_)) || members == from.members();
        let stays = before.fits(level) && shares_fit;
        let otherwise = if stays { before } else { Placement::of(level) };
        let placement = self.placement.unwrap_or(otherwise);
        let chunk = self.chunk.unwrap_or(from.chunk());
        // Chunks that become larger may need more of each member.
        let blocks = from.stripes() * u64::from(from.chunk());
        let stripes = blocks.div_ceil(u64::from(chunk.max(1)));
        Geometry::new(level, members, chunk, stripes)?.placed(placement)
    }
}

impl Assembled {
    /// Makes the array one that is being reshaped, which is on record once it is started. Before that, the
    /// caller has to write [its maps](Self::relaid_maps) durably. Spares become its new members; returns
    /// which, by their order. If it is being reshaped to this target already, nothing changes.
    ///
    /// # Errors
    /// If it can't become that, or not now: [`ReshapeError`] tells why.
    pub fn begin_reshape(&mut self, target: &Target) -> Result<Vec<usize>, ReshapeError> {
        let record = &self.record;
        let from = record.geometry;
        let geometry = target.geometry(&from)?;
        match record.reshape {
            Some(_) if geometry == from => return Ok(Vec::new()),
            Some(_) => return Err(ReshapeError::UnderWay),
            None if geometry == from => return Err(ReshapeError::Nothing),
            None => {}
        }
        let has_journal = record.consistency == Consistency::Journal && from.parities() > 0;
        if !has_journal || geometry.parities() == 0 {
            return Err(ReshapeError::NoJournal);
        }
        let spare = record.areas.has_distributed_spare();
        let has = [
            (spare, "a distributed spare"),
            (record.slots.len() > from.members(), "staging devices"),
        ];
        if let Some((_, what)) = has.into_iter().find(|(has, _)| *has) {
            return Err(ReshapeError::Has(what));
        }
        if geometry.members() < from.members() {
            let (have, would) = (from.members(), geometry.members());
            return Err(ReshapeError::FewerMembers { have, would });
        }
        if geometry.data() < from.data() {
            return Err(ReshapeError::Shrinks { have: from.data(), would: geometry.data() });
        }
        self.is_settled()?;
        self.change_geometry(geometry)
    }

    /// Whether the array can become another: all of it is there and at rest.
    pub(super) fn is_settled(&self) -> Result<(), ReshapeError> {
        let record = &self.record;
        if record.volume.is_some() {
            return Err(ReshapeError::Has("a log volume on it"));
        }
        let serves = |slot: &SlotRecord| slot.state == SlotState::Up;
        let all = self.slots.iter().all(Option::is_some) && record.slots.iter().all(serves);
        if !all || record.successor.is_some() {
            return Err(ReshapeError::Degraded);
        }
        if !self.was_clean || self.bitmap.count() > 0 {
            return Err(ReshapeError::Unclean);
        }
        Ok(())
    }

    /// Spares become members of an array that can be reshaped.
    fn change_geometry(&mut self, geometry: Geometry) -> Result<Vec<usize>, ReshapeError> {
        let mut record = self.record.clone();
        let from = record.geometry;
        let needed = geometry.members() - from.members();
        let first = geometry.stripes().saturating_sub(from.stripes());
        record.reshape = Some(Reshape { from: from.numbered_from(first), next: 0, saved: 0 });
        record.geometry = geometry;
        let (_, journal) = record.areas.journal();
        if journal < journal_least(&geometry, record.consistency) {
            return Err(ReshapeError::NoRoom);
        }
        record.areas = record.areas.for_stripes(&geometry, &from, first > 0, record.consistency)?;
        record.features.incompatible &= !(Features::PLACEMENT | Features::PARITY_SHARES);
        record.features.incompatible |=
            Features::RESHAPE | placements::features(geometry.level(), geometry.placement());
        record.tell_stripes();
        if record.saved_area().1 == 0 {
            return Err(ReshapeError::NoRoom);
        }
        let need = record.blocks_of(MemberId(0));
        if let Some(&have) = self.slot_blocks.iter().find(|&&have| have < need) {
            return Err(ReshapeError::TooSmall { have, need });
        }
        let fits =
            |index: &usize| self.spares[*index].is_some() && self.spare_blocks[*index] >= need;
        let taken: Vec<usize> = (0..self.spares.len()).filter(fits).take(needed).collect();
        if taken.len() < needed {
            return Err(ReshapeError::Spares { needed, have: taken.len() });
        }
        let relaid = self.relay_maps(&record, |stripe| stripe + first)?;
        for &index in &taken {
            let slot = SlotRecord::up(record.spares[index], record.created);
            let state = SlotState::Rebuilding { watermark: 0 };
            record.slots.push(SlotRecord { state, ..slot });
            record.labels.push(DeviceLabel::NONE);
            self.slots.push(self.spares[index]);
            self.slot_blocks.push(self.spare_blocks[index]);
        }
        for &index in taken.iter().rev() {
            record.spares.remove(index);
            self.spares.remove(index);
            self.spare_blocks.remove(index);
        }
        for place in record.places() {
            record.set_label(place, record.labels[place.index()]);
        }
        self.adopt(record, relaid);
        Ok(taken)
    }
}

impl ArrayRecord {
    /// Where the journal's ring is, and how many blocks it has; none if there is no journal. While the array
    /// is reshaped, a part of its area is for saved stripes.
    #[must_use]
    pub fn journal_ring(&self) -> (Pba, u64) {
        let (start, blocks) = self.areas.journal();
        (start, blocks - self.saved_area().1 * u64::from(self.geometry.chunk()))
    }

    /// Where each member has new stripes that can't be brought home at once, and how many there is room for;
    /// none if the array is not being reshaped.
    #[must_use]
    pub fn saved_area(&self) -> (Pba, u64) {
        let (Pba(start), blocks) = self.areas.journal();
        let Some(reshape) = &self.reshape else { return (Pba(start + blocks), 0) };
        let least = |geometry| journal_least(geometry, self.consistency);
        let ring = least(&self.geometry).max(least(&reshape.from)).max(blocks / 2);
        let chunk = u64::from(self.geometry.chunk());
        let stripes = (blocks.saturating_sub(ring) / chunk).min(SAVED_MAX.into());
        let stripes = stripes - stripes % self.geometry.share_of(&reshape.from);
        (Pba(start + blocks - stripes * chunk), stripes)
    }

    /// Notes whether it has the feature that its maps, or its old stripes, call for.
    pub(crate) fn tell_stripes(&mut self) {
        let from = self.reshape.map_or(self.geometry.chunk(), |reshape| reshape.from.chunk());
        let tells = self.areas.stripes != self.geometry.stripes() || from != self.geometry.chunk();
        self.features.incompatible &= !Features::STRIPES;
        self.features.incompatible |= if tells { Features::STRIPES } else { 0 };
    }

    /// The most members that may be missing, of stripes that need the fewest. What is to outlive as many has
    /// to be on one more.
    pub(crate) fn greatest_redundancy(&self) -> usize {
        let from = self.reshape.map_or(0, |reshape| reshape.from.redundancy_at_best());
        self.geometry.redundancy_at_best().max(from)
    }

    /// How far its reshape has come, as an array is that was started by this record.
    pub(super) fn frontier(&self) -> Option<Frontier> {
        self.reshape.map(|Reshape { from, next, saved }| Frontier {
            from,
            next,
            window: saved.into(),
            saved_at: (saved > 0).then(|| self.saved_area().0),
        })
    }
}

/// Writes the fields of a record.
pub(super) fn encode(record: &ArrayRecord, into: &mut [u8]) {
    let Some(Reshape { from, next, saved }) = &record.reshape else { return };
    LEVEL.put(into, [level_number(from.level())]);
    PLACEMENT.put(into, [from.placement().number()]);
    MEMBERS.put(into, [from.members() as u8]);
    if record.features.incompatible & Features::STRIPES != 0 {
        CHUNK.put(into, from.chunk().to_le_bytes());
        STRIPES.put(into, from.stripes().to_le_bytes());
    }
    SAVED.put(into, saved.to_le_bytes());
    NEXT.put(into, next.to_le_bytes());
    if let Placement::Uneven(shares) = from.placement() {
        into[SHARES.at..][..shares.percent().len()].copy_from_slice(shares.percent());
    }
}

/// The reshape of an array with this geometry, if one is under way.
pub(super) fn decode(
    block: &[u8],
    features: &Features,
    geometry: &Geometry,
) -> Result<Option<Reshape>, CodecError> {
    if features.incompatible & Features::RESHAPE == 0 {
        return Ok(None);
    }
    let invalid = CodecError::Invalid("reshape");
    let (level, members) = (decode_level(LEVEL.u8(block))?, usize::from(MEMBERS.u8(block)));
    let number = PLACEMENT.u8(block);
    let percent = SHARES.get(block);
    let uneven = || Shares::new(percent.get(..members)?).ok().map(Placement::Uneven);
    let placement = Placement::all().chain(uneven()).find(|placement| placement.number() == number);
    let (chunk, stripes) = match features.incompatible & Features::STRIPES {
        0 => (geometry.chunk(), geometry.stripes()),
        _ => (CHUNK.u32(block), STRIPES.u64(block)),
    };
    let from = Geometry::new(level, members, chunk, stripes)?
        .placed(placement.ok_or(invalid)?)?
        .numbered_from(geometry.stripes().saturating_sub(stripes));
    let reshape = Reshape { from, next: NEXT.u64(block), saved: SAVED.u32(block) };
    let end = reshape.next.checked_add(reshape.saved.into());
    let blocks = |geometry: &Geometry| geometry.stripes() * u64::from(geometry.chunk());
    let grows = from.members() <= geometry.members()
        && from.data() <= geometry.data()
        && blocks(&from) <= blocks(geometry);
    let redundant = from.parities() > 0 && geometry.parities() > 0;
    let share = geometry.share_of(&from);
    let fits = reshape.next < geometry.stripes()
        && end.is_some_and(|end| end <= geometry.stripes())
        && [geometry.stripes(), reshape.next, reshape.saved.into()]
            .iter()
            .all(|stripes| stripes.is_multiple_of(share));
    if grows && redundant && fits { Ok(Some(reshape)) } else { Err(invalid) }
}

/// Checks that saved stripes fit, and that there is nothing that a reshape can't take along.
pub(super) fn check(record: &ArrayRecord) -> Result<(), CodecError> {
    let Some(reshape) = &record.reshape else { return Ok(()) };
    let (_, room) = record.saved_area();
    let alone = record.volume.is_none()
        && record.consistency == Consistency::Journal
        && !record.areas.has_distributed_spare()
        && record.slots.len() == record.geometry.members()
        && record.stripes() <= record.areas.stripes;
    let holds = alone && room > 0 && u64::from(reshape.saved) <= room;
    if holds { Ok(()) } else { Err(CodecError::Invalid("reshape")) }
}
