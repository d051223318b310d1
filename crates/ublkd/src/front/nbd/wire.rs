//! The messages of the protocol, as in the NBD project's `proto.md`. Numbers are big-endian. A
//! request has 28 bytes, and a write is followed by its payload.

use raidcore::engine::RequestError;

/// The first bytes of a server.
pub(super) const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// The next ones, for the newstyle negotiation; they also begin each option.
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Begins each reply to an option.
pub(super) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags of the server, and the flags with which a client agrees to them.
pub(super) mod handshake {
    pub(crate) const FIXED_NEWSTYLE: u16 = 1;
    pub(crate) const NO_ZEROES: u16 = 1 << 1;
}

/// Options of a client.
pub(super) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options.
pub(super) mod reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    pub(crate) const ERR_UNSUPPORTED: u32 = (1 << 31) + 1;
    pub(crate) const ERR_POLICY: u32 = (1 << 31) + 2;
    pub(crate) const ERR_INVALID: u32 = (1 << 31) + 3;
    pub(crate) const ERR_TLS_REQUIRED: u32 = (1 << 31) + 5;
    pub(crate) const ERR_UNKNOWN: u32 = (1 << 31) + 6;
}

/// Information on an export that a client can request.
pub(super) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Capabilities of an export.
pub(super) mod transmission {
    pub(crate) const HAS_FLAGS: u16 = 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const SEND_DF: u16 = 1 << 7;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(crate) const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Flags of a request.
pub(super) mod flag {
    pub(crate) const FUA: u16 = 1;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
    pub(crate) const REQ_ONE: u16 = 1 << 3;
    pub(crate) const FAST_ZERO: u16 = 1 << 4;
}

/// The flag of a request's last chunk.
const DONE: u16 = 1;

mod chunk {
    pub(super) const NONE: u16 = 0;
    pub(super) const OFFSET_DATA: u16 = 1;
    pub(super) const BLOCK_STATUS: u16 = 5;
    pub(super) const ERROR: u16 = (1 << 15) + 1;
}

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    WriteZeroes,
    BlockStatus,
    /// Unknown to this server.
    Other(u16),
}

/// A request, without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) flags: u16,
    pub(super) command: Command,
    /// The client's name for the request.
    pub(super) handle: u64,
    /// In bytes, as the length.
    pub(super) offset: u64,
    pub(super) length: u32,
}

impl Header {
    pub(super) const BYTES: usize = 28;

    /// `None` if this is no request.
    pub(super) fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut rest = Bytes(bytes);
        if rest.u32()? != REQUEST_MAGIC {
            return None;
        }
        let flags = rest.u16()?;
        let command = match rest.u16()? {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            other => Command::Other(other),
        };
        Some(Self { flags, command, handle: rest.u64()?, offset: rest.u64()?, length: rest.u32()? })
    }
}

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Errno {
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    Overflow = 75,
    NotSupported = 95,
    Shutdown = 108,
}

impl Errno {
    /// For a person.
    fn text(self) -> &'static str {
        match self {
            Self::Io => "more failed than the array's redundancy makes up for",
            Self::Invalid => "not a request for this array: see its size, block size and flags",
            Self::NoSpace => "the request reaches past the end of the array",
            Self::Overflow => "more than 32 MiB at once",
            Self::NotSupported => "zeroing this would be no faster than writing it",
            Self::Shutdown => "the server is stopping",
        }
    }
}

impl From<RequestError> for Errno {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::OutOfRange => Self::Invalid,
            RequestError::Io => Self::Io,
            RequestError::Stopping => Self::Shutdown,
        }
    }
}

/// A reply or chunk without its data: a few numbers, and perhaps a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    numbers: [u8; 32],
    length: usize,
    text: &'static str,
}

impl Head {
    /// A reply without chunks; zero means success, and the data of a read follow.
    pub(super) fn simple(handle: u64, error: Option<Errno>) -> Self {
        Self::new().u32(SIMPLE_REPLY_MAGIC).u32(error.map_or(0, |error| error as u32)).u64(handle)
    }

