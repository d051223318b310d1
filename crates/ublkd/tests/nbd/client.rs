//! A client that can send anything. Its numbers of the protocol are written down independently of
//! the server's.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The timeout for a server that should have answered or closed.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const BLOCK_STATUS: u16 = 7;

pub(crate) const FUA: u16 = 1;
pub(crate) const NO_HOLE: u16 = 2;
pub(crate) const DF: u16 = 4;
pub(crate) const FAST_ZERO: u16 = 16;

pub(crate) const EIO: u32 = 5;
pub(crate) const EINVAL: u32 = 22;
pub(crate) const ENOSPC: u32 = 28;
pub(crate) const EOVERFLOW: u32 = 75;
pub(crate) const ENOTSUP: u32 = 95;
pub(crate) const ESHUTDOWN: u32 = 108;

/// Options of the negotiation.
pub(crate) const EXPORT_NAME: u32 = 1;
pub(crate) const ABORT: u32 = 2;
pub(crate) const STARTTLS: u32 = 5;
pub(crate) const GO: u32 = 7;
pub(crate) const STRUCTURED_REPLY: u32 = 8;

pub(crate) const ACK: u32 = 1;
pub(crate) const ERR: u32 = 1 << 31;
pub(crate) const ERR_INVALID: u32 = ERR + 3;

/// A reply to an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OptionReply {
    pub(crate) option: u32,
    pub(crate) kind: u32,
    pub(crate) data: Vec<u8>,
}

/// A reply to a request, or a part of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    pub(crate) handle: u64,
    /// Whether more follow.
    pub(crate) done: bool,
    pub(crate) content: Content,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// A simple reply's error, or zero.
    Simple(u32),
    None,
    Data {
        offset: u64,
        data: Vec<u8>,
    },
    Status {
        context: u32,
        extents: Vec<(u32, u32)>,
    },
    Error {
        error: u32,
        text: String,
    },
}

/// The result of a read or other request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) error: u32,
    pub(crate) data: Vec<u8>,
    /// How many chunks of data there were.
    pub(crate) pieces: usize,
}

/// On a Unix socket, unless it is on another stream.
pub(crate) struct Client<S = UnixStream> {
    pub(crate) stream: S,
    handle: u64,
    structured: bool,
}

impl Client {
    /// Waits until the server has received all that was sent.
    pub(crate) fn wait_until_received(&self) {
        let mut left: libc::c_int = 1;
        while left > 0 {
            std::thread::yield_now();
            #[allow(unsafe_code)]
            // SAFETY: it writes to a live number.
            let asked =
                unsafe { libc::ioctl(self.stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut left) };
            assert_eq!(asked, 0, "{}", io::Error::last_os_error());
        }
    }

    pub(crate) fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(HANGS)).expect("a timeout");
        stream.set_write_timeout(Some(HANGS)).expect("a timeout");
        Self::over(stream)
    }

    /// Says that no more will come.
    pub(crate) fn close_sending(&self) {
        self.stream.shutdown(Shutdown::Write).ok();
    }
}

