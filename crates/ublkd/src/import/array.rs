//! Whether superblocks of md are those of one array that Evenkeel can have where it lies, and how it
//! lies.

use raidcore::geometry::{Geometry, Level, Placement};
use raidcore::units::{MEMBERS_MAX, Pba};

use super::md::{BLOCK_SECTORS, MdSuperblock, ROLE_FAILED, ROLE_JOURNAL, ROLE_SPARE, feature};
use super::problem::{MdRefusal, Unfit};

/// The most blocks of a chunk.
const CHUNK_MAX: u64 = 256;

/// md's layout of RAID10 with two near copies, and none that are far.
const TWO_NEAR_COPIES: u32 = 0x102;

/// md's number for what is in step.
const IN_STEP: u64 = u64::MAX;

/// An array of md that Evenkeel can have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MdArray {
    /// Its name, without the host's; empty if it has none that is text.
    pub name: String,
    /// Its identity.
    pub set: [u8; 16],
    /// How it lies.
    pub geometry: Geometry,
    /// Where its stripes begin on each member.
    pub data_start: Pba,
    /// Which of the given devices each member is.
    pub order: Vec<usize>,
}

/// One of the given devices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    pub(super) superblock: &'a MdSuperblock,
    /// Its size in blocks.
    pub(super) blocks: u64,
}

