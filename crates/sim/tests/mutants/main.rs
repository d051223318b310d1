//! Breaks the engine on purpose, one rule at a time, and shows that the seeds find each break.
//!
//! A mutant changes one place in a copy of the sources. All mutants are built at once; one at a
//! time is switched on. `EVENKEEL_MUTANTS=text` runs only those with that text in their names,
//! including rare ones, which are skipped otherwise because very few seeds find them.
//! `EVENKEEL_SEEDS=0..500000` tries more seeds.
//!
//! `found.txt` has the seed that last found each mutant. It is played first, since finding a seed
//! takes most of the time. `EVENKEEL_MUTANTS_RECORD=1` rewrites the file.

mod align;
mod detours;
mod distributed;
mod flushes;
mod healing;
mod hedge;
mod hold;
mod jobs;
mod journal;
mod log;
mod members;
mod mutant;
mod pages;
mod partial;
mod passes;
mod phases;
mod record;
mod regions;
mod returns;
mod scrub;
mod stack;
mod staging;
mod succession;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use align::ALIGN;
use detours::DETOURS;
use distributed::DISTRIBUTED;
use flushes::FLUSHES;
use healing::HEALING;
use hedge::HEDGE;
use hold::HOLD;
use jobs::JOBS;
use journal::JOURNAL;
use log::LOG;
use members::MEMBERS;
use mutant::Mutant;
use pages::PAGES;
use partial::PARTIAL;
use passes::PASSES;
use phases::PHASES;
use record::RECORD;
use regions::REGIONS;
use returns::RETURNS;
use scrub::SCRUB;
use stack::STACK;
use staging::STAGING;
use succession::SUCCESSION;

/// The crates that are copied.
const CRATES: [&str; 5] = ["det", "flashsim", "raidcore", "raidlog", "sim"];

/// Those of their files that have the switch besides.
const SWITCHED: [&str; 2] = ["crates/raidcore/src/lib.rs", "crates/raidlog/src/lib.rs"];

/// The seeds that a mutant is tried with.
const SEEDS: &str = "0..50000";

/// Those of worlds of log volumes, which take longer.
const LOG_SEEDS: &str = "0..4000";

/// A line for each mutant that seeds find: the seed, and the mutant's name.
const FOUND: &str = include_str!("found.txt");

/// The time after which a mutant counts as hanging: only this finds a step that never returns.
const PATIENCE: Duration = Duration::from_secs(600);

/// The same for one seed, and the minimum for the regressions.
const SEED_PATIENCE: Duration = Duration::from_secs(90);

/// How many times as long as without a mutant the regressions may take.
const SLOWER: u32 = 10;

/// The code that the copy of the core has in addition.
const SWITCH: &str = "
extern crate std;

pub(crate) fn mutant(number: u32) -> bool {
    static ON: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
    let on = || std::env::var(\"EVENKEEL_MUTANT\").ok()?.parse().ok();
    *ON.get_or_init(on) == Some(number)
}
";

#[test]
fn every_mutant_has_its_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert!(!changed_texts(&root).is_empty(), "there are mutants");
}

