//! The effects of requests on the volume, and their replies.

use raidcore::engine::Op;
use raidcore::units::Lba;
use ublkd::front::nbd::NbdLimits;
use ublkd::volume::{Edges, Submit};

use crate::client::{
    BLOCK_STATUS, CACHE, Chunk, Content, DF, DISCONNECT, EINVAL, EIO, ENOSPC, ENOTSUP, EOVERFLOW,
    FAST_ZERO, FLUSH, FUA, NO_HOLE, READ, TRIM, WRITE, WRITE_ZEROES,
};
use crate::world::{BLOCK, World, config, pattern};

const END: u64 = (64 << 8) * BLOCK;

fn submit(op: Op, lba: u64, blocks: u32, fua: bool) -> Submit {
    Submit { op, lba: Lba(lba), blocks, fua, edges: Edges::NONE }
}

#[test]
fn what_was_written_is_read_at_any_size() {
    let world = World::new();
    for structured in [true, false] {
        let mut client = world.connect().ready(structured);
        for (lba, blocks) in [(0, 1), (5, 64), (63, 65), (100, 1000), (8000, 8192)] {
            let data = pattern(lba + u64::from(structured), blocks);
            assert_eq!(client.write(0, lba * BLOCK, &data), 0);
            let length = data.len() as u32;
            for flags in [0, FUA, if structured { DF } else { 0 }] {
                let outcome = client.read(flags, lba * BLOCK, length);
                assert_eq!(outcome.error, 0);
                assert!(outcome.data == data, "{structured} {lba} {blocks} {flags}");
            }
        }
    }
}

#[test]
fn a_large_request_is_cut_at_stripes() {
    let world = World::new();
    let mut client = world.connect().ready(true);
    assert_eq!(client.write(FUA, 40 * BLOCK, &pattern(0, 100)), 0);
    let cut = [(40, 8), (48, 48), (96, 44)];
    let writes = cut.map(|(lba, blocks)| submit(Op::Write, lba, blocks, true));
    assert_eq!(world.log(), writes);
    assert_eq!(client.read(0, 40 * BLOCK, 100 * 4096).pieces, 3);
    assert_eq!(client.read(DF, 40 * BLOCK, 100 * 4096).pieces, 1);
    assert_eq!(client.read(0, 40 * BLOCK, 64 * 4096).pieces, 1, "a buffer holds it");
}

#[test]
fn commands_reach_the_volume() {
    let world = World::new();
    let mut client = world.connect().ready(true);
    let data = pattern(0, 96);
    assert_eq!(client.write(0, 0, &data), 0);
    assert_eq!(client.command(FLUSH, 0, 0, 0), 0);
    assert_eq!(client.command(TRIM, FUA, 0, 4096), 0);
    assert_eq!(client.command(WRITE_ZEROES, 0, 4096, 4096), 0);
    assert_eq!(client.command(WRITE_ZEROES, NO_HOLE | FUA, 8192, 4096), 0);
    let fast = client.command(WRITE_ZEROES, FAST_ZERO, 48 * BLOCK, 48 * 4096);
    assert_eq!(fast, 0, "a stripe");
    let expected = [
        submit(Op::Write, 0, 48, false),
        submit(Op::Write, 48, 48, false),
        submit(Op::Flush, 0, 0, false),
        submit(Op::Discard, 0, 1, true),
        submit(Op::Discard, 1, 1, false),
        submit(Op::WriteZeroes, 2, 1, true),
        submit(Op::Discard, 48, 48, false),
    ];
    assert_eq!(world.log(), expected);
    for fast in [FAST_ZERO, FAST_ZERO | NO_HOLE] {
        let slow = client.command(WRITE_ZEROES, fast, 3 * BLOCK, 48 * 4096);
        assert_eq!(slow, ENOTSUP, "no stripe");
    }
    let rest = client.read(0, 0, 96 * 4096).data;
    assert!(rest[..3 * 4096].iter().all(|&byte| byte == 0));
    assert!(rest[3 * 4096..48 * 4096] == data[3 * 4096..48 * 4096]);
    assert!(rest[48 * 4096..].iter().all(|&byte| byte == 0));
}