impl MdArray {
    /// The array that these devices make.
    ///
    /// # Errors
    /// The number of a device, and what is wrong with it; or what is wrong with the array.
    pub(super) fn of(given: &[Given<'_>]) -> Result<Self, MdRefusal> {
        let Some(first) = given.first().map(|given| given.superblock) else {
            return Err(MdRefusal::Array(Unfit::NoDevices));
        };
        for (index, Given { superblock, .. }) in given.iter().enumerate() {
            let of = |unfit| MdRefusal::Device { index, unfit };
            if superblock.set != first.set {
                return Err(of(Unfit::OtherArray));
            }
            check_features(superblock).map_err(of)?;
            match superblock.role() {
                ROLE_SPARE => return Err(of(Unfit::Spare)),
                ROLE_FAILED => return Err(of(Unfit::Failed)),
                ROLE_JOURNAL => return Err(of(Unfit::Journal)),
                role if u32::from(role) >= superblock.raid_disks => {
                    return Err(of(Unfit::Role(role)));
                }
                _ => {}
            }
            if superblock.events != first.events || !agree(superblock, first) {
                return Err(of(Unfit::Disagrees));
            }
            if superblock.data_offset != first.data_offset {
                let (have, others) = (superblock.data_offset / 2, first.data_offset / 2);
                return Err(of(Unfit::OtherOffset { have, others }));
            }
        }
        let whole = |unfit| MdRefusal::Array(unfit);
        let level = level(first).map_err(whole)?;
        let order = order(given, first).map_err(whole)?;
        if level != Level::Raid0 && first.resync_offset != IN_STEP {
            return Err(whole(Unfit::Unclean));
        }
        let data_start = blocks(first.data_offset, "its data begins").map_err(whole)?;
        let sizes = given.iter().map(|given| given.superblock.data_size);
        let placement = placement(level, first).map_err(whole)?;
        let (chunk, stripes) = stripes(level, first, sizes).map_err(whole)?;
        let geometry = Geometry::new(level, order.len(), chunk, stripes)
            .and_then(|geometry| geometry.placed(placement))
            .map_err(|error| whole(Unfit::Geometry(error)))?;
        let data = geometry.member_set().map(|member| geometry.blocks_of(member)).max();
        let need = data.unwrap_or(0).checked_add(data_start);
        for (index, &Given { blocks: have, .. }) in given.iter().enumerate() {
            if need.is_none_or(|need| need > have) {
                return Err(MdRefusal::Device { index, unfit: Unfit::Short { have } });
            }
        }
        let (name, data_start) = (name(first), Pba(data_start));
        Ok(Self { name, set: first.set, geometry, data_start, order })
    }
}

/// Whether two superblocks say the same of the array.
fn agree(one: &MdSuperblock, other: &MdSuperblock) -> bool {
    let of = |s: &MdSuperblock| {
        (s.features, s.level, s.layout, s.size, s.chunk, s.raid_disks, s.resync_offset)
    };
    of(one) == of(other) && one.roles == other.roles
}

fn check_features(superblock: &MdSuperblock) -> Result<(), Unfit> {
    let has = |features| superblock.has(features);
    if has(feature::RESHAPE) {
        return Err(Unfit::Reshape);
    }
    if has(feature::RECOVERY | feature::REPLACEMENT) {
        return Err(Unfit::Recovery);
    }
    if has(feature::BAD_BLOCKS) {
        return Err(Unfit::BadBlocks);
    }
    if has(feature::JOURNAL) {
        return Err(Unfit::Journal);
    }
    if has(feature::PPL) {
        return Err(Unfit::Ppl);
    }
    if has(feature::CLUSTER) {
        return Err(Unfit::Cluster);
    }
    let known = feature::BITMAP | feature::RAID0_LAYOUT;
    match superblock.features & !known {
        0 => Ok(()),
        bits => Err(Unfit::Features(bits)),
    }
}

fn level(superblock: &MdSuperblock) -> Result<Level, Unfit> {
    match superblock.level {
        0 => Ok(Level::Raid0),
        1 => Ok(Level::Raid1),
        4 => Ok(Level::Raid4),
        5 => Ok(Level::Raid5),
        6 => Ok(Level::Raid6),
        10 => Ok(Level::Raid10),
        other => Err(Unfit::Level(other)),
    }
}

/// Which device each member is.
fn order(given: &[Given<'_>], first: &MdSuperblock) -> Result<Vec<usize>, Unfit> {
    let members = first.raid_disks as usize;
    if members > MEMBERS_MAX {
        return Err(Unfit::Members(first.raid_disks));
    }
    let roles = (0..members).map(|role| role as u16);
    let is_there = |role: &u16| first.roles.contains(role);
    let degraded: Vec<u16> = roles.clone().filter(|role| !is_there(role)).collect();
    if !degraded.is_empty() {
        return Err(Unfit::Degraded(degraded));
    }
    let holder = |role: &u16| given.iter().position(|given| given.superblock.role() == *role);
    let missing: Vec<u16> = roles.clone().filter(|role| holder(role).is_none()).collect();
    if !missing.is_empty() {
        return Err(Unfit::NotGiven(missing));
    }
    if given.len() > members {
        return Err(Unfit::Twice);
    }
    Ok(roles.filter_map(|role| holder(&role)).collect())
}

/// Whole blocks of this many sectors.
fn blocks(sectors: u64, what: &'static str) -> Result<u64, Unfit> {
    if sectors.is_multiple_of(BLOCK_SECTORS) {
        Ok(sectors / BLOCK_SECTORS)
    } else {
        Err(Unfit::Unaligned { what, sectors })
    }
}

/// Blocks of a chunk, and how many stripes there are.
fn stripes(
    level: Level,
    first: &MdSuperblock,
    mut sizes: impl Iterator<Item = u64>,
) -> Result<(u32, u64), Unfit> {
    if level == Level::Raid1 {
        // A mirror has no chunks: those of Evenkeel are as large as the size allows.
        let size = blocks(first.size, "it ends")?;
        let chunk = 1u64 << size.trailing_zeros().min(CHUNK_MAX.trailing_zeros());
        return if size == 0 { Err(Unfit::Empty) } else { Ok((chunk as u32, size / chunk)) };
    }
    let chunk = blocks(u64::from(first.chunk), "a chunk ends")?;
    if !chunk.is_power_of_two() || chunk > CHUNK_MAX {
        return Err(Unfit::Chunk { kib: first.chunk / 2 });
    }
    let sectors = chunk * BLOCK_SECTORS;
    let stripes = if level == Level::Raid0 {
        let stripes = first.data_size / sectors;
        if sizes.any(|size| size / sectors != stripes) {
            return Err(Unfit::Zones);
        }
        stripes
    } else if level == Level::Raid10 {
        // There is one for each pair of members and each chunk of a member.
        (first.size / sectors).saturating_mul(u64::from(first.raid_disks / 2))
    } else {
        first.size / sectors
    };
    if stripes == 0 { Err(Unfit::Empty) } else { Ok((chunk as u32, stripes)) }
}

/// Where chunks lie by md's number. Where a level has one placement only, md does not look at it.
fn placement(level: Level, superblock: &MdSuperblock) -> Result<Placement, Unfit> {
    let layout = superblock.layout;
    match level {
        Level::Raid0 | Level::Raid1 | Level::Raid4 => Ok(Placement::of(level)),
        Level::Raid5 | Level::Raid6 => {
            let named = Placement::all().nth(usize::try_from(layout).unwrap_or(usize::MAX));
            named.filter(|placement| placement.fits(level)).ok_or(Unfit::Layout(layout))
        }
        Level::Raid10 if layout != TWO_NEAR_COPIES => Err(Unfit::Copies(layout)),
        Level::Raid10 if !superblock.raid_disks.is_multiple_of(2) => {
            Err(Unfit::Odd(superblock.raid_disks))
        }
        Level::Raid10 => Ok(Placement::of(level)),
    }
}

fn name(superblock: &MdSuperblock) -> String {
    let name = std::str::from_utf8(&superblock.name).unwrap_or_default();
    name.rsplit_once(':').map_or(name, |(_, name)| name).to_owned()
}
