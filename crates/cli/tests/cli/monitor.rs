//! `monitor`: each occurrence is told once, by hooks, mail and webhooks, whatever becomes of one of them.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;

use crate::signal::signal;
use crate::world::{Ended, World};

/// A program in the world's directory.
fn program(world: &World, name: &str, script: &str) {
    let path = world.path(name);
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// A world with an array of three members that runs, and a hook that writes what it is told.
fn watched() -> World {
    let world = World::with_members(&[20; 4]);
    world.run("create tank --level raid5 m0 m1 m2").done();
    world.run("start --background m0 m1 m2").done();
    let told = world.path("told");
    let script = format!(
        "echo \"$EVENKEEL_EVENT $EVENKEEL_ARRAY $EVENKEEL_DISK $EVENKEEL_SEVERITY\" >> {}",
        told.display()
    );
    program(&world, "hooks/10-write", &script);
    world
}

fn monitor(world: &World, options: &str) -> Ended {
    world.run(&format!("monitor --hooks hooks {options}"))
}

/// What the hook was told since the last time.
fn told(world: &World) -> Vec<String> {
    let text = fs::read_to_string(world.path("told")).unwrap_or_default();
    let _ = fs::remove_file(world.path("told"));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn each_occurrence_is_told_once() {
    let world = watched();
    assert_eq!(monitor(&world, "--once --new").done(), "there is nothing to tell\n");
    world.run("disk fail tank 1").done();
    let text = monitor(&world, "--once --new").done();
    assert!(text.contains("degraded: member 1"), "{text}");
    assert!(
        text.contains("What to do: ") && text.contains("evenkeel disk replace tank 1 PATH"),
        "{text}"
    );
    assert_eq!(told(&world), ["degraded tank 1 warning"]);
    // Another process does not tell it again, and one without --new does.
    assert_eq!(monitor(&world, "--once --new").done(), "there is nothing to tell\n");
    assert_eq!(told(&world), [""; 0]);
    monitor(&world, "--once").done();
    assert_eq!(told(&world), ["degraded tank 1 warning"]);
    // A restart of the array is no occurrence.
    world.run("stop tank").done();
    world.run("start --background --degraded m0 m2").done();
    monitor(&world, "--once --new").done();
    assert_eq!(told(&world), [""; 0]);

    world.run("disk replace tank 1 m3 --wait").done();
    world.run("stop tank").done();
    monitor(&world, "--once --new").done();
    assert_eq!(told(&world), ["rebuilt tank 1 info"]);
    world.run("start --background m0 m2 m3").done();
    world.run("disk fail tank 2").done();
    let messages = monitor(&world, "--once --new --json").json();
    assert_eq!(messages["told"][0]["disk"], "2", "another failure is another one: {messages}");
}

#[test]
fn what_is_mended_before_anybody_looks_is_told() {
    let world = watched();
    monitor(&world, "--once --new").done();
    world.run("disk add tank m3").done();
    world.run("disk fail tank 0").done();
    world.run("rebuild status tank --wait").done();
    world.run("stop tank").done();
    world.run("start --background m1 m2 m3").done();
    monitor(&world, "--once --new").done();
    assert_eq!(told(&world), ["degraded tank 0 warning", "rebuilt tank 0 info"]);
}

#[test]
fn an_array_that_died_is_told_and_one_that_was_stopped_is_not() {
    let world = World::with_members(&[20; 2]);
    fs::create_dir(world.path("hooks")).expect("a directory");
    world.run("create tank --level raid1 m0 m1").done();
    let mut child = world.foreground("start m0 m1");
    monitor(&world, "--once --new").done();
    signal(&child, Signal::KILL);
    child.wait().expect("it was ours");
    let text = monitor(&world, "--once --new --patience 0s").done();
    assert!(text.contains("vanished: ") && text.contains("evenkeel start --name tank"), "{text}");
    assert_eq!(monitor(&world, "--once --new --patience 0s").done(), "there is nothing to tell\n");
    assert!(monitor(&world, "--once --patience 0s").done().contains("vanished: "));
    world.run("start --background m0 m1").done();
    monitor(&world, "--once --new --patience 0s").done();
    world.run("stop tank").done();
    assert_eq!(monitor(&world, "--once --new --patience 0s").done(), "there is nothing to tell\n");
}

#[test]
fn hooks_that_hang_or_fail_hinder_none() {
    let world = watched();
    program(&world, "hooks/00-hangs", "sleep 600 & wait");
    program(&world, "hooks/05-fails", "exit 3");
    program(&world, "hooks/20-open", "exit 4");
    fs::set_permissions(world.path("hooks/20-open"), fs::Permissions::from_mode(0o777))
        .expect("ours");
    program(&world, "hooks/30-backup~", "exit 5");
    world.run("disk fail tank 1").done();
    let ended = monitor(&world, "--once --hook-timeout 1s");
    assert_eq!(ended.code, 1, "{ended:?}");
    for words in [
        "00-hangs failed: it was killed, as it took longer than 1s",
        "05-fails failed: exit status: 3",
        "20-open is left out, as others can write it",
    ] {
        assert!(ended.stderr.contains(words), "{words}: {ended:?}");
    }
    assert!(!ended.stderr.contains("30-backup"), "{ended:?}");
    assert_eq!(told(&world), ["degraded tank 1 warning"]);
}

#[test]
fn mail_has_what_to_do_in_it() {
    let world = watched();
    let mail = world.path("mail");
    program(&world, "sendmail", &format!("{{ echo \"$@\"; cat; }} > {}", mail.display()));
    let options = format!("--mail ops@example.org --sendmail {}", world.path("sendmail").display());
    world.run("disk fail tank 1").done();
    monitor(&world, &format!("--once --new {options}")).done();
    let text = fs::read_to_string(&mail).expect("a mail");
    for words in [
        "-i -- ops@example.org\n",
        "To: ops@example.org\n",
        "Subject: [evenkeel] tank on ",
        ": degraded\n",
        "\n\ntank (",
        "What to do: ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // One that fails is tried again, and told once then.
    fs::remove_file(&mail).expect("it is there");
    program(&world, "sendmail", "echo no queue >&2; exit 75");
    world.run("disk replace tank 1 m3 --wait").done();
    world.run("stop tank").done();
    let ended = monitor(&world, &format!("--once --new {options}"));
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("mail to ops@example.org failed: exit status: 75: no queue"),
        "{ended:?}"
    );
    program(&world, "sendmail", &format!("cat > {}", mail.display()));
    monitor(&world, &format!("--once --new {options}")).done();
    let text = fs::read_to_string(&mail).expect("a mail");
    assert!(text.contains(": rebuilt\n"), "{text}");
    assert_eq!(told(&world), ["degraded tank 1 warning", "rebuilt tank 1 info"]);
}

/// A request that begins with `head`: its head and its body.
fn request(reader: &mut impl BufRead, mut head: String) -> (String, Vec<u8>) {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line == "\r\n" {
            break;
        }
        head += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    (head, body)
}

#[test]
fn a_webhook_gets_json() {
    if Command::new("curl").arg("--version").output().is_err() {
        // scripts/test installs it.
        return;
    }
    let world = World::new();
    fs::create_dir(world.path("hooks")).expect("a directory");
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook?token=\"secret\\", server.local_addr().expect("an address"));
    let serving = thread::spawn(move || {
        let (mut client, _) = server.accept().expect("a client");
        let mut reader = BufReader::new(client.try_clone().expect("the same"));
        let request = request(&mut reader, String::new());
        client.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("it is there");
        request
    });
    let ended = monitor(&world, &format!("--test --webhook {url}"));
    assert!(!ended.done().contains("secret"), "URLs have secrets");
    let (head, body) = serving.join().expect("it served");
    assert!(head.starts_with("POST /hook?token=") && head.contains("application/json"), "{head}");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((&body["event"], &body["severity"]), (&"test".into(), &"info".into()));
    assert!(body["text"].as_str().is_some_and(|text| text.contains("nothing is wrong")), "{body}");
    // The server is gone.
    let ended = monitor(&world, &format!("--test --webhook {url}"));
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("the webhook at 127.0.0.1:") && !ended.stderr.contains("secret"),
        "{ended:?}"
    );
}

