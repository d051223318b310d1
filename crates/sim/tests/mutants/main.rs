//! Breaks the engine on purpose, one rule at a time, and shows that the seeds find each break.
//! `scripts/test long` runs it.
//!
//! A mutant changes one place in a copy of the sources. All mutants are built at once; one at a
//! time is switched on. `EVENKEEL_MUTANTS=text` runs only those with that text in their names,
//! including rare ones, which are skipped otherwise because very few seeds find them.
//! `EVENKEEL_SEEDS=0..500000` tries more seeds.
//!
//! `found.txt` has the seed or the regression that last found each mutant. It is played first, since
//! finding one takes most of the time. `EVENKEEL_MUTANTS_RECORD=1` rewrites the file.

mod align;
mod at_once;
mod detours;
mod distributed;
mod flushes;
mod healing;
mod hedge;
mod hold;
mod jobs;
mod journal;
mod kept;
mod lease;
mod log;
mod members;
mod mutant;
mod pages;
mod pairs;
mod partial;
mod passes;
mod phases;
mod record;
mod regions;
mod reshape;
mod returns;
mod scrub;
mod stack;
mod staging;
mod succession;
mod together;
mod twins;
mod volatile;
mod warm;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use align::ALIGN;
use at_once::AT_ONCE;
use detours::DETOURS;
use distributed::DISTRIBUTED;
use flushes::FLUSHES;
use healing::HEALING;
use hedge::HEDGE;
use hold::HOLD;
use jobs::JOBS;
use journal::JOURNAL;
use kept::KEPT;
use lease::LEASE;
use log::LOG;
use members::MEMBERS;
use mutant::Mutant;
use pages::PAGES;
use pairs::PAIRS;
use partial::PARTIAL;
use passes::PASSES;
use phases::PHASES;
use record::RECORD;
use regions::REGIONS;
use reshape::RESHAPE;
use returns::RETURNS;
use scrub::SCRUB;
use stack::STACK;
use staging::STAGING;
use succession::SUCCESSION;
use together::TOGETHER;
use twins::TWINS;
use volatile::VOLATILE;
use warm::WARM;

/// The crates that are copied.
const CRATES: [&str; 5] = ["det", "flashsim", "raidcore", "raidlog", "sim"];

/// Those of their files that have the switch besides.
const SWITCHED: [&str; 2] = ["crates/raidcore/src/lib.rs", "crates/raidlog/src/lib.rs"];

/// The seeds that a mutant is tried with.
const SEEDS: &str = "0..50000";

/// Those of worlds of log volumes, which take longer, and of reshapes, which are few.
const LOG_SEEDS: &str = "0..4000";

/// A line for each mutant: the seed or the regression that finds it, and the mutant's name.
const FOUND: &str = include_str!("found.txt");

/// The time after which a mutant counts as hanging: only this finds a step that never returns.
const PATIENCE: Duration = Duration::from_secs(600);

/// The same for one seed, and the minimum for the regressions.
const SEED_PATIENCE: Duration = Duration::from_secs(90);

/// The same for one regression, which takes a second.
const TEST_PATIENCE: Duration = Duration::from_secs(40);

/// So that what it said last tells which test hangs, if one does.
const ONE_BY_ONE: &str = "--test-threads=1";

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
#[ignore = "a long run: docs/testing.md"]
fn every_mutant_is_found() {
    let wanted = std::env::var("EVENKEEL_MUTANTS").unwrap_or_default();
    let programs = Programs::build();
    let mut all = Vec::new();
    for (number, mutant) in (0..).zip(mutants()).filter(|(_, m)| m.name.contains(&wanted)) {
        match mutant.rare {
            Some(why) if wanted.is_empty() => println!("     rare  {}: {why}", mutant.name),
            _ => all.push((number, mutant)),
        }
    }
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![None; all.len()]);
    let work = &|worker| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(number, mutant)) = all.get(at) else { return };
            let begun = Instant::now();
            let line = programs.find(worker, number, mutant);
            let seconds = begun.elapsed().as_secs_f32();
            let told = line.as_deref().unwrap_or("SURVIVED");
            println!("{seconds:6.1} s  {}: {}", mutant.name, told.get(..110).unwrap_or(told));
            found.lock().expect("no worker panics")[at] = line;
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for worker in 0..workers {
            scope.spawn(move || work(worker));
        }
    });
    let found = found.into_inner().expect("no worker has panicked");
    let found = || all.iter().map(|(_, mutant)| mutant.name).zip(&found);
    if std::env::var_os("EVENKEEL_MUTANTS_RECORD").is_some() {
        let lines = found().filter_map(|(name, line)| {
            let by = finder_of(line.as_deref()?)?;
            Some(format!("{by} {name}\n"))
        });
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mutants/found.txt");
        fs::write(path, lines.collect::<String>()).expect("the list can be written");
    }
    let survivors: Vec<_> = found().filter(|(_, by)| by.is_none()).map(|(name, _)| name).collect();
    assert_eq!(survivors, [""; 0], "nothing finds these");
}

