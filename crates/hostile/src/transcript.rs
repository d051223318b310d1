//! Whether an NBD server's answers match its client's messages by the protocol. The rules are
//! written down here independently of the server.

use std::collections::BTreeMap;

use crate::client::{
    ABORT, ACK, DISCONNECT, EINVAL, ENOSPC, ENOTSUP, EOVERFLOW, ERR, ESHUTDOWN, EXPORT_NAME, GO,
    READ, STRUCTURED_REPLY, WRITE,
};
use crate::world::{BLOCK, config};
const FIXED_NEWSTYLE: u32 = 1;
const NO_ZEROES: u32 = 2;

/// The server's limits, as documented.
const OPTIONS_MAX: usize = 64;
const OPTION_BYTES_MAX: usize = 64 << 10;
const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Bytes from the front.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn u16(&mut self) -> Option<u16> {
        Some(self.number(2)? as u16)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(self.number(4)? as u32)
    }
}

/// Checks everything `heard` as the answer to everything `said` to the server of a volume with this name;
/// `hung_up` if the client did not listen to the end.
pub(crate) fn check((said, heard): (&[u8], &[u8]), name: &str, hung_up: bool) {
    let (mut said, mut heard) = (Words(said), Words(heard));
    assert_eq!(heard.take(18), Some(&b"NBDMAGICIHAVEOPT\0\x03"[..]), "the greeting");
    let Some(structured) = negotiation(&mut said, &mut heard, name) else {
        assert!(heard.0.is_empty(), "a client that was cut off is told more");
        return;
    };
    let (requests, orderly) = requests(&mut said);
    let distinct: BTreeMap<u64, Request> =
        requests.iter().map(|request| (request.handle, *request)).collect();
    // Answers to requests with the same cookie can't be told apart.
    if distinct.len() == requests.len() {
        let whole = replies(&mut heard, distinct, structured);
        assert!(whole || hung_up || !orderly, "an orderly client is cut off");
    }
}

/// Whether replies are structured, if the negotiation came to its end.
fn negotiation(said: &mut Words<'_>, heard: &mut Words<'_>, name: &str) -> Option<bool> {
    let flags = said.u32().filter(|flags| flags & !(FIXED_NEWSTYLE | NO_ZEROES) == 0)?;
    let mut structured = false;
    for _ in 0..OPTIONS_MAX {
        said.take(8).filter(|magic| magic == b"IHAVEOPT")?;
        let option = said.u32()?;
        let length = said.u32()? as usize;
        if length > OPTION_BYTES_MAX || (option != EXPORT_NAME && flags & FIXED_NEWSTYLE == 0) {
            return None;
        }
        let data = said.take(length)?;
        if option == EXPORT_NAME {
            if !data.is_empty() && data != name.as_bytes() {
                return None;
            }
            assert_eq!(heard.number(8), Some(config().blocks * BLOCK));
            let padding = if flags & NO_ZEROES == 0 { 124 } else { 0 };
            assert!(heard.u16().is_some_and(|flags| flags & 1 != 0));
            assert!(heard.take(padding).is_some_and(|zeros| zeros.iter().all(|&zero| zero == 0)));
            return Some(structured);
        }
        match (option, final_reply(option, heard)) {
            (ABORT, ACK) => return None,
            (GO, ACK) => return Some(structured),
            (STRUCTURED_REPLY, ACK) => structured = true,
            _ => {}
        }
    }
    None
}

/// The kind of an option's last reply.
fn final_reply(option: u32, heard: &mut Words<'_>) -> u32 {
    loop {
        assert_eq!(heard.number(8), Some(0x0003_e889_0455_65a9), "option {option} has no answer");
        assert_eq!(heard.u32(), Some(option));
        let (kind, length) = (heard.u32().unwrap_or(0), heard.u32().unwrap_or(u32::MAX));
        let data = heard.take(length as usize).expect("a reply is whole");
        if kind & ERR != 0 {
            assert!(std::str::from_utf8(data).is_ok_and(|words| !words.is_empty()));
            return kind;
        }
        if kind == ACK {
            assert!(data.is_empty());
            return kind;
        }
        assert!((2..=4).contains(&kind), "a reply of kind {kind}");
    }
}

