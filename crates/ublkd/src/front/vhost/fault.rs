//! Memory that another process can take away.
//!
//! A VM's memory is a file that its VMM shares. If the file is truncated, an access to what is gone
//! raises SIGBUS, which ends a process. Here it puts zeros in the place of the whole mapping
//! instead, and marks it as lost.
//!
//! Invariants:
//! - Only an access to guarded memory is caught. Any other SIGBUS goes to what handled it before.
//! - The handler takes no lock and allocates nothing: it reads atomics, and maps memory.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// How many mappings can be guarded at a time: more than all connections may have.
const PLACES: usize = 1024;

struct Place {
    taken: AtomicBool,
    /// Odd while the address and the size are changed.
    version: AtomicUsize,
    /// The first byte's address.
    base: AtomicUsize,
    /// The size; 0 while nothing is guarded.
    bytes: AtomicUsize,
    lost: AtomicBool,
}

static GUARDED: [Place; PLACES] = [const {
    Place {
        taken: AtomicBool::new(false),
        version: AtomicUsize::new(0),
        base: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        lost: AtomicBool::new(false),
    }
}; PLACES];

impl Place {
    /// Changes what is guarded; only what has taken the place does.
    fn set(&self, base: usize, bytes: usize) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.base.store(base, Ordering::SeqCst);
        self.bytes.store(bytes, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The address and the size, which belong together. `None` while they change: who accesses
    /// guarded memory does not change its place, so that is another's.
    fn get(&self) -> Option<(usize, usize)> {
        let version = self.version.load(Ordering::SeqCst);
        let place = (self.base.load(Ordering::SeqCst), self.bytes.load(Ordering::SeqCst));
        let is_one = version.is_multiple_of(2) && self.version.load(Ordering::SeqCst) == version;
        is_one.then_some(place)
    }
}

/// What handled SIGBUS before.
static BEFORE: OnceLock<Before> = OnceLock::new();
/// Held while it is looked at and replaced.
static INSTALLING: Mutex<()> = Mutex::new(());

struct Before(libc::sigaction);

// SAFETY: it is only read; the function that it names may be called on any thread.
unsafe impl Send for Before {}
// SAFETY: as for `Send`.
unsafe impl Sync for Before {}

/// A mapping that may be taken away, guarded until this is dropped. This must be dropped before the
/// memory is unmapped.
#[derive(Debug)]
pub(super) struct Guarded(usize);

impl Guarded {
    /// Guards a mapping, which begins and ends at pages.
    ///
    /// # Errors
    /// If there are too many, or if SIGBUS can't be handled.
    pub(super) fn new(base: *mut u8, bytes: usize) -> io::Result<Self> {
        install()?;
        let free = |place: &Place| {
            let order = (Ordering::SeqCst, Ordering::Relaxed);
            place.taken.compare_exchange(false, true, order.0, order.1).is_ok()
        };
        let Some(at) = GUARDED.iter().position(free) else {
            return Err(io::Error::other("too many pieces of memory of VMs are mapped"));
        };
        GUARDED[at].lost.store(false, Ordering::SeqCst);
        GUARDED[at].set(base as usize, bytes);
        Ok(Self(at))
    }

    /// Whether the memory, or a part of it, was taken away.
    pub(super) fn is_lost(&self) -> bool {
        GUARDED[self.0].lost.load(Ordering::SeqCst)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        GUARDED[self.0].set(0, 0);
        GUARDED[self.0].taken.store(false, Ordering::SeqCst);
    }
}

/// Handles SIGBUS from now on.
fn install() -> io::Result<()> {
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if BEFORE.get().is_some() {
        return Ok(());
    }
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: it is only asked for, and written to a live place.
    if unsafe { libc::sigaction(libc::SIGBUS, null_mut(), before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeros are a valid value, and the kernel has written it.
    BEFORE.get_or_init(|| Before(unsafe { before.assume_init() }));
    // SAFETY: zeros are a valid value, an empty mask among them.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler();
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler is async-signal-safe, see the module.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn handler() -> usize {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
    handler as usize
}

extern "C" fn on_fault(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a live one, as the handler was installed with SA_SIGINFO.
    let at = unsafe { (*info).si_addr() } as usize;
    let around = |place: &'static Place| {
        let (base, bytes) = place.get()?;
        (at.checked_sub(base)? < bytes).then_some((place, base as *mut libc::c_void, bytes))
    };
    if let Some((place, base, bytes)) = GUARDED.iter().find_map(around) {
        let zeros = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is a mapping of its holder's, who accesses it as memory that anyone may
        // change at any time.
        if unsafe { libc::mmap(base, bytes, prot, zeros, -1, 0) } != libc::MAP_FAILED {
            place.lost.store(true, Ordering::SeqCst);
            return;
        }
    }
    // The access is repeated, and is then the other handler's.
    if let Some(before) = BEFORE.get() {
        // SAFETY: it is what was there before.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const before.0, null_mut()) };
    }
}
