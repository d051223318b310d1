//! Every target over its committed corpus, over mutations of each entry, and over noise. The inputs
//! are always the same.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use det::Prng;
use hostile::{TARGETS, Target};

/// Mutations of each entry of a corpus.
const MUTATIONS: u64 = 4;

/// Inputs of noise alone.
const NOISES: u64 = 64;

/// The longest input of noise alone, in bytes.
const NOISE_BYTES_MAX: u64 = 400;

/// Changes that make a mutation, at most.
const CHANGES_MAX: u64 = 4;

/// Panics of any thread; those of a server end only a connection.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// One after the other, since targets measure how much memory is used.
#[test]
fn every_target_bears_its_corpus() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        print(info);
    }));
    for (name, target) in TARGETS {
        let corpus = corpus(name);
        assert!(!corpus.is_empty(), "{name} has no corpus");
        let inputs: Vec<&[u8]> = corpus.iter().map(|(_, bytes)| &bytes[..]).collect();
        for (seed, (entry, bytes)) in (0..).zip(&corpus) {
            run(target, bytes, &format!("{name}: {}", entry.display()));
            let mut prng = Prng::new(seed);
            for mutation in 0..MUTATIONS {
                let mutated = mutated(bytes, &inputs, &mut prng);
                run(target, &mutated, &format!("{name}: {}, mutation {mutation}", entry.display()));
            }
        }
        for seed in 0..NOISES {
            let mut prng = Prng::new(seed);
            let mut bytes = vec![0; prng.below(NOISE_BYTES_MAX) as usize];
            prng.fill(&mut bytes);
            run(target, &bytes, &format!("{name}: noise {seed}"));
        }
    }
}

/// The files of a target's corpus by name, and what is in them.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut files: Vec<PathBuf> =
        files.map(|entry| entry.expect("a directory's entry").path()).collect();
    files.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, bytes)
    };
    files.into_iter().map(read).collect()
}

/// Runs a target; if that fails, the input is kept for the fuzzer.
fn run(target: Target, bytes: &[u8], what: &str) {
    let before = PANICS.load(Ordering::SeqCst);
    let result = panic::catch_unwind(AssertUnwindSafe(|| target(bytes)));
    if result.is_err() || PANICS.load(Ordering::SeqCst) != before {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed");
        fs::write(&kept, bytes).expect("the input can be kept");
        panic!("{what}; the input is in {}", kept.display());
    }
}

/// An entry with some changes of the kinds that find the most: flipped bits, other bytes, parts that
/// are missing, doubled or of another entry.
fn mutated(bytes: &[u8], corpus: &[&[u8]], prng: &mut Prng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=prng.below(CHANGES_MAX) {
        let at = prng.below(bytes.len() as u64 + 1) as usize;
        let rest = bytes.len() - at;
        let end = at + prng.below(rest.min(16) as u64 + 1) as usize;
        match prng.below(5) {
            0 if rest > 0 => bytes[at] ^= 1 << prng.below(8),
            1 if rest > 0 => bytes[at] = prng.next_u64() as u8,
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let other = corpus[prng.below(corpus.len() as u64) as usize];
                bytes.truncate(at);
                bytes.extend(other.iter().skip(at));
            }
        }
    }
    bytes
}
