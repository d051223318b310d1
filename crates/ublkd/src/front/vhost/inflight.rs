//! The region in which a VMM keeps what a device has begun, while the device's process is replaced.
//!
//! Its form is that of the vhost-user specification for split virtqueues ("Inflight I/O tracking"):
//! for each queue a head and one entry for each descriptor.
//!
//! Invariants:
//! - A request is marked before the volume gets it. Its mark goes after the guest can see that it
//!   has ended. So what a process that dies had begun, and had not told, is marked.
//! - Whatever is in the region, it is only numbers: each is checked, and none leads outside of it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use vhost::vhost_user::message::VhostUserInflight;
use vm_memory::{Bytes, MmapRegion, VolatileMemory, VolatileSlice};

use super::config::{QUEUE_SIZE_MAX, QUEUES_MAX};
use super::fault::Guarded;
use super::memory::{Backing, map};

/// The version of this form.
const VERSION: u16 = 1;
/// The size of a queue's head, and of an entry.
const HEAD: usize = 16;
const ENTRY: usize = 16;
/// How much larger than needed a region may be: a VMM may complete a page, even a huge one.
const SLACK: u64 = 2 << 20;
/// Queues begin at multiples of this.
const ALIGN: usize = 64;

// Where things are in a queue's head.
const AT_VERSION: usize = 8;
const AT_COUNT: usize = 10;
const AT_LAST: usize = 12;
const AT_USED: usize = 14;
// Where things are in an entry.
const IS_BEGUN: usize = 0;
const AT_NEXT: usize = 6;
const AT_NUMBER: usize = 8;

/// See the [module](self).
pub(super) struct Inflight {
    guarded: Guarded,
    map: MmapRegion,
    backing: Backing,
    queues: u16,
    entries: u16,
}

/// What a queue has begun.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Begun {
    /// The heads of its chains, in the order in which they were begun.
    pub(super) heads: Vec<u16>,
    /// A number greater than those of all of them.
    pub(super) next: u64,
}

impl Inflight {
    /// A new region for so many queues of so many descriptors, and what the VMM is told of it.
    ///
    /// # Errors
    /// If the kernel refuses memory.
    pub(super) fn make(queues: u16, entries: u16) -> io::Result<(VhostUserInflight, File)> {
        let bytes = stride(entries) * usize::from(queues);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("evenkeel-inflight", flags)?);
        file.set_len(bytes as u64)?;
        fcntl_add_seals(file.as_fd(), SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((VhostUserInflight::new(bytes as u64, 0, queues, entries), file))
    }

    /// The region that a VMM has kept.
    ///
    /// # Errors
    /// If it can't be mapped, or if its size is not that of such a region.
    pub(super) fn open(told: &VhostUserInflight, file: File) -> io::Result<Self> {
        let (queues, entries) = (told.num_queues, told.queue_size);
        if queues > QUEUES_MAX || entries > QUEUE_SIZE_MAX {
            return Err(io::Error::other("the region of what is under way is of too many queues"));
        }
        let needed = (stride(entries) * usize::from(queues)) as u64;
        if !(needed..=needed + SLACK).contains(&told.mmap_size) {
            let told = format!(
                "the region of what is under way has {} bytes instead of {needed}",
                told.mmap_size
            );
            return Err(io::Error::other(told));
        }
        let (map, backing) = map(file, told.mmap_offset, told.mmap_size)?;
        let guarded = Guarded::new(map.as_ptr(), map.size())?;
        Ok(Self { guarded, map, backing, queues, entries })
    }

    /// Whether it is memory.
    pub(super) fn is_memory(&self) -> bool {
        self.backing == Backing::Memory
    }

    /// Whether it has vanished.
    pub(super) fn is_lost(&self) -> bool {
        self.guarded.is_lost()
    }

    /// Whether it has room for a queue of so many descriptors.
    pub(super) fn holds(&self, queue: u16, entries: u16) -> bool {
        queue < self.queues && entries <= self.entries
    }

    /// What a queue had begun when its last process ended, with the number of chains that the guest
    /// has back. The region agrees with that afterwards.
    ///
    /// # Errors
    /// If it is of another version.
    pub(super) fn recover(&self, queue: u16, used: u16) -> io::Result<Begun> {
        let version: u16 = self.load(queue, AT_VERSION);
        if version == 0 {
            self.store(queue, AT_COUNT, self.entries);
            self.store(queue, AT_VERSION, VERSION);
        } else if version != VERSION {
            let told = format!("what is under way is kept in a form of version {version}");
            return Err(io::Error::other(told));
        }
        if self.load::<u16>(queue, AT_USED) != used {
            // It died between telling the guest and taking the mark away.
            let last = self.load::<u16>(queue, AT_LAST);
            if last < self.entries {
                self.store(queue, entry(last) + IS_BEGUN, 0u8);
            }
            self.store(queue, AT_USED, used);
        }
        let mut begun: Vec<(u64, u16)> = (0..self.entries)
            .filter(|&head| self.load::<u8>(queue, entry(head) + IS_BEGUN) == 1)
            .map(|head| (self.load(queue, entry(head) + AT_NUMBER), head))
            .collect();
        begun.sort_unstable();
        let next = begun.last().map_or(0, |(number, _)| number.wrapping_add(1));
        Ok(Begun { heads: begun.into_iter().map(|(_, head)| head).collect(), next })
    }

