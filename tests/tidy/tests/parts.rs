//! The engine's parts own their state: what concerns several of them is its wiring.

use std::collections::BTreeSet;

use tidy::code::{code_only, is_word, without_tests};
use tidy::{circles, files};

const CORE: &str = "crates/raidcore/src/";

/// Which part calls which, as drawn in ARCHITECTURE.md.
const CALLS: &[(&str, &str)] = &[
    ("engine::hedge", "engine::jobs"),
    ("engine::maps", "engine::flight"),
    ("engine::maps", "engine::jobs"),
    ("engine::maps", "engine::membership"),
    ("engine::membership", "engine::flight"),
    ("engine::missed", "engine::maps"),
];

fn core() -> Vec<(String, String)> {
    let files = files::below(CORE.trim_end_matches('/'), &[".rs"]);
    files.into_iter().map(|(path, text)| (path[CORE.len()..].to_owned(), text)).collect()
}

#[test]
fn a_part_does_not_know_the_engine() {
    let parts = core().into_iter().filter(|(path, _)| {
        path.starts_with("engine/") && path != "engine/mod.rs" && !path.starts_with("engine/flow/")
    });
    let knows = |text: &str| {
        let (code, _) = without_tests(&code_only(text));
        code.split(|c| !is_word(c)).any(|word| word == "Engine")
    };
    let wrong: Vec<String> = parts.filter(|(_, text)| knows(text)).map(|(path, _)| path).collect();
    assert!(wrong.is_empty(), "what uses `Engine` belongs into `engine/flow`: {wrong:?}");
}

#[test]
fn parts_call_each_other_as_drawn() {
    let uses = circles::uses(&core());
    let values = ["engine::api", "engine::config", "engine::counters"];
    let parts: BTreeSet<&str> = ["engine::array", "engine::range"]
        .iter()
        .flat_map(|owner| &uses[*owner])
        .map(String::as_str)
        .filter(|module| module.starts_with("engine::") && !values.contains(module))
        .collect();
    assert!(parts.len() > 10, "the parts of the engine: {parts:?}");
    let inside = |module: &str, part: &str| {
        module == part || module.strip_prefix(part).is_some_and(|rest| rest.starts_with("::"))
    };
    let part_of = |module: &str| parts.iter().copied().find(|part| inside(module, part));
    let calls: BTreeSet<(&str, &str)> = uses
        .iter()
        .filter_map(|(module, used)| Some((part_of(module)?, used)))
        .flat_map(|(part, used)| used.iter().filter_map(move |to| Some((part, part_of(to)?))))
        .filter(|(part, to)| part != to)
        .collect();
    assert_eq!(calls, CALLS.iter().copied().collect(), "calls among parts that are not drawn");
}

/// A stripe's chunks are found by the layout, which alone knows whether all stripes lie in the same way.
#[test]
fn places_are_asked_of_the_layout() {
    let asks = |(path, text): &(String, String)| {
        let (code, _) = without_tests(&code_only(text));
        let code: String = code.split_whitespace().collect();
        let places = ["member", "role", "place", "blocks_before"];
        let asked = |of: &str| places.iter().any(|what| code.contains(&format!("{of}.{what}(")));
        !path.starts_with("geometry/") && (asked("geometry") || asked("geometry()"))
    };
    let wrong: Vec<String> = core().into_iter().filter(asks).map(|(path, _)| path).collect();
    assert!(wrong.is_empty(), "these compute from one geometry where chunks lie: {wrong:?}");
}
