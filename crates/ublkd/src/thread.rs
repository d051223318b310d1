//! Settings of processes and threads that serve storage.

use rustix::thread::CapabilitySet;

/// `PR_SET_IO_FLUSHER` of prctl(2), Linux 5.6.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// The kernel must not reclaim memory for this thread by writing to the storage that it serves: the
/// write would wait for this very thread. New threads inherit this. Without CAP_SYS_RESOURCE it has
/// no effect.
pub fn become_io_flusher() {
    #[allow(unsafe_code)]
    // SAFETY: prctl with an option that takes numbers only; it touches no memory.
    let result = unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
    if result != 0 {
        tracing::debug!("PR_SET_IO_FLUSHER: {}", std::io::Error::last_os_error());
    }
}

/// Keeps the program and its libraries, as far as they are loaded, in memory: a page of it that had to be
/// read from the storage that this process serves would be waited for by who should read it. Memory that
/// is mapped later is not kept.
///
/// # Errors
/// If this process may not lock that much memory (RLIMIT_MEMLOCK).
pub fn keep_program_in_memory() -> std::io::Result<()> {
    Ok(rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT)?)
}

/// Signals that a thread's own instructions raise. The kernel ends a process that blocks one of them when it
/// is due, even if it would be handled.
const OWN_FAULTS: [libc::c_int; 6] =
    [libc::SIGBUS, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// Blocks other signals on this thread, so that only the threads that handle them are interrupted.
pub(crate) fn mask_signals() {
    #[allow(unsafe_code)]
    // SAFETY: sigset_t is plain data that sigfillset initialises before it is read.
    unsafe {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        for fault in OWN_FAULTS {
            libc::sigdelset(all.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
    }
}

/// Drops CAP_SYS_ADMIN. Then the ublk driver trusts this thread less, and does not look for
/// partitions when the device starts: on some kernels a server that dies meanwhile hangs the
/// machine.
pub(crate) fn give_up_sys_admin() {
    let given_up = rustix::thread::capabilities(None).and_then(|mut sets| {
        sets.effective.remove(CapabilitySet::SYS_ADMIN);
        rustix::thread::set_capabilities(None, sets)
    });
    if let Err(error) = given_up {
        tracing::debug!(%error, "a thread keeps CAP_SYS_ADMIN");
    }
}
