//! Content that `blkid` of util-linux recognises: about a hundred formats more than the table,
//! among them Intel's and DDF's RAID, DRBD, VDO, Oracle ASM and minix.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Where it is if it is not in `PATH`, as for users other than root.
const PLACES: [&str; 3] = ["blkid", "/usr/sbin/blkid", "/sbin/blkid"];

/// The exit status that says that nothing was found.
const NOTHING: i32 = 2;
/// The exit status that says that several formats were found which contradict each other.
const AMBIVALENT: i32 = 8;

/// Whether this machine has it.
pub(crate) fn is_installed() -> bool {
    run([OsStr::new("--version")]).is_ok()
}

/// The name of a device's content; nothing if none is found, or `blkid` is not installed.
///
/// # Errors
/// If it fails, because it can't read the device for instance.
pub(super) fn name_of(path: &Path) -> io::Result<Option<String>> {
    let arguments = ["--probe", "--output", "export", "--"].map(OsStr::new);
    let output = match run(arguments.into_iter().chain([path.as_os_str()])) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        output => output?,
    };
    match output.status.code() {
        Some(0) => Ok(Some(named(&String::from_utf8_lossy(&output.stdout)))),
        Some(NOTHING) => Ok(None),
        Some(AMBIVALENT) => Ok(Some("content of several formats, by blkid".to_owned())),
        Some(_) | None => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(format!("blkid failed ({}): {}", output.status, said.trim())))
        }
    }
}

fn run<'a>(arguments: impl IntoIterator<Item = &'a OsStr> + Clone) -> io::Result<Output> {
    let mut last = io::ErrorKind::NotFound.into();
    for place in PLACES {
        // No translations, and no settings of the user.
        let mut command = Command::new(place);
        command.args(arguments.clone()).env("LC_ALL", "C").stdin(Stdio::null());
        match command.output() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = error,
            output => return output,
        }
    }
    Err(last)
}

/// A name made of lines like `TYPE=minix`.
fn named(export: &str) -> String {
    let field =
        |name: &str| export.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    match (field("TYPE"), field("PTTYPE")) {
        (Some(format), _) => format!("content of the format \"{format}\", by blkid"),
        (None, Some(table)) => format!("a partition table of the type \"{table}\", by blkid"),
        (None, None) => "content of a format that blkid knows".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_make_a_name() {
        let raid = "DEVNAME=/dev/sda\nTYPE=isw_raid_member\nUSAGE=raid\n";
        assert_eq!(named(raid), "content of the format \"isw_raid_member\", by blkid");
        let table = "DEVNAME=/dev/sda\nPTUUID=1\nPTTYPE=sun\n";
        assert_eq!(named(table), "a partition table of the type \"sun\", by blkid");
    }
}
