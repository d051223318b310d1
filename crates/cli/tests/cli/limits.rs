//! Limits of the process, and what happens if they are too low.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::world::{Ended, World};

fn tank() -> World {
    let world = World::with_members(&[20; 3]);
    world.run("create tank --level raid5 m0 m1 m2").done();
    world
}

/// Runs `line` after a shell's command.
fn under(world: &World, limit: &str, line: &str) -> Ended {
    let plain = world.command(line);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{limit}; exec \"$0\" \"$@\""));
    command.arg(plain.get_program()).args(plain.get_args());
    plain.get_envs().for_each(|(name, value)| {
        command.env(name, value.unwrap_or_default());
    });
    World::ended(command.current_dir(world.path("")))
}

#[test]
fn a_file_that_is_too_large_for_where_it_is_gets_a_hint() {
    let world = World::new();
    let line = "create tank --level raid5 --file-size 20M n0 n1 n2";
    let ended = under(&world, "trap '' XFSZ; ulimit -f 8", line);
    ended.failed(&["n0: ", "what to do: its file system", "no file of this size"]);
}

#[test]
fn a_limit_of_the_process_is_named_with_what_raises_it() {
    let world = tank();
    let files = &["RLIMIT_NOFILE", "ulimit -n", "LimitNOFILE="];
    for (most, line) in [
        (4, "examine m0"),
        (6, "start m0 m1 m2"),
        (11, "start m0 m1 m2"),
        (20, "start m0 m1 m2"),
        (5, "create new --level raid5 --force m0 m1 m2"),
    ] {
        let ended = under(&world, &format!("ulimit -n {most}"), line);
        let told = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, 1, "{line}: {told}");
        assert!(files.iter().all(|word| told.contains(word)), "{line}: {told}");
        assert!(!told.contains("Delete") && !told.contains("panicked"), "{line}: {told}");
    }
}

/// Only newer kernels count the memory of rings; root's counts only if it has a limit.
#[test]
fn memory_that_may_not_be_locked_is_named_or_done_without() {
    let world = tank();
    let drop = "exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \"$0\" \"$@\"";
    let limit = format!("ulimit -l 0; if [ $(id -u) = 0 ]; then {drop}; fi");
    let ended = under(&world, &limit, "start --background m0 m1 m2");
    if ended.code == 0 {
        assert_eq!(world.status("tank")["health"], "online");
    } else {
        ended.failed(&["have 0 bytes here (RLIMIT_MEMLOCK)", "ulimit -l", "LimitMEMLOCK="]);
        assert!(!ended.stderr.contains("forbidden"), "{ended:?}");
    }
}

/// Files that the array may have open: some more than the fewest it starts with.
const FILES: usize = 60;

#[test]
fn an_array_that_runs_out_of_files_serves_on_when_there_are_some() {
    let world = tank();
    let start = "start --background --nbd=nbd --metrics=127.0.0.1:0 m0 m1 m2";
    under(&world, &format!("ulimit -n {FILES}"), start).done();
    let fronts = world.status("tank")["fronts"].take();
    let metrics = fronts[1]["address"].as_str().expect("a URI").to_owned();
    let metrics = metrics.trim_start_matches("http://").trim_end_matches("/metrics");
    let nbd = || UnixStream::connect(world.path("nbd")).expect("the kernel takes it");
    let control = || UnixStream::connect(world.run_dir().join("tank.sock")).expect("it does");
    let http = || TcpStream::connect(metrics).expect("it does");

    // More than can be accepted, so that some have to wait.
    let clients: Vec<_> = (0..2 * FILES).map(|_| nbd()).collect();
    let log = || fs::read_to_string(world.run_dir().join("tank.log")).expect("a log");
    let refused = |kind: &str, knock: &dyn Fn()| {
        let deadline = Instant::now() + Duration::from_secs(120);
        let kind = format!("clients=\"{kind}\"");
        let tells = |line: &str| line.contains(&kind) && line.contains("could not accept");
        while !log().lines().any(tells) {
            assert!(Instant::now() < deadline, "{kind}: {}", log());
            knock();
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    refused("NBD", &|| ());
    refused("control", &|| drop(control()));
    refused("metrics", &|| drop(http()));
    drop(clients);

    let mut greeting = [0; 8];
    nbd().read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting, b"NBDMAGIC");
    let (mut page, mut stream) = (String::new(), http());
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it is asked");
    stream.read_to_string(&mut page).expect("a page");
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    assert_eq!(world.status("tank")["health"], "online");
    world.run("stop tank").done();
}
