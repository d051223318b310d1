//! From paths to an array that can be started: opens and locks the members, reads their metadata,
//! and lets [`raidcore::meta::assemble`] judge.
//!
//! Invariants:
//! - Sizes in a device's metadata are bounded by the size of the device before memory is allocated
//!   for them.
//! - An attached array's devices are locked, those that were left out are closed again.

mod copies;
mod find;
mod read;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use raidcore::meta::{
    ArrayId, ArrayRecord, AssembleError, AssembleOptions, LEASE_BLOCK, LeaseBlock, SievedImage,
    Superblock, SuperblockError, VolumePart, assemble, choose_superblock,
};
use raidcore::units::BLOCK_BYTES;

use crate::flash::Named;
use crate::host::Group;
use crate::members::{Device, OpenError, OpenOptions};
use crate::paths::shown;
use copies::Candidate;
pub(crate) use find::complete;
use find::distinct;
pub use find::{Found, LeftOut, Scanned, Wanted, find, scan};
use read::{Purpose, copies, read_head, read_image};

/// To look at a device that may be in use.
const LOOK: OpenOptions = OpenOptions { direct: true, read_only: true };

/// How long to wait for a device that is in use. A killed process's locks stay until the kernel has
/// torn down its io_uring, a moment after the process is gone.
pub(crate) const RELEASE_MAX: Duration = Duration::from_secs(2);

/// How often to try meanwhile.
const RELEASE_POLL: Duration = Duration::from_millis(20);

/// An array or a log volume, its members open and locked.
#[derive(Debug)]
pub struct Attached {
    /// The array; of a log volume those of its groups, in order.
    pub groups: Vec<Group>,
    /// Devices that were given or found and are not used.
    pub left_out: Vec<LeftOut>,
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

    /// The same, by what its devices hold now. They stay locked meanwhile.
    ///
    /// # Errors
    /// As from [`attach`].
    pub(crate) fn read_again(self, options: AssembleOptions) -> Result<Self, AttachError> {
        let Self { groups, left_out } = self;
        let devices = groups.into_iter().flat_map(|group| group.devices).flatten();
        let candidates = devices.map(|device| {
            let (image, superblock) = read_image(&device, Purpose::Start)?;
            Ok(Candidate { device, image, superblock })
        });
        let candidates = candidates.collect::<Result<_, AttachError>>()?;
        put_together(candidates, left_out, options)
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
        "{path} is no member of the log volume \"{name}\", as others are: give the members of one",
        path = shown(.path)
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
    /// Linux md has made an array of a device that Evenkeel's superblocks are still on.
    #[error(
        "{path} is a member of an array of Linux md now, which does not know what Evenkeel would write: \
         docs/leaving-for-md.md says how to erase Evenkeel's superblocks; to take it back, erase md's \
         with `mdadm --zero-superblock`, if nothing was written through md",
        path = shown(.path)
    )]
    IsMd {
        /// The device.
        path: PathBuf,
    },
    /// There is no memory for a device's metadata.
    #[error("{path}: there is no memory for its {blocks} blocks of metadata", path = shown(.path))]
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
        "there are two arrays named \"{name}\" ({first} and {second}); say which by --uuid, or give \
         the paths of the members of one"
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
    #[error("{path}: {source}", path = shown(.path))]
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
    gather(paths, options, Purpose::Start)
}

/// The result of [`attach`] for `paths` if the process that runs their array stopped it now. The
/// devices are neither locked nor changed.
///
/// # Errors
/// As [`attach`]. Metadata that is being changed may look wrong.
pub fn preview(paths: &[PathBuf], options: AssembleOptions) -> Result<Attached, AttachError> {
    // The array will be stopped cleanly, so the state after a crash does not matter.
    gather(paths, AssembleOptions { force: true, ..options }, Purpose::Preview)
}

fn gather(
    paths: &[PathBuf],
    options: AssembleOptions,
    purpose: Purpose,
) -> Result<Attached, AttachError> {
    let Found { paths, left_out } = distinct(paths.to_vec());
    let mut candidates = Vec::with_capacity(paths.len());
    for path in &paths {
        let named = Named::parse(path).map_err(OpenError::from)?;
        let device = match purpose {
            Purpose::Preview => Device::open(&named.path, LOOK)?,
            Purpose::Start => {
                let mut device = open(&named.path)?;
                if let Some(flash) = &named.flash {
                    device.make_flash(flash).map_err(OpenError::from)?;
                }
                device
            }
        };
        let (image, superblock) = read_image(&device, purpose)?;
        candidates.push(Candidate { device, image, superblock });
    }
    put_together(candidates, left_out, options)
}

