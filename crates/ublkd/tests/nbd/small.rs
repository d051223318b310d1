//! Blocks of 512 bytes.

use std::process::Command;

use det::Prng;

use crate::client::{DF, EINVAL, FLUSH, NO_HOLE, TRIM, WRITE_ZEROES, go};
use crate::run::run;
use crate::world::{World, pattern};

const BYTES: u64 = 600 * 4096;

#[test]
fn sectors_are_read_and_written() {
    let world = World::small();
    for structured in [true, false] {
        let mut client = world.connect().ready(structured);
        let mut wanted = pattern(structured.into(), 600);
        assert_eq!(client.write(0, 0, &wanted), 0);
        let mut rng = Prng::new(structured.into());
        for _ in 0..200 {
            let start = rng.below(BYTES / 512) * 512;
            let most = if rng.chance(1, 4) { 1500 } else { 20 };
            let length = ((1 + rng.below(most)) * 512).min(BYTES - start);
            let part = &mut wanted[start as usize..(start + length) as usize];
            let error = match rng.below(5) {
                0 => {
                    let flags = if structured && rng.chance(1, 2) { DF } else { 0 };
                    let outcome = client.read(flags, start, length as u32);
                    assert!(outcome.data == part, "{length} bytes at {start}");
                    outcome.error
                }
                1 => {
                    part.fill(0);
                    client.command(TRIM, 0, start, length as u32)
                }
                2 => {
                    part.fill(0);
                    client.command(WRITE_ZEROES, NO_HOLE, start, length as u32)
                }
                _ => {
                    rng.fill(part);
                    client.write(0, start, part)
                }
            };
            assert_eq!(error, 0);
        }
        assert!(client.read(0, 0, BYTES as u32).data == wanted);
        for (offset, length) in [(1, 512), (0, 511), (512, 513)] {
            assert_eq!(client.read(0, offset, length).error, EINVAL);
        }
        assert_eq!(client.command(FLUSH, 0, 512, 0), EINVAL);
    }
    assert!(world.log().iter().any(|request| !request.edges.is_none()));
}

#[test]
fn clients_are_told() {
    let world = World::small();
    let mut client = world.connect();
    client.greet(3);
    let replies = client.option(6, &go("", &[]));
    let sizes = replies.iter().find(|reply| reply.data.starts_with(&[0, 3])).expect("sizes");
    assert_eq!(sizes.data[2..6], 512u32.to_be_bytes());
}

#[test]
fn fio_reads_the_sectors_that_it_wrote() {
    let world = World::small();
    let dir = tempfile::tempdir().expect("a temporary directory");
    run(
        Command::new("fio")
            .current_dir(dir.path())
            .args(["--name=verify", "--ioengine=nbd", "--iodepth=16", "--rw=randrw"])
            .args(["--bsrange=512-64k", "--blockalign=512", "--size=8m", "--verify=crc32c"])
            .args(["--verify_fatal=1", "--randseed=1", "--eta=never"])
            .arg(format!("--uri={}", world.uri())),
        "fio",
    );
}
