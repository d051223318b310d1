//! Metrics, as programs ask for them: HTTP over a socket, and what the text format allows.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use raidcore::engine::Command;
use raidcore::geometry::Level;
use raidcore::meta::Consistency;
use raidcore::units::MemberId;
use tokio::runtime::Runtime;
use ublkd::host::HostHandle;
use ublkd::metrics::{CLIENTS_MAX, HEAD_BYTES_MAX, MetricsServer, PAGE_TIME, Pages};

use crate::array::{Client, Files};
use crate::config;

/// An array that serves metrics.
struct World {
    _files: Files,
    client: Client,
    /// How many reads it takes to read all of it.
    reads: u64,
    handle: HostHandle,
    address: SocketAddr,
    _server: MetricsServer,
    _runtime: Runtime,
}

impl World {
    fn new() -> Self {
        let files = Files::create(Level::Raid5, 3, Consistency::Journal);
        let record = files.assemble(false).0.record;
        let (volume, handle) = files.start(config(), false);
        let runtime = Runtime::new().unwrap();
        let mut server = runtime.block_on(MetricsServer::bind(([127, 0, 0, 1], 0).into())).unwrap();
        runtime.block_on(async { server.serve(Arc::new(Pages::new(&[record], handle.clone()))) });
        let address = server.uri();
        let address = address.strip_prefix("http://").and_then(|a| a.strip_suffix("/metrics"));
        let address = address.unwrap().parse().unwrap();
        let reads = volume.blocks().div_ceil(volume.max_request_blocks().into());
        let client = Client::new(volume, 5);
        Self { _files: files, client, reads, handle, address, _server: server, _runtime: runtime }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
        stream
    }

    /// The answer to `request`, up to the end of the connection.
    fn ask(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        // A refused client may find the connection closed before all is sent.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
        String::from_utf8(answer).unwrap()
    }

