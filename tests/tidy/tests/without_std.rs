//! The core, log volumes and policies build for machines without an operating system.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use tidy::files;

/// It is built for this machine, since another target may not be installed. A program can have only
/// one panic handler, and `std` would bring a second one.
#[test]
fn the_core_builds_without_std() {
    let root = files::root();
    let bare = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bare");
    fs::create_dir_all(bare.join("src")).expect("a directory for what is built");
    let manifest = include_str!("../bare/Cargo.toml.in");
    let manifest = manifest.replace("ROOT", root.to_str().expect("a path of text"));
    fs::write(bare.join("Cargo.toml"), manifest).expect("a manifest");
    fs::write(bare.join("src/lib.rs"), include_str!("../bare/lib.rs")).expect("a source");
    // The same versions as elsewhere, so nothing has to be downloaded.
    fs::copy(root.join("Cargo.lock"), bare.join("Cargo.lock")).expect("a lock file");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--target-dir", "target"])
        .current_dir(&bare)
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}
