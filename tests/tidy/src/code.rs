//! Rust source without comments, literals and tests.

/// `source` with comments and the contents of string and character literals as spaces.
///
/// Lines keep their numbers, but not their lengths in bytes.
pub fn code_only(source: &str) -> String {
    let text: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < text.len() {
        let end = opaque_end(&text, at);
        if end == at {
            code.push(text[at]);
            at += 1;
        } else {
            code.extend(text[at..end].iter().map(|&c| if c == '\n' { c } else { ' ' }));
            at = end;
        }
    }
    code
}

/// The contents of the string literals of `source`, without raw ones: escapes are resolved as far as
/// messages have them.
pub fn literals(source: &str) -> Vec<String> {
    let text: Vec<char> = source.chars().collect();
    let (mut literals, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let end = opaque_end(&text, at).max(at + 1);
        if text[at] == '"' {
            let inner: String = text[at + 1..end - 1].iter().collect();
            literals.push(unescaped(&inner));
        }
        at = end;
    }
    literals
}

fn unescaped(literal: &str) -> String {
    let lines = literal.split("\\\n").enumerate();
    let joined: String =
        lines.map(|(at, line)| if at == 0 { line } else { line.trim_start() }).collect();
    joined.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// Where the comment or literal that starts at `at` ends; `at` if none starts there.
fn opaque_end(text: &[char], at: usize) -> usize {
    let next = text.get(at + 1).copied();
    match text[at] {
        '/' if next == Some('/') => find(text, at, &['\n']).unwrap_or(text.len()),
        '/' if next == Some('*') => block_comment_end(text, at),
        '"' => quoted_end(text, at + 1, '"'),
        'r' if at == 0 || !is_word(text[at - 1]) || text[at - 1] == 'b' => raw_end(text, at),
        '\'' if next == Some('\\') => quoted_end(text, at + 1, '\''),
        // Neither a lifetime nor a label.
        '\'' if text.get(at + 2) == Some(&'\'') => at + 3,
        _ => at,
    }
}

fn block_comment_end(text: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut here = at;
    while here < text.len() {
        if text[here..].starts_with(&['/', '*']) {
            depth += 1;
            here += 2;
        } else if text[here..].starts_with(&['*', '/']) {
            depth -= 1;
            here += 2;
            if depth == 0 {
                return here;
            }
        } else {
            here += 1;
        }
    }
    text.len()
}

fn quoted_end(text: &[char], mut at: usize, quote: char) -> usize {
    while at < text.len() && text[at] != quote {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// The end of the raw string that starts with the `r` at `at`; `at` if it is another `r`.
fn raw_end(text: &[char], at: usize) -> usize {
    let hashes = text[at + 1..].iter().take_while(|&&c| c == '#').count();
    let open = at + 1 + hashes;
    if text.get(open) != Some(&'"') {
        return at;
    }
    let mut close = vec!['"'];
    close.resize(1 + hashes, '#');
    find(text, open + 1, &close).map_or(text.len(), |end| end + close.len())
}

fn find(text: &[char], from: usize, what: &[char]) -> Option<usize> {
    text[from..].windows(what.len()).position(|window| window == what).map(|found| from + found)
}

/// Whether `c` may be part of an identifier.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `code` (see [`code_only`]) without the items behind `#[cfg(test)]`, and the names of the modules
/// among them that have files of their own.
pub fn without_tests(code: &str) -> (String, Vec<String>) {
    const GATE: &str = "#[cfg(test)]";
    let (mut kept, mut modules) = (String::new(), Vec::new());
    let mut rest = code;
    while let Some(at) = rest.find(GATE) {
        kept.push_str(&rest[..at]);
        let item = &rest[at + GATE.len()..];
        let end = item_end(item);
        if let Some(name) = item[..end].strip_suffix(';').and_then(|i| i.split_once("mod ")) {
            modules.push(name.1.trim().to_owned());
        }
        rest = &item[end..];
    }
    kept.push_str(rest);
    (kept, modules)
}

/// Where the item at the start of `code` ends: behind its braces, or its semicolon if it has none.
pub fn item_end(code: &str) -> usize {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => others += 1,
            ')' | ']' => others = others.saturating_sub(1),
            '{' => braces += 1,
            '}' => {
                braces = braces.saturating_sub(1);
                // The braces of a pattern among a function's arguments don't count.
                if braces == 0 && others == 0 {
                    return at + 1;
                }
            }
            ';' if braces == 0 && others == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_read_as_they_are_printed() {
        let source = "a(\"one \\\n      two\", '\"', \"say \\\"x\\\"\"); // \"no\"\nb(r\"raw\")";
        assert_eq!(literals(source), ["one two", "say \"x\""]);
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        let code =
            code_only("a // b\nc /* d /* e */ f */ g \"h\\\"i\" j r#\"k\"l\"# m '{' n '\\'' o");
        assert_eq!(code.split_whitespace().collect::<String>(), "acgjmno");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        let source = "fn f<'a>(r#type: &'a str) -> &'a str { for r in x {} }";
        assert_eq!(code_only(source), source);
    }

    #[test]
    fn items_for_tests_are_left_out() {
        let source = "a; #[cfg(test)]\nmod own;\nb; #[cfg(test)] mod tests { fn f() { c } } d;";
        let (code, modules) = without_tests(source);
        assert_eq!(code.split_whitespace().collect::<String>(), "a;b;d;");
        assert_eq!(modules, ["own"]);
    }

    #[test]
    fn an_item_ends_with_its_braces_or_its_semicolon() {
        for item in ["fn f(A { a }: A) -> [u8; 4] { { a; } }", "fn f(a: [u8; 4]);"] {
            assert_eq!(item_end(&format!("{item} b; {{}}")), item.len());
        }
    }
}
