//! TLS as clients see it.

mod files;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;
use ublkd::front::nbd::{NbdAddress, NbdConfig, NbdLimits, NbdTls};

use crate::certificates::{Authority, Of, ServerFiles};
use crate::client::{
    ABORT, ACK, Client, DISCONNECT, ERR, ERR_INVALID, EXPORT_NAME, GO, HANGS, READ, STARTTLS,
    STRUCTURED_REPLY, WRITE, go,
};
use crate::run::run;
use crate::world::{World, config, pattern};

const ERR_TLS_REQUIRED: u32 = ERR + 5;

type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

/// A server with the certificates of an authority, which also signs those of its clients.
struct Secure {
    world: World,
    authority: Authority,
    files: ServerFiles,
    dir: TempDir,
}

impl Secure {
    fn new() -> Self {
        Self::with(NbdLimits::default())
    }

    fn with(limits: NbdLimits) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let authority = Authority::new("ours");
        let files = ServerFiles::write(dir.path(), &authority, Of::Server);
        let nbd = NbdConfig { limits, tls: Some(tls(&files)), ..at("127.0.0.1:0") };
        Self { world: World::serving(nbd), authority, files, dir }
    }

    fn stream(&self) -> TcpStream {
        let NbdAddress::Tcp(address) = self.world.address() else { panic!("TCP") };
        let stream = TcpStream::connect(address).expect("a server");
        stream.set_read_timeout(Some(HANGS)).expect("a timeout");
        stream.set_write_timeout(Some(HANGS)).expect("a timeout");
        stream
    }

    /// Before TLS.
    fn greeted(&self) -> Client<TcpStream> {
        let mut client = Client::over(self.stream());
        client.greet(3);
        client
    }

    /// A client that has begun TLS, as far as it knows.
    fn client(&self, config: Arc<ClientConfig>) -> Result<TlsClient, std::io::Error> {
        let mut client = self.greeted();
        assert_eq!(client.option(STARTTLS, &[]).last().map(|reply| reply.kind), Some(ACK));
        let name = "127.0.0.1".try_into().expect("a name");
        let connection = ClientConnection::new(config, name).expect("a client");
        let mut stream = StreamOwned::new(connection, client.stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Client::over(stream))
    }

    /// A client with a certificate, in transmission.
    fn ready(&self, structured: bool) -> TlsClient {
        let client = self.client(self.authority.client()).expect("the server has a certificate");
        client.negotiated(structured)
    }

    /// Checks that the next client is served, and that no buffer is missing.
    fn assert_serves(&self) {
        self.world.wait_for_all_buffers();
        let mut client = self.ready(true);
        let data = pattern(7, 100);
        assert_eq!(client.write(0, 0, &data), 0);
        assert!(client.read(0, 0, 100 * 4096).data == data);
        client.request(DISCONNECT, 0, 0, 0);
        assert_eq!(client.rest(), b"");
    }

    /// Checks that a client is not served, however that shows: it may notice only after what it takes
    /// for the end of the handshake.
    fn assert_refuses(&self, config: Arc<ClientConfig>) {
        let Ok(mut client) = self.client(config) else { return };
        let go = go("", &[]);
        let length = (go.len() as u32).to_be_bytes();
        let option = [b"IHAVEOPT", &GO.to_be_bytes()[..], &length, &go].concat();
        client.stream.write_all(&option).ok();
        let error = client.stream.read(&mut [0]).expect_err("it is refused");
        assert_ne!(error.kind(), ErrorKind::WouldBlock, "the server does not close");
    }
}

impl Authority {
    /// A client that trusts it, and has a certificate of it.
    fn client(&self) -> Arc<ClientConfig> {
        self.client_of(self, rustls::DEFAULT_VERSIONS)
    }

    /// A client that trusts it, and has a certificate of another one.
    fn client_of(
        &self,
        other: &Self,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let (certificate, key) = other.sign(Of::Client);
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
        let config = self.trusting(versions).with_client_auth_cert(chain, key);
        Arc::new(config.expect("they fit"))
    }

    fn trusting(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.pem().as_bytes()).expect("PEM"))
            .expect("one");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        builder.with_protocol_versions(versions).expect("versions").with_root_certificates(roots)
    }
}