/// A server with a certificate that it has signed itself, which writes what clients send to its
/// standard output, and sends them what is on its input. It ends when this is dropped.
struct Tls {
    child: Child,
    said: BufReader<ChildStdout>,
    address: String,
}

impl Tls {
    /// The certificate is in `cert.pem`. None if there is no openssl.
    fn start(world: &World) -> Option<Self> {
        let openssl = |line: &str| {
            let mut command = Command::new("openssl");
            command.args(line.split_whitespace()).current_dir(world.path("")).stderr(Stdio::null());
            command
        };
        let new = "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem -subj /CN=here \
                   -addext subjectAltName=IP:127.0.0.1";
        assert!(openssl(new).stdout(Stdio::null()).status().ok()?.success());
        let mut server = openssl("s_server -accept 127.0.0.1:0 -cert cert.pem -key key.pem");
        let child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("it runs");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
        let address = beginning(&mut said, "ACCEPT ").trim().replace("ACCEPT ", "");
        Some(Self { child, said, address })
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it was ours");
    }
}

/// The next line that begins with these words.
fn beginning(reader: &mut impl BufRead, words: &str) -> String {
    let mut line = String::new();
    while !line.starts_with(words) {
        line.clear();
        assert_ne!(reader.read_line(&mut line).expect("text"), 0, "no {words}");
    }
    line
}

