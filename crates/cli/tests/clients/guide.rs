//! The operator's guide: its pages' commands are carried out, each page in a directory of its own, and
//! print what the pages say.
//!
//! A block of `console` is a session. A line that begins with `$ ` is a command of bash, and the lines
//! below it are what it prints, standard error included. There, `…` is any text, and any number of lines
//! if it is all of a line; runs of blanks are one. A command without such lines may print anything. One
//! fails if and only if the page has its error, except `evenkeel status`, whose exit status tells of the
//! array. Commands in a comment `<!-- before` are carried out, too: what a page takes for granted.
//!
//! Pages call the directory `/disks`, and the run directory what it is by default.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::tools::HANGS;

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");

/// The names of directories in pages.
const DISKS: &str = "/disks";
const RUN_DIR: &str = "/run/evenkeel";

/// How blocks begin.
const SESSION: &str = "```console";
const BEFORE: &str = "<!-- before";

/// What separates the outputs of commands.
const MARK: &str = "== ended with";

/// A command, and what the page has below it.
#[derive(PartialEq, Debug)]
struct Step {
    line: usize,
    command: String,
    printed: Vec<String>,
}

impl Step {
    fn fails(&self) -> bool {
        self.printed.iter().any(|line| line.starts_with("error: "))
    }

    /// Whether it ended as the page says.
    fn ended_well(&self, code: i32) -> bool {
        match code {
            0 => !self.fails(),
            // Something is wrong, degraded, failed.
            3..=5 if self.command.starts_with("evenkeel status") => !self.fails(),
            _ => self.fails(),
        }
    }
}

/// The steps of a page. Blocks may be indented, as those in lists are.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut within, mut indent) = ("", 0);
    for (at, line) in page.lines().enumerate() {
        let bare = line.trim_start();
        let text = if within.is_empty() { bare } else { line.get(indent..).unwrap_or(bare) };
        let step =
            |command: &str| Step { line: at + 1, command: command.to_owned(), printed: Vec::new() };
        match (within, text) {
            ("", SESSION | BEFORE) => (within, indent) = (text, line.len() - bare.len()),
            ("", _) => {}
            (SESSION, "```") | (BEFORE, "-->") => within = "",
            (BEFORE, command) => steps.push(step(command)),
            (_, text) => match text.strip_prefix("$ ") {
                Some(command) => steps.push(step(command)),
                None => {
                    let last = steps.last_mut().expect("a session begins with a command");
                    last.printed.push(text.to_owned());
                }
            },
        }
    }
    assert_eq!(within, "", "a block has no end");
    steps
}

/// Whether lines are as a page says.
fn alike(said: &[String], printed: &[&str]) -> bool {
    match (said, printed) {
        ([], []) => true,
        ([any, rest @ ..], _) if any.trim() == "…" => {
            (0..=printed.len()).any(|from| alike(rest, &printed[from..]))
        }
        ([line, rest @ ..], [other, others @ ..]) => {
            same(&spaced(line), &spaced(other)) && alike(rest, others)
        }
        _ => false,
    }
}

