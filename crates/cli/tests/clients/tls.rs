//! Clients over TLS, while the array's process is killed or replaced, and its certificate renewed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::certificates::{Authority, Of, ServerFiles};
use crate::tools::{attempt, command, pattern, run};
use crate::world::{MIB, World};

const FILES: &str = "--nbd-tls-certificate server-cert.pem --nbd-tls-key server-key.pem \
                     --nbd-tls-clients clients.pem";

/// With the files of a server, and in `client` those of its clients.
fn tank(authority: &Authority) -> World {
    let world = World::new("raid5", 3, 40);
    renew(&world, authority);
    authority.client_dir(&world.path("client"));
    world
}

fn renew(world: &World, authority: &Authority) {
    ServerFiles::write(&world.path(""), authority, Of::Server);
}

/// Where the array is served by TLS.
fn uri(fronts: &serde_json::Value) -> String {
    let addresses = fronts.as_array().expect("front ends").iter();
    let mut addresses = addresses.filter_map(|front| front["address"].as_str());
    addresses.find(|address| address.starts_with("nbds://")).expect("one by TLS").to_owned()
}

/// The same for clients that have what is in a directory.
fn uri_for(world: &World, uri: &str, dir: &str) -> String {
    format!("{uri}?tls-certificates={}", world.path(dir).display())
}

fn port(uri: &str) -> &str {
    uri.rsplit(':').next().and_then(|rest| rest.split('/').next()).expect("a port")
}

/// qemu-io, which connects again by itself.
struct Qemu {
    process: Child,
    says: BufReader<ChildStdout>,
    hears: ChildStdin,
}

impl Qemu {
    fn connect(world: &World, uri: &str) -> Self {
        let object = format!(
            "tls-creds-x509,id=tls0,dir={},endpoint=client",
            world.path("client").display()
        );
        let image = format!(
            "driver=nbd,server.type=inet,server.host=127.0.0.1,server.port={},export=tank,\
             tls-creds=tls0,reconnect-delay=100",
            port(uri)
        );
        let mut command =
            command("qemu-utils", &format!("qemu-io --object {object} --image-opts {image}"));
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is run");
        let says = BufReader::new(process.stdout.take().expect("a pipe"));
        let hears = process.stdin.take().expect("a pipe");
        Self { process, says, hears }
    }

    /// Gives it a command; returns when a line of what it says has this word.
    fn does(&mut self, command: &str, word: &str) {
        writeln!(self.hears, "{command}").expect("it listens");
        let mut said = String::new();
        while !said.contains(word) {
            let before = said.len();
            let more = self.says.read_line(&mut said).expect("it speaks");
            assert!(more > 0 && !said[before..].contains("rror"), "`{command}`: {said}");
        }
        assert!(!said.contains("failed"), "`{command}`: {said}");
    }

    fn quit(mut self) {
        drop(self.hears);
        assert!(self.process.wait().expect("it ends").success());
    }
}

#[test]
fn a_client_goes_on_after_the_process_was_killed() {
    let authority = Authority::new("ours");
    let mut world = tank(&authority);
    let uri = uri(&world.start(&format!("--nbd-tcp 127.0.0.1:0 {FILES}"))["fronts"]);
    let mut qemu = Qemu::connect(&world, &uri);
    qemu.does("write -f -P 0x11 0 1M", "wrote 1048576");
    world.kill();
    world.start(&format!("--nbd-tcp 127.0.0.1:{} {FILES}", port(&uri)));
    qemu.does("read -P 0x11 0 1M", "read 1048576");
    qemu.does("write -P 0x22 1M 64k", "wrote 65536");
    qemu.does("read -P 0x22 1M 64k", "read 65536");
    qemu.quit();
    world.assert_sound();
    world.stop();
}

#[test]
fn a_process_in_the_background_and_its_successor_serve_by_tls() {
    let authority = Authority::new("ours");
    let world = tank(&authority);
    world.evenkeel(&format!("start --background --nbd-tcp 127.0.0.1:0 {FILES} m0 m1 m2"));
    let content = pattern(1, 8 * MIB as usize);
    let (there, back) = (world.path("there"), world.path("back"));
    std::fs::write(&there, &content).expect("a file");
    let now = || uri(&world.status()["fronts"]);
    let ours = |uri: &str| uri_for(&world, uri, "client");
    run("libnbd-bin", &format!("nbdcopy --flush {} {}", there.display(), ours(&now())));

    // Its working directory is another one by now.
    let next = Authority::new("next");
    next.client_dir(&world.path("client-of-next"));
    renew(&world, &next);
    run("libnbd-bin", &format!("nbdinfo {}", uri_for(&world, &now(), "client-of-next")));
    let refused = attempt("libnbd-bin", &format!("nbdinfo {}", ours(&now())));
    refused.refused(&[]);

    // A successor that would not start is none.
    std::fs::rename(world.path("server-key.pem"), world.path("aside")).expect("it is renamed");
    let refused = world.try_evenkeel("restart tank");
    refused.refused(&["tank runs on as before", "server-key.pem"]);
    std::fs::rename(world.path("aside"), world.path("server-key.pem")).expect("it is renamed");
    world.evenkeel("restart tank");
    let uri = uri_for(&world, &now(), "client-of-next");
    run("libnbd-bin", &format!("nbdcopy {uri} {}", back.display()));
    assert!(std::fs::read(&back).expect("the copy").starts_with(&content));
    world.evenkeel("stop tank");
}

#[test]
fn other_machines_may_come_if_they_must_have_certificates() {
    let authority = Authority::new("ours");
    let world = tank(&authority);
    let open = FILES.split(" --nbd-tls-clients").next().expect("the rest");
    let refused =
        world.try_evenkeel(&format!("start --background --nbd-tcp 0.0.0.0:0 {open} m0 m1 m2"));
    refused.refused(&["0.0.0.0:0", "certificates of clients"]);
    world.evenkeel(&format!("start --background --nbd-tcp 0.0.0.0:0 {FILES} m0 m1 m2"));
    world.evenkeel("stop tank");
}
