//! Breaks the engine on purpose, one rule at a time, in a copy of the sources, and shows that the
//! seeds find each break: `cargo run -p sim --example mutants [NAME...]`.
//!
//! A mutant is a line that is changed. One that survives is either a check that is missing, or a
//! rule that is not needed: the list says what is known.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A deliberate bug.
struct Mutant {
    name: &'static str,
    /// Below `crates/raidcore/src`.
    file: &'static str,
    /// What stands there, once.
    right: &'static str,
    /// What is put in its place.
    wrong: &'static str,
}

/// The seeds that a mutant has to get past.
const SEEDS: &str = "0..1000";

/// How long they take at most.
const PATIENCE: Duration = Duration::from_secs(300);

const fn mutant(
    name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
) -> Mutant {
    Mutant { name, file, right, wrong }
}

const MUTANTS: &[Mutant] = &[
    mutant(
        "a replay may overwrite later writes",
        "engine/journal.rs",
        "&& (at_risk || self.journal.is_live(job.stripe))",
        "&& at_risk",
    ),
    mutant(
        "degraded whole-stripe writes pass the journal by",
        "engine/journal.rs",
        "&& (job.kind != WriteKind::Full || self.impaired || !self.recorder.is_durable())",
        "&& job.kind != WriteKind::Full",
    ),
    mutant(
        "an entry is retired by what came home after the flush began",
        "engine/flush.rs",
        "let mark = self.flusher.last.journal_mark;",
        "let mark = self.journal.homes_done();",
    ),
    mutant("entries are never void", "engine/journal.rs", "self.recorder.record.epoch += 1;", ""),
    mutant(
        "what was replayed is not flushed",
        "engine/journal.rs",
        "None => self.journal.replay_flush = Some(self.flush(out)),",
        "None => self.record_start(out),",
    ),
    mutant(
        "a spare counts as a holder before it is filled",
        "engine/journal.rs",
        "role.index() >= self.geo.data() && writable.has(role.index())",
        "role.index() >= self.geo.data() && (writable.has(role.index()) || true)",
    ),
    mutant(
        "writes begin before their bit is durable",
        "engine/intent.rs",
        "} else if page.durable < version {",
        "} else if page.durable < version && kind == MapKind::ZeroMap {",
    ),
    mutant(
        "discards end before their bit is durable",
        "engine/intent.rs",
        "} else if page.durable < version {",
        "} else if page.durable < version && kind == MapKind::Bitmap {",
    ),
    mutant(
        "regions come to rest while they are written",
        "engine/intent.rs",
        "if writes == 0 {",
        "if writes < u16::MAX {",
    ),
    mutant(
        "no bit is set with a journal",
        "engine/intent.rs",
        "consistency != Consistency::Resync && !job.marked",
        "consistency == Consistency::Bitmap && !job.marked",
    ),
    mutant(
        "bits are cleared whatever the flush came to",
        "engine/flush.rs",
        "!self.flusher.last.failed && self.recorder.unrecorded_failure().is_none()",
        "!self.flusher.last.failed || self.recorder.unrecorded_failure().is_none()",
    ),
    mutant(
        "flushes that fail are taken for good",
        "engine/flush.rs",
        "self.flusher.round.failed |= !self.write_failed(member, why, out);",
        "let _ = why;",
    ),
    mutant(
        "a discarded stripe becomes real before it is flushed",
        "engine/job.rs",
        "        self.wait_for_flush(id, ticket);\n        Stage::Unzero",
        "        let _ = ticket;\n        Stage::Unzero",
    ),
    mutant(
        "writes that a member missed end before that is on record",
        "engine/job.rs",
        "let writes = self.jobs[id].work != Work::Read;",
        "let writes = false;",
    ),
    mutant("a merged write forgets FUA", "engine/job.rs", "job.fua |= fua;", "let _ = fua;"),
    mutant(
        "overlapping writes are merged",
        "engine/job.rs",
        "&& !rider.pieces.iter().any(|r| job.pieces.iter().any(|p| p.overlaps(r)));",
        ";",
    ),
    mutant(
        "unsynced mirrors are read from any copy",
        "engine/job.rs",
        "if self.regions.is_unsynced(self.areas.region(stripe)) {",
        "if false && self.regions.is_unsynced(self.areas.region(stripe)) {",
    ),
    mutant(
        "parity is always believed",
        "engine/mod.rs",
        "if !self.regions.is_unsynced(self.areas.region(stripe)) {",
        "if true || !self.regions.is_unsynced(self.areas.region(stripe)) {",
    ),
    mutant(
        "a spare is read in a member's place",
        "engine/io.rs",
        "(member, at, readable.has(io.role.index()))",
        "(member, at, true)",
    ),
    mutant(
        "a stripe counts as rebuilt when it is begun",
        "engine/background.rs",
        "Some(pass) if pass.fills(MemberId(member as u8)) => pass.progress.has(stripe.0),",
        "Some(pass) if pass.fills(MemberId(member as u8)) => stripe.0 < pass.next,",
    ),
    mutant(
        "the watermark is recorded before the flush",
        "engine/background.rs",
        "let flushed = self.flusher.rebuilt(member);",
        "let flushed = self.background.rebuilt_to().nth(member.index()).unwrap_or(0);",
    ),
    mutant(
        "another device inherits what was filled",
        "engine/fault.rs",
        "        self.flusher.restart(member);\n",
        "",
    ),
    mutant("a rebuilt member lacks the maps", "engine/background.rs", "self.spread_maps();", ""),
    mutant(
        "a resync leaps over stripes under way",
        "engine/background.rs",
        "if pass.in_flight > 0 {\n                    return None;",
        "if pass.in_flight > u32::MAX - 1 {\n                    return None;",
    ),
    mutant(
        "all copies of the superblock are written at once",
        "engine/record.rs",
        "        self.store_copies([0, 1], out);\n    }\n\n    fn store_copies",
        "        self.store_copies([0, 1], out);\n        self.recorder.second_round = true;\n        \
         self.store_copies([2, 3], out);\n    }\n\n    fn store_copies",
    ),
    mutant(
        "a start does not level the records first",
        "engine/record.rs",
        "if let Some(assembled) = self.recorder.assembled.take() {",
        "if let Some(assembled) = self.recorder.assembled.take().filter(|_| false) {",
    ),
    mutant(
        "stale members are taken for current",
        "meta/assemble.rs",
        "events < newest.events.saturating_sub(1)",
        "events < newest.events.saturating_sub(4)",
    ),
    mutant(
        "one copy of a superblock is enough",
        "meta/superblock.rs",
        "const QUORUM: usize = 2;",
        "const QUORUM: usize = 1;",
    ),
    mutant(
        "Q is not kept",
        "plan/write.rs",
        "let q = self.geo.q().filter(|q| parities.has(q.index()))",
        "let q = self.geo.q().filter(|q| parities.has(q.index()) && false)",
    ),
    mutant(
        "locks are shared by writers",
        "engine/job.rs",
        "        self.work != Work::Read\n    }",
        "        !matches!(self.work, Work::Read | Work::Write)\n    }",
    ),
];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = root.join("target/mutants");
    let mut survivors = Vec::new();
    for mutant in MUTANTS {
        if !wanted.is_empty() && !wanted.iter().any(|part| mutant.name.contains(part.as_str())) {
            continue;
        }
        copy_sources(&root, &tree);
        let begun = Instant::now();
        let how = match break_it(&tree, mutant) {
            Ok(()) => seeds_find_it(&tree),
            Err(why) => Fate::Impossible(why),
        };
        let seconds = begun.elapsed().as_secs();
        match how {
            Fate::Killed(ref by) => println!("killed in {seconds:>3} s  {}  ({by})", mutant.name),
            Fate::Survived => println!("SURVIVED {seconds:>3} s  {}", mutant.name),
            Fate::Impossible(ref why) => println!("IMPOSSIBLE       {}: {why}", mutant.name),
        }
        if !matches!(how, Fate::Killed(_)) {
            survivors.push(mutant.name);
        }
    }
    if survivors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What became of a mutant.
