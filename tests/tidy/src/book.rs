//! The table of contents of the book that docs/ is.

use std::collections::BTreeMap;

use crate::links::{links, relative};

/// What is wrong with `summary` (its path from the root, and its content) as the table of contents of
/// these pages: pages that it lacks, has twice, or has though they are none.
pub fn wrong(summary: (&str, &str), pages: &[String]) -> Vec<String> {
    let (path, content) = summary;
    let mut wrong = Vec::new();
    let mut left: BTreeMap<&str, usize> = pages.iter().map(|page| (&**page, 0)).collect();
    for (line, target) in links(content) {
        let page = relative(path, &target).unwrap_or_default();
        match left.get_mut(&*page) {
            None => wrong.push(format!("{path}:{line}: {target} is no page of the book")),
            Some(times) => *times += 1,
        }
    }
    for (page, times) in left.into_iter().filter(|&(_, times)| times != 1) {
        wrong.push(format!("{path} has {page} {times} times: each page has one place in the book"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_in(summary: &str) -> Vec<String> {
        wrong(("docs/SUMMARY.md", summary), &["docs/a.md", "docs/b/c.md"].map(str::to_owned))
    }

    #[test]
    fn a_table_of_contents_has_each_page_once() {
        assert_eq!(wrong_in("# Contents\n\n- [A](a.md)\n- [C](b/c.md)\n"), [""; 0]);
        let lacks = "docs/SUMMARY.md has docs/b/c.md 0 times: each page has one place in the book";
        assert_eq!(wrong_in("- [A](a.md)\n"), [lacks]);
        assert_eq!(wrong_in("- [A](a.md)\n- [A](a.md)\n- [C](b/c.md)\n").len(), 1);
        let none = "docs/SUMMARY.md:3: d.md is no page of the book";
        assert_eq!(wrong_in("- [A](a.md)\n- [C](b/c.md)\n- [D](d.md)\n"), [none]);
    }
}
