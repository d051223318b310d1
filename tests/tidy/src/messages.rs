//! Messages that documents quote.

/// What is left of a message at least, between its omissions, to be told from others.
const TELLING: usize = 12;

/// The messages that `page` quotes, each as a line of its own in bold code, with the numbers of their
/// lines.
pub fn quoted(page: &str) -> Vec<(usize, &str)> {
    let quoted = page
        .lines()
        .enumerate()
        .filter_map(|(at, line)| Some((at + 1, line.strip_prefix("**`")?.strip_suffix("`**")?)));
    quoted.collect()
}

/// Whether a program that has `literals` can print `message`, in which `…` stands for omitted parts.
pub fn is_printed(message: &str, literals: &[String]) -> bool {
    let parts: Vec<&str> = message.split('…').filter(|part| !part.is_empty()).collect();
    let tells = parts.iter().any(|part| part.len() >= TELLING);
    tells && literals.iter().any(|literal| has_in_order(literal, &parts))
}

fn has_in_order(literal: &str, parts: &[&str]) -> bool {
    let mut rest = literal;
    parts.iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found() {
        let page = "# A\n\n**`missing: …`**\n\n**bold** text, **`code` and bold**\n";
        assert_eq!(quoted(page), [(3, "missing: …")]);
    }

    #[test]
    fn a_message_is_one_of_the_program() {
        let literals = ["{label}: it is too small, and has {have} blocks".to_owned()];
        assert!(is_printed("…: it is too small, and has … blocks", &literals));
        assert!(!is_printed("…: it is too large, and has … blocks", &literals));
        assert!(!is_printed("… blocks: it is too small, and has", &literals));
        assert!(!is_printed("…it…", &literals), "that says nothing");
    }
}