    /// The samples, once the last page is no longer served.
    fn scrape(&self) -> BTreeMap<String, f64> {
        std::thread::sleep(PAGE_TIME);
        let answer = self.ask(b"GET /metrics HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
        parse(body)
    }
}

/// The samples of a page, which must be in the format.
fn parse(page: &str) -> BTreeMap<String, f64> {
    assert!(page.ends_with('\n'));
    let mut samples = BTreeMap::new();
    let (mut family, mut families) = (("", ""), BTreeMap::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let name = help.split_once(' ').unwrap().0;
            let kind = lines.next().unwrap().strip_prefix("# TYPE ").unwrap();
            let kind = kind.strip_prefix(name).unwrap().trim_start();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert_eq!(families.insert(name, kind), None, "{name} is there twice");
            family = (name, kind);
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let name = sample.split('{').next().unwrap();
        let suffix = name.strip_prefix(family.0).unwrap_or_else(|| panic!("{line}: {family:?}"));
        let histogram = family.1 == "histogram" && ["_bucket", "_sum", "_count"].contains(&suffix);
        assert!(histogram || suffix.is_empty() && family.1 != "histogram", "{line}");
        let value: f64 = value.parse().unwrap();
        assert!(value.is_finite() && value >= 0.0, "{line}");
        assert_eq!(samples.insert(sample.to_owned(), value), None, "{sample} is there twice");
    }
    samples
}

#[test]
fn a_page_tells_what_has_happened() {
    let mut world = World::new();
    world.client.churn(300);
    world.client.verify();
    let before = world.scrape();
    let of = |samples: &BTreeMap<String, f64>, name: &str| {
        *samples.get(name).unwrap_or_else(|| panic!("no {name}: {samples:#?}"))
    };
    let requests = "evenkeel_requests_total{array=\"tank\",result=\"ok\"}";
    let status = world.handle.status().wait().unwrap();
    assert_eq!(of(&before, requests), status.counters.requests as f64);
    let asked =
        before.iter().filter(|(name, _)| name.starts_with("evenkeel_request_seconds_count"));
    let asked: f64 = asked.map(|(_, count)| count).sum();
    // Those for parts of blocks are several to the engine, and one here.
    assert_eq!(asked, 300.0 + world.reads as f64, "each has a kind and a size");
    let small = "array=\"tank\",op=\"write\",size=\"4096\"";
    let count = of(&before, &format!("evenkeel_request_seconds_count{{{small}}}"));
    assert!(count > 0.0);
    assert_eq!(of(&before, &format!("evenkeel_request_bytes_total{{{small}}}")), 4096.0 * count);
    assert_eq!(of(&before, "evenkeel_health{array=\"tank\",state=\"online\"}"), 1.0);
    for (member, op) in (0..3).flat_map(|member| [(member, "read"), (member, "write")]) {
        let labels = format!("array=\"tank\",member=\"{member}\",op=\"{op}\"");
        let io = |suffix: &str| of(&before, &format!("evenkeel_member_io_seconds{suffix}"));
        let count = io(&format!("_count{{{labels}}}"));
        assert!(count > 0.0 && io(&format!("_sum{{{labels}}}")) > 0.0);
        assert_eq!(io(&format!("_bucket{{{labels},le=\"+Inf\"}}")), count);
        let bounds = ["0.00001", "0.0001", "0.001", "0.01", "0.1", "1", "10", "+Inf"];
        let counts = bounds.map(|bound| io(&format!("_bucket{{{labels},le=\"{bound}\"}}")));
        assert!(counts.is_sorted(), "{counts:?}");
        let bytes = of(&before, &format!("evenkeel_member_io_bytes_total{{{labels}}}"));
        assert!(bytes >= 4096.0 * count, "{bytes} bytes");
    }
    for name in ["evenkeel_member_detours_total", "evenkeel_member_staged_writes_total"] {
        assert_eq!(of(&before, &format!("{name}{{array=\"tank\",member=\"2\"}}")), 0.0);
    }
    world.handle.command(Command::Fail(MemberId(1))).wait().unwrap();
    world.client.churn(100);
    world.client.settle();
    let after = world.scrape();
    assert_eq!(of(&after, "evenkeel_health{array=\"tank\",state=\"degraded\"}"), 1.0);
    let state = "evenkeel_member_state{array=\"tank\",member=\"1\",state=\"failed\"}";
    assert_eq!((of(&before, state), of(&after, state)), (0.0, 1.0));
    assert!(of(&after, requests) > of(&before, requests));
}

#[test]
fn clients_that_mean_no_good_are_refused_or_left_behind() {
    let mut world = World::new();
    let endless = [&b"GET /metrics HTTP/1.1\r\nX: "[..], &[b'x'; 2 * HEAD_BYTES_MAX]].concat();
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "HTTP/1.1 404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 405"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", "HTTP/1.1 400"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200"),
    ] {
        let answer = world.ask(request);
        assert!(answer.starts_with(status), "{answer}");
        assert!(answer.ends_with("\r\n\r\n"), "no body: {answer}");
    }
    // The answer may be lost with the rest of the request, but there is nothing else.
    let answer = world.ask(&endless);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    // More than are served at a time, and none of them ever asks.
    let mut silent: Vec<TcpStream> = (0..CLIENTS_MAX + 2).map(|_| world.connect()).collect();
    silent[0].write_all(b"GET /metrics HTT").unwrap();
    world.client.churn(300);
    world.client.verify();
    assert!(!world.scrape().is_empty(), "one that says nothing gives way to it");
    let mut rest = Vec::new();
    // It got no answer.
    assert!(silent[0].read_to_end(&mut rest).is_err() || rest.is_empty());
}

#[test]
fn half_requests_keep_nobody_from_asking() {
    let world = World::new();
    // One after the other, these would take the server minutes.
    let silent = (0..40 * CLIENTS_MAX).map(|_| {
        let mut client = world.connect();
        // It may have been disconnected already.
        let _ = client.write_all(b"GET /metrics HTT");
        client
    });
    let silent: Vec<_> = silent.collect();
    assert!(!world.scrape().is_empty());
    drop(silent);
}

#[test]
fn an_array_that_has_ended_says_so() {
    let world = World::new();
    world.handle.stop().wait().unwrap();
    let answer = world.ask(b"GET /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
}
