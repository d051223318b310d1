//! Mappings.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

/// Memory mapped from the kernel: zeroed, aligned to a page, populated when first touched, unmapped
/// when dropped. It only gives out pointers; its user decides which part may be touched when.
pub(crate) struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: nothing else owns the region's address range, and it has no thread affinity.
unsafe impl Send for Region {}
// SAFETY: a shared region gives out only its address and its size.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.max(1);
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, bytes })
    }

    /// The address of byte `offset`.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.bytes, "byte {offset} of a region of {}", self.bytes);
        // SAFETY: the offset is inside the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Lets the kernel take the memory of a mapping in huge pages where it can, when it is touched. A kernel that
/// has none takes it as ever.
pub(crate) fn prefer_huge_pages(base: *mut u8, bytes: usize) {
    // SAFETY: it changes how pages of the range are taken, not what is in them.
    if unsafe { libc::madvise(base.cast(), bytes, libc::MADV_HUGEPAGE) } != 0 {
        tracing::debug!("MADV_HUGEPAGE: {}", io::Error::last_os_error());
    }
}

/// `MPOL_PREFERRED` of mbind(2).
const MPOL_PREFERRED: libc::c_ulong = 1;

/// Bits of a set of nodes: more than a kernel has.
const NODES: usize = 1024;

/// Takes the memory of a mapping from this NUMA node when it is touched, whichever thread does, if the node
/// has some then. A kernel that refuses takes it as ever: near the thread that touches it first.
pub(crate) fn prefer_node(base: *mut u8, bytes: usize, node: u32) {
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mut nodes = [0 as libc::c_ulong; NODES / BITS];
    let Some(word) = nodes.get_mut(node as usize / BITS) else { return };
    *word = 1 << (node as usize % BITS);
    // SAFETY: it changes where pages of the range come from, not what is in them, and the set has as many
    // bits as are told (the kernel takes one less).
    let result = unsafe {
        libc::syscall(libc::SYS_mbind, base, bytes, MPOL_PREFERRED, nodes.as_ptr(), NODES + 1, 0)
    };
    if result != 0 {
        tracing::debug!("mbind to node {node}: {}", io::Error::last_os_error());
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and its users are gone with their owner.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy and nodes of the page at an address; none where the kernel does not tell.
    fn policy(region: &Region) -> Option<(libc::c_int, libc::c_ulong)> {
        const MPOL_F_ADDR: libc::c_ulong = 1 << 1;
        let (mut policy, mut nodes) = (0, [0 as libc::c_ulong; NODES / 64]);
        // SAFETY: it writes a number and as many bits as are told.
        let result = unsafe {
            let (policy, nodes) = (&raw mut policy, nodes.as_mut_ptr());
            libc::syscall(libc::SYS_get_mempolicy, policy, nodes, NODES, region.at(0), MPOL_F_ADDR)
        };
        (result == 0).then_some((policy, nodes[0]))
    }

    #[test]
    fn memory_is_taken_of_a_node_that_is_there() {
        let region = Region::new(1 << 20).expect("memory");
        // A kernel without NUMA, or a container that forbids it.
        let Some(before) = policy(&region) else { return };
        for node in [999, 4000] {
            prefer_node(region.at(0), region.bytes(), node);
            assert_eq!(policy(&region), Some(before), "{node} is not there");
        }
        prefer_node(region.at(0), region.bytes(), 0);
        assert_eq!(policy(&region), Some((1, 1)));
    }
}
