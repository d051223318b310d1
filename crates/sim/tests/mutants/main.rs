//! Breaks the engine on purpose, one rule at a time, and shows that the seeds find each break.
//!
//! A mutant is a place in the sources that is changed in a copy of them, so that the real ones know
//! nothing of it. All are built at once; one at a time is switched on. `EVENKEEL_MUTANTS=text` plays
//! only those whose name has that text in it.

mod list;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use list::{MUTANTS, Mutant};

/// The seeds that a mutant has to get past.
const SEEDS: &str = "0..6000";

/// When a mutant is said to hang: a step that never returns is found by nothing else.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the copy's core begins with.
const SWITCH: &str = "
/// Which mutant is switched on.
pub static MUTANT: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(u32::MAX);

pub(crate) fn mutant(number: u32) -> bool {
    MUTANT.load(core::sync::atomic::Ordering::Relaxed) == number
}
";

/// What the copy's player begins with.
const PLAYER: &str = "fn main() -> ExitCode {
    let mutant = std::env::var(\"MUTANT\").expect(\"which mutant\").parse().expect(\"a number\");
    raidcore::MUTANT.store(mutant, Ordering::Relaxed);";

#[test]
fn seeds_find_every_mutant() {
    let wanted = std::env::var("EVENKEEL_MUTANTS").unwrap_or_default();
    let player = build();
    // The copy itself is sound.
    assert_eq!(play(&player, u32::MAX, "0..100"), None, "without a mutant nothing is found");
    let mut survivors = Vec::new();
    for (number, mutant) in (0..).zip(MUTANTS).filter(|(_, m)| m.name.contains(&wanted)) {
        let begun = Instant::now();
        let found = play(&player, number, SEEDS);
        let seconds = begun.elapsed().as_secs_f32();
        println!("{seconds:6.1} s  {}: {}", mutant.name, found.as_deref().unwrap_or("SURVIVED"));
        if found.is_none() {
            survivors.push(mutant.name);
        }
    }
    assert_eq!(survivors, [""; 0], "nothing finds these");
}

/// A copy of the sources with all mutants in it, built; returns its player of seeds.
fn build() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    copy_sources(&root, &tree);
    let core = tree.join("crates/raidcore/src");
    let mut texts: Vec<(PathBuf, String)> = Vec::new();
    for (number, mutant) in (0..).zip(MUTANTS) {
        let path = core.join(mutant.file);
        let known = texts.iter().position(|(known, _)| *known == path);
        let at = known.unwrap_or_else(|| {
            let original = root.join("crates/raidcore/src").join(mutant.file);
            texts.push((path, fs::read_to_string(original).expect("a source file")));
            texts.len() - 1
        });
        texts[at].1 = changed(&texts[at].1, number, mutant);
    }
    for (path, text) in texts {
        write(&path, &text);
    }
    let lib = core.join("lib.rs");
    write(&lib, &(fs::read_to_string(root.join("crates/raidcore/src/lib.rs")).unwrap() + SWITCH));
    let player = "crates/sim/examples/seeds.rs";
    let text = fs::read_to_string(root.join(player)).expect("the player");
    write(&tree.join(player), &text.replacen("fn main() -> ExitCode {", PLAYER, 1));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "-p", "sim", "--example", "seeds"]).current_dir(&tree);
    cargo.env("CARGO_TARGET_DIR", tree.join("target")).env("RUSTFLAGS", "-Awarnings");
    let built = cargo.output().expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    tree.join("target/debug/examples/seeds")
}

fn changed(text: &str, number: u32, mutant: &Mutant) -> String {
    let Mutant { name, right, wrong, .. } = mutant;
    let count = text.matches(right).count();
    assert_eq!(count, 1, "what mutant '{name}' changes is there {count} times");
    text.replace(right, &wrong.replace("MUTANT", &format!("crate::mutant({number})")))
}

/// Plays seeds with a mutant; returns how it was found, if it was.
fn play(player: &Path, mutant: u32, seeds: &str) -> Option<String> {
    let mut command = Command::new(player);
    command.arg(seeds).env("MUTANT", mutant.to_string());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it runs");
    let begun = Instant::now();
    while child.try_wait().expect("it is being played").is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().expect("it can be ended");
            child.wait().expect("it has ended");
            return Some("it hangs".into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    let Child { stdout, .. } = &mut child;
    let said = std::io::read_to_string(stdout.take().expect("a pipe")).expect("what it said");
    said.lines().next().map(|line| line.chars().take(110).collect())
}

/// The sources that matter, unbroken, with a workspace of their own.
fn copy_sources(root: &Path, tree: &Path) {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace's manifest");
    let members = "members = [\"crates/det\", \"crates/raidcore\", \"crates/sim\"]";
    fs::create_dir_all(tree).expect("a directory for mutants");
    write(&tree.join("Cargo.toml"), &manifest.replace("members = [\"crates/*\"]", members));
    if !tree.join("Cargo.lock").exists() {
        fs::copy(root.join("Cargo.lock"), tree.join("Cargo.lock")).expect("the lock file");
    }
    for name in ["det", "raidcore", "sim"] {
        copy(&root.join("crates").join(name), &tree.join("crates").join(name));
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory of sources") {
        let path: PathBuf = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else if !MUTANTS.iter().any(|m| path.ends_with(Path::new("src").join(m.file))) {
            write(&target, &fs::read_to_string(&path).expect("a source file"));
        }
    }
}

/// Writes what differs only, so that little is built again.
fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::write(path, text).expect("the copy can be written");
}