fn at(address: &str) -> NbdConfig {
    NbdConfig::new(NbdAddress::Tcp(address.parse().expect("an address")))
}

fn tls(files: &ServerFiles) -> NbdTls {
    NbdTls {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        clients: Some(files.clients.clone()),
    }
}

/// Limits that make a test short.
fn impatient() -> NbdLimits {
    NbdLimits { handshake: Duration::from_millis(50), ..NbdLimits::default() }
}

#[test]
fn a_client_reads_what_it_wrote() {
    let secure = Secure::new();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = secure.authority.client_of(&secure.authority, &[version]);
        let client = secure.client(config).expect("a server");
        assert_eq!(client.stream.conn.protocol_version(), Some(version.version));
        for structured in [false, true] {
            let mut client = secure.ready(structured);
            for (lba, blocks) in [(0, 1), (64, 64), (300, 1000)] {
                let data = pattern(lba, blocks);
                assert_eq!(client.write(0, lba * 4096, &data), 0);
                assert!(client.read(0, lba * 4096, blocks as u32 * 4096).data == data);
            }
            let asked: Vec<_> = (0..128).map(|_| client.request(READ, 0, 0, 4096)).collect();
            let outcomes = client.outcomes(&asked, 0, 4096);
            assert!(outcomes.iter().all(|outcome| outcome.data == pattern(0, 1)));
        }
    }
    assert_eq!(secure.world.uri().split_once("://").map(|(scheme, _)| scheme), Some("nbds"));
    secure.assert_serves();
}

#[test]
fn nothing_but_tls_is_to_be_had_before_it() {
    let secure = Secure::new();
    let mut client = secure.greeted();
    for (option, data) in
        [(GO, go("", &[])), (STRUCTURED_REPLY, vec![]), (3, vec![]), (77, vec![1])]
    {
        let replies = client.option(option, &data);
        assert_eq!((replies.len(), replies[0].kind), (1, ERR_TLS_REQUIRED), "{replies:?}");
        assert!(!replies[0].data.is_empty(), "it says why");
    }
    assert_eq!(client.option(STARTTLS, &[1])[0].kind, ERR_INVALID);
    assert_eq!(client.option(STARTTLS, &[])[0].kind, ACK);
    let mut client = secure.greeted();
    assert_eq!(client.option(ABORT, &[])[0].kind, ACK);
    assert_eq!(client.rest(), b"");
    let mut client = secure.greeted();
    client.send_option(EXPORT_NAME, b"tank");
    assert_eq!(client.rest(), b"", "there is no way to say no but to close");
    let mut client = secure.client(secure.authority.client()).expect("a server");
    assert_eq!(client.option(STARTTLS, &[])[0].kind, ERR_INVALID, "it is TLS already");
    secure.assert_serves();
}

#[test]
fn what_is_sent_in_the_clear_does_not_count_within_tls() {
    let secure = Secure::new();
    let mut client = secure.greeted();
    let go = go("", &[]);
    let length = (go.len() as u32).to_be_bytes();
    let begin = [b"IHAVEOPT", &STARTTLS.to_be_bytes()[..], &[0; 4]].concat();
    client.send(&[&begin[..], b"IHAVEOPT", &GO.to_be_bytes(), &length, &go].concat());
    assert_eq!(client.option_reply().kind, ACK);
    // An alert, if anything.
    assert!(client.rest().len() < 20);
    secure.assert_serves();
}

#[test]
fn a_client_without_a_certificate_of_the_authority_is_refused() {
    let secure = Secure::new();
    let other = Authority::new("theirs");
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let ours = &secure.authority;
        secure.assert_refuses(Arc::new(ours.trusting(versions).with_no_client_auth()));
        secure.assert_refuses(ours.client_of(&other, versions));
    }
    let client = secure.client(other.client());
    assert!(client.is_err(), "a client that trusts somebody else notices");
    assert!(secure.world.log().is_empty());
    secure.assert_serves();
}

