//! What packages install for people: manual pages, and completions for shells.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::programs::listed;
use crate::world::World;

/// The words of every command that the help lists, those of groups of commands, too.
fn commands(world: &World) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    listed(world, "", &mut found);
    let groups: Vec<String> = found
        .iter()
        .flat_map(|words| words.match_indices(' ').map(|(at, _)| words[..at].to_owned()))
        .collect();
    found.extend(groups);
    found
}

/// Whether a shell is there, which reads this without an error.
fn reads(shell: &str, script: &Path) -> bool {
    match Command::new(shell).arg("-n").arg(script).output() {
        Ok(ended) => {
            assert!(ended.status.success() && ended.stderr.is_empty(), "{shell}: {ended:?}");
            true
        }
        Err(_) => false,
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let world = World::new();
    world.run("generate made").done();
    let page = |name: &str| {
        let path = world.path("made/man").join(format!("{name}.1"));
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let commands = commands(&world);
    assert!(commands.len() > 30, "where are they? {commands:?}");
    for words in &commands {
        let name = format!("evenkeel-{}", words.replace(' ', "-"));
        let first = format!(".TH {name} 1");
        assert!(page(&name).contains(&first), "{words}: {first}");
        // The page above refers to it.
        let above = name.rsplit_once('-').expect("a hyphen").0;
        assert!(page(above).contains(&name.replace('-', "\\-")), "{words}: {above}");
    }
    let pages = fs::read_dir(world.path("made/man")).expect("the pages").count();
    assert_eq!(pages, commands.len() + 1, "pages of commands that the help does not list");
}

#[test]
fn every_command_is_completed() {
    let world = World::new();
    world.run("generate made").done();
    let scripts = world.path("made/completions");
    let bash = scripts.join("evenkeel.bash");
    let others = [("zsh", "_evenkeel"), ("fish", "evenkeel.fish")];
    for (shell, name) in others {
        let text = fs::read_to_string(scripts.join(name)).expect("a script");
        for words in commands(&world) {
            let last = words.rsplit(' ').next().expect("a word");
            assert!(text.contains(last), "{shell}: {words}");
        }
        reads(shell, &scripts.join(name));
    }
    if !reads("bash", &bash) {
        return;
    }
    // What bash offers after the words before it.
    let offer = "source \"$1\"; shift; COMP_WORDS=(evenkeel \"$@\" ''); COMP_CWORD=$(($# + 1)); \
                 _evenkeel evenkeel '' \"${COMP_WORDS[COMP_CWORD - 1]}\"; echo \"${COMPREPLY[@]}\"";
    for words in commands(&world) {
        let (before, last) = words.rsplit_once(' ').unwrap_or(("", &words));
        let mut shell = Command::new("bash");
        shell.args(["--norc", "-c", offer, "bash"]).arg(&bash).args(before.split_whitespace());
        let offered = World::ended(&mut shell).done();
        assert!(offered.split_whitespace().any(|word| word == last), "{words}: {offered}");
    }
}
