//! Words that mark what is unfinished, lead to a single machine, or speak of things as people.

/// Split, so that this file has none of them.
const BANNED: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("db", "g!"),
    concat!("/wo", "rk/"),
    concat!("/tmp", "/ci"),
];

/// Words for people. Comments are about members, jobs and devices.
const PEOPLE: [&str; 4] = ["nobody", "somebody", "someone", "whom"];

/// The lines of `text` that have a banned word: their numbers from 1, and the words.
pub fn banned(text: &str) -> Vec<(usize, &'static str)> {
    let on =
        |(at, line)| BANNED.into_iter().filter(move |w| has(line, w)).map(move |w| (at + 1, w));
    text.lines().enumerate().flat_map(on).collect()
}

/// The lines of `source` that are comments and have a word for people: their numbers from 1, and
/// the words. "Who" is not among these: a comment may be about users.
pub fn people(source: &str) -> Vec<(usize, &'static str)> {
    let comments =
        source.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"));
    let on = |(at, line): (usize, &str)| {
        let line = line.to_ascii_lowercase();
        PEOPLE.into_iter().filter(move |word| has(&line, word)).map(move |word| (at + 1, word))
    };
    comments.flat_map(on).collect()
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
    fn words_for_people_are_found_in_comments() {
        let source = "/// Nobody waits.\nlet nobody = 1;\n    // A page whom";
        assert_eq!(people(source), [(1, "nobody"), (3, "whom")]);
    }

    #[test]
    fn parts_of_longer_words_are_not() {
        assert_eq!(banned(&format!("evenkeel-{}X MAS{}", BANNED[2], BANNED[0])), []);
    }
}
