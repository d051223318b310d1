//! From paths to an array that can be started: opens and locks the members, reads their metadata,
//! and lets [`raidcore::meta::assemble`] judge.
//!
//! Invariants:
//! - What is on a device decides nothing here: sizes that it claims are bounded by the device's own
//!   before memory is taken for them.
//! - An attached array's devices are locked, those that were left out are closed again.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use raidcore::meta::{
    ArrayId, ArrayRecord, AssembleError, AssembleOptions, MemberImage, SUPERBLOCK_COPIES,
    SUPERBLOCKS, SievedImage, StagedRing, Superblock, SuperblockError, VolumePart, assemble,
    choose_superblock,
};
use raidcore::units::{BLOCK_BYTES, Pba};

use crate::flash::Named;
use crate::host::Group;
use crate::members::{Device, OpenError, OpenOptions};

/// The blocks that hold all copies of the superblock.
const HEAD_BLOCKS: u64 = SUPERBLOCKS[SUPERBLOCK_COPIES - 1].0 + 1;

/// How much is read at once; where that fails, block by block.
const READ_BLOCKS: usize = 256;

/// To look at a device that may be in use.
const LOOK: OpenOptions = OpenOptions { direct: true, read_only: true };

/// How long to wait for a device that is in use. What a killed process had locked stays so until
/// the kernel has torn its io_uring down, a moment after the process is gone.
pub(crate) const RELEASE_MAX: Duration = Duration::from_secs(2);

/// How often to try meanwhile.
const RELEASE_POLL: Duration = Duration::from_millis(20);

/// An array or a log volume, its members open and locked.
#[derive(Debug)]
pub struct Attached {
    /// The array; of a log volume those of its groups, in order.
    pub groups: Vec<Group>,
}

impl Attached {
    /// What is on record of the array, or of a log volume's first group.
    #[must_use]
    pub fn record(&self) -> &ArrayRecord {
        &self.groups[0].assembled.record
    }

    /// That the groups' records agree on the log volume.
    fn check_parts(&self) -> Result<(), AttachError> {
        let first = self.record().volume;
        for (number, group) in (0u8..).zip(&self.groups) {
            let record = &group.assembled.record;
            if record.volume != first.map(|part| VolumePart { group: number, ..part }) {
                let name = record.name.clone();
                return Err(AttachError::Disagree { name, group: number });
            }
        }
        Ok(())
    }

    /// Whether it is a log volume.
    #[must_use]
    pub fn is_log(&self) -> bool {
        self.record().volume.is_some()
    }
}