#[derive(Clone, Copy)]
struct Request {
    handle: u64,
    command: u16,
    length: u32,
    /// Whether all of it was sent; only a payload can be cut off.
    whole: bool,
    /// Bytes of data that have come for it.
    got: u32,
}

impl Request {
    /// Whether the server may answer with this error. The back end makes none.
    fn may_fail_with(&self, error: u32) -> bool {
        [EINVAL, ENOSPC, EOVERFLOW, ENOTSUP].contains(&error) || (error == ESHUTDOWN && !self.whole)
    }
}

/// The requests, and whether the client then disconnected properly.
fn requests(said: &mut Words<'_>) -> (Vec<Request>, bool) {
    let mut requests = Vec::new();
    while !said.0.is_empty() {
        let mut header = Words(said.take(28).unwrap_or(&[]));
        if header.u32() != Some(0x2560_9513) {
            return (requests, false);
        }
        header.u16();
        let command = header.u16().unwrap_or(0);
        let handle = header.number(8).unwrap_or(0);
        header.number(8);
        let length = header.u32().unwrap_or(0);
        if command == DISCONNECT {
            break;
        }
        let writes = command == WRITE;
        let fits = !writes || length <= PAYLOAD_BYTES_MAX;
        let whole = fits && (!writes || said.take(length as usize).is_some());
        requests.push(Request { handle, command, length, whole, got: 0 });
        if !whole {
            return (requests, false);
        }
    }
    (requests, true)
}

/// Decodes the replies. Returns whether each request has one, the last one complete.
fn replies(heard: &mut Words<'_>, mut waiting: BTreeMap<u64, Request>, structured: bool) -> bool {
    while !heard.0.is_empty() {
        let handle = match heard.u32() {
            Some(0x6744_6698) => simple_reply(heard, &waiting, structured),
            Some(0x668e_33ef) if structured => chunk(heard, &mut waiting),
            Some(other) => panic!("a reply with magic number {other:#x}"),
            None => return false,
        };
        match handle {
            None => return false,
            Some(Ended::Yes(handle)) => assert!(waiting.remove(&handle).is_some()),
            Some(Ended::No) => {}
        }
    }
    waiting.is_empty()
}

/// Whether a reply was the last one of its request.
enum Ended {
    Yes(u64),
    No,
}

/// `None` if the reply is cut off.
fn simple_reply(
    heard: &mut Words<'_>,
    waiting: &BTreeMap<u64, Request>,
    structured: bool,
) -> Option<Ended> {
    let (error, handle) = (heard.u32()?, heard.number(8)?);
    let request = waiting.get(&handle).expect("an answer to a request that is waiting");
    assert!(error == 0 || request.may_fail_with(error), "error {error}");
    if request.command == READ && error == 0 {
        assert!(!structured, "a read has to be answered in chunks");
        heard.take(request.length as usize)?;
    }
    Some(Ended::Yes(handle))
}

/// `None` if the chunk is cut off.
fn chunk(heard: &mut Words<'_>, waiting: &mut BTreeMap<u64, Request>) -> Option<Ended> {
    let (flags, kind, handle) = (heard.u16()?, heard.u16()?, heard.number(8)?);
    let length = heard.u32()?;
    let request = waiting.get_mut(&handle).expect("a chunk for a request that is waiting");
    let done = flags == 1;
    assert!(flags <= 1, "flags {flags:#x}");
    let mut data = Words(heard.take(length as usize)?);
    match kind {
        0 => assert!(done && length == 0 && request.got == request.length),
        1 => {
            assert!(request.command == READ && length > 8);
            request.got += length - 8;
            assert!(!done || request.got == request.length, "data are missing");
        }
        5 => assert_eq!((length, data.u32(), done), (12, Some(1), true)),
        0x8001 => {
            assert!(done && data.u32().is_some_and(|error| request.may_fail_with(error)));
            let words = data.u16().map_or(0, usize::from);
            assert_eq!(data.0.len(), words);
        }
        other => panic!("a chunk of type {other:#x}"),
    }
    Some(if done { Ended::Yes(handle) } else { Ended::No })
}