    /// A chain is begun.
    pub(super) fn begin(&self, queue: u16, head: u16, number: u64) {
        self.store(queue, entry(head) + AT_NUMBER, number);
        self.store(queue, entry(head) + IS_BEGUN, 1u8);
    }

    /// The guest is about to be told that a chain has ended.
    pub(super) fn ending(&self, queue: u16, head: u16) {
        self.store(queue, entry(head) + AT_NEXT, self.load::<u16>(queue, AT_LAST));
        self.store(queue, AT_LAST, head);
    }

    /// The guest was told, and has so many back.
    pub(super) fn ended(&self, queue: u16, head: u16, used: u16) {
        self.store(queue, entry(head) + IS_BEGUN, 0u8);
        self.store(queue, AT_USED, used);
    }

    fn queue(&self, queue: u16) -> Option<VolatileSlice<'_>> {
        let bytes = stride(self.entries);
        self.map.get_slice(usize::from(queue) * bytes, bytes).ok()
    }

    /// What lies there; zero where nothing does.
    fn load<T: vm_memory::AtomicAccess + Default>(&self, queue: u16, at: usize) -> T {
        let slice = self.queue(queue);
        slice.and_then(|slice| slice.load(at, Ordering::SeqCst).ok()).unwrap_or_default()
    }

    /// Callers have checked that the queue and the entry are in the region ([`Inflight::holds`]).
    fn store<T: vm_memory::AtomicAccess>(&self, queue: u16, at: usize, value: T) {
        if let Some(slice) = self.queue(queue) {
            slice.store(value, at, Ordering::SeqCst).ok();
        }
    }
}

fn stride(entries: u16) -> usize {
    (HEAD + ENTRY * usize::from(entries)).next_multiple_of(ALIGN)
}

fn entry(head: u16) -> usize {
    HEAD + ENTRY * usize::from(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region() -> (VhostUserInflight, File) {
        Inflight::make(2, 8).expect("memory")
    }

    fn open(told: &VhostUserInflight, file: &File) -> Inflight {
        Inflight::open(told, file.try_clone().expect("a descriptor")).expect("a region")
    }

    #[test]
    fn what_was_begun_is_told_in_its_order() {
        let (told, file) = region();
        let before = open(&told, &file);
        assert_eq!(before.recover(1, 0).expect("its version"), Begun::default());
        for (number, head) in [5, 2, 7].into_iter().enumerate() {
            before.begin(1, head, number as u64);
        }
        before.ending(1, 2);
        before.ended(1, 2, 1);
        drop(before);
        let after = open(&told, &file);
        let begun = after.recover(1, 1).expect("its version");
        assert_eq!(begun, Begun { heads: vec![5, 7], next: 3 });
        assert_eq!(after.recover(0, 0).expect("its version"), Begun::default());
    }

    #[test]
    fn what_the_guest_was_told_is_not_begun_again() {
        let (told, file) = region();
        let before = open(&told, &file);
        before.recover(0, 65_535).expect("its version");
        before.begin(0, 3, 0);
        before.begin(0, 4, 1);
        before.ending(0, 3);
        // The ring's index is 0 now, and the process dies.
        let begun = open(&told, &file).recover(0, 0).expect("its version");
        assert_eq!(begun.heads, [4]);
        assert_eq!(open(&told, &file).recover(0, 0).expect("its version"), begun);
    }

    #[test]
    fn garbage_is_only_numbers() {
        let (told, file) = region();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0xff; 144], 0).expect("memory");
        assert!(open(&told, &file).recover(0, 0).is_err(), "no such version");
        std::os::unix::fs::FileExt::write_all_at(&file, &[1, 0], 8).expect("memory");
        let begun = open(&told, &file).recover(0, 0).expect("its version");
        assert!(begun.heads.is_empty(), "255 is not 1");
        file.set_len(8 << 20).expect_err("it is sealed");
        for (bytes, queues, entries) in [(64, 2, 8), (4 << 20, 2, 8), (1 << 20, 65, 8)] {
            let told = VhostUserInflight::new(bytes, 0, queues, entries);
            let file = file.try_clone().expect("a descriptor");
            assert!(Inflight::open(&told, file).is_err());
        }
    }
}
