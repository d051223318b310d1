//! How long files and functions are.

use std::collections::BTreeMap;

use crate::code::{code_only, is_word, item_end};

/// How many lines a file may have.
pub const FILE: usize = 500;

/// How many lines a function may have, from `fn` to the closing brace.
pub const FUNCTION: usize = 80;

/// The functions of `source` and their lines; of several with one name the longest.
pub fn functions(source: &str) -> BTreeMap<String, usize> {
    let code = code_only(source);
    let mut functions = BTreeMap::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].ends_with(is_word) {
            continue;
        }
        let name: String = code[at + 3..].chars().take_while(|&c| is_word(c)).collect();
        let body = &code[at..][..item_end(&code[at..])];
        if !name.is_empty() && body.ends_with('}') {
            let lines = functions.entry(name).or_default();
            *lines = body.lines().count().max(*lines);
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured() {
        let source = "trait T {\n    fn none(&self);\n}\npub fn one() {}\n\
            fn three(f: fn (u8)) -> [u8; 2] {\n    \"}\"\n}\n\
            mod m {\n    fn one() {\n        {}\n        {}\n    }\n}\n";
        let expected = [("one".to_owned(), 4), ("three".to_owned(), 3)];
        assert_eq!(functions(source), BTreeMap::from(expected));
    }
}
