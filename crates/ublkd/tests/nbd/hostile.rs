//! Hostile or broken clients. Whatever they do, the next one is served. Their messages are chosen
//! here; the fuzz target `nbd` sends arbitrary ones.

use std::io::Write;
use std::time::Duration;

use ublkd::front::nbd::NbdLimits;

use crate::client::{DF, DISCONNECT, EIO, READ, WRITE, header};
use crate::world::{World, config, pattern};

/// Checks that the server serves, and has all its buffers.
fn assert_serves(world: &World) {
    world.wait_for_all_buffers();
    let mut client = world.connect().ready(true);
    let data = pattern(7, 100);
    assert_eq!(client.write(0, 0, &data), 0);
    assert!(client.read(0, 0, 100 * 4096).data == data);
    client.request(DISCONNECT, 0, 0, 0);
    assert_eq!(client.rest(), b"");
}

/// Limits that make a test short.
fn impatient() -> NbdLimits {
    NbdLimits {
        handshake: Duration::from_millis(50),
        patience: Duration::from_millis(50),
        ..NbdLimits::default()
    }
}

#[test]
fn an_option_that_never_ends_is_cut_off() {
    let world = World::new();
    let mut client = world.connect();
    client.greet(3);
    let head = [77u32.to_be_bytes(), u32::MAX.to_be_bytes()].concat();
    client.send(&[b"IHAVEOPT", &head[..]].concat());
    assert_eq!(client.rest(), b"");
    assert_serves(&world);
}

#[test]
fn options_without_end_are_cut_off() {
    let world = World::new();
    let mut client = world.connect();
    client.greet(3);
    for _ in 0..64 {
        client.option(77, &[]);
    }
    assert_eq!(client.rest(), b"");
    assert_serves(&world);
}

#[test]
fn a_client_that_does_not_negotiate_is_cut_off() {
    let world = World::with(config(), impatient());
    let mut silent = world.connect();
    let mut hesitant = world.connect();
    hesitant.greet(3);
    hesitant.send(b"IHAVEOPT");
    silent.rest();
    assert_eq!(hesitant.rest(), b"");
}

#[test]
fn a_client_that_is_idle_between_requests_is_not() {
    let world = World::with(config(), impatient());
    let mut idle = world.connect().ready(true);
    let mut silent = world.connect();
    silent.rest();
    assert_eq!(idle.read(0, 0, 4096).error, 0, "longer than all limits");
}

#[test]
fn a_payload_that_does_not_come_is_not_waited_for() {
    let world = World::with(config(), impatient());
    for sent in [0, 1, 5000, 100 * 4096] {
        let mut client = world.connect().ready(true);
        client.request(WRITE, 0, 0, 200 * 4096);
        client.send(&vec![1; sent]);
        client.rest();
    }
    let mut client = world.connect().ready(true);
    client.request(WRITE, 0, 1, 4096);
    client.rest();
    assert_serves(&world);
}

#[test]
fn a_client_that_takes_no_replies_is_cut_off_and_holds_its_share_until_then() {
    let limits =
        NbdLimits { buffers: 4, patience: Duration::from_secs(3600), ..NbdLimits::default() };
    let world = World::with(config(), limits);
    let mut greedy = world.connect().ready(true);
    let requests: Vec<u8> =
        (0..128).flat_map(|handle| header(READ, 0, handle, 0, 32 << 20)).collect();
    greedy.send(&requests);
    // If the greedy client had everything, this would wait for an hour.
    let mut other = world.connect().ready(true);
    for _ in 0..10 {
        assert_eq!(other.read(0, 0, 64 * 4096).error, 0);
    }
    drop(greedy);
    assert_serves(&world);

    let world = World::with(config(), impatient());
    let mut greedy = world.connect().ready(true);
    let error = (0..).find_map(|_| greedy.stream.write_all(&requests).err());
    let kind = error.expect("it has an end").kind();
    assert_ne!(kind, std::io::ErrorKind::WouldBlock, "the server does not close");
    assert_serves(&world);
}

/// Limits with which a slow client is never cut off, and no buffer waits for one for long.
fn lenient() -> NbdLimits {
    let for_ever = Duration::from_secs(3600);
    NbdLimits { patience: for_ever, linger: Duration::from_millis(5), ..NbdLimits::default() }
}

/// Checks that another connection, and another front end, are served whatever these clients hold.
fn assert_others_are_served(world: &World) {
    let mut other = world.connect().ready(true);
    let share = world.volume.share();
    for turn in 0..10 {
        assert_eq!(other.read(0, 0, 256 * 4096).error, 0);
        assert_eq!(other.write(0, 200 * 4096, &pattern(turn, 100)), 0);
        drop(share.buffer_blocking());
    }
}