/// With single blanks.
fn spaced(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn same(said: &str, printed: &str) -> bool {
    match said.split_once('…') {
        None => said == printed,
        Some((begin, rest)) => printed.strip_prefix(begin).is_some_and(|left| {
            let mut starts = left.char_indices().map(|(at, _)| at).chain([left.len()]);
            starts.any(|from| same(rest, &left[from..]))
        }),
    }
}

/// A directory with what a page makes. All its arrays are stopped when it is dropped.
struct Place {
    dir: TempDir,
}

impl Place {
    fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    /// Text of a page as it is here.
    fn here(&self, text: &str) -> String {
        let run_dir = self.run_dir();
        text.replace(RUN_DIR, utf8(&run_dir)).replace(DISKS, utf8(self.dir.path()))
    }

    /// What was printed here as a page has it.
    fn there(&self, text: &str) -> String {
        text.replace(utf8(&self.run_dir()), RUN_DIR).replace(utf8(self.dir.path()), DISKS)
    }

    /// What the commands print, each with its exit status; fewer if bash has ended early.
    fn run(&self, steps: &[Step]) -> Vec<(String, i32)> {
        let mut script = String::new();
        for step in steps {
            script += &format!("{}\nprintf '{MARK} %s\\n' $?\n", self.here(&step.command));
        }
        let said = self.dir.path().join("said");
        let output = File::create(&said).expect("a file");
        // Not a pipe: what was started in the background would hold it.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", &HANGS.as_secs().to_string(), "bash", "-c", &script]);
        let programs = Path::new(EVENKEEL).parent().expect("a directory");
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .current_dir(self.dir.path())
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("EVENKEEL_RUN_DIR", self.run_dir())
            .stdin(Stdio::null())
            .stderr(output.try_clone().expect("the same file"))
            .stdout(output);
        command.status().expect("bash is run");
        let text = self.there(&fs::read_to_string(said).expect("text"));
        let mut ended = Vec::new();
        let mut printed = String::new();
        for line in text.lines() {
            match line.strip_prefix(MARK) {
                Some(code) => {
                    let code = code.trim().parse().expect("an exit status");
                    ended.push((std::mem::take(&mut printed), code));
                }
                None => printed += &format!("{line}\n"),
            }
        }
        ended
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let entries = fs::read_dir(self.run_dir()).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            if path.extension().is_some_and(|kind| kind == "sock") {
                let name = path.file_stem().expect("a name");
                // One that is dead does not answer.
                let _ = Command::new(EVENKEEL)
                    .args(["stop", "--force", utf8(Path::new(name))])
                    .env("EVENKEEL_RUN_DIR", self.run_dir())
                    .output();
            }
        }
    }
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("temporary directories have plain names")
}

/// Carries out a page; returns what is not as it says.
fn follow(name: &str, page: &str) -> Vec<String> {
    let blocks = page.lines().map(str::trim_start).filter(|line| line.starts_with("```"));
    assert!(
        blocks.step_by(2).all(|block| block == SESSION),
        "{name} has a block that is not tried"
    );
    let steps = steps(page);
    let place = Place { dir: tempfile::tempdir().expect("a temporary directory") };
    let ended = place.run(&steps);
    let mut wrong = Vec::new();
    for (step, (printed, code)) in steps.iter().zip(&ended) {
        let Step { line, command, printed: said } = step;
        let lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
        let wanted: Vec<String> = said.iter().filter(|line| !line.is_empty()).cloned().collect();
        if !step.ended_well(*code) || !said.is_empty() && !alike(&wanted, &lines) {
            wrong.push(format!(
                "{name}:{line}: `{command}` ended with {code}, and printed:\n{printed}"
            ));
        }
    }
    if ended.len() < steps.len() {
        let step = &steps[ended.len()];
        wrong.push(format!("{name}:{}: `{}` has come to no end", step.line, step.command));
    }
    wrong
}

#[test]
fn what_the_guide_says_is_so() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let pages: Vec<(String, String)> = fs::read_dir(guide)
        .expect("the guide")
        .map(|entry| {
            let path = entry.expect("a page").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(path).expect("text"))
        })
        .collect();
    // One after the other: answers have to come in the time that commands wait for them.
    let followed: Vec<String> = pages.iter().flat_map(|(name, page)| follow(name, page)).collect();
    assert!(followed.is_empty(), "the guide is wrong:\n\n{}", followed.join("\n"));
}

#[test]
fn a_page_is_read() {
    let page = "Text.\n\n```console\n$ one\na …\n…\n$ two\n```\n\n<!-- before\nthree\n-->\n- A list.\n\n  ```console\n  $ five\n   six\n\n  ```\n```text\n$ four\n```\n";
    let read: Vec<_> = steps(page).into_iter().map(|step| (step.command, step.printed)).collect();
    let one = ("one".to_owned(), vec!["a …".to_owned(), "…".to_owned()]);
    let bare = |command: &str| (command.to_owned(), Vec::new());
    let five = ("five".to_owned(), vec![" six".to_owned(), String::new()]);
    assert_eq!(read, [one, bare("two"), bare("three"), five]);
}

#[test]
fn what_was_printed_is_compared() {
    let said = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(alike(&said("a  … c\n…\nd"), &["a b c", "x", "y", "d"]));
    assert!(alike(&said("…"), &[]));
    assert!(!alike(&said("a"), &["a", "b"]));
    assert!(!alike(&said("a … c"), &["a b d"]));
    assert!(!alike(&said("a\n…\nd"), &["a", "b"]));
}