#[test]
fn every_mutant_is_found() {
    let wanted = std::env::var("EVENKEEL_MUTANTS").unwrap_or_default();
    let asked = std::env::var("EVENKEEL_SEEDS").ok();
    let [player, played] = build();
    // The unchanged copy passes.
    assert_eq!(
        run(&player, &["0..100"], None, PATIENCE),
        None,
        "without a mutant nothing is found"
    );
    assert_eq!(run(&player, &["log", "0..100"], None, PATIENCE), None, "nor in logs");
    assert_eq!(run(&player, &["stack", "0..100"], None, PATIENCE), None, "nor in logs over arrays");
    let begun = Instant::now();
    assert_eq!(run(&played, &[], None, PATIENCE), None, "nor in what is played on purpose");
    // On a busy machine everything is slow, which is no hang.
    let played_patience = SEED_PATIENCE.max(begun.elapsed() * SLOWER);
    let mut survivors = Vec::new();
    let mut record = String::new();
    for (number, mutant) in (0..).zip(mutants()).filter(|(_, m)| m.name.contains(&wanted)) {
        if let (Some(why), true) = (mutant.rare, wanted.is_empty()) {
            println!("     rare  {}: {why}", mutant.name);
            continue;
        }
        let begun = Instant::now();
        // Some mutants are found by no seed in a reasonable time, but by a regression: these are
        // quick, so they run before all seeds.
        let seeds = if mutant.kind.is_some() { LOG_SEEDS } else { SEEDS };
        let seeds = asked.as_deref().unwrap_or(seeds);
        let play = |seeds: &str, patience| {
            let args: Vec<&str> = mutant.kind.into_iter().chain([seeds]).collect();
            run(&player, &args, Some(number), patience)
        };
        let known = found_by(mutant.name).map(|seed| format!("{seed}..{}", seed + 1));
        let by_known = known.and_then(|seeds| play(&seeds, SEED_PATIENCE));
        let played = || run(&played, &[], Some(number), played_patience);
        let found = by_known.or_else(played).or_else(|| play(seeds, PATIENCE));
        if let Some(seed) = found.as_deref().and_then(seed_of) {
            record += &format!("{seed} {}\n", mutant.name);
        }
        let seconds = begun.elapsed().as_secs_f32();
        println!("{seconds:6.1} s  {}: {}", mutant.name, found.as_deref().unwrap_or("SURVIVED"));
        if found.is_none() {
            survivors.push(mutant.name);
        }
    }
    if std::env::var_os("EVENKEEL_MUTANTS_RECORD").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mutants/found.txt");
        fs::write(path, record).expect("the list of seeds can be written");
    }
    assert_eq!(survivors, [""; 0], "nothing finds these");
}

/// The seed that last found a mutant, if there is one.
fn found_by(mutant: &str) -> Option<u64> {
    let mut lines = FOUND.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(_, name)| *name == mutant)?.0.parse().ok()
}

/// The seed that a failure names, as in `seed 17: what was wrong`.
fn seed_of(failure: &str) -> Option<u64> {
    failure.split_once(':')?.0.rsplit(' ').next()?.parse().ok()
}

/// All mutants, by the part of the engine that they are in.
fn mutants() -> impl Iterator<Item = &'static Mutant> {
    let arrays = [
        RECORD,
        ALIGN,
        PHASES,
        DETOURS,
        FLUSHES,
        JOBS,
        MEMBERS,
        PASSES,
        JOURNAL,
        REGIONS,
        PAGES,
        PARTIAL,
        STAGING,
        HOLD,
        DISTRIBUTED,
        SUCCESSION,
        RETURNS,
        HEALING,
        SCRUB,
        HEDGE,
    ];
    arrays.into_iter().chain([LOG, STACK]).flatten()
}

/// A copy of the sources with all mutants, built; returns its player of seeds and its test of
/// regressions.
fn build() -> [PathBuf; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    copy_sources(&root, &tree);
    for (path, text) in changed_texts(&root) {
        let path = tree.join(path);
        write(&path, &text);
    }
    for lib in SWITCHED {
        let original = fs::read_to_string(root.join(lib)).expect("a source file");
        write(&tree.join(lib), &(original + SWITCH));
    }
    let cargo = |args: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(args).args(["--offline", "-p", "sim"]).current_dir(&tree);
        cargo.env("CARGO_TARGET_DIR", tree.join("target")).env("RUSTFLAGS", "-Awarnings");
        let built = cargo.output().expect("cargo runs");
        let said = String::from_utf8_lossy(&built.stderr).into_owned();
        assert!(built.status.success(), "{said}");
        said
    };
    cargo(&["build", "--example", "seeds"]);
    let said = cargo(&["test", "--lib", "--no-run"]);
    let test = said.rsplit_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let (test, _) = test.expect("cargo tells where the test is");
    [tree.join("target/debug/examples/seeds"), tree.join(test)]
}

/// The sources that mutants change, with all mutants in them.
fn changed_texts(root: &Path) -> Vec<(PathBuf, String)> {
    let mut texts: Vec<(PathBuf, String)> = Vec::new();
    for (number, mutant) in (0..).zip(mutants()) {
        let path = source(mutant);
        let known = texts.iter().position(|(known, _)| *known == path);
        let at = known.unwrap_or_else(|| {
            let original = fs::read_to_string(root.join(&path)).expect("a source file");
            texts.push((path, original));
            texts.len() - 1
        });
        texts[at].1 = changed(&texts[at].1, number, mutant);
    }
    texts
}

