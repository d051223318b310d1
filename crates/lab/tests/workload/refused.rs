//! Errors name the key and its place in the file.

use std::path::Path;

use lab::workload::Workload;

use crate::GIB;

fn syntax(text: &str) -> String {
    toml::from_str::<Workload>(text).expect_err(text).to_string()
}

fn refusal(text: &str, capacity: u64) -> String {
    let workload: Workload = toml::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    workload.open(capacity, 1, Path::new(".")).expect_err(text).to_string()
}

#[test]
fn syntax_errors_have_a_line() {
    for (text, line, says) in [
        ("[synthetic]\nread = 0.5\nsiez = \"4K\"", 3, "unknown field `siez`"),
        ("[synthetic]\nread = 0.5\nsize = \"4 parsecs\"", 3, "is not a size"),
        ("[synthetic]\nread = 0.5\nfootprint = 1.5", 3, "a share between 0.0 and 1.0"),
        ("[synthetic]\nread = 0.5\nsize.\"4Q\" = 1", 3, "is not a size"),
        ("[synthetic]\nread = 0.5\nsize = { \"4K\" = 1, 4096 = 1 }", 3, "is there twice"),
        ("[synthetic]\nread = 0.5\npace.closed = { depth = 1, think = 3 }", 3, "with its unit"),
        ("[synthetic]\nread = 0.5\naddress = \"zip\"", 3, "unknown variant `zip`"),
        ("[synthetic]\nread = 0.5\naddress.zipf = { thet = 1 }", 3, "unknown field `thet`"),
        ("[paper]\nname = \"hm_1\"", 2, "there is no \"hm_1\"; there are hm_0, mds_0,"),
        ("[ycsb]\nworkload = \"G\"", 2, "unknown variant `G`"),
        ("[trace]\nfile = \"x\"\nfit = \"squeeze\"", 3, "unknown variant `squeeze`"),
        ("[trace]\nfile = \"x\"\nloop = \"often\"", 3, "or \"forever\""),
        ("[trace]\nfile = \"x\"\nformat = \"csv\"", 3, "unknown variant `csv`"),
    ] {
        let error = syntax(text);
        assert!(error.contains(&format!("line {line}")) && error.contains(says), "{error}");
    }
    assert!(syntax("[fio]\nrw = 1").contains("unknown variant `fio`"));
}

#[test]
fn nonsense_is_refused() {
    for (keys, says) in [
        ("read = 1.5, size = 512", "read is 1.5, but must be between 0 and 1"),
        ("read = nan, size = 512", "read is NaN"),
        ("read = 0.8, discard = 0.3, size = 512", "at most what `read` leaves"),
        ("read = 0.5", "read_size is missing"),
        ("read = 0.5, read_size = 512", "write_size is missing"),
        ("read = 0.5, size = 0", "at least one byte"),
        ("read = 0.5, size = \"4G\"", "less than 4 GiB"),
        ("read = 0.5, size.512 = -1", "not negative"),
        ("read = 0.5, size.512 = 0", "a weight above 0"),
        ("read = 0.5, size = 512, align = 0", "align is 0"),
        ("read = 0.5, size = 512, flush_every = 0", "at least 1"),
        ("read = 0.5, size = 512, runs = 2", "runs is 2"),
        ("read = 0.5, size = 512, pace.open.rate = 0", "open.rate is 0"),
        ("read = 0.5, size = 512, pace.closed.depth = 0", "closed.depth is 0"),
        (
            "read = 0.5, size = 512, \
             pace.open = { rate = 1, gaps.bursts = { peak = 3, share = 0.5 } }",
            "at most 1 / share",
        ),
        (
            "read = 0.5, size = 512, \
             pace.open = { rate = 1, gaps.bursts = { peak = 2, share = 0.5, dwell = \"9ms\" } }",
            "bursts.dwell is 0.009, but must be at least 1 / rate",
        ),
        ("read = 0.5, size = 512, address.zipf.theta = -1", "theta is -1"),
        (
            "read = 0.5, size = 512, address.hot_cold = { space = 0, accesses = 1 }",
            "hot_cold.space",
        ),
        ("read = 0.5, size = 512, start = \"1G\", footprint = \"1G\"", "reach up to 2GiB"),
        ("read = 0.5, size = \"1M\", footprint = \"512K\"", "but the footprint has 512KiB"),
    ] {
        let error = refusal(&format!("synthetic = {{ {keys} }}"), GIB);
        assert!(error.contains(says), "{keys}: {error}");
    }
}

#[test]
fn named_workloads_are_checked_too() {
    for (text, says) in [
        ("paper = { name = \"hm_0\", scale = 0 }", "paper.scale is 0"),
        ("ycsb = { workload = \"A\", page = 1000 }", "a multiple of the record"),
        ("ycsb = { workload = \"A\", footprint = \"2K\" }", "the footprint has 2KiB"),
        ("ycsb = { workload = \"E\", scan = 4294967295 }", "ycsb.scan"),
        ("mix.part = []", "part.weight is 0"),
        ("mix.part = [{ weight = 1 }]", "either `synthetic` or `ycsb`"),
        (
            "mix.part = [{ weight = 1, ycsb = { workload = \"A\", pace.open.rate = 1 } }]",
            "give it to the mix",
        ),
        ("trace = { file = \"x\", speed = 2, rate = 3 }", "can't both be given"),
        ("trace = { file = \"x\", speed = -1 }", "trace.speed is -1"),
        ("trace = { file = \"x\", loop = 0 }", "at least 1"),
        ("trace = { file = \"no/such.spc\" }", "no/such.spc: No such file"),
    ] {
        let error = refusal(text, GIB);
        assert!(error.contains(says), "{text}: {error}");
    }
}

/// A workload with one request needs little, and nothing more is required.
#[test]
fn a_size_that_is_never_drawn_is_not_asked_for() {
    for text in [
        "synthetic = { read = 1.0, read_size = \"4K\" }",
        "synthetic = { read = 0.0, write_size = \"4K\" }",
    ] {
        let workload: Workload = toml::from_str(text).unwrap();
        assert!(workload.open(4096, 1, Path::new(".")).is_ok(), "{text}");
    }
}
