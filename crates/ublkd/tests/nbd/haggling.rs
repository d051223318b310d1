//! The negotiation, byte by byte.

use crate::client::{
    ABORT, ACK, Client, ERR, ERR_INVALID, EXPORT_NAME, FUA, GO, OptionReply, STARTTLS,
    STRUCTURED_REPLY, WRITE, go, string,
};
use crate::world::{BLOCK, World, config, pattern};

const LIST: u32 = 3;
const INFO: u32 = 6;
const LIST_META_CONTEXT: u32 = 9;
const SET_META_CONTEXT: u32 = 10;

const ERR_UNSUP: u32 = ERR + 1;
const ERR_POLICY: u32 = ERR + 2;
const ERR_UNKNOWN: u32 = ERR + 6;

/// Flush, FUA, trim, write-zeroes, several connections, fast zeroes; and that there are flags.
const FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8 | 1 << 11;
const SEND_DF: u16 = 1 << 7;

fn haggling(world: &World) -> Client {
    let mut client = world.connect();
    client.greet(3);
    client
}

fn kinds(replies: &[OptionReply]) -> Vec<u32> {
    replies.iter().map(|reply| reply.kind).collect()
}

/// Checks that the reply is this error, with a text.
fn assert_refused(replies: &[OptionReply], kind: u32) {
    assert_eq!(kinds(replies), [kind]);
    let words = String::from_utf8(replies[0].data.clone()).expect("words");
    assert!(!words.is_empty());
}

fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| string(query)));
    data
}

#[test]
fn the_array_is_listed() {
    let world = World::new();
    let mut client = haggling(&world);
    let replies = client.option(LIST, &[]);
    assert_eq!(kinds(&replies), [2, ACK]);
    assert!(replies[0].data.starts_with(&string("tank")));
    assert_refused(&client.option(LIST, &[0]), ERR_INVALID);
}

#[test]
fn go_tells_size_flags_and_block_sizes() {
    let world = World::new();
    for name in ["", "tank"] {
        let mut client = haggling(&world);
        let replies = client.option(GO, &go(name, &[1, 2, 77]));
        assert_eq!(kinds(&replies), [3, 3, 3, 3, ACK]);
        let bytes = (config().blocks * BLOCK).to_be_bytes();
        assert_eq!(replies[0].data, [&[0, 0][..], &bytes, &FLAGS.to_be_bytes()].concat());
        // A stripe of 48 blocks is no power of two, so a chunk is preferred.
        let sizes = [4096u32, 16 * 4096, 32 << 20].map(u32::to_be_bytes).concat();
        assert_eq!(replies[1].data, [&[0, 3][..], &sizes].concat());
        assert_eq!(replies[2].data, b"\0\x01tank");
        assert_eq!(replies[3].data[..2], [0, 2]);
        assert_eq!(client.write(0, 0, &pattern(0, 1)), 0, "transmission has begun");
    }
}

#[test]
fn who_connects_when_the_array_has_grown_sees_it() {
    let world = World::new();
    let mut before = world.connect().ready(false);
    let end = config().blocks * BLOCK;
    assert_ne!(before.write(0, end, &pattern(0, 1)), 0, "behind the end");
    world.volume.size().grow(config().blocks + 7);
    let replies = haggling(&world).option(GO, &go("tank", &[]));
    assert_eq!(replies[0].data[2..10], (end + 7 * BLOCK).to_be_bytes());
    // The size that a client knows is its own affair.
    assert_eq!(before.write(0, end, &pattern(0, 1)), 0);
}

#[test]
fn info_says_the_same_as_go_and_stays() {
    let world = World::new();
    let mut client = haggling(&world);
    client.option(STRUCTURED_REPLY, &[]);
    let info = client.option(INFO, &go("tank", &[3]));
    let go = client.option(GO, &go("tank", &[3]));
    let data = |replies: &[OptionReply]| replies.iter().map(|r| r.data.clone()).collect::<Vec<_>>();
    assert_eq!(data(&info), data(&go));
    assert_eq!(info[0].data[10..], (FLAGS | SEND_DF).to_be_bytes());
}

#[test]
fn export_name_pads_unless_told_not_to() {
    let world = World::new();
    for (flags, padding) in [(1, 124), (3, 0), (0, 124)] {
        let mut client = world.connect();
        client.greet(flags);
        client.send_option(EXPORT_NAME, b"tank");
        assert_eq!(client.u64(), config().blocks * BLOCK);
        assert_eq!(client.u16(), FLAGS);
        assert_eq!(client.take(padding), vec![0; padding]);
        assert_eq!(client.write(0, 0, &pattern(0, 1)), 0);
    }
}