fn source(mutant: &Mutant) -> PathBuf {
    Path::new("crates").join(mutant.package).join("src").join(mutant.file)
}

fn changed(text: &str, number: u32, mutant: &Mutant) -> String {
    let Mutant { name, right, wrong, .. } = mutant;
    let found = places(text, right);
    assert_eq!(found.len(), 1, "what mutant '{name}' changes is there {} times", found.len());
    let wrong = wrong.replace("MUTANT", &format!("crate::mutant({number})"));
    format!("{}{wrong}{}", &text[..found[0].start], &text[found[0].end..])
}

/// Where a text contains a part, regardless of line breaks.
fn places(text: &str, part: &str) -> Vec<Range<usize>> {
    let dense = |text: &str| -> Vec<(usize, char)> {
        text.char_indices().filter(|(_, c)| !c.is_whitespace()).collect()
    };
    let (text, part) = (dense(text), dense(part));
    let is_part = |window: &&[(usize, char)]| {
        window.iter().zip(&part).all(|((_, have), (_, want))| have == want)
    };
    let end = |(at, c): (usize, char)| at + c.len_utf8();
    let found = text.windows(part.len()).filter(is_part);
    found.map(|window| window[0].0..end(window[window.len() - 1])).collect()
}

/// Runs a program with a mutant switched on; returns how it was found, if it was.
fn run(program: &Path, args: &[&str], mutant: Option<u32>, patience: Duration) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).env_remove("EVENKEEL_MUTANT");
    command.envs(mutant.map(|number| ("EVENKEEL_MUTANT", number.to_string())));
    // To a file: a pipe that is not read could be full before the program ends.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants/said");
    let said = fs::File::create(&path).expect("a file");
    command.stdin(Stdio::null()).stdout(said).stderr(Stdio::null());
    let mut child = command.spawn().expect("it runs");
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is being played") {
            break status;
        }
        if begun.elapsed() > patience {
            child.kill().expect("it can be ended");
            child.wait().expect("it has ended");
            return Some("it hangs".into());
        }
        thread::sleep(Duration::from_millis(20));
    };
    let said = fs::read(path).expect("what it said");
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find(|line| line.contains("seed") || line.contains("FAILED"));
    (!status.success()).then(|| line.unwrap_or("it fails").chars().take(110).collect())
}

/// The relevant sources, unchanged, with a workspace of their own.
fn copy_sources(root: &Path, tree: &Path) {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace's manifest");
    let members = CRATES.map(|name| format!("\"crates/{name}\"")).join(", ");
    let members = format!("members = [{members}]");
    let of_copy = |line| if str::starts_with(line, "members = ") { &*members } else { line };
    fs::create_dir_all(tree).expect("a directory for mutants");
    write(&tree.join("Cargo.toml"), &manifest.lines().map(of_copy).collect::<Vec<_>>().join("\n"));
    if !tree.join("Cargo.lock").exists() {
        fs::copy(root.join("Cargo.lock"), tree.join("Cargo.lock")).expect("the lock file");
    }
    for name in CRATES {
        copy(&root.join("crates").join(name), &tree.join("crates").join(name));
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    // Files from an earlier copy.
    for entry in fs::read_dir(to).expect("the copy") {
        let path = entry.expect("an entry").path();
        if !from.join(path.file_name().expect("a name")).exists() {
            let gone =
                if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            gone.expect("the copy can be changed");
        }
    }
    for entry in fs::read_dir(from).expect("a directory of sources") {
        let path: PathBuf = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        let mut changed = mutants().map(source).chain(SWITCHED.map(PathBuf::from));
        if path.is_dir() {
            copy(&path, &target);
        } else if !changed.any(|file| path.ends_with(file)) {
            write(&target, &fs::read_to_string(&path).expect("a source file"));
        }
    }
}

/// Writes only files that differ, so that little is built again.
fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::write(path, text).expect("the copy can be written");
}
