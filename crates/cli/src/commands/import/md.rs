//! The members of an array of Linux md that runs, by its device.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use evenkeel_client::Refusal;
use rustix::fs::{major, minor};
use ublkd::paths::{shown, to_text};

use crate::args::ImportArgs;

/// The members to import: those that were given, or those of the array whose device was. That has to be stopped,
/// unless it is only looked at.
///
/// # Errors
/// If it runs and is not to be stopped, or can't be.
pub(super) fn members(args: &ImportArgs) -> Result<Vec<PathBuf>, Refusal> {
    let [path] = &args.members[..] else { return Ok(args.members.clone()) };
    let Some(known) = known_as_md(path) else { return Ok(args.members.clone()) };
    let members = members_in(&known).map_err(|error| Refusal {
        code: "device".to_owned(),
        message: format!("the members of {} are not known: {error}", shown(path)),
        hint: Some("give them instead of it".to_owned()),
    })?;
    if args.dry_run {
        return Ok(members);
    }
    if !args.stop {
        return Err(runs(path, &members, args));
    }
    stop(path)?;
    Ok(members)
}

fn runs(path: &Path, members: &[PathBuf], args: &ImportArgs) -> Refusal {
    let members: Vec<_> = members.iter().map(|member| shown(member).to_string()).collect();
    let option = if args.commit { "--commit " } else { "" };
    Refusal {
        code: "in-use".to_owned(),
        message: format!("{} is an array of md's, and runs", shown(path)),
        hint: Some(format!(
            "unmount it, stop it, and give its members: mdadm --stop {0} && evenkeel import {option}{1}; \
             or: evenkeel import --stop {option}{0}",
            shown(path),
            members.join(" ")
        )),
    }
}

/// Where sysfs tells of the array of md's that a device is, if it is one.
fn known_as_md(path: &Path) -> Option<PathBuf> {
    let file = fs::metadata(path).ok().filter(|file| file.file_type().is_block_device())?;
    let (major, minor) = (major(file.rdev()), minor(file.rdev()));
    let known = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/md"));
    known.is_dir().then_some(known)
}

/// The devices with a place in the array that sysfs tells of there, in the order of their places. Spares have
/// none, nor has what has failed.
fn members_in(known: &Path) -> io::Result<Vec<PathBuf>> {
    let mut members = Vec::new();
    for entry in fs::read_dir(known)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with("dev-") {
            continue;
        }
        let slot = fs::read_to_string(entry.path().join("slot"))?;
        let Ok(slot) = slot.trim().parse::<u32>() else { continue };
        let block = fs::read_link(entry.path().join("block"))?;
        let name = block.file_name().map(|name| name.to_string_lossy().replace('!', "/"));
        members.extend(name.map(|name| (slot, Path::new("/dev").join(name))));
    }
    members.sort();
    Ok(members.into_iter().map(|(_, path)| path).collect())
}

/// Has mdadm stop an array, which it refuses while that is used.
fn stop(path: &Path) -> Result<(), Refusal> {
    let refused = |message: String, hint: &str| Refusal {
        code: "in-use".to_owned(),
        message,
        hint: Some(hint.to_owned()),
    };
    let ended = Command::new("mdadm").arg("--stop").arg(path).output().map_err(|error| {
        refused(
            format!("mdadm can't be run: {error}"),
            "install it, or stop the array by other means",
        )
    })?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr).trim().replace('\n', "; ");
    Err(refused(
        format!("mdadm does not stop {}: {said}", to_text(path)),
        "unmount it, and end all that uses it; see `lsof` and `lsblk`",
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn members_are_told_by_their_places() {
        let dir = tempfile::tempdir().expect("a directory");
        for (device, slot, block) in [
            ("dev-sdb", "2", "../../../../x/sdb"),
            ("dev-sda", "10", "../../../../x/sda"),
            ("dev-c!d0", "0", "../../../../x/cciss!c0d0"),
            ("dev-spare", "none", "../../../../x/sdz"),
            ("rd0", "7", "../dev-sdb"),
        ] {
            let device = dir.path().join(device);
            fs::create_dir(&device).expect("a directory");
            fs::write(device.join("slot"), format!("{slot}\n")).expect("a file");
            symlink(block, device.join("block")).expect("a link");
        }
        let members = members_in(dir.path()).expect("it is told");
        assert_eq!(members, ["/dev/cciss/c0d0", "/dev/sdb", "/dev/sda"].map(PathBuf::from));
    }

    #[test]
    fn what_is_no_array_is_a_member() {
        assert_eq!(known_as_md(Path::new("/dev/null")), None);
        assert_eq!(known_as_md(Path::new("/nowhere")), None);
        assert!(members_in(Path::new("/nowhere")).is_err());
    }
}
