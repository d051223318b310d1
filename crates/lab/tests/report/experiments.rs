//! Small experiments, run once for all tests.

use std::sync::OnceLock;

use lab::experiment::Experiment;
use lab::results::Record;
use lab::sweep::{Progress, Share, sweep};

/// A title that would be markup if it were let.
pub(crate) const HOSTILE: &str = r#"</title><script>alert("1")</script> & 'more' <b>"#;

/// Arrays in two variants, the second seed of each included.
const ARRAYS: &str = r#"
title = """</title><script>alert("1")</script> & 'more' <b>"""
[array]
level = "raid5"
members = 4
[ssd]
profile = "femu-ioda"
blocks = 64
set = { geometry = { channels = 2, chips = 2 } }
[workload.synthetic]
size = "4K"
read = 0.5
pace.closed.depth = 8
[run]
requests = 5000
warmup = 1000
seeds = 2
[[variant]]
name = "five <i>"
[[variant]]
name = "zero"
array = { level = "raid0" }
"#;

/// One SSD, swept.
const SWEPT: &str = r#"
title = "By depth"
[ssd]
profile = "femu-ioda"
blocks = 64
set = { geometry = { channels = 2, chips = 2 } }
[workload.synthetic]
size = "4K"
read = 0.7
pace.closed.depth = 8
[run]
requests = 3000
warmup = 500
seeds = 2
[sweep]
workload.synthetic.pace.closed.depth = [1, 4, 16]
"#;

/// One SSD that is only read, once.
const ALONE: &str = r#"
title = "Reads alone"
[ssd]
profile = "femu-ioda"
blocks = 64
set = { geometry = { channels = 2, chips = 2 } }
[workload.synthetic]
size = "4K"
read = 1.0
pace.closed.depth = 8
[run]
requests = 1000
"#;

/// What is expected of [`ARRAYS`]: a gate that nothing passes, one that everything does, and a
/// figure without a gate.
const EXPECTED: &str = r#"
[[expect]]
name = "<b>never</b>"
column = "response mean"
variant = "zero"
class = "H"
at_least = 1e6
why = "SSDs take <i>longer</i>"
[[expect]]
name = "always"
column = "total WAF"
variant = "zero"
against = "five <i>"
as = "change"
class = "D"
at_most = 0.0
paper = -0.5
source = "Table <1>"
[[expect]]
name = "told"
column = "requests/s"
variant = "zero"
class = "R"
"#;

/// The experiment of [`arrays`], with expectations.
pub(crate) fn expecting() -> Experiment {
    let text = format!("{ARRAYS}{EXPECTED}");
    Experiment::parse(&text, "experiment.toml".as_ref()).expect("it is an experiment")
}

/// The results of two arrays, with two seeds each.
pub(crate) fn arrays() -> Vec<Record> {
    static RESULTS: OnceLock<Vec<Record>> = OnceLock::new();
    RESULTS.get_or_init(|| results(ARRAYS)).clone()
}

/// The results of a sweep of three queue depths, with two seeds each.
pub(crate) fn swept() -> Vec<Record> {
    static RESULTS: OnceLock<Vec<Record>> = OnceLock::new();
    RESULTS.get_or_init(|| results(SWEPT)).clone()
}

/// One result, without writes.
pub(crate) fn alone() -> Vec<Record> {
    static RESULTS: OnceLock<Vec<Record>> = OnceLock::new();
    RESULTS.get_or_init(|| results(ALONE)).clone()
}

/// All of them.
pub(crate) fn all() -> Vec<Record> {
    [arrays(), swept(), alone()].concat()
}

fn results(text: &str) -> Vec<Record> {
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let experiment = Experiment::parse(text, &dir.path().join("experiment.toml"));
    let experiment = experiment.expect("it is an experiment");
    let out = dir.path().join("results.jsonl");
    sweep(&experiment, &out, Share::default(), &Progress::default()).expect("it can be run")
}
