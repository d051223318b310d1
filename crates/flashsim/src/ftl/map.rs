//! Which logical page is where, and what a physical page holds: four bytes per page each.
//!
//! Invariant: a physical page holds a logical page exactly if that one is mapped to it.

/// The number of a physical page in the drive.
pub(crate) type Ppa = u32;
/// The number of a logical page.
pub(crate) type Lpn = u32;

const NONE: u32 = u32::MAX;
const BUFFERED: u32 = 1 << 31;

/// Where a logical page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere: never written, or trimmed.
    Unmapped,
    /// In flash.
    Flash(Ppa),
    /// In this slot of the write buffer.
    Buffer(u32),
}

#[derive(Clone, Debug)]
pub(crate) struct Map {
    physical: Vec<u32>,
    logical: Vec<u32>,
}

impl Map {
    pub(crate) fn new(logical_pages: usize, physical_pages: usize) -> Self {
        Self { physical: vec![NONE; logical_pages], logical: vec![NONE; physical_pages] }
    }

    pub(crate) fn place(&self, lpn: Lpn) -> Place {
        match self.physical[lpn as usize] {
            NONE => Place::Unmapped,
            slot if slot & BUFFERED != 0 => Place::Buffer(slot & !BUFFERED),
            ppa => Place::Flash(ppa),
        }
    }

    /// The valid logical page in `ppa`, if there is one.
    pub(crate) fn holds(&self, ppa: Ppa) -> Option<Lpn> {
        let lpn = self.logical[ppa as usize];
        (lpn != NONE).then_some(lpn)
    }

    /// Puts `lpn` into a page that holds nothing, and returns the page that it was in.
    pub(crate) fn put(&mut self, lpn: Lpn, ppa: Ppa) -> Option<Ppa> {
        let old = self.take(lpn);
        debug_assert_eq!(self.logical[ppa as usize], NONE, "page {ppa} holds something");
        self.physical[lpn as usize] = ppa;
        self.logical[ppa as usize] = lpn;
        old
    }

    /// Puts `lpn` into a slot of the write buffer, and returns the page that it was in.
    pub(crate) fn put_in_buffer(&mut self, lpn: Lpn, slot: u32) -> Option<Ppa> {
        let old = self.take(lpn);
        self.physical[lpn as usize] = BUFFERED | slot;
        old
    }

    /// Unmaps `lpn`, and returns the page that it was in.
    pub(crate) fn take(&mut self, lpn: Lpn) -> Option<Ppa> {
        let old = self.place(lpn);
        self.physical[lpn as usize] = NONE;
        let Place::Flash(ppa) = old else { return None };
        self.logical[ppa as usize] = NONE;
        Some(ppa)
    }

    /// Asserts the invariant.
    pub(crate) fn check(&self) {
        for (lpn, _) in (0u32..).zip(&self.physical) {
            if let Place::Flash(ppa) = self.place(lpn) {
                assert_eq!(self.logical[ppa as usize], lpn);
            }
        }
        let held = self.logical.iter().filter(|&&lpn| lpn != NONE).count();
        let in_flash = |&&at: &&u32| at & BUFFERED == 0;
        let mapped = self.physical.iter().filter(in_flash).count();
        assert_eq!(held, mapped);
    }
}
