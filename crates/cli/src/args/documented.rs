//! Commands in the documentation are valid.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::Cli;

/// A command line, and where it is.
type Line = (String, String);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and all of docs/, with their names.
fn documents() -> Vec<Line> {
    let mut paths = vec![root().join("README.md")];
    let mut directories = vec![root().join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a text");
        (text, path.display().to_string())
    };
    paths.into_iter().map(read).collect()
}

/// From `evenkeel` on, if a line is such a command, perhaps after others; without its explanation.
fn command(line: &str) -> Option<&str> {
    let line = line.trim();
    let own = line.rsplit("&& ").next()?.trim();
    let own = own.strip_prefix("sudo ").unwrap_or(own);
    let end = [own.find(" #"), own.find("  ")].into_iter().flatten().min();
    let own = &own[..end.unwrap_or(own.len())];
    (own == "evenkeel" || own.starts_with("evenkeel ")).then_some(own)
}

/// The commands in blocks of code.
fn in_blocks((text, name): &Line) -> Vec<Line> {
    let blocks = text.split("\n```").skip(1).step_by(2);
    let joined = blocks.map(|block| block.replace("\\\n", " "));
    let lines = joined.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>());
    lines.filter_map(|line| Some((command(&line)?.to_owned(), name.clone()))).collect()
}

/// The commands in the text itself. Omitted parts are `…`.
fn in_text((text, name): &Line) -> Vec<Line> {
    let prose: Vec<&str> = text.split("\n```").step_by(2).collect();
    let lines = prose.iter().flat_map(|prose| prose.lines());
    let codes = lines.flat_map(|line| line.split('`').skip(1).step_by(2));
    let commands = codes.filter(|code| code.starts_with("evenkeel "));
    commands.map(|code| (code.to_owned(), name.clone())).collect()
}

/// The examples of a command's help, and of all below it.
fn in_help(command: &clap::Command, found: &mut Vec<Line>) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = help.lines().filter(|line| line.starts_with("  evenkeel "));
    let name = format!("{} --help", command.get_name());
    found.extend(examples.filter_map(|line| Some((self::command(line)?.to_owned(), name.clone()))));
    command.get_subcommands().for_each(|inner| in_help(inner, found));
}

/// The words of a line, split as by a shell. Variables become numbers.
fn words(line: &str) -> Vec<String> {
    let words = shlex::split(line).unwrap_or_else(|| panic!("no words: {line}"));
    let number = |word: String| match word.strip_prefix('$') {
        None => word,
        Some(rest) => format!("3{}", rest.trim_start_matches(|c: char| c != '/')),
    };
    words.into_iter().map(number).collect()
}

#[test]
fn whole_command_lines_can_be_typed() {
    let mut lines: Vec<Line> = documents().iter().flat_map(in_blocks).collect();
    let in_documents = lines.len();
    in_help(&Cli::command(), &mut lines);
    assert!(in_documents > 30 && lines.len() > in_documents + 30, "where are they? {lines:#?}");
    for (line, at) in lines {
        if let Err(error) = Cli::try_parse_from(words(&line)) {
            panic!("{at}: {line}: {error}");
        }
    }
}

#[test]
fn commands_that_are_named_exist() {
    let lines: Vec<Line> = documents().iter().flat_map(in_text).collect();
    assert!(lines.len() > 30, "where are they? {lines:#?}");
    for (line, at) in lines {
        let all = words(&line.replace("\\|", "|"));
        let typed = all.into_iter().filter(|word| word != "…" && word != "COMMAND");
        if let Err(error) = Cli::try_parse_from(typed) {
            let unknown = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];
            assert!(!unknown.contains(&error.kind()), "{at}: {line}: {error}");
        }
    }
}