/// Why an array can't be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// A member can't be opened or is in use.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The members don't make an array that can be started.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// Members of two log volumes, or of one and of something else.
    #[error(
        "{path} is no member of the log volume \"{name}\", as others are: give the members of one"
    )]
    OtherVolume {
        /// A member.
        path: PathBuf,
        /// The volume of the first member that belongs to one.
        name: String,
    },
    /// The superblocks of a log volume's groups contradict each other.
    #[error(
        "the members of group {group} of the log volume \"{name}\" say something else of the volume \
         than those of group 0: they were damaged, or changed on purpose"
    )]
    Disagree {
        /// The volume's name.
        name: String,
        /// Which group.
        group: u8,
    },
    /// No member of a log volume's group is there.
    #[error(
        "of group {group} of the log volume \"{name}\" no member is there, and it has {groups} groups: \
         give the members of all"
    )]
    GroupMissing {
        /// The volume's name.
        name: String,
        /// Which group.
        group: u8,
        /// How many it has.
        groups: u8,
    },
    /// There is no memory for a device's metadata.
    #[error("{path}: there is no memory for its {blocks} blocks of metadata")]
    Memory {
        /// The device.
        path: PathBuf,
        /// Blocks of 4 KiB.
        blocks: u64,
    },
    /// No member of the array was found.
    #[error("no member of the array \"{name}\" was found in {places}")]
    NotFound {
        /// The array's name.
        name: String,
        /// Where it was looked for.
        places: String,
    },
    /// Two arrays bear the name.
    #[error(
        "there are two arrays named \"{name}\" ({first} and {second}); give the paths of the \
         members of one"
    )]
    Ambiguous {
        /// The name.
        name: String,
        /// One.
        first: ArrayId,
        /// The other.
        second: ArrayId,
    },
    /// A directory can't be listed.
    #[error("{path}: {source}")]
    Scan {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Opens and locks `paths` and assembles the array that they make, or the arrays of a log volume's
/// groups. Paths can be those of modelled
/// SSDs ([`Named`]).
///
/// # Errors
/// If a device can't be opened or the devices don't make an array, see [`AttachError`].
pub fn attach(paths: &[PathBuf], options: AssembleOptions) -> Result<Attached, AttachError> {
    let mut opened = Vec::with_capacity(paths.len());
    let mut images = Vec::with_capacity(paths.len());
    for path in paths {
        let named = Named::parse(path).map_err(OpenError::from)?;
        let mut device = open(&named.path, &opened)?;
        if let Some(flash) = &named.flash {
            device.make_flash(flash).map_err(OpenError::from)?;
        }
        images.push(read_image(&device)?);
        opened.push(Some(device));
    }
    let groups = group(images, paths)?;
    let groups = groups.into_iter().map(|images| {
        let (places, images): (Vec<usize>, Vec<SievedImage>) = images.into_iter().unzip();
        let assembled = assemble(&images, options)?;
        let wanted = assembled.slots.iter().chain(&assembled.spares);
        let mut take = |image: usize| opened.get_mut(*places.get(image)?)?.take();
        let devices = wanted.copied().map(|image| image.and_then(&mut take)).collect();
        Ok(Group { assembled, devices })
    });
    let attached = Attached { groups: groups.collect::<Result<_, AttachError>>()? };
    attached.check_parts()?;
    Ok(attached)
}

/// Devices' images with their numbers, by the group of the log volume that they belong to. All of them
/// are one group if none belongs to a volume.
fn group(
    images: Vec<(SievedImage, Option<Superblock>)>,
    paths: &[PathBuf],
) -> Result<Vec<Vec<(usize, SievedImage)>>, AttachError> {
    let part_of = |superblock: &Option<Superblock>| superblock.as_ref()?.record.volume;
    let first = images.iter().filter_map(|(_, superblock)| superblock.as_ref());
    let first = first.map(|superblock| &superblock.record).find(|record| record.volume.is_some());
    let Some((VolumePart { volume, groups, .. }, name)) =
        first.and_then(|record| Some((record.volume?, record.name.clone())))
    else {
        return Ok(vec![images.into_iter().map(|(image, _)| image).enumerate().collect()]);
    };
    let mut all: Vec<Vec<_>> = (0..groups).map(|_| Vec::new()).collect();
    for (at, (image, superblock)) in images.into_iter().enumerate() {
        let group = match (part_of(&superblock), superblock) {
            (Some(part), _) if (part.volume, part.groups) == (volume, groups) => part.group,
            // What is no member at all, the first group's assembly tells.
            (None, None) => 0,
            (Some(_) | None, _) => {
                return Err(AttachError::OtherVolume { path: paths[at].clone(), name });
            }
        };
        all[usize::from(group)].push((at, image));
    }
    match (0..).zip(&all).find(|(_, images)| images.is_empty()) {
        Some((group, _)) => Err(AttachError::GroupMissing { name, group, groups }),
        None => Ok(all),
    }
}

/// Opens a device, that of a process which was just killed too. `opened` are ours already.
pub(crate) fn open(path: &Path, opened: &[Option<Device>]) -> Result<Device, OpenError> {
    let deadline = Instant::now() + RELEASE_MAX;
    let mut told = false;
    loop {
        match Device::open(path, OpenOptions::default()) {
            Err(OpenError::InUse { holder, .. })
                if Instant::now() < deadline
                    && holder != Some(std::process::id())
                    && !is_among(path, opened) =>
            {
                if !std::mem::replace(&mut told, true) {
                    let holder = holder.map(|process| format!(", process {process}"));
                    tracing::info!(
                        "waiting up to {} s for {}: whoever has it{} may be about to end",
                        RELEASE_MAX.as_secs(),
                        path.display(),
                        holder.unwrap_or_default()
                    );
                }
                std::thread::sleep(RELEASE_POLL);
            }
            result => return result,
        }
    }
}

fn is_among(path: &Path, opened: &[Option<Device>]) -> bool {
    let Ok(device) = Device::open(path, LOOK) else {
        return false;
    };
    opened.iter().flatten().any(|other| other.identity() == device.identity())
}

/// What a device says that it is.
#[derive(Debug)]
pub struct Examined {
    /// The device.
    pub path: PathBuf,
    /// Its size in blocks.
    pub blocks: u64,
    /// Its superblock, or why it has none.
    pub superblock: Result<Superblock, SuperblockError>,
    /// How many copies of the superblock are intact, of
    /// [`SUPERBLOCK_COPIES`].
    pub intact_copies: usize,
    /// The profile of the SSD that it is modelled as, if it is modelled as one.
    pub flash: Option<String>,
}

/// Looks at a device without locking or changing it.
///
/// # Errors
/// If it can't be opened.
pub fn examine(path: &Path) -> Result<Examined, OpenError> {
    let device = Device::open(Named::parse(path)?.path, LOOK)?;
    let (head, unreadable) = read(&device, HEAD_BLOCKS.min(device.blocks()), Vec::new());
    let copies = copies(&head, &unreadable);
    Ok(Examined {
        path: device.path().to_path_buf(),
        flash: device.flash_profile().map(str::to_owned),
        blocks: device.blocks(),
        superblock: choose_superblock(&copies),
        intact_copies: copies
            .into_iter()
            .flatten()
            .filter(|copy| Superblock::decode(copy).is_ok())
            .count(),
    })
}

/// What an array is known by; of a log volume's groups, all of which are one thing, the volume.
pub(crate) fn identity(record: &ArrayRecord) -> ArrayId {
    record.volume.map_or(record.array, |part| ArrayId(part.volume.0))
}

/// Finds the members of the array called `name` in `places`: directories, of which all files and
/// block devices but those of ublk are looked at, or such themselves. What can't be opened or read
/// is passed over.
///
/// # Errors
/// If there is none, or members of two arrays of that name, or a directory can't be listed.
pub fn find(name: &str, places: &[PathBuf]) -> Result<Vec<PathBuf>, AttachError> {
    let mut found: Vec<(PathBuf, Superblock)> = Vec::new();
    for path in candidates(places)? {
        let Ok(examined) = examine(&path) else {
            continue;
        };
        match examined.superblock {
            Ok(superblock) if superblock.record.name == name => found.push((path, superblock)),
            Ok(_) | Err(_) => {}
        }
    }
    let list = || {
        let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        places.join(", ")
    };
    let Some(first) = found.first().map(|(_, superblock)| identity(&superblock.record)) else {
        return Err(AttachError::NotFound { name: name.to_owned(), places: list() });
    };
    if let Some((_, other)) = found.iter().find(|(_, s)| identity(&s.record) != first) {
        return Err(AttachError::Ambiguous {
            name: name.to_owned(),
            first,
            second: identity(&other.record),
        });
    }
    Ok(found.into_iter().map(|(path, _)| path).collect())
}

fn candidates(places: &[PathBuf]) -> Result<Vec<PathBuf>, AttachError> {
    let mut paths = Vec::new();
    for place in places {
        if !place.is_dir() {
            paths.push(place.clone());
            continue;
        }
        let scan = |source| AttachError::Scan { path: place.clone(), source };
        for entry in std::fs::read_dir(place).map_err(scan)? {
            let entry = entry.map_err(scan)?;
            let path = entry.path();
            if !path.is_dir() && !is_served(&entry.file_name()) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Whether it is called like a device of the ublk driver: one that its server has left by dying,
/// maybe this very array, can't be read before it is served again.
fn is_served(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"ublkb")
}

/// What the assembly has to see of a device. The staging log, which is last and can be large, is void
/// on a device that was stopped cleanly: even if a crash amid the next start has left it so, nothing
/// was staged since. And its superblock, if it has one.
fn read_image(device: &Device) -> Result<(SievedImage, Option<Superblock>), AttachError> {
    let (head, unreadable) = read(device, HEAD_BLOCKS.min(device.blocks()), Vec::new());
    let superblock = choose_superblock(&copies(&head, &unreadable));
    let (blocks, ring) = match &superblock {
        Ok(Superblock { record, device: uuid }) => {
            let place = record.member_of(*uuid);
            let (start, ring) =
                place.map_or(record.areas.staging(), |place| record.staging_of(place));
            (start.0.min(device.blocks()), if record.clean { 0 } else { ring })
        }
        Err(_) => (head.len() as u64 / BLOCK_BYTES as u64, 0),
    };
    let mut meta = Vec::new();
    let bytes = usize::try_from(blocks).ok().and_then(|b| b.checked_mul(BLOCK_BYTES));
    let room = bytes.map(|bytes| meta.try_reserve_exact(bytes));
    if !matches!(room, Some(Ok(()))) {
        return Err(AttachError::Memory { path: device.path().to_path_buf(), blocks });
    }
    let (meta, unreadable) = read(device, blocks, meta);
    let label = device.path().display().to_string();
    let image = MemberImage { label, blocks: device.blocks(), meta, unreadable };
    let image = SievedImage { image, ring: read_ring(device, Pba(blocks), ring) };
    Ok((image, superblock.ok()))
}

/// A device's part of the staging log, which has so many blocks.
fn read_ring(device: &Device, start: Pba, blocks: u64) -> StagedRing {
    let mut ring = StagedRing::new(start);
    let end = (start.0 + blocks).min(device.blocks());
    let mut bytes = vec![0; READ_BLOCKS * BLOCK_BYTES];
    for at in (start.0..end).step_by(READ_BLOCKS) {
        let count = READ_BLOCKS.min((end - at) as usize);
        let (part, _) = bytes[..count * BLOCK_BYTES].as_chunks_mut::<BLOCK_BYTES>();
        let unreadable = read_part(device, Pba(at), part.as_flattened_mut());
        for (block, at) in part.iter().zip(at..) {
            ring.push((!unreadable.contains(&Pba(at))).then_some(block));
        }
    }
    ring
}

/// The first `blocks` blocks of a device into `bytes`; those that can't be read are zeros and are
/// listed.
fn read(device: &Device, blocks: u64, mut bytes: Vec<u8>) -> (Vec<u8>, Vec<Pba>) {
    bytes.resize(blocks as usize * BLOCK_BYTES, 0);
    let parts = bytes.chunks_mut(READ_BLOCKS * BLOCK_BYTES);
    let parts = parts.zip((0..).step_by(READ_BLOCKS));
    let unreadable = parts.flat_map(|(part, at)| read_part(device, Pba(at), part)).collect();
    (bytes, unreadable)
}

/// Some blocks of a device; those that can't be read are zeros and are listed.
fn read_part(device: &Device, start: Pba, part: &mut [u8]) -> Vec<Pba> {
    let mut unreadable = Vec::new();
    if device.read_at(start, part).is_ok() {
        return unreadable;
    }
    for (block, at) in part.chunks_mut(BLOCK_BYTES).zip(start.0..) {
        if let Err(error) = device.read_at(Pba(at), block) {
            tracing::warn!(path = %device.path().display(), block = at, %error, "can't read");
            block.fill(0);
            unreadable.push(Pba(at));
        }
    }
    unreadable
}

/// The copies of the superblock, as far as they are there and can be read.
fn copies<'a>(head: &'a [u8], unreadable: &[Pba]) -> [Option<&'a [u8]>; SUPERBLOCK_COPIES] {
    SUPERBLOCKS.map(|at| {
        let start = at.0 as usize * BLOCK_BYTES;
        let block = head.get(start..start + BLOCK_BYTES);
        // Past the end of a device that is too small there is no mark, which is not unreadable.
        let block = block.unwrap_or(&[]);
        (!unreadable.contains(&at)).then_some(block)
    })
}

#[cfg(test)]
mod tests {
    use raidcore::geometry::Level;

    use super::*;
    use crate::create::{CreateConfig, StagingSize, create};

    #[test]
    fn a_staging_log_is_read_only_where_something_may_be_in_it_and_not_kept() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let paths = [0, 1, 2].map(|member| dir.path().join(format!("m{member}")));
        let mut config = CreateConfig::new("tank", Level::Raid5, paths.to_vec());
        (config.file_blocks, config.staging) = (Some(8192), Some(StagingSize::Blocks(1000)));
        let mut record = create(&config).expect("it is created").record;
        let device = open(&paths[1], &[]).expect("a device");
        let (start, len) = record.areas.staging();
        let read = || {
            let (SievedImage { image, ring }, _) = read_image(&device).expect("it is read");
            assert_eq!(image.meta.len() / BLOCK_BYTES, start.0 as usize);
            (ring.blocks() as u64, ring.kept())
        };
        assert_eq!(read(), (0, 0));
        record.clean = false;
        let uuid = record.slots[1].device;
        for (at, block) in record.superblocks(uuid) {
            device.write_at(at, &block).expect("it is written");
        }
        assert_eq!(read(), (len, 0));
    }
}
