//! A VM's memory, as its VMM shares it.
//!
//! Invariants:
//! - Whatever addresses and sizes a guest names, only memory that was shared is accessed.
//! - All of it is guarded: what vanishes reads as zeros, and is lost ([`Ram::is_lost`]).
//! - Only the thread that serves the device accesses it, and nothing else is ever given its addresses:
//!   the kernel does no I/O there.

use std::fs::File;
use std::io;
use std::sync::Arc;

use smallvec::SmallVec;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryRegion, GuestRegionMmap, MmapRegion};

use super::fault::Guarded;
use super::view::View;

/// The most memory of a VM, 4 TiB: all connections together must leave addresses to this process.
const BYTES_MAX: u64 = 4 << 40;

/// Where regions begin and end, so that what a guest reads or writes at once lies in one of them.
const PAGE_BYTES: u64 = 4096;

/// What `fstatfs` calls files of huge pages.
const HUGETLBFS: i64 = 0x9584_58f6;
/// And files that are memory, as memfds are.
const TMPFS: i64 = 0x0102_1994;

/// The largest pages that are cleared in little time, when one is touched that is not there.
const PAGE_BYTES_MAX: u64 = 2 << 20;

/// What is behind shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Backing {
    /// Memory.
    Memory,
    /// Something else, which may have to be waited for: a file whose pages are read, by another process
    /// even, or a device's.
    Other,
}

/// Where a request's data are, most often in one piece or two.
pub(super) type Segments = SmallVec<[Segment; 4]>;

/// A piece of a request's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    /// Its address for the guest.
    pub(super) at: u64,
    /// Its size.
    pub(super) bytes: u32,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Ram {
    // Before the mappings: what is unmapped must not be guarded any more.
    regions: Vec<Region>,
    view: View,
}

struct Region {
    guarded: Guarded,
    /// Its first address for the VMM, by which rings are named.
    user: u64,
    map: Arc<GuestRegionMmap>,
    backing: Backing,
}

impl Ram {
    /// The memory that the VMM shares from now on.
    ///
    /// # Errors
    /// If it can't be mapped, if regions overlap, or if they are too large together.
    pub(super) fn share(shared: Vec<(VhostUserMemoryRegion, File)>) -> io::Result<Self> {
        check_sum(shared.iter().map(|(region, _)| region.memory_size))?;
        let regions = shared.into_iter().map(|(region, file)| Region::map(&region, file));
        let mut ram = Self { regions: regions.collect::<io::Result<_>>()?, view: View::default() };
        ram.look()?;
        Ok(ram)
    }

    /// Adds a region.
    ///
    /// # Errors
    /// If it can't be mapped, overlaps another one, or is too large.
    pub(super) fn add(&mut self, region: &VhostUserMemoryRegion, file: File) -> io::Result<()> {
        let sizes = self.regions.iter().map(|region| region.map.len());
        check_sum(sizes.chain([region.memory_size]))?;
        self.regions.push(Region::map(region, file)?);
        self.look().inspect_err(|_| drop(self.regions.pop()))
    }

    /// Takes a region away.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn remove(&mut self, region: &VhostUserMemoryRegion) -> io::Result<()> {
        let (at, user, bytes) = (region.guest_phys_addr, region.user_addr, region.memory_size);
        let is_it = |region: &Region| {
            region.map.start_addr().0 == at && region.user == user && region.map.len() == bytes
        };
        let Some(place) = self.regions.iter().position(is_it) else {
            return Err(io::Error::other("the VMM takes back memory that it has not shared"));
        };
        // It is kept until nothing sees it any more.
        let Region { guarded, map, .. } = self.regions.swap_remove(place);
        drop(guarded);
        self.look()?;
        drop(map);
        Ok(())
    }

    /// Whether all of it is memory.
    pub(super) fn is_memory(&self) -> bool {
        self.regions.iter().all(|region| region.backing == Backing::Memory)
    }

    /// How many regions there are.
    pub(super) fn regions(&self) -> usize {
        self.regions.len()
    }

    /// What the guest sees.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// The guest's address of an address of the VMM's.
    pub(super) fn guest_address(&self, user: u64) -> Option<u64> {
        self.regions.iter().find_map(|region| {
            let offset = user.checked_sub(region.user)?;
            (offset < region.map.len()).then(|| region.map.start_addr().0 + offset)
        })
    }

    /// Whether some of it has vanished.
    pub(super) fn is_lost(&self) -> bool {
        self.regions.iter().any(|region| region.guarded.is_lost())
    }

    /// Copies what lies from byte `skip` of these segments on; false if they are not in memory, or
    /// too short.
    pub(super) fn read(&self, from: &[Segment], skip: u64, to: &mut [u8]) -> bool {
        let mut rest = to;
        each(from, skip, |at, bytes| {
            let count = rest.len().min(bytes);
            let (now, later) = std::mem::take(&mut rest).split_at_mut(count);
            rest = later;
            self.view.read(now, at)?;
            Some(rest.is_empty())
        })
    }

    /// Copies to these segments, from their byte `skip` on; false if they are not in memory, or too
    /// short.
    pub(super) fn write(&self, to: &[Segment], skip: u64, from: &[u8]) -> bool {
        let mut rest = from;
        each(to, skip, |at, bytes| {
            let (now, later) = rest.split_at(rest.len().min(bytes));
            rest = later;
            self.view.write(now, at)?;
            Some(rest.is_empty())
        })
    }

    /// Makes the view of the regions.
    fn look(&mut self) -> io::Result<()> {
        let mut maps: Vec<_> = self.regions.iter().map(|region| Arc::clone(&region.map)).collect();
        maps.sort_by_key(|map| map.start_addr());
        self.view = View::of(maps).map_err(io::Error::other)?;
        Ok(())
    }
}