    /// The end of a request whose chunks were all sent.
    pub(super) fn none(handle: u64) -> Self {
        Self::chunk(DONE, chunk::NONE, handle, 0)
    }

    /// `length` bytes of data, from `offset` of the export, follow.
    pub(super) fn data(handle: u64, done: bool, offset: u64, length: u32) -> Self {
        let flags = if done { DONE } else { 0 };
        Self::chunk(flags, chunk::OFFSET_DATA, handle, 8 + length).u64(offset)
    }

    /// The last chunk of a request that failed.
    pub(super) fn error(handle: u64, error: Errno) -> Self {
        let text = error.text();
        let words = text.len() as u16;
        let mut head = Self::chunk(DONE, chunk::ERROR, handle, 6 + u32::from(words))
            .u32(error as u32)
            .u16(words);
        head.text = text;
        head
    }

    /// The same as a chunk that is not the last one.
    pub(super) fn not_last(mut self) -> Self {
        self.numbers[4..6].copy_from_slice(&0u16.to_be_bytes());
        self
    }

    /// All of `length` bytes are data, as far as the context says.
    pub(super) fn all_data(handle: u64, context: u32, length: u32) -> Self {
        Self::chunk(DONE, chunk::BLOCK_STATUS, handle, 12).u32(context).u32(length).u32(0)
    }

    /// The numbers' bytes and the text's.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [&self.numbers[..self.length], self.text.as_bytes()]
    }

    fn new() -> Self {
        Self { numbers: [0; 32], length: 0, text: "" }
    }

    fn chunk(flags: u16, kind: u16, handle: u64, length: u32) -> Self {
        Self::new().u32(CHUNK_MAGIC).u16(flags).u16(kind).u64(handle).u32(length)
    }

    fn u16(self, value: u16) -> Self {
        self.put(&value.to_be_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.put(&value.to_be_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.put(&value.to_be_bytes())
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        let end = self.length + bytes.len();
        self.numbers[self.length..end].copy_from_slice(bytes);
        self.length = end;
        self
    }
}

/// Bytes of a message, to be taken from the front; `None` where they don't suffice.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string: 32 bits that count its bytes, and these.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        let (string, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(string)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(head: Head) -> Vec<u8> {
        head.parts().concat()
    }

    #[test]
    fn a_chunk_says_how_long_it_is() {
        let length = |head: &[u8]| u32::from_be_bytes(head[16..20].try_into().unwrap()) as usize;
        let error = bytes(Head::error(7, Errno::Io));
        assert_eq!(error.len(), 20 + length(&error));
        let status = bytes(Head::all_data(7, 1, 4096));
        assert_eq!(status.len(), 20 + length(&status));
        let data = bytes(Head::data(7, true, 0, 4096));
        assert_eq!(data.len() + 4096, 20 + length(&data));
        let early = bytes(Head::error(7, Errno::Io).not_last());
        assert_eq!(
            (&early[..4], &early[4..6], &early[6..]),
            (&error[..4], &[0, 0][..], &error[6..])
        );
        assert_eq!(bytes(Head::none(7)).len(), 20);
        assert_eq!(bytes(Head::simple(7, None)).len(), 16);
    }

    #[test]
    fn only_a_request_is_one() {
        let mut request = [0; Header::BYTES];
        assert_eq!(Header::decode(&request), None);
        request[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        request[7] = 6;
        request[15] = 9;
        request[27] = 8;
        let header = Header::decode(&request).expect("a request");
        assert_eq!(header.command, Command::WriteZeroes);
        assert_eq!((header.handle, header.offset, header.length), (9, 0, 8));
    }

    #[test]
    fn a_string_ends_within_its_message() {
        assert_eq!(Bytes(&[0, 0, 0, 2, b'a', b'b', 9]).string(), Some(&b"ab"[..]));
        assert_eq!(Bytes(&[0, 0, 0, 2, b'a']).string(), None);
        assert_eq!(Bytes(&[255, 255, 255, 255, b'a']).string(), None);
        assert_eq!(Bytes(&[0, 0, 0]).string(), None);
    }
}
