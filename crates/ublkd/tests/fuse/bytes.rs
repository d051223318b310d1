//! Any offset, any size, and mappings.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use det::Prng;
use raidcore::engine::Op;
use raidcore::units::BLOCK_BYTES;
use rustix::fs::FallocateFlags;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
use ublkd::volume::VolumeConfig;

use crate::run::run;
use crate::world::{BLOCK, World, config, pattern, placed};

const BLOCKS: u64 = 600;

/// Does something somewhere, and does the same to `wanted`.
fn change(file: &File, wanted: &mut [u8], rng: &mut Prng) {
    let most = if rng.chance(1, 8) { 700_000 } else { 9000 };
    let start = rng.below(wanted.len() as u64) as usize;
    let length = (1 + rng.below(most) as usize).min(wanted.len() - start);
    let part = &mut wanted[start..start + length];
    match rng.below(6) {
        0 => {
            let mut back = vec![0; length];
            file.read_exact_at(&mut back, start as u64).expect("a read");
            assert!(back == part, "{length} bytes at {start}");
        }
        1 => {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, mode, start as u64, length as u64).expect("a hole");
            part.fill(0);
        }
        _ => {
            rng.fill(part);
            let shift = rng.below(4096) as usize;
            let written = placed(shift, part, |data| file.write_at(data, start as u64));
            assert_eq!(written.expect("a write"), length, "it is never short");
        }
    }
}

#[test]
fn any_offset_and_size_is_taken() {
    for (max_request_blocks, flags) in [(256, libc::O_DIRECT), (4, 0)] {
        let world = World::new(VolumeConfig { max_request_blocks, ..config(BLOCKS) });
        let file = world.open_with(flags);
        let mut wanted = pattern(0, BLOCKS);
        file.write_all_at(&wanted, 0).expect("a write");
        let mut rng = Prng::new(max_request_blocks.into());
        for _ in 0..300 {
            change(&file, &mut wanted, &mut rng);
        }
        let mut back = vec![0; wanted.len()];
        file.read_exact_at(&mut back, 0).expect("a read");
        assert!(back == wanted);
        let log = world.log();
        let moves = |op| matches!(op, Op::Read | Op::Write);
        assert!(log.iter().all(|asked| asked.blocks <= max_request_blocks || !moves(asked.op)));
        assert!(log.iter().any(|request| !request.edges.is_none()));
    }
}

#[test]
fn whole_blocks_are_asked_for_as_such() {
    let world = World::new(config(BLOCKS));
    let file = world.open();
    file.write_all_at(&pattern(3, 5), 3 * BLOCK).expect("a write");
    file.read_exact_at(&mut vec![0; 5 * BLOCK_BYTES], 3 * BLOCK).expect("a read");
    assert!(world.log().iter().all(|request| request.edges.is_none()));
    file.read_exact_at(&mut [0; 10], 4 * BLOCK - 5).expect("a read");
    let last = world.log().pop().expect("a read");
    assert_eq!((last.op, last.lba.0, last.blocks), (Op::Read, 3, 2));
}

#[test]
fn the_file_can_be_mapped() {
    let world = World::new(config(BLOCKS));
    let file = world.open_with(0);
    file.write_all_at(&pattern(0, 8), 0).expect("a write");
    let (protection, length) = (ProtFlags::READ | ProtFlags::WRITE, 8 * BLOCK_BYTES);
    #[allow(unsafe_code)]
    // SAFETY: a new mapping at an address that the kernel chooses, unmapped below, and not used
    // after that.
    unsafe {
        let at = mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, &file, 0);
        let at = at.expect("a shared mapping");
        let bytes = std::slice::from_raw_parts_mut(at.cast::<u8>(), length);
        assert!(*bytes == pattern(0, 8)[..], "what was written is mapped");
        bytes[5000..5010].fill(7);
        msync(at, length, MsyncFlags::SYNC).expect("a flush");
        munmap(at, length).expect("an end");
    }
    let mut wanted = pattern(0, 8);
    wanted[5000..5010].fill(7);
    let mut back = vec![0; length];
    world.open().read_exact_at(&mut back, 0).expect("a read");
    assert!(back == wanted, "what was mapped is written");
    assert!(world.count(Op::Write) >= 2);
}

/// A loop device that is detached when this is dropped.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        run(Command::new("losetup").args(["--detach", &self.0]), "mount");
    }
}

#[test]
fn a_loop_device_of_small_sectors_works() {
    let world = World::new(config(4000));
    for direct in ["off", "on"] {
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--sector-size=512"]);
        losetup.arg(format!("--direct-io={direct}")).arg(world.path());
        let device = Loop(run(&mut losetup, "mount").trim().to_owned());
        let disk = File::options().read(true).write(true).open(&device.0).expect("a disk");
        run(Command::new("mkfs.vfat").args(["-S", "512", &device.0]), "dosfstools");
        run(Command::new("fsck.vfat").args(["-n", &device.0]), "dosfstools");
        let data = &pattern(1, 3)[..3 * 512];
        disk.write_all_at(data, 5 * 512).expect("a write");
        disk.sync_all().expect("a flush");
        let mut back = vec![0; data.len()];
        world.open().read_exact_at(&mut back, 5 * 512).expect("a read");
        assert!(back == data);
        drop(disk);
    }
}
