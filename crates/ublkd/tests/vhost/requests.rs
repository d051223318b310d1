//! What a guest asks for, and gets.

use raidcore::engine::Op;
use raidcore::units::Lba;
use ublkd::front::LogicalBlock;
use ublkd::volume::Edges;

use crate::machine::{DISCARD, Data, FLUSH, GET_ID, READ, WRITE, WRITE_ZEROES};
use crate::world::{BLOCKS, World, pattern};

#[test]
fn what_was_written_is_read() {
    let world = World::new();
    let mut vm = world.vm(1);
    for blocks in [1, 2, 64, 65, 200, 256] {
        let data = pattern(blocks, blocks);
        vm.write(8 * blocks, &data);
        assert!(vm.read(8 * blocks, data.len() as u32) == data, "{blocks} blocks");
    }
    assert!(vm.read(8 * 5000, 1 << 20).iter().all(|&byte| byte == 0));
    vm.flush();
    assert_eq!(world.log().last().expect("a request").op, Op::Flush);
}

#[test]
fn sectors_are_parts_of_blocks() {
    let world = World::new();
    let mut vm = world.vm(1);
    let data = pattern(3, 2);
    vm.write(3, &data[..5 * 512]);
    let last = *world.log().last().expect("a write");
    assert_eq!((last.lba, last.blocks), (Lba(0), 1));
    assert_eq!(last.edges, Edges { front: 3 * 512, back: 0 });
    vm.write(13, &data[512..1024]);
    assert!(vm.read(3, 5 * 512) == data[..5 * 512]);
    assert!(vm.read(13, 512) == data[512..1024]);
    assert!(vm.read(0, 3 * 512).iter().all(|&byte| byte == 0));
}

#[test]
fn queues_have_their_own_answers() {
    let world = World::new();
    let mut vm = world.vm(4);
    let mut asked = Vec::new();
    for lba in 0..40u64 {
        let queue = (lba % 4) as u16;
        asked.push((queue, vm.ask(queue, WRITE, lba * 8, Data::Out(&pattern(lba, 1)))));
    }
    for queue in 0..4 {
        for _ in 0..10 {
            vm.wait(queue);
        }
    }
    for (queue, slot) in asked {
        assert_eq!(vm.outcome(queue, slot, 0).0, 0);
    }
    assert!(vm.read(0, 40 * 4096) == pattern(0, 40));
}

#[test]
fn blocks_are_discarded_and_zeroed() {
    let world = World::new();
    let mut vm = world.vm(1);
    vm.write(0, &pattern(0, 200));
    assert_eq!(vm.range(DISCARD, 8, 16, 0), 0);
    assert_eq!(vm.range(WRITE_ZEROES, 80, 12, 0), 0);
    assert_eq!(vm.range(WRITE_ZEROES, 160, 8, 1), 0);
    let ops: Vec<Op> =
        world.log().iter().map(|asked| asked.op).filter(|op| *op != Op::Write).collect();
    assert_eq!(ops, [Op::Discard, Op::WriteZeroes, Op::Discard]);
    let mut expected = pattern(0, 200);
    expected[4096..3 * 4096].fill(0);
    expected[80 * 512..92 * 512].fill(0);
    expected[160 * 512..168 * 512].fill(0);
    assert!(vm.read(0, 200 * 4096) == expected);
}

#[test]
fn a_driver_that_knows_no_flushes_gets_durable_writes() {
    let world = World::new();
    let mut vm = crate::machine::Vm::new(1);
    vm.flushes = false;
    vm.boot(&world.path());
    vm.write(0, &pattern(0, 1));
    assert_eq!(vm.range(DISCARD, 0, 8, 0), 0);
    assert_eq!(vm.range(WRITE_ZEROES, 8, 8, 0), 0);
    assert_eq!(vm.request(READ, 0, Data::In(4096)).0, 0);
    let durable: Vec<(Op, bool)> = world.log().iter().map(|asked| (asked.op, asked.fua)).collect();
    let (write, discard, zeros) = (Op::Write, Op::Discard, Op::WriteZeroes);
    assert_eq!(durable, [(write, true), (discard, true), (zeros, true), (Op::Read, false)]);
    let world = World::new();
    world.vm(1).write(0, &pattern(0, 1));
    assert!(!world.log().last().expect("a write").fua);
}

#[test]
fn the_disk_says_what_it_is() {
    for (size, exponent) in [(LogicalBlock::Whole, 0), (LogicalBlock::Small, 3)] {
        let world = World::with(|config| config.logical_block = size);
        let mut vm = world.vm(2);
        let config = vm.config();
        let word = |at: usize| u32::from_le_bytes(config[at..at + 4].try_into().expect("4 bytes"));
        assert_eq!(config[..8], (BLOCKS * 8).to_le_bytes());
        assert_eq!((word(20), config[24]), (size.bytes(), exponent));
        assert_eq!(word(28), 48 * 4096 / size.bytes(), "the best size is a stripe");
        assert_eq!(word(36), 1 << 21, "the longest discard");
        let (status, id) = vm.request(GET_ID, 0, Data::In(20));
        assert_eq!((status, &id[..]), (0, &b"tank\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..]));
    }
}

#[test]
fn what_is_not_there_is_refused() {
    let world = World::new();
    let mut vm = world.vm(1);
    let end = BLOCKS * 8;
    for (kind, sector, data) in [
        (READ, end, Data::In(512)),
        (READ, end - 1, Data::In(1024)),
        (READ, u64::MAX, Data::In(512)),
        (READ, u64::MAX / 512, Data::In(512)),
        (READ, 0, Data::In(100)),
        (WRITE, end, Data::Out(&[0; 512])),
        (WRITE, 0, Data::Out(&[0; 513])),
        (GET_ID, 0, Data::In(19)),
        (DISCARD, 0, Data::Out(&[0; 15])),
        (DISCARD, 0, Data::Out(&[0; 32])),
    ] {
        assert_eq!(vm.request(kind, sector, data).0, 1, "{kind} {sector}");
    }
    assert_eq!(vm.request(77, 0, Data::None).0, 2, "no such request");
    assert_eq!(vm.range(DISCARD, 0, 8, 1), 2, "a flag that discards don't have");
    assert_eq!(vm.range(WRITE_ZEROES, 0, 8, 2), 2);
    assert_eq!(vm.range(DISCARD, 0, (1 << 21) + 1, 0), 1);
    assert_eq!(vm.range(DISCARD, end - 8, 16, 0), 1);
    assert_eq!(vm.range(DISCARD, u64::MAX, 8, 0), 1);
    assert!(world.log().is_empty(), "nothing of it came to the array");
    assert_eq!(vm.range(DISCARD, 0, 0, 0), 0);
    assert_eq!(vm.request(READ, 0, Data::None).0, 0, "no bytes");
    assert_eq!(vm.request(FLUSH, u64::MAX, Data::None).0, 0, "a flush has no place");
}

#[test]
fn an_error_of_the_array_is_the_guests() {
    let world = World::new();
    let mut vm = world.vm(1);
    world.back_end.memory().broken = vec![100];
    assert_eq!(vm.request(READ, 0, Data::In(1 << 20)).0, 1);
    assert_eq!(vm.request(WRITE, 800, Data::Out(&[0; 512])).0, 1);
    assert_eq!(vm.request(READ, 0, Data::In(4096)).0, 0);
}