impl<S: Read + Write> Client<S> {
    /// On a stream that has its timeouts.
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, handle: 0, structured: false }
    }

    /// Agrees to the handshake.
    pub(crate) fn greet(&mut self, flags: u32) {
        assert_eq!(self.take(8), b"NBDMAGIC");
        assert_eq!(self.take(8), b"IHAVEOPT");
        assert_eq!(self.u16(), 3, "fixed newstyle, no zeroes");
        self.send(&flags.to_be_bytes());
    }

    /// A connection in transmission, with structured replies and `base:allocation`, or simple ones.
    pub(crate) fn ready(mut self, structured: bool) -> Self {
        self.greet(3);
        self.negotiated(structured)
    }

    /// As [`Client::ready`], after the greeting.
    pub(crate) fn negotiated(mut self, structured: bool) -> Self {
        if structured {
            assert_eq!(self.option(8, &[]).last().map(|reply| reply.kind), Some(ACK));
            let query = [&string(""), &1u32.to_be_bytes()[..], &string("base:allocation")];
            let contexts = self.option(10, &query.concat());
            assert_eq!(contexts.len(), 2, "{contexts:?}");
            self.structured = true;
        }
        let go = self.option(7, &go("", &[]));
        assert_eq!(go.last().map(|reply| reply.kind), Some(ACK));
        self
    }

    /// All replies to an option.
    pub(crate) fn option(&mut self, option: u32, data: &[u8]) -> Vec<OptionReply> {
        self.send_option(option, data);
        let mut replies = Vec::new();
        loop {
            let reply = self.option_reply();
            assert_eq!(reply.option, option);
            let last = reply.kind == ACK || reply.kind & ERR != 0;
            replies.push(reply);
            if last {
                return replies;
            }
        }
    }

    pub(crate) fn send_option(&mut self, option: u32, data: &[u8]) {
        let length = data.len() as u32;
        let option = [option.to_be_bytes(), length.to_be_bytes()].concat();
        self.send(&[b"IHAVEOPT", &option[..], data].concat());
    }

    pub(crate) fn option_reply(&mut self) -> OptionReply {
        assert_eq!(self.u64(), 0x0003_e889_0455_65a9);
        let (option, kind, length) = (self.u32(), self.u32(), self.u32());
        let data = self.take(length as usize);
        OptionReply { option, kind, data }
    }

    /// Sends a request's header, and returns its handle.
    pub(crate) fn request(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> u64 {
        self.handle += 1;
        let handle = self.handle;
        self.send(&header(command, flags, handle, offset, length));
        handle
    }

    pub(crate) fn chunk(&mut self) -> Chunk {
        let magic = self.u32();
        if magic == 0x6744_6698 {
            let error = self.u32();
            return Chunk { handle: self.u64(), done: true, content: Content::Simple(error) };
        }
        assert_eq!(magic, 0x668e_33ef);
        assert!(self.structured, "a chunk that was not agreed on");
        let (flags, kind) = (self.u16(), self.u16());
        let (handle, length) = (self.u64(), self.u32() as usize);
        let content = match kind {
            0 => Content::None,
            1 => Content::Data { offset: self.u64(), data: self.take(length - 8) },
            5 => Content::Status {
                context: self.u32(),
                extents: (0..(length - 4) / 8).map(|_| (self.u32(), self.u32())).collect(),
            },
            0x8001 => {
                let error = self.u32();
                let words = usize::from(self.u16());
                assert_eq!(words + 6, length);
                let text = String::from_utf8(self.take(words)).expect("words");
                Content::Error { error, text }
            }
            other => panic!("chunk type {other:#x}"),
        };
        Chunk { handle, done: flags & 1 != 0, content }
    }

    /// Reads, and puts the chunks together.
    pub(crate) fn read(&mut self, flags: u16, offset: u64, length: u32) -> Outcome {
        let handle = self.request(READ, flags, offset, length);
        self.outcome(handle, offset, length)
    }

    /// The result of a request, if there are no others.
    pub(crate) fn outcome(&mut self, handle: u64, start: u64, length: u32) -> Outcome {
        self.outcomes(&[handle], start, length).remove(0)
    }

    /// The results of requests of the same range, if there are no others.
    pub(crate) fn outcomes(&mut self, handles: &[u64], start: u64, length: u32) -> Vec<Outcome> {
        let none = Outcome { error: 0, data: vec![0; length as usize], pieces: 0 };
        let mut outcomes = vec![none; handles.len()];
        let mut left = handles.len();
        while left > 0 {
            let chunk = self.chunk();
            let at = handles.iter().position(|handle| *handle == chunk.handle);
            let outcome = &mut outcomes[at.expect("a handle that is waited for")];
            match chunk.content {
                Content::Simple(error) => {
                    outcome.error = error;
                    if error == 0 && length > 0 {
                        outcome.data = self.take(length as usize);
                        outcome.pieces = 1;
                    }
                }
                Content::Error { error, text } => {
                    assert!(!text.is_empty());
                    outcome.error = error;
                }
                Content::Data { offset, data } => {
                    let at = (offset - start) as usize;
                    outcome.data[at..at + data.len()].copy_from_slice(&data);
                    outcome.pieces += 1;
                }
                Content::None => {}
                Content::Status { .. } => panic!("a status that was not asked for"),
            }
            left -= usize::from(chunk.done);
        }
        outcomes
    }

    /// Writes, and returns the error or zero.
    pub(crate) fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> u32 {
        let handle = self.request(WRITE, flags, offset, data.len() as u32);
        self.send(data);
        self.outcome(handle, 0, 0).error
    }

    /// Sends a request without payload or data, and returns the error or zero.
    pub(crate) fn command(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> u32 {
        let handle = self.request(command, flags, offset, length);
        self.outcome(handle, 0, 0).error
    }

    /// Sends as much as the server takes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes it");
    }

    /// Everything until the server closes, however it does that.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                panic!("the server does not close")
            }
            Ok(_) | Err(_) => rest,
        }
    }

    pub(crate) fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).expect("the server says more");
        bytes
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().expect("two bytes"))
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().expect("eight bytes"))
    }
}

pub(crate) fn header(command: u16, flags: u16, handle: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut header = 0x2560_9513u32.to_be_bytes().to_vec();
    header.extend(flags.to_be_bytes());
    header.extend(command.to_be_bytes());
    header.extend(handle.to_be_bytes());
    header.extend(offset.to_be_bytes());
    header.extend(length.to_be_bytes());
    header
}

/// A string as options have it.
pub(crate) fn string(text: &str) -> Vec<u8> {
    let length = (text.len() as u32).to_be_bytes();
    [&length, text.as_bytes()].concat()
}

/// The data of INFO and GO.
pub(crate) fn go(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((wanted.len() as u16).to_be_bytes());
    data.extend(wanted.iter().flat_map(|wanted| wanted.to_be_bytes()));
    data
}