#[test]
fn clients_need_no_certificate_if_none_is_asked_for() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::new("ours");
    let files = ServerFiles::write(dir.path(), &authority, Of::Server);
    let tls = NbdTls { clients: None, ..tls(&files) };
    let world = World::serving(NbdConfig { tls: Some(tls), ..at("127.0.0.1:0") });
    let secure = Secure { world, authority, files, dir };
    let config = secure.authority.trusting(rustls::DEFAULT_VERSIONS).with_no_client_auth();
    let mut client = secure.client(Arc::new(config)).expect("a server").negotiated(true);
    assert_eq!(client.read(0, 0, 4096).error, 0);
    secure.assert_serves();
}

#[test]
fn a_client_that_does_not_end_the_handshake_is_cut_off() {
    let secure = Secure::with(impatient());
    let begun = || {
        let mut client = secure.greeted();
        assert_eq!(client.option(STARTTLS, &[])[0].kind, ACK);
        client
    };
    let mut silent = begun();
    let mut slow = begun();
    // The header of a record, and some of what it announces.
    slow.send(&[0x16, 3, 1, 2, 0, 1, 0]);
    silent.rest();
    slow.rest();
    for garbage in
        [&[0xff; 100][..], &[0x16, 3, 1, 0xff, 0xff], b"GET / HTTP/1.1\r\n\r\n", &[0; 70_000]]
    {
        let mut client = begun();
        // It may be cut off meanwhile.
        client.stream.write_all(garbage).ok();
        client.rest();
    }
    drop(begun());
}

#[test]
fn clients_that_take_no_replies_keep_no_others_from_being_served() {
    let limits = NbdLimits {
        patience: Duration::from_secs(3600),
        linger: Duration::from_millis(5),
        ..NbdLimits::default()
    };
    let secure = Secure::with(limits);
    let data = pattern(0, 200);
    assert_eq!(secure.ready(true).write(0, 0, &data), 0);
    let mut greedy: Vec<_> = (0..12).map(|at| secure.ready(at % 2 == 0)).collect();
    let asked: Vec<Vec<u64>> = greedy
        .iter_mut()
        .map(|client| (0..60).map(|_| client.request(READ, 0, 0, 200 * 4096)).collect())
        .collect();
    let mut other = secure.ready(true);
    for turn in 0..10 {
        assert_eq!(other.read(0, 0, 256 * 4096).error, 0);
        assert_eq!(other.write(0, 200 * 4096, &pattern(turn, 100)), 0);
    }
    // The data that they get at last is right.
    for (client, asked) in greedy.iter_mut().zip(asked) {
        for outcome in client.outcomes(&asked, 0, 200 * 4096) {
            assert!(outcome.error == 0 && outcome.data == data);
        }
    }
    drop((greedy, other));
    secure.assert_serves();
}

#[test]
fn a_payload_that_comes_late_is_waited_for_without_a_buffer() {
    let limits = NbdLimits { linger: Duration::from_millis(5), ..NbdLimits::default() };
    let secure = Secure::with(limits);
    let data = pattern(300, 60);
    let mut hesitant: Vec<_> = (0..20).map(|_| secure.ready(true)).collect();
    let handles: Vec<u64> = hesitant
        .iter_mut()
        .zip(0..)
        .map(|(client, at)| {
            let handle = client.request(WRITE, 0, at * 60 * 4096, 60 * 4096);
            client.send(&data[..70_000]);
            handle
        })
        .collect();
    assert_eq!(secure.ready(true).write(0, 1500 * 4096, &pattern(0, 100)), 0);
    for (client, handle) in hesitant.iter_mut().zip(handles) {
        client.send(&data[70_000..]);
        assert_eq!(client.outcome(handle, 0, 0).error, 0);
    }
    let mut reader = secure.ready(true);
    assert!((0..20).all(|at| reader.read(0, at * 60 * 4096, 60 * 4096).data == data));
}

#[test]
fn a_stop_answers_what_the_volume_has_and_ends_tls() {
    let mut secure = Secure::new();
    let mut idle = secure.ready(true);
    let mut busy = secure.ready(true);
    secure.world.back_end.hold();
    let held = busy.request(READ, 0, 0, 4096);
    secure.world.back_end.wait_for_request();
    let stopped = secure.world.stop();
    let mut end = [0];
    assert_eq!(idle.stream.read(&mut end).expect("TLS ends in order"), 0);
    secure.world.back_end.release();
    assert_eq!(busy.outcome(held, 0, 4096).error, 0);
    assert_eq!(busy.stream.read(&mut end).expect("TLS ends in order"), 0);
    stopped.join().expect("no panic");
}