#[test]
fn the_whole_can_be_zeroed_at_once_where_it_is_larger_than_a_part() {
    let huge = ublkd::volume::VolumeConfig { blocks: 1 << 20, ..config() };
    let world = World::with(huge, NbdLimits::default());
    let mut client = world.connect().ready(false);
    let most = u32::MAX - 4095;
    assert_eq!(client.command(WRITE_ZEROES, NO_HOLE, BLOCK, most), 0);
    let log = world.log();
    assert!(log.len() > 1);
    let mut at = 1;
    for part in &log {
        assert_eq!((part.op, part.lba), (Op::WriteZeroes, Lba(at)));
        at += u64::from(part.blocks);
    }
    assert_eq!(at, 1 << 20);
}

#[test]
fn all_is_data() {
    let world = World::new();
    let mut client = world.connect().ready(true);
    let handle = client.request(BLOCK_STATUS, 0, 4096, 1 << 20);
    let status = Content::Status { context: 1, extents: vec![(1 << 20, 0)] };
    let expected = Chunk { handle, done: true, content: status };
    assert_eq!(client.chunk(), expected);
    assert_eq!(client.command(BLOCK_STATUS, 0, 0, 0), EINVAL);
    assert_eq!(client.command(BLOCK_STATUS, 0, END, 4096), EINVAL);
    let mut client = world.connect().ready(false);
    assert_eq!(client.command(BLOCK_STATUS, 0, 0, 4096), EINVAL, "not agreed on");
}

#[test]
fn bad_requests_are_refused_and_the_connection_stays() {
    let world = World::new();
    for structured in [true, false] {
        let mut client = world.connect().ready(structured);
        let refused = [
            (READ, 0, 1, 4096, EINVAL),
            (READ, 0, 0, 4095, EINVAL),
            (READ, 0, END, 4096, EINVAL),
            (READ, 0, END - BLOCK, 8192, EINVAL),
            (READ, 0, u64::MAX - 4095, 8192, EINVAL),
            (READ, NO_HOLE, 0, 4096, EINVAL),
            (READ, 1 << 15, 0, 4096, EINVAL),
            (READ, 0, 0, (32 << 20) + 4096, if structured { EOVERFLOW } else { EINVAL }),
            (TRIM, 0, END, 4096, EINVAL),
            (TRIM, NO_HOLE, 0, 4096, EINVAL),
            (TRIM, 0, 512, 4096, EINVAL),
            (WRITE_ZEROES, 0, END, 4096, ENOSPC),
            (WRITE_ZEROES, 0, 0, 512, EINVAL),
            (WRITE_ZEROES, DF, 0, 4096, EINVAL),
            (FLUSH, 0, 0, 4096, EINVAL),
            (FLUSH, 0, 4096, 0, EINVAL),
            (CACHE, 0, 0, 4096, EINVAL),
            (99, 0, 0, 0, EINVAL),
        ];
        for (command, flags, offset, length, error) in refused {
            let name = format!("{command} {flags} {offset} {length}");
            assert_eq!(client.command(command, flags, offset, length), error, "{name}");
        }
        let payload = pattern(0, 1000);
        for (offset, length, flags, error) in [
            (1, 4096, 0, EINVAL),
            (0, 100, 0, EINVAL),
            (END, 4096, 0, ENOSPC),
            (END - BLOCK, 1000 * 4096, FUA, ENOSPC),
            (0, 4096, NO_HOLE, EINVAL),
        ] {
            let error_said = client.write(flags, offset, &payload[..length]);
            assert_eq!(error_said, error, "{offset} {length}");
        }
        if !structured {
            assert_eq!(client.command(READ, DF, 0, 4096), EINVAL, "not agreed on");
        }
        for command in [READ, WRITE, TRIM, WRITE_ZEROES] {
            assert_eq!(client.command(command, 0, 4096, 0), 0, "nothing is nothing");
        }
        assert!(world.log().is_empty(), "{:?}", world.log());
        assert_eq!(client.read(0, END - BLOCK, 4096).error, 0);
        world.back_end.memory().log.clear();
    }
}

