//! Memory by the guest's addresses.
//!
//! `vm-memory` looks for the regions of whatever is accessed one after the other. Nearly all lies in one, which
//! is found at once here: a small request accesses its queue's rings, its descriptors and its head some fourteen
//! times.

use std::iter::FusedIterator;
use std::sync::Arc;

use vm_memory::guest_memory::{GuestMemoryBackendSliceIterator, GuestMemorySliceIterator, Result};
use vm_memory::{
    Bytes, GuestAddress, GuestMemory, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionCollectionError, GuestRegionMmap, MemoryRegionAddress, Permissions, VolatileSlice,
};

/// See the [module](self).
#[derive(Default)]
pub(super) struct View(GuestMemoryMmap);

impl View {
    /// The view of these regions, in the order of their addresses.
    ///
    /// # Errors
    /// If they overlap.
    pub(super) fn of(
        regions: Vec<Arc<GuestRegionMmap>>,
    ) -> std::result::Result<Self, GuestRegionCollectionError> {
        if regions.is_empty() {
            return Ok(Self::default());
        }
        GuestMemoryMmap::from_arc_regions(regions).map(Self)
    }

    /// Copies what lies there; none if not all of it is in memory.
    pub(super) fn read(&self, to: &mut [u8], at: GuestAddress) -> Option<()> {
        match self.in_one(at, to.len()) {
            Some(slice) => (slice.copy_to(to) == to.len()).then_some(()),
            None => self.read_slice(to, at).ok(),
        }
    }

    /// Copies something there; none if not all of that is in memory.
    pub(super) fn write(&self, from: &[u8], at: GuestAddress) -> Option<()> {
        let Some(slice) = self.in_one(at, from.len()) else {
            return self.write_slice(from, at).ok();
        };
        slice.copy_from(from);
        Some(())
    }

    /// A range, if all of it lies in one region.
    fn in_one(&self, at: GuestAddress, bytes: usize) -> Option<VolatileSlice<'_>> {
        self.0.iter().find_map(|region| {
            let offset = at.0.checked_sub(region.start_addr().0)?;
            region.get_slice(MemoryRegionAddress(offset), bytes).ok()
        })
    }
}

impl GuestMemory for View {
    type PhysicalMemory = GuestMemoryMmap;
    type Bitmap = ();

    fn check_range(&self, at: GuestAddress, bytes: usize, _: Permissions) -> bool {
        GuestMemoryBackend::check_range(&self.0, at, bytes)
    }

    fn get_slices<'a>(
        &'a self,
        at: GuestAddress,
        bytes: usize,
        _: Permissions,
    ) -> Result<impl GuestMemorySliceIterator<'a, ()>> {
        Ok(match self.in_one(at, bytes).filter(|_| bytes > 0) {
            Some(slice) => Slices::One(Some(slice)),
            None => Slices::Several(GuestMemoryBackend::get_slices(&self.0, at, bytes)),
        })
    }
}

/// What lies in one region, or in several, or not in memory.
enum Slices<'a> {
    One(Option<VolatileSlice<'a>>),
    Several(GuestMemoryBackendSliceIterator<'a, GuestMemoryMmap>),
}

impl<'a> Iterator for Slices<'a> {
    type Item = Result<VolatileSlice<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::One(slice) => slice.take().map(Ok),
            Self::Several(slices) => slices.next(),
        }
    }
}

impl FusedIterator for Slices<'_> {}
impl<'a> GuestMemorySliceIterator<'a, ()> for Slices<'a> {}

#[cfg(test)]
mod tests {
    use vm_memory::MmapRegion;

    use super::*;

    fn region(at: u64, bytes: usize) -> Arc<GuestRegionMmap> {
        let map = MmapRegion::new(bytes).expect("memory");
        Arc::new(GuestRegionMmap::new(map, GuestAddress(at)).expect("below the last address"))
    }

    #[test]
    fn what_lies_in_two_regions_is_accessed_and_what_lies_in_none_is_not() {
        let regions = vec![region(0x1000, 0x1000), region(0x2000, 0x1000), region(0x8000, 0x1000)];
        let view = View::of(regions).expect("apart");
        let written: Vec<u8> = (0..100).collect();
        for at in [0x1000, 0x1f9c, 0x1fb0, 0x1fff, 0x2000, 0x2f9c, 0x8000] {
            view.write(&written, GuestAddress(at)).expect("in memory");
            let (mut read, mut loaded) = (vec![0; written.len()], vec![0; written.len()]);
            view.read(&mut read, GuestAddress(at)).expect("in memory");
            view.read_slice(&mut loaded, GuestAddress(at)).expect("in memory");
            assert_eq!((&read, &loaded), (&written, &written), "at {at:#x}");
        }
        for at in [0, 0xfff, 0x2f9d, 0x2fff, 0x3000, 0x7fff, 0x9000, u64::MAX] {
            let range = GuestAddress(at);
            assert_eq!(view.read(&mut [0; 100], range), None, "{at:#x}");
            assert_eq!(view.write(&[0; 100], range), None, "{at:#x}");
            view.read_slice(&mut [0; 100], range).expect_err("not all of it is in memory");
            assert!(!GuestMemory::check_range(&view, range, 100, Permissions::Read), "{at:#x}");
        }
        view.read_slice(&mut [], GuestAddress(0)).expect("nothing is accessed");
    }
}