/// The array or arrays that devices make.
fn put_together(
    candidates: Vec<Candidate>,
    mut left_out: Vec<LeftOut>,
    options: AssembleOptions,
) -> Result<Attached, AttachError> {
    let (candidates, copies) = copies::leave_out(candidates);
    left_out.extend(copies);
    let mut opened = Vec::with_capacity(candidates.len());
    let mut images = Vec::with_capacity(candidates.len());
    for Candidate { device, image, superblock } in candidates {
        opened.push(Some(device));
        images.push((image, superblock));
    }
    let path_of = |at: usize| {
        let device: Option<&Device> = opened[at].as_ref();
        device.map(|device| device.path().to_path_buf()).unwrap_or_default()
    };
    let groups = group(images, path_of)?;
    let groups = groups.into_iter().map(|images| {
        let (places, images): (Vec<usize>, Vec<SievedImage>) = images.into_iter().unzip();
        let assembled = assemble(&images, options)?;
        let wanted = assembled.slots.iter().chain(&assembled.spares);
        let mut take = |image: usize| opened.get_mut(*places.get(image)?)?.take();
        let devices = wanted.copied().map(|image| image.and_then(&mut take)).collect();
        Ok(Group { assembled, devices })
    });
    let groups = groups.collect::<Result<_, AttachError>>()?;
    let attached = Attached { groups, left_out };
    attached.check_parts()?;
    Ok(attached)
}

/// Devices' images with their numbers, by their group of the log volume. All of them are one group
/// if none belongs to a volume.
fn group(
    images: Vec<(SievedImage, Option<Superblock>)>,
    path_of: impl Fn(usize) -> PathBuf,
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
            // The first group's assembly reports devices that are no members.
            (None, None) => 0,
            (Some(_) | None, _) => {
                return Err(AttachError::OtherVolume { path: path_of(at), name });
            }
        };
        all[usize::from(group)].push((at, image));
    }
    match (0..).zip(&all).find(|(_, images)| images.is_empty()) {
        Some((group, _)) => Err(AttachError::GroupMissing { name, group, groups }),
        None => Ok(all),
    }
}

/// Opens a device, even if the process that had it open has just been killed.
pub(crate) fn open(path: &Path) -> Result<Device, OpenError> {
    let deadline = Instant::now() + RELEASE_MAX;
    let mut told = false;
    loop {
        match Device::open(path, OpenOptions::default()) {
            Err(OpenError::InUse { holder, .. })
                if Instant::now() < deadline && holder != Some(std::process::id()) =>
            {
                if !std::mem::replace(&mut told, true) {
                    let holder = holder.map(|process| format!(", process {process}"));
                    tracing::info!(
                        "waiting up to {} s for {}: whoever has it{} may be about to end",
                        RELEASE_MAX.as_secs(),
                        shown(path),
                        holder.unwrap_or_default()
                    );
                }
                std::thread::sleep(RELEASE_POLL);
            }
            result => return result,
        }
    }
}

/// A device and its superblock.
#[derive(Debug)]
pub struct Examined {
    /// The device.
    pub path: PathBuf,
    /// Its size in blocks.
    pub blocks: u64,
    /// Its superblock, or why it has none.
    pub superblock: Result<Superblock, SuperblockError>,
    /// How many copies of the superblock are intact, of
    /// [`SUPERBLOCK_COPIES`](raidcore::meta::SUPERBLOCK_COPIES).
    pub intact_copies: usize,
    /// The profile of the SSD that it is modelled as, if it is modelled as one.
    pub flash: Option<String>,
    /// What it tells of its array's lease, if that has one and was ever taken.
    pub lease: Option<LeaseBlock>,
}

/// Looks at a device without locking or changing it.
///
/// # Errors
/// If it can't be opened.
pub fn examine(path: &Path) -> Result<Examined, OpenError> {
    let device = Device::open(Named::parse(path)?.path, LOOK)?;
    let (head, unreadable) = read_head(&device);
    let copies = copies(&head, &unreadable);
    let superblock = choose_superblock(&copies);
    let lease = superblock.as_ref().ok().and_then(|found| lease_in(&head, &found.record));
    Ok(Examined {
        lease,
        path: device.path().to_path_buf(),
        flash: device.flash_profile().map(str::to_owned),
        blocks: device.blocks(),
        superblock,
        intact_copies: copies
            .into_iter()
            .flatten()
            .filter(|copy| Superblock::decode(copy).is_ok())
            .count(),
    })
}

/// The lease block among a device's first blocks, if its array has a lease.
fn lease_in(head: &[u8], record: &ArrayRecord) -> Option<LeaseBlock> {
    record.lease?;
    let start = LEASE_BLOCK.0 as usize * BLOCK_BYTES;
    let block = head.get(start..start + BLOCK_BYTES)?;
    LeaseBlock::decode(record.array, block).ok().flatten()
}

/// An opened device's superblock, if it has one.
pub(crate) fn superblock(device: &Device) -> Option<Superblock> {
    let (head, unreadable) = read_head(device);
    choose_superblock(&copies(&head, &unreadable)).ok()
}

/// The identity of an array; for a log volume's groups, that of the volume.
pub(crate) fn identity(record: &ArrayRecord) -> ArrayId {
    record.volume.map_or(record.array, |part| ArrayId(part.volume.0))
}