#[test]
fn new_files_count_for_new_clients() {
    let secure = Secure::new();
    let mut before = secure.ready(true);
    let next = Authority::new("next");
    ServerFiles::write(secure.dir.path(), &next, Of::Server);
    let mut client = secure.client(next.client()).expect("the new certificate").negotiated(true);
    assert_eq!(client.read(0, 0, 4096).error, 0);
    secure.assert_refuses(next.client_of(&secure.authority, rustls::DEFAULT_VERSIONS));
    assert_eq!(before.read(0, 0, 4096).error, 0, "who is there stays");

    // What does not fit together is not used, until it does.
    let third = Authority::new("third");
    let (certificate, key) = third.sign(Of::Server);
    fs::write(&secure.files.certificate, certificate).expect("a file");
    let mut client = secure.client(next.client()).expect("the one of before").negotiated(true);
    assert_eq!(client.read(0, 0, 4096).error, 0);
    fs::remove_file(&secure.files.key).expect("it is there");
    assert!(secure.client(next.client()).is_ok(), "the one of before");
    crate::certificates::write_key(&secure.files.key, &key);
    let config = third.client_of(&next, rustls::DEFAULT_VERSIONS);
    let mut client = secure.client(config).expect("the third").negotiated(true);
    assert_eq!(client.read(0, 0, 4096).error, 0);
}

#[test]
fn common_clients_use_it() {
    let secure = Secure::new();
    let pki = secure.dir.path().join("pki");
    secure.authority.client_dir(&pki);
    let pki = pki.display().to_string();
    let uri = format!("{}?tls-certificates={pki}", secure.world.uri());
    let print = run(Command::new("nbdinfo").args(["--json", &uri]), "libnbd-bin");
    let json: serde_json::Value = serde_json::from_str(&print).expect("JSON");
    assert_eq!(json["TLS"], true, "{json}");
    assert_eq!(json["exports"][0]["export-size"], config().blocks * 4096);

    let (there, back) = (secure.world.path("there"), secure.world.path("back"));
    let content = pattern(1, config().blocks);
    fs::write(&there, &content).expect("a file");
    let (there, back) = (there.display().to_string(), back.display().to_string());
    let nbdcopy = |from: &str, to: &str| {
        run(Command::new("nbdcopy").args(["--connections=4", "--flush", from, to]), "libnbd-bin");
    };
    nbdcopy(&there, &uri);
    nbdcopy(&uri, &back);
    assert!(fs::read(&back).expect("the copy") == content);

    let NbdAddress::Tcp(address) = secure.world.address() else { panic!("TCP") };
    let qemu = |program: &str, dir: &str, more: &[&str]| {
        let mut command = Command::new(program);
        let options = format!(
            "driver=raw,file.driver=nbd,file.server.type=inet,file.server.host=127.0.0.1,\
             file.server.port={},file.export=tank,file.tls-creds=tls0",
            SocketAddr::port(address)
        );
        let object = format!("tls-creds-x509,id=tls0,dir={dir},endpoint=client");
        command.args(more).args(["--object", &object, "--image-opts", &options]);
        command
    };
    let commands = ["-c", "write -f -P 0x22 1M 64k", "-c", "read -P 0x22 1M 64k", "-c", "flush"];
    let print = run(&mut qemu("qemu-io", &pki, &commands), "qemu-utils");
    assert!(!print.contains("failed") && !print.contains("rror"), "{print}");

    // One of another authority, and one without TLS.
    let other = secure.dir.path().join("other");
    Authority::new("theirs").client_dir(&other);
    fs::copy(Path::new(&pki).join("ca-cert.pem"), other.join("ca-cert.pem")).expect("a file");
    let other = other.display().to_string();
    let output = qemu("qemu-img", &other, &["info"]).output().expect("qemu-img");
    assert!(!output.status.success(), "its certificate is another authority's");
    let plain = uri.replacen("nbds://", "nbd://", 1);
    let output = Command::new("nbdinfo").arg(&plain).output().expect("nbdinfo");
    assert!(!output.status.success(), "without TLS");
    secure.assert_serves();
}