enum Fate {
    Killed(String),
    Survived,
    Impossible(String),
}

/// The sources that matter, unbroken.
fn copy_sources(root: &Path, tree: &Path) {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace's manifest");
    let members = "members = [\"crates/det\", \"crates/raidcore\", \"crates/sim\"]";
    let manifest = manifest.replace("members = [\"crates/*\"]", members);
    fs::create_dir_all(tree).expect("a directory for mutants");
    write(&tree.join("Cargo.toml"), &manifest);
    let lock = fs::read_to_string(root.join("Cargo.lock")).expect("the lock file");
    if !tree.join("Cargo.lock").exists() {
        write(&tree.join("Cargo.lock"), &lock);
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
        } else {
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

fn break_it(tree: &Path, mutant: &Mutant) -> Result<(), String> {
    let path = tree.join("crates/raidcore/src").join(mutant.file);
    let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    match text.matches(mutant.right).count() {
        1 => {
            write(&path, &text.replace(mutant.right, mutant.wrong));
            Ok(())
        }
        count => Err(format!("what it changes is there {count} times")),
    }
}

fn seeds_find_it(tree: &Path) -> Fate {
    let cargo = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(args).current_dir(tree).stdin(Stdio::null()).env("RUSTFLAGS", "-Awarnings");
        command
    };
    let built = cargo(&["build", "-p", "sim", "--example", "seeds"]).output().expect("cargo runs");
    if !built.status.success() {
        let text = String::from_utf8_lossy(&built.stderr).into_owned();
        let error = text.lines().find(|line| line.starts_with("error")).unwrap_or("").to_owned();
        return Fate::Impossible(error);
    }
    let mut seeds = cargo(&["run", "-q", "-p", "sim", "--example", "seeds", SEEDS]);
    let mut seeds = seeds.stdout(Stdio::piped()).spawn().expect("the seeds can be played");
    let begun = Instant::now();
    loop {
        match seeds.try_wait().expect("the seeds are being played") {
            Some(status) if status.success() => return Fate::Survived,
            Some(_) => break,
            None if begun.elapsed() > PATIENCE => {
                seeds.kill().expect("they can be ended");
                seeds.wait().expect("they have ended");
                return Fate::Killed("it hangs".into());
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    let mut said = String::new();
    let _ = seeds.stdout.take().map(|mut out| out.read_to_string(&mut said));
    let what = said.lines().next().unwrap_or("").chars().take(90).collect();
    Fate::Killed(what)
}
