//! Limits of the process, and what to do if they are too low.

use std::error::Error;
use std::sync::RwLock;
use std::{fs, io, thread};

use rustix::process::{Resource, getrlimit};

/// Files that an array has open besides its members: rings, sockets, and those of a few clients.
const FILES_LEAST: u64 = 48;

/// Threads that an array and its front ends begin with.
const THREADS_LEAST: usize = 8;

/// Checks that this process can run an array of `members` members. Otherwise it could fail halfway.
///
/// # Errors
/// If it may not open enough files (`EMFILE`) or have enough threads (`EAGAIN`).
pub fn check(members: usize) -> io::Result<()> {
    // Each member has a file, and another one while it is opened.
    let files = FILES_LEAST + 2 * members as u64;
    if getrlimit(Resource::Nofile).current.is_some_and(|most| most < files) {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    let gate = RwLock::new(());
    thread::scope(|scope| {
        // None of them ends before the last one has begun.
        let closed = gate.write();
        let begin = |_| {
            let begun = thread::Builder::new().spawn_scoped(scope, || drop(gate.read()));
            begun.map(drop)
        };
        let begun = (0..THREADS_LEAST).try_for_each(begin);
        drop(closed);
        begun
    })
}

/// What to do about an error, if it or one of its causes is that no more files can be open.
#[must_use]
pub fn advice_on_files(error: &(dyn Error + 'static)) -> Option<String> {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let code = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error()).last();
    match code? {
        libc::EMFILE => Some(format!(
            "a process may have {} files open here (RLIMIT_NOFILE): raise that, by \
             `ulimit -n 4096` in a shell or LimitNOFILE=4096 in a service",
            told(Resource::Nofile)
        )),
        libc::ENFILE => {
            Some("the machine has as many files open as it may: raise `sysctl fs.file-max`".into())
        }
        _ => None,
    }
}

/// What to do about an error of allocating memory, threads or io_uring.
#[must_use]
pub fn advice_on_setup(error: &io::Error) -> Option<String> {
    let advice = match error.raw_os_error()? {
        libc::ENOMEM => format!(
            "memory that the kernel shares with io_uring counts as locked, of which a process may \
             have {} bytes here (RLIMIT_MEMLOCK): raise that, by `ulimit -l unlimited` in a shell or \
             LimitMEMLOCK=infinity in a service; if that is not it, the machine is out of memory",
            told(Resource::Memlock)
        ),
        libc::EAGAIN => format!(
            "no more threads can be started, of which this user may have {} here (RLIMIT_NPROC): \
             raise that, by `ulimit -u` in a shell or LimitNPROC= in a service, or TasksMax= if its \
             control group has too few",
            told(Resource::Nproc)
        ),
        libc::EPERM | libc::EACCES | libc::ENOSYS => forbidden(),
        _ => return advice_on_files(error),
    };
    Some(advice)
}

/// That io_uring is forbidden, and by which setting.
fn forbidden() -> String {
    let switch = "/proc/sys/kernel/io_uring_disabled";
    let state = fs::read_to_string(switch).unwrap_or_default();
    match state.trim() {
        "1" => format!(
            "io_uring is for root and one group only ({switch} is 1): run this as root or in that \
             group (`sysctl kernel.io_uring_group`), or set `sysctl kernel.io_uring_disabled=0`"
        ),
        "2" => format!(
            "io_uring is switched off ({switch} is 2): `sysctl kernel.io_uring_disabled=0` \
             switches it on"
        ),
        _ => {
            "io_uring is forbidden here, by the seccomp profile of a container for instance (then \
              allow io_uring_setup, io_uring_enter and io_uring_register), or the kernel has none \
              (CONFIG_IO_URING)"
                .to_owned()
        }
    }
}

/// A limit, in words.
fn told(resource: Resource) -> String {
    getrlimit(resource).current.map_or_else(|| "any number of".to_owned(), |most| most.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::FlashError;

    #[test]
    fn what_is_short_is_told_apart() {
        for (code, words) in [
            (libc::EMFILE, &["RLIMIT_NOFILE", "ulimit -n", "LimitNOFILE="][..]),
            (libc::ENFILE, &["fs.file-max"]),
            (libc::ENOMEM, &["RLIMIT_MEMLOCK", "ulimit -l", "LimitMEMLOCK="]),
            (libc::EAGAIN, &["RLIMIT_NPROC", "ulimit -u", "TasksMax="]),
            (libc::EPERM, &["io_uring"]),
            (libc::ENOSYS, &["io_uring"]),
        ] {
            let advice = advice_on_setup(&io::Error::from_raw_os_error(code)).expect("advice");
            assert!(words.iter().all(|word| advice.contains(word)), "{code}: {advice}");
        }
        assert_eq!(advice_on_setup(&io::Error::from_raw_os_error(libc::EIO)), None);
    }

    #[test]
    fn a_limit_is_found_below_other_errors() {
        let of = |code| FlashError::Io {
            path: "m0.flash".into(),
            source: io::Error::from_raw_os_error(code),
        };
        assert!(advice_on_files(&of(libc::EMFILE)).is_some_and(|told| told.contains("ulimit -n")));
        assert_eq!(advice_on_files(&of(libc::EACCES)), None);
    }

    #[test]
    fn an_array_of_more_members_than_files_can_be_open_is_refused() {
        assert!(check(3).is_ok());
        let error = check(usize::MAX >> 2).expect_err("more than any limit");
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
    }
}
