//! Lists of known offences that can only get shorter.

use std::collections::BTreeMap;

/// Compares sizes with their limits: `limit`, or a greater one in the list `known`. Returns the
/// offences.
///
/// `found` has all sizes, `known` those that were too large when the rule was introduced.
pub fn sizes(
    found: &BTreeMap<String, usize>,
    limit: usize,
    known: &[(&str, usize)],
    advice: &str,
) -> Vec<String> {
    let known: BTreeMap<&str, usize> = known.iter().copied().collect();
    let mut wrong = Vec::new();
    for (name, &lines) in found {
        let allowed = known.get(name.as_str()).copied().unwrap_or(limit);
        if lines > allowed {
            wrong.push(format!("{name} has {lines} lines, {allowed} are allowed: {advice}"));
        }
    }
    for name in known.keys() {
        if found.get(*name).is_none_or(|&lines| lines <= limit) {
            wrong.push(format!("{name} is within {limit} lines now: remove it from known.rs"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: usize, known: &[(&str, usize)]) -> Vec<String> {
        sizes(&BTreeMap::from([("a".to_owned(), lines)]), 10, known, "split it")
    }

    #[test]
    fn the_limit_holds_for_what_is_not_known() {
        assert_eq!(check(10, &[]), Vec::<String>::new());
        assert_eq!(check(11, &[]), ["a has 11 lines, 10 are allowed: split it"]);
    }

    #[test]
    fn what_is_known_may_not_grow() {
        assert_eq!(check(12, &[("a", 12)]), Vec::<String>::new());
        assert_eq!(check(13, &[("a", 12)]), ["a has 13 lines, 12 are allowed: split it"]);
    }

    #[test]
    fn the_list_has_nothing_that_is_mended_or_gone() {
        let message = |name| format!("{name} is within 10 lines now: remove it from known.rs");
        assert_eq!(check(10, &[("a", 12)]), [message("a")]);
        assert_eq!(check(10, &[("b", 12)]), [message("b")]);
    }
}