#[test]
fn clients_that_take_no_replies_keep_no_others_from_being_served() {
    let world = World::with(config(), lenient());
    let data = pattern(0, 200);
    assert_eq!(world.connect().ready(true).write(0, 0, &data), 0);
    // Many more than there are buffers; each asks for more than its socket holds, in all ways.
    let mut greedy: Vec<_> = (0..20).map(|at| world.connect().ready(at % 3 != 0)).collect();
    let asked: Vec<Vec<u64>> = greedy
        .iter_mut()
        .enumerate()
        .map(|(at, client)| {
            let (flags, blocks) = if at % 3 == 1 { (DF, 200) } else { (0, 64 + at as u32) };
            (0..40).map(|_| client.request(READ, flags, 0, blocks * 4096)).collect()
        })
        .collect();
    assert_others_are_served(&world);

    // The data that they get at last is right.
    for ((at, client), asked) in greedy.iter_mut().enumerate().zip(asked) {
        let blocks = if at % 3 == 1 { 200 } else { 64 + at };
        for outcome in client.outcomes(&asked, 0, blocks as u32 * 4096) {
            assert!(outcome.error == 0 && outcome.data == data[..blocks * 4096], "client {at}");
        }
    }
    drop(greedy);
    assert_serves(&world);
}

#[test]
fn a_read_that_fails_when_it_is_repeated_is_told() {
    let world = World::with(config(), lenient());
    let mut greedy = world.connect().ready(true);
    let asked: Vec<_> = (0..60).map(|_| greedy.request(READ, 0, 0, 128 * 4096)).collect();
    // It holds as many as it may, and then has to give them back.
    let free = || std::iter::from_fn(|| world.volume.try_buffer()).collect::<Vec<_>>().len();
    while free() > 4 {
        std::thread::yield_now();
    }
    world.wait_for_all_buffers();
    world.back_end.memory().broken.push(100);
    let outcomes = greedy.outcomes(&asked, 0, 128 * 4096);
    assert_eq!(outcomes[59].error, EIO);
    world.back_end.memory().broken.clear();
    assert_serves(&world);
}

#[test]
fn payloads_that_do_not_come_keep_no_others_from_being_served() {
    let world = World::with(config(), lenient());
    let mut hesitant: Vec<_> = (0..30).map(|_| world.connect().ready(true)).collect();
    let data = pattern(300, 60);
    let handles: Vec<_> = hesitant
        .iter_mut()
        .zip(20..)
        .map(|(client, at)| {
            let handle = client.request(WRITE, 0, (at * 60 + 300) * 4096, 60 * 4096);
            client.send(&data[..70_000]);
            handle
        })
        .collect();
    assert_others_are_served(&world);
    for (client, handle) in hesitant.iter_mut().zip(handles) {
        client.send(&data[70_000..]);
        assert_eq!(client.outcome(handle, 0, 0).error, 0);
    }
    let mut reader = world.connect().ready(true);
    for at in 20..50 {
        assert!(reader.read(0, (at * 60 + 300) * 4096, 60 * 4096).data == data);
    }
    drop(hesitant);
    assert_serves(&world);
}

#[test]
fn an_oversize_write_ends_the_connection() {
    let world = World::new();
    let mut client = world.connect().ready(true);
    client.request(WRITE, 0, 0, (32 << 20) + 4096);
    client.rest();
    assert!(world.log().is_empty());
    assert_serves(&world);
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let limits = NbdLimits { connections: 2, ..NbdLimits::default() };
    let world = World::with(config(), limits);
    let mut first = world.connect().ready(true);
    let mut second = world.connect().ready(true);
    assert_eq!(world.connect().rest(), b"");
    assert_eq!(second.read(0, 0, 4096).error, 0);
    first.request(DISCONNECT, 0, 0, 0);
    assert_eq!(first.rest(), b"");
    drop(first);
    // The server counts the first one until its task has ended, which may be a moment later.
    let again = (0..10_000).any(|_| {
        let mut client = world.connect();
        let mut magic = [0; 8];
        let served = std::io::Read::read(&mut client.stream, &mut magic);
        served.is_ok_and(|bytes| bytes > 0)
    });
    assert!(again);
}

#[test]
fn idle_negotiations_give_way_the_oldest_first() {
    let limits =
        NbdLimits { connections: 2, handshake: Duration::from_secs(3600), ..NbdLimits::default() };
    let world = World::with(config(), limits);
    let mut served = world.connect().ready(true);
    let mut hesitant = world.connect();
    hesitant.greet(3);
    hesitant.send(b"IHAVEOPT");
    for _ in 0..5 {
        let mut next = world.connect();
        assert_eq!(hesitant.rest(), b"", "it is sent away for the next");
        next.greet(3);
        hesitant = next;
    }
    let mut other = world.connect().ready(true);
    assert_eq!(hesitant.rest(), b"");
    for client in [&mut served, &mut other] {
        assert_eq!(client.read(0, 0, 4096).error, 0);
    }
}
