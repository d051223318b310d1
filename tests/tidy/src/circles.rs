//! Circles among the modules of a crate.
//!
//! A module uses another if a path in it that starts with `crate`, `super` or `self` leads there. A
//! module and the modules inside of it may use each other. A name that a parent re-exports counts
//! as the parent's.

use std::collections::{BTreeMap, BTreeSet};

use crate::code::{code_only, is_word, without_tests};

/// The modules of a crate by their paths (`meta::codec`; the crate's root is empty), with the
/// modules that each uses, except those around it or inside of it.
pub type Uses = BTreeMap<String, BTreeSet<String>>;

/// Which modules the modules of a crate use, from its files: paths below `src`, and contents.
///
/// Test modules are left out: those behind `#[cfg(test)]`, and all that are called `tests`.
pub fn uses(files: &[(String, String)]) -> Uses {
    let mut sources = BTreeMap::new();
    let mut tests = BTreeSet::new();
    for (path, content) in files {
        let name = module(path);
        let (code, behind_gate) = without_tests(&code_only(content));
        tests.extend(behind_gate.iter().map(|test| join(&name, test)));
        sources.insert(name, code);
    }
    sources.retain(|name, _| {
        !name.split("::").any(|part| part == "tests") && !tests.iter().any(|t| around(t, name))
    });
    let names: BTreeSet<String> = sources.keys().cloned().collect();
    let used = |name: &String, code: &String| {
        let targets = paths(code).into_iter().filter_map(|path| resolve(&names, name, &path));
        targets.filter(|to| !around(to, name) && !around(name, to)).collect()
    };
    sources.iter().map(|(name, code)| (name.clone(), used(name, code))).collect()
}

/// The circles: sets of modules in which each one leads to each other one.
pub fn circles(uses: &Uses) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|from| (from, reachable(uses, from))).collect();
    let mut circles = BTreeSet::new();
    for (from, to) in reached.iter().filter(|(from, to)| to.contains(*from)) {
        let circle = to.iter().filter(|other| reached[*other].contains(from));
        circles.insert(circle.map(|name| (*name).clone()).collect());
    }
    circles.into_iter().collect()
}

/// The uses between the modules of `circle`, as text.
pub fn explain(uses: &Uses, circle: &[String]) -> String {
    let mut lines = String::new();
    for from in circle {
        let to: Vec<&str> =
            uses[from].iter().filter(|to| circle.contains(to)).map(String::as_str).collect();
        lines += &format!("    {from} uses {}\n", to.join(", "));
    }
    lines
}

fn reachable<'a>(uses: &'a Uses, from: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = uses[from].iter().collect();
    while let Some(name) = next.pop() {
        if reached.insert(name) {
            next.extend(&uses[name]);
        }
    }
    reached
}

/// The module that the file at `path` below `src` is.
fn module(path: &str) -> String {
    let mut parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    if matches!(parts.last(), Some(&("mod" | "lib" | "main"))) {
        parts.pop();
    }
    parts.join("::")
}

fn join(parent: &str, child: &str) -> String {
    if parent.is_empty() { child.to_owned() } else { format!("{parent}::{child}") }
}

/// Whether `outer` is `inner` or around it.
fn around(outer: &str, inner: &str) -> bool {
    let Some(rest) = inner.strip_prefix(outer) else { return false };
    outer.is_empty() || rest.is_empty() || rest.starts_with("::")
}

/// The module among `names` that `path` in the module `here` leads to.
fn resolve(names: &BTreeSet<String>, here: &str, path: &[String]) -> Option<String> {
    let mut full: Vec<&str> = here.split("::").filter(|part| !part.is_empty()).collect();
    for part in path {
        match part.as_str() {
            "crate" => full.clear(),
            "super" => drop(full.pop()),
            "self" => {}
            part => full.push(part),
        }
    }
    (0..=full.len()).rev().map(|parts| full[..parts].join("::")).find(|name| names.contains(name))
}

/// The paths in `code` that start with `crate`, `super` or `self`; a list in braces gives several.
fn paths(code: &str) -> Vec<Vec<String>> {
    let tokens = tokens(code);
    let mut paths = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let starts = matches!(token.as_str(), "crate" | "super" | "self");
        let inside = at > 0 && tokens[at - 1] == "::";
        if starts && !inside && tokens.get(at + 1).is_some_and(|next| next == "::") {
            branch(&tokens, at, &[], &mut paths);
        }
    }
    paths
}

/// Records the path at `at`, which starts with `stem`; returns where it ends.
fn branch(
    tokens: &[String],
    mut at: usize,
    stem: &[String],
    paths: &mut Vec<Vec<String>>,
) -> usize {
    let mut path = stem.to_vec();
    while let Some(token) = tokens.get(at) {
        if token == "{" {
            return list(tokens, at + 1, &path, paths);
        }
        if !token.starts_with(is_word) {
            break;
        }
        path.push(token.clone());
        at += 1;
        if tokens.get(at).is_none_or(|token| token != "::") {
            break;
        }
        at += 1;
    }
    paths.push(path);
    at
}

/// Records the paths of the list whose brace is before `at`; returns where it ends.
fn list(tokens: &[String], mut at: usize, stem: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "}" => return at + 1,
            // The new name of a renamed item, and punctuation.
            "as" => at += 2,
            token if !token.starts_with(is_word) => at += 1,
            _ => at = branch(tokens, at, stem, paths),
        }
    }
    at
}

/// Words, `::`, and all other characters one by one.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Uses {
        let own = |(path, content): &(&str, &str)| ((*path).to_owned(), (*content).to_owned());
        uses(&files.iter().map(own).collect::<Vec<_>>())
    }

    #[test]
    fn a_circle_is_found() {
        let uses = of(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B;"),
            ("b/mod.rs", "fn f() { super::c::g() }"),
            ("c.rs", "use crate::{d::D, a::{self, A as Other}};"),
            ("d.rs", ""),
        ]);
        assert_eq!(circles(&uses), [["a", "b", "c"]]);
        assert!(explain(&uses, &circles(&uses)[0]).contains("    b uses c\n"));
    }

    #[test]
    fn two_circles_are_two() {
        let uses = of(&[
            ("lib.rs", ""),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::{a::A, c::C};"),
            ("c.rs", "use crate::d::D;"),
            ("d.rs", "use crate::c::C;"),
        ]);
        assert_eq!(circles(&uses), [["a", "b"], ["c", "d"]]);
    }

    #[test]
    fn parents_and_children_are_one_room() {
        let uses = of(&[
            ("lib.rs", "use crate::a::b::B;"),
            ("a/mod.rs", "use self::b::B;"),
            ("a/b.rs", "use super::A; use crate::Root;"),
        ]);
        assert_eq!(circles(&uses), Vec::<Vec<String>>::new());
    }

    #[test]
    fn tests_comments_and_strings_use_nothing() {
        let uses = of(&[
            ("lib.rs", ""),
            ("a.rs", "use crate::b::B;"),
            (
                "b.rs",
                "// crate::a\n#[cfg(test)]\nmod check;\n#[cfg(test)]\nmod tests { use crate::a::A; }",
            ),
            ("b/check.rs", "use crate::a::A;"),
            ("b/tests.rs", "const A: &str = \"crate::a\"; use crate::a::A;"),
        ]);
        assert_eq!(circles(&uses), Vec::<Vec<String>>::new());
        assert_eq!(uses.len(), 3);
    }
}
