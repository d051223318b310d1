//! The users of a served array, as far as the kernel tells this process; and data that the
//! machine's file systems have not written to it yet.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::paths::shown;

/// The longest wait for file systems to write what they hold: one of them may hang.
const SYNC_MAX: Duration = Duration::from_secs(30);

/// The name of a process.
pub(crate) fn process(number: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
    match name.trim_end() {
        "" => format!("process {number}"),
        // A process chooses its own name.
        name => format!("{} (process {number})", shown(name)),
    }
}

/// The processes whose directories in `/proc` match `uses`, except this one.
pub(crate) fn processes_that(uses: impl Fn(&Path) -> bool) -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let others = numbered.filter(|&number: &u32| number != std::process::id());
    others.filter(move |number| uses(&PathBuf::from(format!("/proc/{number}")))).map(process)
}

/// The open files of a process, as links. A process that ends meanwhile has none.
pub(crate) fn open_files(process: &Path) -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    files.map(|file| file.path())
}

/// The loop devices on a file or a disk: the kernel has it open for them, not a process.
pub(crate) fn loop_devices_on(below: &Path) -> impl Iterator<Item = String> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let on_it = devices.filter(move |device| {
        let file = fs::read_to_string(device.path().join("loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim_end_matches('\n')) == below)
    });
    on_it.map(|device| format!("/dev/{}", device.file_name().to_string_lossy()))
}

/// Whether this machine's kernel is a client of NBD servers, perhaps of this one.
pub(crate) fn has_nbd_devices() -> bool {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    // This file exists while the device is connected.
    devices.map(|device| device.path().join("pid")).any(|connected| connected.exists())
}

/// Makes the machine's file systems write what they hold. Waits for that, but not for ever.
pub(crate) fn write_back() {
    let (done, ended) = mpsc::channel();
    let sync = move || {
        rustix::fs::sync();
        // The receiver is gone if it took too long.
        let _ = done.send(());
    };
    let spawned = thread::Builder::new().name("sync".to_owned()).spawn(sync);
    if let Err(error) = &spawned {
        tracing::error!(%error, "file systems on the array can't be told to write what they hold");
    } else if ended.recv_timeout(SYNC_MAX).is_err() {
        tracing::error!(
            "the machine's file systems have not written all that they hold in {} s",
            SYNC_MAX.as_secs()
        );
    }
}
