//! Words that mark what is unfinished, or lead to a single machine.

/// Split, so that this file has none of them.
const BANNED: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("db", "g!"),
    concat!("/wo", "rk/"),
    concat!("/tmp", "/ci"),
];

/// The lines of `text` that have a banned word: their numbers from 1, and the words.
pub fn banned(text: &str) -> Vec<(usize, &'static str)> {
    let on =
        |(at, line)| BANNED.into_iter().filter(move |w| has(line, w)).map(move |w| (at + 1, w));
    text.lines().enumerate().flat_map(on).collect()
}

/// Whether `line` has `word`, and not as a part of a longer one.
fn has(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let letter = |c: char| c.is_ascii_alphanumeric();
        let starts = !word.starts_with(letter) || !line[..at].ends_with(letter);
        starts && (!word.ends_with(letter) || !line[at + word.len()..].starts_with(letter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_are_found() {
        let text =
            format!("fine\n// {}: later\n    {}(x)\n\"{}main\"", BANNED[0], BANNED[3], BANNED[4]);
        assert_eq!(banned(&text), [(2, BANNED[0]), (3, BANNED[3]), (4, BANNED[4])]);
    }

    #[test]
    fn parts_of_longer_words_are_not() {
        assert_eq!(banned(&format!("evenkeel-{}X MAS{}", BANNED[2], BANNED[0])), []);
    }
}
