//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The text files below `directory` (a path from the root) whose names end with one of `endings`:
/// their paths from the root, and their contents. Hidden and built files are left out.
///
/// # Panics
///
/// If a directory or file can't be read.
pub fn below(directory: &str, endings: &[&str]) -> Vec<(String, String)> {
    let mut paths = Vec::new();
    walk(&root().join(directory), directory, &mut paths);
    paths.retain(|path| endings.iter().any(|ending| path.ends_with(ending)));
    paths.sort();
    let read = |path: String| {
        let content = fs::read_to_string(root().join(&path));
        let content = content.unwrap_or_else(|error| panic!("can't read {path}: {error}"));
        (path, content)
    };
    paths.into_iter().map(read).collect()
}

/// The names of the crates in `crates`.
///
/// # Panics
///
/// If the directory can't be read.
pub fn crates() -> Vec<String> {
    let entries = fs::read_dir(root().join("crates")).expect("the crates are in crates/");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("crates/ can be read").file_name().to_string_lossy().into_owned())
        .filter(|name| root().join("crates").join(name).join("src").is_dir())
        .collect();
    names.sort();
    names
}

fn walk(directory: &Path, name: &str, paths: &mut Vec<String>) {
    let entries = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("can't read {}: {error}", directory.display()));
    for entry in entries {
        let entry = entry.unwrap_or_else(|error| panic!("can't read {name}: {error}"));
        let file = entry.file_name().to_string_lossy().into_owned();
        let path = if name.is_empty() { file.clone() } else { format!("{name}/{file}") };
        let kind = entry.file_type().unwrap_or_else(|error| panic!("can't read {path}: {error}"));
        if file.starts_with('.') {
            continue;
        }
        if !kind.is_dir() {
            paths.push(path);
        } else if !is_built(&entry.path(), &file) {
            walk(&entry.path(), &path, paths);
        }
    }
}

/// Whether cargo builds into `directory`: it marks such directories.
fn is_built(directory: &Path, name: &str) -> bool {
    name == "target" && !directory.join("mod.rs").exists()
        || directory.join("CACHEDIR.TAG").exists()
}