#[test]
fn a_webhook_s_certificate_has_to_be_one_that_curl_trusts() {
    let world = World::new();
    fs::create_dir(world.path("hooks")).expect("a directory");
    let Some(mut server) = Tls::start(&world) else {
        // scripts/test installs it.
        return;
    };
    let line = format!("monitor --hooks hooks --test --webhook https://{}/hook", server.address);
    let ended = world.run(&line);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("certificate"), "{ended:?}");
    let mut command = world.command(&line);
    command.env("CURL_CA_BUNDLE", world.path("cert.pem")).stdout(Stdio::null());
    let mut monitor = command.spawn().expect("it runs");
    let head = beginning(&mut server.said, "POST ");
    let (head, body) = request(&mut server.said, head);
    assert!(head.starts_with("POST /hook HTTP/1.1"), "{head}");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(body["event"], "test");
    let stdin = server.child.stdin.as_mut().expect("a pipe");
    stdin.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").expect("it reads");
    assert!(monitor.wait().expect("it ends").success());
}

#[test]
fn it_watches_until_it_is_told_to_end() {
    let world = watched();
    let mut watch = world
        .command("monitor --hooks hooks --interval 50ms --json")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    world.run("disk fail tank 1").done();
    let line = lines.next().expect("a line").expect("text");
    let message: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(message["result"]["message"]["event"], "degraded");
    monitor(&world, "--once --new").failed(&["another `evenkeel monitor` watches"]);
    watch.kill().expect("it is ours");
    watch.wait().expect("it was ours");
}

#[test]
fn ways_that_can_not_work_are_refused() {
    let world = World::new();
    fs::create_dir(world.path("hooks")).expect("a directory");
    monitor(&world, "--test").failed(&["there is no way to tell anything", "hooks"]);
    world.run("monitor --once --hooks nothere").failed(&["--hooks nothere"]);
    let ended = monitor(&world, "--once --mail root --sendmail /nothere/sendmail");
    ended.failed(&["there is no /nothere/sendmail", "msmtp-mta", "--sendmail"]);
    for line in [
        "--mail -oQ/tmp",
        "--mail a,b",
        "--webhook ftp://host/",
        "--webhook https://",
        "--hook-timeout 0s",
        "--new",
        "--test --once",
    ] {
        let ended = monitor(&world, line);
        assert_eq!(ended.code, 2, "{line}: {ended:?}");
    }
}