/// What last found a mutant, if anything did: a seed, or a regression's name.
fn found_by(mutant: &str) -> Option<&'static str> {
    let mut lines = FOUND.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(_, name)| *name == mutant).map(|(by, _)| by)
}

/// The seed or the regression that a failure names: `seed 17: what was wrong` or `test NAME ... FAILED`.
fn finder_of(failure: &str) -> Option<&str> {
    if let Some(test) = failure.strip_prefix("test ") {
        return test.split(' ').next();
    }
    let seed = failure.split_once(':')?.0.rsplit(' ').next()?;
    seed.parse::<u64>().is_ok().then_some(seed)
}

/// What plays the copy of the sources with all mutants.
struct Programs {
    seeds: PathBuf,
    regressions: PathBuf,
    /// The time after which the regressions count as hanging.
    patience: Duration,
}

impl Programs {
    /// Builds them, and sees that all is well without a mutant.
    fn build() -> Self {
        let [seeds, regressions] = build();
        let plain = |program, args: &[&str]| run(program, args, None, 0, PATIENCE);
        assert_eq!(plain(&seeds, &["0..100"]), None, "without a mutant nothing is found");
        assert_eq!(plain(&seeds, &["log", "0..100"]), None, "nor in logs");
        assert_eq!(plain(&seeds, &["stack", "0..100"]), None, "nor in logs over arrays");
        assert_eq!(plain(&seeds, &["reshape", "0..100"]), None, "nor in reshapes");
        assert_eq!(plain(&seeds, &["volatile", "0..100"]), None, "nor in caches");
        assert_eq!(plain(&seeds, &["lease", "0..100"]), None, "nor in leases");
        assert_eq!(plain(&seeds, &["pairs", "0..100"]), None, "nor in pairs");
        let begun = Instant::now();
        assert_eq!(plain(&regressions, &[ONE_BY_ONE]), None, "nor in what is played on purpose");
        // On a busy machine everything is slow, which is no hang.
        let patience = SEED_PATIENCE.max(begun.elapsed() * SLOWER);
        Self { seeds, regressions, patience }
    }

    /// How a mutant is found, if it is.
    fn find(&self, worker: usize, number: u32, mutant: &Mutant) -> Option<String> {
        let number = Some(number);
        let play = |seeds: &str, patience| {
            let args: Vec<&str> = mutant.kind.into_iter().chain([seeds]).collect();
            run(&self.seeds, &args, number, worker, patience)
        };
        let known = |by: &str| match by.parse::<u64>() {
            Ok(seed) => play(&format!("{seed}..{}", seed + 1), SEED_PATIENCE),
            Err(_) => {
                let args = [by, "--exact", ONE_BY_ONE];
                run(&self.regressions, &args, number, worker, TEST_PATIENCE)
            }
        };
        // Regressions run before all seeds: they are quick, and some mutants are found by no seed in a
        // reasonable time.
        let regressions = || run(&self.regressions, &[ONE_BY_ONE], number, worker, self.patience);
        let seeds = std::env::var("EVENKEEL_SEEDS");
        let usual = if mutant.kind.is_some() { LOG_SEEDS } else { SEEDS };
        let seeds = || play(seeds.as_deref().unwrap_or(usual), PATIENCE);
        found_by(mutant.name).and_then(known).or_else(regressions).or_else(seeds)
    }
}

/// All mutants, by the part of the engine that they are in.
fn mutants() -> impl Iterator<Item = &'static Mutant> {
    let arrays = [
        RECORD,
        ALIGN,
        PHASES,
        AT_ONCE,
        DETOURS,
        FLUSHES,
        JOBS,
        MEMBERS,
        PASSES,
        JOURNAL,
        REGIONS,
        PAGES,
        PAIRS,
        PARTIAL,
        STAGING,
        KEPT,
        HOLD,
        DISTRIBUTED,
        SUCCESSION,
        TOGETHER,
        TWINS,
        RETURNS,
        HEALING,
        SCRUB,
        HEDGE,
        WARM,
        RESHAPE,
    ];
    arrays.into_iter().chain([LOG, STACK, VOLATILE, LEASE]).flatten()
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

/// Runs a program with a mutant switched on, for one of the workers; returns how it was found, if it was.
fn run(
    program: &Path,
    args: &[&str],
    mutant: Option<u32>,
    worker: usize,
    patience: Duration,
) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).env_remove("EVENKEEL_MUTANT");
    command.envs(mutant.map(|number| ("EVENKEEL_MUTANT", number.to_string())));
    // To a file: a pipe that is not read could be full before the program ends.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mutants/said-{worker}"));
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
            let said = fs::read_to_string(path).expect("what it said");
            let test = said.lines().last().filter(|line| line.ends_with("... "));
            return Some(test.map_or_else(|| "it hangs".into(), |test| format!("{test}hangs")));
        }
        thread::sleep(Duration::from_millis(20));
    };
    let said = fs::read(path).expect("what it said");
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find(|line| line.contains("seed") || line.contains("FAILED"));
    (!status.success()).then(|| line.unwrap_or("it fails").into())
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
