//! The repository keeps its rules.

use std::collections::{BTreeMap, BTreeSet};

use tidy::{book, circles, code, files, known, links, messages, ratchet, sizes, words};

fn fail_if_any(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} offences:\n\n{}\n", wrong.len(), wrong.join("\n"));
}

fn rust_files() -> Vec<(String, String)> {
    ["crates", "tests", "examples"].iter().flat_map(|dir| files::below(dir, &[".rs"])).collect()
}

#[test]
fn modules_form_no_circles() {
    let mut expected: BTreeSet<(&str, Vec<String>)> = known::CIRCLES
        .iter()
        .map(|(name, circle)| (*name, circle.iter().map(|&module| module.to_owned()).collect()))
        .collect();
    let mut wrong = Vec::new();
    let crates = files::crates();
    for name in &crates {
        let src = format!("crates/{name}/src/");
        let of_src = files::below(src.trim_end_matches('/'), &[".rs"]);
        let uses = circles::uses(
            &of_src
                .into_iter()
                .map(|(path, text)| (path[src.len()..].to_owned(), text))
                .collect::<Vec<_>>(),
        );
        for circle in circles::circles(&uses) {
            let edges = circles::explain(&uses, &circle);
            if !expected.remove(&(name.as_str(), circle)) {
                wrong.push(format!(
                    "{name} has modules that use each other in a circle. Move what both sides need \
                     into a module that uses neither:\n{edges}"
                ));
            }
        }
    }
    for (name, circle) in expected {
        wrong.push(format!("{name} has no circle of {circle:?} now: remove it from known.rs"));
    }
    fail_if_any(&wrong);
}

#[test]
fn files_are_short() {
    let lines = rust_files().into_iter().map(|(path, text)| (path, text.lines().count())).collect();
    let advice = "split it by what it does";
    fail_if_any(&ratchet::sizes(&lines, sizes::FILE, known::FILES, advice));
}

#[test]
fn functions_are_short() {
    let mut lines = BTreeMap::new();
    for (path, text) in rust_files() {
        let of = sizes::functions(&text).into_iter();
        lines.extend(of.map(|(name, lines)| (format!("{path} {name}"), lines)));
    }
    let advice = "move steps of it into functions";
    fail_if_any(&ratchet::sizes(&lines, sizes::FUNCTION, known::FUNCTIONS, advice));
}

#[test]
fn no_banned_words() {
    let mut wrong = Vec::new();
    for (path, text) in files::below("", &[".rs", ".toml", ".md", ".sh", "/test", "/run", "/fuzz"])
    {
        for (line, word) in words::banned(&text) {
            wrong.push(format!("{path}:{line}: {word}: finish it, or say it without the word"));
        }
    }
    fail_if_any(&wrong);
}

#[test]
fn comments_speak_of_things() {
    let mut wrong = Vec::new();
    for (path, text) in rust_files() {
        for (line, word) in words::people(&text) {
            wrong.push(format!("{path}:{line}: {word}: members, jobs and devices are \"it\""));
        }
    }
    fail_if_any(&wrong);
}

#[test]
fn links_are_alive() {
    let documents = files::below("", &[".md"]).into_iter().collect();
    fail_if_any(&links::dead(&documents, |path| files::root().join(path).exists()));
}

#[test]
fn the_book_has_every_page() {
    const SUMMARY: &str = "docs/SUMMARY.md";
    let (summary, pages): (Vec<_>, Vec<_>) =
        files::below("docs", &[".md"]).into_iter().partition(|(path, _)| path == SUMMARY);
    let first = "README.md".to_owned();
    let pages: Vec<String> = pages.into_iter().map(|(path, _)| path).chain([first]).collect();
    fail_if_any(&book::wrong((SUMMARY, &summary[0].1), &pages));
}

#[test]
fn quoted_messages_are_printed_by_the_program() {
    const PAGE: &str = "docs/guide/messages.md";
    let sources = files::below("crates", &[".rs"]);
    let of_program = sources.iter().filter(|(path, _)| path.contains("/src/"));
    let literals: Vec<String> = of_program.flat_map(|(_, text)| code::literals(text)).collect();
    let page = std::fs::read_to_string(files::root().join(PAGE)).expect("the page");
    let quoted = messages::quoted(&page);
    assert!(quoted.len() > 20, "where are they? {quoted:?}");
    let unknown =
        quoted.into_iter().filter(|(_, message)| !messages::is_printed(message, &literals));
    let wrong = unknown.map(|(line, message)| format!("{PAGE}:{line}: no source has `{message}`"));
    fail_if_any(&wrong.collect::<Vec<_>>());
}