#[test]
fn errors_of_the_volume_reach_the_client() {
    let world = World::new();
    world.back_end.memory().broken.push(100);
    for structured in [true, false] {
        let mut client = world.connect().ready(structured);
        assert_eq!(client.write(0, 96 * BLOCK, &pattern(0, 8)), EIO);
        assert_eq!(client.write(0, 48 * BLOCK, &pattern(0, 1000)), EIO, "of several parts");
        assert_eq!(client.command(TRIM, 0, 100 * BLOCK, 4096), EIO);
        assert_eq!(client.command(READ, 0, 100 * BLOCK, 4096), EIO);
        if !structured {
            let first_part = client.command(READ, 0, 99 * BLOCK, 1000 * 4096);
            assert_eq!(first_part, EIO, "no data were sent yet");
        }
        assert_eq!(client.read(0, 0, 4096).error, 0);
    }
    let mut client = world.connect().ready(true);
    let outcome = client.read(0, 0, 200 * 4096);
    assert_eq!((outcome.error, outcome.pieces), (EIO, 4), "the parts before and after");
    let outcome = client.read(DF, 0, 200 * 4096);
    assert_eq!((outcome.error, outcome.pieces), (EIO, 1), "one chunk, and then the error");

    let mut client = world.connect().ready(false);
    let length = 200 * 4096;
    client.request(READ, 0, 0, length);
    assert!(client.rest().len() < length as usize, "cut amid the data");
}

#[test]
fn replies_come_when_they_are_ready() {
    let world = World::new();
    let mut client = world.connect().ready(true);
    world.back_end.hold();
    let held = client.request(READ, 0, 0, 4096);
    world.back_end.wait_for_request();
    let refused = client.request(READ, 0, 1, 4096);
    assert_eq!(client.outcome(refused, 0, 0).error, EINVAL);
    world.back_end.release();
    assert_eq!(client.outcome(held, 0, 4096).error, 0);
}

#[test]
fn more_than_all_limits_at_once_is_served() {
    let limits = NbdLimits { requests: 3, buffers: 1, ..NbdLimits::default() };
    let world = World::with(config(), limits);
    for structured in [true, false] {
        let mut client = world.connect().ready(structured);
        let data = pattern(0, 300);
        assert_eq!(client.write(0, 0, &data), 0);
        let mut reads = Vec::new();
        for _ in 0..20 {
            reads.push(client.request(READ, 0, 0, 300 * 4096));
            client.request(FLUSH, 0, 0, 0);
        }
        let mut bytes = 0;
        let mut done = 0;
        while done < 40 {
            let chunk = client.chunk();
            done += usize::from(chunk.done);
            match &chunk.content {
                Content::Data { data, .. } => bytes += data.len(),
                Content::Simple(0) if !structured && reads.contains(&chunk.handle) => {
                    bytes += client.take(data.len()).len();
                }
                Content::Simple(0) | Content::None => {}
                Content::Simple(_) | Content::Status { .. } | Content::Error { .. } => {
                    panic!("{:?}", chunk.content)
                }
            }
        }
        assert_eq!(bytes, 20 * data.len());
    }
}

#[test]
fn a_disconnect_waits_for_what_is_in_flight() {
    let world = World::new();
    let mut client = world.connect().ready(true);
    world.back_end.hold();
    let held = client.request(READ, 0, 0, 4096);
    client.request(DISCONNECT, 0, 0, 0);
    world.back_end.release();
    assert_eq!(client.outcome(held, 0, 4096).error, 0);
    assert_eq!(client.rest(), b"");
}

#[test]
fn a_half_closed_client_gets_its_replies() {
    let world = World::new();
    let mut client = world.connect().ready(true);
    world.back_end.hold();
    let held = client.request(READ, 0, 0, 4096);
    client.close_sending();
    world.back_end.release();
    assert_eq!(client.outcome(held, 0, 4096).error, 0);
    assert_eq!(client.rest(), b"");
}

#[test]
fn connections_see_each_others_writes() {
    let world = World::new();
    let mut one = world.connect().ready(true);
    let mut other = world.connect().ready(false);
    let data = pattern(9, 64);
    assert_eq!(one.write(0, 0, &data), 0);
    assert!(other.read(0, 0, 64 * 4096).data == data);
    assert_eq!(other.command(FLUSH, 0, 0, 0), 0);
    assert_eq!(world.log().last(), Some(&submit(Op::Flush, 0, 0, false)));
}