/// Checks the size of all regions, before any is mapped.
fn check_sum(sizes: impl Iterator<Item = u64>) -> io::Result<()> {
    match sizes.fold(0, u64::saturating_add) {
        0..=BYTES_MAX => Ok(()),
        _ => Err(io::Error::other("the VM has more memory than 4 TiB")),
    }
}

/// Calls `visit` with the segments behind byte `skip` until it has enough; whether it has.
fn each(
    segments: &[Segment],
    mut skip: u64,
    mut visit: impl FnMut(GuestAddress, usize) -> Option<bool>,
) -> bool {
    for &Segment { at, bytes } in segments {
        let bytes = u64::from(bytes);
        if skip >= bytes {
            skip -= bytes;
            continue;
        }
        let Some(from) = at.checked_add(skip) else { return false };
        match visit(GuestAddress(from), (bytes - skip) as usize) {
            Some(true) => return true,
            Some(false) => skip = 0,
            None => return false,
        }
    }
    false
}

impl Region {
    fn map(region: &VhostUserMemoryRegion, file: File) -> io::Result<Self> {
        let VhostUserMemoryRegion { guest_phys_addr, memory_size, user_addr, mmap_offset } =
            *region;
        if [guest_phys_addr, memory_size].iter().any(|at| !at.is_multiple_of(PAGE_BYTES)) {
            return Err(io::Error::other("a region of memory does not begin and end at a page"));
        }
        let (map, backing) = map(file, mmap_offset, memory_size)?;
        let guarded = Guarded::new(map.as_ptr(), map.size())?;
        let map = GuestRegionMmap::new(map, GuestAddress(guest_phys_addr));
        let map = map.ok_or_else(|| io::Error::other("memory beyond the last address"))?;
        Ok(Self { guarded, user: user_addr, map: Arc::new(map), backing })
    }
}

/// Maps a part of a file that another process shares.
///
/// # Errors
/// If the kernel refuses it, if the file ends before, or if it has huge pages and the part is not of
/// whole ones: [`Guarded`] could put nothing in its place.
pub(super) fn map(file: File, offset: u64, bytes: u64) -> io::Result<(MmapRegion, Backing)> {
    let metadata = file.metadata()?;
    let end = offset.checked_add(bytes).ok_or(io::ErrorKind::InvalidInput)?;
    if metadata.is_file() && metadata.len() < end {
        return Err(io::Error::other("a file of memory is shorter than the VMM says"));
    }
    let of = rustix::fs::fstatfs(&file)?;
    // What mappings must be multiples of. The kernel completes pages that are not huge.
    let page = match of.f_type {
        HUGETLBFS => u64::try_from(of.f_bsize).unwrap_or(0).max(1),
        _ => 1,
    };
    // Devices are on a file system of this kind, too.
    let is_memory = metadata.is_file() && matches!(of.f_type, HUGETLBFS | TMPFS);
    let backing = match is_memory && page <= PAGE_BYTES_MAX {
        true => Backing::Memory,
        false => Backing::Other,
    };
    if !offset.is_multiple_of(page) || !bytes.is_multiple_of(page) {
        let told = format!("a part of a file of pages of {page} bytes is not of whole pages");
        return Err(io::Error::other(told));
    }
    let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    let map = MmapRegion::from_file(FileOffset::new(file, offset), bytes);
    Ok((map.map_err(io::Error::other)?, backing))
}

/// Whether the kernel may move memory to a swap area, which may be on the very array that waits for it.
pub(super) fn has_swap() -> bool {
    rustix::system::sysinfo().totalswap > 0
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    #[test]
    fn a_part_of_a_huge_page_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        // Kernels without huge pages have no such files.
        let Ok(file) = memfd_create("guest", flags) else { return };
        let file = File::from(file);
        file.set_len(4 << 20).expect("huge pages need not be there");
        for (offset, bytes) in [(0, 4096), (4096, 2 << 20), (0, (2 << 20) + 4096)] {
            let file = file.try_clone().expect("a descriptor");
            let refused = map(file, offset, bytes).expect_err("it is not of whole pages");
            assert!(refused.to_string().contains("whole pages"), "{refused}");
        }
    }
}