#[test]
fn other_exports_are_unknown() {
    let world = World::new();
    let mut client = haggling(&world);
    client.option(STRUCTURED_REPLY, &[]);
    assert_refused(&client.option(INFO, &go("tan", &[])), ERR_UNKNOWN);
    assert_refused(&client.option(GO, &go("tank2", &[])), ERR_UNKNOWN);
    for option in [LIST_META_CONTEXT, SET_META_CONTEXT] {
        assert_refused(&client.option(option, &contexts("x", &[])), ERR_UNKNOWN);
    }
    client.send_option(EXPORT_NAME, b"tank2");
    assert_eq!(client.rest(), b"", "there is no way to say no but to close");
}

#[test]
fn unknown_options_and_tls_are_refused_and_the_rest_goes_on() {
    let world = World::new();
    let mut client = haggling(&world);
    assert_refused(&client.option(STARTTLS, &[]), ERR_POLICY);
    for option in [0, 4, 11, 12, u32::MAX] {
        assert_refused(&client.option(option, &[7; 1000]), ERR_UNSUP);
    }
    assert_eq!(kinds(&client.option(GO, &go("", &[])))[..], [3, 3, ACK]);
}

#[test]
fn malformed_options_are_refused_and_the_rest_goes_on() {
    let world = World::new();
    let mut client = haggling(&world);
    assert_refused(&client.option(STRUCTURED_REPLY, &[1]), ERR_INVALID);
    assert_refused(&client.option(SET_META_CONTEXT, &contexts("", &[])), ERR_INVALID);
    client.option(STRUCTURED_REPLY, &[]);
    let good = go("tank", &[3, 1]);
    let longer = [&good[..], &[0]].concat();
    for bad in (0..good.len()).map(|end| &good[..end]).chain([&longer[..]]) {
        assert_refused(&client.option(GO, bad), ERR_INVALID);
    }
    let good = contexts("tank", &["base:allocation", ""]);
    let longer = [&good[..], &[0]].concat();
    for bad in (0..good.len()).map(|end| &good[..end]).chain([&longer[..]]) {
        assert_refused(&client.option(SET_META_CONTEXT, bad), ERR_INVALID);
    }
    let many = [&string("")[..], &u32::MAX.to_be_bytes()].concat();
    assert_refused(&client.option(LIST_META_CONTEXT, &many), ERR_INVALID);
    let replies = client.option(GO, &go("", &[]));
    assert_eq!(replies.last().map(|reply| reply.kind), Some(ACK));
}

#[test]
fn contexts_are_listed_and_set_as_the_protocol_says() {
    let world = World::new();
    let mut client = haggling(&world);
    client.option(STRUCTURED_REPLY, &[]);
    let mut ask = |option, queries: &[&str]| {
        let mut replies = client.option(option, &contexts("tank", queries));
        assert_eq!(replies.pop().map(|reply| reply.kind), Some(ACK));
        assert!(replies.iter().all(|reply| reply.kind == 4));
        replies.into_iter().map(|reply| reply.data).collect::<Vec<_>>()
    };
    let listed = [b"\0\0\0\0base:allocation".to_vec()];
    for queries in [&[][..], &["base:"], &["x:y", "base:allocation", "base:"]] {
        assert_eq!(ask(LIST_META_CONTEXT, queries), listed);
    }
    assert!(ask(LIST_META_CONTEXT, &["x:", "base:other", "base"]).is_empty());
    for queries in [&[][..], &["base:"], &["base:other"], &["qemu:allocation-depth"]] {
        assert!(ask(SET_META_CONTEXT, queries).is_empty(), "{queries:?}");
    }
    let set = ask(SET_META_CONTEXT, &["base:allocation", "base:allocation"]);
    assert_eq!(set, [b"\0\0\0\x01base:allocation".to_vec()]);
}

#[test]
fn an_abort_is_acknowledged_and_ends() {
    let world = World::new();
    let mut client = haggling(&world);
    assert_eq!(kinds(&client.option(ABORT, b"because")), [ACK]);
    assert_eq!(client.rest(), b"");
}

#[test]
fn unknown_flags_and_options_without_the_fixed_handshake_end_it() {
    let world = World::new();
    for flags in [4, 1 << 16, u32::MAX] {
        let mut client = world.connect();
        client.greet(flags);
        assert_eq!(client.rest(), b"");
    }
    let mut client = world.connect();
    client.greet(2);
    client.send_option(LIST, &[]);
    assert_eq!(client.rest(), b"");
}

#[test]
fn requests_may_follow_the_last_option_at_once() {
    let world = World::new();
    let mut client = haggling(&world);
    client.send_option(GO, &go("", &[]));
    let handle = client.request(WRITE, FUA, 0, 4096);
    client.send(&pattern(3, 1));
    while client.option_reply().kind != ACK {}
    assert_eq!(client.outcome(handle, 0, 0).error, 0);
    assert_eq!(world.back_end.memory().blocks[&0], pattern(3, 1));
}
