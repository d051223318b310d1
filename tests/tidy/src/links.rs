//! Links in Markdown documents.

use std::collections::{BTreeMap, BTreeSet};

/// The dead links of `documents` (paths from the repository's root, and contents): the document and
/// line, and the reason. `exists` says whether a path from the root leads to a file or directory.
pub fn dead(documents: &BTreeMap<String, String>, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut dead = Vec::new();
    for (path, content) in documents {
        for (line, target) in links(content) {
            if let Err(problem) = follow(documents, &exists, path, &target) {
                dead.push(format!("{path}:{line}: the link to {target} is dead: {problem}"));
            }
        }
    }
    dead
}

fn follow(
    documents: &BTreeMap<String, String>,
    exists: impl Fn(&str) -> bool,
    from: &str,
    target: &str,
) -> Result<(), String> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let to = if file.is_empty() { Some(from.to_owned()) } else { relative(from, file) };
    let to = to.ok_or("it leads out of the repository")?;
    if !exists(&to) {
        return Err(format!("there is no {to}"));
    }
    match documents.get(&to) {
        Some(content) if !anchor.is_empty() && !anchors(content).contains(anchor) => {
            Err(format!("{to} has no heading with the anchor #{anchor}"))
        }
        _ => Ok(()),
    }
}

/// The path from the root of `file`, as a link in the document `from` names it.
pub(crate) fn relative(from: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The targets of the links within the repository, with the numbers of their lines.
pub(crate) fn links(document: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(document) {
        let line = without_code_spans(line);
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let defined = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        for target in inline.chain(defined.map(|(_, target)| target.trim())) {
            if !target.contains("://") && !target.starts_with("mailto:") {
                links.push((number, target.to_owned()));
            }
        }
    }
    links
}

/// The anchors of the headings, by GitHub's rule.
fn anchors(document: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (_, line) in prose(document) {
        let text = line.trim_start_matches('#');
        if text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let slug = slug(text.trim());
        let count = seen.entry(slug.clone()).or_default();
        anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    anchors
}

/// GitHub's rule: lower case, only letters, digits, hyphens and underscores stay, a space becomes a
/// hyphen.
fn slug(heading: &str) -> String {
    let kept = without_targets(heading).to_lowercase();
    let kept = kept.chars().filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// `text` with links as their texts alone.
fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once(')').map_or(part, |(_, rest)| rest))
}

/// The lines outside of fenced code, with their numbers from 1.
fn prose(document: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    document.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fence && !fenced).then_some((at + 1, line))
    })
}

/// `line` without what stands between backticks; a link's text may be code.
fn without_code_spans(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead_in(content: &str) -> Vec<String> {
        let other = "# One\n## A `thing`, and [more](a.md): so\n```\n# no\n```\n## One\n";
        let documents = [("docs/a.md", content), ("docs/b.md", other), ("README.md", "# Top")];
        let documents = documents.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let files = ["docs/a.md", "docs/b.md", "README.md", "scripts/test"];
        dead(&documents.into(), |path| files.contains(&path))
    }

    #[test]
    fn live_links_are_fine() {
        let links = "# Here\n[a](b.md) [`b`](../README.md#top) [c](#here) [d](../scripts/test)\n\
            [e](b.md#a-thing-and-more-so) [f](b.md#one-1) [g](https://example.org/x)\n\
            [h]: b.md#one\n`[i](code.md)`\n```\n[j](code.md)\n```\n";
        assert_eq!(dead_in(links), Vec::<String>::new());
    }

    #[test]
    fn a_dead_link_is_found() {
        let wrong = "docs/a.md:2: the link to c.md is dead: there is no docs/c.md";
        assert_eq!(dead_in("\nsee [c](c.md)"), [wrong]);
        assert_eq!(dead_in("[c]: ../../c.md").len(), 1);
    }

    #[test]
    fn a_dead_anchor_is_found() {
        let wrong = "docs/a.md:1: the link to b.md#no is dead: \
            docs/b.md has no heading with the anchor #no";
        assert_eq!(dead_in("[b](b.md#no)"), [wrong]);
        assert_eq!(dead_in("# Here\n[b](#there)").len(), 1);
    }
}
