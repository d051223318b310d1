//! fio writes and verifies, over each front end.

use std::path::Path;

use crate::condition::Condition;
use crate::rounds::user::Refusal;
use crate::tools::{Loop, attempt, run};
use crate::world::World;

/// Writes at random places and sequentially at the same time, and verifies everything. `target` is
/// fio's target.
fn verify(target: &str) {
    let common = "--randseed=1 --bsrange=4k-1m --iodepth=16 --fsync=32 --size=24m";
    let checks = "--verify=crc32c --verify_fatal=1 --verify_state_save=0 --eta=never";
    let random = "--name=random --rw=randwrite --offset=1m";
    let sequential = "--name=sequential --rw=write --offset=60m";
    let line = |job| format!("fio {job} {common} {checks} {target}");
    let both = format!("{} {}", line(random), line(sequential).replacen("fio ", "", 1));
    run("fio", &both);
}

fn over_nbd(world: &World) {
    verify(&format!("--ioengine=nbd --uri={}", world.uri()));
}

fn over_file(file: &Path) {
    verify(&format!("--ioengine=libaio --direct=1 --filename={}", file.display()));
}

fn during(level: &str, members: u8, condition: Condition, client: impl Fn(&World)) {
    let mut world = World::new(level, members, 96).started();
    condition.enter(&world);
    client(&world);
    condition.leave(&world);
    world.stop();
}

fn over_loop(world: &World) {
    let device = Loop::new(&world.fuse());
    over_file(Path::new(&device.device));
}

#[test]
fn over_nbd_while_all_is_well() {
    during("raid5", 4, Condition::Whole, over_nbd);
}

#[test]
fn over_nbd_while_a_member_is_missing() {
    during("raid5", 4, Condition::Missing, over_nbd);
}

#[test]
fn over_nbd_while_a_member_is_rebuilt() {
    during("raid5", 4, Condition::Rebuilding, over_nbd);
}

#[test]
fn on_the_file_while_all_is_well() {
    during("raid5", 4, Condition::Whole, |world| over_file(&world.fuse()));
}

#[test]
fn on_a_loop_device_while_all_is_well() {
    during("raid5", 4, Condition::Whole, over_loop);
}

#[test]
fn on_a_loop_device_while_a_member_is_missing() {
    during("raid5", 4, Condition::Missing, over_loop);
}

#[test]
fn on_a_loop_device_while_a_member_is_rebuilt() {
    during("raid5", 4, Condition::Rebuilding, over_loop);
}

#[test]
fn raid6_while_two_members_are_missing() {
    during("raid6", 5, Condition::Missing, over_nbd);
}

#[test]
fn raid6_while_one_member_is_missing_and_one_is_rebuilt() {
    during("raid6", 5, Condition::Rebuilding, |world| {
        over_nbd(world);
        over_loop(world);
    });
}

#[test]
fn parts_of_blocks_are_refused_where_blocks_are_told() {
    const EINVAL: Refusal = Refusal::Refused(22);
    let mut world = World::new("raid5", 4, 40).started();
    let dd = |from: &str, options: &str| {
        attempt(
            "coreutils",
            &format!("dd if={from} of=/dev/null iflag=direct,skip_bytes {options}"),
        )
    };
    let device = Loop::new(&world.fuse());
    for options in ["bs=512 count=1", "bs=6144 count=1", "bs=4096 count=1 skip=512"] {
        dd(&device.device, options).refused(&["Invalid argument"]);
        dd(&world.fuse().display().to_string(), options).done();
    }
    dd(&device.device, "bs=4096 count=1").done();
    let mut nbd = world.nbd();
    assert_eq!(nbd.read(512, 4096).err(), Some(EINVAL), "a read from within a block");
    assert_eq!(nbd.read(4096, 512).err(), Some(EINVAL), "a read of a part of a block");
    assert_eq!(nbd.write(0, &[7; 512], false), Err(EINVAL), "a write of a part of a block");
    assert_eq!(nbd.write(512, &[7; 4096], false), Err(EINVAL), "a write from within a block");
    assert_eq!(nbd.read(0, 8192), Ok(vec![0; 8192]), "and nothing was written");
    assert_eq!(nbd.write(4096, &[7; 4096], true), Ok(()), "the connection goes on");
    assert_eq!(nbd.read(4096, 4096), Ok(vec![7; 4096]));
    drop((nbd, device));
    assert_eq!(world.scrub(), 0);
    world.stop();
}

#[test]
fn users_of_sectors_share_blocks_over_nbd_and_the_file() {
    let mut world = World::new("raid5", 4, 40);
    world.start("--logical-block=512");
    let common = "--rw=randwrite --bsrange=512-48k --blockalign=512 --randseed=1 --iodepth=8";
    let checks = "--size=4m --verify=crc32c --verify_fatal=1 --verify_state_save=0 --eta=never";
    let uri = world.uri();
    // These areas meet within a block.
    let nbd = format!("--name=nbd --ioengine=nbd --uri={uri} --offset=512 {common} {checks}");
    let offset = (4 << 20) + 512;
    let file = world.fuse().display().to_string();
    let file = format!(
        "--name=file --ioengine=libaio --filename={file} --offset={offset} {common} {checks}"
    );
    run("fio", &format!("fio {nbd} {file}"));
    assert_eq!(world.scrub(), 0);
    world.stop();
}
